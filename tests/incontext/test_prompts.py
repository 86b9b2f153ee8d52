import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.incontext import parity_prompts, regression_prompts
from theorylab.incontext.prompts import parity_tasks


def test_regression_prompts_have_the_covariance_and_the_noise():
    """Oracle: the law itself, Λ and σ², over 4,000 examples; a singular Λ is allowed."""
    covariance = jnp.array([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    weights = jnp.array([1.0, -2.0, 3.0])
    prompts = regression_prompts(jax.random.key(0), 1000, 4, covariance, 0.5, weights)
    x = np.asarray(prompts.x).reshape(-1, 3)
    assert np.abs(x.T @ x / len(x) - covariance).max() < 5 * 2 * np.sqrt(2 / len(x))
    residual = np.asarray(prompts.y - prompts.x @ weights)
    assert abs(residual.var() - 0.25) < 5 * 0.25 * np.sqrt(2 / residual.size)
    np.testing.assert_allclose(prompts.target, prompts.query @ weights, rtol=1e-12, atol=1e-12)


def test_tasks_of_regression_differ_between_prompts_and_not_inside():
    prompts = regression_prompts(jax.random.key(1), 5, 4, jnp.eye(2))
    found = np.stack([np.linalg.lstsq(x, y)[0] for x, y in zip(prompts.x, prompts.y, strict=True)])
    np.testing.assert_allclose(np.sum(found * prompts.query, axis=1), prompts.target, rtol=1e-9)
    assert np.std(found[:, 0]) > 0.1


def test_parity_prompts_have_the_pair_law():
    """Oracle: the four probabilities, and E[yφ] = 2γ on the pair and 0 elsewhere."""
    gamma, tasks = 0.1, jnp.tile(jnp.array([[1, 3]]), (2000, 1))
    prompts = parity_prompts(jax.random.key(0), tasks, 9, 5, gamma)
    x, y = np.asarray(prompts.x).reshape(-1, 5), np.asarray(prompts.y).ravel()
    error = 5 / np.sqrt(len(x))
    np.testing.assert_array_equal(y, x[:, 1] * x[:, 3])
    np.testing.assert_array_equal(prompts.target, prompts.query[:, 1] * prompts.query[:, 3])
    expected = {(1, 1): 0.35, (1, -1): 0.25, (-1, 1): 0.25, (-1, -1): 0.15}
    for (one, other), probability in expected.items():
        assert abs(np.mean((x[:, 1] == one) & (x[:, 3] == other)) - probability) < error
    np.testing.assert_allclose((y[:, None] * x).mean(axis=0), [0, 0.2, 0, 0.2, 0], atol=error)
    turned = parity_prompts(jax.random.key(0), tasks, 9, 5, gamma, flipped=1.0)
    np.testing.assert_array_equal(turned.y, -prompts.y)
    np.testing.assert_array_equal(turned.target, prompts.target)


def test_tasks_of_parity_are_frequent_pairs_or_rare_ones():
    tasks = np.asarray(parity_tasks(jax.random.key(0), 4000, 6, 3, rare=0.25))
    assert (tasks[:, 0] != tasks[:, 1]).all()
    rare = (tasks >= 3).any(axis=1).mean()
    assert abs(rare - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda key: regression_prompts(key, 3, 0, jnp.eye(2)), "num_examples must be at least 1"),
        (lambda key: regression_prompts(key, 0, 3, jnp.eye(2)), "num_prompts must be at least 1"),
        (lambda key: parity_tasks(key, 3, 4, 1), "num_frequent must be between 2 and"),
        (lambda key: parity_tasks(key, 0, 4, 2), "num_tasks must be at least 1"),
    ],
)
def test_bad_sizes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(jax.random.key(0))
