"""The Polyak–Łojasiewicz condition: identities, a linear model, moments of random networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics import descent_bound, gradient_bound, polyak_ratio, relu_gradient_square


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
        (lambda: gradient_bound(0.5, 0), "num_layers must be at least 1, got 0"),
        (lambda: gradient_bound(0.5, 2, 0.5), "degree must be at least 1"),
        (lambda: relu_gradient_square(0), "num_layers must be at least 1, got 0"),
    ],
)
def test_bad_numbers_are_told(make, words):
    with pytest.raises(ValueError, match=words):
        make()
