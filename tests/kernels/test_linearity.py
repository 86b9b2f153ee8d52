"""Errors of Taylor models along a segment, against polynomials and the models as networks."""

import jax
import jax.numpy as jnp
import numpy as np

from theorylab.kernels import taylor_errors
from theorylab.models import linearize, mlp, network, quadratize


def test_errors_of_a_cube_are_its_remainders():
    """Oracle: (1 + s)³ − 1 − 3s = 3s² + s³, and s³ without the quadratic term; moved: 7."""
    found = taylor_errors(lambda w, x: w**3 * x, 2.0, 1.0, jnp.ones((2, 1)))
    s = np.asarray(found.positions)
    np.testing.assert_allclose(found.linear_error, (3 * s**2 + s**3) / 7, atol=1e-12)
    np.testing.assert_allclose(found.quadratic_error, s**3 / 7, atol=1e-12)


def test_errors_are_those_of_the_models_half_way():
    """Oracle: linearize and quadratize at the middle of the segment, input by input."""
    model = network(mlp((5,), num_outputs=2, activation="tanh"), input_shape=(3,))
    before, after = (model.init(jax.random.key(seed)) for seed in (0, 1))
    middle = jax.tree.map(lambda a, b: (a + b) / 2, before, after)
    x = jax.random.normal(jax.random.key(2), (7, 3))
    found = taylor_errors(model.apply, after, before, x)
    for errors, expand in ((found.linear, linearize), (found.quadratic, quadratize)):
        gap = model.apply(middle, x) - expand(model.apply, before)(middle, x)
        np.testing.assert_allclose(errors[:, 5], (gap**2).sum(axis=1), rtol=1e-8)
