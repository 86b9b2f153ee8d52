"""The gradient-noise scale against dense gradients, and its interval by simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.dynamics import gradient_noise_scale
from theorylab.dynamics.noise_scale import noise_scale
from theorylab.models import mlp, network
from theorylab.training import cross_entropy, squared

MODEL = network(mlp((5,), 3), input_shape=(4,))
PARAMS = MODEL.init(jax.random.key(0))
X = jax.random.normal(jax.random.key(1), (30, 4))
Y = jax.nn.one_hot(jnp.arange(30) % 3, 3)


@pytest.mark.parametrize("loss", [squared("mean"), cross_entropy("half_sum")])
def test_both_parts_are_those_of_dense_gradients(loss):
    """Oracle: the sample covariance of all gradients, one by one, and its unbiased square."""

    def one(x, y):
        gradient = jax.grad(lambda w: loss(MODEL.apply(w, x[None]), y[None]))(PARAMS)
        return ravel_pytree(gradient)[0]

    gradients = np.asarray(jax.vmap(one)(X, Y))
    variance = gradients.var(axis=0, ddof=1).sum()
    signal = (gradients.mean(axis=0) ** 2).sum() - variance / len(gradients)
    found = gradient_noise_scale(MODEL.apply, PARAMS, X, Y, loss, batch_size=7)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-9)
    np.testing.assert_allclose(found.squared_gradient, signal, rtol=1e-9)
    expected = variance / signal if signal > 0 else np.inf
    np.testing.assert_allclose(found.value, expected, rtol=1e-9)


@pytest.mark.parametrize("law", ["gaussian", "exponential"])
def test_the_interval_covers_in_95_percent(law):
    """Oracle: 2,000 repeats with gradients of known mean and covariance."""
    rng = np.random.default_rng(0)
    mean, scales = np.full(20, 0.3), np.linspace(0.2, 1.5, 20)
    truth = (scales**2).sum() / (mean**2).sum()
    hits = 0
    for _ in range(2000):
        draw = rng.standard_normal if law == "gaussian" else rng.standard_exponential
        noise = draw((200, 20)) - (law == "exponential")
        gradients = mean + scales * noise
        found = noise_scale((gradients**2).sum(axis=1), gradients @ gradients.sum(axis=0))
        hits += found.low <= truth <= found.high
    assert 0.93 < hits / 2000 < 0.97


def test_pure_noise_has_no_upper_end():
    """Limit: gradients of mean 0, of which no sample tells that they are not."""
    rng = np.random.default_rng(1)
    ends = []
    for _ in range(50):
        gradients = rng.standard_normal((100, 30))
        found = noise_scale((gradients**2).sum(axis=1), gradients @ gradients.sum(axis=0))
        ends.append(found.high)
        assert 0 <= found.low <= found.value
    assert np.isinf(ends).mean() > 0.9


def test_samples_must_be_three():
    with pytest.raises(ValueError, match="at least 3 samples, got 2"):
        noise_scale(np.ones(2), np.ones(2))
