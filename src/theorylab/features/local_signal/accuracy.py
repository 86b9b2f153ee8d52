"""How often the soft-threshold filter errs, without samples: a sum of k variables by Fourier.

With labels 1 the output is g + S, so that the probability of an error is P[S ≤ −g]. The law of one
S₁ = φ_b(Z) is put on a grid whose cells have −g at an edge, as its exact masses; the k-th power of
its discrete Fourier transform is that of S. What is lost is the shape inside a cell, of order h².
An output of 0 is an error. `mean_shortfall` is E(−f)₊ from the same masses.

Given the direction w*, the best threshold r = |b|/c is a search over one number: no training of
this network can do better. It says from which k on the theorem can hold.

Source: karp · lsa-pop · 3.4; karp · lsa-thm31 · 3.4.
"""

import math

import jax.numpy as jnp
import numpy as np
from scipy import special

from theorylab.data.patches import PatchLaw

from .projected import FilterState


def error_rate(state: FilterState, law: PatchLaw, num_cells: int = 2**14) -> float:
    """P[f ≤ 0] for y = 1, of one filter.

    Args:
        state: c, v and b.
        law: k and σ.
        num_cells: Cells of the grid.

    Example:
        >>> from theorylab.data import patch_law
        >>> linear = FilterState(jnp.array(1.0), jnp.array(0.0), jnp.array(0.0))
        >>> round(error_rate(linear, patch_law(1000, 10)), 3)
        0.442
    """
    if num_cells < 64:
        raise ValueError(f"num_cells must be at least 64, got {num_cells}.")
    c, v, b = (float(part) for part in state)
    if not all(map(math.isfinite, (c, v, b))):
        return math.nan
    signal = max(c + b, 0.0) - max(b - c, 0.0)
    scale = math.hypot(c, v) * law.noise
    below = lower_tail(abs(signal), scale, b, law.num_patches, num_cells)
    return below if signal > 0 else 1 - below


def error_rates(states: FilterState, law: PatchLaw, num_cells: int = 2**14) -> np.ndarray:
    """`error_rate` of every filter in arrays of c, v and b.

    Example:
        >>> from theorylab.data import patch_law
        >>> filters = FilterState(jnp.ones(2), jnp.zeros(2), jnp.array([0.0, -0.5]))
        >>> rates = error_rates(filters, patch_law(1000, 10))
        >>> bool(rates[1] < rates[0])
        True
    """
    parts = [np.asarray(part, dtype=float) for part in states]
    each = zip(*map(np.ravel, parts), strict=True)
    flat = [error_rate(FilterState(*one), law, num_cells) for one in each]
    return np.reshape(flat, parts[0].shape)


def best_threshold(law: PatchLaw, num_ratios: int = 100) -> tuple[float, float]:
    """The ratio r = |b|/c in [0, 1) with the least error of all, for w along w*, and that error.

    Args:
        law: k and σ.
        num_ratios: How many are tried, evenly.

    Example:
        >>> from theorylab.data import patch_law
        >>> ratio, error = best_threshold(patch_law(1000, 10))
        >>> 0 < ratio < 1, error < 0.01
        (True, True)
    """
    if num_ratios < 1:
        raise ValueError(f"num_ratios must be at least 1, got {num_ratios}.")
    ratios = np.arange(num_ratios) / num_ratios
    signal, bias = jnp.ones(num_ratios), -jnp.asarray(ratios)
    errors = error_rates(FilterState(signal, 0 * signal, bias), law, 2**13)
    best = int(np.argmin(errors))
    return float(ratios[best]), float(errors[best])


def lower_tail(
    level: float, scale: float, bias: float, count: int, num_cells: int = 2**14
) -> float:
    """P[S ≤ −level] if level > 0, and P[S < 0] if it is 0, for S a sum of φ_b of Gaussians.

    Args:
        level: At least 0.
        scale: Standard deviation s of the Gaussians.
        bias: b.
        count: How many of them, k.
        num_cells: Cells of the grid.

    Example:
        >>> round(lower_tail(level=0.0, scale=1.0, bias=0.0, count=4), 3)
        0.5
    """
    if scale == 0:
        _check(level, scale, count, num_cells)
        return 0.0
    below, _ = _below(level, scale, bias, count, num_cells)
    return float(np.clip(below.sum(), 0.0, 1.0))


def mean_shortfall(
    level: float, scale: float, bias: float, count: int, num_cells: int = 2**14
) -> float:
    """E(−level − S)₊: by how much the noise exceeds the signal, on average; as `lower_tail`.

    Example:
        >>> round(mean_shortfall(level=0.0, scale=1.0, bias=0.0, count=4), 3)  # 2/√(2π)
        0.798
    """
    if scale == 0:
        _check(level, scale, count, num_cells)
        return 0.0
    below, depths = _below(level, scale, bias, count, num_cells)
    return float(np.maximum(below, 0.0) @ depths)


def _check(level: float, scale: float, count: int, num_cells: int) -> None:
    if level < 0 or scale < 0 or count < 1:
        raise ValueError(
            "lower_tail needs level >= 0, scale >= 0 and count >= 1, "
            f"got {level}, {scale} and {count}."
        )
    if num_cells < 64 or num_cells % 2:
        raise ValueError(f"num_cells must be even and at least 64, got {num_cells}.")


def _below(
    level: float, scale: float, bias: float, count: int, num_cells: int
) -> tuple[np.ndarray, np.ndarray]:
    """Masses of S in the cells below −level, and how far below it these are."""
    _check(level, scale, count, num_cells)
    reach = level + 10 * math.sqrt(count * _largest_variance(scale, bias)) + 8 * scale
    cells = math.floor(level * num_cells / (2 * reach) - 0.5)  # whole cells between 0 and level
    width = level / (cells + 0.5) if cells >= 0 else 2 * reach / num_cells
    edges = width * (np.arange(num_cells // 2 + 1) + 0.5)
    # φ_b takes these values at these points; the last cell has all that is beyond.
    points = edges - bias if bias <= 0 else np.maximum(edges / 2, edges - bias)
    beyond = special.ndtr(-points / scale)
    masses = np.zeros(num_cells)
    masses[1 : num_cells // 2] = beyond[: num_cells // 2 - 1] - beyond[1 : num_cells // 2]
    masses[num_cells // 2 + 1 :] = masses[1 : num_cells // 2][::-1]
    masses[0] = 1 - 2 * beyond[0]
    law = np.fft.irfft(np.fft.rfft(masses) ** count, num_cells)
    negative = law[num_cells // 2 + 1 :]  # from −(half − 1) to −1 cells
    kept = negative[: len(negative) - max(cells, 0)]
    depths = width * np.arange(num_cells // 2 - 1, num_cells // 2 - 1 - len(kept), -1) - level
    return kept, depths


def _largest_variance(scale: float, bias: float) -> float:
    """E φ_b(Z)² for b ≤ 0; for b > 0 at least that, because φ_b at most doubles what comes in."""
    if bias > 0:
        return 4 * scale**2
    a = -bias / scale
    tail, density = math.erfc(a / math.sqrt(2)) / 2, math.exp(-(a**2) / 2) / math.sqrt(2 * math.pi)
    return 2 * scale**2 * max((1 + a**2) * tail - a * density, 0.0)
