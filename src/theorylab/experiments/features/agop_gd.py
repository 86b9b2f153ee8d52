"""The more often gradient descent is catapulted, the better its features and its test loss.

Gradient descent with a learning rate above the critical one, η > η_crit, throws the loss up; the
network lands where its tangent kernel is smaller, η_crit is larger, and the loss comes back: a
catapult. Raising η again gives another. Here a two-layer network learns y = x₁x₂ + noise of many
inputs, with k = 0, 1, 2, ... catapults; whatever k is, training ends at the same training loss.
What the network looks at, its average gradient outer product G, comes ever closer to that of the
target.

η is raised to 1.2 η_crit(t) when the loss is back from the last raise. With `schedule="source"` the
first k raises of the source's own list are taken instead, at its steps, in units of η_crit at the
start. That list suits the size at which it was made (that of the preset `paper`); smaller networks
diverge with it. With `parametrization="torch"` the same is seen in PyTorch's own parametrization.

Source: zhu · agop-gd · Fig. 4.8, C.13, C.15; zhu · agop · Eqs 4.5–4.6; zhu · torch-param · C.18.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_least, median_at_least, median_at_most
from theorylab.data import low_rank_polynomial, polynomial_agop
from theorylab.dynamics import critical_learning_rate
from theorylab.experiments.checks import refuse_below, refuse_nonpositive
from theorylab.experiments.drawing import panels
from theorylab.features import network_in
from theorylab.features.catapult_descent import (
    LOSS,
    Measured,
    measured_descent,
    scheduled,
    spikes_of,
)
from theorylab.numerics import rank_correlations
from theorylab.progress import report
from theorylab.training import catapults, ensemble

PRECISION = "float32"
FORMULA = r"k \uparrow \;\Rightarrow\; \cos(G, G^*) \uparrow, \; L_{test} \downarrow"

GD = Source("zhu", "agop-gd", "Fig. 4.8")
AGOP = Source("zhu", "agop", "Eq. 4.6")
# The source raises η from 3 to 8, 16, ..., 80 where η_crit(0) = 6.15; here in units of η_crit(0).
SCHEDULE = tuple(rate / 6.15 for rate in (3, 8, 16, 30, 50, 75, 80))
BOUNDARIES = (50, 150, 220, 280, 350, 400)
PATIENCE = 40


@dataclass(frozen=True)
class Config:
    """Gradient descent on x₁x₂ with a given number of catapults, to one training loss."""

    dimension: int = 50  # of the inputs, d
    num_train: int = 500  # training samples, n
    num_test: int = 1000  # test samples
    width: int = 256  # of the hidden layer
    parametrization: Literal["ntk", "torch"] = "ntk"  # PyTorch's has biases, and no 1/√fan-in
    numbers: tuple[int, ...] = (0, 1, 2, 4)  # of raises, k
    schedule: Literal["adaptive", "source"] = "adaptive"  # when η is raised, and how far
    factor: float = 1.2  # η/η_crit at an adaptive raise
    target: float = 0.01  # the training loss to reach
    max_steps: int = 4000  # of gradient descent
    num_seeds: int = 6  # independent data and networks, at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_below(
            self, 2, "dimension", "num_train", "num_test", "width", "max_steps", "num_seeds"
        )
        if (
            len(self.numbers) < 3
            or self.numbers[0] != 0
            or list(self.numbers) != sorted(set(self.numbers))
        ):
            raise ValueError(
                f"numbers must be at least three that increase from 0, got {self.numbers}."
            )
        if self.schedule == "source" and self.numbers[-1] > len(BOUNDARIES):
            raise ValueError(f"the source has {len(BOUNDARIES)} raises, got {self.numbers[-1]}.")
        if not self.factor > 1:
            raise ValueError(f"factor must be above 1 to catapult, got {self.factor}.")
        refuse_nonpositive(self, "target")


PRESETS = {
    "smoke": Config(
        dimension=20, num_train=200, num_test=300, width=128, numbers=(0, 1, 2), max_steps=1500
    ),
    "paper": Config(
        dimension=100,
        num_train=2000,
        num_test=5000,
        width=1024,
        numbers=(0, 1, 2, 4, 6),
        schedule="source",
        target=1e-3,
        max_steps=10_000,
    ),
}


class Result(NamedTuple):
    """What was measured: axes seeds, numbers of raises."""

    numbers: Int[np.ndarray, " k"]
    test: Float[np.ndarray, "s k"]  # test loss where training ended
    alignment: Float[np.ndarray, "s k"]  # cos(G, G*) there
    spikes: Int[np.ndarray, "s k"]  # raises that the loss answered with a spike
    reached: Bool[np.ndarray, "s k"]  # whether the training loss was reached
    losses: Float[np.ndarray, "k t"]  # training loss over time, first seed


def memory(config: Config) -> int:
    """Bytes of activations, data and the tangent kernel, for a seed on each of two cores."""
    samples = config.num_train + config.num_test
    kernel = 4 * config.num_train**2
    return 2 * 4 * (6 * samples * (config.dimension + config.width) + kernel)


def run(config: Config) -> Result:
    """Descend with every number of raises."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    numbers = jnp.asarray(config.numbers)
    pairs = (jnp.repeat(keys, len(numbers)), jnp.tile(numbers, config.num_seeds))
    report(f"gradient descent, k = {', '.join(map(str, config.numbers))}", 0.0)
    found = ensemble(lambda pair: _descent(pair[0], pair[1], config), pairs)
    shape = (config.num_seeds, len(numbers))
    measured = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(*shape, *leaf.shape[1:]), found)
    return Result(
        numbers=np.asarray(numbers),
        test=measured.test,
        alignment=measured.alignment,
        spikes=spikes_of(found.losses, found.rates).reshape(shape),
        reached=measured.reached,
        losses=measured.losses[0],
    )


