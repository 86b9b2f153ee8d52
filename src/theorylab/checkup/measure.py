"""A measure reads one number off a subject; a row is that number, or why there is none.

- `Measure`: what is measured, what it needs, what theory it belongs to, which experiment shows it
- `Reading`: what it found: value, interval, how certain, what theory says about it
- `Row`: a reading with its measure's words and its cost; or "missing", "skipped", "failed"
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from theorylab.claims import Source

from .subject import Subject

Status = Literal["measured", "missing", "skipped", "failed"]
# How certain a reading is: "exact" to rounding; "certified" by a bound that holds, for eigenvalues
# except with probability 10⁻³; "95 %" by a confidence interval; "estimate": without an error.
Certainty = Literal["exact", "certified", "95 %", "estimate"]
# "learning rate": is it stable, and at which edge; "curvature": the Hessian's spectrum; "kernel":
# the tangent kernel, and whether the network is lazy; "features": what it looks at; "width": how it
# is scaled; "generalization": fit, margins, bounds.
Group = Literal["learning rate", "curvature", "kernel", "features", "width", "generalization"]


class Skipped(Exception):
    """A measure would take too long, or does not apply; its row says why.

    Example:
        >>> str(Skipped("the network has no layer with weights"))
        'the network has no layer with weights'
    """


@dataclass(frozen=True, eq=False)
class Reading:
    """What a measure found.

    Example:
        >>> Reading(2.0, 1.9, 2.1, "95 %", "20 random probes", "it is small").value
        2.0
    """

    value: float
    low: float
    high: float
    certainty: Certainty
    method: str  # how it was computed, with sizes: "20 Hessian products, 1,000 inputs"
    meaning: str  # what theory says about this number, for this network: one plain sentence
    products: int = 0  # Hessian- or kernel–vector products
    details: Mapping[str, float | str] = field(default_factory=dict)  # further numbers, by name
    curves: Mapping[str, np.ndarray] = field(
        default_factory=dict
    )  # what `draw` of its measure draws


@dataclass(frozen=True)
class Measure:
    """Something that can be read off a network, and what it takes.

    Example:
        >>> from theorylab.checkup.rows.learning import MEASURES
        >>> MEASURES[0].name
        'sharpness'
    """

    name: str  # "sharpness": how a user asks for it
    group: Group  # the heading under which the card shows it
    title: str  # "sharpness λ_max(∇²L)": at most 50 letters
    read: Callable[[Subject], Reading]
    source: Source  # the theorem or definition that explains it
    experiment: str  # the name of the experiment that shows what it means
    needs: tuple[str, ...] = ()  # fields of the subject that may be missing
    draw: Callable[[Reading, Any], None] | None = None  # on axes of matplotlib


@dataclass(frozen=True, eq=False)
class Row:
    """A line of the card.

    Example:
        >>> from theorylab.checkup.rows.learning import MEASURES
        >>> Row(MEASURES[0], "skipped", reason="it would take an hour").reading is None
        True
    """

    measure: Measure
    status: Status
    reading: Reading | None = None
    seconds: float = 0.0
    reason: str = ""  # why there is no reading: what to pass, or which flag forces it

    @property
    def name(self) -> str:
        """The name of what is measured."""
        return self.measure.name


def row_of(measure: Measure, subject: Subject) -> Row:
    """The row of one measure; a measure that fails is a row too, and costs the others nothing.

    Args:
        measure: What to read.
        subject: The network.
    """
    missing = [name for name in measure.needs if getattr(subject, name) is None]
    if missing:
        return Row(measure, "missing", reason=f"pass {', '.join(f'{name}=' for name in missing)}")
    start = time.perf_counter()
    try:
        reading = measure.read(subject)
    except Skipped as why:
        return Row(measure, "skipped", seconds=time.perf_counter() - start, reason=str(why))
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return Row(measure, "failed", seconds=time.perf_counter() - start, reason=reason)
    return Row(measure, "measured", reading, time.perf_counter() - start)
