"""Bounds from the tangent kernel: against brute force over signs, exact series, simulation."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from theorylab.data import sphere
from theorylab.generalization import tangent_bounds as bounds
from theorylab.kernels import two_layer

GENERATOR = np.random.default_rng(0)
X = sphere(jax.random.key(0), 8, 12)
KERNEL = np.asarray(two_layer.limit_kernel(X))
Y = np.sign(np.asarray(X)[:, 0])


def test_travelled_square_is_the_quadratic_form():
    """Oracle: the inverse, and one column after the other."""
    both = np.stack([Y, np.asarray(X)[:, 1]], axis=1)
    expected = [y @ np.linalg.inv(KERNEL) @ y for y in both.T]
    np.testing.assert_allclose(bounds.travelled_square(KERNEL, both), expected, rtol=1e-10)
    np.testing.assert_allclose(bounds.travelled_square(KERNEL, Y), expected[0], rtol=1e-10)


def test_measure_of_unit_inputs_is_the_root_of_the_mean():
    """The trace of H* is n/2 for ‖x‖ = 1, so the measure is √(yᵀH*⁻¹y/n)."""
    expected = math.sqrt(Y @ np.linalg.solve(KERNEL, Y) / 8)
    np.testing.assert_allclose(bounds.complexity_measure(KERNEL, Y), expected, rtol=1e-9)


def test_rademacher_bound_is_above_the_mean_over_all_signs():
    """Oracle: for linear functions the supremum is B √(εᵀHε)/n, averaged over all 2ⁿ signs ε."""
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=8)))
    exact = 3.0 * np.mean(np.sqrt(np.einsum("si,ij,sj->s", signs, KERNEL, signs))) / 8
    bound = bounds.rademacher_bound(3.0, np.trace(KERNEL), 8)
    assert exact <= bound <= 1.2 * exact  # Jensen loses little


def test_trace_bound_is_hoeffding_s():
    """Oracle: the exact binomial tail where all inputs are one: tr H(0) = n/m · Binomial(m, ½)."""
    for width, delta in itertools.product((10, 100, 1000), (0.3, 0.05)):
        limit = bounds.trace_bound(7, width, delta) * width / 7
        assert stats.binom.sf(math.floor(limit), width, 0.5) <= delta
        fifth = (limit - width / 2) / 5 + width / 2  # not enough
        assert stats.binom.sf(math.floor(fifth), width, 0.5) > delta


def test_gap_bound_is_twice_the_complexity_and_a_tail():
    found = bounds.gap_bound(0.1, 50, 0.1)
    np.testing.assert_allclose(found, 0.2 + 3 * math.sqrt(math.log(20) / 100), rtol=1e-12)


def test_network_risk_bound_is_its_parts():
    """Oracle: the trace's bound in the complexity's, with B = 1 + yᵀH⁻¹y, and Hoeffding's tail."""
    n, width, delta, travelled = 60, 500, 0.2, 3.0
    trace = bounds.trace_bound(n, width, delta)
    expected = bounds.rademacher_bound(1 + travelled, trace, n) + math.sqrt(math.log(5) / (2 * n))
    np.testing.assert_allclose(
        bounds.network_risk_bound(travelled, n, width, delta), expected, rtol=1e-12
    )


def test_guarantee_width_takes_the_larger_demand():
    assert bounds.guarantee_width(100, 0.5, 0.1) == pytest.approx(1e14 * 16 * 10)
    assert bounds.guarantee_width(1, 100.0, 0.1) == pytest.approx(1e-4 * math.log(20))


def test_linear_teachers_are_within_their_bound_and_reach_it():
    """Oracle: on the orthonormal basis H* = I/2 + 0, so that yᵀH*⁻¹y = 2‖β‖² ≤ 4‖β‖²."""
    kernel = np.asarray(two_layer.limit_kernel(jnp.eye(5)))
    beta = GENERATOR.normal(size=5)
    length = float(np.linalg.norm(beta))
    root = math.sqrt(float(bounds.travelled_square(kernel, beta)))
    np.testing.assert_allclose(root, math.sqrt(2) * length, rtol=1e-9)
    assert root <= bounds.linear_teacher_bound(length)


@pytest.mark.parametrize("power", [2, 4, 6, 20, 200])
def test_power_bound_is_above_the_exact_series(power):
    """Oracle: H* ≥ cₚ K^{∘p} gives √(yᵀH*⁻¹y) ≤ |α|‖β‖ᵖ/√cₚ."""
    exact = 0.7 * 1.3**power / math.sqrt(two_layer.series_coefficient(power))
    bound = bounds.power_teacher_bound(power, -0.7, 1.3)
    assert exact <= bound
    np.testing.assert_allclose(bound, 3 * power * 0.7 * 1.3**power, rtol=1e-12)


@pytest.mark.parametrize("length", [0.01, 1.0, 3.0])
def test_cosine_bound_sums_those_of_its_powers(length):
    """Oracle: the Taylor series of the cosine, term by term."""
    powers = range(2, 60, 2)
    expected = sum(bounds.power_teacher_bound(p, 2 / math.factorial(p), length) for p in powers)
    np.testing.assert_allclose(bounds.cosine_teacher_bound(-2.0, length), expected, rtol=1e-12)


def test_teachers_of_random_directions_are_within_their_bounds():
    """Brute force over directions and lengths, on inputs in more dimensions than samples."""
    for length in (0.01, 0.5, 1.0, 2.5):
        beta = GENERATOR.normal(size=(12, 20))
        z = length * np.asarray(X) @ (beta / np.linalg.norm(beta, axis=0))
        tasks = {
            "linear": (z, bounds.linear_teacher_bound(length)),
            "square": (z**2, bounds.power_teacher_bound(2, 1.0, length)),
            "fourth": (z**4, bounds.power_teacher_bound(4, 1.0, length)),
            "cosine": (np.cos(z) - 1, bounds.cosine_teacher_bound(1.0, length)),
        }
        for name, (y, bound) in tasks.items():
            assert np.sqrt(bounds.travelled_square(KERNEL, y)).max() <= bound, name


def test_printed_cosine_bound_fails_for_short_directions_only():
    beta = np.eye(12)[0]
    ratios = []
    for length in (0.01, 2.0):
        y = np.cos(length * np.asarray(X) @ beta) - 1
        root = np.sqrt(bounds.travelled_square(KERNEL, y))
        ratios.append(root / bounds.printed_cosine_bound(1.0, length))
    assert ratios[0] > 1 > ratios[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.trace_bound(5, 10, 0.0), r"delta must be in \(0, 1\), got 0.0"),
        (lambda: bounds.gap_bound(0.1, 10, 1.0), r"delta must be in \(0, 1\), got 1.0"),
        (lambda: bounds.power_teacher_bound(3, 1.0, 1.0), "power must be even and at least 2"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
