import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from theorylab.claims import (
    Verdict,
    at_least,
    at_most,
    between,
    exponent_between,
    holds,
    identity,
    mean_between,
    median_at_least,
    median_at_most,
    median_between,
    ordered,
    probability_at_least,
    probability_at_most,
    probability_between,
    trend,
)

SUPPORTED, REFUTED, INCONCLUSIVE = Verdict.SUPPORTED, Verdict.REFUTED, Verdict.INCONCLUSIVE
WIDTHS = 2.0 ** np.arange(4, 9)
NOISE = np.random.default_rng(0).standard_normal((40, 5)) / 50

# For each judge an array that it supports, to be spoilt.
JUDGES = {
    "at_most": (np.array([1.0]), lambda x: at_most(x[0], 2.0)),
    "at_least": (np.array([1.0]), lambda x: at_least(x[0], 0.0)),
    "between": (np.array([1.0]), lambda x: between(x[0], 0.0, 2.0)),
    "identity, measured": (np.ones(4), lambda x: identity(x, np.ones(4), 1e-12)),
    "identity, expected": (np.ones(4), lambda x: identity(np.ones(4), x, 1e-12)),
    "identity, both": (np.ones(4), lambda x: identity(x, x, 1e-12)),
    "holds": (np.arange(4.0), holds),
    "median_at_most": (np.arange(10.0), lambda x: median_at_most(x, 20.0)),
    "median_at_least": (np.arange(10.0), lambda x: median_at_least(x, -20.0)),
    "median_between": (np.arange(10.0), lambda x: median_between(x, -20.0, 20.0)),
    "mean_between": (np.arange(30.0), lambda x: mean_between(x, -40.0, 60.0)),
    "exponent_between": (
        np.ravel(WIDTHS**-0.5 * np.exp(NOISE[:10])),
        lambda x: exponent_between(WIDTHS, x.reshape(10, 5), -0.6, -0.4),
    ),
    "ordered, smaller": (np.arange(10.0), lambda x: ordered(x, np.full(10, 20.0))),
    "ordered, larger": (np.arange(10.0), lambda x: ordered(np.full(10, -20.0), x)),
    "ordered, both": (np.arange(20.0), lambda x: ordered(x[:10], x[10:])),
    "trend": (np.arange(30.0), lambda x: trend(x.reshape(3, 10))),
}


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_supports_what_is_comfortably_so_in_numpy_and_in_jax(name):
    values, judge = JUDGES[name]
    assert judge(values).verdict == SUPPORTED
    assert judge(jnp.asarray(values)).verdict == SUPPORTED


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", JUDGES)
def test_one_number_that_is_not_finite_is_inconclusive(name, bad):
    values, judge = JUDGES[name]
    for place in {0, len(values) - 1}:
        spoilt = values.copy()
        spoilt[place] = bad
        finding = judge(spoilt)
        assert finding.verdict == INCONCLUSIVE
        assert "not finite" in finding.method
        assert np.isnan([finding.measured, finding.low, finding.high]).all()


@pytest.mark.parametrize("name", JUDGES)
def test_all_numbers_diverged_is_inconclusive(name):
    values, judge = JUDGES[name]
    for bad in (np.nan, np.inf, -np.inf):
        assert judge(np.full_like(values, bad)).verdict == INCONCLUSIVE


@pytest.mark.parametrize("bound", [np.nan, np.inf])
def test_a_bound_that_is_not_finite_is_inconclusive(bound):
    samples = np.arange(10.0)
    findings = [
        at_most(1.0, bound),
        at_least(1.0, -bound),
        between(1.0, -bound, bound),
        identity(np.ones(2), np.ones(2), bound),
        holds(np.ones(2), bound),
        median_at_most(samples, bound),
        median_at_least(samples, -bound),
        median_between(samples, -bound, bound),
        mean_between(np.arange(40.0), -bound, bound),
        exponent_between(WIDTHS, np.exp(NOISE), -bound, bound),
        probability_at_most(1, 10, bound),
        probability_at_least(1, 10, -bound),
    ]
    for finding in findings:
        assert finding.verdict == INCONCLUSIVE
        assert finding.method == "what is demanded is not finite"


def test_one_end_may_be_infinite():
    assert between(1.0, 0.0, np.inf).verdict == SUPPORTED
    assert (
        exponent_between(WIDTHS, WIDTHS**-0.5 * np.exp(NOISE), -np.inf, -0.4).verdict == SUPPORTED
    )


