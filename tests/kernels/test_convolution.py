"""The text's recursion of a pooled convolutional kernel, as corrected and as printed."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels
from theorylab.kernels.convolution import pooled_convolution_kernel
from theorylab.models import Activation, Conv, GlobalPool, Serial

X = jax.random.normal(jax.random.key(0), (3, 5, 2))


@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_the_recursion_is_the_reading_of_the_network(activation):
    """Oracle: `infinite_kernels`, which knows no such formula; variances 1/n make σ_w² = 3."""
    layer = Conv(1, (3,), padding="circular", weight_scale=math.sqrt(3))
    network = Serial(*(layer, Activation(activation)) * 3, GlobalPool())
    expected = infinite_kernels(network, X).ntk
    found = pooled_convolution_kernel(X, (-1, 0, 1), 3, activation)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_misprints_are_what_they_say():
    """Oracles: one offset has no r ≠ r′; ReLU is homogeneous; a linear network has slope 1."""
    exact = pooled_convolution_kernel(X, (2,), 2)
    np.testing.assert_allclose(
        pooled_convolution_kernel(X, (2,), 2, misprint="offsets apart"), exact, rtol=1e-12
    )
    apart = pooled_convolution_kernel(X, (0, 1), 2, misprint="offsets apart")
    assert np.all(np.diag(apart) > np.diag(pooled_convolution_kernel(X, (0, 1), 2)))
    unscaled = pooled_convolution_kernel(X, (2,), 2, misprint="inputs unscaled")
    np.testing.assert_allclose(unscaled, 2 * exact, rtol=1e-7)
    linear = pooled_convolution_kernel(X, (0,), 1, "identity")
    gram = jnp.einsum("isc,jtc->ijst", X, X) / 2
    np.testing.assert_allclose(linear, gram.mean(axis=(2, 3)), rtol=1e-12)
    squared = pooled_convolution_kernel(X, (0,), 1, "identity", "covariance at the end")
    np.testing.assert_allclose(squared, (gram**2).mean(axis=(2, 3)), rtol=1e-12)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="depth must be at least 1, got 0"):
        pooled_convolution_kernel(X, (0,), 0)
    with pytest.raises(ValueError, match="offsets must have at least one"):
        pooled_convolution_kernel(X, (), 1)
