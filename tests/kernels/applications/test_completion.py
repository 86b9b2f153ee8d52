import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels
from theorylab.kernels.applications.completion import complete, entry_kernel, soft_impute
from theorylab.models import mlp


@pytest.fixture(scope="module")
def task():
    keys = jax.random.split(jax.random.key(0), 3)
    features = jax.random.normal(keys[0], (7, 4))
    kernel = infinite_kernels(mlp([1, 1]), features).ntk
    values = jax.random.normal(keys[1], (5, 7))
    observed = jax.random.bernoulli(keys[2], 0.6, (5, 7))
    return kernel, values, observed


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_rows_apart_are_the_regression_on_all_entries(task, ridge):
    """Oracle: one kernel regression with the kernel of entries, solved densely by NumPy."""
    kernel, values, observed = task
    rows, columns = np.nonzero(np.asarray(observed))
    every = np.indices(values.shape).reshape(2, -1)
    m = len(rows)
    gram = entry_kernel(
        kernel,
        jnp.asarray(np.concatenate([rows, every[0]])),
        jnp.asarray(np.concatenate([columns, every[1]])),
    )
    known = np.asarray(values)[rows, columns]
    predicted = gram[m:, :m] @ np.linalg.solve(gram[:m, :m] + ridge * np.eye(m), known)
    found = complete(kernel, values, observed, ridge)
    np.testing.assert_allclose(np.ravel(found), predicted, rtol=1e-8, atol=1e-10)


def test_without_ridge_observed_entries_stay(task):
    kernel, values, observed = task
    found = complete(kernel, values, observed)
    np.testing.assert_allclose(found[observed], values[observed], rtol=1e-9)


def test_unobserved_values_do_not_matter(task):
    kernel, values, observed = task
    other = jnp.where(observed, values, 1e3)
    np.testing.assert_array_equal(
        complete(kernel, values, observed), complete(kernel, other, observed)
    )


def test_a_row_without_observations_is_zero(task):
    kernel, values, _ = task
    nothing = jnp.zeros(values.shape, bool)
    np.testing.assert_array_equal(complete(kernel, values, nothing), np.zeros(values.shape))


def test_soft_impute_meets_its_optimality_condition():
    """Oracle: 0 ∈ ∂: the residual G on observed entries has ‖G‖ ≤ τ and UᵀGV = τI on M's span."""
    keys = jax.random.split(jax.random.key(1), 3)
    values = jax.random.normal(keys[0], (8, 3)) @ jax.random.normal(keys[1], (3, 9))
    observed = jax.random.bernoulli(keys[2], 0.7, values.shape)
    threshold = 0.8
    matrix = soft_impute(values, observed, threshold, num_steps=3000)
    residual = np.where(observed, values - matrix, 0.0)
    left, singular, right = np.linalg.svd(matrix)
    rank = int(np.sum(singular > 1e-6))
    assert 0 < rank < 8
    assert np.linalg.norm(residual, 2) <= threshold * (1 + 1e-6)
    inner = left[:, :rank].T @ residual @ right[:rank].T
    np.testing.assert_allclose(inner, threshold * np.eye(rank), atol=1e-5)


def test_bad_shapes_are_refused(task):
    kernel, values, observed = task
    with pytest.raises(ValueError, match=r"kernel must be \(d, d\)"):
        complete(kernel[:3, :3], values, observed)
    with pytest.raises(ValueError, match="one shape"):
        soft_impute(values, observed[:2], 1.0)
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        soft_impute(values, observed, 1.0, num_steps=0)
