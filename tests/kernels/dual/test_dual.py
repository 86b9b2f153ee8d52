"""The dual of whatever is given: a name, a member of a family, a function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import dual, quadrature_dual
from theorylab.models.families import ReLU

Q1, Q2 = jnp.array([0.5, 1.0, 2.0]), jnp.array([0.3, 0.7])
C = 0.4 * jnp.sqrt(jnp.multiply.outer(Q1, Q2))
PAIRS = (Q1[:, None], Q2[None, :], C)


@pytest.mark.parametrize("name", ["relu", "cube", "identity", "tanh"])
def test_pairs_are_made_by_broadcasting_and_have_no_order(name):
    """Oracle: the pairs one after another, and in the other order."""
    value, derivative = dual(name, *PAIRS)
    pairs = dual(name, jnp.tile(Q2, 3), jnp.repeat(Q1, 2), C.ravel())
    np.testing.assert_allclose(value.ravel(), pairs.value, rtol=1e-13)
    np.testing.assert_allclose(derivative.ravel(), pairs.derivative, rtol=1e-13)


def test_a_name_is_its_function():
    """JAX's own functions with a bend are known; any other is expanded."""
    named = dual("relu", *PAIRS)
    for function in (ReLU(), jax.nn.relu):
        np.testing.assert_array_equal(named.value, dual(function, *PAIRS).value)
    np.testing.assert_array_equal(dual("abs", *PAIRS).value, dual(jnp.abs, *PAIRS).value)
    by_series = quadrature_dual(jnp.arctan, *PAIRS)
    np.testing.assert_array_equal(dual(jnp.arctan, *PAIRS).value, by_series.value)


@pytest.mark.parametrize("name", ["relu", "erf", "gelu", "gabor", "tanh"])
def test_single_precision_stays_single(name):
    """Within a few roundings of double precision, at equal inputs too."""
    q = jnp.array([0.3, 1.0, 2.7])
    pairs = (q[:, None], q[None, :], jnp.sqrt(jnp.multiply.outer(q, q)) * (jnp.eye(3) + 0.2) / 1.2)
    low = dual(name, *(each.astype(jnp.float32) for each in pairs))
    for got, want in zip(low, dual(name, *pairs), strict=True):
        assert got.dtype == jnp.float32
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_unknown_activation_is_refused_and_quadrature_named():
    one = jnp.ones(())
    with pytest.raises(ValueError, match=r"got 'swash'\. Any other .* Activation.* quadrature"):
        dual("swash", one, one, one)
