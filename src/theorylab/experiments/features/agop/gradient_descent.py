"""Catapults of gradient descent improve its features and lower its test loss.

Gradient descent with a learning rate above the critical one, η > η_crit, throws the loss up; the
network lands where its tangent kernel is smaller, η_crit is larger, and the loss comes back: a
catapult. Raising η again gives another. Here a two-layer network learns y = x₁x₂ + noise of many
inputs, with k = 0, 1, 2, ... catapults; whatever k is, training ends at the same training loss.
The more catapults, the closer the network's average gradient outer product G is to the target's.

η is raised to 1.2 η_crit(t) when the loss is back from the last raise. With `schedule="source"` the
first k raises of the source's own list are taken instead, at its steps, in units of η_crit at the
start. That list suits the size at which it was made (that of the preset `paper`); smaller networks
diverge with it. The same is seen in PyTorch's own parametrization (with biases, and without
1/√fan-in), where η is always raised to 1.2 η_crit(t): no raises and most of them are compared.

Source: zhu · agop-gd · Fig. 4.8, C.13, C.15; zhu · agop · Eqs 4.5–4.6; zhu · torch-param · C.18.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, median_at_least, median_at_most, ordered
from theorylab.data import polynomial_agop
from theorylab.experiments.drawing import image, panels
from theorylab.fields import Plural
from theorylab.numerics import rank_correlations
from theorylab.progress import report
from theorylab.typing import RandomKey

from . import _catapults as catapults
from ._catapults import CatapultConfig, Descents, Measurement, Schedule
from ._polynomials import CORNER, NOT_KEPT, Convention

PRECISION = "float32"
FORMULA = r"k \uparrow \;\Rightarrow\; \cos(G, G^*) \uparrow, \; L_{test} \downarrow"

GD = Source("zhu", "agop-gd", "Fig. 4.8")
TORCH = Source("zhu", "torch-param", "Fig. C.18")
# The source raises η from 3 to 8, 16, ..., 80 where η_crit(0) = 6.15.
SCHEDULE = Schedule(
    rates=tuple(rate / 6.15 for rate in (3, 8, 16, 30, 50, 75, 80)),
    boundaries=(50, 150, 220, 280, 350, 400),
)


@dataclass(frozen=True)
class Config(CatapultConfig):
    """Gradient descent on x₁x₂ with a given number of catapults, to one training loss."""

    dimension: Plural = 50  # of the inputs, d
    num_train: Plural = 500  # training samples, n
    schedule: Literal["adaptive", "source"] = "adaptive"  # when η is raised, and how far

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.raises) < 3:
            raise ValueError(f"raises must be three or more, got {self.raises}.")
        if self.schedule == "source":
            SCHEDULE.require(self.raises)


PRESETS = {
    "smoke": Config(
        dimension=20, num_train=200, num_test=300, width=128, raises=(0, 1, 2), max_steps=1500
    ),
    "paper": Config(
        dimension=100,
        num_train=2000,
        num_test=5000,
        width=1024,
        raises=(0, 1, 2, 4, 6),
        schedule="source",
        target=1e-3,
        max_steps=10_000,
    ),
}


class Result(NamedTuple):
    """Runs with every number of raises; in PyTorch's parametrization with none and with most."""

    ntk: Descents
    torch: Descents


def memory(config: Config) -> int:
    """Bytes of two runs at once, and of the losses of all runs."""
    return catapults.bytes_of(config, config.num_seeds * (len(config.raises) + 2))


def run(config: Config) -> Result:
    """Descend with every number of raises."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    report(f"gradient descent, k = {', '.join(map(str, config.raises))}", 0.0)
    ntk = catapults.descend_each(partial(_descent, "ntk", config), (keys,), config.raises)
    report("the same in PyTorch's parametrization", 0.7)
    ends = (config.raises[0], config.raises[-1])
    return Result(ntk, catapults.descend_each(partial(_descent, "torch", config), (keys,), ends))


def _descent(
    convention: Convention, config: Config, key: RandomKey, num_raises: Int[Array, ""]
) -> Measurement:
    problem = catapults.pose(key, config, convention=convention)
    if config.schedule == "adaptive" or convention == "torch":
        return catapults.catapulted(problem, num_raises, config)
    return catapults.listed_descent(problem, num_raises, config, SCHEDULE)


def _ranked(result: Result, values: np.ndarray) -> np.ndarray:
    """Spearman's correlation of the number of spikes with a measure, seed by seed."""
    return rank_correlations(result.ntk.spikes.astype(float), values)


