import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.curvature import (
    batched_operator,
    gauss_newton,
    hessian,
    jacobian,
    output_hessian,
    preconditioned,
)
from theorylab.models import linearize, mlp, network

MODEL = network(mlp([4, 3], 2, "tanh"), (3,), bias="normal")


@pytest.fixture(scope="module")
def setting():
    """Parameters, inputs, targets."""

    @jax.jit
    def draw(key):
        keys = jax.random.split(key, 3)
        return MODEL.init(keys[0]), *jax.random.normal(keys[1], (2, 6, 3))

    params, x, y = draw(jax.random.key(0))
    return params, x, y[:, :2]


def loss(outputs, y):
    """A loss that is not quadratic, so that its own curvature matters."""
    return jnp.sum(jnp.cosh(outputs - y))


def matrix(operator, params):
    flat, unravel = ravel_pytree(params)
    return jax.vmap(lambda v: ravel_pytree(operator(unravel(v)))[0])(jnp.eye(flat.size))


def test_hessian_is_the_dense_one(setting):
    """Oracle: `jax.hessian` of the flat function. Equal to rounding."""

    @jax.jit
    def both(params, x, y):
        flat, unravel = ravel_pytree(params)
        dense = jax.hessian(lambda w: loss(MODEL.apply(unravel(w), x), y))(flat)
        return matrix(hessian(lambda w: loss(MODEL.apply(w, x), y), params), params), dense

    measured, expected = both(*setting)
    np.testing.assert_allclose(measured, expected, atol=1e-12)


def test_gauss_newton_is_built_from_the_jacobian(setting):
    """Oracle: the dense Jᵀ H J with H = diag(cosh). Equal to rounding."""

    @jax.jit
    def both(params, x, y):
        flat, unravel = ravel_pytree(params)
        jacobian = jax.jacrev(lambda w: MODEL.apply(unravel(w), x).ravel())(flat)
        bend = jnp.cosh((MODEL.apply(params, x) - y).ravel())
        operator = gauss_newton(lambda w: MODEL.apply(w, x), lambda f: loss(f, y), params)
        return matrix(operator, params), jacobian.T * bend[None, :] @ jacobian

    measured, expected = both(*setting)
    np.testing.assert_allclose(measured, expected, atol=1e-12)


@pytest.mark.parametrize("is_linear", [True, False])
def test_gauss_newton_is_the_hessian_of_a_linear_model_only(setting, is_linear):
    """Oracle: ∇²f = 0 for the linearised network. Equal to rounding there, different here."""

    @jax.jit
    def both(params, x, y):
        apply = linearize(MODEL.apply, params) if is_linear else MODEL.apply
        moved = jax.tree.map(lambda w: w + 0.1, params)
        vector = jax.tree.map(jnp.ones_like, params)
        newton = gauss_newton(lambda w: apply(w, x), lambda f: loss(f, y), moved)(vector)
        full = hessian(lambda w: loss(apply(w, x), y), moved)(vector)
        return ravel_pytree(newton)[0], ravel_pytree(full)[0]

    newton, full = both(*setting)
    difference = np.linalg.norm(newton - full) / np.linalg.norm(full)
    assert difference < 1e-12 if is_linear else difference > 0.01


def test_jacobian_goes_both_ways(setting):
    """Oracle: the dense Jacobian. Equal to rounding."""

    @jax.jit
    def both(params, x):
        flat, unravel = ravel_pytree(params)
        dense = jax.jacrev(lambda w: MODEL.apply(unravel(w), x).ravel())(flat)
        found = jacobian(lambda w: MODEL.apply(w, x), params)
        forward = jax.vmap(lambda v: found.forward(unravel(v)).ravel())(jnp.eye(flat.size)).T
        rows = jax.vmap(lambda u: ravel_pytree(found.transpose(u.reshape(-1, 2)))[0])
        return forward, rows(jnp.eye(dense.shape[0])), dense

    forward, transpose, dense = both(*setting[:2])
    np.testing.assert_allclose(forward, dense, atol=1e-12)
    np.testing.assert_allclose(transpose, dense, atol=1e-12)


def test_batches_add_up_and_a_preconditioner_scales(setting):
    """Oracle: the Hessian of the mean over all samples, and the matrix P^(−½) H P^(−½)."""

    @jax.jit
    def both(params, x, y):
        def risk(w, x, y):
            return jnp.mean(jnp.cosh(MODEL.apply(w, x) - y))

        def of_batch(batch):
            return hessian(lambda w: risk(w, *batch), params)

        batched = batched_operator(of_batch, (x, y), params, batch_size=4)
        scales = jax.tree.map(lambda leaf: 1 + leaf**2, params)
        whole = matrix(of_batch((x, y)), params)
        roots = jnp.sqrt(ravel_pytree(scales)[0])
        return (
            (matrix(batched, params), whole),
            (matrix(preconditioned(batched, scales), params), whole / jnp.outer(roots, roots)),
        )

    for measured, expected in both(*setting):
        np.testing.assert_allclose(measured, expected, atol=1e-12)


def test_batches_have_a_size():
    with pytest.raises(ValueError, match="batch_size must be between 1 and n = 3, got 4"):
        batched_operator(lambda batch: lambda v: v, jnp.ones((3, 1)), jnp.ones(1), 4)


@pytest.mark.parametrize(
    "make",
    [
        lambda params: hessian(lambda w: w["a"].sum(), params),
        lambda params: output_hessian(lambda w, x: x @ w["a"], params, jnp.ones(3)),
        lambda params: jacobian(lambda w: w["a"], params),
        lambda params: gauss_newton(lambda w: w["a"], jnp.sum, params),
    ],
)
def test_parameters_that_are_no_floating_arrays_are_refused(make):
    """Whole numbers, and a function beside the weights, as in modules of other libraries."""
    with pytest.raises(TypeError, match=r"floating arrays only, got an array of int.* at \['a'\]"):
        make({"a": jnp.ones((3, 1), int)})
    with pytest.raises(TypeError, match=r"floating arrays only, got .* at \['b'\]"):
        make({"a": jnp.ones((3, 1)), "b": jnp.tanh})


def test_bad_inputs_of_operators_are_refused():
    with pytest.raises(ValueError, match="diagonal must be positive, got -1"):
        preconditioned(lambda v: v, jnp.array([1.0, -1.0]))
    with pytest.raises(ValueError, match=r"x must be one input, .* got \(1, 5, 1\)"):
        output_hessian(lambda w, x: jnp.tanh(x @ w), jnp.ones((2, 1)), jnp.ones((5, 2)))
