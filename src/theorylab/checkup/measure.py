"""A measure reads one number off a subject; a row is that number, or why there is none.

- `Measure`: what is measured, what it needs, how long it takes, which experiment shows it
- `Reading`: what it found: value, interval, how certain, what theory says about it
- `Row`: a reading with its measure's words and its cost; or "missing", "skipped", "failed"
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .subject import Subject

Status = Literal["measured", "missing", "skipped", "failed"]
# How certain a reading is: "exact" to rounding; "certified" by a bound that holds, for eigenvalues
# except with probability 10⁻³; "95 %" by a confidence interval; "estimate": without an error.
Certainty = Literal["exact", "certified", "95 %", "estimate"]


@dataclass(frozen=True, eq=False)
class Reading:
    """What a measure found."""

    value: float
    low: float
    high: float
    certainty: Certainty
    method: str  # how it was computed, with sizes: "20 Hessian products, 1,000 inputs"
    meaning: str  # what theory says about this number, for this network: one plain sentence
    products: int = 0  # Hessian- or kernel–vector products
    curve: Mapping[str, np.ndarray] = field(default_factory=dict)  # what a figure of it draws
    labels: Mapping[str, float | str] = field(default_factory=dict)  # further numbers, by name


@dataclass(frozen=True)
class Measure:
    """Something that can be read off a network, and what it takes."""

    name: str  # "sharpness": how a user asks for it
    group: str  # the heading under which the card shows it
    title: str  # "sharpness λ_max(∇²L)"
    read: Callable[[Subject], Reading]
    experiment: str  # the name of the experiment that shows what it means
    needs: tuple[str, ...] = ()  # fields of the subject that may be missing
    seconds: Callable[[Subject], float] | None = None  # about how long it takes; None: not long


@dataclass(frozen=True, eq=False)
class Row:
    """A line of the card."""

    name: str
    group: str
    title: str
    experiment: str
    status: Status
    reading: Reading | None = None
    seconds: float = 0.0
    reason: str = ""  # why there is no reading: what to pass, or which flag forces it
