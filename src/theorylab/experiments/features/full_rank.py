"""Where all directions of the inputs matter alike, catapults improve no features.

The target is f* = ‖x‖/√d, whose expected gradient outer product is I/d²: there is nothing to choose
among directions. A two-layer network learns it from about as many samples as there are inputs, by
gradient descent with k = 0, 1, ... catapults, to one training loss. The first catapult lowers the
test loss, because it removes what the random initial network puts out; more of them do not, and the
features do not come closer to the target's.

The networks learn little: ‖x‖/√d hardly varies, and none comes near the best constant prediction.

Source: zhu · full-rank-control · Fig. C.17; zhu · agop · Eqs 4.5–4.6.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_least, median_at_least, median_at_most
from theorylab.data import low_rank_polynomial, polynomial_agop, polynomial_moments
from theorylab.dynamics import critical_learning_rate
from theorylab.experiments.checks import refuse_below, refuse_nonpositive
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features.catapult_descent import LOSS, Measured, measured_descent, spikes_of
from theorylab.models import mlp, network
from theorylab.progress import report
from theorylab.training import catapults, ensemble

PRECISION = "float32"
FORMULA = r"f^* = \|x\|/\sqrt d, \quad G^* = I/d^2"

FULL = Source("zhu", "full-rank-control", "Fig. C.17")
PATIENCE, NOISE = 40, 0.1


@dataclass(frozen=True)
class Config:
    """Gradient descent with catapults on a target of all directions."""

    dimension: int = 100  # of the inputs, d
    num_train: int = 128  # training samples, n
    num_test: int = 1000  # test samples
    width: int = 512  # of the hidden layer
    numbers: tuple[int, ...] = (0, 1, 2, 4)  # of raises of the learning rate, k
    factor: float = 1.2  # η/η_crit at a raise
    target: float = 0.01  # the training loss to reach
    max_steps: int = 3000  # of gradient descent
    num_seeds: int = 6  # independent data and networks, at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_below(
            self, 2, "dimension", "num_train", "num_test", "width", "max_steps", "num_seeds"
        )
        if len(self.numbers) < 3 or self.numbers[:2] != (0, 1) or self.numbers[-1] < 2:
            raise ValueError(f"numbers must begin with 0, 1 and go on, got {self.numbers}.")
        if not self.factor > 1:
            raise ValueError(f"factor must be above 1 to catapult, got {self.factor}.")
        refuse_nonpositive(self, "target")


PRESETS = {
    "smoke": Config(num_test=300, width=256, numbers=(0, 1, 2), max_steps=1000),
    "paper": Config(
        num_test=2000,
        width=1024,
        numbers=(0, 1, 2, 3, 4),
        target=1e-3,
        max_steps=10_000,
    ),
}


class Result(NamedTuple):
    """What was measured: axes seeds, numbers of raises."""

    numbers: Int[np.ndarray, " k"]
    trivial: float  # the test loss of the best constant
    best_test: Float[np.ndarray, "s k"]  # the least test loss on the way
    alignment: Float[np.ndarray, "s k"]  # of the features with I, at the end
    spikes: Int[np.ndarray, "s k"]  # raises that the loss answered with a spike
    reached: Bool[np.ndarray, "s k"]  # whether the training loss was reached


def memory(config: Config) -> int:
    """Bytes of activations, data and the tangent kernel, for a seed on each of two cores."""
    samples = config.num_train + config.num_test
    return 2 * 4 * (6 * samples * (config.dimension + config.width) + 4 * config.num_train**2)


def run(config: Config) -> Result:
    """Descend with every number of raises."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    numbers = jnp.asarray(config.numbers)
    pairs = (jnp.repeat(keys, len(numbers)), jnp.tile(numbers, config.num_seeds))
    report(f"gradient descent, k = {', '.join(map(str, config.numbers))}", 0.0)
    found = jax.tree.map(
        np.asarray, ensemble(lambda pair: _descent(pair[0], pair[1], config), pairs)
    )
    shape = (config.num_seeds, len(numbers))
    return Result(
        numbers=np.asarray(numbers),
        trivial=polynomial_moments("full", config.dimension).variance + NOISE**2,
        best_test=found.best_test.reshape(shape),
        alignment=found.alignment.reshape(shape),
        spikes=spikes_of(found.losses, found.rates).reshape(shape),
        reached=found.reached.reshape(shape),
    )


def _descent(key: Key[Array, ""], num_raises: Int[Array, ""], config: Config) -> Measured:
    data_key, init_key = jax.random.split(key)
    total = config.num_train + config.num_test
    data = low_rank_polynomial(data_key, total, config.dimension, "full", NOISE)
    train, test = data.split(config.num_train)
    model = network(mlp([config.width]), (config.dimension,))

    def critical(w):
        return critical_learning_rate(model.apply, w, train, LOSS)

    return measured_descent(
        model.apply,
        model.init(init_key),
        train,
        test,
        polynomial_agop("full", config.dimension),
        catapults(critical, config.factor, PATIENCE, num_raises, start=0.5),
        config.target,
        config.max_steps,
        PATIENCE * (num_raises + 1),
        watch_test=True,
    )


def _several(result: Result) -> np.ndarray:
    """The best alignment with two catapults or more, for every seed."""
    return result.alignment[:, result.numbers >= 2].max(axis=1)


# The catalogue asks for less than 5 %, from one run. Over the seeds the ratio of two best test
# losses varies by a fifth, so six seeds tell only whether it falls by a quarter.
CLAIMS = (
    Claim(
        "Two and more catapults bring the features no closer to those of the target.",
        judge=lambda r: median_at_most(_several(r) - r.alignment[:, 0], 0.02),
        source=FULL,
        formula=r"\cos_k \le \cos_0 + 0.02",
    ),
    Claim(
        "From the first catapult to the last, the best test loss falls by less than a quarter.",
        judge=lambda r: median_at_most(1 - r.best_test[:, -1] / r.best_test[:, 1], 0.25),
        source=FULL,
    ),
    Claim(
        "No network comes near the best constant: even the best test loss is twice as large.",
        judge=lambda r: median_at_least(r.best_test.min(axis=1) / r.trivial, 2.0),
        source=FULL,
    ),
    Claim(  # not every one: with seeds 0, 101 and 102 the fourth raise makes no spike
        "The raises are catapults: the loss spikes at 70 % of them or more, and not without.",
        judge=lambda r: median_at_least(
            np.where(r.spikes[:, 0] == 0, r.spikes[:, -1] / r.numbers[-1], 0.0), 0.7
        ),
        source=FULL,
        kind="control",
    ),
    Claim(
        "All runs are compared at the same training loss, which they all reach.",
        judge=lambda r: at_least(float(r.reached.mean()), 1.0),
        source=FULL,
        kind="control",
    ),
)


def plot(result: Result) -> Figure:
    """Draw test loss and alignment over the number of raises."""
    figure, (test, alignment) = panels("best test loss", "alignment with G*")
    test.semilogy(result.numbers, result.best_test.T, "o-", color="C0", linewidth=0.6)
    test.axhline(result.trivial, **THEORY)
    alignment.plot(result.numbers, result.alignment.T, color="C0", linewidth=0.6)
    alignment.plot(result.numbers, np.median(result.alignment, axis=0), "o-", color="C0")
    for axis in (test, alignment):
        axis.set_xlabel("raises of the learning rate")
    return figure
