"""The tangent hierarchy: how the tangent kernel of a finite network moves, and what moves that.

    O₁(x) = f(x),   O_s(x₁, …, x_s) = ⟨∇O_{s−1}(x₁, …, x_{s−1}), ∇f(x_s)⟩,   gradients in w.

O₂ is the tangent kernel Θ. Under gradient flow of ½ Σ (f − y)² over training inputs X, exactly,

    dO_s/dt = O_{s+1}(·, X) (y − f(X)),

a chain that never ends. At width m, O₃ and O₄ are of order 1/m and O₄ moves by 1/m² only, so the
chain cut after O₄ knows what is of order 1/m. To that order residuals decay as r_t = e^{−Θt} r₀.
With Θ = Σ λ_k v_k v_kᵀ, r_k = v_kᵀr₀ and φ_λ = (1 − e^{−λt})/λ the kernel has a closed form:

    Θ_t = Θ₀ + Σ_k φ_{λ_k} O₃(·, ·, v_k) r_k
             + Σ_kl (φ_{λ_k} − φ_{λ_k+λ_l})/λ_l O₄(·, ·, v_k, v_l) r_k r_l.

For t → ∞ the last factor is 1/(λ_k(λ_k + λ_l)): v_k stands in the third place of O₄ and v_l in the
fourth, which are not alike. Its mean over networks is the kernel Θ^NTH.

Source: golikov · ntk-hierarchy · 2.3, Eqs 2.24–2.52, 2.158.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.training import Solver, Trajectory, flow
from theorylab.training.flow import Times
from theorylab.typing import Apply, Params, Scalar

Hierarchy = tuple[Array, ...]  # O₁ (m,), O₂ (m, n), O₃ (m, n, n), …


def tangent_hierarchy(
    apply: Apply,
    params: Params,
    x: Float[Array, "m ..."],
    directions: Float[Array, "n ..."] | None = None,
    order: int = 4,
) -> Hierarchy:
    """O₁, …, O_order at some parameters: O_s has shape (m, n, …, n), with s axes.

    Each order takes the derivative of the one before along the n gradients of the network, forward
    and all at once; so O_s costs nˢ⁻¹ passes, and n ≤ 8 is meant.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, 1).
        params: w, any pytree of arrays.
        x: The inputs x₁.
        directions: The inputs x₂, …, x_s; the same as x if not given.
        order: The last s.

    Example:
        >>> square = lambda w, x: w**2 * x[:, :1]
        >>> hierarchy = tangent_hierarchy(square, jnp.array(1.0), jnp.ones((1, 1)))
        >>> [float(tensor.ravel()[0]) for tensor in hierarchy]
        [1.0, 4.0, 16.0, 64.0]
    """
    if order < 1:
        raise ValueError(f"order must be at least 1, got {order}.")
    along = x if directions is None else directions
    for inputs in (x, along):
        shape = jax.eval_shape(apply, params, inputs).shape
        if shape != (len(inputs), 1):
            raise ValueError(
                f"apply must give one output for each of {len(inputs)} inputs, got shape {shape}."
            )

    return _orders(apply, params, x, along, order)


@partial(jax.jit, static_argnames=("apply", "order"))
def _orders(apply: Apply, params: Params, x: Array, along: Array, order: int) -> Hierarchy:
    """Every order with its derivatives along the gradients, which are the next one."""
    if order == 1:
        return (apply(params, x)[:, 0],)

    def lower(params: Params) -> Hierarchy:
        return _orders(apply, params, x, along, order - 1)

    gradients = jax.jacrev(lambda w: apply(w, along)[:, 0])(params)
    values, push = jax.linearize(lower, params)
    return (*values, jax.vmap(lambda g: push(g)[-1], out_axes=-1)(gradients))


def truncated_flow(
    start: Hierarchy,
    targets: Float[Array, " n"],
    times: Times,
    solver: Solver | None = None,
) -> Trajectory:
    """Follow dO_s/dt = O_{s+1}(·, X)(y − f(X)) with the last O_s held fast.

    Two orders are the network with a constant kernel. The training inputs X are the first n of the
    inputs x₁, and all of x₂, …, x_s; what x₁ holds beyond them is predicted.

    Args:
        start: O₁, …, O_S at time 0, as `tangent_hierarchy` gives them; S at least 2.
        targets: y, one for each training input.
        times: The increasing times at which to record; the last ends the flow.
        solver: Method and tolerances.

    Returns:
        A trajectory whose records are O₁, …, O_{S−1}, each with the times as its leading axis.

    Example: shapes alone (the flow takes seconds to compile).
        >>> y, times = jnp.ones(2), [0.5, 1.0, 2.0]
        >>> run = lambda f, kernel: truncated_flow((f, kernel), y, times).records
        >>> (outputs,) = jax.eval_shape(run, jnp.zeros(2), jnp.eye(2))
        >>> outputs.shape  # three times, two inputs
        (3, 2)
    """
    _check(start, targets, fewest=2)
    fixed = start[-1]

    def velocity(moving: Hierarchy) -> Hierarchy:
        residual = targets - moving[0][: len(targets)]
        return tuple(above @ residual for above in (*moving[1:], fixed))

    return flow(velocity, start[:-1], times, lambda moving: moving, solver)


def corrected_kernel(
    start: Hierarchy,
    targets: Float[Array, " n"],
    time: Scalar = math.inf,
    kernel: Float[Array, "n n"] | None = None,
) -> Float[Array, "m n"]:
    """The tangent kernel at a time, to order 1/width: Θ_t in closed form, from O₁ to O₄ at time 0.

    At the end of training its mean over networks is Θ^NTH.

    Args:
        start: O₁, …, O₄ at time 0, with the n training inputs first among the inputs x₁.
        targets: y, one for each training input.
        time: t, at least 0; infinite by default.
        kernel: Θ, which drives the residuals, positive definite; by default the network's own O₂
            on the training inputs. With the limit of infinite width it is the source's formula.

    Example: f = w² from w = 1 to f = 1.1, where 4w² is 4.4; to second order it is 4.42.
        >>> square = lambda w, x: w**2 * x[:, :1]
        >>> start = tangent_hierarchy(square, jnp.array(1.0), jnp.ones((1, 1)))
        >>> kernels = [corrected_kernel(start, jnp.array([1.1]), time) for time in (0.0, jnp.inf)]
        >>> [round(float(kernel[0, 0]), 3) for kernel in kernels]
        [4.0, 4.42]
    """
    _check(start, targets, fewest=4)
    outputs, second, third, fourth = start[:4]
    n = len(targets)
    values, vectors = jnp.linalg.eigh(second[:n] if kernel is None else kernel)
    residual = vectors.T @ (targets - outputs[:n])

    def decayed(rate: Array) -> Array:
        """∫₀ᵗ e^{−λs} ds."""
        return -jnp.expm1(-rate * time) / rate

    once = decayed(values) * residual
    pairs = decayed(values)[:, None] - decayed(values[:, None] + values[None, :])
    twice = pairs * residual[:, None] * (residual / values)[None, :]
    return (
        second
        + third @ (vectors @ once)
        + jnp.einsum("abcd,cd->ab", fourth, vectors @ twice @ vectors.T)
    )


def _check(start: Hierarchy, targets: Array, fewest: int) -> None:
    if len(start) < fewest:
        raise ValueError(f"start must hold at least {fewest} orders, got {len(start)}.")
    n = len(targets)
    for order, array in enumerate(start, 1):
        if array.ndim != order or len(array) < n or set(array.shape[1:]) - {n}:
            raise ValueError(
                f"O_{order} must have {order} axes, the first of at least {n} inputs and the "
                f"others of {n}, one for each target; got shape {array.shape}."
            )
