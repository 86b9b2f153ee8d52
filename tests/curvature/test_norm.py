from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.curvature import block, output_hessian, spectral_norm
from theorylab.models import mlp, network

WIDTH, DIMENSION = 12, 5
KEY = jax.random.key(0)
X = jax.random.normal(jax.random.key(1), (DIMENSION,))


@partial(jax.jit, static_argnums=0)
def norm_of_two_layers(activation, key, x):
    """Parameters (2-layer network, NTK scaling, no bias) and ‖H_f‖ by Lanczos."""
    model = network(mlp([WIDTH], 1, activation), (DIMENSION,))
    params = model.init(key)
    return params, spectral_norm(output_hessian(model.apply, params, x), params, key, 40)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("seed", range(2))
def test_two_layers_have_a_closed_form(activation, seed):
    """Oracle: zhu · hessian-norm: neuron by neuron, (a ± √(a² + 4b²))/2 over √m; ReLU ‖x‖/√(md)."""
    params, found = norm_of_two_layers(activation, jax.random.key(seed), X)
    inner, outer = (np.asarray(leaf) for leaf in jax.tree.leaves(params))
    x = np.asarray(X)
    z = x @ inner / np.sqrt(DIMENSION)
    slope, bend = {
        "relu": ((z > 0) * 1.0, 0 * z),
        "tanh": (1 / np.cosh(z) ** 2, -2 * np.tanh(z) / np.cosh(z) ** 2),
    }[activation]
    a = outer[:, 0] * bend * (x @ x) / DIMENSION
    b = slope * np.linalg.norm(x) / np.sqrt(DIMENSION)
    expected = (np.abs(a) + np.sqrt(a**2 + 4 * b**2)).max() / 2 / np.sqrt(WIDTH)
    assert float(found.value) == pytest.approx(expected, rel=1e-9)
    assert float(found.residual) < 1e-4
    if activation == "relu":
        closed = np.linalg.norm(x) / np.sqrt(WIDTH * DIMENSION)
        assert float(found.value) == pytest.approx(closed, rel=1e-9)


def test_an_opposite_pair_is_found_at_once():
    """Oracle: the eigenvalues ±3 and 1; plain power iteration would swing for ever."""
    diagonal = jnp.array([3.0, -3.0, 1.0, 1.0])
    found = spectral_norm(lambda v: diagonal * v, diagonal, KEY, 3)
    assert float(found.value) == pytest.approx(3.0, rel=1e-12)
    assert float(found.residual) < 1e-12


def test_the_bound_meets_the_tolerance_and_covers_the_norm():
    """Oracle: the diagonal, with the norm at the negative end; few products say that they are."""
    diagonal = jnp.append(jnp.linspace(-4.0, 4.5, 200), -5.0)
    for seed in range(5):
        found = spectral_norm(lambda v: diagonal * v, diagonal, jax.random.key(seed))
        assert found.converged
        assert found.bound is not None
        assert -1e-9 <= 5 - float(found.value) <= float(found.bound) <= 0.05
    short = spectral_norm(lambda v: diagonal * v, diagonal, KEY, tolerance=1e-4, budget=8)
    assert (short.products, short.converged) == (8, False)
    assert short.needed > 8
    assert short.bound is not None
    assert 5 - float(short.value) <= float(short.bound)
    inside = jax.jit(lambda key: spectral_norm(lambda v: diagonal * v, diagonal, key))(KEY)
    assert inside.bound is None


def test_blocks_are_parts_of_the_dense_matrix():
    """Oracle: the dense matrix cut by hand; the norm of an off-diagonal block is singular."""
    params = {"a": jnp.zeros((2, 3)), "b": jnp.zeros(4)}
    dense = np.random.default_rng(0).standard_normal((10, 10))
    dense = jnp.asarray(dense + dense.T)
    unravel = ravel_pytree(params)[1]

    def operator(vector):
        return unravel(dense @ ravel_pytree(vector)[0])

    cuts = {("a", "a"): (slice(6), slice(6)), ("a", "b"): (slice(6), slice(6, 10))}
    for (row, column), (rows, columns) in cuts.items():
        found = jax.jit(
            lambda row=row, column=column: spectral_norm(
                block(operator, params, row, column), params, KEY, 10
            )
        )()
        expected = np.linalg.svd(np.asarray(dense)[rows, columns])[1][0]
        assert float(found.value) == pytest.approx(expected, rel=1e-9)


def test_bad_requests_are_refused():
    model = network(mlp([2], 1), (DIMENSION,))
    params = model.init(KEY)
    with pytest.raises(ValueError, match="output must be between 0 and 0, got 1"):
        output_hessian(model.apply, params, X, output=1)
    with pytest.raises(ValueError, match=r"must name parameters, got 'c'; there are \[\('a',"):
        block(lambda v: v, {"a": 1.0}, "c", "c")
    with pytest.raises(ValueError, match="row and column must be equal or apart"):
        block(lambda v: v, {"a": {"b": 1.0, "c": 1.0}}, "a", ("a", "b"))
