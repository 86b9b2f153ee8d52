"""Kernels by products with vectors: one pass back at x′, one pass forward at all x.

    Θ_ab(x, x′) = (∂f_a(x)/∂w) v,   v = ∂f_b(x′)/∂w

No Jacobian of x is ever made; those of x′ a few at a time.

Source: golikov · entk-cost · 2.5.2; golikov · ntk-emp · 2.1.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models.fast_convolutions import fast_convolutions, has_slow_convolutions
from theorylab.models.inputs import as_batch, num_inputs, one_input
from theorylab.typing import Apply, Inputs, Params

from .contraction import EACH, FULL, OutputLayout

_DIRECTIONS_BYTES = 2**26  # gradients that are pushed forward at once


def kernel_by_products(
    apply: Apply,
    params: Params,
    x1: Inputs,
    x2: Inputs,
    rates: Params,
    outputs: OutputLayout,
    block_size: int | None,
) -> Array:
    """Compare all inputs, a column at a time.

    Example: a linear model, whose kernel is xxᵀ.
        >>> from theorylab.kernels.finite.contraction import MEAN
        >>> x, linear = jnp.array([[1.0, 2.0], [3.0, 4.0]]), lambda w, x: x @ w
        >>> kernel_by_products(linear, jnp.zeros((2, 1)), x, x, 1.0, MEAN, block_size=None).tolist()
        [[5.0, 11.0], [11.0, 25.0]]
    """
    _, forward = jax.linearize(lambda w: apply(w, x1), params)

    def column(x: Inputs) -> Array:
        """Θ_ab(·, x), as (n1, k, k)."""
        value, pull_back = jax.vjp(lambda w: apply(w, as_batch(x))[0], params)
        (gradients,) = jax.vmap(pull_back)(jnp.eye(value.size, dtype=value.dtype))
        weighted = jax.tree.map(lambda rate, g: rate * g, rates, gradients)
        kernel = jax.vmap(forward, out_axes=2)(weighted)
        if outputs == FULL:
            return kernel
        diagonal = jnp.diagonal(kernel, axis1=1, axis2=2)
        return diagonal.T if outputs == EACH else jnp.sum(diagonal, axis=1)

    leaves = jax.tree.leaves(params)
    each = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves) * _num_outputs(apply, params, x2)
    at_once = max(1, _DIRECTIONS_BYTES // each) if block_size is None else block_size
    if at_once >= num_inputs(x2):
        return jax.vmap(column, out_axes=outputs.rows + 1)(x2)
    columns = jax.lax.map(column, x2, batch_size=at_once)
    return jnp.moveaxis(columns, 0, outputs.rows + 1)


def _num_outputs(apply: Apply, params: Params, x: Inputs) -> int:
    network = lambda params, one: apply(params, as_batch(one))  # noqa: E731
    return jax.eval_shape(network, params, one_input(x)).shape[1]


def product_by_blocks(
    apply: Apply,
    params: Params,
    x1: Inputs,
    x2: Inputs,
    rates: Params,
    block_size: int | None,
) -> Callable[[Float[Array, "n2 k"]], Float[Array, "n1 k"]]:
    """The operator v ↦ Θv; passes go over `block_size` inputs at a time.

    Example: the first column of a linear model's kernel xxᵀ.
        >>> x, linear = jnp.array([[1.0, 2.0], [3.0, 4.0]]), lambda w, x: x @ w
        >>> product = product_by_blocks(linear, jnp.zeros((2, 1)), x, x, 1.0, block_size=1)
        >>> product(jnp.array([[1.0], [0.0]])).tolist()
        [[5.0], [11.0]]
    """

    def gradient(x: Inputs, vector: Array) -> Params:
        return jax.vjp(lambda w: apply(w, x), params)[1](vector)[0]

    def change(x: Inputs, direction: Params) -> Array:
        return jax.jvp(lambda w: apply(w, x), (params,), (direction,))[1]

    def product(vector: Float[Array, "n2 k"]) -> Float[Array, "n1 k"]:
        if block_size is None:
            direction = gradient(x2, vector)
        else:
            direction = _summed(gradient, (x2, vector), block_size)
        direction = jax.tree.map(lambda rate, g: rate * g, rates, direction)
        if block_size is None:
            return change(x1, direction)
        one = lambda x: change(as_batch(x), direction)[0]  # noqa: E731
        return jax.lax.map(one, x1, batch_size=block_size)

    slow = has_slow_convolutions(apply, params, x1)
    return fast_convolutions(product) if slow else product


def _summed(
    function: Callable[..., Params], inputs: tuple[Inputs, Array], block_size: int
) -> Params:
    """Σ of a function of blocks; the rest comes last."""
    blocks, rest = divmod(num_inputs(inputs), block_size)
    end = blocks * block_size
    whole = jax.tree.map(lambda x: x[:end].reshape(blocks, block_size, *x.shape[1:]), inputs)
    like = jax.eval_shape(function, *jax.tree.map(lambda x: x[:1], inputs))
    total: Any = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)

    def add(total: Params, block: tuple[Inputs, Array]) -> tuple[Params, None]:
        return jax.tree.map(jnp.add, total, function(*block)), None

    if blocks:
        total, _ = jax.lax.scan(add, total, whole)
    if rest:
        total, _ = add(total, jax.tree.map(lambda x: x[end:], inputs))
    return total
