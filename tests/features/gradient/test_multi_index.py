from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from theorylab.data import MultiIndex, quadratic_index
from theorylab.features.gradient import (
    FiniteLaw,
    descend_square_loss,
    index_start,
    index_step,
    limit_share,
    quadratic_gradients,
    regress_out,
    span_share,
)


def samples(law: MultiIndex, num_samples: int) -> FiniteLaw:
    """Samples of a law with equal chances."""
    drawn = law.sample(jax.random.key(0), num_samples)
    return FiniteLaw(drawn.x, drawn.y[:, 0], jnp.full(num_samples, 1 / num_samples))


def test_the_gradient_of_a_quadratic_target_is_that_of_samples():
    """Oracle: the first step on 200,000 samples, to five standard errors of each coordinate."""
    law = quadratic_index(4, 2)
    drawn = samples(law, 200000)
    start = index_start(jax.random.key(1), width=3, dimension=4)
    moved = index_step(start, drawn, learning_rate=2.0)
    expected = 2.0 * start.outputs[:, None] * quadratic_gradients(law.hessian, start.weights)
    np.testing.assert_allclose(moved.weights, expected, atol=5 * 2 * np.sqrt(2.5 / 200000))


def test_the_first_step_is_gradient_descent_on_the_square_loss():
    """Oracle: autodiff; the output is 0 at the start, and forgetting leaves −η∇L."""
    drawn = samples(quadratic_index(3, 1), 50)
    start = index_start(jax.random.key(2), width=2, dimension=3)

    def loss(weights):
        outputs = start._replace(weights=weights)(drawn.x)
        return drawn.probabilities @ (outputs - drawn.y) ** 2 / 2

    np.testing.assert_allclose(start(drawn.x), 0.0, atol=1e-12)
    moved = index_step(start, drawn, learning_rate=0.7)
    np.testing.assert_allclose(moved.weights, -0.7 * jax.grad(loss)(start.weights), atol=1e-12)


def test_regression_takes_mean_and_slope_out():
    """Oracle: their closed forms, and the function put together again."""
    law = MultiIndex(3, ((0,), (1,), (2,)), (2.0, -1.0, 2.0))
    drawn = samples(law, 100000)
    left = regress_out(drawn)
    np.testing.assert_allclose(left.mean, law.mean, atol=0.02)
    np.testing.assert_allclose(left.slope, law.slope, atol=0.05)
    whole = left.residual + left.mean + drawn.x @ left.slope
    np.testing.assert_allclose(whole, drawn.y, atol=1e-12)


def test_noise_of_samples_leaves_the_share_that_the_limit_says():
    """Oracle: steps on drawn samples, the mean of 16 draws; it must tell r = 1 from r = 3."""
    d, n = 40, 2 * 40**2

    @partial(jax.jit, static_argnums=1)
    def share(key, r):
        keys = jax.random.split(key)
        drawn = quadratic_index(d, r).sample(keys[0], n)
        law = FiniteLaw(drawn.x, drawn.y[:, 0], jnp.full(n, 1 / n))
        law = law._replace(y=regress_out(law).residual)
        moved = index_step(index_start(keys[1], width=32, dimension=d), law, learning_rate=1.0)
        return span_share(moved.weights, jnp.eye(d)[:r])

    for r in (1, 3):
        keys = jax.random.split(jax.random.key(3), 16)
        found = np.mean([share(key, r) for key in keys])
        np.testing.assert_allclose(found, limit_share(n, d, (1.0,) * r), atol=0.03)
    assert limit_share(n, d, (1.0,) * 3) - limit_share(n, d, (1.0,)) > 0.1


def test_limit_share_is_a_closed_form_for_two_directions_and_has_its_limits():
    """Oracle: 1 − c eᶜ E₁(c); 1/(1 + c) for many directions, as S is 1 then; and both ends."""
    for n in (10, 100, 1000):
        c = np.pi * 10**2 / (4 * n)
        exact = 1 - c * np.exp(c) * special.exp1(c)
        np.testing.assert_allclose(limit_share(n, 10), exact, rtol=1e-9)
        np.testing.assert_allclose(limit_share(n, 10, (3.0,) * 4000), 1 / (1 + c), rtol=1e-3)
    np.testing.assert_allclose(limit_share(n, 10, (2.0, 1e-9)), limit_share(n, 10, (1.0,)))
    assert limit_share(1e9, 10) > 0.999
    assert limit_share(1e-5, 10) < 1e-4
    with pytest.raises(ValueError, match="curvatures not 0"):
        limit_share(10, 10, (0.0,))


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        index_start(jax.random.key(0), width=0, dimension=3)


def test_many_steps_at_once_are_gradient_descent():
    """Oracle: the steps one by one, of size 1/L on the mean square."""
    keys = jax.random.split(jax.random.key(0), 3)
    hidden, y = jax.random.normal(keys[0], (20, 3)), jax.random.normal(keys[1], (20,))
    start = jax.random.normal(keys[2], (3,))
    rate = 1 / jnp.linalg.eigvalsh(hidden.T @ hidden / 20)[-1]
    outputs = start
    for _ in range(90):
        outputs = outputs + rate * hidden.T @ (y - hidden @ outputs) / 20
    np.testing.assert_allclose(descend_square_loss(hidden, y, start, 90), outputs, rtol=1e-4)
