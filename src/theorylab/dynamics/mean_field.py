"""The mean-field limit of two layers: a network is a measure of neurons, and training moves it.

With neurons (v, w), the measure μ, samples in the rows of X and the loss ½‖y − f(X)‖²,

    f_μ(x) = α ∫ v φ(wᵀx) dμ(v, w)
    Ψ(v, w; μ) = (φ(wᵀXᵀ) r,  v Xᵀ[φ′(Xw) ⊙ r])        r = y − f_μ(X)

every neuron moves with velocity Ψ/α. The scale α is 1 in the mean field (the output is an average,
the learning rate the width n) and √n in the NTK parametrization, where neurons hardly move. In both

    d/dt f_μ(X) = K r        K(x, x′) = ∫ φ(wᵀx)φ(wᵀx′) + v²φ′(wᵀx)φ′(wᵀx′) xᵀx′ dμ

A finite network has n neurons of mass 1/n; the limit begins with the Gaussian measure N(0, I). For
linear networks (φ = id) three moments of μ obey equations of their own, which gives the limit
exactly: with M = ∫ v w, A = ∫ w wᵀ, b = ∫ v² and g = Xᵀ(y − XM),

    dM/dt = (A + bI) g        dA/dt = g Mᵀ + M gᵀ        db/dt = 2 gᵀM

Source: golikov · mean-field-2l · Eqs 1.12–1.18.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.training import Solver, flow
from theorylab.training.flow import Times
from theorylab.typing import RandomKey, Scalar

from .two_layer_flow import ActivationFunction


class NeuronMeasure(NamedTuple):
    """Neurons with their masses, which sum to 1; or velocities, which have none."""

    outer: Float[Array, " n"]  # v
    inner: Float[Array, "n d"]  # w
    mass: Float[Array, " n"]


class LinearMoments(NamedTuple):
    """Moments of the measure of a linear network, which its flow needs."""

    product: Float[Array, " d"]  # M = ∫ v w
    inner: Float[Array, "d d"]  # A = ∫ w wᵀ
    outer: Float[Array, ""]  # b = ∫ v²


def gaussian_measure(
    key: RandomKey, num_neurons: int, dimension: int, width: Scalar | None = None
) -> NeuronMeasure:
    """Draw neurons from N(0, I), each with the same mass.

    Args:
        key: The randomness.
        num_neurons: How many are drawn.
        dimension: The number of inputs d.
        width: How many of them have a mass, the first ones; all unless told. It may be traced, so
            that networks of several widths share one program.

    Example:
        >>> measure = gaussian_measure(jax.random.key(0), num_neurons=4, dimension=2, width=2)
        >>> measure.mass.tolist()
        [0.5, 0.5, 0.0, 0.0]
    """
    if num_neurons < 1 or dimension < 1:
        must = "num_neurons and dimension must be at least 1"
        raise ValueError(f"{must}, got {num_neurons} and {dimension}.")
    numbers = jax.random.normal(key, (num_neurons, dimension + 1))
    count = num_neurons if width is None else width
    mass = jnp.where(jnp.arange(num_neurons) < count, 1.0 / count, 0.0)
    return NeuronMeasure(numbers[:, 0], numbers[:, 1:], mass.astype(numbers.dtype))


def measure_output(
    activation: ActivationFunction,
    measure: NeuronMeasure,
    x: Float[Array, "m d"],
    scale: Scalar = 1.0,
) -> Float[Array, " m"]:
    """Compute f_μ(x) = α ∫ v φ(wᵀx) dμ.

    Args:
        activation: φ.
        measure: μ.
        x: The inputs.
        scale: α.

    Example:
        >>> one = NeuronMeasure(jnp.array([3.0]), jnp.array([[2.0]]), jnp.ones(1))
        >>> measure_output(lambda z: z, one, jnp.array([[1.0], [-1.0]])).tolist()
        [6.0, -6.0]
    """
    return scale * activation(x @ measure.inner.T) @ (measure.mass * measure.outer)


def neuron_velocity(
    activation: ActivationFunction,
    measure: NeuronMeasure,
    x: Float[Array, "m d"],
    y: Float[Array, " m"],
    scale: Scalar = 1.0,
) -> NeuronMeasure:
    """Compute Ψ(v, w; μ)/α at every neuron; masses do not move.

    Args:
        activation: φ.
        measure: μ.
        x: The inputs of the training samples.
        y: Their targets.
        scale: α.

    Example:
        >>> one = NeuronMeasure(jnp.array([3.0]), jnp.array([[2.0]]), jnp.ones(1))
        >>> moved = neuron_velocity(lambda z: z, one, jnp.ones((1, 1)), jnp.array([7.0]))  # r = 1
        >>> moved.outer.tolist(), moved.inner.tolist()
        ([2.0], [[3.0]])
    """
    hidden, slopes = _hidden(activation, measure, x)
    residual = y - measure_output(activation, measure, x, scale)
    inner = (slopes * residual[:, None] * measure.outer[None, :]).T @ x
    return NeuronMeasure(residual @ hidden / scale, inner / scale, jnp.zeros_like(measure.mass))


def measure_kernel(
    activation: ActivationFunction, measure: NeuronMeasure, x: Float[Array, "m d"]
) -> Float[Array, "m m"]:
    """Compute K, the tangent kernel times the learning rate: df/dt = K r at every scale.

    Args:
        activation: φ.
        measure: μ.
        x: The inputs.

    Example:
        >>> one = NeuronMeasure(jnp.array([3.0]), jnp.array([[2.0]]), jnp.ones(1))
        >>> measure_kernel(lambda z: z, one, jnp.ones((1, 1))).tolist()  # w² + v²
        [[13.0]]
    """
    hidden, slopes = _hidden(activation, measure, x)
    moving = slopes * measure.outer[None, :]
    weights = measure.mass[None, :]
    return (weights * hidden) @ hidden.T + ((weights * moving) @ moving.T) * (x @ x.T)


def linear_limit(
    x: Float[Array, "m d"], y: Float[Array, " m"], times: Times
) -> Float[Array, "t m"]:
    """Compute the outputs of an infinitely wide linear network in the mean field, from N(0, I).

    Args:
        x: The inputs of the training samples.
        y: Their targets.
        times: When, increasing.

    Example:
        >>> x, y = jnp.ones((1, 1)), jnp.ones(1)
        >>> linear_limit(x, y, times=[0, 10]).round(4).tolist()
        [[0.0], [1.0]]
    """

    def velocity(moments: LinearMoments) -> LinearMoments:
        mixed, inner, outer = moments
        pull = x.T @ (y - x @ mixed)
        turned = jnp.outer(pull, mixed)
        return LinearMoments(inner @ pull + outer * pull, turned + turned.T, 2 * pull @ mixed)

    dimension = x.shape[1]
    start = LinearMoments(
        product=jnp.zeros(dimension, x.dtype),
        inner=jnp.eye(dimension, dtype=x.dtype),
        outer=jnp.ones((), x.dtype),
    )
    return flow(velocity, start, times, lambda m: x @ m.product, Solver("dopri8")).records


def _hidden(
    activation: ActivationFunction, measure: NeuronMeasure, x: Float[Array, "m d"]
) -> tuple[Float[Array, "m n"], Float[Array, "m n"]]:
    """φ and φ′ at every sample and neuron."""
    z = x @ measure.inner.T
    return jax.jvp(activation, (z,), (jnp.ones_like(z),))
