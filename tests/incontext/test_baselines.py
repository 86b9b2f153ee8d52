"""Predictions at every place against regressions on the examples before it, one by one."""

import jax
import numpy as np
import pytest
from sklearn.linear_model import Lasso

from theorylab.incontext import (
    FunctionLaw,
    bayes_errors,
    draw_sequences,
    predict_descent,
    predict_lasso,
    predict_least_squares,
    predict_ridge,
)

DRAWN = draw_sequences(jax.random.key(0), FunctionLaw(dimension=3, noise=0.3), 2, 6)


def each(fit):
    """Fit in NumPy to the examples before every place; 0 where there are none."""
    out = np.zeros((2, 6))
    for b in range(2):
        for t in range(1, 6):
            x, y = np.asarray(DRAWN.x[b, :t]), np.asarray(DRAWN.y[b, :t])
            out[b, t] = fit(x, y) @ np.asarray(DRAWN.x[b, t])
    return out


def test_ridge():
    expected = each(lambda x, y: np.linalg.solve(x.T @ x + 0.2 * np.eye(3), x.T @ y))
    np.testing.assert_allclose(predict_ridge(DRAWN.x, DRAWN.y, 0.2), expected, atol=1e-10)


def test_least_squares_has_the_least_norm():
    expected = each(lambda x, y: np.linalg.pinv(x) @ y)
    np.testing.assert_allclose(predict_least_squares(DRAWN.x, DRAWN.y), expected, atol=1e-7)


def test_lasso_is_that_of_scikit_learn():
    expected = each(
        lambda x, y: (
            Lasso(alpha=0.1, fit_intercept=False, tol=1e-10, max_iter=10**5).fit(x, y).coef_
        )
    )
    found = predict_lasso(DRAWN.x, DRAWN.y, 0.1, num_steps=3000)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_descent_takes_its_steps():
    def descend(x, y):
        weights = np.zeros(3)
        for _ in range(4):
            weights = weights - 0.1 * x.T @ (x @ weights - y) / len(y)
        return weights

    found = predict_descent(DRAWN.x, DRAWN.y, 0.1, num_steps=4)
    np.testing.assert_allclose(found, each(descend), atol=1e-12)


def test_bayes_errors_are_those_of_ridge():
    """Oracle: the mean square of ridge regression with λ = σ², over many tasks."""
    drawn = draw_sequences(jax.random.key(1), FunctionLaw(dimension=3, noise=0.5), 20000, 5)
    squares = np.square(predict_ridge(drawn.x, drawn.y, 0.25) - drawn.clean)
    expected = np.asarray(bayes_errors(drawn.x, 0.5))
    gaps = np.asarray(squares) - expected
    error = gaps.std(axis=0) / np.sqrt(len(gaps))
    assert np.all(np.abs(gaps.mean(axis=0)) < 4 * error)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        predict_descent(DRAWN.x, DRAWN.y, 0.1, num_steps=0)
