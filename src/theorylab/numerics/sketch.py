"""Few products with a symmetric operator that answer many questions about its spectrum.

    first run    Lanczos from a random start, until λ_max is certain to a tolerance: λ_max, λ_min
    kept         L, the Ritz vectors of the greatest magnitudes Θ, whose residuals are r
    probes       short runs of A′ = (1 − LLᵀ) A (1 − LLᵀ) from uniform unit vectors u outside of L

With d = p − |L|, and E over u,

    tr A  = Σ θ + d E uᵀAu            tr A² = Σ (θ² + r²) + d E ‖Au‖²
    F(t)  = (#{θ ≤ t} + d E F_u(t))/p up to 1/p, because A and Θ ⊕ A′ differ by a matrix of one
            positive and one negative eigenvalue

F_u lies between the two sums of the Gauss–Radau quadrature with a node at t (Chebyshev, Markov,
Stieltjes), whatever the spectrum; what is left is the chance of the probes, told by Student's law.

What the probes rule out together (Fisher): an eigenvalue μ of A′ would need uᵢ with shares cᵢ² of
it of at most 1/qᵢ(μ)², and the product of P uniform numbers F(cᵢ²) is below exp(−χ²/2), with χ² the
quantile of 2P degrees of freedom, with probability δ only. By Weyl and Sylvester that bounds the
eigenvalues of A, as `exclusion` has it.

Source: Ubaru, Chen & Saad (2017), Fast estimation of tr f(A) via stochastic Lanczos quadrature;
Golub & Meurant (2010), Matrices, moments and quadrature, ch. 6; Meyer et al. (2021), Hutch++.
"""

import math
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy import special

from theorylab.progress import report
from theorylab.typing import RandomKey

from .counted import CountedOperator, refuse_tracing
from .density import SpectralDensity
from .exclusion import Known, Krylov, least_growth, log_growth, nothing_above, upper_limits
from .intervals import Interval
from .restarted import Run
from .rows import Rows, recombined
from .spectra import Operator, Vector

_BASIS_BYTES = 3 * 2**28  # of the first run's basis
_MOST_STEPS = 192
_ENOUGH = 60  # products of the first run that make Ritz vectors good enough to be kept
_ROUNDING = 32  # units of the last place of ‖A‖
_HALVINGS = 60


class Extreme(NamedTuple):
    """An extreme eigenvalue: it lies between the value and the value plus (or minus) the bound.

    Example:
        >>> Extreme(2.0, 0.1).bound
        0.1
    """

    value: float
    bound: float


class Probe(NamedTuple):
    """What a short run from one start says: T, what follows it, its coupling with L.

    Example: a start that A maps on twice itself.
        >>> space = Krylov(np.array([2.0]), np.zeros(1), np.zeros(0), -700.0, 1)
        >>> probe = Probe(np.array([[2.0]]), 0.0, np.zeros((0, 1)), space)
        >>> probe.mean, probe.square
        (2.0, 4.0)
    """

    matrix: np.ndarray
    length: float
    coupling: np.ndarray
    space: Krylov

    @property
    def mean(self) -> float:
        """The number uᵀAu."""
        return float(self.matrix[0, 0])

    @property
    def square(self) -> float:
        """The number ‖Au‖²."""
        after = self.matrix[1, 0] if len(self.matrix) > 1 else self.length
        return float(self.matrix[0, 0] ** 2 + after**2 + (self.coupling[:, 0] ** 2).sum())


