import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.incontext import (
    optimal_loss,
    optimal_matrix,
    population_loss,
    predictions,
    rank_risk,
    regression_prompts,
    task_risk,
)
from theorylab.incontext.linear_risk import approximate_rank_risk, gamma, rank_gap

N, M = 7, 5


@pytest.fixture(scope="module")
def law():
    """A covariance in a random basis, a task, and a matrix that commutes with nothing."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    spectrum = np.array([2.0, 1.0, 0.6, 0.2])
    covariance = basis @ np.diag(spectrum) @ basis.T
    return (
        jnp.asarray(covariance),
        jnp.asarray(spectrum),
        jnp.asarray(basis),
        jnp.asarray(rng.normal(size=4)),
        jnp.asarray(0.3 * rng.normal(size=(4, 4))),
    )


def within(samples, expected, errors=4):
    return abs(samples.mean() - expected) < errors * samples.std() / np.sqrt(len(samples))


def test_losses_are_those_of_sampled_prompts(law):
    """Oracle: Monte Carlo over 40,000 prompts, four standard errors; with noise in the labels."""
    covariance, _, _, weights, matrix = law
    prompts = regression_prompts(jax.random.key(1), 40000, N, covariance, 3.0)
    errors = np.asarray(predictions(matrix, prompts) - prompts.target) ** 2
    assert within(errors / 2, population_loss(matrix, covariance, N, 3.0))
    assert not within(errors / 2, population_loss(matrix, covariance, N, 0.0))
    prompts = regression_prompts(jax.random.key(2), 40000, N, covariance, 3.0, weights)
    errors = np.asarray(predictions(matrix, prompts) - prompts.target) ** 2
    assert within(errors, task_risk(matrix, weights, covariance, N, 3.0))
    assert not within(errors, task_risk(matrix, weights, covariance, N, 0.0))


def test_the_risk_of_turned_labels_is_that_of_sampled_prompts(law):
    """Oracle: Monte Carlo, as above; each label is turned round with probability 0.3."""
    covariance, _, _, weights, matrix = law
    prompts = regression_prompts(jax.random.key(3), 40000, N, covariance, 3.0, weights)
    signs = np.where(np.random.default_rng(1).random(prompts.y.shape) < 0.3, -1.0, 1.0)
    prompts = prompts._replace(y=prompts.y * signs)
    errors = np.asarray(predictions(matrix, prompts) - prompts.target) ** 2
    assert within(errors, task_risk(matrix, weights, covariance, N, 3.0, flipped=0.3))
    assert not within(errors, task_risk(matrix, weights, covariance, N, 3.0))


def test_the_mean_risk_of_tasks_is_twice_the_loss(law):
    """Oracle: w ~ N(0, I) has E wᵀCw = tr C, the sum over coordinate vectors."""
    covariance, _, _, _, matrix = law
    risks = sum(task_risk(matrix, row, covariance, N) for row in jnp.eye(4))
    np.testing.assert_allclose(risks, 2 * population_loss(matrix, covariance, N), rtol=1e-12)


def test_the_loss_is_its_gap_above_the_least(law):
    """Oracle: the source's (D.4), with matrix roots by eigenvectors."""
    covariance, _, _, _, matrix = law
    great = gamma(covariance, N)

    def root(symmetric):
        values, vectors = np.linalg.eigh(symmetric)
        return (vectors * np.sqrt(values)) @ vectors.T

    inner = root(covariance) @ matrix @ root(covariance) - covariance @ np.linalg.inv(great)
    gap = 0.5 * np.linalg.norm(root(great) @ inner) ** 2
    least = optimal_loss(covariance, N, 4)
    np.testing.assert_allclose(population_loss(matrix, covariance, N), least + gap, rtol=1e-12)
    np.testing.assert_allclose(optimal_matrix(covariance, N, 4), np.linalg.inv(great), rtol=1e-10)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_the_theorem_is_the_general_risk_at_the_optimum(law, rank):
    """Oracle: `task_risk`, which knows no eigenbasis; and the loss of the optimal matrix."""
    covariance, spectrum, basis, weights, _ = law
    matrix = optimal_matrix(covariance, N, rank)
    general = task_risk(matrix, basis @ weights, covariance, M, 0.7)
    np.testing.assert_allclose(rank_risk(spectrum, weights, rank, N, M, 0.7), general, rtol=1e-12)
    found = population_loss(matrix, covariance, N)
    np.testing.assert_allclose(found, optimal_loss(covariance, N, rank), rtol=1e-12)


def test_the_gap_of_two_ranks_is_the_difference_of_their_risks(law):
    _, spectrum, _, weights, _ = law
    weights = weights.at[2:].set(0.0)
    large, small = (rank_risk(spectrum, weights, rank, N, M, 0.7) for rank in (4, 2))
    np.testing.assert_allclose(
        rank_gap(spectrum, weights, (2, 4), N, M, 0.7), large - small, rtol=1e-12
    )
    assert large > small


def test_the_approximation_is_the_limit_of_long_pretraining(law):
    _, spectrum, _, weights, _ = law
    exact = rank_risk(spectrum, weights, 3, 1e9, M, 0.7)
    np.testing.assert_allclose(
        approximate_rank_risk(spectrum, weights, 3, M, 0.7), exact, rtol=1e-7
    )


def test_bad_ranks_are_refused(law):
    covariance, spectrum, _, weights, _ = law
    with pytest.raises(ValueError, match="rank must be between 0 and the dimension 4, got 5"):
        optimal_matrix(covariance, N, 5)
    with pytest.raises(ValueError, match="ranks must not fall, got"):
        rank_gap(spectrum, weights, (3, 2), N, M)
