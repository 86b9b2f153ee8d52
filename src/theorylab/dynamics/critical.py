"""The critical learning rate of a loss, a network and a batch, above which descent must spike.

    η_crit  = 2 / λ_max(∇²L)                  exact
    η̃_crit = 2 / (c λ_max(K))                 by the tangent kernel K = JJᵀ, nk × nk

The loss owns the constant c: for L = s Σ (f − y)² it is 2s, so that η̃_crit is n/λ_max(K) for the
mean over n samples, nk/λ_max(K) for the mean over all entries, and 2/λ_max(K) for half the sum.
For the squared loss ∇²L = c JᵀJ + 2s Σ (f − y) ∇²f, and JᵀJ has the eigenvalues of K: both rates
agree where the network fits or is linear, up to O(1/√width) at the start, and worst in the middle
of a spike, where the residuals are large.

The first costs some tens of Hessian–vector products. The second is cheap: the kernel of a batch is
made layer by layer. Both can be jitted, and measured at every step of training. A `batch` has
inputs `batch.x` and targets `batch.y`: a `Dataset`, or what `sgd` shows its probe.

Source: zhu · eta-crit · §4.2, C.1; zhu · ntk-decomp · §4.2.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.curvature import sharpness
from theorylab.kernels import ntk, ntk_eigenpairs, ntk_full
from theorylab.models.inputs import num_inputs
from theorylab.models.own_network import check_outputs, entered, entered_as_batch
from theorylab.training import Loss
from theorylab.training.losses import check_loss
from theorylab.training.sgd import Examples
from theorylab.typing import Apply, Inputs, Params, RandomKey, Reduction, check_key

# Beyond it, products with the kernel cost less than its eigenvalues.
_LARGEST_MATRIX = 512
_NUM_PRODUCTS = 50


def critical_learning_rate(
    apply: Apply,
    params: Params,
    batch: Examples | tuple[Inputs, Array],
    loss: Loss,
    *,
    outputs: Reduction | None = None,
) -> Float[Array, ""]:
    """η̃_crit = 2 / (c λ_max(K)): n/λ_max(K) for the mean squared error of one output.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        batch: Inputs x and targets y, or the pair (x, y); the targets only have to fit.
        loss: The squared loss in its normalisation.
        outputs: What reduces other outputs to (n, k), such as `lambda f: f[:, -1]`.

    Example:
        >>> from theorylab.data import Dataset
        >>> from theorylab.training import squared
        >>> pair = Dataset(jnp.array([[1.0], [3.0]]), jnp.zeros((2, 1)), "two points", "made up")
        >>> line = lambda w, x: x * w
        >>> rate = critical_learning_rate(line, jnp.zeros((1, 1)), pair, squared("mean"))
        >>> round(float(rate), 6)
        0.2
    """
    check_loss(loss)
    if loss.kind != "squared":
        raise ValueError(
            f"the tangent kernel gives a critical learning rate for the squared loss, got"
            f" {loss.kind}; exact_critical_learning_rate takes every loss."
        )
    x, y = _pair(batch)
    own = entered(apply, params, x, None, outputs)
    return _by_kernel(own.apply, own.params, own.x1, y, loss)


@partial(jax.jit, static_argnums=(0, 4))
def _by_kernel(apply: Apply, params: Params, x: Inputs, y: Array, loss: Loss) -> Array:
    n, k = _checked_shape(apply, params, x, y)
    rate = loss.critical_learning_rate(top_kernel_eigenvalue(apply, params, x), n, k)
    return jnp.asarray(rate)


def exact_critical_learning_rate(
    apply: Apply,
    params: Params,
    batch: Examples | tuple[Inputs, Array],
    loss: Loss,
    key: RandomKey,
    num_products: int = 30,
    *,
    outputs: Reduction | None = None,
) -> Float[Array, ""]:
    """η_crit = 2 / λ_max(∇²L), by Lanczos; infinite where no curvature is positive.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        batch: Inputs x and targets y, or the pair (x, y).
        loss: Any loss.
        key: Draws the direction where Lanczos starts.
        num_products: How many Hessian–vector products to spend.
        outputs: What reduces other outputs to (n, k), such as `lambda f: f[:, -1]`.

    Example: a linear model, where it is the rate of the kernel.
        >>> from theorylab.training import squared
        >>> batch, line = (jnp.array([[1.0], [3.0]]), jnp.zeros((2, 1))), lambda w, x: x * w
        >>> start, key = jnp.zeros((1, 1)), jax.random.key(0)
        >>> rate = exact_critical_learning_rate(line, start, batch, squared("mean"), key)
        >>> round(float(rate), 4)
        0.2
    """
    check_loss(loss)
    check_key(key)
    x, y = _pair(batch)
    own = entered_as_batch(apply, params, x, outputs)
    return _exact(own.apply, own.params, own.x1, y, loss, key, num_products)


@partial(jax.jit, static_argnums=(0, 4, 6))
def _exact(
    apply: Apply,
    params: Params,
    x: Inputs,
    y: Array,
    loss: Loss,
    key: RandomKey,
    num_products: int,
) -> Array:
    _checked_shape(apply, params, x, y)
    largest = sharpness(lambda w: loss(apply(w, x), y), params, key, num_products).value
    return jnp.where(largest > 0, 2 / largest, jnp.inf)


def top_kernel_eigenvalue(apply: Apply, params: Params, x: Inputs) -> Float[Array, ""]:
    """λ_max(K) = ‖K‖ of the nk × nk tangent kernel.

    Up to 512 rows the kernel is formed; beyond, Lanczos takes 50 products with it.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        x: The inputs.

    Example: the kernel xxᵀ has one eigenvalue, 1 + 9.
        >>> x = jnp.array([[1.0], [3.0]])
        >>> round(float(top_kernel_eigenvalue(lambda w, x: x * w, jnp.zeros((1, 1)), x)), 4)
        10.0
    """
    n, k = _output_shape(apply, params, x)
    if n * k > _LARGEST_MATRIX:
        start = jax.random.key(0)  # of Lanczos; with 50 products the top does not depend on it
        return ntk_eigenpairs(apply, params, x, 1, start, _NUM_PRODUCTS, kernel="full").values[0]
    kernel = kernel_matrix(apply, params, x)
    return kernel[0, 0] if n * k == 1 else jnp.linalg.eigvalsh(kernel)[-1]


def kernel_matrix(apply: Apply, params: Params, x: Inputs) -> Float[Array, "rows rows"]:
    """K as one matrix: row and column ik + a belong to output a at input i, as in `f.ravel()`.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        x: The inputs.

    Example:
        >>> x = jnp.array([[1.0], [3.0]])
        >>> kernel_matrix(lambda w, x: x * w, jnp.zeros((1, 1)), x).tolist()
        [[1.0, 3.0], [3.0, 9.0]]
    """
    n, k = _output_shape(apply, params, x)
    if k == 1:
        return ntk(apply, params, x, method="structured")
    full = ntk_full(apply, params, x, method="structured")
    return jnp.swapaxes(full, 1, 2).reshape(n * k, n * k)


def _pair(batch: Any) -> tuple[Inputs, Array]:
    """The inputs and the targets."""
    if isinstance(batch, Examples):
        return batch.x, batch.y
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return batch[0], batch[1]
    size = f" of {len(batch)}" if isinstance(batch, tuple | list) else ""
    raise TypeError(
        "batch must be a pair (x, y) of inputs and targets, or have .x and .y, got a"
        f" {type(batch).__name__}{size}."
    )


def _output_shape(apply: Apply, params: Params, x: Inputs) -> tuple[int, int]:
    return num_inputs(x), check_outputs(apply, params, x)


def _checked_shape(apply: Apply, params: Params, x: Inputs, y: Array) -> tuple[int, int]:
    shape = _output_shape(apply, params, x)
    if y.shape != shape:
        raise ValueError(f"targets must have the shape {shape} of the outputs, got {y.shape}.")
    return shape
