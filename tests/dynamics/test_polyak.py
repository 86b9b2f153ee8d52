"""The Polyak–Łojasiewicz condition: identities, a linear model, moments of random networks."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics import (
    batch_noise,
    descent_bound,
    drift_bound,
    gradient_bound,
    polyak_ratio,
    relu_gradient_square,
    stochastic_rate,
)


def test_ratio_and_bound_on_a_linear_model():
    """Oracle: f = Aw has K = AAᵀ; every step of descent by hand; (1 − ηλ)² ≤ 1 − ηλ."""
    a = np.array([[2.0, 0.0], [1.0, 1.0]])
    kernel, y, w = a @ a.T, np.array([1.0, -2.0]), np.zeros(2)
    low, high = np.linalg.eigvalsh(kernel)
    losses = []
    for _ in range(10):
        residual = a @ w - y
        loss, gradient = residual @ residual / 2, a.T @ residual
        assert low <= polyak_ratio(float(gradient @ gradient), float(loss)) <= high
        losses.append(loss)
        w = w - gradient / high
    bounds = descent_bound(losses[0], float(1 / high), float(low), np.arange(10))
    assert (losses <= bounds * (1 + 1e-12)).all()
    assert descent_bound(8.0, 0.5, 1.0, np.array([2.0])).tolist() == [2.0]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_mean_loss_after_a_batch_is_that_over_all_batches(size):
    """Oracle: f = Aw with K = AAᵀ, and every batch of the four examples by hand."""
    rng = np.random.default_rng(size)
    a, w, y, rate = rng.normal(size=(4, 6)), rng.normal(size=6), rng.normal(size=4), 0.07
    kernel, residual, losses = a @ a.T, a @ w - y, []
    for batch in map(list, combinations(range(4), size)):
        after = w - rate * 4 / size * a[batch].T @ residual[batch]
        losses.append(np.sum((a @ after - y) ** 2) / 2)
    noise = np.asarray(batch_noise(jnp.asarray(kernel), size))
    expected = residual @ (np.eye(4) - 2 * rate * kernel + rate**2 * noise) @ residual / 2
    np.testing.assert_allclose(np.mean(losses), expected, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_the_rate_of_sgd_is_the_largest_with_its_bound(size):
    """Oracle: K − ηV is positive semi-definite with a zero there; 1/λ_max for all examples."""
    a = np.random.default_rng(0).normal(size=(5, 9))
    kernel = a @ a.T
    rate = float(stochastic_rate(jnp.asarray(kernel), size))
    rest = np.linalg.eigvalsh(kernel - rate * np.asarray(batch_noise(jnp.asarray(kernel), size)))
    low, high = np.linalg.eigvalsh(kernel)[[0, -1]]
    assert abs(rest[0]) < 1e-12 * high
    if size == 5:
        np.testing.assert_allclose(rate, 1 / high, rtol=1e-12)
    noise = np.asarray(batch_noise(jnp.asarray(kernel), size))
    worst = np.linalg.eigvalsh(np.eye(5) - 2 * rate * kernel + rate**2 * noise)[-1]
    assert worst <= 1 - rate * low + 1e-12


def test_eigenvalues_drift_no_further_than_their_bound():
    """Oracle: f(w) = Aw + ½ wᵀBw by hand, with sup ‖∇²f‖ = max ‖B‖; and a case that is sharp."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 7)), 0.1 * rng.normal(size=(3, 7, 7))
    b = b + b.transpose(0, 2, 1)
    curvature, first = np.linalg.norm(b, 2, axis=(1, 2)).max(), np.linalg.svd(a)[1]
    for _ in range(20):
        w = rng.normal(size=7)
        drift = np.abs(np.linalg.svd(a + b @ w)[1] - first)
        assert drift.max() <= drift_bound(curvature, np.linalg.norm(w), 3)
    # n equal examples whose gradient u shrinks along itself: √λ = √n (1 − R/2).
    unit = np.array([0.6, 0.8])
    rows = np.tile(unit - 0.5 * np.outer(unit, unit) @ unit, (4, 1))
    moved = 2 - np.linalg.norm(rows, 2)
    np.testing.assert_allclose(moved, drift_bound(0.5, 1.0, 4), rtol=1e-12)


@pytest.mark.parametrize(("c", "r", "expected"), [(0.5, 1, 2**-3), (2.0, 2, 1.0), (0.5, 2, 2**-7)])
def test_gradient_bound_by_hand(c, r, expected):
    assert gradient_bound(c, 3, float(r)) == expected


def test_relu_gradient_square_by_monte_carlo():
    """Oracle: 4000 networks of three layers, width 6; within 4 standard errors."""

    def square(key):
        draws = jax.random.normal(key, (3 + 18 + 36 + 6,))

        def output(w):
            one = jax.nn.relu(draws[:3] @ w[:18].reshape(3, 6) / jnp.sqrt(3.0))
            two = jax.nn.relu(one @ w[18:54].reshape(6, 6) / jnp.sqrt(6.0))
            return two @ w[54:] / jnp.sqrt(6.0)

        return jnp.sum(jax.grad(output)(draws[3:]) ** 2)

    squares = np.asarray(jax.jit(jax.vmap(square))(jax.random.split(jax.random.key(0), 4000)))
    error = squares.std() / np.sqrt(4000)
    assert abs(squares.mean() - relu_gradient_square(3)) < 4 * error
    assert relu_gradient_square(3) >= gradient_bound(0.5, 3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gradient_bound(0.0, 2), "second_moment must be positive, got 0.0"),
        (lambda: gradient_bound(0.5, 0), "depth must be at least 1, got 0"),
        (lambda: gradient_bound(0.5, 2, 0.5), "degree must be at least 1"),
        (lambda: relu_gradient_square(0), "depth must be at least 1, got 0"),
        (lambda: batch_noise(jnp.ones((1, 1)), 1), "at least 2 examples, got 1"),
    ],
)
def test_bad_numbers_are_told(make, words):
    with pytest.raises(ValueError, match=words):
        make()
