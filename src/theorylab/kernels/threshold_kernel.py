"""Infinitely many gates over patches: the tangent kernel of soft thresholds, in closed form.

The tangent features of a filter w⁰ with threshold t = −b ≥ 0 are, of a sample X of patches Xᵢ,

    Σᵢ Xᵢ 1{|⟨w⁰, Xᵢ⟩| ≥ t}      in the weights,        Σᵢ s_t(⟨w⁰, Xᵢ⟩)      in the bias,

with s_t(z) = 1{z ≥ t} − 1{z ≤ −t}. The mean over m filters w⁰ ~ N(0, I) of the features' products
tends for m → ∞ to the kernels

    Θ_w(X, X′) = Σᵢⱼ ⟨Xᵢ, X′ⱼ⟩ P(α, β, ρ),    P = P[|U| ≥ α, |V| ≥ β],
    Θ_b(X, X′) = Σᵢⱼ S(α, β, ρ),              S = E[s_α(U) s_β(V)],

where U, V are standard Gaussians with correlation ρ, the cosine of the patches, and α = t/‖Xᵢ‖,
β = t/‖X′ⱼ‖. Both are one integral of the density at the corner, by Plackett's identity: with

    q±(θ) = exp(−(α² + β² ∓ 2αβ sin θ)/(2 cos²θ)),

    P = 4 Φᶜ(α) Φᶜ(β) + (1/π) ∫ (q₊ − q₋) dθ,      S = (sign ρ/π) ∫ (q₊ + q₋) dθ,

from 0 to arcsin|ρ|. For t = 0, P = 1 and S = (2/π) arcsin ρ; for equal patches both are 2Φᶜ(α). So
without thresholds Θ_w = ⟨Σᵢ Xᵢ, Σⱼ X′ⱼ⟩, the kernel of the linear classifier. The source leaves Θ_b
out, prints a sum over k of the k + 1 patches, and calls its features the gradient for every b; here
b ≤ 0, where they are.

Source: karp · lsa-cntk · 3.5, B.2.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from theorylab.typing import Scalar

# q₊ and q₋ may have a narrow foot where θ ends, and 1 − (1 − s)³ puts nodes there. With so many the
# integrals are right to 1e-11 up to |ρ| = 0.9999, and to 1e-6 for parallel patches.
NUM_NODES = 32
CLUSTERED = 3


def open_together(
    first: Float[Array, "*n"], second: Float[Array, "*n"], cosine: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """P[|U| ≥ α, |V| ≥ β] of Gaussians with correlation ρ.

    Args:
        first: α, at least 0; outside, as with ρ outside [−1, 1], the answer is NaN.
        second: β, at least 0.
        cosine: ρ in [−1, 1].

    Example:
        >>> one = jnp.ones(())
        >>> round(float(open_together(one, one, one)), 4)  # 2Φᶜ(1)
        0.3173
    """
    above, below = _corners(*_inside(first, second, cosine))
    return 4 * ndtr(-first) * ndtr(-second) + (above - below) / jnp.pi


def signs_together(
    first: Float[Array, "*n"], second: Float[Array, "*n"], cosine: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """E[s_α(U) s_β(V)] of Gaussians with correlation ρ, s_t(z) = 1{z ≥ t} − 1{z ≤ −t}.

    Args:
        first: α, at least 0.
        second: β, at least 0.
        cosine: ρ in [−1, 1].

    Example:
        >>> zero = jnp.zeros(())
        >>> round(float(signs_together(zero, zero, jnp.array(0.5))), 4)  # (2/π) arcsin ½
        0.3333
    """
    above, below = _corners(*_inside(first, second, cosine))
    return jnp.sign(cosine) * (above + below) / jnp.pi


def weight_kernel(
    x1: Float[Array, "n patches d"], x2: Float[Array, "m others d"], threshold: Scalar
) -> Float[Array, "n m"]:
    """Θ_w, the limit for infinitely many filters of the kernel of the weights.

    Args:
        x1: Samples of patches.
        x2: Others, which may have another number of patches.
        threshold: t = −b, at least 0.

    Example: without a threshold, the product of the sums (1, 2) of all patches.
        >>> x = jnp.array([[[1.0, 0.0], [0.0, 2.0]]])
        >>> round(float(weight_kernel(x, x, threshold=0.0)[0, 0]), 4)
        5.0
    """
    return _summed(x1, x2, threshold, _weight_part)


def bias_kernel(
    x1: Float[Array, "n patches d"], x2: Float[Array, "m others d"], threshold: Scalar
) -> Float[Array, "n m"]:
    """Θ_b, the limit for infinitely many filters of the kernel of the biases.

    Args:
        x1: Samples of patches.
        x2: Others, which may have another number of patches.
        threshold: t = −b, at least 0.

    Example: without a threshold, (2/π) arcsin ρ of all pairs: here 1, 0, 0 and 1.
        >>> x = jnp.array([[[1.0, 0.0], [0.0, 2.0]]])
        >>> round(float(bias_kernel(x, x, threshold=0.0)[0, 0]), 4)
        2.0
    """
    return _summed(x1, x2, threshold, _bias_part)


def _inside(first: Array, second: Array, cosine: Array) -> tuple[Array, Array, Array]:
    """α, β and |ρ|; NaN where a threshold is negative or |ρ| > 1, so that nobody overlooks it."""
    inside = (first >= 0) & (second >= 0) & (jnp.abs(cosine) <= 1)
    return first, second, jnp.where(inside, jnp.abs(cosine), jnp.nan)


def _weight_part(first: Array, second: Array, cosine: Array, product: Array) -> Array:
    return product * open_together(first, second, cosine)


def _bias_part(first: Array, second: Array, cosine: Array, product: Array) -> Array:
    return signs_together(first, second, cosine)


def _summed(x1: Array, x2: Array, threshold: Scalar, part: Callable[..., Array]) -> Array:
    if not isinstance(threshold, Tracer) and not np.asarray(threshold) >= 0:
        raise ValueError(f"threshold must be at least 0, got {threshold}.")
    return _kernel(x1, x2, threshold, part)


@partial(jax.jit, static_argnames="part")
def _kernel(x1: Array, x2: Array, threshold: Scalar, part: Callable[..., Array]) -> Array:
    """One pair of samples after another: all pairs of all patches may be too many."""

    def pair(places: tuple[Array, Array]) -> Float[Array, ""]:
        one, other = x1[places[0]], x2[places[1]]
        lengths = [jnp.sqrt(jnp.sum(x**2, axis=1)) for x in (one, other)]
        # A patch of zeros adds nothing: its products and cosines are 0, and so are both parts.
        safe = [jnp.where(length > 0, length, 1.0) for length in lengths]
        product = one @ other.T
        cosine = jnp.clip(product / (safe[0][:, None] * safe[1][None, :]), -1.0, 1.0)
        levels = jnp.broadcast_arrays(threshold / safe[0][:, None], threshold / safe[1][None, :])
        # Flat, because loops over short rows are slow: few patches take half as long.
        return jnp.sum(part(*(each.ravel() for each in (*levels, cosine, product))))

    n, m = len(x1), len(x2)
    places = jnp.repeat(jnp.arange(n), m), jnp.tile(jnp.arange(m), n)
    return jax.lax.map(pair, places).reshape(n, m)


def _corners(first: Array, second: Array, cosine: Array) -> tuple[Array, Array]:
    """∫ q₊ and ∫ q₋ from 0 to arcsin ρ, for ρ ≥ 0.

    The exponents are written so that nothing cancels where cos θ is small:
    (α − β)²/(2 cos²θ) + αβ/(1 + sin θ), and (α + β)²/(2 cos²θ) − αβ/(1 + sin θ). The nodes are in
    h = tan(θ/2), with sin θ = 2h/(1 + h²), cos θ = (1 − h²)/(1 + h²) and dθ = 2dh/(1 + h²): a sine
    and a cosine at every node would take three times as long as all else.
    """
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    left = (1 - nodes) / 2  # 1 − s
    ends = 1 - left**CLUSTERED
    slopes = CLUSTERED * left ** (CLUSTERED - 1) * weights / 2
    last = cosine / (1 + jnp.sqrt((1 - cosine) * (1 + cosine)))
    tiny = jnp.finfo(last.dtype).tiny

    def add(sums: tuple[Array, Array], node: tuple[Array, Array]) -> tuple[tuple, None]:
        end, slope = node
        half = end * last
        whole = 1 + half**2
        square = jnp.maximum(2 * ((1 - half**2) / whole) ** 2, tiny)
        shared = first * second * whole / (1 + half) ** 2
        above = jnp.exp(-((first - second) ** 2) / square - shared)
        below = jnp.exp(-((first + second) ** 2) / square + shared)
        weight = 2 * slope / whole
        return (sums[0] + weight * above, sums[1] + weight * below), None

    none = jnp.zeros_like(last)
    places = jnp.asarray(ends, last.dtype), jnp.asarray(slopes, last.dtype)
    above, below = jax.lax.scan(add, (none, none), places)[0]
    return last * above, last * below
