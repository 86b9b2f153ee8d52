"""Modes of deep linear networks, against SciPy, quadrature and the loss on data itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import hyp2f1

from theorylab.dynamics import deep_linear


@pytest.mark.parametrize("b", [-1 / 3, -1 / 2, -0.9, 0.4, 2.0])
def test_the_hypergeometric_function_is_that_of_scipy(b):
    """Oracle: scipy.special.hyp2f1, from 0 to the neighbourhood of the singularity at 1."""
    z = np.array([0.0, 1e-30, 1e-3, 0.3, 0.499999, 0.5, 0.500001, 0.8, 0.99, 1 - 1e-9])
    found = deep_linear.hypergeometric(b, jnp.asarray(z))
    np.testing.assert_allclose(found, hyp2f1(1, b, b + 1, z), rtol=2e-13)


@pytest.mark.parametrize("b", [0.0, -2.0])
def test_a_pole_of_the_hypergeometric_function_is_refused(b):
    with pytest.raises(ValueError, match="b must not be 0 or a negative integer"):
        deep_linear.hypergeometric(b, jnp.array(0.5))


@pytest.mark.parametrize("depth", [2, 3, 4, 7])
@pytest.mark.parametrize(("share", "scale"), [(0.5, 0.1), (0.99, 1e-3), (0.3, 0.6)])
def test_the_learning_time_is_the_integral_of_one_over_the_speed(depth, share, scale):
    """Oracle: ∫ du / u^(L−1)(s − u^L) from β to (αs)^(1/L), in ln u, by adaptive quadrature."""
    s = 0.8
    slowness = lambda v: np.exp(v) / deep_linear.mode_speed(np.exp(v), s, depth)  # noqa: E731
    expected, _ = quad(slowness, np.log(scale), np.log(share * s) / depth, epsrel=1e-12)
    found = deep_linear.learning_time(share, s, scale, depth)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_the_mode_of_two_layers_reaches_its_share_at_the_learning_time():
    """Oracle: the two formulas invert one another; and the mode begins at β²."""
    time = deep_linear.learning_time(0.7, 0.9, 0.05, depth=2)
    squared = deep_linear.squared_mode(jnp.stack([jnp.zeros(()), time]), 0.9, 0.05)
    np.testing.assert_allclose(squared, [0.05**2, 0.7 * 0.9], rtol=1e-12)


@pytest.mark.parametrize("depth", [3, 4])
def test_the_early_time_is_the_learning_time_of_small_modes(depth):
    """Oracle: the full formula at α = rβ^L/s; its error is of order β²."""
    r, s, beta = 20.0, 0.8, 1e-3
    exact = deep_linear.learning_time(r * beta**depth / s, s, beta, depth)
    early = deep_linear.early_time(r, s, beta, depth)
    assert abs(float(exact - early)) < 100 * beta**2 + 1e-12 * float(exact)


def network(depth, seed=0, k=2, d=3, width=4):
    keys = jax.random.split(jax.random.key(seed), 3)
    x = jax.random.normal(keys[0], (d, 20))
    white = jnp.linalg.svd(x, full_matrices=False)[2] * jnp.sqrt(20)  # X̃X̃ᵀ = 20 I
    y = jax.random.normal(keys[1], (k, 20))
    return white, y, deep_linear.random_weights(keys[2], (k, d), width, depth)


@pytest.mark.parametrize("depth", [2, 3])
def test_the_velocity_is_the_gradient_of_the_loss_on_data(depth):
    """Oracle: automatic differentiation of ‖Y − W_L⋯W₁X̃‖²/2m, in weights W = βŴ."""
    x, y, weights = network(depth)
    beta = 0.3

    def loss(layers):
        outputs = x
        for layer in layers:
            outputs = layer @ outputs
        return jnp.sum((y - outputs) ** 2) / (2 * x.shape[1])

    slopes = jax.grad(loss)([beta * layer for layer in weights])
    speeds = deep_linear.velocity(y @ x.T / x.shape[1], weights, beta)
    for slope, speed in zip(slopes, speeds, strict=True):
        np.testing.assert_allclose(-slope / beta ** (depth - 1), speed, rtol=1e-11, atol=1e-13)


def test_aligned_networks_grow_as_the_mode_does():
    """Oracles: the closed form of two layers at all readings, and their learning time."""
    target = jnp.array([[0.3, 0.6, -0.2]])
    s, beta = float(jnp.linalg.norm(target)), 0.05
    grown = deep_linear.grow(target, deep_linear.aligned_weights(target, 4, 2), beta, 20.0, 120)
    expected = deep_linear.squared_mode(grown.times, s, beta)
    np.testing.assert_allclose(grown.overlaps, expected, rtol=1e-6)
    np.testing.assert_allclose(grown.norms**2, np.stack([expected] * 2, 1), rtol=1e-6)
    time = deep_linear.crossing(grown, s / 2)
    np.testing.assert_allclose(time, deep_linear.learning_time(0.5, s, beta, 2), rtol=1e-3)


def test_the_effective_scale_of_an_aligned_start_is_its_scale():
    target = jnp.array([[0.3, 0.6], [0.1, -0.4]])
    aligned = deep_linear.aligned_weights(target, 5, 2)
    np.testing.assert_allclose(deep_linear.effective_scale(target, aligned), 1.0, rtol=1e-12)
    first, second = aligned
    orthogonal = [jnp.roll(first, 1, axis=0), second]
    found = deep_linear.effective_scale(target, orthogonal)
    np.testing.assert_allclose(found, np.sqrt(0.5), rtol=1e-12)


def test_a_level_that_is_never_passed_has_no_time():
    path = deep_linear.Growth(jnp.arange(3.0), jnp.array([0.1, 0.2, 0.4]), jnp.ones((3, 2)))
    assert np.isnan(deep_linear.crossing(path, 0.5))
    np.testing.assert_allclose(deep_linear.crossing(path, 0.2 * 2**0.5), 1.5, rtol=1e-12)


@pytest.mark.parametrize("call", [deep_linear.learning_time, deep_linear.early_time])
def test_shallow_networks_are_refused(call):
    with pytest.raises(ValueError, match="depth must be at least"):
        call(0.5, 1.0, 0.1, 1)
