"""The exact risk of linear attention on linear regression, and its best matrix of every rank.

With Γ = (1 + 1/N)Λ + (tr Λ + σ²)/N · I and the one matrix A = uU of the reduced form:

    L(A) = ½ tr[ΓΛ AΛAᵀ] − tr[Λ²A] + ½ tr Λ          over tasks w ~ N(0, I), prompts of N
         = L* + ½‖Γ^{1/2}(Λ^{1/2}AΛ^{1/2} − ΛΓ⁻¹)‖²_F,   L* = ½ tr Λ − ½ tr[Λ²Γ⁻¹] at A = Γ⁻¹

    A_r = Q diag(v₁, …, v_r, 0, …)Qᵀ,   v_i = N / ((N + 1)λ_i + tr Λ + σ²),   Λ = Q diag(λ)Qᵀ

is the best A of rank r: it keeps the r largest eigenvalues. (σ² of the labels in pre-training is 0
in the source.) For one task w, M examples and label noise σ at evaluation, without the ½,

    R(A; w) = (1 + 1/M) wᵀΛBΛw + (1/M)(wᵀΛw + σ²) tr(BΛ) − 2 wᵀΛAΛw + wᵀΛw,   B = AΛAᵀ

(where each label is turned round with probability p, 1 + 1/M becomes 2/M + (1 − 1/M)(1 − 2p)² and
2 becomes 2(1 − 2p)); and for A_r, where V = diag(v), D = diag(λ), Qᵀw = s + ξ with s on the first r
coordinates,

    R = (1/M)‖s‖²_{V²D³} + (1/M)(‖s + ξ‖²_D + σ²) tr(V²D²) + ‖ξ‖²_D + Σ_{i≤r} s_i²λ_i(λ_iv_i − 1)²

Where w has nothing beyond r, a larger rank r′ only adds
(1/M)(‖s‖²_D + σ²) Σ_{r<i≤r′} (λ_iv_i)²: it is worse, by what noise does in useless directions.
(The source's Lemma D.2 prints 2Λwᵀ wΛ for 2ΛwwᵀΛ.)

Source: shi · icl-linreg · Lemma 5.1; shi · rank-r-optimum · Theorem 5.4.1; shi · rank-behaviour ·
Theorems 5.4.2, 5.4.3.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Scalar


def gamma(
    covariance: Float[Array, "d d"], num_examples: Scalar, noise: Scalar = 0.0
) -> Float[Array, "d d"]:
    """Γ = (1 + 1/N)Λ + (tr Λ + σ²)/N · I, with ΓΛ + … = E[XᵀX XᵀX]/N².

    Example:
        >>> gamma(jnp.eye(2), num_examples=4).tolist()
        [[1.75, 0.0], [0.0, 1.75]]
    """
    n = num_examples
    identity = jnp.eye(len(covariance))
    return (1 + 1 / n) * covariance + (jnp.trace(covariance) + noise**2) / n * identity


def population_loss(
    matrix: Float[Array, "d d"],
    covariance: Float[Array, "d d"],
    num_examples: Scalar,
    noise: Scalar = 0.0,
) -> Float[Array, ""]:
    """L(A) = ½E(ŷ − ⟨w, x_q⟩)² over tasks, prompts of N examples and queries.

    Args:
        matrix: A = uU.
        covariance: Λ.
        num_examples: N.
        noise: The standard deviation σ of the examples' labels.

    Example:
        >>> float(population_loss(jnp.zeros((2, 2)), jnp.eye(2), num_examples=5))
        1.0
    """
    cov = covariance
    quadratic = jnp.trace(gamma(cov, num_examples, noise) @ cov @ matrix @ cov @ matrix.T)
    return 0.5 * quadratic - jnp.trace(cov @ cov @ matrix) + 0.5 * jnp.trace(cov)


def shrinkage(
    spectrum: Float[Array, " d"], num_examples: Scalar, noise: Scalar = 0.0
) -> Float[Array, " d"]:
    """v_i = N/((N + 1)λ_i + tr Λ + σ²), the eigenvalues of Γ⁻¹.

    Example:
        >>> shrinkage(jnp.array([1.0, 1.0]), num_examples=3).tolist()  # 3/(4 + 2)
        [0.5, 0.5]
    """
    n = num_examples
    return n / ((n + 1) * spectrum + spectrum.sum() + noise**2)


def optimal_matrix(
    covariance: Float[Array, "d d"], num_examples: Scalar, rank: int, noise: Scalar = 0.0
) -> Float[Array, "d d"]:
    """A_r = Q diag(v₁ … v_r, 0 …)Qᵀ, the matrix of rank r with the least loss.

    Where λ_r = λ_{r+1}, it is one of several.

    Example:
        >>> optimal_matrix(jnp.diag(jnp.array([2.0, 1.0])), num_examples=5, rank=1)[0].tolist()
        [0.3333333333333333, 0.0]
    """
    check_rank(rank, len(covariance))
    values, vectors = jnp.linalg.eigh(covariance)  # ascending
    kept = jnp.arange(len(values)) >= len(values) - rank
    return (vectors * (kept * shrinkage(values, num_examples, noise))[None, :]) @ vectors.T


def optimal_loss(
    covariance: Float[Array, "d d"], num_examples: Scalar, rank: int, noise: Scalar = 0.0
) -> Float[Array, ""]:
    """L(A_r) = ½ tr Λ − ½ Σ_{i≤r} λ_i²v_i.

    Example:
        >>> losses = [optimal_loss(jnp.eye(2), num_examples=4, rank=rank) for rank in (0, 1, 2)]
        >>> [round(float(loss), 3) for loss in losses]
        [1.0, 0.714, 0.429]
    """
    check_rank(rank, len(covariance))
    values = jnp.linalg.eigvalsh(covariance)[::-1]
    gains = values**2 * shrinkage(values, num_examples, noise)
    return 0.5 * values.sum() - 0.5 * gains[:rank].sum()


def task_risk(
    matrix: Float[Array, "d d"],
    weights: Float[Array, " d"],
    covariance: Float[Array, "d d"],
    num_examples: Scalar,
    noise: Scalar = 0.0,
    flipped: Scalar = 0.0,
) -> Float[Array, ""]:
    """R(A; w) = E(ŷ − ⟨w, x_q⟩)² over prompts of M examples of one task, for any matrix A.

    Args:
        matrix: A.
        weights: w.
        covariance: Λ.
        num_examples: M; infinite is allowed.
        noise: σ.
        flipped: p, with which an example's label is turned round; the query's never is.

    Example:
        >>> matrix, w = jnp.eye(2), jnp.array([1.0, 0.0])
        >>> float(task_risk(matrix, w, jnp.eye(2), num_examples=4, noise=1.0))  # 1.25 + 1 − 2 + 1
        1.25
    """
    m, cov, kept = num_examples, covariance, 1 - 2 * flipped
    read = cov @ weights  # Λw
    spread = matrix @ cov @ matrix.T  # B
    explained = (2 / m + (1 - 1 / m) * kept**2) * read @ spread @ read
    power = weights @ read
    return (
        explained
        + (power + noise**2) * jnp.trace(spread @ cov) / m
        + power
        - 2 * kept * read @ matrix @ read
    )


def rank_risk(
    spectrum: Float[Array, " d"],
    weights: Float[Array, " d"],
    rank: int,
    pretraining_examples: Scalar,
    num_examples: Scalar,
    noise: Scalar = 0.0,
) -> Float[Array, ""]:
    """R(A_r; w) as the theorem has it, in the eigenbasis of Λ.

    Args:
        spectrum: λ₁ ≥ … ≥ λ_d.
        weights: Qᵀw = s + ξ.
        rank: r.
        pretraining_examples: N.
        num_examples: M.
        noise: σ at evaluation.

    Example:
        >>> spectrum, w = jnp.array([1.0, 0.5]), jnp.array([1.0, 0.0])
        >>> risks = [rank_risk(spectrum, w, rank, 20, num_examples=8, noise=1.0) for rank in (1, 2)]
        >>> bool(risks[0] < risks[1])  # the second direction adds noise alone
        True
    """
    kept, v = _kept(spectrum, rank, pretraining_examples)
    m, power = num_examples, weights**2 * spectrum
    inside = (power * (v * spectrum) ** 2).sum() / m
    spread = (power.sum() + noise**2) * ((v * spectrum) ** 2).sum() / m
    missing = jnp.where(kept, 0.0, power).sum()
    return inside + spread + missing + jnp.where(kept, power * (spectrum * v - 1) ** 2, 0.0).sum()


def approximate_rank_risk(
    spectrum: Float[Array, " d"],
    weights: Float[Array, " d"],
    rank: int,
    num_examples: Scalar,
    noise: Scalar = 0.0,
) -> Float[Array, ""]:
    """‖ξ‖²_D + (1/M)((r + 1)‖s‖²_D + r‖ξ‖²_D + rσ²), where Nλ_r is far above tr Λ.

    Example:
        >>> spectrum, w = jnp.array([1.0, 0.5]), jnp.array([1.0, 0.0])
        >>> float(approximate_rank_risk(spectrum, w, rank=1, num_examples=8, noise=1.0))
        0.375
    """
    check_rank(rank, len(spectrum))
    power = weights**2 * spectrum
    inside, missing = power[:rank].sum(), power[rank:].sum()
    return missing + ((rank + 1) * inside + rank * missing + rank * noise**2) / num_examples


def rank_gap(
    spectrum: Float[Array, " d"],
    weights: Float[Array, " d"],
    ranks: tuple[int, int],
    pretraining_examples: Scalar,
    num_examples: Scalar,
    noise: Scalar = 0.0,
) -> Float[Array, ""]:
    """R(A_r′; w) − R(A_r; w) = (1/M)(‖s‖²_D + σ²) Σ_{r<i≤r′} (λ_iv_i)², for w within the first r.

    Args:
        spectrum: λ₁ ≥ … ≥ λ_d.
        weights: Qᵀw, of which only the first r coordinates are read.
        ranks: r ≤ r′.
        pretraining_examples: N.
        num_examples: M.
        noise: σ at evaluation.

    Example:
        >>> spectrum, w = jnp.array([1.0, 0.5]), jnp.array([1.0, 0.0])
        >>> round(float(rank_gap(spectrum, w, (1, 2), 20, num_examples=8, noise=1.0)), 3)
        0.174
    """
    small, large = ranks
    if small > large:
        raise ValueError(f"ranks must not fall, got {ranks}.")
    check_rank(large, len(spectrum))
    read = spectrum * shrinkage(spectrum, pretraining_examples)
    power = (weights**2 * spectrum)[:small].sum()
    return (power + noise**2) * (read[small:large] ** 2).sum() / num_examples


def check_rank(rank: int, dimension: int) -> None:
    """Refuse ranks that a matrix of this dimension has not.

    Example:
        >>> check_rank(4, dimension=3)
        Traceback (most recent call last):
        ValueError: rank must be between 0 and the dimension 3, got 4.
    """
    if not 0 <= rank <= dimension:
        raise ValueError(f"rank must be between 0 and the dimension {dimension}, got {rank}.")


def _kept(
    spectrum: Float[Array, " d"], rank: int, pretraining_examples: Scalar
) -> tuple[Array, Float[Array, " d"]]:
    """Which directions A_r keeps, and the v of them, 0 elsewhere."""
    check_rank(rank, len(spectrum))
    kept = jnp.arange(len(spectrum)) < rank
    return kept, jnp.where(kept, shrinkage(spectrum, pretraining_examples), 0.0)
