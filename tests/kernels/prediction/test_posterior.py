"""The posterior and the evidence, against dense algebra and the density of a Gaussian."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from theorylab.kernels.prediction import log_evidence, posterior

FEATURES = jax.random.normal(jax.random.key(0), (7, 9))
ALL = FEATURES @ FEATURES.T / 9
KERNEL, CROSS, TEST = ALL[:4, :4], ALL[4:, :4], ALL[4:, 4:]
Y = jax.random.normal(jax.random.key(1), (4, 2))


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_posterior_is_the_conditional_gaussian(noise):
    """Oracle: blocks of the inverse of the joint covariance."""
    joint = np.asarray(ALL) + noise * np.diag([1.0] * 4 + [0.0] * 3)
    precision = np.linalg.inv(joint)
    covariance = np.linalg.inv(precision[4:, 4:])
    found = posterior(KERNEL, CROSS, TEST, Y, noise)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.mean, -covariance @ precision[4:, :4] @ Y, rtol=1e-9)


def test_at_a_training_point_nothing_is_left_to_learn():
    found = posterior(KERNEL, KERNEL, KERNEL, Y)
    np.testing.assert_allclose(found.mean, Y, rtol=1e-10)
    np.testing.assert_allclose(found.covariance, 0.0, atol=1e-12)


def test_evidence_is_the_log_density():
    covariance: Any = np.asarray(KERNEL) + 0.2 * np.eye(4)
    expected = multivariate_normal(np.zeros(4), covariance).logpdf(np.asarray(Y).T).sum()
    assert float(log_evidence(KERNEL, Y, 0.2)) == pytest.approx(expected, rel=1e-12)


def test_evidence_has_the_right_slope_in_the_noise():
    slope = jax.grad(lambda noise: log_evidence(KERNEL, Y, noise))(0.2)
    step = 1e-5
    ends = [float(log_evidence(KERNEL, Y, 0.2 + sign * step)) for sign in (-1, 1)]
    assert float(slope) == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-7)


def test_bad_input_is_refused():
    check = getattr(posterior, "__wrapped__", posterior)
    with pytest.raises(ValueError, match="noise must be at least 0, got -1"):
        posterior(KERNEL, CROSS, TEST, Y, -1.0)
    with pytest.raises(
        ValueError, match=r"a row for each of the 3 test points, got shape \(2, 2\)"
    ):
        check(KERNEL, CROSS, TEST[:2, :2], Y)
    with pytest.raises(ValueError, match=r"targets must have shape \(4, k\), got \(4,\)"):
        check(KERNEL, CROSS, TEST, Y[:, 0])
    with pytest.raises(ValueError, match="must be positive definite, got one that is not"):
        log_evidence(jnp.ones((3, 3)), jnp.ones((3, 1)), 0.0)
    with pytest.raises(ValueError, match=r"targets must have shape \(4, k\)"):
        getattr(log_evidence, "__wrapped__", log_evidence)(KERNEL, Y[:2], 0.1)
