"""Catapults improve no features where all input directions matter equally.

The target is f* = ‖x‖/√d, whose expected gradient outer product is I/d²: no direction is better
than another. A two-layer network learns it from about as many samples as there are inputs, by
gradient descent with k = 0, 1, ... catapults, to one training loss. The features do not come closer
to the target's. The test loss the source has unimproved, too; here the first catapult lowers it by
a quarter, because it removes the output of the random initial network, and more of them do not.

η is raised as the source raises it, in units of η_crit at the start; with `schedule="adaptive"` to
1.2 η_crit(t), when the loss is back from the last raise.

The networks learn little: ‖x‖/√d hardly varies, and none comes near the best constant prediction.

Source: zhu · full-rank-control · Fig. C.17; zhu · agop · Eqs 4.5–4.6.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import numpy as np
from jaxtyping import Array, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, median_at_least, median_at_most, probability_at_least
from theorylab.data.polynomials import polynomial_moments
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Plural
from theorylab.progress import report
from theorylab.typing import RandomKey

from . import _catapults as catapults
from ._catapults import CatapultConfig, Descents, Measurement, Schedule
from ._polynomials import NOT_KEPT

PRECISION = "float32"
FORMULA = r"f^* = \|x\|/\sqrt d, \quad G^* = I/d^2"

FULL = Source("zhu", "full-rank-control", "Fig. C.17")
NOISE = 0.1  # of all targets
# The source raises η from 6 to 7, 12, 40, 80 where η_crit(0) = 5.95.
SCHEDULE = Schedule(
    rates=tuple(rate / 5.95 for rate in (6, 7, 12, 40, 80)), boundaries=(30, 120, 180, 280)
)


@dataclass(frozen=True)
class Config(CatapultConfig):
    """Gradient descent with catapults on a target of all directions."""

    num_seeds: Plural = 24  # data and networks, at least 6 to conclude
    dimension: Plural = 100  # of the inputs, d
    num_train: Plural = 128  # training samples, n
    width: Plural = 512  # of the hidden layer
    schedule: Literal["source", "adaptive"] = "source"  # when η is raised, and how far
    max_steps: Plural = 3000  # of gradient descent

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.raises) < 3 or self.raises[1] != 1:
            raise ValueError(f"raises must begin with 0, 1 and go on, got {self.raises}.")
        if self.schedule == "source":
            SCHEDULE.require(self.raises)


PRESETS = {
    "smoke": Config(num_test=300, width=256, raises=(0, 1, 2), max_steps=1000, num_seeds=12),
    "paper": Config(
        num_test=2000, width=1024, raises=(0, 1, 2, 3, 4), target=1e-3, max_steps=10_000
    ),
}


def memory(config: Config) -> int:
    """Bytes of two runs at once, and of the losses of all runs."""
    return catapults.bytes_of(config, config.num_seeds * len(config.raises))


def run(config: Config) -> Descents:
    """Descend with every number of raises."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    report(f"gradient descent, k = {', '.join(map(str, config.raises))}", 0.0)
    return catapults.descend_each(partial(_descent, config), (keys,), config.raises)


def _descent(config: Config, key: RandomKey, num_raises: Int[Array, ""]) -> Measurement:
    problem = catapults.pose(key, config, "full")
    if config.schedule == "adaptive":
        return catapults.catapulted(problem, num_raises, config, watch_test=True)
    return catapults.listed_descent(problem, num_raises, config, SCHEDULE, watch_test=True)


def _constant(config: Config) -> float:
    """The test loss of the best constant."""
    return polynomial_moments("full", config.dimension).variance + NOISE**2


def _kept(result: Descents, values: np.ndarray) -> np.ndarray:
    """A measure in the seeds in which no run was thrown so far that it did not come back."""
    return values[result.reached.all(axis=1)]


def _closer(result: Descents, config: Config) -> np.ndarray:
    """How much the best alignment with two catapults or more is above that without."""
    alignment = _kept(result, result.alignment)
    return alignment[:, np.array(config.raises) >= 2].max(axis=1) - alignment[:, 0]


def _fall(result: Descents, first: int) -> np.ndarray:
    """By which part the best test loss falls from the first number of catapults to the last."""
    best = _kept(result, result.best_test)
    return 1 - best[:, -1] / best[:, first]


NO_GAIN = "catapults do not improve the test performance or the AGOP alignment"

CLAIMS = (
    FULL.claim(
        "Two and more catapults bring the features no closer to those of the target.",
        lambda r, c: median_at_most(_closer(r, c), 0.02),
        formula=r"\cos_k \le \cos_0 + 0.02",
        quote=NO_GAIN,
        demand=NOT_KEPT,
    ),
    FULL.claim(
        "Catapults do not improve the test performance: from none to the last the best test loss"
        " falls by less than 5 %.",
        lambda r, c: median_at_most(_fall(r, 0), 0.05),
        quote=NO_GAIN,
        expected="refuted",
        why="the first catapult removes the output of the random initial network, which is most of"
        " the test loss. The source has one run of a validation loss, without a number.",
        demand=NOT_KEPT,
    ),
    FULL.found(
        "From the first catapult to the last, the best test loss falls by less than 5 %.",
        lambda r, c: median_at_most(_fall(r, 1), 0.05),
        demand="lab: with the source's schedule the best test loss is reached early; after adaptive"
        " raises it varies by a third from seed to seed",
    ),
    FULL.found(
        "No network comes near the best constant: even the best test loss is twice as large.",
        lambda r, c: median_at_least(r.best_test.min(axis=1) / _constant(c), 2.0),
        demand=NOT_KEPT,
    ),
    FULL.control(
        "The raises are catapults: the loss spikes at 70 % of them or more, and not without.",
        lambda r, c: median_at_least(
            np.where(r.spikes[:, 0] == 0, r.spikes[:, -1] / c.raises[-1], 0.0), 0.7
        ),
        demand="lab: with seeds 0, 101 and 102 the fourth raise makes no spike",
    ),
    FULL.check(
        "Runs are compared at the same training loss: four in five, at least, reach it.",
        lambda r, c: probability_at_least(r.reached.sum(), r.reached.size, 0.8),
        demand="lab: on seed 101 four of 96 runs were thrown too far by the last raise",
    ),
)


def plot(result: Descents, config: Config) -> Figure:
    """Test loss and alignment over the number of raises."""
    figure, (test, alignment) = panels("best test loss", "alignment with G*")
    catapults.over_raises(test, config.raises, {"gradient descent": result.best_test})
    catapults.over_raises(alignment, config.raises, {"gradient descent": result.alignment})
    test.set_yscale("log")
    test.axhline(_constant(config), **THEORY)
    return figure