class SpectralSketch:
    """Extreme eigenvalues, trace, effective rank and density of A, from one set of products.

    Products are taken when the first question needs them: the first run for `largest` and
    `first_smallest`, the probes for all others.

    Args:
        matvec: The operator A, symmetric.
        like: A vector that A can act on, for its shape; or the size of a flat one.
        key: The randomness of all starts.
        tolerance: How far, relative to it, λ_max may be from its bound before the first run ends.
        first: The greatest number of products of the first run.
        num_probes: How many probes, at least 2.
        num_steps: How many products each.
        num_kept: How many Ritz vectors are kept, if there are as many.
        risk: The probability with which a bound may fail.

    Example:
        >>> spectrum = jnp.arange(20.0)
        >>> sketch = SpectralSketch(lambda v: spectrum * v, 20, jax.random.key(0))
        >>> round(sketch.largest.value, 4), round(sketch.trace.estimate, 3)
        (19.0, 190.0)
    """

    def __init__(
        self,
        matvec: Operator,
        like: Vector | int,
        key: RandomKey,
        tolerance: float = 0.01,
        first: int = 40,
        num_probes: int = 6,
        num_steps: int = 10,
        num_kept: int = 16,
        risk: float = 1e-3,
    ) -> None:
        if min(first, num_steps, num_kept) < 1 or num_probes < 2:
            raise ValueError(
                "first, num_steps and num_kept must be at least 1 and num_probes at least 2, got"
                f" {first}, {num_steps}, {num_kept} and {num_probes}."
            )
        refuse_tracing(key)
        self._operator = CountedOperator(matvec, like)
        self.size = self._operator.size
        room = _BASIS_BYTES // (self.size * np.dtype(self._operator.dtype).itemsize)
        self._most = max(2, min(first, _MOST_STEPS, room, self.size))
        self._key, self.tolerance, self.risk = key, tolerance, risk
        self.num_probes, self.num_steps, self.num_kept = num_probes, num_steps, num_kept
        self.first_products = 0

    @property
    def products(self) -> int:
        """How often A was applied so far."""
        return self._operator.products

    @cached_property
    def largest(self) -> Extreme:
        """λ_max by the first run alone: the value is at most λ_max, value + bound at least."""
        run = self._run
        while not run.ended and run.steps < self._most:
            run.step()
            report("largest eigenvalue", min(1.0, run.steps / self._most))
            if run.ended or run.steps % (1 + run.steps // 24) == 0:
                value, bound = self._extreme(1.0)
                if bound <= self.tolerance * abs(value):
                    break
        self.first_products = run.steps
        return self._extreme(1.0)

    @cached_property
    def first_smallest(self) -> Extreme:
        """λ_min by the first run alone: the value is at least λ_min, value − bound at most."""
        _ = self.largest
        value, bound = self._extreme(-1.0)
        return Extreme(-value, bound)

    @cached_property
    def smallest(self) -> Extreme:
        """λ_min, the tighter of what the first run and the probes say."""
        values, bounds = self._ranked(-1.0, 1)
        before = self.first_smallest
        value = min(-values[0], before.value)
        low = max(-values[0] - bounds[0], before.value - before.bound)
        return Extreme(value, max(value - low, 0.0))

    def top(self, count: int) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """The largest eigenvalues in falling order, at most as many as were kept, with bounds."""
        values, bounds = self._ranked(1.0, min(count, len(self._kept[0]), self.size))
        best = self.largest
        high = values + bounds
        high[0] = min(high[0], best.value + best.bound)
        high = np.minimum(high, high[0])
        values[0] = max(values[0], best.value)
        return values, np.maximum(high - values, 0.0)

    @cached_property
    def rest_edges(self) -> tuple[float, float]:
        """The least and the greatest Ritz value that a probe saw outside of L; NaN without one."""
        ends = [probe.space.values for probe in self._probes]
        if not ends:
            return math.nan, math.nan
        return float(min(each.min() for each in ends)), float(max(each.max() for each in ends))

    @cached_property
    def trace(self) -> Interval:
        """The sum of all eigenvalues, with its 95 % interval."""
        exact = float(self._kept[0].sum())
        return sum_interval(exact, self._outside, self._means, self._rounding * self.size**0.5)

    @cached_property
    def square(self) -> Interval:
        """Tr A² = ‖A‖_F², with its 95 % interval."""
        values, residuals = self._kept
        exact = float((values**2 + residuals**2).sum())
        rounding = self._rounding * self._norm * self.size**0.5
        return sum_interval(exact, self._outside, self._squares, rounding)

    @cached_property
    def effective_rank(self) -> Interval:
        """(tr A)²/tr A², with its 95 % interval."""
        values, residuals = self._kept
        exact = float(values.sum()), float((values**2 + residuals**2).sum())
        return ratio_interval(exact, self._outside, self._means, self._squares)

    def share_within(self, radius: float) -> Interval:
        """The share of eigenvalues between −radius and radius, with an interval of 95 % at least.

        Args:
            radius: The distance from 0, positive.
        """
        if not radius > 0:
            raise ValueError(f"radius must be positive, got {radius}.")
        values, _ = self._kept
        inside = float(np.count_nonzero(np.abs(values) < radius))
        if not self._probes:
            return Interval(inside / self.size, inside / self.size, inside / self.size)
        below = np.array([cdf_bounds(each.matrix, each.length, -radius) for each in self._probes])
        above = np.array([cdf_bounds(each.matrix, each.length, radius) for each in self._probes])
        d, p = self._outside, self.size
        low = sum_interval(inside, d, np.maximum(above[:, 0] - below[:, 1], 0.0), 1.0).low / p
        high = sum_interval(inside, d, np.minimum(above[:, 1] - below[:, 0], 1.0), 1.0).high / p
        middle = (above.mean() - below.mean()) * d / p + inside / p
        low, high = max(low, 0.0), min(high, 1.0)
        return Interval(float(np.clip(middle, low, high)), low, high)

    @cached_property
    def density(self) -> SpectralDensity:
        """One quadrature for each probe: the kept eigenvalues, and the probe's nodes."""
        values, _ = self._kept
        if not self._probes:
            nodes = np.sort(values)[None]
            return _as_density(nodes, np.full_like(nodes, 1 / len(values)))
        steps = max(len(each.matrix) for each in self._probes)
        nodes, weights = [], []
        for each in self._probes:
            found, vectors = np.linalg.eigh(each.matrix)
            missing = steps - len(found)
            at = np.concatenate([values, np.pad(found, (0, missing), mode="edge")])
            mass = np.pad(vectors[0] ** 2, (0, missing)) * self._outside / self.size
            mass = np.concatenate([np.full(len(values), 1 / self.size), mass])
            order = np.argsort(at)
            nodes.append(at[order])
            weights.append(mass[order])
        return _as_density(np.stack(nodes), np.stack(weights))

    @cached_property
    def _run(self) -> Run:
        operator = self._operator
        start = jax.random.normal(self._key, (self.size,), operator.dtype)
        return Run(operator, Rows(self.size, operator.dtype), start, _MOST_STEPS + 1, 0.0)

    def _extreme(self, sign: float) -> Extreme:
        """The greatest eigenvalue of ±A by the first run: what it saw, and what it rules out."""
        space, run = self._run.krylov(), self._run
        value = float((sign * space.values).max())
        if run.whole:
            return Extreme(value, self._rounding)
        needed = least_growth(self.size, self.risk / 4)
        bound = nothing_above(space, needed, sign) - value + self._rounding
        zero = math.sqrt(self._operator.epsilon) * run.norm
        return Extreme(value, max(bound, 0.0) if abs(value) > zero else max(bound, zero))

    @property
    def _norm(self) -> float:
        return self._run.norm

    @property
    def _rounding(self) -> float:
        return _ROUNDING * self._operator.epsilon * self._norm

    @cached_property
    def _kept(self) -> tuple[np.ndarray, np.ndarray]:
        """Θ and r of the vectors L; L is `_locked`."""
        _ = self.first_smallest, self._locked
        return self._theta

    @cached_property
    def _locked(self) -> Rows:
        _ = self.first_smallest
        run = self._run
        enough = self.size if self.size <= self._most else min(self._most, _ENOUGH)
        while not run.ended and run.steps < enough:
            run.step()
        values, vectors = np.linalg.eigh(run.matrix)
        order = np.argsort(-np.abs(values), kind="stable")
        # A space that has closed is known exactly: nothing of it is left to chance.
        order = order if run.ended else order[: self.num_kept]
        residuals = np.zeros(len(order)) if run.whole else run.length * np.abs(vectors[-1, order])
        self._theta = values[order], residuals
        kept = recombined(vectors[:, order].T, [run.basis])
        run.basis = Rows(self.size, self._operator.dtype)  # its memory is free again
        return kept

    @property
    def _outside(self) -> int:
        """The number d of dimensions outside of L."""
        return self.size - len(self._kept[0])

    @cached_property
    def _probes(self) -> list[Probe]:
        if not self._outside:
            return []
        return [self._probe(i) for i in range(self.num_probes)]

    def _probe(self, index: int) -> Probe:
        operator, key = self._operator, jax.random.fold_in(self._key, 1 + index)
        start = jax.random.normal(key, (self.size,), operator.dtype)
        run = Run(operator, self._locked, start, self.num_steps + 1, self._norm)
        while run.steps < self.num_steps and not run.ended:
            run.step()
            done = (index * self.num_steps + run.steps) / (self.num_probes * self.num_steps)
            report("spectrum", min(1.0, done))
        length = 0.0 if run.whole else run.length
        return Probe(run.matrix, length, run.coupling, run.krylov())

    @property
    def _means(self) -> np.ndarray:
        return np.array([probe.mean for probe in self._probes])

    @property
    def _squares(self) -> np.ndarray:
        return np.array([probe.square for probe in self._probes])

    def _ranked(self, sign: float, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The greatest eigenvalues of ±A, each at least the value, at most value + bound."""
        theta, residuals = self._kept
        values = np.sort(sign * theta)[::-1][:count]
        if not self._probes:
            return values, np.full(len(values), self._rounding)
        for probe in self._probes:
            whole = np.block([[np.diag(theta), probe.coupling], [probe.coupling.T, probe.matrix]])
            found = np.sort(sign * np.linalg.eigvalsh(whole))[::-1][: len(values)]
            values = np.maximum(values, found)
        spaces = [probe.space for probe in self._probes]
        above = nothing_above_all(spaces, self._outside, self.risk / 4, sign)
        loose = np.outer(residuals, residuals)
        known = Known(np.diag(sign * theta), loose, 0.0, len(theta), above, None)
        limits = upper_limits(known, values)
        return values, np.maximum(limits - values, 0.0) + self._rounding


def nothing_above_all(spaces: list[Krylov], size: int, risk: float, sign: float = 1.0) -> float:
    """The μ above which there is no eigenvalue, by several spaces from random starts together.

    Args:
        spaces: The Krylov spaces, of independent starts.
        size: The dimensions in which the starts are random.
        risk: The probability δ with which the bound may fail.
        sign: Which end is looked at: with −1, nothing is below −μ.

    Example: closed spaces that have seen everything.
        >>> closed = Krylov(np.array([2.0]), np.array([1e-16]), np.array([]), math.log(1e-16), 1)
        >>> round(nothing_above_all([closed, closed], 100, 1e-3), 6)
        2.0
    """
    ends = np.concatenate([sign * space.values for space in spaces])
    top, spread = float(ends.max()), float(np.ptp(ends))
    spread = max(spread + max(float(space.residuals.max()) for space in spaces), 1e-300)
    needed = -0.5 * float(special.chdtri(2 * len(spaces), risk))

    def is_excluded(distance: float) -> bool:
        shares = [math.exp(-2 * max(log_growth(s, sign * (top + distance)), 0.0)) for s in spaces]
        chances = [special.betainc(0.5, max(size - 1, 1) / 2, share) for share in shares]
        return sum(math.log(max(float(chance), 1e-280)) for chance in chances) < needed

    low, high = 1e-18 * spread, spread
    while not is_excluded(high):
        high *= 2
        if high > 1e12 * spread:
            return math.inf
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if is_excluded(middle):
            high = middle
        else:
            low = middle
        if high <= (1 + 1e-6) * low:
            break
    return top + high


def sum_interval(exact: float, size: int, samples: np.ndarray, rounding: float) -> Interval:
    """Exact + size · E samples with Student's interval of 95 %; exact alone without samples.

    Args:
        exact: What is known.
        size: How many directions the samples stand for.
        samples: One number a probe.
        rounding: What both ends are moved out by.

    Example:
        >>> sum_interval(1.0, 10, np.array([2.0, 2.0]), 0.5)
        Interval(estimate=21.0, low=20.5, high=21.5)
    """
    if not size:
        return Interval(exact, exact - rounding, exact + rounding)
    value = exact + size * float(samples.mean())
    margin = size * _student(samples) + rounding
    return Interval(value, value - margin, value + margin)


def ratio_interval(
    exact: tuple[float, float], size: int, means: np.ndarray, squares: np.ndarray
) -> Interval:
    """(tr A)²/tr A² with an interval of 95 %, by the slopes of the ratio in both sums.

    Args:
        exact: What is known of tr A and of tr A².
        size: How many directions the samples stand for.
        means: uᵀAu of every probe.
        squares: ‖Au‖² of every probe.

    Example: five equal eigenvalues.
        >>> ratio_interval((0.0, 0.0), 5, np.array([2.0, 2.0]), np.array([4.0, 4.0])).estimate
        5.0
    """
    if not size:
        value = exact[0] ** 2 / exact[1] if exact[1] > 0 else math.nan
        return Interval(value, value, value)
    total = exact[0] + size * float(means.mean())
    square = exact[1] + size * float(squares.mean())
    if not square > 0:
        return Interval(math.nan, math.nan, math.nan)
    value = total**2 / square
    along = size * (2 * total / square * means - total**2 / square**2 * squares)
    margin = _student(along)
    return Interval(value, max(value - margin, 0.0), value + margin)


def cdf_bounds(matrix: np.ndarray, length: float, at: float) -> tuple[float, float]:
    """Between which numbers F_u(t) is, by the Gauss–Radau quadrature with a node at t.

    Args:
        matrix: The tridiagonal T of Lanczos from u.
        length: The next entry β off its diagonal.
        at: The point t.

    Example: mean 0 and variance 1 leave F(0) open, and F(3) within 1/10.
        >>> [round(bound, 6) for bound in cdf_bounds(np.zeros((1, 1)), 1.0, 3.0)]
        [0.9, 1.0]
    """
    n = len(matrix)
    nodes, vectors = np.linalg.eigh(matrix)
    near = 1e-9 * max(float(np.abs(nodes).max()), abs(at), length, 1e-300)
    if length <= near:  # the space is closed: the quadrature is the law
        mass = vectors[0] ** 2
        return float(mass[nodes < at].sum()), float(mass[nodes <= at].sum())
    if np.abs(nodes - at).min() < near:
        at += 2 * near
    last = np.zeros(n)
    last[-1] = length**2
    corner = at + np.linalg.solve(matrix - at * np.eye(n), last)[-1]
    larger = np.pad(matrix, (0, 1))
    larger[n, n - 1] = larger[n - 1, n] = length
    larger[n, n] = corner
    nodes, vectors = np.linalg.eigh(larger)
    mass, place = vectors[0] ** 2, int(np.argmin(np.abs(nodes - at)))
    below = float(mass[:place].sum())
    return below, min(below + float(mass[place]), 1.0)


def _student(samples: np.ndarray) -> float:
    """The half-width of Student's interval of the mean."""
    n = len(samples)
    return float(special.stdtrit(n - 1, 0.975) * samples.std(ddof=1) / math.sqrt(n))


def _as_density(nodes: np.ndarray, weights: np.ndarray) -> SpectralDensity:
    return SpectralDensity(jnp.asarray(nodes), jnp.asarray(weights))
