"""The image-like law against its moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data.contrast import image_like, image_like_covariance


def test_moments_are_those_of_the_law():
    """Oracle: covariance e^{2τ²}(I + β²𝟏𝟏ᵀ + μμᵀ) and mean 0; six standard errors at most."""
    n, law = 40000, {"contrast": 0.3, "brightness": 0.7, "separation": 0.4}
    data = image_like(jax.random.key(0), n, 4, **law)
    products = np.asarray(data.x[:, :, None] * data.x[:, None, :])
    error = products.std(axis=0) / np.sqrt(n)
    expected = np.asarray(image_like_covariance(4, **law))
    assert np.all(np.abs(products.mean(axis=0) - expected) < 6 * error)
    assert np.all(np.abs(data.x.mean(axis=0)) < 6 * data.x.std(axis=0) / np.sqrt(n))


def test_classes_differ_by_the_checkerboard_times_the_mean_contrast():
    """Oracle: E[x y] = e^{τ²/2} (μ, −μ, …)."""
    data = image_like(jax.random.key(1), 40000, 3, contrast=0.3, separation=0.4)
    expected = np.exp(0.3**2 / 2) * 0.4 * np.array([1, -1, 1])
    mean = np.asarray((data.x * data.y).mean(axis=0))
    np.testing.assert_allclose(mean, expected, atol=0.05)
    assert set(np.unique(data.y)) == {-1.0, 1.0}


def test_without_contrast_sizes_are_alike_and_with_it_they_are_not():
    """The logarithm of ‖x‖ has the deviation τ, up to 1/√(2d) of the noise."""
    for contrast in (0.0, 0.8):
        data = image_like(jax.random.key(2), 2000, 400, contrast=contrast, brightness=0.0)
        spread = jnp.log(jnp.linalg.norm(data.x, axis=1)).std()
        np.testing.assert_allclose(spread, np.hypot(contrast, 1 / np.sqrt(800)), rtol=0.1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_samples": 0}, "num_samples must be at least 1, got 0"),
        ({"num_samples": 1, "contrast": -1.0}, "contrast must be at least 0 and finite, got -1.0"),
        ({"num_samples": 1, "separation": float("nan")}, "separation must be finite, got nan"),
    ],
)
def test_bad_input_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        image_like(jax.random.key(0), **fields)
