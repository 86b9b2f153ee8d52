from itertools import combinations, permutations

import jax
import numpy as np
import pytest
from scipy import stats

from theorylab.numerics import jonckheere, ordered_share, permutation_test, sign_test

KEY = jax.random.key(0)
ALTERNATIVES = ["two-sided", "less", "greater"]


def pairs(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(n), rng.standard_normal(n) + 0.7


def count_ordered(groups) -> float:
    """Jonckheere's J by its definition."""
    return sum(
        1.0 if a < b else 0.5 if a == b else 0.0
        for first, second in combinations(groups, 2)
        for a in first
        for b in second
    )


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_the_sign_test_is_binomial_and_ignores_ties(alternative):
    """Oracle: scipy's binomial test on hand-counted signs: 4 up, 1 down, 2 equal."""
    first = np.array([0.0, 0.0, 0.0, 0.0, 5.0, 1.0, 2.0])
    second = np.array([1.0, 2.0, 3.0, 4.0, 0.0, 1.0, 2.0])
    found = sign_test(first, second, alternative)
    assert found.statistic == 4
    assert found.p_value == stats.binomtest(4, 5, 0.5, alternative).pvalue


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_the_permutation_test_is_exact_for_few_pairs(alternative):
    """Oracle: all 2ⁿ swaps, enumerated."""
    first, second = pairs(0, 8)
    difference = second - first
    signs = 1 - 2 * np.array([[(i >> bit) & 1 for bit in range(8)] for i in range(256)])
    means = (signs * difference).mean(axis=1)
    greater = np.mean(means >= difference.mean() - 1e-12)
    less = np.mean(means <= difference.mean() + 1e-12)
    expected = {"greater": greater, "less": less, "two-sided": min(1, 2 * min(greater, less))}
    found = permutation_test(first, second, KEY, alternative)
    assert found.p_value == pytest.approx(expected[alternative], rel=1e-12)
    assert found.statistic == pytest.approx(difference.mean(), rel=1e-12)


def test_the_permutation_test_of_many_pairs_is_near_the_t_test():
    """Oracle: scipy's paired t-test; a p-value of 0.04 by 9,999 flips is known to 0.002."""
    first, second = pairs(7, 60)
    second = second - 0.5
    expected = stats.ttest_rel(second, first).pvalue
    found = permutation_test(first, second, KEY).p_value
    assert 0.01 < expected < 0.1
    assert found == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (4, 2), (2, 4)])
def test_jonckheere_is_exact_without_ties(shape):
    """Oracle: all assignments of the pooled values to the groups."""
    rng = np.random.default_rng(4)
    values = rng.permutation(shape[0] * shape[1]).astype(float)
    arranged = np.array(list(permutations(range(values.size)))).reshape(-1, *shape)
    later = np.triu(np.ones((shape[0], shape[0])), 1)
    below = arranged[:, :, :, None, None] < arranged[:, None, None, :, :]
    law = np.einsum("raibj,ab->r", below, later)
    for groups in (np.sort(values).reshape(shape), values.reshape(shape)):
        statistic = count_ordered(groups)
        found = jonckheere(groups)
        assert found.statistic == statistic
        assert found.p_value == pytest.approx(np.mean(law >= statistic), rel=1e-12)
        less = jonckheere(groups, "less").p_value
        assert less == pytest.approx(np.mean(law <= statistic), rel=1e-12)
        both = jonckheere(groups, "two-sided").p_value
        assert both == pytest.approx(min(1.0, 2 * min(less, found.p_value)), rel=1e-12)


@pytest.mark.parametrize("n", [3, 10])
def test_jonckheere_of_two_groups_is_mann_and_whitney(n):
    """Oracle: scipy's exact Mann–Whitney test."""
    first, second = pairs(5, n)
    expected = stats.mannwhitneyu(second, first, alternative="greater", method="exact")
    found = jonckheere(np.stack([first, second]))
    assert found == pytest.approx((expected.statistic, expected.pvalue), rel=1e-10)


def test_jonckheere_with_ties_in_two_groups_is_mann_and_whitney_s_approximation():
    """Oracle: scipy's Gaussian approximation with its correction for ties."""
    rng = np.random.default_rng(6)
    groups = rng.integers(0, 4, (2, 12)).astype(float)
    expected = stats.mannwhitneyu(
        groups[1], groups[0], alternative="greater", method="asymptotic", use_continuity=False
    )
    assert jonckheere(groups) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-10)


@pytest.mark.parametrize("levels", [3, 5])
def test_the_variance_with_ties_is_that_of_random_assignments(levels):
    """Oracle: J over random assignments of tied values; its moments to 4 standard errors."""
    rng = np.random.default_rng(7)
    groups = rng.integers(0, 3, (levels, 4)).astype(float)
    law = np.array(
        [count_ordered(rng.permutation(groups.ravel()).reshape(groups.shape)) for _ in range(3000)]
    )
    z = -stats.norm.ppf(jonckheere(groups).p_value)
    pairs_of_seeds = levels * (levels - 1) / 2 * 16
    deviation = (count_ordered(groups) - pairs_of_seeds / 2) / z
    assert deviation == pytest.approx(law.std(), rel=4 / np.sqrt(2 * 3000))
    assert law.mean() == pytest.approx(pairs_of_seeds / 2, abs=4 * law.std() / np.sqrt(3000))


def test_large_groups_are_judged_as_by_the_exact_law():
    """Oracle: the exact law at 1,944 pairs against the Gaussian, which a tie switches on."""
    rng = np.random.default_rng(8)
    groups = rng.standard_normal((4, 18)) + 0.15 * np.arange(4)[:, None]
    tied = groups.copy()
    tied[0, 0] = tied[0, 1]
    exact, approximate = jonckheere(groups).p_value, jonckheere(tied).p_value
    assert exact != approximate
    assert approximate == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("shape", [(3, 3), (2, 6), (5, 4)])
@pytest.mark.parametrize("tied", [False, True])
def test_the_share_s_interval_leaves_one_half_out_just_where_the_test_rejects(shape, tied):
    rng = np.random.default_rng(9)
    for slope in np.linspace(-2, 2, 40):
        groups = rng.standard_normal(shape) + slope * np.arange(shape[0])[:, None]
        groups = np.round(groups) if tied else groups
        found = ordered_share(groups, 0.95)
        rejected = jonckheere(groups, "two-sided").p_value <= 0.05
        assert rejected == (not found.low <= 0.5 <= found.high)
        share = count_ordered(groups) / count_ordered(np.arange(groups.size).reshape(shape))
        assert found.estimate == pytest.approx(share, rel=1e-12)
        assert 0 <= found.low <= found.estimate <= found.high <= 1


def test_without_any_difference_nothing_is_known():
    equal = np.ones((3, 6))
    assert jonckheere(equal).p_value == 1.0
    assert ordered_share(equal) == (0.5, 0.0, 1.0)
    assert sign_test(equal[0], equal[1]).p_value == 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_number_that_is_not_finite_has_no_p_value(bad):
    first, second = np.array([0.0, bad]), np.array([1.0, 2.0])
    found = [sign_test(first, second), permutation_test(first, second, KEY)]
    found += [jonckheere(np.stack([first, second]))]
    assert np.isnan(np.array(found)).all()
    assert np.isnan(ordered_share(np.stack([first, second]))).all()


def test_groups_need_two_levels():
    with pytest.raises(ValueError, match=r"at least 2 levels, got \(1, 3\)"):
        jonckheere(np.ones((1, 3)))
    with pytest.raises(ValueError, match="confidence must be in"):
        ordered_share(np.ones((2, 3)), 1.0)
