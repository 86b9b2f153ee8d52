import jax
import numpy as np
import pytest
from scipy import stats

from theorylab.numerics import (
    Interval,
    bootstrap_bca,
    bootstrap_percentile,
    clopper_pearson,
    hall,
    sign_interval,
    student,
)
from theorylab.numerics.intervals import sign_coverage, sign_rank

KEY = jax.random.key(0)
SAMPLES = np.random.default_rng(0).gamma(2.0, size=25)
EXPERIMENTS = 4000


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_student_is_the_interval_of_the_t_test(confidence):
    """Oracle: scipy's one-sample t-test."""
    expected = stats.ttest_1samp(SAMPLES, 0.0).confidence_interval(confidence)
    interval = student(SAMPLES, confidence)
    np.testing.assert_allclose(interval[1:], (expected.low, expected.high), rtol=1e-12)
    np.testing.assert_allclose(interval.estimate, SAMPLES.mean(), rtol=1e-12)


@pytest.mark.parametrize("confidence", [0.9, 0.99])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_ends_of_hall_are_where_the_transformed_statistic_is_student_s_quantile(
    confidence, sign
):
    """Oracle: Hall's polynomial, evaluated at the ends instead of inverted."""
    x = sign * SAMPLES
    n, gamma = len(x), float(stats.skew(x)) * ((len(x) - 1) / len(x)) ** 1.5  # s has n - 1
    t = stats.t.ppf((1 + confidence) / 2, n - 1)
    interval = hall(x, confidence)
    u = (x.mean() - np.array([interval.low, interval.high])) / x.std(ddof=1)
    transformed = np.sqrt(n) * (u + gamma * u**2 / 3 + gamma**2 * u**3 / 27 + gamma / (6 * n))
    np.testing.assert_allclose(transformed, [t, -t], rtol=1e-10)


def test_hall_is_student_where_there_is_no_skewness():
    symmetric = np.concatenate([SAMPLES, -SAMPLES])
    np.testing.assert_allclose(hall(symmetric), student(symmetric), rtol=1e-10, atol=1e-12)


def test_the_sign_interval_covers_by_counting_all_sign_patterns():
    """Oracle: brute force over the 2ⁿ ways in which n samples fall beside the median."""
    for n in range(1, 13):
        above = np.array([bin(pattern).count("1") for pattern in range(2**n)])
        rank = sign_rank(n)
        missed = np.mean((above < rank) | (above > n - rank))
        assert missed <= 0.05 or rank == 0
        more = rank + 1
        if more <= n // 2:
            assert np.mean((above < more) | (above > n - more)) > 0.05
        assert sign_coverage(n) == pytest.approx(1 - missed, abs=1e-12)


def test_the_sign_interval_consists_of_samples_and_needs_six():
    values = np.array([5.0, 1.0, 4.0, 2.0, 3.0, 6.0])
    assert sign_interval(values) == Interval(3.5, 1.0, 6.0)
    assert sign_interval(values[:5]) == Interval(3.0, -np.inf, np.inf)


@pytest.mark.parametrize("law", ["normal", "cauchy", "ties"])
def test_the_sign_interval_covers_the_median_in_simulations(law):
    """Oracle: simulated experiments; the coverage is exact for continuous laws."""
    rng = np.random.default_rng(1)
    draw = {
        "normal": lambda: rng.standard_normal((EXPERIMENTS, 10)),
        "cauchy": lambda: rng.standard_cauchy((EXPERIMENTS, 10)),
        "ties": lambda: rng.integers(-1, 2, (EXPERIMENTS, 10)).astype(float),
    }[law]()
    found = [sign_interval(samples) for samples in draw]
    coverage = np.mean([interval.low <= 0 <= interval.high for interval in found])
    error = np.sqrt(0.05 * 0.95 / EXPERIMENTS)
    assert coverage >= 0.95 - 3 * error
    if law != "ties":
        assert abs(coverage - sign_coverage(10)) < 3 * error


