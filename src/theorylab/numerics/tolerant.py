"""The first k eigenvalues, as far as a tolerance asks: products until the certificate holds.

Rounds of Lanczos with thick restarts, every one from a new random start outside of the vectors L
that were found before:

    first round      ends where its Ritz pairs, if nothing was missed, meet the tolerance
    later rounds     look at A′ = (1 − LLᵀ) A (1 − LLᵀ): what has grown without showing itself is
                     ruled out (`exclusion`); what shows itself joins L
    refinement       a round from the residual of the worst pair, if all that is wrong is L itself

For k = 1 the first round is its own certificate. All that was proved stays true, so bounds are the
least so far: they shrink with the products and never jump.

How many products are missing is told from what was observed: the residuals' rate, and the growth
of log q per product at the limit that is to be excluded, against the growth that is needed.
"""

import math
from typing import NamedTuple, get_args

import jax
import numpy as np
from jaxtyping import Array, Float

from theorylab.progress import report
from theorylab.typing import RandomKey

from .counted import CountedOperator
from .exclusion import (
    Known,
    Krylov,
    holds,
    least_growth,
    log_growth,
    nothing_above,
    upper_limits,
)
from .restarted import Run
from .rows import Rows, combined, recombined
from .spectra import Which

_BASIS_BYTES = 3 * 2**29  # of a basis, beside what is locked
_LARGEST_BASIS = 192
_NOTHING = 1e-250  # what is smaller is 0
_ROUNDING = 32  # units of the last place of ‖A‖
_REFINEMENT = 30  # steps from one residual
_LOOSE = 3  # times the greatest residual of those asked for: no gain in locking such a pair
_EACH = 24  # dimensions for one more product before the next look
_EXTRA = 8  # more pairs than asked for may be locked: the gap to the rest grows


class Found(NamedTuple):
    """What a search knows when it ends; vectors in blocks of rows."""

    values: np.ndarray
    vectors: list[Float[Array, "height p"]]
    residuals: np.ndarray
    bounds: np.ndarray
    products: int
    converged: bool
    needed: int


class _Merged(NamedTuple):
    """Ritz pairs of L and of the run together, foremost first: columns of coordinates."""

    values: np.ndarray
    ranks: np.ndarray
    coordinates: np.ndarray
    gram: np.ndarray

    @property
    def residuals(self) -> np.ndarray:
        return np.sqrt(np.maximum(np.diag(self.gram), 0.0))


def search_eigenpairs(
    operator: CountedOperator,
    k: int,
    which: Which,
    tolerance: float,
    budget: int,
    risk: float,
    key: RandomKey,
) -> Found:
    """Apply the operator until the certificate holds or the budget ends.

    Args:
        operator: A, or −A for the smallest.
        k: How many eigenvalues.
        which: By what they are ordered; "smallest" is asked of −A as "largest".
        tolerance: How far, relative to each eigenvalue, its bound may be.
        budget: The number of products, at least k.
        risk: The probability with which a bound may fail.
        key: The randomness of all starts.

    Example:
        >>> spectrum = np.array([3.0, 3.0, 1.0, 0.5])
        >>> operator = CountedOperator(lambda v: spectrum * v, 4)
        >>> found = search_eigenpairs(operator, 2, "largest", 0.01, 50, 1e-3, jax.random.key(0))
        >>> found.values.round(4).tolist(), found.converged, found.products
        ([3.0, 3.0], True, 4)
    """
    state = _Search(operator, k, key, which, tolerance, risk)
    while not state.done and operator.products < budget:
        state.advance(budget)
    return state.answer()


def check_search(
    operator: CountedOperator, k: int, which: Which, risk: float, tolerance: float, budget: int
) -> None:
    """Raise unless the request makes sense; nothing is computed.

    Example:
        >>> check_search(CountedOperator(lambda v: v, 3), 4, "largest", 1e-3, 0.01, 100)
        Traceback (most recent call last):
        ...
        ValueError: k must be between 1 and size = 3 and budget = 100, got 4.
    """
    if which not in get_args(Which):
        raise ValueError(f"which must be largest, smallest or magnitude, got {which!r}.")
    if not 1 <= k <= min(operator.size, budget):
        raise ValueError(
            f"k must be between 1 and size = {operator.size} and budget = {budget}, got {k}."
        )
    if not 0 < risk < 1:
        raise ValueError(f"risk must be in (0, 1), got {risk}.")
    least = 4 * _ROUNDING * operator.epsilon
    if not least <= tolerance < math.inf:
        raise ValueError(
            f"tolerance must be at least {least:.1g}, which rounding in {operator.dtype} leaves,"
            f" got {tolerance}."
        )


