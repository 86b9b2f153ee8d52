"""Spectra of weights: random matrices of every law, planted spikes, trained networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features import matrix_spectrum, weight_spectra
from theorylab.features.weight_spectra import as_matrix, tracy_widom_quantile, tracy_widom_tail

LAWS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
    "truncated": lambda rng, shape: np.asarray(
        jax.random.truncated_normal(jax.random.key(int(rng.integers(2**31))), -2, 2, shape)
    ),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("shape", [(64, 10), (30, 30), (27, 64)])
def test_random_matrices_look_as_at_initialization(law, shape):
    """Oracle: the level of the test, 5 %, within 3 standard errors of 300 draws (and below it)."""
    rng = np.random.default_rng(0)
    found = [matrix_spectrum(LAWS[law](rng, shape)).is_random for _ in range(300)]
    assert np.mean(found) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 300)


@pytest.mark.parametrize("shape", [(200, 50), (120, 120)])
def test_a_spike_is_seen_above_the_threshold_alone(shape):
    """Oracle: Baik, Ben Arous and Péché: θ > (p/n)^¼, at s² = (1 + θ²)(c + θ²)/θ²."""
    rng = np.random.default_rng(1)
    n, p = shape
    threshold, seen = (p / n) ** 0.25, {}
    u, v = np.ones(n) / np.sqrt(n), np.ones(p) / np.sqrt(p)
    for factor in (0.5, 2.5):
        theta = factor * threshold
        draws = [
            rng.standard_normal(shape) / np.sqrt(n) + theta * np.outer(u, v) for _ in range(20)
        ]
        found = [matrix_spectrum(w) for w in draws]
        seen[factor] = np.mean([one.num_outliers > 0 for one in found])
        assert all(one.num_outliers <= 1 or factor < 1 for one in found) or seen[factor] <= 1
    assert seen[0.5] <= 0.2
    assert seen[2.5] == 1.0
    tops = np.mean([float(one.singular_values[0]) ** 2 for one in found])
    expected = (1 + theta**2) * (p / n + theta**2) / theta**2
    np.testing.assert_allclose(tops, expected, rtol=0.1)


def test_counted_spikes_leave_the_bulk_its_own_variance():
    """Oracle: three planted spikes beside entries of standard deviation 0.1."""
    rng = np.random.default_rng(2)
    u, v = (np.linalg.qr(rng.standard_normal((size, 3)))[0] for size in (150, 80))
    found = matrix_spectrum(0.1 * rng.standard_normal((150, 80)) + (u * [9.0, 6.0, 5.0]) @ v.T)
    assert found.num_outliers == 3
    assert not found.is_random
    np.testing.assert_allclose(found.scale, 0.1, rtol=0.03)
    np.testing.assert_allclose(found.edge, 0.1 * (150**0.5 + 80**0.5), rtol=0.03)
    squares = np.asarray(found.singular_values) ** 2
    np.testing.assert_allclose(found.energy, squares[:3].sum() / squares.sum(), rtol=1e-10)
    np.testing.assert_allclose(found.stable_rank, squares.sum() / squares[0], rtol=1e-10)


def test_orthogonal_weights_are_flat():
    """Oracle: all singular values of an orthogonal matrix are 1."""
    found = weight_spectra({"w": jax.nn.initializers.orthogonal()(jax.random.key(0), (40, 20))})
    assert found["['w']"].is_flat
    assert found["['w']"].is_random


def test_trained_weights_are_told_from_fresh_ones():
    """Oracle: gradient descent on one direction makes a spike; before there is none."""
    key = jax.random.key(3)
    x = jax.random.normal(key, (300, 40))
    y = 3 * jnp.tanh(2 * x[:, :1])
    keys = jax.random.split(key, 2)
    params = {
        "in": jax.random.normal(keys[0], (40, 60)) / 160**0.5,
        "out": jax.random.normal(keys[1], (60, 1)) / 60**0.5,
    }

    def loss(w):
        return ((jnp.tanh(x @ w["in"]) @ w["out"] - y) ** 2).mean()

    step = lambda _, w: jax.tree.map(lambda a, g: a - 0.1 * g, w, jax.grad(loss)(w))  # noqa: E731
    trained = jax.lax.fori_loop(0, 800, step, params)
    assert weight_spectra(params)["['in']"].is_random
    assert not weight_spectra(trained)["['in']"].is_random


def test_a_matrix_of_low_rank_has_no_bulk():
    """Oracle: the rank, 2; it can be drawn."""
    rng = np.random.default_rng(4)
    found = matrix_spectrum(rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40)))
    assert found.num_outliers == 2
    np.testing.assert_allclose([found.energy, found.edge + 1], 1.0, atol=1e-5)
    found.plot()


def test_tracy_widom_has_its_tabulated_quantiles():
    """Oracle: the table of Bejan (2005): F₁(0.98) = 0.95, F₁(2.02) = 0.99, F₁(−1.27) = 0.50."""
    for probability, quantile in ((0.5, -1.27), (0.9, 0.45), (0.95, 0.98), (0.99, 2.02)):
        np.testing.assert_allclose(tracy_widom_quantile(probability), quantile, atol=0.015)
        np.testing.assert_allclose(tracy_widom_tail(quantile), 1 - probability, atol=0.005)


def test_what_is_no_matrix_is_left_out():
    """Oracle: by hand; windows stand first or last."""
    params = {
        "zero": jnp.zeros((3, 3)),
        "bias": jnp.ones((1, 4)),
        "w": jnp.ones((5, 4)),
        "large": jnp.ones((7, 8)),
    }
    assert list(weight_spectra(params, largest=6)) == ["['w']"]
    kernel = np.arange(3 * 3 * 4 * 8.0).reshape(3, 3, 4, 8)
    np.testing.assert_array_equal(as_matrix(kernel), kernel.reshape(36, 8))
    first = as_matrix(np.moveaxis(kernel, (3, 2), (0, 1)))  # (out, in, *window)
    assert first is not None
    np.testing.assert_array_equal(first.sum(axis=0), kernel.reshape(36, 8).sum(axis=0))
    with pytest.raises(ValueError, match="risk must be in"):
        weight_spectra(params, risk=2.0)
