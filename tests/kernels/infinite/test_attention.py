"""Attention at infinite width: what its scales do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels
from theorylab.models import GlobalPool, SelfAttention, Serial
from theorylab.models.positional import PositionalEmbedding

X = jax.random.normal(jax.random.key(0), (2, 4, 3))


@pytest.mark.parametrize(
    ("scaling", "tied", "mechanism"), [("linear", True, "softmax"), ("root", False, "identity")]
)
def test_kernels_are_differentiable_in_every_scale(scaling, tied, mechanism):
    """Oracle: central differences."""

    def total(scales):
        query, key, value, output, position = scales
        embedding = PositionalEmbedding("concatenate", position, lambda d: jnp.exp(-d))
        settings = {"query_scale": query, "key_scale": key, "value_scale": value}
        layer = SelfAttention(
            *(1, 1, 1, scaling, tied),
            mechanism=mechanism,
            output_scale=output,
            embedding=embedding,
            **settings,
        )
        kernels = infinite_kernels(Serial(layer, GlobalPool()), X)
        return kernels.nngp.sum() + 0.3 * kernels.ntk.sum()

    scales = jnp.array([1.2, 0.8, 0.9, 1.4, 0.7])
    total = jax.jit(total)
    steps = 1e-5 * np.eye(5)
    expected = [float(total(scales + s) - total(scales - s)) / 2e-5 for s in steps]
    gradient = jax.jit(jax.grad(total))(scales)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)
    assert np.all(np.abs(gradient) > 1e-4)
    # Only products of scales count: σ_Q σ_K, and σ_V σ_O.
    np.testing.assert_allclose(gradient[0] * 1.2, gradient[1] * 0.8, rtol=1e-9)
    np.testing.assert_allclose(gradient[2] * 0.9, gradient[3] * 1.4, rtol=1e-9)
