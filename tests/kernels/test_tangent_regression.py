"""Regression on tangent features, against a dense solution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.data import Dataset
from theorylab.kernels import tangent_regression
from theorylab.models import in_batches, mlp, network
from theorylab.numerics.memory import traced_bytes

MODEL = network(mlp([4], num_outputs=2), (3,), bias="zero")
START = MODEL.init(jax.random.key(0))
EXAMPLES = Dataset(
    jax.random.normal(jax.random.key(1), (20, 3)), jnp.eye(2)[jnp.arange(20) % 2], "", ""
)


def test_tangent_regression_is_the_least_solution_of_the_linearised_problem():
    """Oracle: the dense Jacobian and its pseudo-inverse; 40 equations for 26 parameters."""
    x = jax.random.normal(jax.random.key(3), (7, 3))
    fit = jax.jit(lambda start: tangent_regression(MODEL.apply, start, EXAMPLES, x, 60))
    flat, unravel = ravel_pytree(START)

    def jacobian(inputs):
        return jax.jacobian(lambda w: MODEL.apply(unravel(w), inputs).ravel())(flat)

    left = (EXAMPLES.y - MODEL.apply(START, EXAMPLES.x)).ravel()
    delta = jnp.linalg.pinv(jacobian(EXAMPLES.x)) @ left
    solved = fit(START)
    assert float(solved.slope) < 1e-6
    np.testing.assert_allclose(solved.halfway, solved.elsewhere, atol=1e-3)
    for outputs, inputs in zip((solved.examples, solved.elsewhere), (EXAMPLES.x, x), strict=True):
        expected = MODEL.apply(START, inputs) + (jacobian(inputs) @ delta).reshape(-1, 2)
        np.testing.assert_allclose(outputs, expected, atol=1e-7)
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        tangent_regression(MODEL.apply, START, EXAMPLES, x, num_steps=0)


def test_a_fit_that_has_not_come_far_says_so():
    """Oracle: the dense Jacobian, after two steps; halfway is the fit of one step."""
    x = jax.random.normal(jax.random.key(3), (7, 3))
    few, one = (tangent_regression(MODEL.apply, START, EXAMPLES, x, steps) for steps in (2, 1))
    flat, unravel = ravel_pytree(START)
    jacobian = jax.jacobian(lambda w: MODEL.apply(unravel(w), EXAMPLES.x).ravel())(flat)
    slopes = [
        jnp.linalg.norm(jacobian.T @ (EXAMPLES.y - outputs).ravel())
        for outputs in (MODEL.apply(START, EXAMPLES.x), one.examples)
    ]
    np.testing.assert_allclose(few.slope, slopes[1] / slopes[0], rtol=1e-9)
    np.testing.assert_allclose(few.halfway, one.elsewhere, rtol=1e-9)
    assert float(one.slope) == 1


def test_blocks_of_inputs_give_the_same_fit():
    """Oracle: all at once. Outputs depend on their batch of 2; 20 and 7 inputs leave a rest."""

    def centred(w, x):
        outputs = MODEL.apply(w, x)
        return outputs - outputs.mean(axis=0, keepdims=True) / 3

    apply = in_batches(centred, 2)
    x = jax.random.normal(jax.random.key(3), (7, 3))
    whole = tangent_regression(apply, START, EXAMPLES, x, 6)
    blocks = tangent_regression(apply, START, EXAMPLES, x, 6, block_size=6)
    for one, other in zip(whole, blocks, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        tangent_regression(apply, START, EXAMPLES, x, 6, 0)


def test_blocks_hold_less():
    """Oracle: the bytes of all activations of a wide network, which blocks need not hold."""
    model, x = network(mlp([3000]), (3,)), jnp.ones((500, 3))
    data = Dataset(x, jnp.ones((500, 1)), "", "")
    start = model.init(jax.random.key(0))
    held = [
        traced_bytes(lambda s=s: tangent_regression(model.apply, start, data, x, 2, s))
        for s in (None, 10)
    ]
    assert held[0] > 8 * 500 * 3000 > 5 * held[1]
