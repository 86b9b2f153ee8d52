"""In the mean field a wide network is a measure of neurons, and its tangent kernel keeps moving.

The output of a network of two layers is the average of n neurons. With a learning rate of n, every
neuron moves on its own in a field that all make together, and as n grows the outputs converge to
the flow of a measure. Linear networks show where to: their limit obeys three equations, solved
exactly. For erf, networks of a much larger width stand in for it. Unlike in the NTK
parametrization, the kernel moves as much in wide networks as in narrow ones.

The source writes that the measure changes by its push-forward under the velocity. That has mass 1,
while a change of a probability has mass 0; what holds is the continuity equation.

Source: golikov · mean-field-2l · 1.3.2, Eqs 1.12–1.18.
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
    at_most,
    exponent_between,
    identity,
    median_at_least,
)
from theorylab.dynamics.mean_field import (
    NeuronMeasure,
    gaussian_measure,
    linear_limit,
    measure_kernel,
    measure_output,
    neuron_velocity,
)
from theorylab.experiments.drawing import label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Positive, Seeded
from theorylab.kernels import infinite_kernels
from theorylab.models import mlp
from theorylab.progress import report
from theorylab.training import Solver, ensemble, flow
from theorylab.typing import Measured, RandomKey, Scalar

PRECISION = "float64"
FORMULA = r"\partial_t \mu_t = -\operatorname{div}\left(\mu_t\, \Psi(\cdot\,; \mu_t)\right)"

OUTPUT = Source("golikov", "mean-field-2l", "Eq. 1.13")
FLOW = Source("golikov", "mean-field-2l", "Eqs 1.14–1.16")
KERNEL = Source("golikov", "mean-field-2l", "Eqs 1.17–1.18")

NTK, ERF, LINEAR = range(3)  # erf in the NTK parametrization and in the mean field; a linear one
TIMES = np.linspace(0.0, 3.0, 7)
SOLVER = Solver(rtol=1e-6)  # far below the fluctuations of the widest networks


@dataclass(frozen=True)
class Config(Seeded):
    """Networks of two layers of several widths, on the same data for one seed."""

    widths: Increasing[Count] = (64, 128, 256, 512, 1024, 2048)  # neurons n
    reference_width: Count = 16384  # neurons of the network that stands for the limit
    dimension: Count = 3  # inputs d
    num_samples: Count = 6  # samples
    target_scale: Positive = 1.0  # of the targets
    num_seeds: Count = 60  # data, and networks of every width

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reference_width < 4 * self.widths[-1]:
            must = f"reference_width must be at least four times {self.widths[-1]}"
            raise ValueError(f"{must}, got {self.reference_width}.")


PRESETS = {
    "smoke": Config(widths=(64, 128, 256), reference_width=2048, num_seeds=12),
    "paper": Config(widths=(32, 128, 512, 2048, 8192, 16384), reference_width=65536, num_seeds=100),
}


class Flow(NamedTuple):
    """What a network does along its flow: axes times t, samples m."""

    outputs: Float[Measured, "*e t m"]
    kernels: Float[Measured, "*e t m m"]


class Result(NamedTuple):
    """Axes: s seeds, w widths, c cases (NTK, erf, linear)."""

    networks: Flow  # (s, w, c, ...)
    reference: Flow  # (s, c, ...), of the reference width
    linear: Float[Measured, "s t m"]  # outputs of the linear limit
    first_kernel: Float[Measured, "s m m"]  # of erf networks at the start, in the limit
    speed: Float[Measured, "s m"]  # how fast outputs change, by a difference in time
    continuity: Float[Measured, "s m"]  # the same by the continuity equation
    pushed: Float[Measured, "s m"]  # and by the push-forward, as it is printed


def memory(config: Config) -> int:
    """Bytes of the widest network with the stages of its solver, on two cores, and of records."""
    n, cases = config.num_samples, 3 * (len(config.widths) + 1)
    states = 2 * config.reference_width * 16 * (config.dimension + 2 + n)
    return 8 * (states + config.num_seeds * cases * len(TIMES) * n * (n + 1))


def run(config: Config) -> Result:
    """Follow networks of every width, and the limits where they are known."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    report("following networks of every width", 0.0)
    return ensemble(partial(_seed, config), keys)


