"""Moments of trained ensembles, against sampled Gaussian processes and the posterior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels
from theorylab.kernels.prediction import (
    Descent,
    Prior,
    ensemble_moments,
    last_layer_moments,
    posterior,
    predicted_outputs,
)
from theorylab.models import mlp

X = jax.random.normal(jax.random.key(0), (6, 3))
KERNELS = infinite_kernels(mlp([1], activation="erf"), X)
PRIOR = Prior(KERNELS.nngp[:4, :4], KERNELS.nngp[4:, :4], KERNELS.nngp[4:, 4:])
KERNEL, CROSS = KERNELS.ntk[:4, :4], KERNELS.ntk[4:, :4]
Y = jax.random.normal(jax.random.key(1), (4, 2))


@pytest.mark.parametrize(("method", "times"), [(None, [0.0, 1.0, np.inf]), (Descent(0.3), [0, 7])])
def test_moments_are_those_of_trained_samples(method, times):
    """Oracle: f₀ = L z is linear in z, so unit vectors z give mean and covariance exactly."""
    given = {} if method is None else {"method": method}
    found = ensemble_moments(PRIOR, KERNEL, CROSS, Y, times, **given)
    root = jnp.linalg.cholesky(KERNELS.nngp)

    def trained(start):
        return predicted_outputs(
            KERNEL,
            CROSS,
            Y[:, :1],
            times,
            start=start[:4, None],
            test_start=start[4:, None],
            **given,
        )[..., 0]

    mean = trained(jnp.zeros(6))
    directions = jnp.stack([trained(column) - mean for column in root.T])
    covariance = jnp.einsum("ztm,ztl->tml", directions, directions)
    np.testing.assert_allclose(found.mean[..., 0], mean, rtol=1e-10)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-8, atol=1e-12)


def test_last_layer_training_ends_in_the_posterior_and_full_training_does_not():
    bayes = posterior(PRIOR.train, PRIOR.cross, PRIOR.test, Y)
    last = last_layer_moments(PRIOR, Y, [np.inf])
    full = ensemble_moments(PRIOR, KERNEL, CROSS, Y, [np.inf])
    np.testing.assert_allclose(last.mean[0], bayes.mean, rtol=1e-9)
    np.testing.assert_allclose(last.covariance[0], bayes.covariance, rtol=1e-7, atol=1e-12)
    assert float(jnp.abs(full.mean[0] - bayes.mean).max()) > 1e-2
    assert float(jnp.abs(full.covariance[0] - bayes.covariance).max()) > 1e-2


def test_before_training_the_ensemble_is_the_prior():
    found = ensemble_moments(PRIOR, KERNEL, CROSS, Y, [0.0])
    np.testing.assert_array_equal(found.mean, 0.0)
    np.testing.assert_allclose(found.covariance[0], PRIOR.test, rtol=1e-15)


def test_bad_input_is_refused():
    call = getattr(ensemble_moments, "__wrapped__", ensemble_moments)
    with pytest.raises(ValueError, match=r"prior.cross must have shape \(2, 4\), got \(4, 2\)"):
        call(PRIOR._replace(cross=PRIOR.cross.T), KERNEL, CROSS, Y, [1.0])
    with pytest.raises(ValueError, match="ridge must be at least 0, got -1"):
        ensemble_moments(PRIOR, KERNEL, CROSS, Y, [1.0], ridge=-1.0)
    with pytest.raises(ValueError, match=r"prior.train must be finite"):
        ensemble_moments(
            PRIOR._replace(train=PRIOR.train.at[0, 0].set(jnp.nan)), KERNEL, CROSS, Y, [1.0]
        )
