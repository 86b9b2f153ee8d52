import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.compat import Kernel, stax
from theorylab.kernels import infinite_kernels
from theorylab.models import NTK, mlp

X = jax.random.normal(jax.random.key(0), (3, 4))
DENSE, RELU = stax.Dense(5, 1.3, 0.2), stax.Relu()


def scaled(scale):
    return stax.serial(stax.Dense(5, scale, 0.2), RELU, stax.Dense(1, scale)).kernel_fn


def test_a_kernel_has_the_variances_beside():
    """Oracle: the diagonals of the kernels of either batch with itself."""
    _, _, kernel_fn = stax.serial(DENSE, RELU, DENSE)
    kernel = kernel_fn(X, 2 * X)
    np.testing.assert_allclose(kernel.cov1, jnp.diagonal(kernel_fn(X, None, "nngp")), rtol=1e-9)
    np.testing.assert_allclose(kernel.cov2, jnp.diagonal(kernel_fn(2 * X, None, "nngp")), rtol=1e-9)
    assert (kernel.shape1, kernel.shape2, kernel.x1_is_x2) == ((3, 5), (3, 5), False)
    again = kernel_fn(X, X)
    assert again.x1_is_x2
    assert again.cov2 is None


def test_kernels_are_compiled_and_differentiated():
    """Oracle: the kernel as it is, and finite differences in the scale of the weights."""
    _, _, kernel_fn = stax.serial(DENSE, RELU, DENSE)
    compiled = jax.jit(kernel_fn, static_argnames="get")
    np.testing.assert_allclose(compiled(X, X, "ntk"), kernel_fn(X, X, "ntk"), rtol=1e-7)
    slope = jax.grad(lambda scale: scaled(scale)(X, None, "ntk").sum())(1.3)
    above, below = (scaled(1.3 + step)(X, None, "ntk").sum() for step in (1e-4, -1e-4))
    np.testing.assert_allclose(slope, (above - below) / 2e-4, rtol=1e-6)


def test_an_architecture_is_a_network_of_compat():
    """Oracle: the kernels of the architecture, and the covariance of outputs of drawn networks."""
    architecture = mlp([64], 2, "erf")
    init_fn, apply_fn, kernel_fn = stax.serial(stax.from_architecture(architecture))
    expected = infinite_kernels(architecture, X, parametrization=NTK(), bias="normal")
    np.testing.assert_allclose(kernel_fn(X, None, "ntk"), expected.ntk, rtol=1e-9)

    @jax.vmap
    def outputs(key):
        _, params = init_fn(key, (-1, 4))
        return apply_fn(params, X)[:, 0]

    drawn = outputs(jax.random.split(jax.random.key(1), 4000))
    products = drawn[:, :, None] * drawn[:, None, :]
    error = products.std(axis=0) / len(drawn) ** 0.5
    assert jnp.all(jnp.abs(products.mean(axis=0) - expected.nngp) < 4 * error)


def test_dropout_needs_a_key_and_leaves_a_mean():
    """Oracle: the mean over masks is the input."""
    _, apply_fn, _ = stax.Dropout(0.5)
    means = jax.vmap(lambda key: apply_fn((), X, rng=key))(
        jax.random.split(jax.random.key(2), 4000)
    )
    assert jnp.all(jnp.abs(means.mean(axis=0) - X) < 5 * means.std(axis=0) / 4000**0.5)
    with pytest.raises(ValueError, match="rng must be given"):
        apply_fn((), X)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([stax.FanInSum()], "FanIn must stand after FanOut and parallel, got it after one input"),
        ([stax.FanOut(2)], "FanOut must be followed by a FanIn"),
        ([stax.FanOut(2), RELU], "Relu must stand inside parallel"),
        ([stax.parallel(RELU, RELU)], "after FanOut.2., got it after one input"),
        ([stax.FanOut(2), stax.parallel(RELU, RELU, RELU)], "after FanOut.3., got it after 2"),
    ],
)
def test_lists_of_inputs_that_lead_nowhere_are_refused(layers, message):
    with pytest.raises(ValueError, match=message):
        stax.serial(*layers).kernel_fn(X)


def test_what_is_not_there_says_what_is():
    with pytest.raises(ValueError, match="channel_axis must be -1, got 1: move it last"):
        stax.Dense(1, channel_axis=1)
    with pytest.raises(ValueError, match="parameterization must be the same in all layers"):
        stax.serial(DENSE, RELU, stax.Dense(1, parameterization="standard")).kernel_fn(X)
    with pytest.raises(TypeError, match="becomes one by stax"):
        stax.serial(DENSE, (len, len, len))
    with pytest.raises(ValueError, match="get must name some of"):
        DENSE.kernel_fn(X, None, "ntkgp")
    with pytest.raises(NotImplementedError, match="join layers by serial"):
        DENSE.kernel_fn(Kernel(nngp=jnp.eye(2)))