def test_numbers_without_noise_are_compared_with_closed_ends():
    for finding, expected in [
        (at_most(2.0, 2.0), SUPPORTED),
        (at_most(np.nextafter(2.0, 3.0), 2.0), REFUTED),
        (at_least(2.0, 2.0), SUPPORTED),
        (at_least(np.nextafter(2.0, 1.0), 2.0), REFUTED),
        (between(2.0, 2.0, 2.0), SUPPORTED),
        (between(1.9, 2.0, 3.0), REFUTED),
        (at_most(jnp.float32(1.0), jnp.asarray(2)), SUPPORTED),
        (at_least(3, 2), SUPPORTED),
    ]:
        assert finding.verdict == expected
        assert finding.method == "exact"
        assert finding.low == finding.high == finding.measured
        assert type(finding.measured) is float


def test_an_identity_is_relative_to_the_largest_expected_number():
    expected = np.array([[1e-8, 4.0], [-8.0, 0.0]])
    measured = expected + np.array([[0.0, 4e-12], [0.0, -8e-12]])
    finding = identity(measured, expected, 2e-12)
    assert finding.measured == pytest.approx(1e-12, rel=1e-3)
    assert finding.verdict == SUPPORTED
    assert identity(measured, expected, 0.5e-12).verdict == REFUTED


def test_an_identity_with_zero_is_absolute():
    assert identity(np.array([1e-13]), np.zeros(1), 1e-12).measured == 1e-13
    assert identity(1e-13, 0.0, 1e-14).verdict == REFUTED
    assert identity(np.zeros(3), np.zeros(3), 0.0).verdict == SUPPORTED


def test_an_identity_compares_equal_shapes_and_something():
    with pytest.raises(ValueError, match=r"two equal shapes, got \(3,\) and \(1,\)"):
        identity(np.ones(3), np.ones(1), 1e-12)
    assert identity(np.ones(0), np.ones(0), 1e-12).verdict == INCONCLUSIVE


def test_an_overflow_in_a_difference_is_inconclusive():
    huge = np.array([1.7e308])
    assert identity(huge, -huge, 1e-12).verdict == INCONCLUSIVE
    assert ordered(np.full(8, -1.7e308), np.full(8, 1.7e308)).verdict == INCONCLUSIVE


def test_margins_hold_up_to_rounding():
    margins = np.array([[0.3, -1e-14], [2.0, 5.0]])
    assert holds(margins).verdict == REFUTED
    assert holds(margins, rounding=1e-12).verdict == SUPPORTED
    assert holds(margins).measured == -1e-14
    assert holds(np.array([])).method == "nothing was measured"


@pytest.mark.parametrize("seeds", [0, 1, 5])
def test_a_median_needs_six_seeds(seeds):
    """Oracle: five samples lie all on one side of the median in 1 of 16 experiments."""
    finding = median_between(np.ones(seeds), 0.0, 2.0)
    assert finding.verdict == INCONCLUSIVE
    assert "at least 6 are needed" in finding.method or seeds == 0
    assert median_between(np.ones(6), 0.0, 2.0).verdict == SUPPORTED


def test_a_mean_needs_thirty_seeds_that_differ():
    samples = np.random.default_rng(1).standard_normal(30)
    assert mean_between(samples, -2.0, 2.0).verdict == SUPPORTED
    assert mean_between(samples, 2.0, 3.0).verdict == REFUTED
    few = mean_between(samples[:29], -2.0, 2.0)
    assert (few.verdict, few.method) == (INCONCLUSIVE, "29 seeds, at least 30 are needed")
    assert few.measured == pytest.approx(samples[:29].mean())
    assert mean_between(np.ones(30), 0.0, 2.0).verdict == INCONCLUSIVE


def test_the_median_judges_read_the_order_statistics():
    """Oracle: of ten samples, the second and the ninth, by the binomial law."""
    samples = np.random.default_rng(2).permutation(10).astype(float)
    assert stats.binom.cdf(1, 10, 0.5) <= 0.025 < stats.binom.cdf(2, 10, 0.5)
    finding = median_at_most(samples, 8.0)
    assert (finding.measured, finding.low, finding.high) == (4.5, 1.0, 8.0)
    assert finding.verdict == SUPPORTED
    assert median_at_most(samples, 7.9).verdict == INCONCLUSIVE
    assert median_at_most(samples, 0.9).verdict == REFUTED
    assert median_at_least(samples, 1.0).verdict == SUPPORTED
    assert median_at_least(samples, 8.1).verdict == REFUTED
    assert median_between(samples, 1.0, 8.0).verdict == SUPPORTED
    assert median_between(samples, 1.0, 7.0).verdict == INCONCLUSIVE


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_an_exponent_needs_positive_curves(bad):
    curves = WIDTHS**-0.5 * np.exp(NOISE)
    curves[3, 2] = bad
    assert exponent_between(WIDTHS, curves, -1.0, 0.0).verdict == INCONCLUSIVE