class _Search:
    """What is known so far, and what to do next."""

    def __init__(
        self,
        operator: CountedOperator,
        k: int,
        key: RandomKey,
        which: Which,
        tolerance: float,
        risk: float,
    ) -> None:
        self.operator, self.k, self.key = operator, k, key
        self.both = which == "magnitude"
        self.tolerance, self.risk = tolerance, risk
        each = operator.size * np.dtype(operator.dtype).itemsize
        room = min(_LARGEST_BASIS, _BASIS_BYTES // each)
        self.capacity = max(room, 2 * k + 10)
        self.locked = Rows(operator.size, operator.dtype)
        self.values, self.gram = np.zeros(0), np.zeros((0, 0))
        self.above = self.below = math.inf  # of what is outside of L
        self.low, self.high = np.full(k, -math.inf), np.full(k, math.inf)
        self.round, self.norm = 0, 0.0
        self.history: list[tuple[int, float]] = []  # products, and the worst residual of the first
        self.rest: tuple[float, float] | None = None  # the greatest and the least after the first k
        self.done = False
        self._begin()

    def advance(self, budget: int) -> None:
        """One product, and what follows from it."""
        run = self.run
        if run.full and not run.ended:
            self._settle()
            self._restart()
        run.step()
        self.norm = run.norm
        report("eigenvalues", min(1.0, self.operator.products / budget))
        # Small matrices take no time, and large ones are not looked at after every product.
        if not run.ended and not run.full and run.steps % (1 + len(run.basis) // _EACH):
            return
        merged = self._merge()
        first = merged.ranks[: self.k]
        self.low[: len(first)] = np.maximum(self.low[: len(first)], first)
        if len(merged.ranks) > self.k:
            after, lowest = float(merged.ranks[self.k]), float(merged.values.min())
            self.rest = after, min(lowest, -after) if self.both else lowest
        if len(first) == self.k:
            self.history.append((self.operator.products, float(merged.residuals[: self.k].max())))
            self.done = self._is_certain()
        if not self.done:
            self._next_round(merged)

    def answer(self) -> Found:
        """The pairs, and how sure they are."""
        self._settle()
        merged, k = self._merge(), self.k
        # What an earlier basis has shown stays true of the eigenvalue, if not of the vector.
        ranks, high = self.low, np.maximum(self.high, self.low)
        blocks = combined(merged.coordinates[:, :k].T, [self.locked, self.run.basis])
        bounds = high - ranks + self._rounding
        products = self.operator.products
        return Found(
            values=np.where(merged.values[:k] < 0, -ranks, ranks) if self.both else ranks,
            vectors=blocks,
            residuals=merged.residuals[:k],
            bounds=bounds,
            products=products,
            converged=self.done,
            needed=products if self.done else products + self._missing(),
        )

    @property
    def _rounding(self) -> float:
        return _ROUNDING * self.operator.epsilon * self.norm

    @property
    def _limits(self) -> np.ndarray:
        """What the eigenvalues must be shown not to exceed."""
        zero = math.sqrt(self.operator.epsilon) * self.norm + _NOTHING
        size = np.where(np.isfinite(self.low), np.abs(self.low), 0.0)
        return self.low + np.where(size > zero, self.tolerance * size, zero) - self._rounding

    @property
    def _needed_growth(self) -> float:
        """Log q of this round; the risks of all rounds sum to the whole, both ends share one's."""
        risk = self.risk / (self.round * (self.round + 1)) / (2 if self.both else 1)
        return least_growth(self.operator.size - len(self.locked), risk)

    def _begin(self, start: Float[Array, " p"] | None = None) -> None:
        """A new run outside of L: random, or from a residual."""
        self.random = start is None
        if start is None:
            self.round += 1
            key = jax.random.fold_in(self.key, self.round)
            start = jax.random.normal(key, (self.operator.size,), self.operator.dtype)
        self.run = Run(self.operator, self.locked, start, self.capacity, self.norm)
        if self.run.whole:  # nothing is outside of L
            self.run.ended, self.above, self.below = True, -math.inf, -math.inf

    def _rank(self, values: np.ndarray) -> np.ndarray:
        return np.abs(values) if self.both else values

    def _merge(self) -> _Merged:
        """Rayleigh and Ritz on L and the run; residuals that are not orthogonal count twice."""
        run, num_locked = self.run, len(self.locked)
        values, vectors = np.linalg.eigh(self._whole())
        order = np.argsort(-self._rank(values), kind="stable")
        values, vectors = values[order], vectors[:, order]
        left = self._loose()
        on_locked, last = vectors[:num_locked], vectors[-1] if len(run.matrix) else 0 * values
        own = run.length**2 * np.outer(last, last)
        gram = _sum_of_residuals(on_locked.T @ left @ on_locked, own)
        return _Merged(values, self._rank(values), vectors, gram)

    def _known(self) -> list[Known]:
        """Two ways to see it, both true: the rest is what is outside of L, or of all vectors."""
        edges = (self.above, self.below if self.both else None)
        num_locked = len(self.locked)
        alone = Known(np.diag(self.values), self.gram, 0.0, num_locked, *edges)
        if not len(self.run.matrix):
            return [alone]
        length = 0.0 if self.run.whole else self.run.length
        return [alone, Known(self._whole(), self._loose(), length, num_locked, *edges)]

    def _whole(self) -> np.ndarray:
        """The projection of A on L and the run."""
        coupling = self.run.coupling
        return np.block([[np.diag(self.values), coupling], [coupling.T, self.run.matrix]])

    def _loose(self) -> np.ndarray:
        """The Gram matrix of what L's residuals have outside of the run."""
        return _positive(self.gram - self.run.coupling @ self.run.coupling.T)

    def _exclude(self, exact: bool) -> None:
        """Learn from the run what is not outside of L; exactly, or as far as the limits ask."""
        if self.run.whole:
            self.above = self.below = -math.inf
        if not self.random or not self.run.steps or self.run.whole:
            return
        space, needed = self.run.krylov(), self._needed_growth
        if exact or self._grown(space) >= needed:
            self.above = min(self.above, nothing_above(space, needed))
            if self.both:
                self.below = min(self.below, nothing_above(space, needed, -1.0))

    def _grown(self, space: Krylov) -> float:
        """Log q at the last limit, at the worse end; −∞ where a Ritz value is beyond it."""
        limit = self._limits[-1]
        signs = (1.0, -1.0) if self.both else (1.0,)
        ends = [sign * space.values for sign in signs]
        if not math.isfinite(limit) or max(end.max() for end in ends) >= limit:
            return -math.inf
        return min(log_growth(space, sign * limit) for sign in signs)

    def _is_certain(self) -> bool:
        self._exclude(exact=self.k == 1)
        return any(holds(known, self._limits) for known in self._known())

    def _settle(self) -> None:
        """Keep the best bounds so far."""
        self._exclude(exact=True)
        for known in self._known():
            self.high = np.minimum(self.high, upper_limits(known, self.low))

    def _restart(self) -> None:
        values, vectors = np.linalg.eigh(self.run.matrix)
        order = np.argsort(-self._rank(values), kind="stable")
        kept = min(max(self.k + (self.capacity - self.k) // 2, 1), self.capacity - 2)
        self.run.restart(order[:kept], values, vectors)

    def _next_round(self, merged: _Merged) -> None:
        """End the run if there is nothing more in it."""
        run = self.run
        if run.ended:
            self._lock(merged, min(len(merged.values), self.k + _EXTRA))
        elif not len(self.locked):
            if self.k > 1 and (count := self._ready(merged)):
                self._lock(merged, count)
        elif self._missed() and (count := self._ready(merged)):
            self._lock(merged, count)
        elif self._inexact():
            self._refine(merged)

    def _missed(self) -> bool:
        """Whether something outside of L is beyond the limit that the last one must have."""
        values = np.linalg.eigvalsh(self.run.matrix)
        return bool(self._rank(values).max() >= self._limits[-1])

    def _inexact(self) -> bool:
        """Whether L itself is at fault: not even the lowest bound that the run may give will do."""
        if not self.random:
            return self.run.steps >= _REFINEMENT
        edge = max(self.above, self.below) if self.both else self.above
        if edge > (self.low[-1] + self._limits[-1]) / 2:
            return False
        seen = float(self._rank(self.run.krylov().values).max())
        seen = (seen, seen if self.both else None)
        alone = Known(np.diag(self.values), self.gram, 0.0, len(self.locked), *seen)
        return not holds(alone, self._limits)

    def _ready(self, merged: _Merged) -> int:
        """How many pairs meet half the tolerance, if nothing was missed; 0 if they do not."""
        best, k = 0, self.k
        if len(merged.values) <= k:
            return 0
        limits = self.low + (self._limits - self.low) / 2
        edge = limits[-1] - (limits[-1] - self.low[-1]) / 2
        for count in range(k, min(k + _EXTRA, len(merged.values) - 1) + 1):
            guess = min(edge, merged.ranks[count] + merged.residuals[count])
            sides = (guess, guess if self.both else None)
            kept = np.diag(merged.values[:count]), merged.gram[:count, :count]
            some = Known(*kept, 0.0, count, *sides)
            loose = merged.residuals[count - 1] > _LOOSE * merged.residuals[:k].max()
            if loose or not holds(some, limits):
                break
            best = count
        return best

    def _lock(self, merged: _Merged, count: int) -> None:
        """Take the foremost pairs for L, and look at what is left from a new start."""
        self._settle()
        chosen = merged.coordinates[:, :count]
        self.locked = recombined(chosen.T, [self.locked, self.run.basis])
        self.values, self.gram = merged.values[:count], merged.gram[:count, :count]
        self.above = self.below = math.inf
        self._begin()

    def _refine(self, merged: _Merged) -> None:
        """Follow the worst residual, outside of L: what was ruled out there stays so.

        The vectors of a random run are dropped, those from a residual join L.
        """
        self._settle()
        if not self.random:
            self.locked = recombined(merged.coordinates.T, [self.locked, self.run.basis])
            self.values, self.gram = merged.values, merged.gram
        self._begin(self._worst_residual())

    def _worst_residual(self) -> Float[Array, " p"]:
        """A v − θv of the pair whose residual is greatest, from one more product."""
        order = np.argsort(-self._rank(self.values), kind="stable")[: self.k]
        worst = int(order[np.argmax(np.diag(self.gram)[order])])
        vector = combined(np.eye(len(self.locked))[worst : worst + 1], [self.locked])[0][0]
        return self.operator(vector) - self.values[worst].astype(self.operator.dtype) * vector

    def _missing(self) -> int:
        """About how many products are missing: for the pairs themselves, and to exclude others."""
        spent = max(self.operator.products, 1)
        if self.rest is None or not self.history:
            return spent + self.k
        after, lowest = self.rest
        limit, run = self._limits[-1], self.run
        first = not len(self.locked) and self.k > 1
        if self.random and not first and run.steps:
            grown, needed = self._grown(run.krylov()), self._needed_growth
            if grown > 0:
                return math.ceil(max(1.0, (needed - grown) * run.steps / grown))
        # Chebyshev's growth per product, above an interval with what is left.
        gap = max(limit - after, (limit - self.low[-1]) / 2)
        rate = math.acosh(1 + 2 * gap / max(after - lowest, gap))
        looking = (self._needed_growth + math.log(2)) / rate if self.random else 0.0
        return math.ceil(max(1.0, self._missing_for_pairs(after) + looking))

    def _missing_for_pairs(self, after: float) -> float:
        """How long the residuals take to what is allowed, at the rate of the last half."""
        slack = float((self._limits - self.low)[-1]) / 2
        gap = max(float(self.low[-1]) - after, 0.0)
        aim = math.sqrt(slack * (slack + gap))
        (end, now), half = self.history[-1], self.history[len(self.history) // 2 :]
        if now <= aim:
            return 0.0
        begin, before = half[0]
        if end == begin or before <= now:
            return float(end)
        return math.log(now / aim) * (end - begin) / math.log(before / now)


def _sum_of_residuals(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """A bound of (F + H)ᵀ(F + H), given FᵀF and HᵀH: (1 + η) FᵀF + (1 + 1/η) HᵀH."""
    sizes = math.sqrt(max(np.trace(one), 0.0)), math.sqrt(max(np.trace(other), 0.0))
    if min(sizes) <= 1e-15 * max(sizes):
        return one + other
    return (1 + sizes[1] / sizes[0]) * one + (1 + sizes[0] / sizes[1]) * other


def _positive(gram: np.ndarray) -> np.ndarray:
    """The nearest matrix without negative eigenvalues: rounding may have made some."""
    if not len(gram):
        return gram
    values, vectors = np.linalg.eigh(gram)
    return (vectors * np.maximum(values, 0.0)[None]) @ vectors.T
