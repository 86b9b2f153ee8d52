"""Fourier features: lengths, translations, and the spectrum that they stretch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import fourier_features as features
from theorylab.kernels import infinite_kernels, zonal
from theorylab.models import NTK, mlp

FREQUENCIES = {
    "basic": features.basic_frequencies(2, 3),
    "positional": features.positional_frequencies(2, 4, 20.0),
    "gaussian": features.gaussian_frequencies(jax.random.key(0), 2, 16, 5.0),
}
RELU = mlp([1, 1])
X = jax.random.uniform(jax.random.key(1), (7, 2))


@pytest.mark.parametrize("name", FREQUENCIES)
def test_features_are_waves_whose_products_know_differences_only(name):
    """Oracle: Σⱼ cos 2πBⱼᵀ(x − x′), summed by NumPy."""
    b = FREQUENCIES[name]
    found = features.fourier_features(X, b)
    x, rows = np.asarray(X), np.asarray(b)
    expected = np.array(
        [[sum(np.cos(2 * np.pi * r @ (u - v)) for r in rows) for v in x] for u in x]
    )
    np.testing.assert_allclose(found @ found.T, expected, atol=1e-10)


@pytest.mark.parametrize("name", FREQUENCIES)
def test_kernel_is_invariant_to_translations(name):
    """And without an embedding it is not."""
    shift = jnp.array([[0.37, -0.81]])

    def kernel(x):
        return infinite_kernels(RELU, x, parametrization=NTK(), bias="normal").ntk

    def embed(x):
        return features.fourier_features(x, FREQUENCIES[name])

    np.testing.assert_allclose(kernel(embed(X + shift)), kernel(embed(X)), atol=1e-10)
    assert np.abs(kernel(X + shift) - kernel(X)).max() > 0.1


@pytest.mark.parametrize("factor", [1, 2, 5])
def test_basic_embedding_moves_every_mode(factor):
    """Oracle: the Fourier transform of the kernel on a grid of [0, 1)."""
    m = 120
    grid = jnp.arange(m)[:, None] / m
    embedded = features.fourier_features(grid, features.basic_frequencies(1, factor))
    found = zonal.circle_spectrum(infinite_kernels(RELU, embedded[:1], embedded).ntk[0])
    coarse = m // factor
    angles = 2 * jnp.pi * jnp.arange(coarse) / coarse
    circle = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
    spectrum = zonal.circle_spectrum(infinite_kernels(RELU, circle[:1], circle).ntk[0])
    expected = features.stretched_spectrum(spectrum, factor)
    np.testing.assert_allclose(found, expected[: len(found)], atol=1e-12)


def test_positional_frequencies_are_a_ladder_along_every_axis():
    found = np.asarray(features.positional_frequencies(2, 3, 8.0))
    np.testing.assert_allclose(found, [[1, 0], [2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], rtol=1e-12)


def test_gaussian_frequencies_have_deviation_sigma():
    """Six standard errors of a deviation of 20,000 numbers."""
    drawn = features.gaussian_frequencies(jax.random.key(2), 2, 10_000, 7.0)
    assert float(drawn.std()) == pytest.approx(7.0, rel=6 / np.sqrt(2 * 20_000))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: features.fourier_features(X, jnp.ones((3, 1))), "as many columns as x, 2, got 1"),
        (lambda: features.positional_frequencies(2, 0, 1.0), "num_frequencies must be at least 1"),
        (lambda: features.stretched_spectrum(jnp.ones(2), 0), "factor must be at least 1, got 0"),
        (
            lambda: features.gaussian_frequencies(jax.random.key(0), 2, 0, 1.0),
            "num_frequencies must be at least 1",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
