"""Networks learn smooth functions first: every frequency in a time that the kernel predicts.

On a circle, waves are the eigenfunctions of the tangent kernel. The part of the target that belongs
to the eigenvalue λ is learned by gradient flow as 1 − exp(−λt), in a time proportional to 1/λ:
strong components before weak ones. Here networks with one hidden layer learn a sum of waves.
Without biases, the eigenvalues of odd frequencies above 1 are 0, and those waves are not learned.

Source: golikov · ntk-spectral-bias · 2.6.2, Eqs 2.106–2.108.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import Source, exponent_between, median_at_most, median_between, ordered
from theorylab.experiments.drawing import COLOURS, THEORY, label_axes, medians, panels
from theorylab.fields import Count, Seeded, within
from theorylab.kernels import infinite_kernels
from theorylab.kernels.zonal import circle_spectrum
from theorylab.models import mlp, network
from theorylab.models.parts import Bias
from theorylab.progress import report
from theorylab.training import descend, every, gradient_descent
from theorylab.typing import Measured, RandomKey

from ._circle import HE, circle

PRECISION = "float64"
FORMULA = r"u_{t,k} = v_k^\top y - e^{-\lambda_k t} (v_k^\top y - u_{0,k})"
TIMES = Source("golikov", "ntk-spectral-bias", "2.6.2, Eqs 2.106–2.108")

NUM_POINTS = 64  # on the circle, where networks are trained
AMPLITUDE = 0.1  # of every wave of the target; small, so that the kernel stays


@dataclass(frozen=True)
class Config(Seeded):
    """When networks on a circle have learned a wave."""

    width: Count = 2048  # of the one hidden layer
    num_modes: Annotated[int, within(3, 16)] = 8  # waves of the target
    num_seeds: Count = 8  # trained networks


PRESETS = {
    "smoke": Config(width=1024, num_modes=5, num_seeds=6),
    "paper": Config(width=16384, num_modes=16, num_seeds=32),
}


class Result(NamedTuple):
    """Axes: s seeds, k waves of the target."""

    eigenvalues: Float[Measured, " k"]  # of the limit kernel
    half_times: Float[Measured, "s k"]  # when half of a wave was learned
    unbiased: Float[Measured, "s k"]  # what networks without biases have learned at the end


def memory(config: Config) -> int:
    """Bytes of the trained networks with their gradients and neurons."""
    return 8 * config.num_seeds * config.width * (3 * 4 + 4 * NUM_POINTS)


def run(config: Config) -> Result:
    """Train networks with biases, then networks without."""
    report("networks on the circle", 0.0)
    x = circle(NUM_POINTS)
    spectrum = circle_spectrum(infinite_kernels(mlp([1]), x[:1], x, HE, "zero").ntk[0])
    eigenvalues = np.asarray(spectrum[1 : config.num_modes + 1])
    rate = 0.5 / float(spectrum.max())  # small enough for steps to be a flow
    # Twice the time that the slowest wave needs.
    num_steps = math.ceil(2 * math.log(2) / (rate * eigenvalues.min()))
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    learned = partial(_learned, keys, x, config.num_modes, rate, num_steps, config.width)
    half_times = jax.vmap(jax.vmap(_half_time, in_axes=1))(learned("zero")) * rate
    report("networks without biases", 0.5)
    return Result(eigenvalues, half_times, learned("none")[:, -1])


@partial(jax.jit, static_argnames=("num_modes", "rate", "num_steps", "width", "bias"))
def _learned(
    keys: Key[Array, " s"],
    x: Float[Array, "m 2"],
    num_modes: int,
    rate: float,
    num_steps: int,
    width: int,
    bias: Bias,
) -> Float[Array, "s t k"]:
    """Train on the sum of all waves by the mean square; the part of every wave that is learned."""
    angles = 2 * jnp.pi * jnp.arange(len(x)) / len(x)
    waves = jnp.cos(angles[:, None] * jnp.arange(1.0, num_modes + 1)[None, :])
    target = AMPLITUDE * waves.sum(axis=1, keepdims=True)
    model = network(mlp([width]), (2,), HE, bias=bias)

    def train(key: RandomKey) -> Float[Array, "t k"]:
        params = model.init(key)
        start = model.apply(params, x)

        def objective(params) -> Array:
            return jnp.mean((model.apply(params, x) - start - target) ** 2) / 2

        def learned(params) -> Array:
            moved = (model.apply(params, x) - start)[:, 0]
            return moved @ waves * (2 / len(x)) / AMPLITUDE

        steps = every(1, num_steps)
        return descend(objective, params, gradient_descent(rate), steps, learned).records

    return jax.vmap(train)(keys)


def _half_time(amplitudes: Float[Array, " t"]) -> Float[Array, ""]:
    """The step at which half is first reached, what is left being exponential in between.

    NaN if it is never reached.
    """
    above = amplitudes >= 0.5
    index = jnp.maximum(jnp.argmax(above), 1)
    before, after = jnp.log(1 - amplitudes[index - 1]), jnp.log(1 - amplitudes[index])
    share = (before - math.log(0.5)) / (before - after)
    return jnp.where(above.any(), index - 1 + share, jnp.nan)


def _odd(result: Result) -> Float[np.ndarray, " s"]:
    """The most that networks without biases learned of a wave of odd frequency from 3 on."""
    return np.abs(result.unbiased[:, 2::2]).max(axis=1)


def _in_order(result: Result) -> Float[np.ndarray, "s k"]:
    """Times of the waves from the strongest to the weakest."""
    return result.half_times[:, np.argsort(-result.eigenvalues)]


CLAIMS = (
    TIMES.claim(
        "Strong components are learned before weak ones, wave by wave.",
        lambda r, c: ordered(
            np.zeros(len(r.half_times)), np.diff(_in_order(r), axis=1).min(axis=1)
        ),
        quote="strong components are learned before weak ones",
    ),
    TIMES.claim(
        "A trained network has learned half of a wave in a time proportional to 1/λ.",
        lambda r, c: exponent_between(1 / r.eigenvalues, r.half_times, 0.9, 1.1),
        quote="component of the target is inversely proportional to its strength",
        demand="lab: 1 ± 0.1, chosen before the first run, for the finite width",
    ),
    TIMES.claim(
        "The factor is log 2, as for gradient flow of the limit kernel, within 25 %.",
        lambda r, c: median_between(
            np.median(r.half_times * r.eigenvalues[None], axis=1) / math.log(2), 0.8, 1.25
        ),
        formula=r"t_{1/2} = \log 2 / \lambda_k",
        demand="lab: the kernel of a finite network is off by a few times 1/√width",
    ),
    TIMES.control(
        "Without biases, of waves of odd frequency from 3 on at most a tenth is learned.",
        lambda r, c: median_at_most(_odd(r), 0.1),
        demand="lab: the limit kernel learns nothing of them",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw times of training over 1/λ, and what is learned without biases."""
    figure, (times, unbiased) = panels("when half of a wave is learned", "learned without biases")
    slow = 1 / result.eigenvalues
    times.plot(slow, result.half_times.T, "o", markersize=3, color=COLOURS[0], alpha=0.5)
    times.plot(np.sort(slow), math.log(2) * np.sort(slow), label="log 2/λ", **THEORY)
    label_axes(times, "1/λ", "time", logarithmic="xy")
    times.legend(fontsize=7)
    frequencies = np.arange(1, result.unbiased.shape[1] + 1)
    medians(unbiased, frequencies, {"no biases": result.unbiased}, "o-")
    label_axes(unbiased, "frequency k", "part learned at the end")
    return figure