def _left(result: Result) -> np.ndarray:
    """What is left to the limits of test loss and alignment, with most raises, seed by seed."""
    test, alignment = result.ntk.test, result.ntk.alignment
    margins = (0.25 - test[:, -1], test[:, 0] - 0.6, alignment[:, -1] - 0.95)
    return np.min(margins, axis=0)


FALLS = "the test loss/error decreases as the number of catapults increases while AGOP alignment"

# Catapults are counted as the spikes that happened, not as raises.
CLAIMS = (
    GD.claim(
        "The more catapults, the lower the test loss, in nearly every seed.",
        lambda r, c: median_at_most(_ranked(r, r.ntk.test), -0.9),
        formula=r"\rho(k, L_{test}) \le -0.9",
        quote=FALLS,
        demand=NOT_KEPT,
    ),
    GD.claim(
        "The more catapults, the closer the features to those of the target.",
        lambda r, c: median_at_least(_ranked(r, r.ntk.alignment), 0.9),
        formula=r"\rho(k, \cos(G, G^*)) \ge 0.9",
        quote=FALLS,
        demand=NOT_KEPT,
    ),
    GD.found(
        "With the source's six raises, at its size, the test loss falls from above 0.6 to below"
        " 0.25 and the alignment is above 0.95.",
        lambda r, c: median_at_least(_left(r), 0.0),
        formula=r"L_{test}(6) < 0.25, \quad L_{test}(0) > 0.6, \quad \cos(G_6, G^*) > 0.95",
        regime="schedule == 'source' and num_train >= 2000 and raises[-1] == 6",
        demand="lab: one run at this size had 0.90, 0.15 and 0.987",
    ),
    GD.check(
        "Nearly every raise of the learning rate is a catapult: the loss spikes.",
        lambda r, c: median_at_least(r.ntk.spikes[:, -1] / c.raises[-1], 0.7),
        demand=NOT_KEPT,
    ),
    TORCH.found(
        "In PyTorch's parametrization, too, the test loss falls with the raises.",
        lambda r, c: ordered(r.torch.test[:, 1], r.torch.test[:, 0]),
    ),
    TORCH.found(
        "There, too, the features come closer to those of the target.",
        lambda r, c: ordered(r.torch.alignment[:, 0], r.torch.alignment[:, 1]),
    ),
    GD.check(
        "All runs are compared at the same training loss, which they all reach.",
        lambda r, c: at_least(min(r.ntk.reached.mean(), r.torch.reached.mean()), 1.0),
    ),
    GD.control(
        "Below the critical learning rate the loss never spikes.",
        lambda r, c: median_at_most(r.ntk.spikes[:, 0].astype(float), 0.0),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Losses and alignment over the number of raises, and G without and with most of them."""
    corners = {
        f"G, k = {config.raises[0]}": result.ntk.corner[0],
        f"G, k = {config.raises[-1]}": result.ntk.corner[-1],
        "G*": polynomial_agop(2, config.dimension)[:CORNER, :CORNER],
    }
    figure, (loss, test, alignment, *rest) = panels(
        "training loss", "test loss", "alignment cos(G, G*)", *corners
    )
    catapults.training_losses(
        loss, result.ntk.losses, [f"k = {number}" for number in config.raises]
    )
    catapults.over_raises(test, config.raises, {"gradient descent": result.ntk.test})
    catapults.over_raises(alignment, config.raises, {"gradient descent": result.ntk.alignment})
    for axis, corner in zip(rest, corners.values(), strict=True):
        image(axis, np.asarray(corner))
    return figure
