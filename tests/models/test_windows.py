"""Oracle of all: loops over positions, with the index rule written out."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.models.windows import (
    convolve,
    convolve_locally,
    convolve_transposed,
    num_transposed_windows,
    num_windows,
    upsample,
    window_mean,
    window_sum,
)

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
    np.testing.assert_allclose(window_mean(x, window, strides, padding), averaged, rtol=1e-12)
    summed = averaged * np.prod(window)
    np.testing.assert_allclose(window_sum(x, window, strides, padding), summed, rtol=1e-12)


@pytest.mark.parametrize("padding", ["valid", "same", "circular"])
@pytest.mark.parametrize(("positions", "window", "strides"), CASES[:3])
def test_local_convolution_has_weights_for_every_window(positions, window, strides, padding):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, *positions, 3))
    counts = num_windows(positions, window, strides, padding)
    weight = rng.normal(size=(*counts, *window, 3, 4))
    expected = np.zeros((2, *counts, 4))
    for place, seen in windows(x, window, strides, padding):
        at = (slice(None), *place)
        expected[at] = sum(values @ weight[place][offset] for offset, values in seen)
    got = jax.jit(partial(convolve_locally, strides=strides, padding=padding))(x, weight)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("padding", ["valid", "same", "circular"])
@pytest.mark.parametrize(("positions", "window", "strides"), CASES)
def test_transposed_convolution_is_the_adjoint(positions, window, strides, padding):
    """⟨Ax, y⟩ = ⟨x, Aᵀy⟩, with Aᵀ the convolution by loops; and as many positions as it counts."""
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(2, *positions, 3)), rng.normal(size=(*window, 3, 4))
    spread = num_transposed_windows(positions, window, strides, padding)
    assert num_windows(spread, window, strides, padding) == positions
    y = rng.normal(size=(2, *spread, 4))
    transposed = jax.jit(partial(convolve_transposed, strides=strides, padding=padding))(x, weight)
    adjoint = np.zeros_like(x)
    for place, seen in windows(y, window, strides, padding):
        at = (slice(None), *place)
        adjoint[at] = sum(values @ weight[offset].T for offset, values in seen)
    assert np.vdot(transposed, y) == pytest.approx(np.vdot(x, adjoint), rel=1e-12)


@pytest.mark.parametrize(("window", "strides"), [((3,), (2,)), ((4,), (1,)), ((2,), (3,))])
def test_transposed_convolution_spreads_windows(window, strides):
    """Oracle: by loops, y(t·s + r) gets Wᵣᵀ x(s), for "valid"."""
    rng = np.random.default_rng(1)
    x, weight = rng.normal(size=(2, 5, 3)), rng.normal(size=(*window, 3, 4))
    (size,) = num_transposed_windows((5,), window, strides, "valid")
    expected = np.zeros((2, size, 4))
    for position, offset in itertools.product(range(5), range(window[0])):
        expected[:, strides[0] * position + offset] += x[:, position] @ weight[offset]
    got = convolve_transposed(jnp.asarray(x), jnp.asarray(weight), strides, "valid")
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-15)


def test_transposed_convolution_can_be_differentiated_in_its_weights():
    """Oracle: it is linear in them, so the derivative along W is the value at W."""
    x, weight = jnp.ones((1, 4, 2)), jnp.arange(12.0).reshape(3, 2, 2)
    value, change = jax.jvp(
        lambda w: convolve_transposed(x, w, (2,), "circular"), (weight,), (weight,)
    )
    np.testing.assert_allclose(change, value, rtol=1e-12)


def test_upsampling_repeats_or_interpolates():
    """Oracle: NumPy's repeat; and its interpolation between the centres of the cells."""
    x = np.random.default_rng(0).normal(size=(2, 4, 3, 2))
    repeated = x.repeat(3, axis=1).repeat(2, axis=2)
    np.testing.assert_array_equal(upsample(jnp.asarray(x), (3, 2), "nearest"), repeated)

    def along(axis, factor, values):
        size = values.shape[axis]
        places = (np.arange(size * factor) + 0.5) / factor - 0.5
        return np.apply_along_axis(lambda v: np.interp(places, np.arange(size), v), axis, values)

    expected = along(2, 2, along(1, 3, x))
    np.testing.assert_allclose(upsample(jnp.asarray(x), (3, 2), "linear"), expected, rtol=1e-12)


def test_window_larger_than_the_image_says_so():
    with pytest.raises(ValueError, match=r"at least the window \(5,\), got \(4,\)"):
        num_windows((4,), (5,), (1,), "valid")
