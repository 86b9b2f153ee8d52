"""The scikit-learn estimators: the library's own checks, and what they learn."""

import warnings
from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_digits
from sklearn.feature_selection import VarianceThreshold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from theorylab.features import RecursiveFeatureClassifier, RecursiveFeatureRegressor
from theorylab.features.recursive import Recursion, fit_machine, transform_of

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(120, 6))
Y = X[:, 0] * X[:, 1]


@pytest.mark.parametrize("kind", [RecursiveFeatureRegressor, RecursiveFeatureClassifier])
def test_scikit_learn_accepts_it(kind):
    estimator = kind(num_steps=1)  # more rounds are more of the same
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks make degenerate data on purpose
        check_estimator(estimator, on_skip=None)


def test_the_best_round_is_fitted_again_on_all_data():
    """Oracle: one round in the chosen metric on all data; shapes of targets are kept."""
    model = RecursiveFeatureRegressor(num_steps=3, ridge=0.1, random_state=1).fit(X, Y)
    assert model.best_iteration_ == np.argmin(model.validation_errors_) > 0
    transform = transform_of(model.metric_)
    assert transform is not None
    machine = fit_machine(Recursion(ridge=0.1), transform, X, Y[:, None])
    np.testing.assert_allclose(model.predict(X), machine(X)[:, 0], rtol=1e-6)
    both = model.fit(X, np.stack([Y, 2 * Y], axis=1)).predict(X)
    np.testing.assert_allclose(both[:, 1], 2 * both[:, 0], rtol=1e-6)


def test_single_precision_and_iterative_solvers_agree():
    """Oracle: Cholesky in double precision."""
    settings: Any = {"num_steps": 2, "ridge": 0.1, "validation_fraction": 0.0}
    expected = RecursiveFeatureRegressor(**settings).fit(X, Y).predict(X)
    single = RecursiveFeatureRegressor(**settings, precision="float32").fit(X, Y).predict(X)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=1e-3)
    iterative = RecursiveFeatureRegressor(
        **settings, solver="conjugate_gradients", tolerance=1e-10
    ).fit(X, Y)
    np.testing.assert_allclose(iterative.predict(X), expected, atol=1e-6)
    assert iterative.solver_report_["converged"]


def test_digits_in_a_pipeline():
    """Oracle: the labels; ten classes and two, once features that do not vary are dropped."""
    images, labels = load_digits(return_X_y=True)
    machine = RecursiveFeatureClassifier(num_steps=1, random_state=0)
    model = make_pipeline(VarianceThreshold(), machine)
    model.fit(images[:300], labels[:300])
    assert model.score(images[300:800], labels[300:800]) > 0.8  # a support vector machine has 0.82
    few = labels < 2
    two = RecursiveFeatureClassifier(num_steps=1, random_state=0)
    x, y = images[few][:100], np.array(["zero", "one"])[labels[few][:100]]
    varying = np.ptp(x, axis=0) > 0
    two.fit(x[:, varying], y)
    assert two.decision_function(x[:, varying]).shape == (100,)
    assert two.machine_.coefficients.shape[1] == 1
    assert two.score(x[:, varying], y) > 0.98


def test_bad_settings_and_data_are_told():
    cases: Any = (
        ({"validation_fraction": 1.0}, "validation_fraction must be in"),
        ({"num_centres": 0}, "num_centres must be at least 1, got 0"),
        ({"precision": "half"}, "precision must be float32 or float64, got 'half'"),
        ({"ridge": -1}, "ridge must be at least 0, got -1"),
    )
    for settings, message in cases:
        with pytest.raises(ValueError, match=message):
            RecursiveFeatureRegressor(**settings).fit(X, Y)
    with pytest.raises(ValueError, match="every feature must vary, got constant ones"):
        RecursiveFeatureClassifier().fit(np.ones_like(X), Y > 0)
    with pytest.raises(ValueError, match="NaN"):
        RecursiveFeatureRegressor().fit(np.where(np.arange(6)[None] == 3, np.nan, X), Y)


def test_constant_features_have_metric_zero_and_are_named():
    """Oracle: the machine without them; other values of theirs change no output."""
    settings: Any = {"num_steps": 2, "ridge": 0.1, "random_state": 0}
    expected = RecursiveFeatureRegressor(**settings).fit(X, Y)
    wide = np.insert(X, 3, 7.0, axis=1)
    with pytest.warns(UserWarning, match="have metric 0: 3."):
        model = RecursiveFeatureRegressor(**settings).fit(wide, Y)
    np.testing.assert_allclose(model.predict(wide), expected.predict(X), rtol=1e-9)
    np.testing.assert_allclose(model.predict(np.insert(X, 3, -9.0, axis=1)), model.predict(wide))
    assert not model.metric_[3].any()
    np.testing.assert_allclose(np.delete(model.metric_.diagonal(), 3), expected.metric_.diagonal())
    named = pandas.DataFrame(wide, columns=[*"abcdefg"])
    with pytest.warns(UserWarning, match="have metric 0: d."):
        RecursiveFeatureRegressor(**settings).fit(named, Y)
