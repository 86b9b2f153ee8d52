"""The scikit-learn estimators: the library's own checks, dense oracles, solvers that agree."""

import warnings
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import check_estimator

from theorylab.kernels import estimators, infinite_kernels
from theorylab.kernels.estimators import NNGPRegressor, NTKClassifier, NTKRegressor
from theorylab.kernels.prediction import log_evidence, posterior
from theorylab.kernels.solvers import nystrom_solve
from theorylab.models import NTK, Conv, Dense, Flatten, Serial, mlp

RANDOM = np.random.default_rng(0)
X, TESTS = RANDOM.normal(size=(16, 3)), RANDOM.normal(size=(4, 3))
Y = np.stack([X[:, 0] * X[:, 1], np.sin(X[:, 2])], axis=1)


def kernels(x1, x2, depth=2, activation="relu"):
    architecture = mlp([1] * (depth - 1), activation=activation)
    scales = NTK(weight_scale=2**0.5, bias_scale=0.1)
    return infinite_kernels(
        architecture, jnp.asarray(x1), jnp.asarray(x2), parametrization=scales, bias="normal"
    )


@pytest.mark.parametrize("estimator", [NTKRegressor(), NTKClassifier(), NNGPRegressor()])
def test_scikit_learn_accepts_it(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks make degenerate data on purpose
        check_estimator(estimator, on_skip=None)


@pytest.mark.parametrize("solver", ["cholesky", "conjugate_gradients", "nystrom"])
def test_regressor_is_kernel_ridge_regression(solver):
    """Oracle: NumPy on the kernels; with all points as centres Nyström is exact too."""
    model = NTKRegressor(ridge=0.1, solver=solver, num_centres=16, tolerance=1e-12)
    found = model.fit(X, Y).predict(TESTS)
    solved = np.linalg.solve(np.asarray(kernels(X, X).ntk) + 0.1 * np.eye(16), Y)
    np.testing.assert_allclose(found, kernels(TESTS, X).ntk @ solved, rtol=1e-6, atol=1e-8)
    assert model.solver_report_["residual"] < 1e-8


def test_nngp_regressor_is_the_posterior():
    """Oracle: `theorylab.kernels.prediction`, which takes another way (modes, not Cholesky)."""
    model = NNGPRegressor(ridge=0.05).fit(X, Y)
    mean, deviation = model.predict(TESTS, return_std=True)
    both = (kernels(X, X).nngp, kernels(TESTS, X).nngp, kernels(TESTS, TESTS).nngp)
    expected = posterior(*both, jnp.asarray(Y), noise=0.05)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-9)
    variance = np.diagonal(expected.covariance)
    np.testing.assert_allclose(deviation**2, np.stack([variance] * 2, axis=1), rtol=1e-8)
    evidence = float(log_evidence(both[0], jnp.asarray(Y), 0.05))
    assert model.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-10)


def test_classifier_reads_digits_in_a_search():
    x, y = load_digits(n_class=3, return_X_y=True)
    pipeline = make_pipeline(Normalizer(), NTKClassifier(precision="float32"))
    search = GridSearchCV(pipeline, {"ntkclassifier__ridge": [1e-2, 1.0]}, cv=2)
    found = search.fit(x[:128], y[:128]).predict(x[128:256])
    assert np.mean(found == y[128:256]) > 0.9


def test_any_architecture_serves():
    """Images through a convolution: its kernel is not the fully connected one."""
    x, y = load_digits(n_class=2, return_X_y=True)
    architecture = Serial(Conv(1, (3, 3)), Flatten(), Dense(1))
    model = NTKClassifier(architecture=architecture, input_shape=(8, 8, 1), ridge=1e-2)
    assert model.fit(x[:32] / 16, y[:32]).score(x[32:64] / 16, y[32:64]) > 0.9


def test_trouble_is_told(monkeypatch):
    twice = np.concatenate([X, X])
    with pytest.warns(UserWarning, match="singular to rounding: a jitter of"):
        NTKRegressor(ridge=0.0, depth=1, bias_scale=0.0).fit(twice, np.tile(Y, (2, 1)))
    short = partial(nystrom_solve, max_steps=1)
    monkeypatch.setattr(estimators, "nystrom_solve", short)
    with pytest.warns(ConvergenceWarning, match="stopped at a residual of"):
        NTKRegressor(solver="nystrom", num_centres=8).fit(X, Y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ridge": -1.0}, "ridge must be at least 0, got -1.0"),
        ({"solver": "magic"}, "solver must be one of cholesky, conjugate_gradients, nystrom"),
        ({"solver": "nystrom", "ridge": 0.0}, "ridge must be positive for the solver nystrom"),
        ({"num_centres": 0}, "num_centres must be at least 1, got 0"),
        ({"depth": 0}, "depth must be at least 1, got 0"),
        ({"precision": "float16"}, "precision must be float32 or float64, got 'float16'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        NTKRegressor().set_params(**settings).fit(X, Y)
    if "num_centres" in settings:
        with pytest.raises(ValueError, match="NNGPRegressor needs the solver cholesky"):
            NNGPRegressor(solver="nystrom").fit(X, Y)
