"""A deep linear network learns its mode after a time that is known: it grows like β^(2−L).

Layers that begin with norm β, all aligned with the one mode of the data, keep a common norm u that
follows du/dt = u^(L−1) (s − u^L). The time when the mode is half learned has a closed form: a
logarithm for L = 2, hypergeometric functions for more layers. The source prints the solution for
L = 2 as u; it is u².

A random start is not aligned. With two layers the formula becomes right as β → 0, slowly, because a
factor in β costs only a time ln(·)/s; the part of the start that lies along the mode, taken for β,
makes it right at once. With three or more layers that factor multiplies the time at every β: the
power β^(2−L) is right, the constant is not. Once the mode has grown beyond the rest of the start,
the formula is right again for the time that remains.

Source: golikov · deep-linear-modes · 6.5.3, D.4.2, Eqs 6.12–6.15, D.55–D.57.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_most,
    exponent_between,
    identity,
    median_at_least,
    median_at_most,
    ordered,
)
from theorylab.dynamics import deep_linear
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels
from theorylab.fields import Count, Increasing, Plural, Seeded, Several, within
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = r"\dot u = u^{L-1}(s - u^L), \quad u(0) = \beta"

MODE = Source("golikov", "deep-linear-modes", "Eqs 6.12–6.14")
TIME = Source("golikov", "deep-linear-modes", "Eqs 6.15, D.57, D.60")
RANDOM = Source("golikov", "deep-linear-modes", "6.5.3, random initialisation")
DEEPER = Source("golikov", "deep-linear-modes", "D.4.2, random initialisation")

ALIGNED, RANDOMS = 0, slice(1, None)  # networks: first the aligned one, then random ones
TWO, MORE = 0, slice(1, None)  # depths: two layers first

GROWN = 30.0  # times the start, from when on the mode leads
EARLY = 8.0  # the growth of u^L that the early formula is tried at
NUM_READINGS = 200
NOISE = 0.5  # of the targets, in units of the signal


@dataclass(frozen=True)
class Config(Seeded):
    """Linear networks on whitened data with one output, from small starts."""

    depths: Increasing[Plural] = (2, 3, 4)  # layers L, from 2 on
    scales: Several[Annotated[float, within(1e-9, 0.2)]] = (0.1, 0.01, 0.001)  # first norms β
    width: Count = 32  # of all hidden layers
    dimension: Count = 10  # inputs d
    num_samples: Count = 1000  # samples m
    num_seeds: Count = 16  # random data and starts

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depths[0] != 2:
            raise ValueError(f"depths must increase from 2 on, got {self.depths}.")
        if len(self.scales) < 2 or tuple(sorted(set(self.scales), reverse=True)) != self.scales:
            raise ValueError(f"scales must be two or more and decrease, got {self.scales}.")
        if self.num_samples < 2 * self.dimension:
            raise ValueError(f"num_samples must be at least 2 dimension, got {self.num_samples}.")


PRESETS = {
    "smoke": Config(depths=(2, 3), scales=(0.1, 0.001), width=16, dimension=5, num_samples=100),
    "paper": Config(width=512, num_seeds=50, scales=(0.1, 0.03, 0.01, 0.003, 0.001, 0.0001)),
}


class Result(NamedTuple):
    """Axes: l depths, g networks (the first is aligned), b scales, t readings.

    Times are in units of β^(2−L).
    """

    time: Float[Measured, "*l g b"]  # to half the mode
    predicted: Float[Measured, "*l g b"]
    early: Float[Measured, "*l g b"]  # until u^L has grown 8-fold
    early_predicted: Float[Measured, "*l g b"]  # by the formula for more than two layers
    rest: Float[Measured, "*l g b"]  # from 30-fold growth to half the mode
    rest_predicted: Float[Measured, "*l g b"]
    effective: Float[Measured, "*l g b"]  # predicted for two layers with the effective β
    times: Float[Measured, "*l g b t"]  # of the readings
    overlaps: Float[Measured, "*l g b t"]  # with the mode
    norms: Float[Measured, "*l g b t"]  # u, of the first layer
    formula: Float[Measured, "*l g b t"]  # s e^(2st)/(e^(2st) − 1 + s/β²), for two layers


def memory(config: Config) -> int:
    """The weights of all networks at once, for each of the stages of a step; in bytes."""
    widest = config.width * (config.dimension + 1 + (max(config.depths) - 2) * config.width)
    lanes = (config.num_seeds + 1) * len(config.scales)
    return 8 * (lanes * 12 * widest + config.num_seeds * config.num_samples * config.dimension)


def run(config: Config) -> Result:
    """Let aligned and random networks grow, at all depths and scales."""
    report("whitened data", 0.0)
    for_data, for_starts = jax.random.split(jax.random.key(config.seed))
    targets = _targets(for_data, config)
    scales, found = jnp.asarray(config.scales), []
    for number, depth in enumerate(config.depths):
        report(f"networks of {depth} layers", 0.05 + 0.9 * number / len(config.depths))
        keys = jax.random.split(jax.random.fold_in(for_starts, depth), config.num_seeds)
        horizon = _horizon(depth, config.scales[-1])
        found.append(_networks(targets, keys, scales, depth, config.width, horizon))
    return jax.tree.map(lambda *at_depths: jnp.stack(at_depths), *found)


def _targets(key: RandomKey, config: Config) -> Float[Array, "s 1 d"]:
    """A = YX̃ᵀ/m of noisy linear teachers, with outputs of mean square 1 on whitened inputs."""
    n, m, d = config.num_seeds, config.num_samples, config.dimension
    numbers = np.asarray(jax.random.normal(key, (n, m + 1, d + 1)))
    inputs, noise, teacher = numbers[:, :m, :d], numbers[:, :m, d], numbers[:, m, :d]
    white = np.linalg.svd(inputs, full_matrices=False)[0] * np.sqrt(m)
    teacher = teacher / np.linalg.norm(teacher, axis=1, keepdims=True)
    outputs = np.einsum("smd,sd->sm", white, teacher) + NOISE * noise
    outputs = outputs / np.sqrt(np.mean(outputs**2, axis=1, keepdims=True))
    return jnp.asarray(np.einsum("sm,smd->sd", outputs, white)[:, None] / m)


def _horizon(depth: int, scale: float) -> float:
    """Readings of the clock that suffice for random starts: it counts time and growth."""
    s = 0.6  # less than the size of any mode here
    time = math.log(s / scale**2) / (2 * s) if depth == 2 else 1 / (s * (depth - 2))
    return 2.5 * time + 2 * math.log(1 / scale) + 4


@partial(jax.jit, static_argnums=(3, 4, 5))
def _networks(
    targets: Float[Array, "s 1 d"],
    keys: Array,
    scales: Float[Array, " b"],
    depth: int,
    width: int,
    horizon: float,
) -> Result:
    """An aligned network on the first data, and random ones on all."""
    shape = (1, targets.shape[2])
    starts = jax.vmap(lambda key: deep_linear.random_weights(key, shape, width, depth))(keys)
    aligned = deep_linear.aligned_weights(targets[0], width, depth)
    weights = [
        jnp.concatenate([one[None], others]) for one, others in zip(aligned, starts, strict=True)
    ]

    def each(target: Array, layers: deep_linear.LayerWeights, scale: Array) -> Result:
        grown = deep_linear.grow(target, layers, scale, horizon, NUM_READINGS)
        s, unit, unknown = jnp.linalg.norm(target), scale ** (depth - 2), jnp.asarray(jnp.nan)
        half, led = (deep_linear.crossing(grown, at) for at in (s / 2, (GROWN * scale) ** depth))
        early, effective = unknown, unknown
        if depth > 2:
            early = unit * deep_linear.early_time(EARLY, s, scale, depth)
        else:
            own = scale * deep_linear.effective_scale(target, layers)
            effective = jnp.asarray(deep_linear.learning_time(0.5, s, own, 2))
        return Result(
            time=half,
            predicted=unit * deep_linear.learning_time(0.5, s, scale, depth),
            early=deep_linear.crossing(grown, EARLY * scale**depth),
            early_predicted=jnp.asarray(early),
            rest=half - led,
            rest_predicted=unit * deep_linear.learning_time(0.5, s, GROWN * scale, depth),
            effective=effective,
            times=grown.times,
            overlaps=grown.overlaps,
            norms=grown.norms[:, 0],
            formula=deep_linear.squared_mode(grown.times, s, scale),
        )

    at_scales = jax.vmap(each, in_axes=(None, None, 0))
    every_target = jnp.concatenate([targets[:1], targets])
    return jax.vmap(at_scales, in_axes=(0, 0, None))(every_target, weights, scales)


def _errors(result: Result) -> Float[np.ndarray, "l s b"]:
    """|t/t* − 1| of random starts."""
    return np.abs(result.time / result.predicted - 1)[:, RANDOMS]


CLAIMS = (
    TIME.claim(
        "From an aligned start the mode is half learned when the formula says, at all depths.",
        lambda r, c: at_most(np.abs(r.time / r.predicted - 1)[:, ALIGNED].max(), 0.02),
        formula=r"t^*_{1/2} = \frac{\beta^{2-L} F(\beta^L/s) - (s/2)^{2/L-1} F(1/2)}{s(L-2)}",
        demand="lab: for 200 readings of the clock, between which times are interpolated",
    ),
    TIME.claim(
        "While the mode is small, more than two layers grow by the simpler formula.",
        lambda r, c: identity(
            r.early[MORE, ALIGNED, -1], r.early_predicted[MORE, ALIGNED, -1], 0.02
        ),
        formula=r"t^* = \beta^{2-L}\,\frac{1 - r^{2/L-1}}{s(L-2)} + O(\beta^2)",
        demand="lab: for 200 readings of the clock, between which times are interpolated",
    ),
    *MODE.erratum(
        printed=(
            "With two layers the solution of the mode's equation is u.",
            lambda r, c: identity(r.norms[TWO, ALIGNED], r.formula[TWO, ALIGNED], 1e-4),
        ),
        corrected=(
            "With two layers the solution of the mode's equation is u².",
            lambda r, c: identity(r.norms[TWO, ALIGNED] ** 2, r.formula[TWO, ALIGNED], 1e-4),
        ),
        formula=r"u^2(t) = \frac{s e^{2st}}{e^{2st} - 1 + s/\beta^2}",
        quote=r"One could resolve \bar{u} explicitly to get",
    ),
    RANDOM.claim(
        "The formula holds with good precision from random starts when β is small enough: two"
        " layers keep its time to a tenth at the smallest β.",
        lambda r, c: median_at_most(_errors(r)[TWO, :, -1], 0.1),
        quote="to hold with good precision for random (not aligned) initializations",
        regime="min(scales) <= 0.005",
        demand="lab: on 32 other seeds with the default sizes the median error was 0.07",
    ),
    RANDOM.claim(
        "The error of two layers falls with β.",
        lambda r, c: ordered(_errors(r)[TWO, :, -1], _errors(r)[TWO, :, 0]),
        quote="is correct for almost all initialization only when β vanishes",
    ),
    RANDOM.control(
        "At the largest β, a tenth, the error of two layers is more than a tenth.",
        lambda r, c: median_at_least(_errors(r)[TWO, :, 0], 0.1),
        regime="max(scales) >= 0.1",
    ),
    RANDOM.found(
        "With the part of the start along the mode for β, it is below a hundredth at all β.",
        lambda r, c: median_at_most(
            np.abs(r.time / r.effective - 1)[TWO, RANDOMS].max(axis=1), 0.01
        ),
        formula=r"\beta_\mathrm{eff} = \tfrac12 \|W_1 q + W_2^\top p\|",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    DEEPER.claim(
        "The formula's time is correct for almost all starts when β vanishes, with more than two"
        " layers: to a tenth at the smallest β, at some depth.",
        lambda r, c: median_at_most(_errors(r)[MORE, :, -1].min(axis=0), 0.1),
        quote="is correct for almost all initialization only when β vanishes",
        expected="refuted",
        why="A random start has a part of the mode only, and its power 2 − L multiplies the time at"
        " every β. The constant is that of aligned starts; the power of β is right.",
        demand="lab: on 32 other seeds with the default sizes the median error was 0.63 or more",
    ),
    DEEPER.found(
        "From a random start, the deepest networks keep the formula's power of β.",
        lambda r, c: exponent_between(
            np.array(c.scales),
            r.time[-1, RANDOMS] * np.array(c.scales) ** (2.0 - c.depths[-1]),
            1.95 - c.depths[-1],
            2.05 - c.depths[-1],
        ),
        formula=r"t_{1/2} \propto \beta^{2-L}",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    DEEPER.found(
        "When the mode has outgrown the start thirty-fold, the formula gives what time remains.",
        lambda r, c: median_at_most(
            np.abs(r.rest / r.rest_predicted - 1)[:, RANDOMS, -1].max(axis=0), 0.05
        ),
        regime="min(scales) <= 0.005",
        demand="lab: on 32 other seeds with the default sizes the median error was 0.003",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the mode of two layers, a random start of the deepest, and all times."""
    titles = ("aligned, L = 2: u²(t)", f"one random start, L = {config.depths[-1]}")
    figure, (mode, jump, ratios) = panels(*titles, "time from random starts / formula")
    for number, scale in enumerate(config.scales):
        place, name = (TWO, ALIGNED, number), f"β = {scale:g}"
        mode.plot(result.times[place], result.norms[place] ** 2, label=name)
        mode.plot(result.times[place], result.formula[place], **THEORY)
        jump.plot(result.times[-1, 1, number], result.overlaps[-1, 1, number], label=name)
    mode.set(xlabel="time t", xlim=(0, 3 * result.time[TWO, ALIGNED, -1]))
    jump.set(xlabel="time t β^(L−2)", xlim=(0, 1.5 * np.median(result.time[-1, RANDOMS])))
    names = (f"L = {depth}" for depth in config.depths)
    ratio = (result.time / result.predicted)[:, RANDOMS]
    curves(ratios, config.scales, dict(zip(names, ratio, strict=True)), "o-")
    ratios.axhline(1.0, **THEORY)
    label_axes(ratios, "β", logarithmic="x")
    for axis in (mode, jump):
        axis.legend(fontsize=7)
    return figure
