"""The decomposition against Jacobians by autodiff, and the step in function space."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import Dataset
from theorylab.dynamics import (
    decompose,
    decomposition,
    kernel_matrix,
    projected_losses,
    top_modes,
)
from theorylab.models import mlp, network, quadratize
from theorylab.training import logistic, squared

MODEL = network(mlp([6], num_outputs=2, activation="tanh"), (3,))
LOSS = squared("mean")


@pytest.fixture(scope="module")
def params():
    return MODEL.init(jax.random.key(0))


@pytest.fixture(scope="module")
def data():
    x = jax.random.normal(jax.random.key(1), (4, 3))
    return Dataset(x, jax.random.normal(jax.random.key(2), (4, 2)), "noise", "random numbers")


def test_parts_are_those_of_the_singular_vectors_of_the_jacobian(params, data):
    """Oracle: SVD of the nk × p Jacobian; with two outputs, top s means 2s directions."""
    tree = jax.jacobian(lambda w: MODEL.apply(w, data.x).ravel())(params)
    jacobian = np.concatenate([leaf.reshape(8, -1) for leaf in jax.tree.leaves(tree)], axis=1)
    left, singular, _ = np.linalg.svd(jacobian, full_matrices=False)
    residual = np.asarray(MODEL.apply(params, data.x) - data.y).ravel()
    along = (left.T @ residual) ** 2 / 4

    parts = decompose(MODEL.apply, params, data, LOSS, (1, 3, 4))
    np.testing.assert_allclose(parts.kernel_norm, singular[0] ** 2, rtol=1e-10)
    np.testing.assert_allclose(
        parts.top, [along[:2].sum(), along[:6].sum(), along.sum()], rtol=1e-8
    )
    np.testing.assert_allclose(parts.loss, LOSS(MODEL.apply(params, data.x), data.y), rtol=1e-12)
    np.testing.assert_allclose(parts.top[-1], parts.loss, rtol=1e-10)  # all directions: all of it


def test_lanczos_gives_the_same_parts(params, data, monkeypatch):
    """Oracle: the formed kernel."""
    formed = decompose(MODEL.apply, params, data, LOSS, (1, 2))
    monkeypatch.setattr(decomposition, "_LARGEST_MATRIX", 7)
    free = decompose(MODEL.apply, params, data, LOSS, (1, 2))
    np.testing.assert_allclose(free.top, formed.top, rtol=1e-7)
    np.testing.assert_allclose(free.kernel_norm, formed.kernel_norm, rtol=1e-10)


def test_a_step_of_descent_in_function_space_has_half_the_hessian(params, data):
    """Identity for the quadratic model: f′ − y = (I − ηcK)(f − y) + ½ dᵀ∇²f d."""
    apply = quadratize(MODEL.apply, params)
    rate, c = 0.7, LOSS.curvature(4, 2)
    gradient = jax.grad(lambda w: LOSS(apply(w, data.x), data.y))(params)
    step = jax.tree.map(lambda g: -rate * g, gradient)
    moved = jax.tree.map(jnp.add, params, step)

    def along(w):
        return jax.jvp(lambda w: MODEL.apply(w, data.x), (w,), (step,))[1]

    second = jax.jvp(along, (params,), (step,))[1].ravel()
    residual = (MODEL.apply(params, data.x) - data.y).ravel()
    kernel = kernel_matrix(MODEL.apply, params, data.x)
    expected = residual - rate * c * kernel @ residual + second / 2
    actual = (apply(moved, data.x) - data.y).ravel()
    np.testing.assert_allclose(actual, expected, rtol=1e-10)
    assert jnp.abs(second).max() > 1e-3 * jnp.abs(actual).max()  # so that ½ counts


def test_a_residual_along_one_eigenvector_lies_there(params, data):
    """Closed form: f − y = 3u₂ has the loss 9/n, none of it in u₁."""
    _, vectors = top_modes(MODEL.apply, params, data.x, 2)
    one = network(mlp([5]), (3,))
    _, vectors = top_modes(one.apply, one.init(jax.random.key(0)), data.x, 3)
    parts = projected_losses(vectors, 3 * vectors[1][:, None], LOSS, (1, 2, 3))
    np.testing.assert_allclose(parts, [0, 9 / 4, 9 / 4], atol=1e-12)


class Pair(NamedTuple):
    """Inputs and targets that no `Dataset` would take."""

    x: Any
    y: Any


def test_bad_input_is_refused(params, data):
    with pytest.raises(ValueError, match=r"sizes must be from 1 to n = 4, got \(1, 5\)"):
        decompose(MODEL.apply, params, data, LOSS, (1, 5))
    with pytest.raises(ValueError, match="only the squared loss is a sum over modes, not logistic"):
        decompose(MODEL.apply, params, data, logistic("mean"))
    for y in (data.y[:, 0], data.y[:1, :1]):
        with pytest.raises(ValueError, match=r"y of the same shape, got"):
            decompose(MODEL.apply, params, Pair(data.x, y), LOSS)
