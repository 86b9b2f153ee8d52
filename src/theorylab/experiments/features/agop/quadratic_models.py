"""Does a catapult improve the features of a quadratic model too?

The quadratic model f_quad of a network is its Taylor expansion to second order in the weights,
around the weights where training begins. It is the simplest model that catapults. Whether it also
learns features when it does is asked as an open question; here it is measured: a two-layer network
and its quadratic model learn y = x₁x₂ + noise by gradient descent, from the same weights and on
the same data, with k = 0, 1, 2 raises of the learning rate, to the same training loss. The answer
is yes: the alignment of the quadratic model rises with every catapult, as that of the network does,
from a lower level.

Source: zhu · ext-* · Ch. 5 (ext-nqm-agop); zhu · taylor-models · Eqs 3.1–3.2; zhu · agop-gd ·
Fig. 4.8.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_least, at_most, median_at_least, ordered
from theorylab.data import polynomial_agop
from theorylab.experiments.checks import refuse_below
from theorylab.experiments.drawing import panels
from theorylab.experiments.features.agop._catapult_descent import Measurement, spikes_of
from theorylab.experiments.features.agop._polynomial_catapults import (
    catapulted,
    descend_each,
    drawn,
)
from theorylab.models import mlp, network, quadratize
from theorylab.progress import report

PRECISION = "float32"
FORMULA = r"f_{quad} = f + \Delta^\top \nabla f + \tfrac12 \Delta^\top H_f \Delta"

OPEN = Source("zhu", "ext-*", "Ch. 5")
TAYLOR = Source("zhu", "taylor-models", "Eq. 3.2")
MODELS = ("network", "quadratic model")


@dataclass(frozen=True)
class Config:
    """A network and its quadratic model on x₁x₂, with and without catapults."""

    dimension: int = 20  # of the inputs, d
    num_train: int = 200  # training samples, n
    num_test: int = 1000  # test samples
    width: int = 256  # of the hidden layer
    numbers: tuple[int, ...] = (0, 1, 2)  # of raises of the learning rate, k
    factor: float = 1.2  # η/η_crit at a raise
    target: float = 0.05  # the training loss to reach
    max_steps: int = 2000  # of gradient descent
    num_seeds: int = 6  # independent data and networks, at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_below(self, 1, "num_seeds")
        refuse_below(self, 2, "dimension", "num_train", "num_test", "width", "max_steps")
        if len(self.numbers) < 2 or self.numbers[0] != 0 or min(self.numbers[1:]) < 1:
            raise ValueError(f"numbers must begin with 0 and go on, got {self.numbers}.")
        if not self.factor > 1:
            raise ValueError(f"factor must be above 1 to catapult, got {self.factor}.")
        if not self.target > 0 or self.num_seeds < 1:
            raise ValueError(f"target must be positive and seeds at least 1, got {self.target}.")


PRESETS = {
    "smoke": Config(dimension=15, num_train=150, num_test=100, width=128, numbers=(0, 1)),
    "paper": Config(dimension=100, num_train=2000, num_test=5000, width=1024, max_steps=10_000),
}


class Result(NamedTuple):
    """What was measured: axes models (network, quadratic), seeds, numbers of raises."""

    numbers: Int[np.ndarray, " k"]
    test: Float[np.ndarray, "2 s k"]
    alignment: Float[np.ndarray, "2 s k"]
    spikes: Int[np.ndarray, "2 s k"]
    reached: Bool[np.ndarray, "2 s k"]


def memory(config: Config) -> int:
    """Bytes of activations with their derivatives, and of the tangent kernel, on two cores."""
    samples = config.num_train + config.num_test
    return 2 * 4 * (16 * samples * (config.dimension + config.width) + 6 * config.num_train**2)


def run(config: Config) -> Result:
    """Descend with both models and every number of raises."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    found = []
    for place, name in enumerate(MODELS):
        report(name, place / 2)
        found.append(
            descend_each(partial(_descent, name=name, config=config), keys, config.numbers)
        )
    own, quadratic = found
    return Result(
        numbers=np.asarray(config.numbers),
        test=np.stack([own.test, quadratic.test]),
        alignment=np.stack([own.alignment, quadratic.alignment]),
        spikes=np.stack([spikes_of(one.losses, one.rates) for one in found]),
        reached=np.stack([own.reached, quadratic.reached]),
    )


def _descent(
    key: Key[Array, ""], num_raises: Int[Array, ""], name: str, config: Config
) -> Measurement:
    data_key, init_key = jax.random.split(key)
    train, test = drawn(data_key, config.dimension, config.num_train, config.num_test)
    model = network(mlp([config.width]), (config.dimension,))
    params, reference = model.init(init_key), polynomial_agop(2, config.dimension)
    apply = model.apply if name == "network" else quadratize(model.apply, params)
    end = (config.target, config.max_steps, config.factor)
    return catapulted(apply, params, train, test, reference, num_raises, *end)


def _rises(result: Result, model: int) -> np.ndarray:
    """The least rise of the alignment from one number of raises to the next, seed by seed."""
    return np.diff(result.alignment[model], axis=1).min(axis=1)


CLAIMS = (
    Claim(
        "The quadratic model catapults: its loss spikes at the first raise, and comes back.",
        judge=lambda r, c: median_at_least(
            (r.spikes[1][:, 1] * r.reached[1][:, 1]).astype(float), 1
        ),
        source=TAYLOR,
    ),
    Claim(
        "Every catapult improves the features of the quadratic model too: alignment rises.",
        judge=lambda r, c: ordered(np.zeros(r.alignment.shape[1]), _rises(r, 1)),
        source=OPEN,
    ),
    Claim(
        "As it does those of the network.",
        judge=lambda r, c: ordered(np.zeros(r.alignment.shape[1]), _rises(r, 0)),
        source=OPEN,
    ),
    Claim(
        "Without a catapult the network's features are better than those of its quadratic model.",
        judge=lambda r, c: ordered(r.alignment[1][:, 0], r.alignment[0][:, 0]),
        source=OPEN,
    ),
    Claim(
        "Below the critical learning rate neither model's loss spikes.",
        judge=lambda r, c: at_most(float(r.spikes[:, :, 0].max()), 0.0),
        source=TAYLOR,
        kind="control",
    ),
    Claim(
        "All runs are compared at the same training loss, which they all reach.",
        judge=lambda r, c: at_least(float(r.reached.mean()), 1.0),
        source=TAYLOR,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw alignment and test loss over the number of raises, for network and quadratic model."""
    figure, (alignment, test) = panels("alignment cos(G, G*)", "test loss")
    for place, name in enumerate(MODELS):
        for axis, values in ((alignment, result.alignment[place]), (test, result.test[place])):
            axis.plot(result.numbers, values.T, color=f"C{place}", linewidth=0.6)
            axis.plot(
                result.numbers, np.median(values, axis=0), "o-", color=f"C{place}", label=name
            )
            axis.set_xlabel("raises of the learning rate")
    alignment.legend(fontsize=7)
    return figure
