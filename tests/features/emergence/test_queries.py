"""Statistical queries against enumeration of all parities."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import SparseParity
from theorylab.features.emergence import (
    Queries,
    concept,
    distinguished,
    gradient_queries,
    largest_correlation,
    mixture_chances,
    parity_coefficients,
    parity_found,
    printed_concept,
    query_bound,
    sampling_oracle,
    stubborn_oracle,
)

D, K = 6, 3
POINTS = SparseParity(D, K).points()[0]
SETS = np.array(list(combinations(range(D), K)))
PARITIES = POINTS[:, SETS].prod(axis=2)


def test_parities_are_uncorrelated_and_thresholds_are_not():
    """Oracle: E χ_A χ_B = 0 for A ≠ B; two thresholds agree more often than not."""
    assert largest_correlation(PARITIES) == 0
    thresholds = jnp.stack([jnp.sign(POINTS[:, :3].sum(axis=1)), POINTS[:, 0]], axis=1)
    assert largest_correlation(thresholds) == pytest.approx(0.5)


def test_a_query_tells_few_parities_from_others():
    """Oracle: Parseval, Σ c_A² ≤ 1; a query that is χ_A tells only A, one spread over all nine."""
    spread = PARITIES[:, :9].mean(axis=1)
    queries = jnp.stack([PARITIES[:, 4], spread], axis=1)
    coefficients = parity_coefficients(queries)
    assert distinguished(coefficients, 0.1).tolist() == [1, 9]
    assert distinguished(coefficients, 0.2).tolist() == [1, 0]


def test_the_stubborn_oracle_hides_what_is_within_its_tolerance():
    """Oracle: answers are within τ of the truth, and do not depend on A unless |c_A| > τ."""
    labels = PARITIES[:, :1]
    base = 0.2 * POINTS[:, :1]
    queries = base + labels * jnp.stack([0.05 * PARITIES[:, 0], 0.5 * PARITIES[:, 0]], axis=1)
    answers = stubborn_oracle(jnp.zeros(2), tolerance=0.1)(queries)
    np.testing.assert_allclose(answers, [0.0, 0.5], atol=1e-12)


def test_the_sampling_oracle_errs_by_its_tolerance():
    """Oracle: of 64 queries with variance 1, errors of deviation τ, within 4 standard errors."""
    queries = jnp.asarray(1.0 - 2.0 * np.random.default_rng(0).integers(0, 2, (2**D, 64)))
    queries = queries - queries.mean(axis=0, keepdims=True)
    answers = sampling_oracle(jax.random.key(0), 0.05, jnp.full(2**D, 2.0**-D))(queries)
    spread = float(jnp.sqrt((answers**2).mean() / (queries**2).mean()))
    assert abs(spread / 0.05 - 1) < 4 / np.sqrt(2 * 64)


def test_signs_alone_reveal_the_set_with_structure_and_not_without():
    """Oracle: E[y zⱼ] = ½ in A for the mixture, 0 for fair signs; both summed exactly."""
    relevant = jnp.array([1, 2, 5])
    labels = POINTS[:, relevant].prod(axis=1)
    for probability, inside, found in [(0.5, 0.5, True), (1.0, 0.0, False)]:
        chances = mixture_chances(POINTS, relevant, probability)
        answers = (chances * labels) @ POINTS
        np.testing.assert_allclose(answers, [0, inside, inside, 0, 0, inside], atol=1e-12)
        assert bool(parity_found(answers, relevant)) is found


def test_a_gradient_is_as_many_queries_as_parameters():
    """Oracle: the bound is half the cube root of C(D, k), and two ways to be allowed."""
    assert query_bound(6, 3) == pytest.approx(20 ** (1 / 3) / 2)
    asked = gradient_queries(600 * 102, 600, 50_000)
    assert asked.allowed(query_bound(100, 5))
    assert not Queries(10.0, 10.0).allowed(11.0)
    assert Queries(10.0, 12.0).allowed(11.0)
    assert Queries(12.0, 10.0).allowed(11.0)


def test_the_concept_is_the_product_of_signs_and_what_is_printed_is_not():
    """Oracle: ∏_A z at all 64 points; the printed one has other values and another set."""
    for places in SETS[:3]:
        product = POINTS[:, places].prod(axis=1)
        np.testing.assert_array_equal(concept(POINTS > 0, jnp.asarray(places)), product)
    printed = printed_concept(POINTS > 0)
    assert set(printed.tolist()) == {0.0, 1.0}
    np.testing.assert_array_equal(2 * printed - 1, -POINTS.prod(axis=1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gradient_queries(0, 1, 1), "num_parameters, num_steps and num_samples"),
        (lambda: sampling_oracle(jax.random.key(0), 0.0, jnp.ones(1)), "tolerance must be in"),
        (lambda: query_bound(3, 5), "num_patterns must be in"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
