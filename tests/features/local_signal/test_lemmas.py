"""The lemmas' numbers against quadrature, simulation, and what the lemmas say of them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from theorylab.data import PatchLaw, patch_law
from theorylab.features.local_signal import accuracy, lemmas, network, population, projected
from theorylab.numerics import truncated_gaussian

LAW = patch_law(1000, 10)
STATE = projected.FilterState(jnp.array(0.6), jnp.array(0.3), jnp.array(-0.2))
SCALE = math.hypot(0.6, 0.3) * LAW.noise
RISK = jax.jit(population.risk, static_argnums=1)


def test_kept_noise_is_that_of_quadrature():
    """Oracle: adaptive quadrature over Z beyond the threshold, to 1e-10."""
    found = lemmas.kept_noise(STATE, LAW)
    expected = [
        2
        * integrate.quad(
            lambda z, p=p: (z - 0.2) ** p * stats.norm.pdf(z / SCALE) / SCALE,
            0.2,
            0.2 + 12 * SCALE,
            epsabs=1e-14,
        )[0]
        for p in range(3)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    k = 1000
    ratios = {
        lemmas.relative_threshold: 0.2 / SCALE,
        lemmas.variance_ratio: k * expected[2] / 0.4**2,
        lemmas.probability_ratio: expected[0] * k**0.75,
        lemmas.absolute_ratio: expected[1] / math.sqrt(expected[2]) * k**0.375,
        # E[Z² | Z ≥ |b|]P = σ²‖w‖²(1 + α/m)P, from E[(Z − 0.2)₊²] and E[(Z − 0.2)₊]; 3/2 of α/m.
        lemmas.noise_bound: k * 0.6 * (LAW.noise**2 * expected[0] + 1.5 * _beyond(expected)) / 2,
    }
    values = jax.jit(lambda state: [lemma(state, LAW) for lemma in ratios])(STATE)
    np.testing.assert_allclose(values, list(ratios.values()), rtol=1e-10)


def _beyond(moments):
    """σ² α/m times 2P, as E[Z² 1] − s² P over ‖w‖², with Z = (Z − 0.2) + 0.2."""
    square = moments[2] + 2 * 0.2 * moments[1] + 0.2**2 * moments[0]
    return (square - SCALE**2 * moments[0]) / (0.6**2 + 0.3**2)


@pytest.mark.parametrize("bias", [-0.01, -0.2, -0.4])
def test_noise_pulls_back_less_than_its_bound(bias):
    """The symmetrised gradient: not negative, and below the bound."""
    state = STATE._replace(bias=jnp.array(bias))
    assert 0 < float(RISK(state, LAW).noise) < float(lemmas.noise_bound(state, LAW))


def test_error_is_below_the_union_bound_if_the_signal_passes():
    """At k = 10⁴ a threshold of 2√log k spares the signal; at k = 1000 it kills it."""
    for k, sound in ((10**4, True), (1000, False)):
        law, alpha = patch_law(k, 10), lemmas.largest_threshold(k)
        state = projected.FilterState(jnp.array(1.0), jnp.array(0.0), jnp.array(-alpha * law.noise))
        assert float(lemmas.relative_threshold(state, law)) == pytest.approx(alpha)
        error = accuracy.error_rate(state, law)
        assert (error <= float(lemmas.union_bound(alpha, k))) == sound
        assert float(lemmas.union_bound(alpha, k)) == pytest.approx(2 / k)
        assert (k > lemmas.first_sound_size()) == sound
    k = lemmas.first_sound_size()
    assert 2 * math.log(k) ** 1.5 == pytest.approx(math.sqrt(k))


def test_within_is_a_normal_probability_without_a_threshold():
    """Oracle: b = 0 gives S ~ N(0, ks²)."""
    state = projected.FilterState(jnp.array([0.5, 1.0]), jnp.zeros(2), jnp.zeros(2))
    deviation = np.array([0.5, 1.0]) * math.log(1000)
    expected = 1 - 2 * stats.norm.sf((np.array([0.5, 1.0]) + 2) / deviation)
    np.testing.assert_allclose(lemmas.within(state, LAW, slack=2.0), expected, atol=1e-4)


def test_within_is_that_of_one_patch():
    """Oracle: P[|S₁| < level] = 1 − 2Φᶜ((level + |b|)/s) by quadrature, to 1e-10."""
    law, level = PatchLaw(1, 2, 0.5), 0.4 + 0.3
    scale = 0.5 * math.hypot(0.6, 0.3)
    tail = integrate.quad(
        lambda z: stats.norm.pdf(z / scale) / scale, level + 0.2, 8.0, epsabs=1e-14
    )[0]
    found = lemmas.within(projected.FilterState(*(part[None] for part in STATE)), law, slack=0.3)
    assert found == pytest.approx([1 - 2 * tail], abs=1e-10)


@pytest.mark.parametrize("k", [1, 1000])
def test_the_signal_is_bounded_by_the_mean_shortfall(k):
    """Oracle: E(−1 − S)₊ of a Gaussian S with b = 0, and of one patch behind a threshold.

    Cells of width h add kh²/12 to the variance, 2·10⁻⁴ of it at k = 1000.
    """
    law = PatchLaw(k, 2, 0.5 / math.sqrt(k))
    gaussian = 0.5 * float(truncated_gaussian.excess_moments(1 / 0.5).mean)
    assert lemmas.largest_signal(0.0, law) == pytest.approx(1 / gaussian, rel=max(1e-5, 1e-6 * k))
    if k == 1:
        one = 0.5 * float(truncated_gaussian.excess_moments((0.3 + 0.7) / 0.5).mean)
        assert lemmas.largest_signal(0.3, law) == pytest.approx(1 / one, rel=1e-5)


def test_beyond_that_signal_the_loss_is_above_one():
    """The risk itself, at a threshold with an error of 0.3; and none is bounded without errors."""
    ratio = lemmas.ratio_with_error(0.3, LAW)
    state = projected.FilterState(jnp.array(1.0), jnp.array(0.0), jnp.array(-ratio))
    assert accuracy.error_rate(state, LAW) == pytest.approx(0.3, abs=1e-4)
    c = lemmas.largest_signal(ratio, LAW)
    assert RISK(projected.FilterState(*(c * part for part in state)), LAW).loss > 1
    assert lemmas.largest_signal(0.9, patch_law(10**5, 2)) > 1e6
    assert math.isnan(lemmas.ratio_with_error(0.01, patch_law(100, 2)))


def test_schedule_is_that_of_constant_rates():
    """Oracle: steps of c and b at the constant rates, counted one by one."""
    law, rates = patch_law(10**4, 2), network.FilterRates(0.02, 2e-6)  # η_b = η/k
    known = lemmas.ScheduleConstants(growth=0.4, fall=0.3, reached=50.0, length=0.001)
    first, second = lemmas.schedule(law, rates, known, start=1e-3)
    logarithm, c, b, counts = math.log(10**4), -1e-3, 50.0 / 1e4 / math.log(1e4) ** 4, [0, 0]
    while c < 2 * 50.0 / logarithm**4:
        c, counts[0] = c + 0.02 * 0.4, counts[0] + 1
    while b > -4 * 0.001 * logarithm**1.5 / 100:
        b, counts[1] = b - 2e-6 * 0.3, counts[1] + 1
    assert counts == [math.ceil(first), math.ceil(second)]


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match=r"ratio must be in \[0, 1\), got 1\.0"):
        lemmas.largest_signal(1.0, LAW)
    with pytest.raises(ValueError, match="num_patches must be at least 2, got 1"):
        lemmas.largest_threshold(1)
    with pytest.raises(ValueError, match="lower_tail needs level >= 0"):
        accuracy.lower_tail(-1.0, 1.0, 0.0, 5)
    with pytest.raises(ValueError, match="num_cells must be even and at least 64, got 3"):
        accuracy.lower_tail(1.0, 1.0, 0.0, 5, num_cells=3)
    above = lemmas.kept_noise(STATE._replace(bias=jnp.array(0.2)), LAW)
    assert all(jnp.isnan(part) for part in above)
