"""What chance does to Algorithm 3.1: the start that it draws, and gradients from batches.

The start is w ~ N(0, δ²/(kd) I). Both c and v are at most δ but for a probability of

    P[|c| > δ or v > δ] = 1 − P[|z| ≤ √(kd)] P[χ²_{d−1} ≤ kd] ≤ 2d e^{−k/2}.            (B.3)

A batch of n samples has the true gradient up to V/n in mean square, V the variance of one sample's.
For u = Σᵢ uᵢ + u* with odd uᵢ = u(Zᵢ), such as ∂_bφ_b, and ψ(t) = E cos(tS₁), a(t) = E sin(tS₁)u₁,

    ς(−f)² = ½ − ∫₀^∞ (sin tf + t cos tf)/sinh(πt) dt,
    E ς(−f)²u² = ½ E u² − ∫₀^∞ ((sin tg + t cos tg) R + (cos tg − t sin tg) I)/sinh(πt) dt,
    R = kψᵏ⁻¹ E[cos(tS₁) u₁²] − k(k − 1)ψᵏ⁻² a² + u*² ψᵏ,        I = 2k u* ψᵏ⁻¹ a.

The proof wants |ĝ_b − g_b| ≤ 1/k, and ‖ĝ_w − g_w‖ ≤ δ/(η poly k) with δ = k⁻¹⁰⁰ (B.4): a batch of
poly(k) samples, but not one that anybody draws.

Source: karp · lsa-pop · B.1, Lemmas B.3, B.4.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float
from scipy import special

from theorylab.data.patches import PatchLaw
from theorylab.typing import Scalar

from .network import soft_threshold
from .population import Grid, half_gaussian, risk
from .projected import FilterState, signal_slopes

_GRID = Grid()
_FARTHEST = 9.0  # standard deviations: beyond, nothing is left


class Spread(NamedTuple):
    """Variances of one sample's gradient: E‖g₁ − g‖² in w, and Var in b."""

    weights: Float[Array, ""]
    bias: Float[Array, ""]


def start_misses(num_patches: int, dimension: int) -> float:
    """P[|c| > δ or v > δ] of the start, exactly; the same for every δ.

    Args:
        num_patches: k, at least 1.
        dimension: d, at least 2.

    Example:
        >>> start_misses(4, 2) < start_bound(4, 2)
        True
    """
    _check(num_patches, dimension)
    radius = num_patches * dimension  # (δ over the deviation of a coordinate)²
    along = math.erfc(math.sqrt(radius / 2))
    across = float(special.gammaincc((dimension - 1) / 2, radius / 2))
    return along + across - along * across


def start_bound(num_patches: int, dimension: int) -> float:
    """2d e^{−k/2}, at least `start_misses` (B.3).

    Example:
        >>> round(start_bound(num_patches=20, dimension=10), 4)
        0.0009
    """
    _check(num_patches, dimension)
    return 2 * dimension * math.exp(-num_patches / 2)


def gradient_spread(state: FilterState, law: PatchLaw, grid: Grid = _GRID) -> Spread:
    """The variances of one sample's gradient, for b ≤ 0; NaN for b > 0, where they are others.

    Args:
        state: c, v and b, not with c = v = 0.
        law: k, d and σ.
        grid: How finely to integrate.

    Example:
        >>> import jax
        >>> from theorylab.data import patch_law
        >>> spread = jax.jit(gradient_spread, static_argnums=1)
        >>> start = FilterState(jnp.array(1e-6), jnp.array(0.0), jnp.array(0.0))
        >>> round(float(spread(start, patch_law(1000, 10)).bias))  # k/4
        250
    """
    c, v, b = state
    length, mean = jnp.hypot(c, v), risk(state, law, grid).gradient
    slope, bias_slope = signal_slopes(state)
    x, one = _noise_patch(state, law, grid)
    still, passed = jnp.zeros_like(x), jnp.ones_like(x)
    along = _mean_square(one, law.noise * x, slope * c / length)
    across = _mean_square(one, still, slope * v / length)
    passing = one.pulled(  # E ς² Σᵢ qᵢ², because qᵢ is 0 or 1
        one.count * jnp.sum(one.density), one.count * one.others * (one.cosine @ one.density)
    )
    around = (law.dimension - 1) * law.noise**2 * passing
    spread = Spread(
        weights=along + across + around - mean.signal**2 - mean.rest**2,
        bias=_mean_square(one, passed, bias_slope) - mean.bias**2,
    )
    return Spread(*(jnp.where(b > 0, jnp.nan, part) for part in spread))


