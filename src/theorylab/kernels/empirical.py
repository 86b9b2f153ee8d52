"""The tangent kernel of a finite network: any `apply(params, x)`, at any parameters.

    Θ_ab(x, x′) = ⟨∂f_a(x)/∂w, ∂f_b(x′)/∂w⟩        full, (n₁, n₂, k, k)
    Θ(x, x′)    = (1/k) Σ_a Θ_aa(x, x′)             averaged over the k outputs, (n₁, n₂)
    (Θv)(x)     = Σ_x′ Θ(x, x′) v(x′)               as an operator, without any Jacobian

Under gradient flow of a loss, outputs move as df(x)/dt = −Σ_x′ Θ(x, x′) ∂loss/∂f(x′). If every
parameter w has its own learning rate η_w (as in μP), the same holds with the weighted kernel
⟨∂f, ∂f′⟩ = Σ_w η_w (∂f/∂w)(∂f′/∂w), which `learning_rates` asks for; rate 0 leaves a layer out.

Jacobians are made for a block of inputs at a time, those of weight matrices in factors, and
contracted parameter by parameter: memory stays at two blocks whatever n is. Everything can be
jitted, and mapped over params (seeds). The network must treat every input by itself: with batch
statistics, f(x) depends on the other inputs, and Θ(x, x′) is not defined.

Source: golikov · ntk-emp · 2.1; arora · ntk-dynamics · Lemma 9.1.1.
"""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Apply, Params

from .factors import Factors, Part, factored_jacobian
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
    _check(apply, params, x1, x2, block_size)
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
    _check(apply, params, x1, x2, block_size)
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
    _check_outputs(apply, params, x1)
    rates = _rates(params, learning_rates)

    def product(vector: Float[Array, "n2 k"]) -> Float[Array, "n1 k"]:
        _, pull_back = jax.vjp(lambda w: apply(w, second), params)
        direction = jax.tree.map(jnp.multiply, rates, pull_back(vector)[0])
        return jax.jvp(lambda w: apply(w, x1), (params,), (direction,))[1]

    return product


def _mean_over_outputs(first: Part, second: Any) -> Float[Array, ""]:
    """(1/k) Σ_a ⟨∂f_a, ∂f′_a⟩ of one parameter."""
    if isinstance(first, Factors):
        backward = jnp.einsum("asm,atm->st", first.backward, second.backward)
        return jnp.vdot(first.forward @ second.forward.T, backward) / len(first.backward)
    return jnp.vdot(first, second) / len(first)


def _pairs_of_outputs(first: Part, second: Any) -> Float[Array, "k k"]:
    """⟨∂f_a, ∂f′_b⟩ of one parameter."""
    if isinstance(first, Factors):
        backward = jnp.einsum("asm,btm->abst", first.backward, second.backward)
        return jnp.einsum("st,abst->ab", first.forward @ second.forward.T, backward)
    return jnp.reshape(first, (len(first), -1)) @ jnp.reshape(second, (len(first), -1)).T


@partial(jax.jit, static_argnames=("apply", "block_size", "contract"))
def _kernel(
    apply: Apply,
    params: Params,
    x1: Array,
    x2: Array | None,
    learning_rates: Params | None,
    block_size: int | None,
    contract: Callable[[Part, Part], Array],
) -> Array:
    """Contract the Jacobians of all pairs of inputs, block by block."""
    one = jax.ShapeDtypeStruct(x1.shape[1:], x1.dtype)
    jacobian, size = factored_jacobian(apply, params, one)
    block_size = max(1, BLOCK_BYTES // size) if block_size is None else block_size
    rates = jax.tree.leaves(_rates(params, learning_rates))

    def entry(first: list[Part], second: list[Part]) -> Array:
        terms = map(contract, first, second)
        return reduce(jnp.add, map(jnp.multiply, rates, terms))

    if x2 is None and len(x1) <= block_size:  # one block with itself: its Jacobians serve twice
        jacobians = jax.vmap(jacobian)(x1)
        return jax.vmap(lambda a: jax.vmap(lambda b: entry(a, b))(jacobians))(jacobians)

    def row(x: Array) -> Array:
        first = jacobian(x)
        others = x1 if x2 is None else x2
        return jax.lax.map(lambda y: entry(first, jacobian(y)), others, batch_size=block_size)

    return jax.lax.map(row, x1, batch_size=block_size)


def _rates(params: Params, learning_rates: Params | None) -> Params:
    """One number for each leaf of the parameters."""
    given = 1.0 if learning_rates is None else learning_rates
    return jax.tree.map(lambda rate, branch: jax.tree.map(lambda _: rate, branch), given, params)


def _check(
    apply: Apply, params: Params, x1: Array, x2: Array | None, block_size: int | None
) -> None:
    input_pair(x1, x2)
    _check_outputs(apply, params, x1)
    if block_size is not None and block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}.")


def _check_outputs(apply: Apply, params: Params, x: Array) -> None:
    if not jax.tree.leaves(params):
        raise ValueError("params must hold at least one array, got an empty tree.")
    shape = jax.eval_shape(apply, params, x).shape
    if len(shape) != 2 or shape[0] != len(x) or shape[1] < 1:
        raise ValueError(
            f"apply must give outputs of shape (n, k) for {len(x)} inputs, got {shape}."
        )
