"""Biases lower the critical learning rate of a network by up to a factor of twelve.

The critical learning rate of the mean squared error is η_crit = n/λ_max(K). Networks with one
hidden layer in the tangent parametrization, on x ~ N(0, I), differ only in their biases: none; in
the hidden layer, beginning at 0 or as N(0, 1); or in both layers. A trained output bias b adds
(∂f/∂b)² = 1 to every entry of K, so that K ⪰ 𝟏𝟏ᵀ, λ_max(K) ≥ n, and η_crit ≤ 1 at any width.

The source's formula of a layer has biases, and it does not say how they begin. Its raise to η = 8
must be above η_crit to make a catapult, which every convention allows; networks without biases have
η_crit ≈ 6 and reproduce its tables. (η_crit = 1.9 of Fig. C.4 is for five layers, which are not
looked at here.)

Source: zhu · eta-crit · C.1, C.6; zhu · agop-gd · Fig. 4.8.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, holds, median_at_least, median_at_most, median_between
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Seeded
from theorylab.kernels import ntk
from theorylab.models import Model, mlp, network
from theorylab.progress import report
from theorylab.training import squared
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = r"\eta_{\rm crit} = n / \lambda_{\max}(K)"

LAYER = Source("zhu", "eta-crit", "C.6, NTK parameterization")
SCHEDULE = Source("zhu", "agop-gd", "C.6, Fig. 4.8")

PILOT = "lab: a tenth around the median of other runs, which changes by some percent with n and m"
LOSS = squared("mean")
NAMES = ("none", "hidden, 0", "hidden, N(0, 1)", "all, 0", "all, N(0, 1)")
NONE, HIDDEN_ZERO, HIDDEN_NORMAL, ALL_ZERO, ALL_NORMAL = range(5)


@dataclass(frozen=True)
class Config(Seeded):
    """Networks with one hidden layer at initialisation, with five conventions of biases."""

    dimension: Count = 100  # of the inputs, d
    num_samples: Count = 128  # n
    width: Count = 1024  # of the hidden layer


PRESETS = {"smoke": Config(num_seeds=6), "paper": Config(num_samples=1000, num_seeds=20)}


class Result(NamedTuple):
    """Axes: c conventions, s seeds."""

    critical_rates: Float[Measured, "c s"]
    diagonals: Float[Measured, " s"]  # mean of K(x, x) d/‖x‖², without biases


def run(config: Config) -> Result:
    """Measure the kernel of every convention, on the same inputs."""
    report("kernels", 0.0)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    models = [_model(config, place) for place in range(len(NAMES))]

    def critical_rate(top: Float[Array, ""]) -> Array:
        return jnp.asarray(LOSS.critical_learning_rate(top, config.num_samples))

    def one(key: RandomKey) -> tuple[Array, Array]:
        data_key, init_key = jax.random.split(key)
        flat = jax.random.normal(data_key, (config.num_samples * config.dimension,))
        x = flat.reshape(config.num_samples, config.dimension)
        kernels = [ntk(model.apply, model.init(init_key), x) for model in models]
        rates = [critical_rate(jnp.linalg.eigvalsh(kernel)[-1]) for kernel in kernels]
        squares = jnp.sum(x**2, axis=1) / config.dimension
        return jnp.stack(rates), jnp.mean(jnp.diagonal(kernels[NONE]) / squares)

    rates, diagonals = jax.jit(lambda keys: jax.lax.map(one, keys))(keys)
    return Result(rates.T, diagonals)


def _model(config: Config, convention: int) -> Model:
    """The network of a convention."""
    bias = ("none", "zero", "normal", "zero", "normal")[convention]
    last = convention in (ALL_ZERO, ALL_NORMAL)
    return network(mlp([config.width], output_bias=last), (config.dimension,), bias=bias)


CLAIMS = (
    LAYER.found(
        "With a trained output bias, whatever it begins with, no critical rate exceeds 1.",
        lambda r, c: holds(1 - r.critical_rates[ALL_ZERO:], 1e-12),
        formula=r"K \succeq \mathbf{1}\mathbf{1}^T \Rightarrow \eta_{\rm crit} \le 1",
        demand="derived: ∂f/∂b = 1 adds 1 to every entry of K, so that λ_max(K) ≥ n",
    ),
    LAYER.found(
        "The bound is within a factor of 3: with all parameters N(0, 1) the rate is about 0.5.",
        lambda r, c: median_between(r.critical_rates[ALL_NORMAL], 0.45, 0.55),
        demand=PILOT,
    ),
    LAYER.found(
        "With hidden biases that begin at 0 the critical rate is about 2.4.",
        lambda r, c: median_between(r.critical_rates[HIDDEN_ZERO], 2.1, 2.65),
        demand=PILOT,
    ),
    LAYER.found(
        "Without biases the critical rate is about 6.",
        lambda r, c: median_between(r.critical_rates[NONE], 5.35, 6.55),
        demand=PILOT,
    ),
    SCHEDULE.claim(
        "The first raise, to η = 8, is above the critical rate, with every convention.",
        lambda r, c: median_at_most(r.critical_rates.max(axis=0), 8.0),
        quote="For Rank-2 task, we increase the learning rate to [8",
        demand="source",
    ),
    LAYER.found(
        "Every further bias lowers the critical rate, seed by seed.",
        lambda r, c: median_at_least(-np.diff(r.critical_rates, axis=0).max(axis=0), 0.0),
    ),
    LAYER.control(
        "Without an output bias 1 is no bound: without biases the critical rate is above it.",
        lambda r, c: median_at_least(r.critical_rates[NONE], 1.0),
    ),
    LAYER.check(
        "Without biases K(x, x) is ‖x‖²/d on average, whatever the width.",
        lambda r, c: median_between(r.diagonals, 0.85, 1.15),
        formula=r"\mathbb{E} K(x, x) = L\, 2^{-(L-1)} \|x\|^2 / d",
        demand="derived: each of L layers gives 2^(1−L) ‖x‖²/d; 15 % are for the width",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """The critical rate of every convention, one point for every seed."""
    figure, (axis,) = panels("critical learning rate by convention of biases")
    for place, rates in enumerate(result.critical_rates):
        axis.semilogy(np.full(len(rates), place), rates, "o", color="C0", alpha=0.5)
    axis.axhline(1.0, **THEORY)
    axis.set_xticks(range(len(NAMES)), NAMES, fontsize=7)
    return figure
