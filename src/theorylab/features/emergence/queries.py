"""Statistical queries: what cannot be learned from averages if inputs have no structure.

A query is a function q(x, y) ∈ [−1, 1]; an oracle answers E q(x, y) within the tolerance τ. Every
coordinate of every gradient is a query, with τ about 1/√n on n samples. Concepts c₁ … c_d have the
dimension d if all |E cᵢcⱼ| ≤ 1/d³. The parities of fair signs have E cᵢcⱼ = 0, so d = C(D, k), and
whoever errs on less than ½ − 1/d³ asks

    queries or 1/τ  ≥  d^⅓/2

Why: with q = q₀(x) + y q₁(x), the answer is E q₀ + c_A, c_A = E[χ_A q₁], and Σ_A c_A² ≤ 1. So a
query tells at most 1/τ² sets A from all others; a stubborn oracle answers E q₀ for the rest, and it
takes dτ² queries to find A. (The theorem's number is small: a network of some hundred neurons asks
far more, so that the bound does not explain why it fails without structure at D = 100, k = 5.)

The source's concepts are 1[Σⱼ (1 − φ̃ⱼ) odd], over all patterns j. To be ∏_A z, the sum is over A,
and even, and the values are ±1: `printed_concept` and `concept`.

Source: shi · sq-bound · Theorems 2.4, A.25–A.27.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theorylab.typing import RandomKey, Scalar

from .lower_bounds import num_parities

Answerer = Callable[[Float[Array, "n q"]], Float[Array, " q"]]  # queries at samples ─► answers


class Queries(NamedTuple):
    """What a learner asks: how often, and how precisely."""

    count: float
    precision: float  # 1/τ

    def allowed(self, bound: float) -> bool:
        """Whether a lower bound on queries or precision lets such a learner succeed."""
        return max(self.count, self.precision) >= bound


def query_bound(num_patterns: int, num_relevant: int) -> float:
    """d^⅓/2 with d = C(D, k): the least queries, or 1/τ, to find a parity of fair signs.

    Example:
        >>> round(query_bound(num_patterns=100, num_relevant=5))
        211
    """
    return num_parities(num_patterns, num_relevant) ** (1 / 3) / 2


def gradient_queries(num_parameters: int, num_steps: int, num_samples: int) -> Queries:
    """Descent as queries: every parameter in every step, answered within about 1/√n.

    Args:
        num_parameters: p.
        num_steps: T.
        num_samples: n in every step.

    Example:
        >>> gradient_queries(num_parameters=100, num_steps=10, num_samples=2500)
        Queries(count=1000.0, precision=50.0)
    """
    if min(num_parameters, num_steps, num_samples) < 1:
        raise ValueError(
            "num_parameters, num_steps and num_samples must be at least 1, "
            f"got {num_parameters}, {num_steps} and {num_samples}."
        )
    return Queries(float(num_parameters) * num_steps, float(num_samples) ** 0.5)


def largest_correlation(concepts: Float[Array, "points c"]) -> Float[Array, ""]:
    """Max |E cᵢcⱼ| over different concepts, for points that are equally likely.

    Args:
        concepts: Values ±1, one column for each concept.

    Example:
        >>> float(largest_correlation(jnp.array([[1.0, 1.0], [1.0, -1.0]])))
        0.0
    """
    products = jnp.abs(concepts.T @ concepts) / len(concepts)
    return jnp.max(products * (1 - jnp.eye(len(products), dtype=products.dtype)))


def distinguished(coefficients: Float[Array, "parities q"], tolerance: Scalar) -> Int[Array, " q"]:
    """How many parities each query tells from all others: |c_A| > τ. At most 1/τ².

    Args:
        coefficients: c_A = E[χ_A q₁], such as rows of `parity_coefficients`.
        tolerance: τ.

    Example:
        >>> distinguished(jnp.array([[0.5, 0.0], [0.1, 0.9]]), tolerance=0.2).tolist()
        [1, 1]
    """
    return jnp.sum(jnp.abs(coefficients) > tolerance, axis=0)


def sampling_oracle(key: RandomKey, tolerance: float, chances: Float[Array, " n"]) -> Answerer:
    """An oracle that answers with means over 1/τ² inputs, drawn once for all queries.

    Args:
        key: Draws them.
        tolerance: τ, the deviation of errors for queries of variance 1; larger ones happen.
        chances: The probability of every input, at which queries are given.

    Example:
        >>> oracle = sampling_oracle(jax.random.key(0), 0.1, jnp.array([0.5, 0.5]))
        >>> bool(jnp.abs(oracle(jnp.array([[1.0], [-1.0]]))[0]) < 0.4)
        True
    """
    _check_tolerance(tolerance)
    count = round(1 / tolerance**2)
    drawn = jax.random.choice(key, chances.shape[0], (count,), p=chances)
    return lambda queries: queries[drawn].mean(axis=0)


def stubborn_oracle(without_labels: Float[Array, " q"], tolerance: float) -> Answerer:
    """An oracle that says E q₀, what is true without labels, whenever that is within τ.

    Args:
        without_labels: E q₀ of every query.
        tolerance: τ.

    Example:
        >>> oracle = stubborn_oracle(jnp.zeros(2), tolerance=0.1)
        >>> oracle(jnp.array([[0.05, 1.0], [0.05, 0.0]])).tolist()
        [0.0, 0.5]
    """
    _check_tolerance(tolerance)

    def answer(queries: Float[Array, "n q"]) -> Float[Array, " q"]:
        true = queries.mean(axis=0)
        return jnp.where(jnp.abs(true - without_labels) <= tolerance, without_labels, true)

    return answer


def parity_found(
    answers: Float[Array, " d"], relevant: Int[Array, " k"], threshold: Scalar = 0.25
) -> Bool[Array, ""]:
    """Whether the answers to E[y zⱼ] are large exactly in A.

    In the parity mixture at p_o = ½ they are ½ in A and 0 outside; on fair signs 0 everywhere.

    Args:
        answers: Of an oracle, for every sign zⱼ.
        relevant: A, as places.
        threshold: What is large.

    Example:
        >>> bool(parity_found(jnp.array([0.5, 0.5, 0.0]), relevant=jnp.array([0, 1])))
        True
    """
    inside = jnp.zeros(answers.shape, bool).at[relevant].set(True)
    return jnp.all((answers > threshold) == inside)


def concept(present: Bool[Array, "n d"], relevant: Int[Array, " k"]) -> Float[Array, " n"]:
    """∏_A z, for z = ±1 as patterns are present or not: +1 if an even number in A is missing.

    Example:
        >>> concept(jnp.array([[True, False, True]]), relevant=jnp.array([0, 1])).tolist()
        [-1.0]
    """
    return 1.0 - 2.0 * ((~present[:, relevant]).sum(axis=1) % 2)


def printed_concept(present: Bool[Array, "n d"]) -> Float[Array, " n"]:
    """1[Σⱼ (1 − φ̃ⱼ) odd], as it is printed: of all patterns, odd, and in {0, 1}.

    Example:
        >>> printed_concept(jnp.array([[True, False, True]])).tolist()
        [1.0]
    """
    return 1.0 * ((~present).sum(axis=1) % 2)


def _check_tolerance(tolerance: float) -> None:
    if not 1e-4 <= tolerance < 1:
        raise ValueError(f"tolerance must be in [0.0001, 1), got {tolerance}.")
