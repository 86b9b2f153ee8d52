"""Kernels taken apart: exact modes, and matrices that are no kernels refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels.prediction import kernel_modes

unchecked = getattr(kernel_modes, "__wrapped__", kernel_modes)  # without the checks of shapes


def test_modes_give_the_kernel_back():
    features = jax.random.normal(jax.random.key(0), (6, 4))
    kernel = features @ features.T  # of rank 4
    values, vectors = kernel_modes(kernel)
    np.testing.assert_allclose((vectors * values[None]) @ vectors.T, kernel, atol=1e-13)
    assert (np.asarray(values) >= 0).all()
    assert np.sum(np.asarray(values) > 1e-12) == 4


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (jnp.ones((2, 3)), r"kernel must be a square matrix, got shape \(2, 3\)"),
        (jnp.array([[1.0, 0.5], [0.4, 1.0]]), "kernel must be symmetric, got entries that differ"),
        (jnp.array([[1.0, 2.0], [2.0, 1.0]]), "positive semi-definite, got eigenvalues from -1 to"),
        (jnp.array([[1.0, jnp.nan], [jnp.nan, 1.0]]), "kernel must be finite, got NaN"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        unchecked(kernel)


def test_rounding_below_zero_is_no_reason_to_refuse():
    kernel = jnp.ones((5, 5)) - 1e-16 * jnp.eye(5)
    assert float(kernel_modes(kernel).eigenvalues.min()) == 0.0
