"""Critical learning rates against Jacobians, dense Hessians and descent itself."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.data import Dataset
from theorylab.dynamics import (
    critical,
    critical_learning_rate,
    exact_critical_learning_rate,
    kernel_matrix,
    top_kernel_eigenvalue,
)
from theorylab.models import mlp, network
from theorylab.training import cross_entropy, logistic, squared

MODEL = network(mlp([7], num_outputs=2, activation="tanh"), (3,))
NORMALIZATIONS = ("half_sum", "sum", "mean", "half_mean", "mean_entries")


@pytest.fixture(scope="module")
def params():
    return MODEL.init(jax.random.key(0))


@pytest.fixture(scope="module")
def batch():
    x = jax.random.normal(jax.random.key(1), (4, 3))
    y = jax.random.normal(jax.random.key(2), (4, 2))
    return Dataset(x, y, "noise", "random numbers")


@pytest.fixture(scope="module")
def jacobian(params, batch):
    """J (nk, p) by autodiff, rows in the order of `f.ravel()`."""
    tree = jax.jacobian(lambda w: MODEL.apply(w, batch.x).ravel())(params)
    return np.concatenate([leaf.reshape(8, -1) for leaf in jax.tree.leaves(tree)], axis=1)


def test_the_kernel_is_one_matrix_in_the_order_of_the_outputs(params, batch, jacobian):
    np.testing.assert_allclose(
        kernel_matrix(MODEL.apply, params, batch.x), jacobian @ jacobian.T, rtol=1e-10, atol=1e-12
    )


def test_both_rates_agree_where_the_network_fits(params, batch, jacobian):
    """Oracle: with y = f the Hessian is c JᵀJ, whatever the loss is divided by; J by autodiff."""
    fitted = Dataset(batch.x, MODEL.apply(params, batch.x), "fits", "the network")
    top = np.linalg.norm(jacobian, 2) ** 2
    for normalization, s in zip(NORMALIZATIONS, (1 / 2, 1, 1 / 4, 1 / 8, 1 / 8), strict=True):
        loss = squared(normalization)
        rate = critical_learning_rate(MODEL.apply, params, fitted, loss)
        np.testing.assert_allclose(rate, 2 / (2 * s * top), rtol=1e-10)
    loss = squared(NORMALIZATIONS[-1])
    rate = critical_learning_rate(MODEL.apply, params, fitted, loss)
    exact = exact_critical_learning_rate(MODEL.apply, params, fitted, loss, jax.random.key(3))
    np.testing.assert_allclose(exact, rate, rtol=1e-8)


@pytest.mark.parametrize("loss", [squared("mean"), cross_entropy("mean")])
def test_the_exact_rate_is_that_of_the_dense_hessian(params, batch, loss):
    """Oracle: all eigenvalues of the p × p Hessian; the largest, with its sign."""
    flat, unravel = ravel_pytree(params)
    y = jax.nn.softmax(batch.y)

    def objective(flat):
        return loss(MODEL.apply(unravel(flat), batch.x), y)

    dense = np.linalg.eigvalsh(jax.hessian(objective)(flat))
    data = Dataset(batch.x, y, "noise", "random numbers")
    rate = exact_critical_learning_rate(MODEL.apply, params, data, loss, jax.random.key(3), 35)
    np.testing.assert_allclose(rate, 2 / dense[-1], rtol=1e-8)


def test_descent_of_a_linear_model_turns_at_the_critical_rate():
    """Oracle: ten steps of gradient descent just below shrink the top mode, just above grow it."""
    x = jax.random.normal(jax.random.key(4), (6, 2))
    data = Dataset(x, jnp.zeros((6, 1)), "zero", "made up")
    loss, line = squared("mean"), lambda w, x: x @ w
    rate = critical_learning_rate(line, jnp.zeros((2, 1)), data, loss)
    top = jnp.linalg.eigh(x.T @ x)[1][:, -1:]
    for factor, grows in [(0.99, False), (1.01, True)]:
        w = top
        for _ in range(10):
            w = w - factor * rate * jax.grad(lambda w: loss(line(w, x), data.y))(w)
        assert (jnp.linalg.norm(w) > 1) == grows


def test_large_kernels_are_not_formed(params, batch, monkeypatch):
    """Oracle: the formed kernel. Lanczos takes over beyond a number of rows."""
    formed = top_kernel_eigenvalue(MODEL.apply, params, batch.x)
    monkeypatch.setattr(critical, "_LARGEST_MATRIX", 7)
    monkeypatch.setattr(critical, "kernel_matrix", None)  # would fail if it were called
    np.testing.assert_allclose(top_kernel_eigenvalue(MODEL.apply, params, batch.x), formed)


def test_without_positive_curvature_every_rate_is_below_the_critical_one():
    """L = log(1 + e^(−wx)) has curvature; at w x = 10³ it is 0 to rounding."""
    data = Dataset(jnp.full((1, 1), 1e3), jnp.ones((1, 1)), "far", "made up")
    args = (lambda w, x: x @ w, jnp.ones((1, 1)), data, logistic("mean"), jax.random.key(0))
    assert jnp.isinf(exact_critical_learning_rate(*args, num_products=1))


def test_labels_of_the_wrong_shape_and_other_losses_are_refused(params, batch):
    wrong = Dataset(batch.x, batch.y[:, :1], "one label", "noise")
    with pytest.raises(ValueError, match=r"targets must have the shape \(4, 2\)"):
        critical_learning_rate(MODEL.apply, params, wrong, squared("mean"))
    with pytest.raises(ValueError, match="exact_critical_learning_rate takes every loss"):
        critical_learning_rate(MODEL.apply, params, batch, logistic("mean"))
    with pytest.raises(ValueError, match=r"of shape \(n, k\) for 4 inputs, got"):
        top_kernel_eigenvalue(lambda w, x: x @ w, jnp.ones(3), batch.x)


def test_batch_statistics_are_refused():
    """A network that subtracts the mean of its batch has no tangent kernel: it would come out 0."""
    centred = lambda w, x: (x - x.mean(axis=0, keepdims=True)) @ w  # noqa: E731
    pair = (jnp.arange(6.0).reshape(3, 2), jnp.zeros((3, 1)))
    with pytest.raises(ValueError, match="every input by itself"):
        critical_learning_rate(centred, jnp.ones((2, 1)), pair, squared("mean"))
    rate = exact_critical_learning_rate(
        centred, jnp.ones((2, 1)), pair, squared("mean"), jax.random.key(0)
    )
    assert jnp.isfinite(rate)  # of the loss of a whole batch it is defined


def test_tokens_and_outputs_at_every_position_are_taken():
    """Oracle: the same network on a plain array, with outputs (n, k)."""
    table = jax.random.normal(jax.random.key(0), (5, 3))
    weights, ids = {"table": table, "out": jnp.ones((3, 2))}, jnp.array([[0, 3], [1, 1], [4, 2]])
    tree, y, loss = {"ids": ids, "keep": ids > 0}, jnp.zeros((3, 2)), squared("mean")

    def network(w, x):
        return jnp.tanh(w["table"][x["ids"]]) @ w["out"] * x["keep"][:, :, None]

    plain = lambda w, x: network(w, {"ids": x, "keep": x > 0})[:, -1]  # noqa: E731
    last, key = lambda f: f[:, -1], jax.random.key(1)
    found = critical_learning_rate(network, weights, (tree, y), loss, outputs=last)
    expected = critical_learning_rate(plain, weights, (ids, y), loss)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    found = exact_critical_learning_rate(network, weights, (tree, y), loss, key, outputs=last)
    expected = exact_critical_learning_rate(plain, weights, (ids, y), loss, key)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_loss_by_name_a_triple_and_a_number_for_a_key_are_told(params, batch):
    """Without the annotations, which would refuse them, too."""
    by_kernel: Any = inspect.unwrap(critical_learning_rate)
    exact: Any = inspect.unwrap(exact_critical_learning_rate)
    loss, pair = squared("mean"), (batch.x, batch.y)
    for measure, end in ((by_kernel, ()), (exact, (jax.random.key(0),))):
        with pytest.raises(TypeError, match=r"loss must be a Loss .* got 'squared'"):
            measure(MODEL.apply, params, pair, "squared", *end)
        with pytest.raises(TypeError, match=r"a pair \(x, y\) .* got a tuple of 3"):
            measure(MODEL.apply, params, (*pair, batch.y), loss, *end)
    with pytest.raises(TypeError, match=r"key must be a random key, .* got 0"):
        exact(MODEL.apply, params, pair, loss, 0)
