"""Where no eigenvalue can be: what one Krylov space from a random start rules out.

Lanczos from a unit vector b makes v_j = p_j(A) b, orthonormal, with polynomials that T gives. If
A u = λu with ‖u‖ = 1 and c = uᵀb, then uᵀv_j = p_j(λ) c, so that

    c² q(λ)² ≤ 1,        q(λ)² = p₀(λ)² + … + p_J(λ)²

Above all Ritz values q grows with λ, and with every step by about e^{2√(gap/spread)}. A random
direction in p dimensions has c² ≥ t except with probability δ (c² has the law Beta(½, (p − 1)/2),
and t is its quantile). So except with probability δ no eigenvalue is above the μ where

    q(μ)² = 1/t

Restarts that keep Ritz vectors only multiply p_J by the factors (λ − θ) of the others; with θ the
Ritz values now, ρ their residuals and β the norms off the diagonal,

    p_J(λ) = Π_dropped (λ − θ) Π_now (λ − θ) / Π β,    q² ≥ p_J² (1 + Σ_now ρ²/(λ − θ)²)

Given orthonormal vectors V with Ritz values Θ, with residuals F = AV − VΘ and G = FᵀF, and the rest
A′ ≤ μ outside of them, the number of eigenvalues above an x > μ is (Sylvester, Schur) at most

    N(x) = #{ eigenvalues of Θ + G/(x − μ) above x }

so that λᵢ ≤ x where N(x) < i: an error of ρ²/gap where there is a gap, of ρ where there is none.
For "magnitude" those above x and those below −x are counted together.

Source: Kuczyński & Woźniakowski (1992), whose bound for all spectra is the worst case of this;
Hochstenbach (2013), Probabilistic upper bounds for the matrix two-norm; Parlett (1998), The
symmetric eigenvalue problem, ch. 10.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import special

_HALVINGS = 60  # of an interval: to the last place
_RATIO = 10.0  # η: L's residuals are small, what Lanczos goes on with is not


class Krylov(NamedTuple):
    """What is known of a Krylov space: Ritz values, residuals, dropped ones, Σ log β, steps.

    Example: one step from a vector whose image is 2 along it and 1 across.
        >>> space = Krylov(np.array([2.0]), np.array([1.0]), np.array([]), math.log(1.0), 1)
        >>> float(log_growth(space, 4.0))  # log √(1 + (4 − 2)²)
        0.804...
    """

    values: np.ndarray
    residuals: np.ndarray
    dropped: np.ndarray
    log_norms: float
    steps: int


def log_growth(space: Krylov, at: float) -> float:
    """The logarithm of q at a λ outside of all Ritz values.

    Example:
        >>> space = Krylov(np.array([0.0]), np.array([1.0]), np.array([]), 0.0, 1)
        >>> log_growth(space, 0.0)  # at a Ritz value: p₀ = 1 only
        0.0
    """
    distances = np.abs(at - space.values)
    if np.any(distances == 0):
        distances = np.maximum(distances, 1e-300)
    last = np.log(distances).sum() + np.log(np.abs(at - space.dropped)).sum() - space.log_norms
    with np.errstate(over="ignore", divide="ignore"):
        others = 2 * (np.log(space.residuals) - np.log(distances))
    return float(last + np.logaddexp.reduce(np.append(others, 0.0)) / 2)


def least_growth(size: int, risk: float) -> float:
    """Log 1/√t: what q reaches at an eigenvalue only with probability δ.

    Args:
        size: The dimensions p in which the start is random.
        risk: The probability δ.

    Example:
        >>> round(least_growth(1_000_000, 1e-3), 2)
        13.59
    """
    if size <= 1:
        return 0.0
    return -0.5 * math.log(float(special.betaincinv(0.5, (size - 1) / 2, risk)))


def nothing_above(space: Krylov, needed: float, sign: float = 1.0) -> float:
    """The μ above which there is no eigenvalue; with sign −1, the μ with none below −μ.

    Args:
        space: The Krylov space.
        needed: The growth log q that rules an eigenvalue out, of `least_growth`.
        sign: Which end is looked at.

    Example: after a step β = 0 the space is closed, and nothing is beyond what was seen.
        >>> closed = Krylov(np.array([2.0]), np.array([1e-16]), np.array([]), math.log(1e-16), 1)
        >>> round(nothing_above(closed, 14.0), 6)
        2.0
    """
    ends = sign * np.append(space.values, space.dropped)
    top, spread = float(ends.max()), float(np.ptp(ends)) + float(space.residuals.max())
    low, high = 0.0, max(spread, 1e-300)
    while log_growth(space, sign * (top + high)) < needed:
        high *= 2
        if not math.isfinite(high):
            return math.inf
    # The distance is searched on a scale of logarithms: it may be tiny.
    low = high
    while low > 1e-18 * high and log_growth(space, sign * (top + low)) >= needed:
        low /= 16
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if log_growth(space, sign * (top + middle)) < needed:
            low = middle
        else:
            high = middle
        if high <= (1 + 1e-6) * low:
            break
    return top + high


class Known(NamedTuple):
    """The projection H on known vectors, how they are coupled to the rest, and what the rest is.

    The rest is outside of L and has no eigenvalue above `above`, and none below −`below` (None if
    that is not asked). L's residuals there have the Gram matrix `loose`; the last vector of H goes
    on to the rest with the length β, as Lanczos does.

    Example:
        >>> known = Known(np.diag([5.0, 1.0]), np.zeros((2, 2)), 0.0, 0, above=2.0, below=None)
        >>> [num_beyond(known, x) for x in (4.0, 6.0)]
        [1, 0]
    """

    matrix: np.ndarray
    loose: np.ndarray
    length: float
    num_locked: int
    above: float
    below: float | None


def num_beyond(known: Known, x: float) -> int:
    """N(x), for an x beyond what the rest can have.

    Example: a residual of 1 and a gap of 3 to the rest.
        >>> known = Known(np.array([[5.0]]), np.ones((1, 1)), 0.0, 1, above=2.0, below=None)
        >>> num_beyond(known, 5.2), num_beyond(known, 5.4)
        (1, 0)
    """
    count = 0
    for sign, edge in ((1.0, known.above), (-1.0, known.below)):
        if edge is None or not len(known.matrix):
            continue
        small = sign * known.matrix
        if edge > -math.inf:
            small = small + _beside(known, small, x, edge)
        count += int(np.count_nonzero(np.linalg.eigvalsh(small) > x))
    return count


def _beside(known: Known, small: np.ndarray, x: float, edge: float) -> np.ndarray:
    """What the rest adds at most: G/(x − μ) on L, and β²/(x − α̃) on the last vector.

    Where both are there, (F + H)ᵀ(F + H) ≤ (1 + η) FᵀF + (1 + 1/η) HᵀH.
    """
    m, last = known.num_locked, len(small) - 1
    added = np.zeros_like(small)
    loose, own = max(float(np.trace(known.loose)), 0.0), known.length**2 if last >= m else 0.0
    ratio = max(_RATIO, math.sqrt(own / loose)) if loose and own else 0.0
    if loose:
        added[:m, :m] += (1 + ratio) * known.loose / (x - edge)
    if own:
        values, vectors = np.linalg.eigh(small[m:, m:])
        if edge > values[-1]:
            fixed = edge - own * float(np.sum(vectors[-1] ** 2 / (edge - values)))
        else:
            fixed = -math.inf
        added[last, last] += (1 + (1 / ratio if ratio else 0.0)) * own / (x - fixed)
    return added


def holds(known: Known, limits: np.ndarray) -> bool:
    """Whether the i-th eigenvalue is at most the i-th limit, for all of them.

    Example:
        >>> known = Known(np.array([[5.0]]), np.ones((1, 1)), 0.0, 1, above=2.0, below=None)
        >>> holds(known, np.array([5.4])), holds(known, np.array([5.1]))
        (True, False)
    """
    edge = _edge(known)
    if not np.all(limits > edge) or not np.all(np.isfinite(limits)):
        return False
    return all(num_beyond(known, x) <= i for i, x in enumerate(limits))


def upper_limits(known: Known, ranks: np.ndarray) -> np.ndarray:
    """The least x for each i with N(x) < i, given values that the eigenvalues have at least.

    Args:
        known: What the subspace and the rest are.
        ranks: The values (or magnitudes) found so far, falling.

    Example: ρ²/gap = 1/3, nearly.
        >>> known = Known(np.array([[5.0]]), np.ones((1, 1)), 0.0, 1, above=2.0, below=None)
        >>> upper_limits(known, np.array([5.0])).round(3).tolist()
        [5.303]
    """
    edge = _edge(known)
    if not math.isfinite(edge) and edge > 0:
        return np.full(len(ranks), math.inf)
    most = math.sqrt(max(float(np.trace(known.loose)), 0.0)) + known.length
    limits = []
    for i, rank in enumerate(ranks):
        low = max(float(rank), edge)
        high = low + most + 1e-15 * (abs(low) + most) + 1e-300
        while num_beyond(known, high) > i:
            high = low + 2 * (high - low)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if high - low <= 1e-4 * (high - rank) or not low < middle < high:
                break
            if num_beyond(known, middle) > i:
                low = middle
            else:
                high = middle
        limits.append(high)
    return np.array(limits)


def _edge(known: Known) -> float:
    """Beyond which the rest has nothing, on any side that is asked for."""
    return known.above if known.below is None else max(known.above, known.below)
