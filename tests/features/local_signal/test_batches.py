"""What chance does to the algorithm: against quadrature, simulation and the algorithm itself."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from theorylab.data import PatchLaw, patch_law, signal_among_noise
from theorylab.features.local_signal import batches, network, projected

STATES = [(0.7, 0.4, -0.3), (0.5, 0.1, 0.0), (-0.4, 0.3, -0.1), (0.2, 0.1, -0.5)]
SPREAD = jax.jit(batches.gradient_spread, static_argnums=1)


def _state(c, v, b):
    return projected.FilterState(jnp.array(c), jnp.array(v), jnp.array(b))


@pytest.mark.parametrize(("k", "d"), [(1, 2), (3, 2), (2, 5), (12, 10)])
def test_the_start_is_in_its_ball_as_often_as_quadrature_says(k, d):
    """Oracle: adaptive quadrature of the laws of |z| and of χ²_{d−1} beyond kd; B.3's bound."""
    far = k * d

    def beyond(density, start):
        return integrate.quad(density, start, start + 400, epsabs=0, epsrel=1e-12, limit=500)[0]

    along = 2 * beyond(stats.norm.pdf, math.sqrt(far))
    across = beyond(lambda x: stats.chi2.pdf(x, d - 1), far)
    found = batches.start_misses(k, d)
    assert found == pytest.approx(along + across - along * across, rel=1e-10)
    assert found <= batches.start_bound(k, d) == pytest.approx(2 * d * math.exp(-k / 2))


def _nodes(scale, bias):
    """Gauss–Legendre on panels where φ_b is smooth."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    edges = sorted({-10 * scale, -abs(bias), 0.0, abs(bias), 10 * scale})
    panels = list(itertools.pairwise(edges))
    z = np.concatenate([low + (high - low) * (nodes + 1) / 2 for low, high in panels])
    mass = np.concatenate([(high - low) / 2 * weights for low, high in panels])
    return z, mass * stats.norm.pdf(z / scale) / scale


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("k", [1, 2])
def test_spread_is_that_of_quadrature(state, k):
    """Oracle: all moments of ς times the sums over one or two Z, on a product grid, to 1e-10."""
    c, v, b = state
    law, length = PatchLaw(k, 3, 0.5), math.hypot(c, v)
    z, mass = _nodes(0.5 * length, b)
    shape = [(-1,) if k == 1 else ((-1, 1), (1, -1))[i] for i in range(k)]

    def over(values):  # Σᵢ of one patch's values, on the product grid
        return sum(np.reshape(values, place) for place in shape)

    weight = np.prod(np.broadcast_arrays(*[np.reshape(mass, place) for place in shape]), axis=0)
    passed = np.maximum(z + b, 0) - np.maximum(b - z, 0)
    slope, lift = 1.0 * (z > -b) + (z < b), 1.0 * (z > -b) - (z < b)
    own = max(c + b, 0.0) - max(b - c, 0.0)
    own_slope = float(c + b > 0) + float(b - c > 0)
    own_lift = float(c + b > 0) - float(b - c > 0)
    pull = 1 / (1 + np.exp(own + over(passed)))
    along = over(slope * z) / length + own_slope * c / length
    across = own_slope * v / length
    parts = (along, across, over(lift) + own_lift)
    mean = [(weight * pull * part).sum() for part in parts]
    square = along**2 + across**2 + 2 * 0.5**2 * over(slope**2)  # d − 1 = 2 directions around
    weights = (weight * pull**2 * square).sum() - mean[0] ** 2 - mean[1] ** 2
    bias = (weight * pull**2 * parts[2] ** 2).sum() - mean[2] ** 2
    found = SPREAD(_state(c, v, b), law)
    np.testing.assert_allclose(found, (weights, bias), rtol=1e-10, atol=1e-12)


def test_spread_is_that_of_the_algorithm_s_gradients():
    """Oracle: autodiff at 4000 samples of 30 patches, five standard errors of a variance."""
    law = patch_law(30, 4)
    params = network.Filter(jnp.array([0.4, 0.1, 0.3, -0.2]), jnp.array(-0.3))
    data = signal_among_noise(jax.random.key(0), law, 4000)

    def loss(params, x, y):
        return jnp.logaddexp(0.0, -y[0] * network.outputs(params, x[None])[0, 0])

    each = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))(params, data.x, data.y)
    found = SPREAD(projected.state_of(params, law), law)
    for samples, value in ((each.weights, found.weights), (each.bias[:, None], found.bias)):
        squares = ((samples - samples.mean(axis=0, keepdims=True)) ** 2).sum(axis=1)
        assert abs(float(squares.mean() - value)) < 5 * float(squares.std()) / len(squares) ** 0.5


def test_a_batch_as_large_as_needed_has_the_variance_that_chebyshev_asks_for():
    assert float(batches.needed_batch(250.25, 0.1, 0.25)) == math.ceil(250.25 / 0.0025)


def test_what_makes_no_sense_is_refused_or_not_a_number():
    with pytest.raises(ValueError, match="dimension at least 2, got 3 and 1"):
        batches.start_misses(3, 1)
    above = SPREAD(_state(0.5, 0.1, 0.2), patch_law(30, 4))
    assert all(jnp.isnan(part) for part in above)
