"""The gradient-noise scale: at which batch size the noise of SGD is as large as its gradient.

    B_simple = tr Σ / ‖G‖²        gᵢ = ∇ℓᵢ, of mean G and covariance Σ over the samples' law

A batch of B samples has a gradient of variance tr Σ/B: below B_simple noise outweighs it, far above
it a larger batch costs more samples than it saves steps. From n samples, without bias,

    tr Σ = (S − M/n)/(n − 1),    ‖G‖² = (M − S)/(n(n − 1)),    S = Σ‖gᵢ‖², M = ‖Σ gᵢ‖²

Each sample left out in turn (M₋ᵢ = M − 2 gᵢ·Σg + ‖gᵢ‖²) gives the covariance of both estimates, and
the interval holds every B for which tr Σ − B‖G‖² is 0 within Student's 95 % (Fieller): it has no
upper end where the gradient cannot be told from 0. The gᵢ are never held: their lengths are
contracted layer by layer, and gᵢ·Σg is one derivative along Σg.

Source: McCandlish, Kaplan & Amodei (2018), An empirical model of large-batch training,
arXiv:1812.06162; arora · gradient-noise · §12.1; Fieller (1954), Some problems in interval
estimation.
"""

import math
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from theorylab.answers import Answer
from theorylab.kernels import ntk_diagonal
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.models.own_network import entered
from theorylab.numerics.intervals import Interval
from theorylab.training import Loss
from theorylab.training.losses import check_loss
from theorylab.typing import Apply, Inputs, Params, Reduction


class NoiseScale(Answer):
    """The gradient-noise scale with its 95 % interval, and the two numbers that it is made of.

    Example:
        >>> NoiseScale(8.0, 6.0, 12.0, variance=4.0, squared_gradient=0.5).value
        8.0
    """

    value: float
    low: float
    high: float
    variance: float  # tr Σ
    squared_gradient: float  # ‖G‖², an estimate without bias: it may be negative


def gradient_noise_scale(
    apply: Apply,
    params: Params,
    x: Inputs,
    y: Float[Array, "n k"],
    loss: Loss,
    *,
    batch_size: int = 16,
    outputs: Reduction | None = None,
) -> NoiseScale:
    """B_simple = tr Σ/‖G‖² of the loss of one sample; it does not depend on the loss' scale.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        x: Inputs, at least three, drawn from the law that the batches come from.
        y: Targets.
        loss: The loss.
        batch_size: How many samples are differentiated at once.
        outputs: What reduces other outputs to (n, k), such as `lambda f: f[:, -1]`.

    Example: one parameter, with gradients 2(w − y) of 1, 2 and 3: variance 1, squared mean 11/3.
        >>> import jax.numpy as jnp
        >>> from theorylab.training import squared
        >>> x, y = jnp.ones((3, 1)), -jnp.array([[0.5], [1.0], [1.5]])
        >>> found = gradient_noise_scale(lambda w, x: w * x, jnp.zeros(()), x, y, squared("mean"))
        >>> round(found.variance, 4), round(found.squared_gradient, 4), round(found.value, 4)
        (1.0, 3.6667, 0.2727)
    """
    check_loss(loss)
    own = entered(apply, params, x, None, outputs)
    squares = ntk_diagonal(_losses(own.apply, loss), own.params, (own.x1, y), batch_size)[:, 0]
    along = _along_sum(own.apply, loss, own.params, own.x1, y)
    return noise_scale(np.asarray(squares, float), np.asarray(along, float))


def noise_scale(squares: Float[np.ndarray, " n"], along: Float[np.ndarray, " n"]) -> NoiseScale:
    """The noise scale from ‖gᵢ‖² and gᵢ·Σg of every sample.

    Args:
        squares: ‖gᵢ‖².
        along: gᵢ·Σⱼgⱼ, which sum to ‖Σg‖².

    Example: gradients 1, 2 and 3.
        >>> g = np.array([1.0, 2.0, 3.0])
        >>> noise_scale(g**2, 6 * g).variance
        1.0
    """
    n = len(squares)
    if n < 3:
        raise ValueError(f"a gradient-noise scale needs at least 3 samples, got {n}.")
    total, whole = float(squares.sum()), float(along.sum())
    variance, signal = _estimates(n, total, whole)
    without = _estimates(n - 1, total - squares, whole - 2 * along + squares)
    pseudo = np.stack(without)
    spread = (n - 1) * np.cov(pseudo, bias=True)
    t = float(special.stdtrit(n - 1, 0.975))
    interval = _ratio(float(variance), float(signal), spread, t)
    return NoiseScale(*interval, variance=float(variance), squared_gradient=float(signal))


def _estimates(n: int, total: Any, whole: Any) -> tuple[Any, Any]:
    """The estimates of tr Σ and ‖G‖² from S and M."""
    return (total - whole / n) / (n - 1), (whole - total) / (n * (n - 1))


def _ratio(above: float, below: float, spread: np.ndarray, t: float) -> Interval:
    """above/below with all r for which (above − r below)² ≤ t² Var(above − r below)."""
    a = below**2 - t**2 * spread[1, 1]
    b = above * below - t**2 * spread[0, 1]
    c = above**2 - t**2 * spread[0, 0]
    value = above / below if below > 0 else math.inf
    root = math.sqrt(max(b**2 - a * c, 0.0))
    if a > 0 and below > 0:
        return Interval(value, max((b - root) / a, 0.0), max((b + root) / a, 0.0))
    # The signal is not told from 0: all ratios from a least one on.
    low = c / (b + root) if c > 0 and b + root > 0 else 0.0
    return Interval(value, min(low, value), math.inf)


@lru_cache(maxsize=64)
def _losses(apply: Apply, loss: Loss) -> Apply:
    """The loss of every sample as a network of one output, whose inputs have their targets."""

    def losses(params: Params, pairs: tuple[Inputs, Array]) -> Float[Array, "n 1"]:
        def one(x: Inputs, y: Array) -> Array:
            return loss(apply(params, jax.tree.map(lambda leaf: leaf[None], x)), y[None])

        return jax.vmap(one)(*pairs)[:, None]

    return losses


@partial(jax.jit, static_argnums=(0, 1))
def _along_sum(apply: Apply, loss: Loss, params: Params, x: Inputs, y: Array) -> Float[Array, " n"]:
    """gᵢ·Σg of every sample: the derivative of its loss along the sum of all gradients."""
    losses = _losses(apply, loss)

    def directional(params: Params) -> Array:
        whole = jax.grad(lambda w: losses(w, (x, y)).sum())(params)
        return jax.jvp(lambda w: losses(w, (x, y))[:, 0], (params,), (whole,))[1]

    return fast_convolutions(directional)(params)