def _seed(config: Config, key: RandomKey) -> Result:
    """Everything for one draw of data."""
    data_key, speed_key, reference_key, key = jax.random.split(key, 4)
    numbers = jax.random.normal(data_key, (config.num_samples, config.dimension + 1))
    x, y = numbers[:, 1:] / config.dimension**0.5, config.target_scale * numbers[:, 0]
    keys = jax.random.split(key, len(config.widths))
    follow_all = partial(_cases, x, y)
    widest, reference = config.widths[-1], config.reference_width
    kernel = infinite_kernels(mlp((1,), activation="erf"), x * config.dimension**0.5).ntk
    measure = gaussian_measure(speed_key, config.widths[-1], config.dimension)
    return Result(
        networks=jax.lax.map(
            lambda given: follow_all(widest, *given), (jnp.array(config.widths, float), keys)
        ),
        reference=follow_all(reference, float(reference), reference_key),
        linear=linear_limit(x, y, TIMES),
        first_kernel=kernel,
        **_speeds(measure, x, y),
    )


def _cases(x: Array, y: Array, num_neurons: int, width: Scalar, key: RandomKey) -> Flow:
    """One network in each parametrization and with each activation, from the same neurons."""
    start = gaussian_measure(key, num_neurons, x.shape[1], width)

    def follow(activation, scale: Scalar) -> Flow:
        return flow(
            lambda measure: neuron_velocity(activation, measure, x, y, scale),
            start,
            TIMES,
            lambda measure: Flow(
                outputs=measure_output(activation, measure, x, scale),
                kernels=measure_kernel(activation, measure, x),
            ),
            SOLVER,
        ).records

    erf = jax.scipy.special.erf
    cases = (follow(erf, jnp.sqrt(width)), follow(erf, 1.0), follow(lambda z: z, 1.0))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *cases)


def _speeds(measure: NeuronMeasure, x: Array, y: Array) -> dict[str, Array]:
    """The change of ∫ g dμ for g = v φ(wᵀx), at every sample x: measured, and by both equations."""
    erf, step = jax.scipy.special.erf, 1e-5
    velocity = neuron_velocity(erf, measure, x, y)
    moved = jax.tree.map(lambda m, v: jnp.stack([m - step * v, m + step * v]), measure, velocity)
    before, after = jax.vmap(lambda m: measure_output(erf, m, x))(moved)
    residual = y - measure_output(erf, measure, x)
    return {
        "speed": (after - before) / (2 * step),
        "continuity": measure_kernel(erf, measure, x) @ residual,
        "pushed": measure_output(erf, velocity._replace(mass=measure.mass), x),
    }


