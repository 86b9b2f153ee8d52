"""Attention with random logits: its moments, and wide networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import attention_nngp, head_kernels, mixture_kurtosis, random_logits
from theorylab.models import SelfAttention, network

X = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 4)))
FEATURES = X / 2  # √c = 2


def test_logits_have_their_covariance():
    """E G_st(x)G_s′t′(x′) = q(s, s′)q(t, t′), within 5 standard errors for each of the products."""
    logits = np.asarray(random_logits(jax.random.key(0), FEATURES, 4000)).reshape(4000, 18)
    q = np.einsum("nsc,mtc->nsmt", FEATURES, FEATURES)
    expected = np.einsum("nsmu,ntmv->nstmuv", q, q).reshape(18, 18)
    products = logits[:, :, None] * logits[:, None, :]
    errors = products.std(axis=0) / np.sqrt(4000)
    assert np.all(np.abs(products.mean(axis=0) - expected) < 5 * errors)


def test_kernel_is_that_of_wide_networks():
    """Oracle: the covariance of outputs over W_O, averaged over networks with 8 heads."""
    width = 48
    model = network(SelfAttention(1, num_heads=8, head_width=width), (3, 4))

    def covariance(key):
        params = model.init(key) | {"output": jnp.eye(8 * width)}  # shows what W_O multiplies
        mixed = model.apply(params, X)
        return jnp.einsum("nsc,mtc->nsmt", mixed, mixed)

    keys = jax.random.split(jax.random.key(1), 150)
    networks = np.asarray(jax.jit(jax.vmap(covariance))(keys))
    found = attention_nngp(jax.random.key(2), FEATURES, 4000)
    error = np.hypot(networks.std(axis=0) / np.sqrt(150), found.error)
    bias = 1 / width  # of a finite width
    assert np.all(np.abs(networks.mean(axis=0) - found.mean) < 5 * error + bias)
    uniform = np.broadcast_to(np.asarray(FEATURES).mean(axis=1)[:, None], FEATURES.shape)
    wrong = np.einsum("nsc,mtc->nsmt", uniform, uniform)
    assert np.any(np.abs(networks.mean(axis=0) - wrong) > 10 * error + bias)


def test_heads_without_logits_average():
    """Invariance: equal positions are averaged to themselves, whatever the attention."""
    same = jnp.ones((1, 3, 2)) * jnp.array([0.5, 2.0])[None, None, :]
    kernels = head_kernels(jax.random.key(0), same, 5)
    np.testing.assert_allclose(kernels, np.full((5, 1, 3, 1, 3), 4.25), rtol=1e-12)


def test_kurtosis_of_a_mixture_is_that_of_its_samples():
    """Oracle: the fourth moment of √S z, with S = 1 or 3: excess 3/4."""
    rng = np.random.default_rng(0)
    variances = rng.choice([1.0, 3.0], size=200_000)
    samples = np.sqrt(variances) * rng.normal(size=200_000)
    kurtosis = np.mean(samples**4) / np.mean(samples**2) ** 2 - 3
    assert float(mixture_kurtosis(jnp.asarray(variances))) == pytest.approx(0.75, abs=0.01)
    assert kurtosis == pytest.approx(0.75, abs=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random_logits(jax.random.key(0), X, 0), "num_draws must be at least 1, got 0"),
        (lambda: mixture_kurtosis(jnp.ones(1)), "at least 2 draws, got 1"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
