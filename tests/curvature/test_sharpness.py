import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.curvature import sharpness
from theorylab.data import chebyshev
from theorylab.models import Standard, mlp, network
from theorylab.training import squared

MODEL = network(mlp([12, 12], 1, "tanh"), (1,), Standard(), bias="zero")
DATA = chebyshev(20, degree=5)


def objective(params):
    return squared("half_mean")(MODEL.apply(params, DATA.x), DATA.y)


@pytest.mark.parametrize("seed", range(3))
def test_sharpness_is_the_largest_dense_eigenvalue(seed):
    """Oracle: dense eigh of the whole Hessian. 20 Lanczos steps reach 1e-6 on a network."""
    params = MODEL.init(jax.random.key(seed))
    flat, unravel = ravel_pytree(params)
    dense = np.linalg.eigvalsh(jax.hessian(lambda w: objective(unravel(w)))(flat))[-1]
    found = sharpness(objective, params, jax.random.key(seed + 10))
    np.testing.assert_allclose(found.value, dense, rtol=1e-6)
    assert found.residual < 1e-3 * dense


def test_sharpness_keeps_the_sign_where_the_power_method_would_not():
    """Oracle: a diagonal Hessian whose largest magnitude is negative."""
    curvatures = jnp.array([1.0, -5.0, 0.5, 2.0])
    found = sharpness(lambda w: curvatures @ w**2 / 2, jnp.ones(4), jax.random.key(0))
    np.testing.assert_allclose(found.value, 2.0, rtol=1e-12)
    concave = sharpness(lambda w: -w @ w / 2, jnp.ones(3), jax.random.key(0))
    np.testing.assert_allclose(concave.value, -1.0, rtol=1e-12)


def test_the_residual_confesses_too_few_steps():
    """Oracle: the dense spectrum; an eigenvalue lies within the residual, which is not small."""
    curvatures = jnp.linspace(1.0, 2.0, 50)
    found = sharpness(lambda w: curvatures @ w**2 / 2, jnp.ones(50), jax.random.key(0), 2)
    assert found.residual > 0.05
    assert np.abs(np.asarray(curvatures) - found.value).min() <= found.residual


def test_sharpness_is_mapped_and_jitted():
    """Oracle: one network at a time."""
    params = jax.vmap(MODEL.init)(jax.random.split(jax.random.key(0), 3))
    key = jax.random.key(1)
    together = jax.jit(jax.vmap(lambda params: sharpness(objective, params, key).value))(params)
    first = sharpness(objective, jax.tree.map(lambda leaf: leaf[0], params), key).value
    np.testing.assert_allclose(together[0], first, rtol=1e-9)


def test_sharpness_needs_a_step():
    with pytest.raises(ValueError, match="k must be between 1 and num_steps = 0"):
        sharpness(lambda w: w @ w, jnp.ones(2), jax.random.key(0), num_steps=0)
