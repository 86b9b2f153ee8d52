"""Singular values of weights against those of random matrices: what training has left in them.

A matrix W (n, p), p ≤ n, of independent entries of variance σ² has, for large sizes, squared
singular values λ of Marchenko and Pastur's law, on [σ²(√n − √p)², σ²(√n + √p)²]; the largest has

    (λ₁/σ² − μ)/s ─► Tracy–Widom's law F₁,   μ = (a + b)²,  s = (a + b)(1/a + 1/b)^⅓,
                                              a = √(n − ½),  b = √(p − ½)

whatever the law of the entries is (normal, uniform, truncated). What training adds is seen if it
is large enough: a term θuvᵀ beside entries of variance 1/n moves a singular value out of the bulk
if θ > (p/n)^¼, and is lost in it otherwise (Baik, Ben Arous and Péché).

Outliers are counted one by one: with j of them taken out, σ² is what the other λ have, divided by
(n − j)(p − j), and the next one is an outlier if it is beyond F₁'s quantile. So the bulk's variance
is not that of the outliers. A matrix is "as at initialization" if it has none; "flat" if all its
singular values are equal, as those of orthogonal weights.

Convolutions are matrices (window · in, out). Entries of size 1 in shapes are left out; so are
vectors, and matrices that are 0.

Sources: Marchenko and Pastur (1967); Johnstone (2001) and Ma (2012), arXiv:0810.1329, for μ and s;
Kritchman and Nadler (2009) for counting; Chiani (2014), arXiv:1209.3394, for F₁ as a shifted Gamma
law; Martin and Mahoney (2021), arXiv:1810.01075, for trained weights.
"""

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaincc, gammainccinv

from theorylab.answers import Answer, fixed
from theorylab.models.own_network import check_finite
from theorylab.typing import Axes, Params

LARGEST = 1500  # the smaller side of a matrix whose singular values are all computed
RISK = 0.05  # probability that any of the matrices has an outlier, if all are random
_FLAT = 1e-3  # relative spread of singular values that are called equal
_NOTHING = 1e-12  # of the largest λ: rounding
_SHAPE, _SCALE, _SHIFT = 46.446, 0.186054, 9.84801  # of Chiani's Gamma law


class WeightSpectrum(Answer, axes=("rank",), labels={"singular_values": "singular value s"}):
    """The singular values of a matrix of weights, and which of them are no random matrix's.

    Example:
        >>> w = jax.random.normal(jax.random.key(0), (60, 40))
        >>> found = matrix_spectrum(w + 3 * jnp.ones_like(w))
        >>> found.num_outliers, found.is_random
        (1, False)
    """

    singular_values: Float[Array, " p"]  # the largest first
    edge: float  # of the bulk, σ(√n + √p)
    scale: float  # σ, of the entries without outliers
    num_outliers: int
    energy: float  # share of Σ s² that outliers have
    stable_rank: float  # Σ s²/max s²
    distance: float  # of the largest λ from the edge, in units of Tracy–Widom's law
    p_value: float  # of a random matrix with a larger distance
    is_flat: bool  # all singular values are equal
    shape: tuple[int, int] = fixed()

    @property
    def is_random(self) -> bool:
        """Whether it looks as at initialization: random entries, or orthogonal."""
        return self.is_flat or self.num_outliers == 0

    def draw(self, axes: Axes) -> None:
        """A histogram of the singular values, with Marchenko and Pastur's density."""
        draw_bulk(axes, np.asarray(self.singular_values), self.scale, self.shape)


