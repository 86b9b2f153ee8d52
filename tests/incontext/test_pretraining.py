import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.incontext import Pretraining, optimal_loss, population_loss, pretrain
from theorylab.incontext.pretraining import minimize_population_loss, principal_angle

SPECTRUM = np.array([2.0, 1.0, 0.2])


def test_bfgs_finds_the_closed_form():
    """Oracle: Theorem 5.4.1, at every rank; and no rank below the best finds less."""
    covariance, rng = np.diag(SPECTRUM), np.random.default_rng(0)
    for rank in (1, 2, 3):
        found = minimize_population_loss(covariance, 8, rank, 0.5 * rng.normal(size=(2, rank, 3)))
        expected = optimal_loss(jnp.asarray(covariance), 8, rank)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_training_on_prompts_comes_near_the_optimum_and_its_directions():
    covariance = jnp.diag(jnp.asarray(SPECTRUM))
    recipe = Pretraining(num_steps=400, batch_size=64, num_examples=8, learning_rate=0.05)
    factors = jax.jit(lambda key: pretrain(key, 2, covariance, recipe))(jax.random.key(0))
    excess = population_loss(factors.matrix, covariance, 8) - optimal_loss(covariance, 8, 2)
    assert 0 < excess < 0.03
    assert principal_angle(factors.keys, covariance) < 0.2


def test_angles_are_those_of_a_turned_plane():
    turned = jnp.array([[jnp.cos(0.3), 0.0, jnp.sin(0.3)], [0.0, 2.0, 0.0]])
    assert abs(principal_angle(turned, jnp.diag(jnp.asarray(SPECTRUM))) - 0.3) < 1e-12


def test_bad_recipes_are_refused():
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        Pretraining(num_steps=0)
    with pytest.raises(ValueError, match="learning_rate must be positive, got 0"):
        Pretraining(learning_rate=0.0)
