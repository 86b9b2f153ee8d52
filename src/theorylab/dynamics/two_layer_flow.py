"""Gradient flow of networks of two layers, written out; and what linear ones conserve.

For f(x) = vᵀφ(Wx) with m neurons, the samples in the rows of X, and the loss ½‖y − φ(XWᵀ)v‖²,

    dv/dt = φ(XWᵀ)ᵀ r
    dW/dt = [φ′(XWᵀ) ⊙ r vᵀ]ᵀ X        r = y − φ(XWᵀ)v

A linear network (φ = id) conserves the whole matrix WWᵀ − vvᵀ. If φ is homogeneous of degree k,
φ(cz) = cᵏφ(z) for c > 0, every neuron conserves ‖wᵢ‖² − kvᵢ² (ReLU has k = 1, its square k = 2),
but the matrix WWᵀ − kvvᵀ moves off its diagonal; for other φ all of it moves.
Discrete steps of size η change a conserved quantity by η²(dW/dt dWᵀ/dt − k dv/dt dvᵀ/dt) each.

Source: golikov · two-layer-flows · Eqs 1.4–1.5.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import RandomKey, Scalar

ActivationFunction = Callable[[Float[Array, "n m"]], Float[Array, "n m"]]


class TwoLayers(NamedTuple):
    """The weights of a network, or their velocities."""

    inner: Float[Array, "m d"]  # W
    outer: Float[Array, " m"]  # v


def init(key: RandomKey, width: int, dimension: int, scale: float = 1.0) -> TwoLayers:
    """Draw W ~ N(0, c²/d) and v ~ N(0, c²/m), independently.

    Args:
        key: The randomness.
        width: The number of neurons m.
        dimension: The number of inputs d.
        scale: c.

    Example:
        >>> params = init(jax.random.key(0), width=3, dimension=2)
        >>> params.inner.shape, params.outer.shape
        ((3, 2), (3,))
    """
    if width < 1 or dimension < 1:
        raise ValueError(f"width and dimension must be at least 1, got {width}, {dimension}.")
    numbers = scale * jax.random.normal(key, (width, dimension + 1))
    inner = numbers[:, :dimension] / jnp.sqrt(dimension)
    return TwoLayers(inner, numbers[:, dimension] / jnp.sqrt(width))


def outputs(
    activation: ActivationFunction, params: TwoLayers, x: Float[Array, "n d"]
) -> Float[Array, " n"]:
    """Compute φ(XWᵀ)v.

    Example:
        >>> params = TwoLayers(inner=jnp.array([[2.0]]), outer=jnp.array([3.0]))
        >>> outputs(jax.nn.relu, params, jnp.array([[1.0], [-1.0]])).tolist()
        [6.0, 0.0]
    """
    return activation(x @ params.inner.T) @ params.outer


def loss(
    activation: ActivationFunction, params: TwoLayers, x: Float[Array, "n d"], y: Float[Array, " n"]
) -> Float[Array, ""]:
    """Compute ½‖y − φ(XWᵀ)v‖².

    Example:
        >>> params = TwoLayers(inner=jnp.array([[2.0]]), outer=jnp.array([3.0]))
        >>> float(loss(lambda z: z, params, jnp.ones((1, 1)), jnp.array([8.0])))
        2.0
    """
    return jnp.sum((y - outputs(activation, params, x)) ** 2) / 2


def velocity(
    activation: ActivationFunction, params: TwoLayers, x: Float[Array, "n d"], y: Float[Array, " n"]
) -> TwoLayers:
    """Give dW/dt and dv/dt of the gradient flow.

    Args:
        activation: φ, applied to each number by itself.
        params: W and v.
        x: The inputs X.
        y: The targets.

    Example:
        >>> params = TwoLayers(inner=jnp.array([[2.0]]), outer=jnp.array([3.0]))
        >>> speed = velocity(lambda z: z, params, jnp.ones((1, 1)), jnp.array([7.0]))
        >>> float(speed.inner[0, 0]), float(speed.outer[0])
        (3.0, 2.0)
    """
    w, v = params
    sums = x @ w.T
    values, slopes = jax.jvp(activation, (sums,), (jnp.ones_like(sums),))
    r = y - values @ v
    return TwoLayers(inner=(slopes * r[:, None] * v[None, :]).T @ x, outer=values.T @ r)


def imbalance(params: TwoLayers, degree: Scalar = 1) -> Float[Array, "m m"]:
    """Compute WWᵀ − kvvᵀ, for an activation that is homogeneous of degree k.

    Example:
        >>> imbalance(TwoLayers(inner=jnp.array([[2.0]]), outer=jnp.array([3.0]))).tolist()  # 4 − 9
        [[-5.0]]
    """
    w, v = params
    return w @ w.T - degree * jnp.outer(v, v)
