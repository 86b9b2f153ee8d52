import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.curvature import loss_hessian, loss_sharpness
from theorylab.models import mlp, network
from theorylab.training import squared

KEY = jax.random.key(0)
MODEL = network(mlp([4], 2, "tanh"), (3,))
PARAMS = MODEL.init(KEY)
X = jax.random.normal(jax.random.key(1), (10, 3))
Y = jnp.sin(X[:, :2])


def mean(outputs, targets):
    """Not the same for every sample's outputs, so that no weight of a batch goes unseen."""
    return jnp.mean(jnp.cosh(outputs - targets).sum(axis=1))


@pytest.mark.parametrize("batch_size", [None, 4, 5])
@pytest.mark.parametrize("loss", [mean, squared("half_mean")], ids=["own", "squared"])
def test_batches_have_the_sharpness_of_all_samples(loss, batch_size):
    """Oracle: the dense Hessian over all samples; 4 does not divide 10."""
    flat, unravel = ravel_pytree(PARAMS)
    dense = jax.jit(jax.hessian(lambda w: loss(MODEL.apply(unravel(w), X), Y)))(flat)
    given = (MODEL.apply, PARAMS, X, Y, loss)
    product = loss_hessian(*given, batch_size=batch_size)(unravel(jnp.ones(flat.size)))
    np.testing.assert_allclose(ravel_pytree(product)[0], dense.sum(axis=1), rtol=1e-10, atol=1e-12)
    found = loss_sharpness(*given, KEY, batch_size=batch_size, tolerance=1e-6)
    assert found.converged
    assert float(found.value) == pytest.approx(np.linalg.eigvalsh(dense)[-1], rel=1e-6)


def test_a_sum_over_samples_is_not_taken_in_batches():
    with pytest.raises(ValueError, match="a mean over samples to be taken in batches, got 'sum'"):
        loss_hessian(MODEL.apply, PARAMS, X, Y, squared("sum"), batch_size=4)
