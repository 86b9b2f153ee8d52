"""Two-layer ReLU networks seen through their gates; with frozen gates, the quadratic model.

    f(u, v; x) = 1/√(md) Σᵢ vᵢ Mᵢ(x) uᵢᵀx,    Mᵢ(x) = 1 if uᵢᵀx ≥ 0, else 0

where m is the width and d the number of inputs. The network opens its gates M by its current
weights. Its second-order Taylor expansion around initial weights (u₀, v₀), the neural quadratic
model (NQM), is

    g = f₀ + 1/√(md) Σᵢ [v₀ᵢ Mᵢ Δuᵢᵀx + Δvᵢ σ(u₀ᵢᵀx) + Δvᵢ Mᵢ Δuᵢᵀx],    M at u₀,

and multiplied out this is the formula of f with gates frozen at u₀. The tangent kernel of both is

    K(x, x') = 1/(md) Σᵢ Mᵢ(x) Mᵢ(x') [uᵢᵀx uᵢᵀx' + vᵢ² xᵀx'],

so that one example has the curvature λ = K(x, x). Initially it has the mean ‖x‖²/d and the relative
deviation √(2/m) if vᵢ = ±1, √(3/m) if vᵢ ~ N(0, 1).

Source: zhu · nqm-relu2 · Eqs 3.9–3.10, B.1, Prop. B.9.1.
"""

from typing import Literal, NamedTuple

import jax
from jaxtyping import Array, Float

from theorylab.typing import Apply, RandomKey


class GatedWeights(NamedTuple):
    """The weights of both layers."""

    first: Float[Array, "m d"]  # u, one row for each neuron
    second: Float[Array, " m"]  # v


def init(
    key: RandomKey, width: int, dimension: int, second: Literal["signs", "normal"] = "signs"
) -> GatedWeights:
    """Draw uᵢ ~ N(0, I), and vᵢ = ±1 with equal probability or vᵢ ~ N(0, 1).

    Args:
        key: Of all randomness.
        width: The width m.
        dimension: The number of inputs d.
        second: The law of v: the source has signs in its theorems, a normal law in B.9.

    Example:
        >>> import jax.numpy as jnp
        >>> weights = init(jax.random.key(0), width=4, dimension=2)
        >>> weights.first.shape, jnp.abs(weights.second).tolist()
        ((4, 2), [1.0, 1.0, 1.0, 1.0])
    """
    for name, size in (("width", width), ("dimension", dimension)):
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}.")
    key_first, key_second = jax.random.split(key)
    if second not in ("signs", "normal"):
        raise ValueError(f"second must be 'signs' or 'normal', got {second!r}.")
    first = jax.random.normal(key_first, (width, dimension))
    if second == "normal":
        return GatedWeights(first, jax.random.normal(key_second, (width,)))
    return GatedWeights(first, jax.random.rademacher(key_second, (width,), first.dtype))


def curvature_deviation(width: int, second: Literal["signs", "normal"] = "signs") -> float:
    """Give the relative standard deviation of the initial curvature: √(2/m), or √(3/m).

    Example:
        >>> curvature_deviation(200), curvature_deviation(300, "normal")
        (0.1, 0.1)
    """
    return ({"signs": 2, "normal": 3}[second] / width) ** 0.5


def gates(weights: GatedWeights, x: Float[Array, "n d"]) -> Float[Array, "n m"]:
    """Say which neurons each input opens, M: 1 or 0, without gradient.

    Example:
        >>> import jax.numpy as jnp
        >>> weights = GatedWeights(jnp.array([[1.0], [-1.0]]), jnp.array([3.0, 5.0]))
        >>> gates(weights, jnp.array([[2.0], [-2.0]])).tolist()  # each input opens one neuron
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return (x @ weights.first.T >= 0).astype(x.dtype)


def gated(
    weights: GatedWeights, open_gates: Float[Array, "n m"], x: Float[Array, "n d"]
) -> Float[Array, "n 1"]:
    """Compute 1/√(md) Σᵢ vᵢ Mᵢ uᵢᵀx through the given gates.

    Example:
        >>> import jax.numpy as jnp
        >>> weights = GatedWeights(jnp.array([[2.0]]), jnp.array([3.0]))
        >>> x = jnp.array([[-1.0]])
        >>> float(gated(weights, jnp.ones((1, 1)), x)[0, 0])  # 3 · 2x, though relu would give 0
        -6.0
    """
    scale = weights.first.size**-0.5
    return scale * ((x @ weights.first.T) * open_gates) @ weights.second[:, None]


def network(weights: GatedWeights, x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
    """Apply the ReLU network.

    Example:
        >>> import jax.numpy as jnp
        >>> weights = GatedWeights(jnp.array([[2.0]]), jnp.array([3.0]))
        >>> abs(network(weights, jnp.array([[1.0], [-1.0]])).ravel()).tolist()  # 3 relu(2x)
        [6.0, 0.0]
    """
    return gated(weights, gates(weights, x), x)


def quadratic_model(initial: GatedWeights) -> Apply:
    """Expand the network to second order around initial weights: its gates are frozen there.

    Example:
        >>> import jax.numpy as jnp
        >>> initial = GatedWeights(jnp.array([[2.0]]), jnp.array([3.0]))
        >>> moved = GatedWeights(jnp.array([[-2.0]]), jnp.array([3.0]))
        >>> float(quadratic_model(initial)(moved, jnp.array([[1.0]]))[0, 0])  # the gate stays open
        -6.0
    """
    return lambda weights, x: gated(weights, gates(initial, x), x)


def tangent_kernel(
    weights: GatedWeights, open_gates: Float[Array, "n m"], x: Float[Array, "n d"]
) -> Float[Array, "n n"]:
    """Compute the kernel K = ∇f ∇fᵀ of `gated`, in closed form.

    Example:
        >>> import jax.numpy as jnp
        >>> weights = GatedWeights(jnp.array([[2.0]]), jnp.array([3.0]))
        >>> tangent_kernel(weights, jnp.ones((1, 1)), jnp.array([[1.0]])).tolist()  # u² + v²
        [[13.0]]
    """
    hidden = (x @ weights.first.T) * open_gates
    spread = open_gates * weights.second[None, :]
    return (hidden @ hidden.T + (spread @ spread.T) * (x @ x.T)) / weights.first.size
