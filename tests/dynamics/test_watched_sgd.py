"""SGD watched at every step, against plain SGD and the rates of its batches by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data.contrast import image_like
from theorylab.dynamics import decompose, watch_sgd
from theorylab.models import mlp, network
from theorylab.training import (
    Batches,
    empirical_risk,
    gradient_descent,
    probed_sgd,
    squared,
    triangular,
)

LOSS = squared("mean")
MODEL = network(mlp([8]), (4,))


@pytest.fixture(scope="module")
def params():
    return MODEL.init(jax.random.key(1))


@pytest.fixture(scope="module")
def data():
    return image_like(jax.random.key(0), 10, 4)


def test_what_is_seen_belongs_to_the_step_that_comes(params, data):
    """Oracle: plain SGD that keeps weights and batches; rates from Jacobians of the batch."""
    seen = jax.jit(
        lambda: (
            watch_sgd(
                MODEL.apply,
                params,
                data,
                LOSS,
                triangular(0.1, 0.3, 4),
                3,
                4,
                jax.random.key(2),
                (1,),
            ).records
        )
    )()
    np.testing.assert_allclose(seen.learning_rate, [0.1, 0.2, 0.3, 0.2], rtol=1e-12)

    risk = empirical_risk(LOSS, MODEL.apply)
    args = (params, data, gradient_descent(0.1), Batches(3))
    plain = probed_sgd(risk, *args, 1, lambda w, batch, step: batch, jax.random.key(2))
    batch = plain.records.x[0]
    jacobian = jax.jacobian(lambda w: MODEL.apply(w, batch)[:, 0])(params)
    flat = np.concatenate([leaf.reshape(3, -1) for leaf in jax.tree.leaves(jacobian)], axis=1)
    np.testing.assert_allclose(seen.critical[0], 3 / np.linalg.norm(flat, 2) ** 2, rtol=1e-9)

    second = decompose(MODEL.apply, plain.params, data, LOSS, (1,))  # after the first step
    np.testing.assert_allclose(seen.loss[1], second.loss, rtol=1e-9)
    np.testing.assert_allclose(seen.top[1], second.top, rtol=1e-7)
    np.testing.assert_allclose(seen.kernel_norm[1], second.kernel_norm, rtol=1e-9)


def test_a_constant_rate_is_a_number(params, data):
    run = watch_sgd(
        MODEL.apply, params, data, LOSS, jnp.array(0.1), 10, 2, jax.random.key(2), (1, 5)
    )
    assert run.records.top.shape == (2, 2)
    assert np.all(run.records.learning_rate == 0.1)
