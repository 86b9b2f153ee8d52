"""`examine`: every measure asked about one network, within a time, and the card of it."""

import time
from collections.abc import Iterable
from typing import Any, Unpack

import jax

from theorylab.lab.requests import nearest
from theorylab.progress import as_part, report
from theorylab.typing import Apply, Inputs, Params, RandomKey

from .card import Card
from .measure import Measure, row_of
from .rows import MEASURES
from .rules import verdict_of
from .subject import Known, Subject, subject_of


def examine(
    apply: Apply,
    params: Params,
    x: Inputs,
    y: Any,
    *,
    key: RandomKey | None = None,
    only: Iterable[str] | None = None,
    force: Iterable[str] = (),
    **known: Unpack[Known],
) -> Card:
    """Say what theory says about a network: which regime it is in, and how far from the next.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs.
        params: Its parameters, a tree of floating arrays.
        x: Inputs that it is trained on, all or a batch of them.
        y: Targets: class numbers (n,), values or probabilities (n, k).
        key: Draws samples and probes; `jax.random.key(0)` unless told otherwise.
        only: Names of the rows to compute; by default all.
        force: Names of rows to compute on all inputs, however long they take.
        **known: What else is known: `loss=`, `learning_rate=`, `optimizer=`, `optimizer_state=`,
            `momentum=`, `batch_size=`, `initial_params=`, `checkpoint=`, `by_width=`, `x_test=`,
            `y_test=`, `outputs=` and `budget=`; `Known` says what each is.

    Example:
        >>> import jax.numpy as jnp
        >>> line = lambda w, x: x @ w
        >>> x = jnp.eye(4)
        >>> card = examine(line, jnp.ones((4, 1)), x, x[:, 0], loss="mse", only=["sharpness"])
        >>> round(card.reading("sharpness").value, 4)  # 2/n
        0.5
    """
    start = time.perf_counter()
    measures = MEASURES if only is None else named("only", only)
    key = jax.random.key(0) if key is None else key
    forced = frozenset(named("force", force))
    subject = subject_of(apply, params, x, y, key, force=forced, **known)
    return card_of(subject, measures, start)


def named(option: str, names: Iterable[str]) -> dict[str, Measure]:
    """The measures with these names, in the order of the card.

    Args:
        option: Which option has the names.
        names: Of measures.

    Example:
        >>> list(named("only", ["sharpness"]))
        ['sharpness']
    """
    try:
        names = [names] if isinstance(names, str) else list(names)
    except TypeError:
        got = f"a {type(names).__name__}"
        raise TypeError(f"{option} must be a list of names of rows, got {got}.") from None
    if unknown := [name for name in names if name not in MEASURES]:
        known, offer = ", ".join(MEASURES), nearest(str(unknown[0]), MEASURES)
        raise ValueError(f"{option} must name rows out of {known}, got {unknown[0]!r}.{offer}")
    if not names and option == "only":
        raise ValueError("only must name at least one row, got none.")
    return {name: measure for name, measure in MEASURES.items() if name in names}


def card_of(subject: Subject, measures: dict[str, Measure], start: float) -> Card:
    """The card of a subject that was checked.

    Args:
        subject: The network.
        measures: What to read off it.
        start: When the check-up began, by `time.perf_counter`.
    """
    rows = []
    for done, measure in enumerate(measures.values()):
        report(measure.title, done / len(measures))
        with as_part(measure.title, done / len(measures), 1 / len(measures)):
            rows.append(row_of(measure, subject))
    about: dict[str, str | float] = {
        "parameters": float(subject.num_params),
        "inputs": float(subject.num_inputs),
        "outputs": float(subject.num_outputs),
        "loss": f"{subject.loss.kind}, {subject.loss.normalization}",
        "seconds": time.perf_counter() - start,
    }
    return Card(tuple(rows), verdict_of(rows), about)
