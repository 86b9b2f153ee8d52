"""The Hessian of a network's loss on samples, and its sharpness, one batch at a time.

    H = ∇²_w (1/n) Σᵢ ℓ(f(w; xᵢ), yᵢ) = Σ_b (n_b/n) H_b        H_b of the mean over n_b samples

A product H v takes two passes back over all samples. In batches the memory is that of one batch,
and every batch is gone through again for each product.

Source: arora · sharpness · §2.6.
"""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float

from theorylab.models.own_network import in_float32
from theorylab.training.losses import Loss
from theorylab.typing import Apply, Inputs, Params, RandomKey, check_key

from .operators import Operator, batched_operator, hessian
from .sharpness import Sharpness, of_operator

Mean = Callable[[Array, Any], Float[Array, ""]]  # (outputs, targets) ─► the mean over samples


def loss_hessian(
    apply: Apply,
    params: Params,
    x: Inputs,
    y: Any,
    loss: Loss | Mean,
    batch_size: int | None = None,
) -> Operator:
    """Give v ─► ∇²L(w) v of the loss L(w) = loss(f(w; x), y).

    Args:
        apply: The network f: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of finite floating arrays; those of 16 bits are taken as float32.
        x: The inputs.
        y: The targets, with n along the first axis.
        loss: (outputs, targets) ─► a scalar: with batches, a mean over the samples.
        batch_size: How many samples are held at once; by default all.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.training import squared
        >>> x, y = jnp.arange(3.0)[:, None], jnp.ones((3, 1))
        >>> linear, w = lambda w, x: x @ w, jnp.zeros((1, 1))
        >>> operator = loss_hessian(linear, w, x, y, squared("half_mean"), batch_size=2)
        >>> round(float(operator(jnp.ones((1, 1)))[0, 0]), 5)  # the mean of x²
        1.66667
    """
    params = in_float32(params)

    def of_batch(batch: tuple[Inputs, Any]) -> Operator:
        return hessian(lambda w: loss(apply(w, batch[0]), batch[1]), params)

    if batch_size is None:
        return of_batch((x, y))
    if isinstance(loss, Loss) and loss.normalization in ("sum", "half_sum"):
        raise ValueError(
            f"loss must be a mean over samples to be taken in batches, got {loss.normalization!r}."
        )
    return batched_operator(of_batch, (x, y), params, batch_size)


def loss_sharpness(
    apply: Apply,
    params: Params,
    x: Inputs,
    y: Any,
    loss: Loss | Mean,
    key: RandomKey,
    num_steps: int | None = None,
    batch_size: int | None = None,
    tolerance: float = 0.01,
    budget: int = 200,
) -> Sharpness:
    """Compute the sharpness of the loss on many samples, as `sharpness` does, in batches.

    Args:
        apply: The network f: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of finite floating arrays; those of 16 bits are taken as float32.
        x: The inputs.
        y: The targets, with n along the first axis.
        loss: (outputs, targets) ─► a scalar: with batches, a mean over the samples.
        key: Draws the direction where Lanczos starts.
        num_steps: How many Hessian–vector products; by default as many as the tolerance asks for.
        batch_size: How many samples are held at once; by default all.
        tolerance: How large the bound may be, relative to the value.
        budget: The greatest number of Hessian–vector products, without `num_steps`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from theorylab.training import squared
        >>> x, y = jnp.arange(3.0)[:, None], jnp.ones((3, 1))
        >>> given = lambda w, x: x @ w, jnp.zeros((1, 1)), x, y, squared("half_mean")
        >>> found = loss_sharpness(*given, jax.random.key(0), batch_size=2)
        >>> round(float(found.value), 4)
        1.6667
    """
    check_key(key)
    params = in_float32(params)
    operator = loss_hessian(apply, params, x, y, loss, batch_size)
    return of_operator(operator, params, num_steps, tolerance, budget, key)
