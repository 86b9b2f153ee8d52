"""The compiled programs that measures share: one for each network, loss and shape.

    outputs            f(w; x)
    gradient           ∇L(w),            L(w) = loss(f(w; x), y)
    hessian_product    ∇²L(w) v
    gauss_newton_product                 Jᵀ ∇²ℓ J v
    batch_curvatures   λ_max(Jᵀ ∇²ℓ J)  of each of many batches

Parameters and data are arguments, so the same program serves a network while it trains.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key

from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.models.inputs import num_inputs
from theorylab.numerics import top_eigenvalues
from theorylab.training import Loss
from theorylab.typing import Apply, Inputs, Params, RandomKey

BLOCK = 1_000  # inputs of a program, at most


@partial(jax.jit, static_argnums=0)
def outputs(apply: Apply, params: Params, x: Inputs) -> Float[Array, "n k"]:
    """Compute f(w; x).

    Args:
        apply: The network.
        params: w.
        x: Inputs.

    Example:
        >>> import jax.numpy as jnp
        >>> outputs(lambda w, x: w * x, 2.0, jnp.ones((1, 1))).tolist()
        [[2.0]]
    """
    return apply(params, x)


def all_outputs(
    apply: Apply, params: Params, x: Inputs, size: int | None = None
) -> Float[Array, "n k"]:
    """Compute f(w; x) in blocks of inputs of one size, so that memory and programs stay few.

    Args:
        apply: The network.
        params: w.
        x: Inputs, as many as there are.
        size: Of a block, `BLOCK` at most; by default as many as there are inputs.

    Example:
        >>> import jax.numpy as jnp
        >>> x = jnp.arange(3.0).reshape(3, 1)
        >>> all_outputs(lambda w, x: w * x, 2.0, x, size=2).ravel().tolist()
        [0.0, 2.0, 4.0]
    """
    n = num_inputs(x)
    block = min(BLOCK, n if size is None else size)
    if block == n:
        return outputs(apply, params, x)
    found = []
    for start in range(0, n, block):
        rows = np.minimum(np.arange(start, start + block), n - 1)  # the last one fills the block
        part = jax.tree.map(lambda leaf, rows=rows: jnp.asarray(leaf)[rows], x)
        found.append(outputs(apply, params, part))
    return jnp.concatenate(found)[:n]


@partial(jax.jit, static_argnums=0)
def loss_of_each(loss: Loss, outputs: Float[Array, "n k"], y: Float[Array, "n k"]) -> Array:
    """Compute the loss of every input by itself.

    Args:
        loss: The loss.
        outputs: f(x).
        y: Targets.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.training import squared
        >>> loss_of_each(squared("sum"), jnp.array([[1.0], [3.0]]), jnp.zeros((2, 1))).tolist()
        [1.0, 9.0]
    """
    return jax.vmap(lambda f, t: loss(f[None], t[None]))(outputs, y)


@partial(jax.jit, static_argnums=(0, 1))
def gradient(apply: Apply, loss: Loss, params: Params, x: Inputs, y: Array) -> Params:
    """Compute ∇L(w).

    Args:
        apply: The network.
        loss: The loss.
        params: w.
        x: Inputs.
        y: Targets.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.training import squared
        >>> line, x, y = lambda w, x: w * x, jnp.ones((1, 1)), jnp.zeros((1, 1))
        >>> gradient(line, squared("sum"), jnp.array(3.0), x, y).item()
        6.0
    """
    return fast_convolutions(jax.grad(lambda w: loss(apply(w, x), y)))(params)


@partial(jax.jit, static_argnums=(0, 1))
def hessian_product(
    apply: Apply, loss: Loss, params: Params, x: Inputs, y: Array, vector: Float[Array, " p"]
) -> Float[Array, " p"]:
    """Compute ∇²L(w) v, for a flat v.

    Args:
        apply: The network.
        loss: The loss.
        params: w.
        x: Inputs.
        y: Targets.
        vector: v, in the order of `ravel_pytree(params)`.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.training import squared
        >>> line, x, y = lambda w, x: w * x, jnp.ones((1, 1)), jnp.zeros((1, 1))
        >>> hessian_product(line, squared("sum"), jnp.array(3.0), x, y, jnp.ones(1)).tolist()
        [2.0]
    """
    flat, unravel = ravel_pytree(params)
    slope = jax.grad(lambda w: loss(apply(unravel(w), x), y))
    return fast_convolutions(lambda w, v: jax.jvp(slope, (w,), (v,))[1])(flat, vector)


@partial(jax.jit, static_argnums=(0, 1))
def gauss_newton_product(
    apply: Apply, loss: Loss, params: Params, x: Inputs, y: Array, vector: Float[Array, " p"]
) -> Float[Array, " p"]:
    """Compute Jᵀ ∇²ℓ(f) J v, for a flat v.

    Args:
        apply: The network.
        loss: The loss.
        params: w.
        x: Inputs.
        y: Targets.
        vector: v, in the order of `ravel_pytree(params)`.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.training import squared
        >>> square, x, y = lambda w, x: w**2 * x, jnp.ones((1, 1)), jnp.zeros((1, 1))
        >>> gauss_newton_product(square, squared("sum"), jnp.array(3.0), x, y, jnp.ones(1)).tolist()
        [72.0]
    """
    flat, unravel = ravel_pytree(params)

    def product(w: Array, v: Array) -> Array:
        f, forward = jax.linearize(lambda w: apply(unravel(w), x), w)
        bent = jax.jvp(jax.grad(lambda f: loss(f, y)), (f,), (forward(v),))[1]
        return jax.linear_transpose(forward, w)(bent)[0]

    return fast_convolutions(product)(flat, vector)


@partial(jax.jit, static_argnums=(0, 1, 6))
def batch_curvatures(
    apply: Apply,
    loss: Loss,
    params: Params,
    x: Inputs,
    y: Float[Array, "batches b k"],
    keys: Key[Array, " batches"],
    num_steps: int,
) -> Float[Array, " batches"]:
    """Compute λ_max(Jᵀ ∇²ℓ J) of every batch, from so many steps of Lanczos.

    Args:
        apply: The network.
        loss: The loss.
        params: w.
        x: Inputs of all batches, (batches, b, ...).
        y: Targets.
        keys: One for each batch: draws where Lanczos starts.
        num_steps: Products for each batch.

    Example: batches of inputs 1 and 3, with curvature 2x².
        >>> import jax.numpy as jnp
        >>> from theorylab.training import squared
        >>> line, x = lambda w, x: w * x, jnp.array([[[1.0]], [[3.0]]])
        >>> keys = jax.random.split(jax.random.key(0), 2)
        >>> batch_curvatures(line, squared("sum"), jnp.array(1.0), x, x, keys, 1).tolist()
        [2.0, 18.0]
    """
    flat, unravel = ravel_pytree(params)

    def one(batch: tuple[Inputs, Array, RandomKey], w: Array) -> Float[Array, ""]:
        x, y, key = batch
        f, forward = jax.linearize(lambda w: apply(unravel(w), x), w)
        backward = jax.linear_transpose(forward, w)
        bend = jax.linearize(jax.grad(lambda f: loss(f, y)), f)[1]
        product = lambda v: backward(bend(forward(v)))[0]  # noqa: E731
        return top_eigenvalues(product, w, 1, num_steps, key)[0]

    def every(w: Array) -> Float[Array, " batches"]:
        return jax.lax.map(partial(one, w=w), (x, y, keys))

    return fast_convolutions(every)(flat)
