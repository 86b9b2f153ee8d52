"""Distances between kernel matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import alignment, relative_frobenius, relative_spectral


def matrices(seed):
    first, second = jax.random.normal(jax.random.key(seed), (2, 5, 4))
    return first, second


def test_distances_are_their_definitions_entry_by_entry():
    """Oracle: NumPy sums and singular values."""
    kernel, reference = matrices(0)
    a, b = np.asarray(kernel), np.asarray(reference)

    frobenius = np.sqrt(((a - b) ** 2).sum() / (b**2).sum())
    spectral = np.linalg.svd(a - b)[1].max() / np.linalg.svd(b)[1].max()
    cosine = (a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum())

    assert relative_frobenius(kernel, reference) == pytest.approx(frobenius, rel=1e-12)
    assert relative_spectral(kernel, reference) == pytest.approx(spectral, rel=1e-12)
    assert alignment(kernel, reference) == pytest.approx(cosine, rel=1e-12)


def test_alignment_does_not_see_scale_and_the_norms_do():
    """Oracle: a kernel against a multiple of itself."""
    kernel, _ = matrices(1)
    assert alignment(-3 * kernel, kernel) == pytest.approx(-1, rel=1e-12)
    assert relative_frobenius(3 * kernel, kernel) == pytest.approx(2, rel=1e-12)
    assert relative_spectral(3 * kernel, kernel) == pytest.approx(2, rel=1e-12)


@pytest.mark.parametrize("distance", [relative_frobenius, relative_spectral, alignment])
def test_kernels_of_other_shapes_are_refused(distance):
    with pytest.raises(ValueError, match=r"one shape, got \(2, 2\) and \(2, 3\)"):
        getattr(distance, "__wrapped__", distance)(jnp.ones((2, 2)), jnp.ones((2, 3)))
