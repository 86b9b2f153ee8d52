"""Predicted test errors, against regressions that were done, and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels import infinite_kernels
from theorylab.kernels.prediction import Spectrum, estimated_spectrum, learning_curve
from theorylab.models import mlp
from theorylab.numerics import student

MODES = 400
EIGENVALUES = jnp.arange(1.0, MODES + 1) ** -1.5
COEFFICIENTS = jnp.arange(1.0, MODES + 1) ** -1.0
SPECTRUM = Spectrum(EIGENVALUES, COEFFICIENTS**2, jnp.ones(MODES))


@jax.jit
def measured(keys, ridge, noise):
    """Test and training errors of regressions on 60 Gaussian samples, exact over test points."""

    def one(key):
        for_features, for_noise = jax.random.split(key)
        features = jax.random.normal(for_features, (60, MODES))
        y = features @ COEFFICIENTS + jnp.sqrt(noise) * jax.random.normal(for_noise, (60,))
        kernel = (features * EIGENVALUES[None]) @ features.T
        alpha = jnp.linalg.solve(kernel + ridge * jnp.eye(60), y)
        learned = EIGENVALUES * (features.T @ alpha)
        return jnp.sum((COEFFICIENTS - learned) ** 2) + noise, jnp.mean((y - kernel @ alpha) ** 2)

    return jax.lax.map(one, keys)


@pytest.mark.parametrize(("ridge", "noise"), [(0.0, 0.0), (1.0, 0.2)])
def test_theory_predicts_regression_on_gaussian_features(ridge, noise):
    """The mean over 200 training sets, within its interval and 3 % of the theory at n = 60."""
    theory = learning_curve(SPECTRUM, 60, ridge, noise)
    test, train = measured(jax.random.split(jax.random.key(0), 200), ridge, noise)
    for errors, expected in ((test, theory.test_error), (train, theory.train_error)):
        interval = student(np.asarray(errors), 0.999)
        slack = 0.03 * float(expected) + 1e-12
        assert interval.low - slack <= float(expected) <= interval.high + slack
    wrong = learning_curve(SPECTRUM, 60, ridge + 5.0, noise).test_error
    assert abs(float(wrong) - float(np.mean(test))) > 0.05 * float(np.mean(test))


def test_spectrum_seen_in_a_large_sample_predicts_small_fits():
    """A kernel of a network on the sphere: 10 fits of 60 points out of 400, error within 10 %."""
    x = jax.random.normal(jax.random.key(1), (400, 5))
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    y = x[:, :1] * x[:, 1:2] + x[:, 2:3]
    kernel = infinite_kernels(mlp([1]), x).ntk
    predicted = float(learning_curve(estimated_spectrum(kernel, y), 60, 1e-2).test_error)
    errors = []
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(400)
        train, test = order[:60], order[60:]
        alpha = np.linalg.solve(kernel[np.ix_(train, train)] + 1e-2 * np.eye(60), y[train])
        errors.append(float(np.mean((y[test] - kernel[np.ix_(test, train)] @ alpha) ** 2)))
    assert np.mean(errors) == pytest.approx(predicted, rel=0.1)


def test_equal_eigenvalues_have_a_closed_form():
    """M equal modes, no ridge: L = n/M, and error 1 − n/M below M; noise n/(n − M) above."""
    flat = Spectrum(jnp.array([2.0]), jnp.array([1.0]), jnp.array([50.0]))
    found = learning_curve(flat, 20)
    np.testing.assert_allclose(found.learnabilities, 20 / 50, rtol=1e-10)
    assert float(found.test_error) == pytest.approx(1 - 20 / 50, rel=1e-10)
    above = learning_curve(flat, 80, noise=0.5)
    assert float(above.effective_ridge) == 0.0
    assert float(above.test_error) == pytest.approx(0.5 * 80 / 30, rel=1e-12)
    assert float(above.train_error) == pytest.approx(0.5 * (80 - 50) / 80, rel=1e-12)


def test_learnabilities_and_ridge_share_out_the_samples():
    found = jax.vmap(lambda n: learning_curve(SPECTRUM, n, 0.7))(jnp.array([1.0, 30.0, 5000.0]))
    total = found.learnabilities.sum(axis=1) + 0.7 / found.effective_ridge
    np.testing.assert_allclose(total, [1.0, 30.0, 5000.0], rtol=1e-9)


def test_a_level_counts_as_its_modes():
    level = Spectrum(jnp.array([1.0, 0.1]), jnp.array([0.5, 0.5]), jnp.array([2.0, 3.0]))
    single = Spectrum(
        jnp.array([1.0, 1.0, 0.1, 0.1, 0.1]), jnp.array([0.2, 0.3, 0.1, 0.1, 0.3]), jnp.ones(5)
    )
    one, other = (learning_curve(spectrum, 4, 0.1, 0.1) for spectrum in (level, single))
    assert float(one.test_error) == pytest.approx(float(other.test_error), rel=1e-10)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="num_samples must be at least 1, got 0"):
        learning_curve(SPECTRUM, 0)
    with pytest.raises(ValueError, match="ridge must be at least 0, got -1"):
        learning_curve(SPECTRUM, 10, -1.0)
    with pytest.raises(ValueError, match=r"eigenvalues must not be negative, got -1.0"):
        learning_curve(Spectrum(-jnp.ones(2), jnp.ones(2), jnp.ones(2)), 3)
