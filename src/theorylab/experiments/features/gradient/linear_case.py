"""On separable data one step turns all neurons with a large negative bias to the separator.

Labels are the sign of ⟨w*, x⟩ with a margin, and across w* inputs say nothing. A neuron whose bias
is negative and larger than its response to any input is active everywhere, so that its first
gradient is E[yx] = ρw*; a bias as large but positive leaves a neuron silent, and it never moves.
The bias of the lemma is d^τ standard deviations of ⟨w, x⟩: the larger τ, the closer G comes to w*.

Source: shi · case-linear · B.5.1, Lemmas B.25–B.27.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    holds,
    identity,
    median_at_least,
    median_at_most,
    trend,
)
from theorylab.data.mixtures import SeparableLaw, separable_law
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels
from theorylab.features import gradient
from theorylab.fields import Count, Increasing, Plural, Positive, Real, Seeded
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

PRECISION = "float32"
FORMULA = r"G(w, -\tilde b) \to \mathbb{E}[yx] = \rho w^*, \quad \tilde b = d^\tau B_{x1} \sigma_w"

LEMMA = Source("shi", "case-linear", "Lemma B.25")
NETWORK = Source("shi", "case-linear", "Lemma B.26")
THEOREM = Source("shi", "case-linear", "Theorem B.27")

SPREAD = 1.0  # s, how far y⟨w*, x⟩ exceeds the margin
RADIUS = 2.0  # R, the length of an input across w*
NUM_TEST = 2000


@dataclass(frozen=True)
class Config(Seeded):
    """Separable data, first gradients at several biases, and training."""

    dimension: Plural = 50
    margin: Positive = 0.5  # β
    exponents: Increasing[Real] = (-0.3, -0.15, 0.0, 0.15, 1.5)  # τ
    num_neurons: Count = 500  # for each sign of the bias
    num_samples: Plural = 20000  # for a gradient
    width: Count = 16  # m, a quarter of the trained neurons
    num_steps: Count = 300
    batch_size: Count = 200  # fresh samples in every step
    num_seeds: Count = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.5 < self.exponents[-1] <= 5:
            raise ValueError(f"the last of exponents must be in (0.5, 5], got {self.exponents}.")

    @property
    def law(self) -> SeparableLaw:
        """The data."""
        return separable_law(jnp.ones(self.dimension), self.margin, SPREAD, RADIUS)


PRESETS = {
    "smoke": Config(
        dimension=20, num_neurons=50, num_samples=3000, num_steps=150, batch_size=100, num_seeds=6
    ),
    "paper": Config(dimension=500, num_neurons=10000, num_samples=10**6, num_steps=10000),
}


class Result(NamedTuple):
    """What was measured: exponents (t), seeds (s)."""

    cosine: Float[Measured, "s t"]  # mean of cos(G, w*), negative biases
    inside: Float[Measured, " s"]  # share in the lemma's cone, negative biases, last τ
    silent: Float[Measured, " s"]  # share with G = 0, positive biases, last τ
    length: Float[Measured, " s"]  # median ‖G‖, negative biases, last τ
    error: Float[Measured, " s"]  # test error after training
    best: Float[Measured, " s"]  # hinge loss of g*


def run(config: Config) -> Result:
    """First gradients at every bias, then training at the largest."""
    report("first gradients and training", 0.1)
    deviation = float(config.law.mean_square) ** 0.5
    ratios = jnp.asarray(config.dimension ** np.array(config.exponents) * deviation)
    one = partial(_measured, law=config.law, ratios=ratios, config=config)
    return ensemble(one, jax.random.split(jax.random.key(config.seed), config.num_seeds))


def _opening(law: SeparableLaw, config: Config) -> float:
    """γ of the lemma at the last τ, with unit constant."""
    return gradient.separable_case(law, config.exponents[-1]).constants.opening


def _measured(
    key: RandomKey, law: SeparableLaw, ratios: Float[Array, " t"], config: Config
) -> Result:
    """Gradients of neurons with both signs of the bias, and a trained network, for one seed."""
    weight_key, sample_key, train_key, test_key = jax.random.split(key, 4)
    weights = jax.random.normal(weight_key, (config.num_neurons, config.dimension))
    both = jnp.concatenate([weights, weights])
    signs = jnp.where(jnp.arange(len(both)) < config.num_neurons, -1.0, 1.0)

    def gradients(ratio: Float[Array, ""]) -> Float[Array, "m d"]:
        biases = ratio * signs
        sampled = gradient.sampled_gradients(
            sample_key, law.sample, both, biases, config.num_samples
        )
        return sampled.gradients

    found = jax.lax.map(gradients, ratios)
    lengths = jnp.linalg.norm(found, axis=2)
    cosines = found @ law.direction / jnp.maximum(lengths, 1e-9)
    opening, axis = _opening(law, config), law.direction[None, :]
    inside = gradient.cone_members(found[-1], axis, opening, 0.0)[:, 0]
    test = law.sample(test_key, NUM_TEST)
    recipe = gradient.OnlineRecipe(config.width, config.batch_size, first_rate=1.0, rate=0.1)
    last, measure = [config.num_steps], partial(gradient.error_rate, data=test)
    trained = gradient.learn_online(
        train_key, law.sample, config.dimension, ratios[-1], recipe, last, measure
    )
    margins = test.y[:, 0] * gradient.separable_network(law)(test.x)
    negative = slice(config.num_neurons)
    return Result(
        cosine=cosines[:, negative].mean(axis=1),
        inside=inside[negative].mean(),
        silent=(lengths[-1, config.num_neurons :] == 0).mean(),
        length=jnp.median(lengths[-1, negative]),
        error=trained.records[-1],
        best=gradient.margin_loss(margins).mean(),
    )


CLAIMS = (
    LEMMA.claim(
        "With the lemma's bias, at least half of the neurons of negative bias lie in its cone.",
        lambda r, c: median_at_least(r.inside, 0.5),
        formula=r"(w^*, -1) \in S_{p, \gamma, B_G},\ p = 1/2",
        demand="source",
    ),
    LEMMA.claim(
        "Their mean distance from the direction, 1 - cos, is at most the lemma's γ.",
        lambda r, c: holds(_opening(c.law, c) - (1 - r.cosine[:, -1])),
        formula=r"\gamma = \sqrt{B_{x2}} / (\rho\, d^{\tau/2 - 1/4})",
        demand="derived: γ is Θ of this; the constant is taken to be 1",
    ),
    LEMMA.found(
        "This γ is loose: more than 20 times the distance.",
        lambda r, c: median_at_least(_opening(c.law, c) / (1 - r.cosine[:, -1]), 20.0),
    ),
    LEMMA.found(
        "The larger the bias, the closer first gradients come to the separating direction.",
        lambda r, c: trend(r.cosine.T),
    ),
    LEMMA.claim(
        "Their gradients have the length of E[yx], within 5 %.",
        lambda r, c: identity(r.length / c.law.strength, np.ones_like(r.length), 0.05),
        formula=r"\mathbb{E}[yx] = \rho w^*",
        demand="lab: 5 %, for the noise of samples; chosen for this experiment",
    ),
    LEMMA.control(
        "Neurons with a positive bias as large are silent: their gradient is zero.",
        lambda r, c: median_at_least(r.silent, 0.99),
    ),
    NETWORK.claim(
        "The explicit network of two neurons has no hinge loss.",
        lambda r, c: holds(1e-4 - r.best),
        formula=r"g^*(x) = \frac1\beta \sigma(w^{*\top} x) - \frac1\beta \sigma(-w^{*\top} x)",
        demand="derived: 0, to rounding in single precision",
    ),
    THEOREM.claim(
        "Trained online, the network errs on at most ε = 1 % of test samples.",
        lambda r, c: median_at_most(r.error, 0.01),
        demand="lab: ε = 1 %, chosen for this experiment",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Cosines over exponents, and test errors."""
    figure, axes = panels("first gradients", "after training")
    axes[0].axhline(1 - _opening(config.law, config), label="1 − γ of the lemma", **THEORY)
    curves(axes[0], config.exponents, {"measured": result.cosine}, "o-")
    label_axes(axes[0], "exponent τ of the bias", "mean cos(G, w*)")
    axes[1].plot(result.error, "o")
    label_axes(axes[1], "seed", "test error")
    return figure
