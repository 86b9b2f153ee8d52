"""Eigenvalues with a certificate: how far the i-th can be from the true i-th.

A residual ‖Av − θv‖ says that some eigenvalue is near θ. It does not say which one: Lanczos may
have missed a repeated eigenvalue, or one that its start hardly contains. So what was found is
taken out, and a second Lanczos with a start of its own looks at what is left,

    A′ = (1 − VVᵀ) A (1 − VVᵀ)

and if it finds something that belongs among the first k, this is merged and the rest looked at
again. In the end, with R = AV − VΘ, A is within ‖R‖ of Θ ⊕ A′, so that (Weyl)

    θᵢ ≤ λᵢ ≤ max(θᵢ, λ_max(A′)) + ‖R‖

and after j steps from a random start in p dimensions, whatever the spectrum,

    λ_max(A′) ≤ θ_max + ε (λ_max − λ_min)     except with probability δ,
    √ε = log(1.648 √p / δ) / (2j − 1)

So a residual does not bound the error of the k-th eigenvalue; the field `bounds` does. A greater
eigenvalue may be missed although all residuals vanish. The bound costs further steps. Where
a gap of εs (of the spread s = λ_max − λ_min) parts an eigenvalue from what is left, its bound is of
the order of the residual; where there is none (two values only, a bulk) it is εs. `needed_checks`
turns this round: a share of 1 % takes 60 to 90 checks for any size up to a million, one of 5 % some
30 to 40, and a rest of as many dimensions as checks is known exactly.

Without a number of steps, `tolerant` does all of this until a tolerance is met, with bounds that
depend on the spectrum and not on the worst one.

For "smallest" the operator is −A; for "magnitude" λᵢ are singular values, for which Weyl's
inequality holds too.

Source: Kuczyński & Woźniakowski (1992), Estimating the largest eigenvalue by the power and Lanczos
algorithms with a random start, Thm 4.2.
"""

import bisect
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theorylab.answers import Answer, fixed
from theorylab.typing import RandomKey

from .counted import CountedOperator, refuse_tracing
from .spectra import Operator, Vector, Which, flat_operator, foremost, rank, ritz, template
from .tolerant import check_search, search_eigenpairs

Flat = Callable[[Float[Array, " p"]], Float[Array, " p"]]  # an operator on flat vectors


class CertifiedEigenpairs(
    Answer,
    errors={"values": "bounds"},
    labels={"values": "eigenvalue λ"},
    axes=("rank",),
):
    """Pairs with residuals ‖Av − θv‖, and bounds of the distance to the eigenvalue of that rank.

    With a tolerance, `products` says how often A was applied, `converged` whether all bounds meet
    the tolerance, and `needed` about how many products would do, if they do not. With a given
    number of steps nobody asked: these are 0 and False.
    """

    values: Float[Array, " k"]
    vectors: Vector
    residuals: Float[Array, " k"]
    bounds: Float[Array, " k"]
    products: int = fixed(default=0)
    converged: bool = fixed(default=False)
    needed: int = fixed(default=0)


class _State(NamedTuple):
    """Pairs so far, A's images of them, and what the last look at the rest has shown."""

    round: Int[Array, ""]
    values: Float[Array, " k"]
    vectors: Float[Array, "k p"]
    images: Float[Array, "k p"]
    left: Float[Array, ""]  # the rank of whatever is left is at most this
    norm: Float[Array, ""]  # the greatest magnitude seen
    missed: Bool[Array, ""]  # whether the last look found what belongs among the pairs


def certified_eigenpairs(
    matvec: Operator,
    like: Vector | int,
    k: int,
    key: RandomKey,
    num_steps: int | None = None,
    which: Which = "largest",
    num_checks: int | None = None,
    risk: float = 1e-3,
    tolerance: float = 0.01,
    budget: int | None = None,
) -> CertifiedEigenpairs:
    """Find k eigenpairs, repeated ones as often as they stand there, and bound their errors.

    |θᵢ − λᵢ| is at most the i-th bound for all i at once, except with probability `risk`; for
    "magnitude" that is ||θᵢ| − |λᵢ||. Rounding is allowed for with 32 units of the last place.

    A is applied until every bound is at most the tolerance times |θᵢ|, or the budget ends; bounds
    only shrink with the budget. Eigenvalues below √ε ‖A‖, with ε a unit of the last place, count as
    0. This looks at numbers after every product, so it cannot be compiled. With `num_steps` it is
    one compiled program, which can be jitted, mapped and scanned; where too few checks leave open
    whether something greater is left, the bound says so by being wide.

    Args:
        matvec: The operator A.
        like: A vector that A can act on, for its shape; or the size of a flat one.
        k: How many pairs.
        key: The randomness of all starts.
        num_steps: How many times A is applied to find the pairs, and once more per pair; at
            least k. By default as often as the tolerance asks.
        which: "largest" in falling order, "smallest" in rising order, or by falling "magnitude".
        num_checks: With `num_steps`: how many times A is applied to look at what is left, and once
            more per pair; as often again while something was missed, k + 1 times at most. By
            default half of num_steps, and at least `needed_checks` for a share of 5 % of the
            spread.
        risk: The probability δ with which a bound may fail.
        tolerance: The bound wanted, relative to each eigenvalue.
        budget: The greatest number of products, at least k; by default 200 + 20 k.

    Example:
        >>> twice = jnp.array([3.0, 3.0, 1.0, -5.0])
        >>> found = certified_eigenpairs(lambda v: twice * v, 4, 2, jax.random.key(0))
        >>> found.values.round(4), found.products, found.converged
        (Array([3., 3.], dtype=...), 4, True)
    """
    if num_steps is None:
        search = _checked_search(matvec, like, k, which, num_checks, risk, tolerance, budget)
        return search(key)
    return _in_steps(matvec, like, k, num_steps, which, num_checks, risk, key)


