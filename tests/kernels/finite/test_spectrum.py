"""What is known of a kernel without its matrix, against the matrix."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import (
    label_alignment,
    ntk,
    ntk_diagonal,
    ntk_eigenpairs,
    ntk_full,
    ntk_moments,
)
from theorylab.models import (
    Activation,
    Conv,
    Dense,
    GlobalPool,
    Serial,
    cnn,
    mlp,
    network,
    vit,
    wide_resnet,
)

MODEL = network(mlp([30], num_outputs=2, activation="tanh"), (4,), bias="normal")
PARAMS = MODEL.init(jax.random.key(0))
X = jax.random.normal(jax.random.key(1), (12, 4))
Y = jax.random.normal(jax.random.key(2), (12, 2))
KEY = jax.random.key(3)


@pytest.fixture(scope="module")
def matrix():
    """Oracle: the kernel as a matrix of nk rows."""
    return np.asarray(ntk_full(MODEL.apply, PARAMS, X)).swapaxes(1, 2).reshape(24, 24)


def test_diagonal_is_that_of_the_matrix(matrix):
    got = ntk_diagonal(MODEL.apply, PARAMS, X, batch_size=5)
    np.testing.assert_allclose(got.ravel(), np.diag(matrix), rtol=1e-12)


def test_diagonal_of_convolutions_is_that_of_the_kernel():
    """Oracle: plain Jacobians; with many positions, the other way of keeping them."""
    layers = Serial(Conv(3, (3,), padding="same"), Activation("tanh"), GlobalPool(), Dense(2))
    model = network(layers, (8, 2))
    params, x = model.init(KEY), jax.random.normal(KEY, (3, 8, 2))
    full = ntk_full(model.apply, params, x, method="jacobian")
    expected = jnp.einsum("iiaa->ia", full)
    np.testing.assert_allclose(ntk_diagonal(model.apply, params, x), expected, rtol=1e-11)


@pytest.mark.parametrize("kernel", ["mean", "full"])
def test_eigenpairs_are_those_of_either_kernel_to_the_tolerance(matrix, kernel):
    """Oracle: eigh of `ntk`, or of `ntk_full` as one matrix of nk rows."""
    dense = matrix if kernel == "full" else np.asarray(ntk(MODEL.apply, PARAMS, X))
    expected = np.linalg.eigvalsh(dense)[::-1][:3]
    call = partial(ntk_eigenpairs, MODEL.apply, PARAMS, X, 3, KEY, block_size=5, kernel=kernel)
    found = call(tolerance=1e-9)
    np.testing.assert_allclose(found.values, expected, rtol=1e-9)
    assert found.vectors.shape == ((3, 12, 2) if kernel == "full" else (3, 12))
    vectors = found.vectors.reshape(3, -1)
    np.testing.assert_allclose(vectors @ dense, found.values[:, None] * vectors, atol=1e-3)
    rough = call(budget=6)
    assert found.converged
    assert not rough.converged
    assert rough.products == 6 < found.products
    assert np.all(np.abs(rough.values - expected) <= rough.bounds)


def test_a_number_of_steps_leaves_residuals_that_bound_the_error(matrix):
    """Oracle: eigh. Fewer steps than rows; some eigenvalue is within the residual."""
    call = partial(ntk_eigenpairs, MODEL.apply, PARAMS, X, 3, KEY, kernel="full")
    rough = call(num_steps=4)
    assert float(rough.residuals[2]) > 1e-6
    assert np.all(np.isinf(rough.bounds))
    spectrum = np.linalg.eigvalsh(matrix)
    for value, residual in zip(rough.values, rough.residuals, strict=True):
        assert np.abs(spectrum - float(value)).min() <= float(residual)
    compiled = jax.jit(lambda params: ntk_eigenpairs(MODEL.apply, params, X, 3, KEY).values)
    mean = np.linalg.eigvalsh(ntk(MODEL.apply, PARAMS, X))[::-1][:3]
    np.testing.assert_allclose(compiled(PARAMS), mean, rtol=1e-9)


@pytest.mark.parametrize("kind", ["wide resnet", "vision transformer", "convolutions"])
def test_the_largest_eigenvalue_of_image_networks_is_that_of_the_jacobian(kind):
    """Oracle: the largest eigenvalue of JJᵀ, from a dense Jacobian."""
    architectures = {
        "wide resnet": wide_resnet(10, 1, base=2),
        "vision transformer": vit(1, 4, 2, 2),
        "convolutions": cnn([3], (3, 3)),
    }
    model = network(architectures[kind], (4, 4, 1))
    params, x = model.init(KEY), jax.random.normal(KEY, (9 * 16,)).reshape(9, 4, 4, 1)
    found = ntk_eigenpairs(model.apply, params, x, 1, KEY, num_steps=7)  # of nine
    jacobian = jax.jit(jax.jacrev(lambda w: model.apply(w, x).ravel()))(params)
    rows = np.concatenate([np.reshape(leaf, (9, -1)) for leaf in jax.tree.leaves(jacobian)], 1)
    assert float(found.values[0]) == pytest.approx(np.linalg.eigvalsh(rows @ rows.T)[-1], rel=1e-6)


def test_moments_lie_within_their_errors(matrix):
    """Oracle: the matrix. All directions: exact. Some: an error that shrinks and is honest."""
    square = (matrix**2).sum()
    rank = np.trace(matrix) ** 2 / square
    exact = ntk_moments(MODEL.apply, PARAMS, X, KEY, rank=30)
    assert float(exact.trace) == pytest.approx(np.trace(matrix), rel=1e-12)
    assert float(exact.square.mean) == pytest.approx(square, rel=1e-9)
    assert float(exact.effective_rank.mean) == pytest.approx(rank, rel=1e-9)
    assert float(exact.effective_rank.error) < 1e-9

    few, none = (ntk_moments(MODEL.apply, PARAMS, X, KEY, 40, r) for r in (4, 1))
    assert 0 < float(few.square.error) < float(none.square.error) < 0.2 * square
    for found in (few, none):
        assert abs(float(found.square.mean) - square) < 4 * float(found.square.error)
        assert abs(float(found.effective_rank.mean) - rank) < 4 * float(found.effective_rank.error)


def test_moments_are_taken_until_a_tolerance_is_met(matrix):
    """Oracle: the matrix; the interval is as short as asked for, and a short budget says so."""
    square = (matrix**2).sum()
    found = ntk_moments(MODEL.apply, PARAMS, X, KEY, 20, 2, tolerance=0.02)
    assert found.converged
    assert 24 < found.products == found.needed
    assert found.square_interval is not None
    low, high = map(float, found.square_interval)
    assert low <= square <= high
    assert high - low <= 2.01 * 0.02 * float(found.square.mean)
    assert float(found.trace) == pytest.approx(np.trace(matrix), rel=1e-12)
    rank = float(found.trace) ** 2 / float(found.square.mean)
    assert float(found.effective_rank.mean) == pytest.approx(rank, rel=1e-12)
    short = ntk_moments(MODEL.apply, PARAMS, X, KEY, 20, 2, tolerance=1e-3, budget=30)
    assert (short.products, short.converged) == (30, False)
    assert short.needed > 100


def test_alignment_is_the_cosine_with_the_labels(matrix):
    """Oracle: ⟨Θ, yyᵀ⟩ / (‖Θ‖ ‖yyᵀ‖); the first eigenvector is better aligned than random."""
    y = np.asarray(Y).ravel()
    expected = y @ matrix @ y / (np.linalg.norm(matrix) * (y @ y))
    call = partial(label_alignment, MODEL.apply, PARAMS, X, key=KEY)
    assert float(call(Y, rank=30).mean) == pytest.approx(expected, rel=1e-9)
    rough = call(Y, rank=4)
    assert abs(float(rough.mean) - expected) < 4 * float(rough.error) + 1e-9
    top = jnp.asarray(np.linalg.eigh(matrix)[1][:, -1].reshape(12, 2))
    values = np.linalg.eigvalsh(matrix)
    assert float(call(top, rank=30).mean) == pytest.approx(
        values[-1] / np.linalg.norm(values), rel=1e-9
    )


def test_spectra_of_tokens_and_of_outputs_that_are_reduced(matrix):
    """Oracle: the same network with its outputs and its inputs in the plain shape."""
    tree = {"left": X[:, :2], "right": X[:, 2:]}

    def on_trees(params, x):
        return MODEL.apply(params, jnp.concatenate([x["left"], x["right"]], axis=1))[:, None]

    given = (on_trees, PARAMS, tree)
    first: Any = {"outputs": lambda f: f[:, 0]}
    diagonal = ntk_diagonal(*given, **first)
    np.testing.assert_allclose(diagonal.ravel(), jnp.diag(matrix), rtol=1e-11)
    moments = ntk_moments(*given, KEY, num_probes=2, rank=24, **first)
    np.testing.assert_allclose(moments.square.mean, jnp.sum(matrix**2), rtol=1e-10)
    pairs = ntk_eigenpairs(*given, 1, KEY, num_steps=24, block_size=5, kernel="full", **first)
    np.testing.assert_allclose(pairs.values, jnp.linalg.eigvalsh(matrix)[-1:], rtol=1e-10)
    alignment = label_alignment(*given, Y, KEY, num_probes=2, rank=24, **first)
    y = Y.ravel()
    expected = y @ matrix @ y / (jnp.linalg.norm(matrix) * (y @ y))
    np.testing.assert_allclose(alignment.mean, expected, rtol=1e-10)


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match=r"num_values must be between 1 and nk = 24, got 25"):
        ntk_eigenpairs(MODEL.apply, PARAMS, X, 25, KEY, kernel="full")
    with pytest.raises(ValueError, match=r"and n = 12 and num_steps = 3, got 4"):
        ntk_eigenpairs(MODEL.apply, PARAMS, X, 4, KEY, num_steps=3)
    with pytest.raises(ValueError, match=r"num_probes must be at least 2 .* got 1 and 10"):
        ntk_moments(MODEL.apply, PARAMS, X, KEY, num_probes=1)
    with pytest.raises(ValueError, match=r"shape of the outputs, \(12, 2\), got \(12, 1\)"):
        label_alignment(MODEL.apply, PARAMS, X, Y[:, :1], KEY)
    for measure in (partial(ntk_eigenpairs, num_values=1), ntk_moments):
        with pytest.raises(ValueError, match=r"shape \(n, k\) for 12 inputs, got \(12,\)"):
            measure(lambda w, x: MODEL.apply(w, x)[:, 0], PARAMS, X, key=KEY)