def _descent(key: Key[Array, ""], num_raises: Int[Array, ""], config: Config) -> Measured:
    data_key, init_key = jax.random.split(key)
    total = config.num_train + config.num_test
    data = low_rank_polynomial(data_key, total, config.dimension)
    train, test = data.split(config.num_train)
    model = network_in(config.parametrization, [config.width], config.dimension)
    params = model.init(init_key)

    def critical(w):
        return critical_learning_rate(model.apply, w, train, LOSS)

    if config.schedule == "source":
        unit = critical(params)
        optimizer = scheduled(lambda step: unit * _listed(step, num_raises))
        first_end = jnp.asarray((0, *BOUNDARIES))[num_raises] + PATIENCE
    else:
        optimizer = catapults(critical, config.factor, PATIENCE, num_raises, start=0.5)
        first_end = PATIENCE * (num_raises + 1)
    reference = polynomial_agop(2, config.dimension)
    return measured_descent(
        model.apply,
        params,
        train,
        test,
        reference,
        optimizer,
        config.target,
        config.max_steps,
        first_end,
    )


def _listed(step: Int[Array, ""], num_raises: Int[Array, ""]) -> Float[Array, ""]:
    """The source's rate at a step, in units of η_crit(0), after so many raises at most."""
    raised = jnp.searchsorted(jnp.asarray(BOUNDARIES), step, side="right")
    return jnp.asarray(SCHEDULE)[jnp.minimum(raised, num_raises)]


def _ranked(result: Result, values: np.ndarray) -> np.ndarray:
    """Spearman's correlation of the number of raises with a measure, seed by seed."""
    return rank_correlations(np.broadcast_to(result.numbers, values.shape), values)


CLAIMS = (
    Claim(
        "The more catapults, the lower the test loss, in nearly every seed.",
        judge=lambda r: median_at_most(_ranked(r, r.test), -0.9),
        source=GD,
        formula=r"\rho(k, L_{test}) \le -0.9",
    ),
    Claim(
        "The more catapults, the closer the features to those of the target.",
        judge=lambda r: median_at_least(_ranked(r, r.alignment), 0.9),
        source=GD,
        formula=r"\rho(k, \cos(G, G^*)) \ge 0.9",
    ),
    Claim(
        "Nearly every raise of the learning rate is a catapult: the loss spikes.",
        judge=lambda r: median_at_least(r.spikes[:, -1] / r.numbers[-1], 0.7),
        source=GD,
    ),
    Claim(
        "All runs are compared at the same training loss, which they all reach.",
        judge=lambda r: at_least(float(r.reached.mean()), 1.0),
        source=GD,
        kind="control",
    ),
    Claim(
        "Below the critical learning rate the loss never spikes.",
        judge=lambda r: median_at_most(r.spikes[:, 0].astype(float), 0.0),
        source=GD,
        kind="control",
    ),
)


def plot(result: Result) -> Figure:
    """Draw the training loss, and test loss and alignment over the number of raises."""
    figure, (loss, test, alignment) = panels("training loss", "test loss", "alignment cos(G, G*)")
    for number, losses in zip(result.numbers, result.losses, strict=True):
        loss.semilogy(losses, label=f"k = {number}")
    loss.set_xlabel("step")
    loss.legend(fontsize=7)
    for axis, values in ((test, result.test), (alignment, result.alignment)):
        axis.plot(result.numbers, values.T, linewidth=0.6, color="C0")
        axis.plot(result.numbers, np.median(values, axis=0), "o-", color="C0")
        axis.set_xlabel("raises of the learning rate")
    return figure
