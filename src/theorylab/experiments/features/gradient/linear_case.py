"""Separable data: neurons with a large negative bias all turn to the separating direction at once.

Labels are the sign of ⟨w*, x⟩ with a margin, and across w* inputs say nothing. A neuron whose bias
is negative and larger than what it answers to any input is active everywhere, so that its first
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
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    holds,
    identity,
    median_at_least,
    median_at_most,
    trend,
)
from theorylab.data.mixtures import SeparableLaw, separable_law
from theorylab.experiments.checks import refuse_nonpositive
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features.gradient import (
    OnlineRecipe,
    cone_members,
    error_rate,
    learn_online,
    margin_loss,
    sampled_gradients,
    separable_case,
    separable_network,
)
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"G(w, -\tilde b) \to \mathbb{E}[yx] = \rho w^*, \quad \tilde b = d^\tau B_{x1} \sigma_w"

LEMMA = Source("shi", "case-linear", "Lemma B.26")
NETWORK = Source("shi", "case-linear", "Lemma B.25")
THEOREM = Source("shi", "case-linear", "Theorem B.27")


@dataclass(frozen=True)
class Config:
    """Separable data, first gradients at several biases, and training."""

    dimension: int = 50
    margin: float = 0.5  # β
    spread: float = 1.0  # s, how far y⟨w*, x⟩ exceeds the margin
    radius: float = 2.0  # R, the length of an input across w*
    exponents: tuple[float, ...] = (-0.3, -0.15, 0.0, 0.15, 1.5)  # τ, growing
    num_neurons: int = 500  # for each sign of the bias
    num_drawn: int = 20000  # samples for a gradient
    width: int = 16  # m, a quarter of the trained neurons
    num_steps: int = 300
    num_samples: int = 200  # fresh ones in every step
    num_seeds: int = 8  # at least 6 to conclude
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.dimension <= 10**5:
            raise ValueError(f"dimension must be from 2 to 10^5, got {self.dimension}.")
        refuse_nonpositive(self, "margin", "spread", "radius")
        if len(self.exponents) < 2 or list(self.exponents) != sorted(set(self.exponents)):
            raise ValueError(f"exponents must be two or more, growing, got {self.exponents}.")
        if self.exponents[-1] <= 0.5 or self.exponents[-1] > 5:
            raise ValueError(f"the last of exponents must be in (0.5, 5], got {self.exponents}.")
        for name in ("num_neurons", "num_drawn", "width", "num_steps", "num_samples", "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**8:
                raise ValueError(f"{name} must be from 1 to 10^8, got {getattr(self, name)}.")


PRESETS = {
    "smoke": Config(
        dimension=20, num_neurons=50, num_drawn=3000, num_steps=150, num_samples=100, num_seeds=6
    ),
    "paper": Config(dimension=500, num_neurons=10000, num_drawn=10**6, num_steps=10000),
}


class Measured(NamedTuple):
    """What is measured about one start and its training."""

    cosine: Float[jax.Array, " t"]  # mean of cos(G, w*), negative biases
    inside: Float[jax.Array, ""]  # share in the lemma's cone, negative biases, last τ
    silent: Float[jax.Array, ""]  # share with G = 0, positive biases, last τ
    length: Float[jax.Array, ""]  # median ‖G‖, negative biases, last τ
    error: Float[jax.Array, ""]  # test error after training
    best: Float[jax.Array, ""]  # hinge loss of g*


class Result(NamedTuple):
    """What was measured: exponents (t), seeds (s)."""

    exponents: Float[np.ndarray, " t"]
    openings: Float[np.ndarray, " t"]  # γ of the lemma, with unit constant
    strength: float  # ρ
    cosine: Float[np.ndarray, "s t"]
    inside: Float[np.ndarray, " s"]
    silent: Float[np.ndarray, " s"]
    length: Float[np.ndarray, " s"]
    error: Float[np.ndarray, " s"]
    best: Float[np.ndarray, " s"]


def memory(config: Config) -> int:
    """Bytes of neurons, of their activations on a block of samples, and of test samples."""
    return 4 * 2 * (2 * config.num_neurons * (config.dimension + 1000) + 8 * 2000 * config.width)


def run(config: Config) -> Result:
    """First gradients at every bias, then training at the largest."""
    report("first gradients and training", 0.1)
    law = _law(config)
    cases = [separable_case(law, tau) for tau in config.exponents if tau > 0.5]
    ratios = config.dimension ** np.array(config.exponents) * float(law.mean_square) ** 0.5
    openings = np.full(len(ratios), np.nan)
    openings[-len(cases) :] = [case.constants.opening for case in cases]  # below, γ is above 1
    one = partial(
        _measured, law=law, ratios=jnp.asarray(ratios), opening=float(openings[-1]), config=config
    )
    measured = ensemble(one, jax.random.split(jax.random.key(config.seed), config.num_seeds))
    return Result(
        exponents=np.array(config.exponents),
        openings=openings,
        strength=float(law.strength),
        **{name: np.asarray(values) for name, values in measured._asdict().items()},
    )


def _law(config: Config) -> SeparableLaw:
    return separable_law(jnp.ones(config.dimension), config.margin, config.spread, config.radius)


def _measured(
    key: RandomKey, law: SeparableLaw, ratios: jax.Array, opening: float, config: Config
) -> Measured:
    """Gradients of neurons with both signs of the bias, and a trained network."""
    weight_key, sample_key, train_key, test_key = jax.random.split(key, 4)
    weights = jax.random.normal(weight_key, (config.num_neurons, config.dimension))
    both = jnp.concatenate([weights, weights])
    signs = jnp.where(jnp.arange(len(both)) < config.num_neurons, -1.0, 1.0)

    def gradients(ratio: jax.Array) -> jax.Array:
        return sampled_gradients(
            sample_key, law.sample, both, ratio * signs, config.num_drawn
        ).gradients

    found = jax.lax.map(gradients, ratios)
    lengths = jnp.linalg.norm(found, axis=2)
    cosines = found @ law.direction / jnp.maximum(lengths, 1e-9)
    inside = cone_members(found[-1], law.direction[None, :], opening, 0.0)[:, 0]
    test = law.sample(test_key, 2000)
    recipe = OnlineRecipe(config.width, config.num_samples, first_rate=1.0, rate=0.1)
    trained = learn_online(
        train_key,
        law.sample,
        config.dimension,
        ratios[-1],
        recipe,
        [config.num_steps],
        lambda network: error_rate(network, test),
    )
    margins = test.y[:, 0] * separable_network(law)(test.x)
    negative = slice(config.num_neurons)
    return Measured(
        cosine=cosines[:, negative].mean(axis=1),
        inside=inside[negative].mean(),
        silent=(lengths[-1, config.num_neurons :] == 0).mean(),
        length=jnp.median(lengths[-1, negative]),
        error=trained.records[-1],
        best=margin_loss(margins).mean(),
    )


CLAIMS = (
    Claim(
        "The larger the bias, the closer first gradients come to the separating direction.",
        judge=lambda r, c: trend(r.cosine.T),
        source=LEMMA,
    ),
    Claim(
        "With the lemma's bias, at least half of the neurons of negative bias lie in its cone.",
        judge=lambda r, c: median_at_least(r.inside, 0.5),
        source=LEMMA,
        formula=r"(w^*, -1) \in S_{p, \gamma, B_G},\ p = 1/2",
    ),
    Claim(
        "Their mean distance from the direction, 1 - cos, is at most the lemma's γ.",
        judge=lambda r, c: holds(r.openings[-1] - (1 - r.cosine[:, -1])),
        source=LEMMA,
        formula=r"\gamma = \sqrt{B_{x2}} / (\rho\, d^{\tau/2 - 1/4})",
    ),
    Claim(
        "Their gradients have the length of E[yx], within 5 %.",
        judge=lambda r, c: identity(r.length / r.strength, np.ones_like(r.length), 0.05),
        source=LEMMA,
        formula=r"\mathbb{E}[yx] = \rho w^*",
    ),
    Claim(
        "The explicit network of two neurons has no hinge loss.",
        judge=lambda r, c: holds(1e-4 - r.best),
        source=NETWORK,
        formula=r"g^*(x) = \frac1\beta \sigma(w^{*\top} x) - \frac1\beta \sigma(-w^{*\top} x)",
    ),
    Claim(
        "Trained online, the network errs on less than 1 % of test samples.",
        judge=lambda r, c: median_at_most(r.error, 0.01),
        source=THEOREM,
    ),
    Claim(
        "Neurons with a positive bias as large are silent: their gradient is zero.",
        judge=lambda r, c: median_at_least(r.silent, 0.99),
        source=LEMMA,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Cosines over exponents, and test errors."""
    figure, axes = panels("first gradients", "after training")
    axes[0].plot(result.exponents, result.cosine.T, "o-", color="#0072B2", markersize=3)
    axes[0].plot(result.exponents, 1 - result.openings, label="1 − γ of the lemma", **THEORY)
    axes[0].set(xlabel="exponent τ of the bias", ylabel="mean cos(G, w*)", ylim=(0, 1.05))
    axes[0].legend(fontsize=7)
    axes[1].plot(np.arange(len(result.error)), result.error, "o")
    axes[1].set(xlabel="seed", ylabel="test error")
    return figure