def weight_spectra(
    params: Params, largest: int = LARGEST, risk: float = RISK
) -> dict[str, WeightSpectrum]:
    """The spectrum of every matrix among the parameters, by its path.

    Args:
        params: The parameters, any pytree; kernels of convolutions are (*window, in, out) or
            (out, in, *window), whichever their shape is like.
        largest: The smaller side of a matrix may be this long; larger ones are left out.
        risk: Probability that any of the matrices is found to have an outlier if all are random,
            in (0, 1).

    Example: trained weights are not like random ones.
        >>> start = jax.random.normal(jax.random.key(0), (100, 50))
        >>> later = start + 40 * jnp.ones((100, 50)) / 5000**0.5
        >>> found = weight_spectra({"start": start, "later": later, "bias": jnp.zeros(50)})
        >>> {name: one.num_outliers for name, one in found.items()}
        {"['later']": 1, "['start']": 0}
    """
    if largest < 2:
        raise ValueError(f"largest must be at least 2, got {largest}.")
    if not 0 < risk < 1:
        raise ValueError(f"risk must be in (0, 1), got {risk}.")
    check_finite(params)
    found = weight_matrices(params)
    matrices = {name: matrix for name, matrix in found if min(matrix.shape) <= largest}
    return {name: matrix_spectrum(w, risk / len(matrices)) for name, w in matrices.items()}