def _deviation(values: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Root mean square over everything but seeds and widths: (s, w)."""
    squares = (values - limit) ** 2
    return np.sqrt(squares.mean(axis=tuple(range(2, squares.ndim))))


def _linear_error(result: Result) -> np.ndarray:
    """How far linear networks are from their limit after the start: (s, w), the reference last."""
    networks, reference = result.networks.outputs[:, :, LINEAR], result.reference.outputs[:, LINEAR]
    outputs = np.concatenate([networks, reference[:, None]], axis=1)
    return _deviation(outputs[:, :, 1:], result.linear[:, None, 1:])


def _erf_error(result: Result) -> np.ndarray:
    """How far erf networks are from those of the reference width: (s, w)."""
    outputs, reference = result.networks.outputs[:, :, ERF], result.reference.outputs[:, None, ERF]
    return _deviation(outputs[:, :, 1:], reference[:, :, 1:])


def _movement(kernels: np.ndarray) -> np.ndarray:
    """How much kernels (..., t, m, m) have changed in the end, relative to their start."""
    first, last = kernels[..., 0, :, :], kernels[..., -1, :, :]
    return np.linalg.norm(last - first, axis=(-2, -1)) / np.linalg.norm(first, axis=(-2, -1))


def _moved(result: Result, case: int) -> np.ndarray:
    return _movement(result.networks.kernels[:, :, case])


def _bias(result: Result) -> float:
    """How far the mean over seeds of linear outputs is from the limit's, in standard errors."""
    errors = result.reference.outputs[:, LINEAR, 1:] - result.linear[:, 1:]
    means = errors.mean(axis=(1, 2))  # samples and times of a seed share its neurons
    return float(abs(means.mean()) / (means.std(ddof=1) / len(means) ** 0.5))


def _first_kernel_error(result: Result) -> np.ndarray:
    """How far the first kernel at the reference width is from the integral, relatively: (s,)."""
    found, limit = result.reference.kernels[:, ERF, 0], result.first_kernel
    norms = np.linalg.norm(limit, axis=(-2, -1))
    return np.linalg.norm(found - limit, axis=(-2, -1)) / norms


CLAIMS = (
    OUTPUT.claim(
        "At the start the output converges to ∫ vφ(xᵀw) dμ₀, which is 0, as 1/√n.",
        lambda r, c: exponent_between(
            c.widths, _deviation(r.networks.outputs[:, :, ERF, 0], np.zeros(1)), -0.6, -0.4
        ),
        quote="almost surely by the Law of Large Numbers",
        demand="derived: the variance of a mean of n independent terms falls as 1/n",
        regime="num_seeds >= 50 and len(widths) >= 5",
    ),
    FLOW.claim(
        "Outputs of linear networks converge to the flow of the limit as 1/√n.",
        lambda r, c: exponent_between(c.widths, _linear_error(r)[:, :-1], -0.6, -0.4),
        quote="yields a meaningful limit evolution",
        demand="derived: fluctuations of n exchangeable neurons",
        regime="num_seeds >= 50 and len(widths) >= 5",
    ),
    FLOW.claim(
        "That limit is right: at the reference width the outputs are within 0.3/√n of it.",
        lambda r, c: at_most(np.median(_linear_error(r)[:, -1]) * c.reference_width**0.5, 0.3),
        demand="lab: about twice the 0.14 and 0.11 of seeds 101 and 102",
    ),
    FLOW.check(
        "Its mean over seeds has no bias: within four standard errors.",
        lambda r, c: at_most(_bias(r), 4.0),
    ),
    FLOW.claim(
        "Outputs of erf networks converge as 1/√n, too.",
        lambda r, c: exponent_between(c.widths, _erf_error(r), -0.6, -0.4),
        quote="yields a meaningful limit evolution",
        demand="derived: fluctuations of n exchangeable neurons",
        regime="num_seeds >= 50 and len(widths) >= 5",
    ),
    *FLOW.erratum(
        printed=(
            "The measure changes by its push-forward under Ψ: d/dt ∫g dμ = ∫g∘Ψ dμ.",
            lambda r, c: identity(r.pushed, r.speed, 1e-6),
            r"\partial_t \mu_t = \Psi_*(\mu_t; \mu_t)",
        ),
        corrected=(
            "The measure obeys the continuity equation: d/dt ∫g dμ = ∫∇g·Ψ dμ.",
            lambda r, c: identity(r.continuity, r.speed, 1e-6),
            r"\partial_t \mu_t = -\operatorname{div}(\mu_t \Psi(\cdot\,; \mu_t))",
        ),
        quote="denotes a push-forward measure",
    ),
    KERNEL.claim(
        "The scaled kernel at the start is the integral over N(0, I), within 2/√n.",
        lambda r, c: at_most(np.median(_first_kernel_error(r)) * c.reference_width**0.5, 2.0),
        demand="lab: twice the 1.0 of seeds 101 and 102",
    ),
    KERNEL.claim(
        "The kernel moves in the limit, too: its change does not depend on the width.",
        lambda r, c: exponent_between(
            c.widths, _movement(r.networks.kernels[:, :, ERF]), -0.1, 0.1
        ),
        quote="the associated NTK Θ_t evolves over time even in the limit",
        demand="lab: a tenth around 0, the exponent of a change that is finite in the limit",
        regime="num_seeds >= 50 and len(widths) >= 5",
    ),
    KERNEL.claim(
        "At the reference width the kernel has changed by a tenth or more.",
        lambda r, c: median_at_least(_movement(r.reference.kernels[:, ERF]), 0.1),
        quote="the above limit also evolves over time",
        demand="lab: a change that a figure shows; chosen before any run",
    ),
    KERNEL.control(
        "In the NTK parametrization it moves less and less, as 1/n.",
        lambda r, c: exponent_between(
            c.widths, _movement(r.networks.kernels[:, :, NTK]), -1.15, -0.85
        ),
        demand="derived: weights move by 1/√n, and the first order averages out over v",
        regime="num_seeds >= 50 and len(widths) >= 5",
    ),
    KERNEL.control(
        "At the reference width it moves at least five times less there than in the mean field.",
        lambda r, c: median_at_least(
            _movement(r.reference.kernels[:, ERF]) / _movement(r.reference.kernels[:, NTK]), 5.0
        ),
        demand="lab: a factor that no noise explains; chosen before any run",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Deviations from the limit, and movement of the kernel, over the width."""
    figure, (errors, movement) = panels("deviation of outputs", "relative change of the kernel")
    named = {"linear": _linear_error(result)[:, :-1], "erf": _erf_error(result)}
    scaling(errors, config.widths, named, exponent=-0.5)
    cases = {"mean field": ERF, "NTK parametrization": NTK}
    moved = {name: _moved(result, case) for name, case in cases.items()}
    scaling(movement, config.widths, moved)
    for axis in (errors, movement):
        label_axes(axis, "width n")
    return figure
