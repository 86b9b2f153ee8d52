"""Oracle of all: loops over positions, with the index rule written out."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models.windows import average, convolve, num_windows

CASES = [  # positions, window, strides
    ((7,), (3,), (1,)),
    ((7,), (2,), (3,)),
    ((5, 4), (3, 2), (2, 1)),
    ((3, 2, 4), (2, 2, 3), (1, 2, 2)),
]


def windows(x, window, strides, padding):
    """Yield (output position, [(offset, values)]) for every window, by hand."""
    positions = x.shape[1:-1]
    if padding == "valid":
        counts = [(s - w) // t + 1 for s, w, t in zip(positions, window, strides, strict=True)]
        before = [0] * len(window)
    else:
        counts = [int(np.ceil(s / t)) for s, t in zip(positions, strides, strict=True)]
        before = [
            max((c - 1) * t + w - s, 0) // 2
            for c, t, w, s in zip(counts, strides, window, positions, strict=True)
        ]
    for place in itertools.product(*map(range, counts)):
        seen = []
        for offset in itertools.product(*map(range, window)):
            index = [
                p * t + r - b for p, t, r, b in zip(place, strides, offset, before, strict=True)
            ]
            if padding == "circular":
                index = [i % s for i, s in zip(index, positions, strict=True)]
            inside = all(0 <= i < s for i, s in zip(index, positions, strict=True))
            values = x[(slice(None), *index)] if inside else 0 * x[(slice(None), *[0] * len(index))]
            seen.append((offset, values))
        yield place, seen


@pytest.mark.parametrize("padding", ["valid", "same", "circular"])
@pytest.mark.parametrize(("positions", "window", "strides"), CASES)
def test_convolution_and_average_are_the_sums_over_windows(positions, window, strides, padding):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, *positions, 3))
    weight = rng.normal(size=(*window, 3, 4))
    counts = num_windows(positions, window, strides, padding)

    convolved, averaged = np.zeros((2, *counts, 4)), np.zeros((2, *counts, 3))
    for place, seen in windows(x, window, strides, padding):
        at = (slice(None), *place)
        convolved[at] = sum(values @ weight[offset] for offset, values in seen)
        averaged[at] = np.mean([values for _, values in seen], axis=0)

    x, weight = jnp.asarray(x), jnp.asarray(weight)
    np.testing.assert_allclose(convolve(x, weight, strides, padding), convolved, rtol=1e-12)
    np.testing.assert_allclose(average(x, window, strides, padding), averaged, rtol=1e-12)


def test_window_larger_than_the_image_says_so():
    with pytest.raises(ValueError, match=r"at least the window \(5,\), got \(4,\)"):
        num_windows((4,), (5,), (1,), "valid")