@pytest.mark.parametrize(("successes", "trials"), [(0, 7), (7, 7), (3, 10), (50, 1000)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_clopper_pearson_is_scipy_s_exact_interval(successes, trials, confidence):
    expected = stats.binomtest(successes, trials).proportion_ci(confidence, method="exact")
    interval = clopper_pearson(successes, trials, confidence)
    np.testing.assert_allclose(interval[1:], (expected.low, expected.high), atol=1e-9)
    assert interval.estimate == successes / trials


@pytest.mark.parametrize("probability", [0.03, 0.5, 0.8])
def test_clopper_pearson_covers_at_every_probability(probability):
    """Oracle: the binomial law, summed over all outcomes."""
    n = 30
    found = [clopper_pearson(successes, n) for successes in range(n + 1)]
    inside = [interval.low <= probability <= interval.high for interval in found]
    assert stats.binom.pmf(np.arange(n + 1), n, probability)[inside].sum() >= 0.95


def test_bootstraps_approach_the_interval_of_a_gaussian_mean():
    """Oracle: x̄ ± z s₀/√n, s₀ with n; both bootstraps agree with it to O(1/n) for the mean."""
    samples = np.random.default_rng(2).standard_normal(400)
    margin = stats.norm.ppf(0.975) * samples.std() / np.sqrt(len(samples))
    expected = (samples.mean() - margin, samples.mean() + margin)
    for bootstrap in (bootstrap_percentile, bootstrap_bca):
        interval = bootstrap(samples, np.mean, KEY)
        np.testing.assert_allclose(interval[1:], expected, atol=0.06 * margin)
        assert interval.estimate == samples.mean()


def test_bca_moves_the_percentiles_towards_the_tail_of_a_skewed_law():
    """Efron: for a right-skewed mean both corrections push the interval to the right."""
    plain = bootstrap_percentile(SAMPLES, np.mean, KEY)
    corrected = bootstrap_bca(SAMPLES, np.mean, KEY)
    assert corrected.low > plain.low
    assert corrected.high > plain.high


def test_bootstraps_are_decided_by_their_key():
    first = bootstrap_bca(SAMPLES, np.median, KEY, num_resamples=200)
    assert first == bootstrap_bca(SAMPLES, np.median, KEY, num_resamples=200)
    other = bootstrap_percentile(SAMPLES, np.mean, jax.random.key(1), num_resamples=200)
    assert other != bootstrap_percentile(SAMPLES, np.mean, KEY, num_resamples=200)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_leaves_nothing_known(bad):
    samples = np.append(SAMPLES, bad)
    found = [student(samples), hall(samples), sign_interval(samples)]
    found += [
        bootstrap(samples, np.mean, KEY) for bootstrap in (bootstrap_percentile, bootstrap_bca)
    ]
    assert np.isnan(np.array(found)).all()


def test_constant_samples():
    equal = np.full(10, 2.0)
    assert student(equal) == sign_interval(equal) == Interval(2.0, 2.0, 2.0)
    assert bootstrap_bca(equal, np.mean, KEY) == Interval(2.0, 2.0, 2.0)
    assert hall(equal) == Interval(2.0, -np.inf, np.inf)


def test_numbers_too_large_to_be_squared_raise_no_warning():
    huge = np.linspace(1e200, 1e307, 40)
    assert not np.isfinite(student(huge).high)
    assert not np.isfinite(hall(huge).high)
    assert sign_interval(huge).low >= 1e200


def test_jax_arrays_are_welcome():
    assert student(jax.numpy.asarray(SAMPLES)) == student(SAMPLES)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.5, np.nan])
def test_confidence_must_be_a_probability(confidence):
    for interval in (student, hall, sign_interval):
        with pytest.raises(ValueError, match="confidence must be in"):
            interval(SAMPLES, confidence)
    with pytest.raises(ValueError, match="confidence must be in"):
        clopper_pearson(1, 2, confidence)


def test_empty_samples_and_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="at least 1 number"):
        student(np.array([]))
    with pytest.raises(ValueError, match="at least 2 samples, got 1"):
        bootstrap_bca(np.array([1.0]), np.mean, KEY)
    for successes, trials in [(-1, 3), (4, 3), (0, 0)]:
        with pytest.raises(ValueError, match="successes must be between 0 and trials"):
            clopper_pearson(successes, trials)
