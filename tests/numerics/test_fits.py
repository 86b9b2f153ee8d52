import numpy as np
import pytest
from scipy import stats

from theorylab.numerics import power_law, power_law_exponents

WIDTHS = 2.0 ** np.arange(4, 11)
UNEVEN = np.array([1.0, 2.0, 3.0, 4.0, 8.0, 64.0, 4096.0])


def test_an_exact_law_is_found_to_rounding():
    found = power_law(WIDTHS, 3 * WIDTHS**-0.5)
    np.testing.assert_allclose(found, (-0.5, 3.0, -0.5, -0.5), rtol=1e-12)
    curves = np.stack([3 * WIDTHS**-0.5, 0.1 * WIDTHS**2])
    np.testing.assert_allclose(power_law_exponents(WIDTHS, curves), [-0.5, 2.0], rtol=1e-12)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_is_that_of_linear_regression(confidence):
    """Oracle: the normal equations and Student's law, written out."""
    rng = np.random.default_rng(0)
    y = 2 * UNEVEN**0.7 * rng.lognormal(0, 0.3, 7)
    design = np.stack([np.ones(7), np.log(UNEVEN)], axis=1)
    (intercept, slope), residual, _, _ = np.linalg.lstsq(design, np.log(y))
    error = np.sqrt(residual[0] / 5 * np.linalg.inv(design.T @ design)[1, 1])
    margin = stats.t.ppf((1 + confidence) / 2, 5) * error
    expected = (slope, np.exp(intercept), slope - margin, slope + margin)
    np.testing.assert_allclose(power_law(UNEVEN, y, confidence), expected, rtol=1e-10)


def test_the_interval_covers_the_exponent_in_simulations():
    rng = np.random.default_rng(1)
    curves = WIDTHS**-0.5 * rng.lognormal(0, 0.5, (1000, len(WIDTHS)))
    found = [power_law(WIDTHS, y) for y in curves]
    missed = np.mean([not fit.low <= -0.5 <= fit.high for fit in found])
    assert abs(missed - 0.05) < 3 * np.sqrt(0.05 * 0.95 / 1000)


def test_each_seed_s_exponent_is_least_squares_on_a_geometric_grid():
    """Oracle: the fit of one curve; the order of the widths does not matter."""
    rng = np.random.default_rng(2)
    curves = rng.lognormal(0, 1, (5, len(WIDTHS)))
    expected = [power_law(WIDTHS, y).exponent for y in curves]
    np.testing.assert_allclose(power_law_exponents(WIDTHS, curves), expected, rtol=1e-10)
    shuffle = rng.permutation(len(WIDTHS))
    shuffled = power_law_exponents(WIDTHS[shuffle], curves[:, shuffle])
    np.testing.assert_allclose(shuffled, expected, rtol=1e-10)


def test_the_median_of_the_exponents_is_right_for_skewed_noise_on_an_uneven_grid():
    """Half of the slopes lie below the exponent; those of least squares do not."""
    rng = np.random.default_rng(3)
    curves = UNEVEN**-0.5 * np.exp(rng.standard_exponential((4000, len(UNEVEN))))
    error = 0.5 / np.sqrt(4000)
    assert abs(np.mean(power_law_exponents(UNEVEN, curves) < -0.5) - 0.5) < 3 * error
    least_squares = np.polynomial.polynomial.polyfit(np.log(UNEVEN), np.log(curves).T, 1)[1]
    assert abs(np.mean(least_squares < -0.5) - 0.5) > 3 * error


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0])
def test_a_curve_that_is_not_positive_and_finite_has_no_exponent(bad):
    y = WIDTHS.copy()
    y[2] = bad
    assert np.isnan(power_law(WIDTHS, y)).all()
    found = power_law_exponents(WIDTHS, np.stack([WIDTHS, y]))
    assert np.isnan(found).tolist() == [False, True]


def test_two_points_fix_a_line_but_not_its_error():
    found = power_law(np.array([1.0, 10.0]), np.array([1.0, 100.0]))
    np.testing.assert_allclose(found, (2.0, 1.0, -np.inf, np.inf), rtol=1e-12)


@pytest.mark.parametrize("x", [[1.0, 1.0], [0.0, 1.0], [-1.0, 1.0], [np.nan, 1.0], [2.0]])
def test_x_must_be_positive_and_vary(x):
    with pytest.raises(ValueError, match="x must be positive with at least 2 different values"):
        power_law_exponents(np.array(x), np.ones((1, len(x))))