def test_an_ordering_is_strict_and_has_a_direction():
    small, large = np.arange(10.0), np.arange(10.0) + 0.5
    assert ordered(small, large).verdict == SUPPORTED
    assert ordered(large, small).verdict == REFUTED
    assert ordered(small, small).verdict == INCONCLUSIVE
    assert ordered(small, large).measured == 0.5
    mostly_equal = small + np.array([0.0] * 3 + [1.0] * 7)
    assert ordered(small, mostly_equal).verdict == INCONCLUSIVE
    assert ordered(small[:5], large[:5]).verdict == INCONCLUSIVE


def test_a_trend_has_a_direction():
    groups = np.random.default_rng(3).standard_normal((4, 10)) + 2 * np.arange(4)[:, None]
    assert trend(groups).verdict == SUPPORTED
    assert trend(groups, increasing=False).verdict == REFUTED
    assert trend(groups[::-1]).verdict == REFUTED
    assert trend(groups[::-1], increasing=False).verdict == SUPPORTED
    assert trend(np.ones((3, 10))).verdict == INCONCLUSIVE
    assert trend(np.ones((3, 0))).method == "nothing was measured"
    with pytest.raises(ValueError, match="a trend needs at least 2 levels, got 1"):
        trend(groups[:1])


@pytest.mark.parametrize(("levels", "fewest"), [(2, 6), (3, 3), (4, 2), (5, 2), (6, 1)])
def test_a_trend_needs_seeds_enough_that_chance_seldom_orders_them_all(levels, fewest):
    """Oracle: (kn)!/n!ᵏ assignments, of which one is in order; 1 of 400 is 0.25 %."""
    perfect = np.arange(levels * fewest, dtype=float).reshape(levels, fewest)
    assert trend(perfect).verdict == SUPPORTED
    if fewest > 1:
        finding = trend(np.arange(levels * (fewest - 1.0)).reshape(levels, fewest - 1))
        assert finding.verdict == INCONCLUSIVE
        assert finding.method == f"{fewest - 1} seeds, at least {fewest} are needed"


def test_probabilities_are_counted():
    assert probability_at_most(0, 100, 0.05).verdict == SUPPORTED
    assert probability_at_most(20, 100, 0.05).verdict == REFUTED
    assert probability_at_most(3, 100, 0.05).verdict == INCONCLUSIVE
    assert probability_at_least(100, 100, 0.95).verdict == SUPPORTED
    assert probability_at_least(jnp.asarray(50), np.int64(100), 0.95).verdict == REFUTED
    assert probability_at_most(1, 10, -0.1).verdict == REFUTED
    assert probability_at_most(50, 100, 0.9).method == "Clopper–Pearson over 100 trials, 95 %"
    with pytest.raises(ValueError, match="successes must be between 0 and trials"):
        probability_at_most(5, 4, 0.5)


def test_a_demand_must_be_a_region():
    with pytest.raises(ValueError, match="low <= high"):
        median_between(np.arange(10.0), 2.0, 1.0)


POWER = {
    "median_at_most": lambda x: median_at_most(x[:10], 2.0),
    "median_at_least": lambda x: median_at_least(x[:10], -2.0),
    "median_between": lambda x: median_between(x[:10], -2.0, 2.0),
    "mean_between": lambda x: mean_between(x[:30], -1.5, 1.5),
    "exponent_between": lambda x: exponent_between(
        WIDTHS, WIDTHS**-0.5 * np.exp(0.2 * x[:50].reshape(10, 5)), -0.7, -0.3
    ),
    "ordered": lambda x: ordered(x[:10], x[10:20] + 3),
    "trend": lambda x: trend(x[:30].reshape(3, 10) + 1.5 * np.arange(3)[:, None]),
}


@pytest.mark.parametrize("name", POWER)
def test_a_judge_concludes_with_ten_seeds_when_the_truth_is_comfortably_inside(name):
    """Oracle: 200 made-up experiments; at least 95 % of them supported (a mean: 30 seeds)."""
    experiments = np.random.default_rng(4).standard_normal((200, 50))
    supported = [POWER[name](x).verdict == SUPPORTED for x in experiments]
    assert np.mean(supported) >= 0.95


def test_a_probability_in_a_range_is_judged_by_its_interval():
    """Oracle: the ends of Clopper and Pearson's interval, [0.9246, 0.9548] for 941 of 1000."""
    assert probability_between(941, 1000, 0.924, 0.955).verdict == SUPPORTED
    assert probability_between(941, 1000, 0.93, 0.97).verdict == INCONCLUSIVE
    assert probability_between(941, 1000, 0.956, 1.0).verdict == REFUTED
    assert probability_between(0, 0, 0.5, 1.0).method == "no trials"
