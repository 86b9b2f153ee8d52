"""SGD in three numbers: its sums by brute force, its law against SGD on all of the patches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import PatchLaw, patch_law, signal_among_noise
from theorylab.features.local_signal import network, projected

LAW = PatchLaw(num_patches=6, dimension=4, noise=0.6)
RATES = network.FilterRates(0.8, 0.3)


@pytest.mark.parametrize("bias", [-0.2, 0.15])
def test_sums_over_patches_are_brute_force(bias):
    """Oracle: autodiff of φ_b patch by patch."""
    state = projected.FilterState(jnp.array(0.6), jnp.array(0.8), jnp.array(bias))
    normal = jax.random.normal(jax.random.key(0), (3, 6))
    found = jax.jit(projected.noise_sums, static_argnums=1)(state, LAW, normal)
    z = np.asarray(normal) * 0.6  # the filter has length 1

    slopes = np.vectorize(jax.grad(lambda z: network.soft_threshold(z, bias)))(z)
    lifts = (z > -bias).astype(float) - (z < bias)
    values = np.asarray(network.soft_threshold(jnp.asarray(z), bias))
    np.testing.assert_allclose(found.output, values.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.along, (slopes * np.asarray(normal)).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.bias, lifts.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.square, (slopes**2).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("bias", [-0.2, 0.15])
def test_one_step_has_the_law_of_sgd_on_all_patches(bias):
    """Oracle: SGD in ℝᵈ. Means and mean squares of c, v² and b, within five standard errors."""
    weights = 0.6 * LAW.signal + 0.8 * jnp.array([1.0, -1.0, 0.0, 0.0]) / 2**0.5
    before = network.Filter(weights, jnp.array(bias))
    state = projected.state_of(before, LAW)
    np.testing.assert_allclose([state.signal, state.rest], [0.6, 0.8], rtol=1e-12)

    def whole(key):
        batch = signal_among_noise(key, LAW, 2)
        after = network.descend_on_batch(before, batch.x, batch.y, RATES)
        return projected.state_of(after, LAW)

    def short(key):
        return projected.projected_step(key, state, LAW, RATES, batch_size=2)

    keys = jax.random.split(jax.random.key(1), (2, 6000))
    both = jax.jit(lambda keys: (jax.vmap(whole)(keys[0]), jax.vmap(short)(keys[1])))(keys)
    for one, other in zip(*both, strict=True):
        for power in (1, 2):
            a, b = np.asarray(one) ** power, np.asarray(other) ** power
            error = np.sqrt((a.var() + b.var()) / len(a))
            assert abs(a.mean() - b.mean()) < 5 * error


def test_learning_begins_small_and_moves_along_the_signal():
    """Oracle: at w ≈ 0 the mean gradient is −w*/2, and E v² = η²(d − 1)σ²k/4n after one step."""
    law, rates = patch_law(50, 10), network.FilterRates(1.0, 0.0)
    start = projected.small_state(jax.random.key(2), law)
    assert float(jnp.hypot(start.signal, start.rest)) == pytest.approx(1e-6)

    def one(key):
        return projected.learn_projected(key, start, law, rates, 20, [1]).params

    ends = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), 400))
    deviation = law.noise * (50 / 80) ** 0.5
    assert float(ends.signal.mean()) == pytest.approx(0.5, abs=5 * deviation / 20)
    assert float((ends.rest**2).mean()) == pytest.approx(9 * deviation**2, rel=0.15)


def test_what_makes_no_sense_is_refused():
    start = projected.small_state(jax.random.key(0), LAW)
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        projected.learn_projected(jax.random.key(0), start, LAW, RATES, 0, [1])
    with pytest.raises(ValueError, match="dimension must be at least 2, got 1"):
        projected.learn_projected(jax.random.key(0), start, PatchLaw(6, 1, 0.5), RATES, 1, [1])
