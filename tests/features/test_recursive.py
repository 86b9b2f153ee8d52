"""Recursive feature machines: dense oracles, what they find, what must not change them."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features import agop
from theorylab.features.radial import RADIAL
from theorylab.features.recursive import (
    Recursion,
    check_data,
    check_validation,
    fit_machine,
    learn_features,
    transform_of,
)

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 4))
Y = np.stack([X[:, 0] * X[:, 1], np.sin(X[:, 2])], axis=1)
EYE = np.eye(4)


def dense(x, y, metric, bandwidth, ridge, at):
    """Oracle: the Laplace machine of a metric, one distance after the other."""
    gaps = lambda a, b: a[:, None] - b[None]  # noqa: E731
    kernel = lambda a, b: np.exp(  # noqa: E731
        -np.sqrt(np.einsum("ijd,de,ije->ij", gaps(a, b), metric, gaps(a, b))) / bandwidth
    )
    alpha = np.linalg.solve(kernel(x, x) + ridge * np.eye(len(x)), y - y.mean(axis=0))
    return y.mean(axis=0) + kernel(at, x) @ alpha


@pytest.mark.parametrize("solver", ["cholesky", "conjugate_gradients", "nystrom"])
def test_a_round_is_ridge_regression_with_the_metric(solver):
    """Oracle: dense NumPy; with all points as centres Nyström is exact too."""
    recursion = Recursion(
        bandwidth=1.5, bandwidth_mode="constant", ridge=0.1, solver=solver, tolerance=1e-12
    )
    transform = RANDOM.normal(size=(4, 3))
    machine = fit_machine(recursion, transform, X, Y, num_centres=40)
    expected = dense(X, Y, transform @ transform.T, 1.5, 0.1, X[:7] + 0.1)
    np.testing.assert_allclose(machine(X[:7] + 0.1), expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", ["gaussian", lambda x1, x2: (1 + x1 @ x2.T) ** 2])
def test_the_agop_of_a_machine_is_that_of_its_outputs(kernel):
    """Oracle: autodiff through the machine, written out again; for a given kernel too."""
    machine = fit_machine(Recursion(kernel, bandwidth=2.0), RANDOM.normal(size=(4, 3)), X, Y)

    def apply(params, x):
        z = (x - machine.centre[None]) @ machine.transform / machine.bandwidth
        if kernel == "gaussian":
            values = jnp.exp(-jnp.sum((z[:, None] - machine.points[None]) ** 2, axis=-1) / 2)
        else:
            values = kernel(z, machine.points)
        return values @ machine.coefficients

    np.testing.assert_allclose(machine.agop(X), agop(apply, (), jnp.asarray(X)), rtol=1e-8)


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_the_next_metric_is_a_power_of_the_agop(power):
    """Oracle: eigenvalues by hand; the trace is d, and directions without gradient are left out."""
    basis = np.linalg.qr(RANDOM.normal(size=(4, 4)))[0]
    features = (basis * np.array([9.0, 4.0, 1e-17, 0.0])) @ basis.T
    values = np.array([9.0, 4.0]) ** power
    expected = (basis[:, :2] * (4 * values / values.sum())) @ basis[:, :2].T
    found = transform_of(features, power)
    assert found is not None
    assert found.shape == (4, 2)
    np.testing.assert_allclose(found @ found.T, expected, atol=1e-10)
    scaled = transform_of(features, power, diagonal=True)
    assert scaled is not None
    parts = features.diagonal() ** power
    np.testing.assert_allclose(scaled @ scaled.T, np.diag(4 * parts / parts.sum()), atol=1e-12)
    assert transform_of(np.zeros((4, 4))) is None


def test_rounds_follow_each_other_as_the_formula_says():
    """Oracle: the dense machine, its gradients by finite differences, two rounds by hand."""
    recursion = Recursion(num_steps=1, bandwidth=3.0, bandwidth_mode="constant", ridge=0.1)
    found = learn_features(recursion, X, Y)
    outputs = lambda at: dense(X, Y, EYE, 3.0, 0.1, at)  # noqa: E731
    # A Laplace machine has a kink at each of its points: both sides' mean leaves it out.
    slopes = np.stack(
        [(outputs(X + 1e-6 * e[None]) - outputs(X - 1e-6 * e[None])) / 2e-6 for e in EYE], -1
    )
    features = np.einsum("ika,ikb->ab", slopes, slopes) / len(X)
    np.testing.assert_allclose(found.metrics[0], EYE, atol=1e-12)
    np.testing.assert_allclose(found.metrics[1], 4 * features / np.trace(features), rtol=1e-5)
    expected = dense(X, Y, found.metrics[1], 3.0, 0.1, X)
    np.testing.assert_allclose(found.machine(X), expected, rtol=1e-6)
    assert found.best == 1
    assert np.isnan(found.errors).all()


def test_rotated_data_have_a_rotated_metric():
    """Oracle: an invariance, which a diagonal metric does not have."""
    turn = np.linalg.qr(RANDOM.normal(size=(4, 4)))[0]
    plain, turned = (learn_features(Recursion(num_steps=2), x, Y) for x in (X, X @ turn))
    np.testing.assert_allclose(turned.machine(X @ turn), plain.machine(X), rtol=1e-6)
    np.testing.assert_allclose(turned.metrics[-1], turn.T @ plain.metrics[-1] @ turn, atol=1e-6)


def test_it_finds_the_two_directions_and_predicts_better():
    """Oracle: y = x₁x₂ in 20 dimensions; validation keeps the best round."""
    x = RANDOM.normal(size=(500, 20))
    y = x[:, :1] * x[:, 1:2]
    held = (x[300:], y[300:])
    found = learn_features(Recursion(num_steps=4), x[:300], y[:300], held)
    assert found.errors[found.best] == found.errors.min() < 0.5 * found.errors[0]
    metric = found.metrics[found.best]
    assert metric[:2, :2].trace() > 0.95 * metric.trace()
    np.testing.assert_allclose(metric.trace(), 20, rtol=1e-9)


def test_bad_data_and_settings_are_told():
    recursion = Recursion()
    for x, message in (
        (np.where(np.arange(4)[None] == 2, np.nan, X), "NaN or infinity in column 2"),
        (np.where(np.arange(4)[None] == 1, 5.0, X), "constant ones, .* columns 1"),
        (X.astype(np.float32), "both be float32 or float64"),
    ):
        with pytest.raises(ValueError, match=message):
            learn_features(recursion, x, Y)
    with pytest.raises(ValueError, match=r"shape \(n, d\) and y \(n, k\)"):
        check_data(X[:5], Y)
    cases: Any = (
        ({"kernel": "cubic"}, "kernel must be one of laplace"),
        ({"num_steps": -1}, "num_steps must be at least 0, got -1"),
        ({"bandwidth": 0.0}, "bandwidth must be positive, got 0"),
        ({"bandwidth_mode": "mean"}, "median or constant, got 'mean'"),
        ({"power": -1.0}, "power must be positive, got -1"),
        ({"ridge": -1.0}, "ridge must be at least 0, got -1"),
        ({"ridge": 0.0, "solver": "nystrom"}, "ridge must be positive for this solver, got 0"),
        ({"solver": "lu"}, "solver must be one of"),
        ({"tolerance": 1.0}, "tolerance must be in"),
    )
    for settings, message in cases:
        with pytest.raises(ValueError, match=message):
            Recursion(**settings)


def test_targets_without_any_slope_end_the_recursion():
    """Oracle: constant targets have no gradient, and the constant is the prediction."""
    found = learn_features(Recursion(), X, np.full((40, 1), 3.0))
    assert len(found.metrics) == 1
    np.testing.assert_allclose(found.machine(X), 3.0, rtol=1e-12)
    assert RADIAL.keys() >= {"laplace", "gaussian"}


def test_validation_centres_and_other_inputs_are_checked():
    x, y = X[:20], X[:20, :1]
    cases = (
        ((X[:5, :-1], y[:5]), "validation must have shapes"),
        ((X[:5], y[:5, 0]), "validation must have shapes"),
        ((X[:5], y[:4]), "validation must have shapes"),
        ((np.full_like(X[:5], np.nan), y[:5]), "validation x must be finite"),
        ((X[:5], np.full_like(y[:5], np.inf)), "validation y must be finite"),
    )
    for validation, message in cases:
        with pytest.raises(ValueError, match=message):
            check_validation(*validation, x, y)
    bad = (np.full_like(x, np.nan), y)
    with pytest.raises(ValueError, match="validation x must be finite"):
        learn_features(Recursion(num_steps=1), x, y, bad)
    with pytest.raises(ValueError, match="num_centres must be at least 1, got -3"):
        learn_features(Recursion(num_steps=1), x, y, num_centres=-3)
    machine = learn_features(Recursion(num_steps=0), x, y).machine
    with pytest.raises(ValueError, match="as in training, got"):
        machine(X[:5, :-1])
