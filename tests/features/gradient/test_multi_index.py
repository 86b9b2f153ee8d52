import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import MultiIndex, quadratic_index
from theorylab.features.gradient import (
    FiniteLaw,
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
    """Oracle: the exact gradient with independent noise of variance ½/n, in many dimensions."""
    d, n = 200, 2 * 200**2
    law = quadratic_index(d, 2)
    start = index_start(jax.random.key(3), width=200, dimension=d)
    noise = jax.random.normal(jax.random.key(4), start.weights.shape) * np.sqrt(0.5 / n)
    weights = quadratic_gradients(law.hessian, start.weights) + noise
    inside = (weights[:, :2] ** 2).sum() / (weights**2).sum()
    np.testing.assert_allclose(inside, limit_share(n, d), atol=0.03)
    share = span_share(weights, jnp.eye(d)[:2])
    assert 0.4 < float(share) < float(inside)  # short gradients have more noise


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        index_start(jax.random.key(0), width=0, dimension=3)
