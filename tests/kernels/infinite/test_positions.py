"""Convolutional kernels against brute force: loops over positions and offsets, in NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels
from theorylab.kernels.infinite.positions import as_matrix, as_pairs
from theorylab.models import Activation, Conv, Dense, Flatten, GlobalPool, Serial, mlp

RELU = Activation("relu")


def relu_dual(k, q1, q2):
    """E φφ′ and E φ′φ′ of a covariance with variances q1 (rows) and q2 (columns)."""
    scale = np.sqrt(np.multiply.outer(q1, q2))
    angle = np.arccos(np.clip(k / scale, -1, 1))
    value = scale * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    return value, (np.pi - angle) / (2 * np.pi)


def brute_force(x1, x2, window, num_layers, padding):
    """K(s, s′) and Θ(s, s′) after convolutions with r = r′ and ReLU, positions as one axis."""
    positions = x1.shape[:-1]
    places = list(itertools.product(*map(range, positions)))
    offsets = list(itertools.product(*[range(-((w - 1) // 2), w // 2 + 1) for w in window]))

    def moved(place, offset):
        ends = [s + r for s, r in zip(place, offset, strict=True)]
        if padding == "circular":
            return places.index(tuple(s % d for s, d in zip(ends, positions, strict=True)))
        inside = all(0 <= s < d for s, d in zip(ends, positions, strict=True))
        return places.index(tuple(ends)) if inside else None

    table = [[moved(place, offset) for place in places] for offset in offsets]

    def summed(k):
        total = np.zeros_like(k)
        for row in table:
            for (a, s), (b, t) in itertools.product(enumerate(row), repeat=2):
                if s is not None and t is not None:
                    total[a, b] += k[s, t] / len(offsets)
        return total

    def gram(a, b):
        return a.reshape(len(places), -1) @ b.reshape(len(places), -1).T / a.shape[-1]

    k, k1, k2 = gram(x1, x2), gram(x1, x1), gram(x2, x2)
    theta = np.zeros_like(k)
    for _ in range(num_layers):
        k, k1, k2, theta = summed(k), summed(k1), summed(k2), summed(k + theta)
        q1, q2 = np.diag(k1), np.diag(k2)
        (k, slope), k1, k2 = (
            relu_dual(k, q1, q2),
            relu_dual(k1, q1, q1)[0],
            relu_dual(k2, q2, q2)[0],
        )
        theta = theta * slope
    return k, theta


@pytest.mark.parametrize(
    ("shape", "window", "padding"),
    [((5, 2), (3,), "same"), ((4, 3, 2), (3, 2), "same"), ((4, 3, 9), (2, 3), "circular")],
)
def test_convolutions_are_sums_over_equal_offsets(shape, window, padding):
    """Oracle: the recursion over every pair of positions; pooled, flat, and as it is."""
    x = jax.random.normal(jax.random.key(0), (2, *shape))
    k, theta = brute_force(np.asarray(x[0]), np.asarray(x[1]), window, 2, padding)
    layers = (Conv(1, window, padding=padding), RELU) * 2
    pooled = infinite_kernels(Serial(*layers, GlobalPool(), Dense(1)), x)
    np.testing.assert_allclose(pooled.nngp[0, 1], k.mean(), rtol=1e-12)
    np.testing.assert_allclose(pooled.ntk[0, 1], (k + theta).mean(), rtol=1e-12)
    flat = infinite_kernels(Serial(*layers, Flatten(), Dense(1)), x)
    np.testing.assert_allclose(flat.ntk[0, 1], np.diag(k + theta).mean(), rtol=1e-12)
    whole = infinite_kernels(Serial(*layers), x)
    assert whole.ntk.shape == (2, 2, *(size for size in shape[:-1] for _ in range(2)))
    np.testing.assert_allclose(as_matrix(whole.ntk, shape[:-1])[0, 1], theta, rtol=1e-12)


def test_a_window_of_one_pixel_is_a_dense_layer():
    """Oracle: the fully connected kernel, at every pair of pixels; their mean when pooled."""
    x = jax.random.normal(jax.random.key(1), (2, 3, 4))
    layers = (Conv(1, (1,)), RELU, Conv(1, (1,)), RELU)
    whole = infinite_kernels(Serial(*layers, Conv(1, (1,))), x)
    dense = infinite_kernels(mlp([1, 1]), x.reshape(6, 4))
    pixels = dense.ntk.reshape(2, 3, 2, 3).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(whole.ntk, pixels, rtol=1e-7)  # the angle of a pixel with itself
    pooled = infinite_kernels(Serial(*layers, GlobalPool(), Dense(1)), x)
    np.testing.assert_allclose(pooled.ntk, pixels.mean(axis=(2, 3)), rtol=1e-7)


def test_pairs_of_positions_and_matrices_are_one():
    array = jnp.arange(2 * 9 * 16.0).reshape(2, 3, 3, 4, 4)
    matrix = as_matrix(array, (3, 4))
    assert matrix[1, 2 * 4 + 3, 0 * 4 + 1] == array[1, 2, 0, 3, 1]
    np.testing.assert_array_equal(as_pairs(matrix, (3, 4)), array)
