"""The true risk of a filter: against quadrature, autodiff, simulation and known values."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from theorylab.data import PatchLaw, patch_law
from theorylab.features.local_signal import network, population, projected


def _state(c, v, b):
    return projected.FilterState(jnp.array(c), jnp.array(v), jnp.array(b))


GRADIENT = jax.jit(jax.grad(lambda state, law: population.risk(state, law).loss), static_argnums=1)
STATES = [_state(0.7, 0.4, -0.3), _state(0.5, 0.1, 0.2), _state(-0.4, 0.3, -0.1)]


def _quadrature(f, scale, bias):
    """E f(φ_b(Z)), by panels on which φ_b is smooth."""
    edges = sorted({-10 * scale, -abs(bias), 0.0, abs(bias), 10 * scale})

    def inner(z):
        value = max(z + bias, 0.0) - max(bias - z, 0.0)
        return f(value) * stats.norm.pdf(z / scale) / scale

    parts = itertools.pairwise(edges)
    return sum(integrate.quad(inner, *part, epsabs=1e-13, epsrel=1e-12)[0] for part in parts)


@pytest.mark.parametrize("state", STATES)
def test_risk_is_that_of_quadrature(state):
    """Oracle: E log(1 + e^{−g−S}) over one noise patch, and the signal's part E ς(−g − S)."""
    c, v, b = map(float, state)
    law = PatchLaw(1, 2, 0.5)
    found = population.risk(state, law)
    g, scale = float(network.soft_threshold(state.signal, b)), 0.5 * np.hypot(c, v)
    loss = _quadrature(lambda s: np.logaddexp(0, -g - s), scale, b)
    pull = _quadrature(lambda s: 1 / (1 + np.exp(g + s)), scale, b)
    assert float(found.loss) == pytest.approx(loss, abs=1e-10)
    slopes = float(c + b > 0) + float(b - c > 0), float(c + b > 0) - float(b - c > 0)
    assert float(found.signal) == pytest.approx(-pull * slopes[0], abs=1e-10)
    assert float(found.bias_signal) == pytest.approx(-pull * slopes[1], abs=1e-10)


@pytest.mark.parametrize("state", STATES)
def test_all_parts_are_those_of_two_patches(state):
    """Oracle: E over both Z by Gauss–Legendre on panels where φ_b is smooth; E[A|Z] = cZ/‖w‖²."""
    c, v, b = map(float, state)
    length, law = np.hypot(c, v), PatchLaw(2, 2, 0.5)
    scale = 0.5 * length
    nodes, weights = np.polynomial.legendre.leggauss(80)
    edges = sorted({-10 * scale, -abs(b), 0.0, abs(b), 10 * scale})
    panels = list(itertools.pairwise(edges))
    z = np.concatenate([low + (high - low) * (nodes + 1) / 2 for low, high in panels])
    mass = np.concatenate([(high - low) / 2 * weights for low, high in panels])
    mass = mass * stats.norm.pdf(z / scale) / scale
    passed = np.maximum(z + b, 0) - np.maximum(b - z, 0)
    slope, lift = 1.0 * (z > -b) + (z < b), 1.0 * (z > -b) - (z < b)
    signal = max(c + b, 0.0) - max(b - c, 0.0)
    outputs = signal + passed[:, None] + passed[None, :]
    pull = mass[:, None] * mass[None, :] / (1 + np.exp(outputs))
    loss = (mass[:, None] * mass[None, :] * np.logaddexp(0, -outputs)).sum()
    along = -2 * (pull.sum(axis=1) * slope * z).sum() / length**2  # of either patch
    own = float(c + b > 0) + float(b - c > 0), float(c + b > 0) - float(b - c > 0)
    lifted = -2 * (pull.sum(axis=1) * lift).sum()
    parts = (-pull.sum() * own[0], along * c, along * v, -pull.sum() * own[1], lifted)
    np.testing.assert_allclose(population.risk(state, law), (loss, *parts), atol=1e-10)


@pytest.mark.parametrize("state", STATES)
def test_parts_add_up_to_the_gradient_of_the_loss(state):
    """Oracle: autodiff of the loss's own integral. Noise has no direction of its own: ∥ w."""
    law = patch_law(1000, 2)
    expected = GRADIENT(state, law)
    found = population.risk(state, law)
    np.testing.assert_allclose(found.gradient, expected, atol=1e-9)
    ratio = float(state.rest / state.signal)
    assert float(found.rest) == pytest.approx(ratio * float(found.noise), abs=1e-12)


@pytest.mark.parametrize("state", STATES)
def test_gradient_is_the_mean_of_sgd_s(state):
    """Oracle: the sums of simulated patches, five standard errors of 20,000 samples."""
    law = PatchLaw(40, 2, 0.3)
    c, v, b = state
    normal = jax.random.normal(jax.random.key(0), (20000, 40))
    sums = projected.noise_sums(state, law, normal)
    pull = jax.nn.sigmoid(-sums.output - network.soft_threshold(c, b))
    found = population.risk(state, law)
    for samples, value in [
        (-pull * sums.along * law.noise * c / jnp.hypot(c, v), found.noise),
        (-pull * sums.bias, found.bias_noise),
        (jnp.logaddexp(0.0, -sums.output - network.soft_threshold(c, b)), found.loss),
    ]:
        error = float(samples.std()) / len(samples) ** 0.5
        assert abs(float(samples.mean() - value)) < 5 * error


def test_descent_has_known_values():
    """Oracle: the same dynamics by masses on a grid and a Fourier transform, done elsewhere.

    k = 1000, η = 0.1, η_b = 10⁻⁴: c = 0.05, b = 5·10⁻⁵ after one step; 0.0455 and −0.0011 after 10.
    """
    law, rates = patch_law(1000, 2), network.FilterRates(0.1, 1e-4)
    run = population.descend_population(_state(1e-6, 0.0, 0.0), law, rates, [0, 1, 10])
    states, risks = run.records
    np.testing.assert_allclose(states.signal[1:], [0.05, 0.0455], atol=5e-5)
    np.testing.assert_allclose(states.bias[1:], [5e-5, -0.0011], rtol=0.05)
    start = -0.5 + 1e-6 * (1 + np.log(1000) ** 2) / 4  # to first order in c
    assert float(risks.gradient.signal[0]) == pytest.approx(start, abs=1e-9)


def test_many_laws_are_each_by_itself():
    """Oracle: the descent of one law, whose size is known to the compiler."""
    laws, rates = [patch_law(30, 2), patch_law(90, 2)], [network.FilterRates(0.1, 0.01)] * 2
    start = _state(0.1, 0.1, 0.0)
    states, _ = population.descend_each(start, laws, rates, [0, 3]).records
    single = population.descend_population(start, laws[1], rates[1], [0, 3]).records[0]
    np.testing.assert_allclose([part[1] for part in states], single, rtol=1e-9)
    with pytest.raises(ValueError, match="laws and rates must be as many, got 2 and 1"):
        population.descend_each(start, laws, rates[:1], [1])


def test_a_finer_grid_changes_nothing():
    """The states where training ends have outputs within reach of the default grid."""
    law = patch_law(1000, 2)
    for state in (_state(11.0, 0.1, -7.4), _state(0.85, 0.02, -0.3765)):
        fine = population.risk(state, law, population.Grid(400, 0.04, 300))
        np.testing.assert_allclose(population.risk(state, law), fine, atol=1e-9)
