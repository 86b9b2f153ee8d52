"""Polynomials of low rank: moments and EGOPs in closed form against averages over many draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import low_rank_polynomial, polynomial_agop
from theorylab.data.polynomials import polynomial_moments, polynomial_teacher

RANKS = (2, 3, 4, "full")
NUM_SAMPLES, DIMENSION = 100_000, 12


@pytest.fixture(scope="module")
def inputs():
    return jax.random.normal(jax.random.key(1), (NUM_SAMPLES, DIMENSION))


@pytest.mark.parametrize("rank", RANKS)
def test_egop_is_the_mean_of_gradient_outer_products(rank, inputs):
    """Oracle: autodiff of the teacher, averaged over draws; every entry within 3 standard errors.

    Of 144 entries about 0.4 lie beyond 3 errors by chance, so a few up to 4.5 are let through.
    """

    @jax.jit
    def mean_and_error(x):
        gradients = jax.vmap(jax.grad(lambda x: polynomial_teacher(rank)(x[None])[0, 0]))(x)
        mean = gradients.T @ gradients / len(x)
        square = (gradients**2).T @ gradients**2 / len(x)
        return mean, jnp.sqrt((square - mean**2) / len(x))

    mean, error = mean_and_error(inputs)
    scores = np.abs(mean - polynomial_agop(rank, DIMENSION)) / np.maximum(error, 1e-15)
    assert np.mean(scores <= 3) >= 0.97
    assert scores.max() <= 4.5


@pytest.mark.parametrize("rank", RANKS)
def test_moments_are_those_of_many_draws(rank, inputs):
    """Oracle: mean and variance over draws, within 3 standard errors."""
    values = np.asarray(polynomial_teacher(rank)(inputs))[:, 0]
    moments = polynomial_moments(rank, DIMENSION)
    assert abs(values.mean() - moments.mean) <= 3 * values.std() / np.sqrt(NUM_SAMPLES)
    squares = (values - moments.mean) ** 2
    error = squares.std() / np.sqrt(NUM_SAMPLES)
    assert abs(squares.mean() - moments.variance) <= 3 * error


def test_full_rank_variance_nears_half_over_dimension():
    """Oracle: the limit, Var ‖x‖ → ½."""
    assert polynomial_moments("full", 10_000).variance * 10_000 == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("rank", RANKS)
def test_dataset_is_teacher_plus_noise(rank):
    """Oracle: the teacher; what is left is noise of the given size, within 4 standard errors."""
    data = low_rank_polynomial(jax.random.key(0), 5000, 10, rank, noise=0.5)
    left = np.asarray(data.y - polynomial_teacher(rank)(data.x))
    assert abs(left.mean()) < 4 * 0.5 / np.sqrt(5000)
    assert abs(left.std() - 0.5) < 4 * 0.5 / np.sqrt(2 * 5000)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="dimension must be at least 10 for rank 3, got 9"):
        low_rank_polynomial(jax.random.key(0), 5, dimension=9, rank=3)
    with pytest.raises(ValueError, match="dimension must be at least 4 for rank 4, got 3"):
        polynomial_agop(4, 3)
    with pytest.raises(ValueError, match="noise must be"):
        low_rank_polynomial(jax.random.key(0), 5, noise=-1.0)