def weight_matrices(params: Params) -> Iterator[tuple[str, np.ndarray]]:
    """The matrices among the parameters that are not 0, by their paths.

    Example:
        >>> params = {"kernel": jnp.ones((3, 3, 4, 8)), "bias": jnp.ones((1, 8))}
        >>> [(name, matrix.shape) for name, matrix in weight_matrices(params)]
        [("['kernel']", (36, 8))]
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        matrix = as_matrix(np.asarray(leaf))
        if matrix is not None and matrix.any():
            yield jax.tree_util.keystr(path), matrix


def as_matrix(weight: np.ndarray) -> np.ndarray | None:
    """A weight as a matrix (fan-in, outputs) or its transpose; None if it has one axis at most.

    Of more than two axes those of a window are together the shorter ones, and stand first or last.

    Example: channels last, and channels first.
        >>> as_matrix(np.ones((3, 3, 4, 8))).shape, as_matrix(np.ones((8, 4, 3, 3))).shape
        ((36, 8), (36, 8))
    """
    shape = tuple(size for size in weight.shape if size != 1)
    if len(shape) < 2:
        return None
    weight = weight.reshape(shape)
    window = len(shape) - 2
    if window and math.prod(shape[:window]) > math.prod(shape[-window:]):
        return weight.reshape(shape[0], -1).T
    return weight.reshape(-1, shape[-1])


def matrix_spectrum(matrix: Float[Any, "n p"], risk: float = RISK) -> WeightSpectrum:
    """The spectrum of one matrix, not 0, held against a random one.

    Args:
        matrix: W, of any two sides.
        risk: Probability that a random matrix is found to have an outlier.

    Example: an orthogonal matrix is flat.
        >>> matrix_spectrum(np.eye(5)).is_flat
        True
    """
    w = np.asarray(matrix, dtype=np.float64)
    w = w if w.shape[0] >= w.shape[1] else w.T
    n, p = w.shape
    values = np.maximum(np.linalg.eigvalsh(w.T @ w)[::-1], 0.0)
    if not values[0] > 0:
        raise ValueError(f"matrix must not be 0, got a matrix {matrix.shape} of zeros.")
    singular = np.sqrt(values)
    flat = bool(singular[0] - singular[-1] < _FLAT * singular[0])
    found = 0 if flat else count_outliers(values, n, risk)
    variance = values[found:].sum() / ((n - found) * (p - found))
    distance = edge_distance(values[0], values.sum() / (n * p), n, p)
    return WeightSpectrum(
        singular_values=jnp.asarray(singular),
        edge=math.sqrt(variance) * (math.sqrt(n) + math.sqrt(p)),
        scale=math.sqrt(variance),
        num_outliers=found,
        energy=float(values[:found].sum() / values.sum()),
        stable_rank=float(values.sum() / values[0]),
        distance=distance,
        p_value=tracy_widom_tail(distance),
        is_flat=flat,
        shape=(n, p),
    )


def count_outliers(values: Float[np.ndarray, " p"], num_rows: int, risk: float = RISK) -> int:
    """How many of the squared singular values are beyond what a random matrix has.

    Args:
        values: λ, the largest first.
        num_rows: The larger side n.
        risk: Probability that a random matrix is found to have one, in (0, 1).

    Example:
        >>> count_outliers(np.array([900.0, 13.0, 11.0, 9.0]), num_rows=10)
        1
    """
    p = len(values)
    rest = np.cumsum(values[::-1])[::-1]  # Σ of λ from the j-th on
    threshold = tracy_widom_quantile(1 - risk)
    for j in range(p - 1):
        if values[j] <= _NOTHING * values[0]:  # of a lower rank: no bulk is left
            return j
        n_left, p_left = num_rows - j, p - j
        variance = rest[j] / (n_left * p_left)
        if 2 * j >= p or edge_distance(values[j], variance, n_left, p_left) <= threshold:
            return j
    return p - 1


def edge_distance(value: float, variance: float, n: int, p: int) -> float:
    """(λ/σ² − μ)/s: how far λ is from the edge of the bulk, in units of Tracy–Widom's law.

    Args:
        value: λ.
        variance: σ².
        n: One side of the matrix.
        p: The other one.

    Example:
        >>> round(edge_distance(400.0, 1.0, 100, 100), 2)
        0.17
    """
    if not variance > 0:
        return math.inf
    a, b = math.sqrt(n - 0.5), math.sqrt(p - 0.5)
    return float((value / variance - (a + b) ** 2) / ((a + b) * (1 / a + 1 / b) ** (1 / 3)))


def tracy_widom_tail(distance: float) -> float:
    """1 − F₁: the probability of a larger distance, for real symmetric ensembles.

    Example:
        >>> round(tracy_widom_tail(0.98), 3), round(tracy_widom_tail(2.02), 3)
        (0.05, 0.01)
    """
    if math.isnan(distance):
        return math.nan
    return float(gammaincc(_SHAPE, max(distance + _SHIFT, 0.0) / _SCALE))


def tracy_widom_quantile(probability: float) -> float:
    """The distance that has this probability of not being exceeded.

    Args:
        probability: In (0, 1).

    Example:
        >>> round(tracy_widom_quantile(0.95), 2)
        0.98
    """
    return float(gammainccinv(_SHAPE, 1 - probability) * _SCALE - _SHIFT)


def draw_bulk(
    axes: Axes, singular_values: Float[np.ndarray, " p"], scale: float, shape: tuple[int, int]
) -> None:
    """Draw a histogram of singular values, with the density of a random matrix.

    Args:
        axes: Of matplotlib.
        singular_values: s.
        scale: σ of the entries.
        shape: (n, p).

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> draw_bulk(axes, np.array([1.0, 2.0]), 0.1, (100, 60))
        >>> axes.get_xlabel()
        'singular value s'
    """
    from theorylab.answers.figure import COLOURS

    n, p = max(shape), min(shape)
    bins = max(5, min(60, int(2 * math.sqrt(len(singular_values)))))
    axes.hist(singular_values, bins=bins, density=True, color=COLOURS[5], alpha=0.7)
    axes.set_xlabel("singular value s")
    axes.set_ylabel("density")
    if scale <= 1e-6 * singular_values.max():
        return  # of low rank: there is no bulk
    low, high = scale * (math.sqrt(n) - math.sqrt(p)), scale * (math.sqrt(n) + math.sqrt(p))
    s = np.linspace(low, high, 400)
    # Of λ = s²: √((b − λ)(λ − a))/(2π p σ² λ); of s: times 2s.
    inside = np.maximum((high**2 - s**2) * (s**2 - low**2), 0.0)
    density = np.sqrt(inside) / (math.pi * p * scale**2 * np.maximum(s, 1e-12))
    axes.plot(s, density, color=COLOURS[1])
    axes.axvline(high, color=COLOURS[6], linewidth=0.8, linestyle="--")
