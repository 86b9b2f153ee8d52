import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.curvature import hessian, jacobian, sharpness, spectral_norm
from theorylab.data import chebyshev
from theorylab.models import Standard, mlp, network
from theorylab.models.own_network import PrecisionWarning
from theorylab.training import squared

MODEL = network(mlp([8, 8], 1, "tanh"), (1,), Standard(), bias="zero")


def test_sharpness_is_the_largest_dense_eigenvalue_of_every_mapped_network():
    """Oracle: dense eigh of the whole Hessian. 20 Lanczos steps reach 1e-6 on a network."""
    data = chebyshev(20, degree=5)

    def objective(params):
        return squared("half_mean")(MODEL.apply(params, data.x), data.y)

    @jax.jit
    @jax.vmap
    def both(key):
        params = MODEL.init(key)
        flat, unravel = ravel_pytree(params)
        dense = jnp.linalg.eigvalsh(jax.hessian(lambda w: objective(unravel(w)))(flat))
        return sharpness(objective, params, key), dense[-1]

    found, dense = both(jax.random.split(jax.random.key(0), 5))
    np.testing.assert_allclose(found.value, dense, rtol=1e-6)
    assert np.all(found.residual < 1e-3 * dense)


@pytest.fixture(scope="module")
def found():
    """Lanczos on f = Σᵢ cᵢwᵢ²/2, whose Hessian is diagonal."""

    def find(curvatures, num_steps):
        def objective(w):
            return curvatures @ w**2 / 2

        return sharpness(objective, jnp.ones_like(curvatures), jax.random.key(0), num_steps)

    return jax.jit(find, static_argnums=1)


@pytest.mark.parametrize(("curvatures", "largest"), [([1, -5, 0.5, 2], 2), ([-1, -1, -2, -3], -1)])
def test_sharpness_keeps_the_sign_where_the_power_method_would_not(found, curvatures, largest):
    """Oracle: the diagonal; the largest magnitude is negative."""
    value = found(jnp.array(curvatures, dtype=float), 4).value
    np.testing.assert_allclose(value, largest, rtol=1e-12)


def test_the_residual_confesses_too_few_steps(found):
    """Oracle: the spectrum; an eigenvalue lies within the residual, which is not small."""
    curvatures = jnp.linspace(1.0, 2.0, 50)
    few = found(curvatures, 2)
    assert few.residual > 0.05
    assert np.abs(np.asarray(curvatures) - few.value).min() <= few.residual


def test_sharpness_needs_a_step():
    with pytest.raises(ValueError, match="k must be between 1 and num_steps = 0"):
        sharpness(lambda w: w @ w, jnp.ones(2), jax.random.key(0), num_steps=0)


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_sharpness_of_16_bits_is_that_of_the_same_weights_in_float32(kind):
    """Oracle: the weights as float32. Products take vectors of either type."""
    params = {"w": jnp.arange(1.0, 7.0).astype(kind), "b": jnp.ones((), kind)}
    objective = lambda w: jnp.sum(jnp.cos(w["w"] * w["b"]))  # noqa: E731
    wide, key = jax.tree.map(lambda leaf: leaf.astype("float32"), params), jax.random.key(0)
    with pytest.warns(PrecisionWarning, match=f"params of {kind} are taken as float32"):
        found = sharpness(objective, params, key, 7)
    exact = sharpness(objective, wide, key, 7)
    np.testing.assert_array_equal(found.value, exact.value)
    with pytest.warns(PrecisionWarning):
        product = hessian(objective, params)
    jax.tree.map(np.testing.assert_array_equal, product(params), product(wide))
    first, second = (spectral_norm(product, like, key, 7).value for like in (params, wide))
    np.testing.assert_array_equal(first, second)
    with pytest.warns(PrecisionWarning):
        both = jacobian(lambda w: jnp.sin(w["w"]), params)
    np.testing.assert_array_equal(both.forward(params), both.forward(wide))


def test_bad_keys_parameters_and_objectives_are_told():
    unchecked: Any = inspect.unwrap(sharpness)  # annotations would refuse a key, too
    with pytest.raises(TypeError, match=r"random key, such as jax.random.key\(0\), got 0"):
        unchecked(jnp.sum, jnp.ones(3), 0)
    with pytest.raises(TypeError, match=r"got an array of float64 with shape \(2,\)"):
        unchecked(jnp.sum, jnp.ones(3), jnp.ones(2))
    with pytest.raises(ValueError, match="params must be finite, got NaN"):
        sharpness(jnp.sum, jnp.array([1.0, jnp.nan]), jax.random.key(0))
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="when it is called again"):
        sharpness(lambda w: jnp.sum(w * rng.random(3)), jnp.ones(3), jax.random.key(0))


def test_a_loss_with_batch_statistics_has_a_sharpness():
    """Oracle: the dense Hessian. What is defined of a batch needs no single inputs."""
    x = jax.random.normal(jax.random.key(1), (6, 3))
    objective = lambda w: jnp.var(x @ w)  # noqa: E731
    found = sharpness(objective, jnp.ones(3), jax.random.key(0), 3)
    expected = jnp.linalg.eigvalsh(jax.hessian(objective)(jnp.ones(3)))[-1]
    np.testing.assert_allclose(found.value, expected, rtol=1e-12)


def test_without_a_number_of_steps_the_bound_meets_the_tolerance():
    """Oracle: the diagonal; fewer products than asked for leave a wider bound, and say so."""
    curvatures = jnp.append(jnp.linspace(-9.0, 4.0, 200), 5.0)
    objective = lambda w: curvatures @ w**2 / 2  # noqa: E731
    found = sharpness(objective, jnp.ones(201), jax.random.key(1))
    assert found.converged
    assert found.bound is not None
    assert 0 <= 5 - float(found.value) <= float(found.bound) <= 0.05
    short = sharpness(objective, jnp.ones(201), jax.random.key(1), budget=8)
    assert not short.converged
    assert short.products == 8
    assert short.bound is not None
    assert 5 - float(short.value) <= float(short.bound)
    assert found.products / 2 <= short.needed <= 2 * found.products
