"""The lemmas' numbers against quadrature, simulation, and what the lemmas say of them."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from theorylab.data import patch_law
from theorylab.features.local_signal import accuracy, lemmas, population, projected

LAW = patch_law(1000, 10)
STATE = projected.State(jnp.array(0.6), jnp.array(0.3), jnp.array(-0.2))
SCALE = math.hypot(0.6, 0.3) * LAW.noise


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
    k, kept = 1000, lemmas.kept_noise(STATE, LAW)
    assert float(lemmas.relative_threshold(STATE, LAW)) == pytest.approx(0.2 / SCALE)
    assert float(lemmas.variance_ratio(STATE, LAW)) == pytest.approx(k * expected[2] / 0.4**2)
    assert float(lemmas.probability_ratio(STATE, LAW)) == pytest.approx(expected[0] * k**0.75)
    assert float(lemmas.absolute_ratio(STATE, LAW)) == pytest.approx(
        expected[1] / math.sqrt(float(kept.variance)) * k**0.375
    )


@pytest.mark.parametrize("bias", [-0.01, -0.2, -0.4])
def test_noise_pulls_back_less_than_its_bound(bias):
    """The symmetrised gradient: not negative, and below the bound."""
    state = STATE._replace(bias=jnp.array(bias))
    assert 0 < float(population.risk(state, LAW).noise) < float(lemmas.noise_bound(state, LAW))


def test_error_is_below_the_union_bound_if_the_signal_passes():
    """At k = 10⁴ a threshold of 2√log k spares the signal; at k = 1000 it kills it."""
    for k, sound in ((10**4, True), (1000, False)):
        law, alpha = patch_law(k, 10), lemmas.largest_threshold(k)
        state = projected.State(jnp.array(1.0), jnp.array(0.0), jnp.array(-alpha * law.noise))
        assert float(lemmas.relative_threshold(state, law)) == pytest.approx(alpha)
        error = accuracy.error_rate(state, law)
        assert (error <= float(lemmas.union_bound(alpha, k))) == sound
        assert float(lemmas.union_bound(alpha, k)) == pytest.approx(2 / k)
        assert (k > lemmas.first_sound_size()) == sound
    k = lemmas.first_sound_size()
    assert 2 * math.log(k) ** 1.5 == pytest.approx(math.sqrt(k))


def test_within_is_a_normal_probability_without_a_threshold():
    """Oracle: b = 0 gives S ~ N(0, ks²)."""
    state = projected.State(jnp.array([0.5, 1.0]), jnp.zeros(2), jnp.zeros(2))
    deviation = np.array([0.5, 1.0]) * math.log(1000)
    expected = 1 - 2 * stats.norm.sf((np.array([0.5, 1.0]) + 2) / deviation)
    np.testing.assert_allclose(lemmas.within(state, LAW, slack=2.0), expected, atol=1e-4)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="num_patches must be at least 2, got 1"):
        lemmas.largest_threshold(1)
    with pytest.raises(ValueError, match="lower_tail needs level >= 0"):
        accuracy.lower_tail(-1.0, 1.0, 0.0, 5)
    with pytest.raises(ValueError, match="num_cells must be even and at least 64, got 3"):
        accuracy.lower_tail(1.0, 1.0, 0.0, 5, num_cells=3)
    above = lemmas.kept_noise(STATE._replace(bias=jnp.array(0.2)), LAW)
    assert all(jnp.isnan(part) for part in above)
