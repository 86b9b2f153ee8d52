"""The tangent kernel of a finite network: any `apply(params, x)`, at any parameters.

    Θ_ab(x, x′) = ⟨∂f_a(x)/∂w, ∂f_b(x′)/∂w⟩        full, (n₁, n₂, k, k)
    Θ(x, x′)    = (1/k) Σ_a Θ_aa(x, x′)             averaged over the k outputs, (n₁, n₂)
    (Θv)(x)     = Σ_x′ Θ(x, x′) v(x′)               as an operator, without any Jacobian

Under gradient flow of a loss, outputs move as df(x)/dt = −Σ_x′ Θ(x, x′) ∂loss/∂f(x′). If every
parameter w has its own learning rate η_w (as in μP), the same holds with the weighted kernel
⟨∂f, ∂f′⟩ = Σ_w η_w (∂f/∂w)(∂f′/∂w), which `learning_rates` asks for; rate 0 leaves a layer out.

Jacobians are made for a block of inputs at a time and contracted parameter by parameter, so memory
stays at two blocks whatever n is. Everything can be jitted, and mapped over params (seeds); to keep
memory at one seed, map with `jax.lax.map`. The network must treat every input by itself: with batch
statistics, f(x) depends on the other inputs and Θ(x, x′) is not defined.

Source: golikov · ntk-emp · 2.1; arora · ntk-dynamics · Lemma 9.1.1.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Apply, Params, Scalar

from .inputs import input_pair

BLOCK_BYTES = 2**28  # the Jacobians of one block of inputs, by default


def ntk(
    apply: Apply,
    params: Params,
    x1: Float[Array, "n1 ..."],
    x2: Float[Array, "n2 ..."] | None = None,
    learning_rates: Params | None = None,
    block_size: int | None = None,
) -> Float[Array, "n1 n2"]:
    """Θ(x, x′) = (1/k) Σ_a ⟨∂f_a(x)/∂w, ∂f_a(x′)/∂w⟩, the tangent kernel averaged over outputs.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        x1: The inputs x.
        x2: The inputs x′; the same as x if not given.
        learning_rates: η_w, the parameters' tree or a prefix of it, at least 0; all 1 by default.
        block_size: The number of inputs whose Jacobians are held at once; by default as many as
            256 MiB hold.

    Example:
        >>> x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
        >>> ntk(lambda w, x: x @ w, jnp.zeros((2, 1)), x).tolist()
        [[5.0, 11.0], [11.0, 25.0]]
    """
    block_size = _checked(apply, params, x1, x2, block_size)
    return _kernel(apply, params, x1, x2, learning_rates, block_size, _mean_over_outputs)


def ntk_full(
    apply: Apply,
    params: Params,
    x1: Float[Array, "n1 ..."],
    x2: Float[Array, "n2 ..."] | None = None,
    learning_rates: Params | None = None,
    block_size: int | None = None,
) -> Float[Array, "n1 n2 k k"]:
    """Θ_ab(x, x′) = ⟨∂f_a(x)/∂w, ∂f_b(x′)/∂w⟩, the tangent kernel of every pair of outputs.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        x1: The inputs x.
        x2: The inputs x′; the same as x if not given.
        learning_rates: η_w, the parameters' tree or a prefix of it, at least 0; all 1 by default.
        block_size: The number of inputs whose Jacobians are held at once; by default as many as
            256 MiB hold.
    """
    block_size = _checked(apply, params, x1, x2, block_size)
    return _kernel(apply, params, x1, x2, learning_rates, block_size, _pairs_of_outputs)


def ntk_vector_product(
    apply: Apply,
    params: Params,
    x1: Float[Array, "n1 ..."],
    x2: Float[Array, "n2 ..."] | None = None,
    learning_rates: Params | None = None,
) -> Callable[[Float[Array, "n2 k"]], Float[Array, "n1 k"]]:
    """The operator v ↦ Θv, (Θv)_a(x) = Σ_x′ Σ_b Θ_ab(x, x′) v_b(x′).

    It costs one pass back at x′ and one pass forward at x; no kernel entry is ever made.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        x1: The inputs x.
        x2: The inputs x′; the same as x if not given.
        learning_rates: η_w, the parameters' tree or a prefix of it, at least 0; all 1 by default.
    """
    x1, second = input_pair(x1, x2)
    _num_outputs(apply, params, x1)
    apply, params = _weighted(apply, params, learning_rates)

    def product(vector: Float[Array, "n2 k"]) -> Float[Array, "n1 k"]:
        _, pull_back = jax.vjp(lambda w: apply(w, second), params)
        (direction,) = pull_back(vector)
        return jax.jvp(lambda w: apply(w, x1), (params,), (direction,))[1]

    return product


def _mean_over_outputs(first: Params, second: Params) -> Float[Array, ""]:
    """(1/k) Σ_a ⟨∂f_a, ∂f′_a⟩ of two Jacobians, trees of (k, ...)."""
    num_outputs = jax.tree.leaves(first)[0].shape[0]
    return jax.tree.reduce(jnp.add, jax.tree.map(jnp.vdot, first, second)) / num_outputs


def _pairs_of_outputs(first: Params, second: Params) -> Float[Array, "k k"]:
    """⟨∂f_a, ∂f′_b⟩ of two Jacobians, trees of (k, ...)."""

    def product(a: Array, b: Array) -> Array:
        return jnp.reshape(a, (a.shape[0], -1)) @ jnp.reshape(b, (b.shape[0], -1)).T

    return jax.tree.reduce(jnp.add, jax.tree.map(product, first, second))


@partial(jax.jit, static_argnames=("apply", "block_size", "contract"))
def _kernel(
    apply: Apply,
    params: Params,
    x1: Array,
    x2: Array | None,
    learning_rates: Params | None,
    block_size: int,
    contract: Callable[[Params, Params], Array],
) -> Array:
    """Contract the Jacobians of all pairs of inputs, block by block."""
    apply, params = _weighted(apply, params, learning_rates)

    def jacobian(x: Array) -> Params:
        return jax.jacrev(lambda w: apply(w, x[None])[0])(params)

    if x2 is None and len(x1) <= block_size:  # one block with itself: its Jacobians serve twice
        jacobians = jax.vmap(jacobian)(x1)
        return jax.vmap(lambda a: jax.vmap(lambda b: contract(a, b))(jacobians))(jacobians)

    def row(x: Array) -> Array:
        first = jacobian(x)
        others = x1 if x2 is None else x2
        return jax.lax.map(lambda y: contract(first, jacobian(y)), others, batch_size=block_size)

    return jax.lax.map(row, x1, batch_size=block_size)


def _weighted(apply: Apply, params: Params, learning_rates: Params | None) -> tuple[Apply, Params]:
    """Change variables to u, w = w₀ + √η u at u = 0: there, all learning rates are 1."""
    if learning_rates is None:
        return apply, params

    def moved(u: Params, x: Array) -> Array:
        def move(rate: Scalar, w: Params, u: Params) -> Params:
            return jax.tree.map(lambda w, u: w + jnp.sqrt(rate) * u, w, u)

        return apply(jax.tree.map(move, learning_rates, params, u), x)

    return moved, jax.tree.map(jnp.zeros_like, params)


def _checked(
    apply: Apply, params: Params, x1: Array, x2: Array | None, block_size: int | None
) -> int:
    """Refuse what cannot be compared; say how many inputs make a block."""
    input_pair(x1, x2)
    bytes_of_params = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params))
    bytes_of_input = _num_outputs(apply, params, x1) * bytes_of_params
    size = max(1, BLOCK_BYTES // bytes_of_input) if block_size is None else block_size
    if size < 1:
        raise ValueError(f"block_size must be at least 1, got {size}.")
    return size


def _num_outputs(apply: Apply, params: Params, x: Array) -> int:
    """The number of outputs k, without running the network."""
    if not jax.tree.leaves(params):
        raise ValueError("params must hold at least one array, got an empty tree.")
    shape = jax.eval_shape(apply, params, x).shape
    if len(shape) != 2 or shape[0] != len(x) or shape[1] < 1:
        raise ValueError(
            f"apply must give outputs of shape (n, k) for {len(x)} inputs, got {shape}."
        )
    return shape[1]
