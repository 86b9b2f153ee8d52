"""`examine`: every measure asked about one network, within a time, and the card of it."""

import time
from collections.abc import Iterable
from typing import Any

import jax

from theorylab.training import Loss
from theorylab.typing import Apply, Inputs, Params, RandomKey, Reduction

from .card import Card
from .measure import Measure, Row
from .rows import curvature
from .subject import Subject, subject_of

MEASURES: tuple[Measure, ...] = (*curvature.MEASURES,)  # in the card's order


def examine(
    apply: Apply,
    params: Params,
    x: Inputs,
    y: Any,
    *,
    loss: str | Loss = "cross_entropy",
    learning_rate: float | None = None,
    outputs: Reduction | None = None,
    key: RandomKey | None = None,
    force: Iterable[str] = (),
    **known: Any,
) -> Card:
    """Say what theory says about a network: which regime it is in, and how far from the next.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs.
        params: Its parameters, a tree of floating arrays.
        x: Inputs, a batch of those it is trained on.
        y: Targets: class numbers (n,), values or probabilities (n, k).
        loss: "cross_entropy", "mse" or "logistic", or a `Loss`.
        learning_rate: The rate that it is trained with.
        outputs: What reduces the outputs to (n, k), if they are not.
        key: Draws samples and probes; `jax.random.key(0)` unless told otherwise.
        force: Names of rows to compute however long they take.
        **known: Other fields of `Subject`.
    """
    start = time.perf_counter()
    key = jax.random.key(0) if key is None else key
    given = {"loss": loss, "learning_rate": learning_rate, "outputs": outputs, **known}
    subject = subject_of(apply, params, x, y, key, **given)
    rows = tuple(row_of(measure, subject, frozenset(force)) for measure in MEASURES)
    about = {"parameters": float(subject.num_params), "inputs": float(subject.num_inputs)}
    return Card(rows, (), {**about, "seconds": time.perf_counter() - start})


def row_of(measure: Measure, subject: Subject, force: frozenset[str]) -> Row:
    """The row of one measure: it never raises."""
    words = (measure.name, measure.group, measure.title, measure.experiment)
    missing = [name for name in measure.needs if getattr(subject, name) is None]
    if missing:
        return Row(*words, "missing", reason=f"pass {', '.join(missing)}=")
    start = time.perf_counter()
    try:
        reading = measure.read(subject)
    except Exception as error:  # one row that fails must not cost the others
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return Row(*words, "failed", reason=reason)
    return Row(*words, "measured", reading, seconds=time.perf_counter() - start)