def _in_steps(
    matvec: Operator,
    like: Vector | int,
    k: int,
    num_steps: int,
    which: Which,
    num_checks: int | None,
    risk: float,
    key: RandomKey,
) -> CertifiedEigenpairs:
    """The pairs that so many steps find, with bounds from so many checks."""
    flat, unravel = template(like)
    _check(k, num_steps, flat.size, num_checks, risk)
    if num_checks is None:
        fewest = needed_checks(0.05, flat.size, k, risk) if k < flat.size else 1
        num_checks = max(-(-num_steps // 2), fewest)
    apply = flat_operator(matvec, unravel)
    search_key, look_key = jax.random.split(key)
    state = _search(apply, flat, k, num_steps, which, search_key)
    if k < flat.size:
        look = _look(apply, which, min(num_checks, flat.size - k), risk / (k + 1), look_key)
        state = jax.lax.while_loop(lambda s: s.missed & (s.round <= k), look, state)
    residuals = jnp.linalg.norm(state.images - state.values[:, None] * state.vectors, axis=1)
    left = jnp.where(state.missed & (k < flat.size), jnp.inf, state.left)
    rounding = 32 * jnp.finfo(flat.dtype).eps * state.norm
    bounds = _bounds(rank(state.values, which), residuals, left) + rounding
    return CertifiedEigenpairs(state.values, jax.vmap(unravel)(state.vectors), residuals, bounds)


def _checked_search(
    matvec: Operator,
    like: Vector | int,
    k: int,
    which: Which,
    num_checks: int | None,
    risk: float,
    tolerance: float,
    budget: int | None,
) -> Callable[[RandomKey], CertifiedEigenpairs]:
    """The search until a tolerance is met, if all that was asked for makes sense."""
    if num_checks is not None:
        raise ValueError("num_checks must come with num_steps, got it alone.")
    budget = 200 + 20 * k if budget is None else budget
    operator = CountedOperator(matvec, like, negative=which == "smallest")
    check_search(operator, k, which, risk, tolerance, budget)

    def search(key: RandomKey) -> CertifiedEigenpairs:
        refuse_tracing(key)
        order = "magnitude" if which == "magnitude" else "largest"
        found = search_eigenpairs(operator, k, order, tolerance, budget, risk, key)
        sign = -1.0 if which == "smallest" else 1.0
        vectors = jnp.concatenate(found.vectors)[:k]
        return CertifiedEigenpairs(
            values=jnp.asarray(sign * found.values, operator.dtype),
            vectors=jax.vmap(operator.unravel)(vectors),
            residuals=jnp.asarray(found.residuals, operator.dtype),
            bounds=jnp.asarray(found.bounds, operator.dtype),
            products=found.products,
            converged=found.converged,
            needed=found.needed,
        )

    return search


def needed_checks(share: float, size: int, k: int, risk: float = 1e-3) -> int:
    """The number of checks that bound an eigenvalue to a share of the spread, plus the residuals.

    Args:
        share: The excess wanted, over λ_max − λ_min of what is left.
        size: The dimensions p.
        k: How many pairs are found, fewer than p.
        risk: The probability δ with which a bound may fail.

    Example:
        >>> [needed_checks(share, 1_000_000, 10) for share in (0.2, 0.05, 0.01)]
        [24, 42, 89]
    """
    if not share > 0 or not 1 <= k < size or not 0 < risk < 1:
        raise ValueError(
            "share must be positive, k from 1 to size - 1 and risk in (0, 1), "
            f"got {share}, {k} of {size} and {risk}."
        )
    counts = range(1, size - k + 1)
    return counts[bisect.bisect_left(counts, -share, key=lambda n: -unsure_share(n, size, k, risk))]


def unsure_share(num_checks: int, size: int, k: int, risk: float = 1e-3) -> float:
    """The share of the spread that a number of checks leaves open: ε/(1 − 2ε), at most 1.

    Example:
        >>> round(unsure_share(89, 1_000_000, 10), 4), unsure_share(5, 1_000_000, 10)
        (0.0099, inf)
    """
    epsilon = _epsilon(size - k, num_checks, risk / (k + 1))
    return epsilon / (1 - 2 * epsilon) if epsilon < 0.5 else math.inf


def _search(
    apply: Flat, flat: Float[Array, " p"], k: int, num_steps: int, which: Which, key: RandomKey
) -> _State:
    """The pairs that a first Lanczos finds."""
    found = ritz(apply, flat, num_steps, key)
    chosen = foremost(k, which, found.values)
    values, vectors = found.values[chosen], found.vectors(chosen)
    return _State(
        round=jnp.zeros((), int),
        values=values,
        vectors=vectors,
        images=jax.lax.map(apply, vectors),
        left=jnp.array(-jnp.inf, flat.dtype),
        norm=jnp.abs(values).max(),
        missed=jnp.array(k < flat.size),
    )


def _look(
    apply: Flat, which: Which, num_steps: int, risk: float, key: RandomKey
) -> Callable[[_State], _State]:
    """One look at what is left: Lanczos there, and Rayleigh–Ritz if it finds what was missed."""

    def look(state: _State) -> _State:
        before = (state.values, state.vectors, state.images)
        values, vectors, images = before
        k, size = vectors.shape
        key_now = jax.random.fold_in(key, state.round)
        rest = ritz(apply, vectors[0], num_steps, key_now, outside=vectors)
        other = rest.values
        norm = jnp.maximum(state.norm, jnp.abs(other).max())
        # A last pair that has not converged is not worth a merger: its bound says so already.
        residual = jnp.linalg.norm(images[-1] - values[-1] * vectors[-1])
        tolerance = residual + 32 * jnp.finfo(values.dtype).eps * norm
        missed = rank(other, which).max() > rank(values, which)[-1] + tolerance

        def merged() -> tuple[Array, Array, Array]:
            directions = rest.vectors(jnp.arange(len(other)))
            cross = images @ directions.T
            small = jnp.block([[vectors @ images.T, cross], [cross.T, jnp.diag(other)]])
            found, combinations = jnp.linalg.eigh(small)
            chosen = foremost(k, which, found)
            axes = combinations.T[chosen] @ jnp.concatenate([vectors, directions])
            return found[chosen], axes, jax.lax.map(apply, axes)

        after = jax.lax.cond(missed, merged, lambda: before)
        left = _limit(other, which, _epsilon(size - k, num_steps, risk))
        return _State(state.round + 1, after[0], after[1], after[2], left, norm, missed)

    return look


def _epsilon(size: int, num_steps: int, risk: float) -> float:
    """What share of its spread an extreme eigenvalue may be off; none if all steps were taken."""
    if num_steps >= size:
        return 0.0
    return (math.log(1.648 * math.sqrt(size) / (risk / 2)) / (2 * num_steps - 1)) ** 2


def _limit(values: Float[Array, " n"], which: Which, epsilon: float) -> Float[Array, ""]:
    """An upper limit of the rank of all eigenvalues, from Lanczos' values in rising order."""
    if epsilon >= 0.5:
        return jnp.array(jnp.inf, values.dtype)
    low, high = values[0], values[-1]
    margin = epsilon * (high - low) / (1 - 2 * epsilon)
    return jnp.max(rank(jnp.stack([low - margin, high + margin]), which))


def _bounds(
    ranks: Float[Array, " k"], residuals: Float[Array, " k"], left: Float[Array, ""]
) -> Float[Array, " k"]:
    """Weyl's bound of each pair i: the best over j ≥ i, where pairs after j count as left.

    With residuals R₁ of the first j and R₂ of the others, what is left has at most the rank
    max(θⱼ₊₁, left) + ‖R₂‖, and the bound is ‖R₁‖ plus what that exceeds θᵢ by.
    """
    head = jnp.sqrt(jnp.cumsum(residuals**2))
    tail = jnp.sqrt(jnp.cumsum(residuals[::-1] ** 2)[::-1])
    after = jnp.append(jnp.maximum(ranks[1:], left) + tail[1:], left)
    excess = jnp.maximum(after[None, :] - ranks[:, None], 0.0)
    allowed = jnp.tri(len(ranks), dtype=bool).T  # j ≥ i
    return jnp.min(jnp.where(allowed, head[None, :] + excess, jnp.inf), axis=1)


def _check(k: int, num_steps: int, size: int, num_checks: int | None, risk: float) -> None:
    if not 1 <= k <= min(num_steps, size):
        raise ValueError(
            f"k must be between 1 and num_steps = {num_steps} and size = {size}, got {k}."
        )
    if num_checks is not None and num_checks < 1:
        raise ValueError(f"num_checks must be at least 1, got {num_checks}.")
    if not 0 < risk < 1:
        raise ValueError(f"risk must be in (0, 1), got {risk}.")
