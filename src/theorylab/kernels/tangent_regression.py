"""Regression on the tangent features of a network, of any size and with any number of outputs.

    Δ = argmin ‖JΔ − (y − f(w₀))‖²,    J = ∇f(w₀) on all examples and outputs,

by conjugate gradients from Δ = 0, whose limit is the solution of least ‖Δ‖: kernel regression
with the full tangent kernel JJᵀ, all pairs of outputs included. Neither J nor JJᵀ is ever made; a
step is two passes through the network. Fewer steps regularise more, so whoever calls this solved
must look: at what is left of ‖Jᵀr‖, and at what half of the steps gave.

Source: karp · wrn-vs-ntk · 3.6, B.3.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.data import Dataset
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.typing import Apply, Params


class TangentFit(Answer, labels={"examples": "output"}, axes=("example", "output")):
    """Outputs of a linearised network that was fitted, and how far the fit has come.

    Args:
        examples: On the examples.
        elsewhere: On the other inputs.
        halfway: On the other inputs after half of the iterations.
        slope: ‖Jᵀr‖ before the last iteration over that before the first; 0 at the solution.

    Example:
        >>> from theorylab.data import Dataset
        >>> train = Dataset(jnp.array([[1.0], [2.0]]), jnp.array([[3.0], [6.0]]), "line", "made up")
        >>> line = lambda w, x: x * w
        >>> fit = tangent_regression(line, jnp.zeros((1, 1)), train, jnp.array([[5.0]]), 2)
        >>> fit.examples.shape, fit.elsewhere.shape, fit.halfway.shape
        ((2, 1), (1, 1), (1, 1))
    """

    examples: Float[Array, "n k"]
    elsewhere: Float[Array, "m k"]
    halfway: Float[Array, "m k"]
    slope: Float[Array, ""]


def tangent_regression(
    apply: Apply,
    start: Params,
    train: Dataset,
    x: Float[Array, "m ..."],
    num_steps: int,
    block_size: int | None = None,
) -> TangentFit:
    """Fit the linearised network to the targets by least squares, and evaluate it elsewhere too.

    Args:
        apply: The network f(w; x).
        start: w₀, where it is linearised.
        train: The examples to fit.
        x: Other inputs.
        num_steps: Of conjugate gradients.
        block_size: How many inputs to take at a time; by default all. In blocks the network is run
            again for every product, and memory is that of one block; the numbers change by
            rounding. If outputs depend on their batch, a multiple of the network's own batches.

    Example: the line y = 3x, seen at two points, at a third.
        >>> from theorylab.data import Dataset
        >>> train = Dataset(jnp.array([[1.0], [2.0]]), jnp.array([[3.0], [6.0]]), "line", "made up")
        >>> line = lambda w, x: x * w
        >>> fit = tangent_regression(line, jnp.zeros((1, 1)), train, jnp.array([[5.0]]), 1)
        >>> round(float(fit.elsewhere[0, 0]), 4)
        15.0
    """
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
    if block_size is not None and block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}.")
    value, forward, backward = _linearized(apply, start, train.x, block_size)

    def step(state: _Conjugate, _: None) -> tuple[_Conjugate, None]:
        change, along, outputs, length, first = state
        slope = backward(train.y - outputs)
        squared = _dot(slope, slope)
        along = jax.tree.map(lambda s, a: s + squared / length * a, slope, along)
        moved = forward(along)
        rate = squared / jnp.maximum(jnp.sum(moved**2), 1e-30)
        change = jax.tree.map(lambda c, a: c + rate * a, change, along)
        first = jnp.where(jnp.isinf(length), squared, first)
        return _Conjugate(change, along, outputs + rate * moved, squared, first), None

    still = jax.tree.map(jnp.zeros_like, start)
    endless, one = jnp.asarray(jnp.inf, value.dtype), jnp.ones((), value.dtype)
    state = _Conjugate(still, still, value, endless, one)
    scan = lambda state, length: jax.lax.scan(step, state, length=length)[0]  # noqa: E731
    middle = fast_convolutions(partial(scan, length=num_steps // 2))(state)
    end = fast_convolutions(partial(scan, length=num_steps - num_steps // 2))(middle)
    there, elsewhere, _ = _linearized(apply, start, x, block_size)
    return TangentFit(
        examples=end.outputs,
        elsewhere=there + elsewhere(end.change),
        halfway=there + elsewhere(middle.change),
        slope=jnp.sqrt(end.length / end.first),
    )


class _Linearized(NamedTuple):
    value: Array
    forward: Callable[[Params], Array]  # Δ ─► JΔ
    backward: Callable[[Array], Params]  # r ─► Jᵀr


def _linearized(apply: Apply, start: Params, x: Array, block_size: int | None) -> _Linearized:
    """The network at its start with its two products, for all inputs at once or block by block."""
    if block_size is None or len(x) <= block_size:
        value, forward = jax.linearize(lambda w: apply(w, x), start)
        backward = jax.linear_transpose(forward, start)
        return _Linearized(value, forward, lambda r: backward(r)[0])
    whole = len(x) // block_size * block_size

    def cut(rows: Array) -> tuple[Array, Array]:
        return rows[:whole].reshape(-1, block_size, *rows.shape[1:]), rows[whole:]

    def rows(of_block: Callable[[Array], Array]) -> Array:
        blocks, rest = cut(x)
        found = fast_convolutions(partial(jax.lax.map, of_block))(blocks)
        found = found.reshape(whole, *found.shape[2:])
        return jnp.concatenate([found, of_block(rest)]) if len(rest) else found

    def forward(change: Params) -> Array:
        return rows(lambda x: jax.jvp(lambda w: apply(w, x), (start,), (change,))[1])

    def backward(residual: Array) -> Params:
        def add(total: Params, block: tuple[Array, Array]) -> tuple[Params, None]:
            x, r = block
            (slope,) = jax.vjp(lambda w: apply(w, x), start)[1](r)
            return jax.tree.map(jnp.add, total, slope), None

        (blocks, rest), (their, others) = cut(x), cut(residual)
        nothing = jax.tree.map(jnp.zeros_like, start)
        total, _ = fast_convolutions(partial(jax.lax.scan, add))(nothing, (blocks, their))
        return add(total, (rest, others))[0] if len(rest) else total

    return _Linearized(rows(lambda x: apply(start, x)), forward, backward)


class _Conjugate(NamedTuple):
    change: Params  # Δ
    along: Params  # the direction of the last step
    outputs: Array
    length: Array  # ‖Jᵀr‖² before the last step
    first: Array  # and before the first


def _dot(one: Params, other: Params) -> Array:
    parts = jax.tree.map(lambda a, b: jnp.sum(a * b), one, other)
    return jax.tree.reduce(jnp.add, parts)
