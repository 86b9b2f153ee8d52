"""Errors of filters: closed forms for one patch and for none to threshold, simulation, death."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from theorylab.data import PatchLaw, patch_law
from theorylab.features.local_signal import accuracy, projected


def _state(c, v, b):
    return projected.FilterState(jnp.array(c), jnp.array(v), jnp.array(b))


def test_linear_filter_has_the_linear_error():
    """Oracle: Φ(−1/(σ√k)), and less noise reaches it with w at an angle to w*."""
    law = patch_law(1000, 10)
    assert accuracy.error_rate(_state(0.3, 0.0, 0.0), law) == pytest.approx(
        law.linear_error, abs=3e-5
    )
    turned = stats.norm.cdf(-0.6 / np.log(1000))
    assert accuracy.error_rate(_state(0.6, 0.8, 0.0), law) == pytest.approx(turned, abs=3e-5)


def test_one_and_two_patches_have_closed_forms():
    """Oracle: Φᶜ((|b| + g)/s), and its convolution with the law of the second patch."""
    c, b, s = 1.0, -0.3, 0.5
    g = c + b
    one = accuracy.error_rate(_state(c, 0.0, b), PatchLaw(1, 2, s))
    assert one == pytest.approx(stats.norm.sf((-b + g) / s), abs=1e-5)

    def below(level):  # P[S₁ ≤ −level]
        beyond = stats.norm.sf((-b + abs(level)) / s)
        return beyond if level > 0 else 1 - beyond

    def inner(z):
        value = max(z + b, 0.0) - max(b - z, 0.0)
        return below(g + value) * stats.norm.pdf(z / s) / s

    edges = [-6.0, -g + b, b, -b, 6.0]
    expected = sum(integrate.quad(inner, low, high)[0] for low, high in itertools.pairwise(edges))
    two = accuracy.error_rate(_state(c, 0.0, b), PatchLaw(2, 2, s))
    assert two == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("state", [_state(0.5, 0.3, -0.2), _state(0.5, 0.3, 0.2)])
def test_error_is_that_of_simulation(state):
    """Four standard errors of 20,000 samples of 40 patches; −w errs where w does not."""
    law = PatchLaw(40, 2, 0.3)
    normal = jax.random.normal(jax.random.key(0), (20000, 40))
    noise = np.asarray(projected.noise_sums(state, law, normal).output)
    c, v, b = map(float, state)
    signal = max(c + b, 0) - max(b - c, 0)
    found = accuracy.error_rate(state, law)
    assert found == pytest.approx(np.mean(noise + signal <= 0), abs=4 * 0.5 / 20000**0.5)
    assert accuracy.error_rate(_state(-c, v, b), law) == pytest.approx(1 - found, abs=1e-9)


def test_a_dead_network_errs_and_a_finer_grid_changes_little():
    """A threshold above signal and noise leaves 0, which is an error on every sample."""
    law = patch_law(1000, 10)
    assert accuracy.error_rate(_state(0.1, 0.0, -1.0), law) == pytest.approx(1.0)
    state = _state(0.85, 0.02, -0.3765)
    rates = [accuracy.error_rate(state, law, cells) for cells in (2**14, 2**16)]
    assert rates[0] == pytest.approx(rates[1], abs=3e-6)
    both = accuracy.error_rates(projected.FilterState(*[jnp.stack([p, p]) for p in state]), law)
    np.testing.assert_allclose(both, rates[0])


def test_best_threshold_finds_the_signal_from_about_a_thousand_patches_on():
    """Oracle: accuracies 0.628 and 0.9976 by masses on a grid, computed apart."""
    assert accuracy.best_threshold(patch_law(100, 10), 20)[1] == pytest.approx(0.372, abs=2e-3)
    ratio, error = accuracy.best_threshold(patch_law(1000, 10), 20)
    assert ratio == pytest.approx(0.95)
    assert error == pytest.approx(0.0024, abs=2e-4)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="num_cells must be at least 64, got 8"):
        accuracy.error_rate(_state(1.0, 0.0, 0.0), patch_law(10, 2), 8)
    with pytest.raises(ValueError, match="num_ratios must be at least 1, got 0"):
        accuracy.best_threshold(patch_law(10, 2), 0)
    assert np.isnan(accuracy.error_rate(_state(np.nan, 0.0, 0.0), patch_law(10, 2)))