def needed_batch(variance: Scalar | Float[Array, ""], error: Scalar, probability: Scalar) -> Array:
    """Samples with which |ĝ − g| > error has at most that probability, by Chebyshev's V/(n ε²).

    Example:
        >>> float(needed_batch(variance=4.0, error=0.5, probability=0.25))
        64.0
    """
    return jnp.ceil(jnp.asarray(variance) / (probability * error**2))


class _Patch(NamedTuple):
    """The law of one noise patch, at frequencies t and nodes x beyond the threshold."""

    count: int  # k
    signal: Float[Array, ""]  # g
    frequencies: Float[Array, " f"]
    weight: Float[Array, " f"]  # of the integral, with 1/sinh πt
    density: Float[Array, " q"]
    cosine: Float[Array, "f q"]  # cos tS₁
    sine: Float[Array, "f q"]

    @property
    def psi(self) -> Float[Array, " f"]:
        return 1 - jnp.sum(self.density) + self.cosine @ self.density

    @property
    def others(self) -> Float[Array, " f"]:
        return self.psi ** (self.count - 1)

    def pulled(self, total: Array, real: Array, imaginary: Scalar | Array = 0.0) -> Array:
        """E ς²U for an even U with E e^{itS}U = R + iI, and E U."""
        t, g = self.frequencies, self.signal
        sine, cosine = jnp.sin(t * g), jnp.cos(t * g)
        kernel = (sine + t * cosine) * real + (cosine - t * sine) * imaginary
        return total / 2 - jnp.sum(self.weight * kernel)


def _noise_patch(state: FilterState, law: PatchLaw, grid: Grid) -> tuple[Array, _Patch]:
    """Nodes x = |Z|/s beyond the threshold, and the law there; what is below gives S₁ = 0."""
    c, v, b = state
    scale = jnp.hypot(c, v) * law.noise
    edge = jnp.minimum(jnp.maximum(-b, 0.0) / scale, _FARTHEST)
    x, density = half_gaussian(edge, edge + _FARTHEST, grid.num_nodes)
    t = grid.spacing * (jnp.arange(grid.num_frequencies) + 0.5)
    phase = (t * scale)[:, None] * (x - edge)[None, :]
    weight = grid.spacing / jnp.sinh(math.pi * t)
    signal = soft_threshold(c, b)
    return x, _Patch(law.num_patches, signal, t, weight, density, jnp.cos(phase), jnp.sin(phase))


def _mean_square(one: _Patch, odd: Float[Array, " q"], own: Float[Array, ""]) -> Array:
    """E ς²(Σᵢ uᵢ + u*)², for u(x) odd, 0 below the threshold."""
    k, psi, density = one.count, one.psi, one.density
    a, square = one.sine @ (density * odd), one.cosine @ (density * odd**2)
    pairs = k * (k - 1) * psi ** max(k - 2, 0) * a**2
    real = k * one.others * square - pairs + own**2 * psi**k
    total = k * jnp.sum(density * odd**2) + own**2
    return one.pulled(total, real, 2 * k * own * one.others * a)


def _check(num_patches: int, dimension: int) -> None:
    if num_patches < 1 or dimension < 2:
        raise ValueError(
            "num_patches must be at least 1 and dimension at least 2, "
            f"got {num_patches} and {dimension}."
        )
