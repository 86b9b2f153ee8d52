"""Label-aware kernels against double sums, their limits, and invariances."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import alignment
from theorylab.kernels.label_aware import hybrid_kernel, label_kernel, target_alignment

ROOTS = jax.random.normal(jax.random.key(0), (5, 3))
KERNEL = ROOTS @ ROOTS.T
LABELS = jnp.array([1.0, -1.0, 1.0, 1.0, -1.0])
SIMILARITY = jax.random.normal(jax.random.key(1), (2, 4))


def test_label_kernel_is_the_weighted_double_sum():
    """Oracle: the sums over i and j, written out."""
    expected = np.zeros((2, 4))
    for place, value in np.ndenumerate(np.asarray(SIMILARITY)):
        weights = np.exp(-((value - np.asarray(KERNEL)) ** 2) / (2 * 0.7**2))
        expected[place] = LABELS @ weights @ LABELS / weights.sum()
    found = label_kernel(SIMILARITY, KERNEL, LABELS, 0.7)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_limits_of_the_bandwidth():
    """Oracle: no width recalls yᵢyⱼ, all the width is the mean over pairs; far away too."""
    recalled = label_kernel(KERNEL, KERNEL, LABELS, 1e-4)
    np.testing.assert_allclose(recalled, jnp.outer(LABELS, LABELS), atol=1e-12)
    flat = label_kernel(SIMILARITY, KERNEL, LABELS, 1e6)
    np.testing.assert_allclose(flat, jnp.full((2, 4), LABELS.mean() ** 2), rtol=1e-8)
    largest = np.unravel_index(np.argmax(KERNEL), KERNEL.shape)
    far = label_kernel(jnp.full((1, 1), 1e3), KERNEL, LABELS, 0.1)
    assert float(far[0, 0]) == pytest.approx(float(LABELS[largest[0]] * LABELS[largest[1]]))


def test_the_sign_of_all_labels_does_not_matter():
    one, other = (label_kernel(SIMILARITY, KERNEL, y, 0.5) for y in (LABELS, -LABELS))
    np.testing.assert_array_equal(one, other)


def test_hybrid_goes_from_one_to_the_other():
    ends = [hybrid_kernel(KERNEL, -KERNEL, weight) for weight in (0.0, 1.0, 0.25)]
    np.testing.assert_allclose(jnp.stack(ends), jnp.stack([KERNEL, -KERNEL, 0.5 * KERNEL]))


def test_target_alignment_is_that_with_the_kernel_of_labels():
    """Oracle: the cosine between two matrices."""
    expected = alignment(KERNEL, jnp.outer(LABELS, LABELS))
    assert float(target_alignment(KERNEL, LABELS)) == pytest.approx(float(expected), rel=1e-12)
    column = LABELS[:, None]
    assert float(target_alignment(KERNEL, column)) == pytest.approx(float(expected), rel=1e-12)
    several = target_alignment(KERNEL, ROOTS)
    assert float(several) == pytest.approx(float(alignment(KERNEL, KERNEL)), rel=1e-12)
    with pytest.raises(ValueError, match=r"got \(3, 1\) and \(5, 5\)"):
        getattr(target_alignment, "__wrapped__", target_alignment)(KERNEL, column[:3])


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="bandwidth must be positive, got 0"):
        label_kernel(SIMILARITY, KERNEL, LABELS, 0.0)
    with pytest.raises(ValueError, match=r"weight must be in \[0, 1\], got 1.5"):
        hybrid_kernel(KERNEL, KERNEL, 1.5)
