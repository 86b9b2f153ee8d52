"""Means of random draws and their errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels.estimate import estimate, mean_of, no_draws, with_draw


def test_draws_one_by_one_give_the_mean_and_its_error():
    """Oracle: NumPy's mean and standard deviation of all draws together."""
    samples = jax.random.normal(jax.random.key(0), (7, 2, 3)) + 5.0
    draws = no_draws(samples[0])
    for sample in samples:
        draws = with_draw(draws, sample)
    for found in (estimate(draws), mean_of(samples)):
        np.testing.assert_allclose(found.mean, np.mean(samples, axis=0), rtol=1e-13)
        error = np.std(samples, axis=0, ddof=1) / np.sqrt(7)
        np.testing.assert_allclose(found.error, error, rtol=1e-12)


def test_one_draw_has_no_error_to_speak_of():
    found = mean_of(jnp.ones((1, 2)))
    assert found.mean.tolist() == [1.0, 1.0]
    assert found.error.tolist() == [np.inf, np.inf]
    low, high = found.interval()
    assert (low[0], high[0]) == (-np.inf, np.inf)


def test_errors_fall_with_the_square_root_of_the_draws():
    """Oracle: the law of large numbers, in the mean over 4000 columns."""
    samples = jax.random.normal(jax.random.key(1), (64, 4000))
    few, many = (float(jnp.mean(mean_of(samples[:m]).error)) for m in (16, 64))
    assert few / many == pytest.approx(2.0, rel=0.03)
