"""Rows of the tangent kernel against dense Jacobians, closed forms and planted networks."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from theorylab.checkup import examine
from theorylab.checkup.rows.kernel import MEASURES
from theorylab.models import mlp, network
from theorylab.training import hinge

MODEL = network(mlp((6,), num_outputs=3, activation="tanh"), input_shape=(4,), bias="zero")
PARAMS = MODEL.init(jax.random.key(0))
START = MODEL.init(jax.random.key(1))
X = jax.random.normal(jax.random.key(2), (20, 4))
CLASSES = np.arange(20) % 3


def detail(reading, name) -> Any:
    """One of its further numbers."""
    return reading.details[name]


def programs(function: Any) -> int:
    """How many programs are compiled of a jitted function."""
    return function._cache_size()


def row(name, apply: Any = MODEL.apply, params: Any = PARAMS, x=X, y: Any = CLASSES, **known: Any):
    """The reading of one row."""
    return examine(apply, params, x, y, only=[name], **known).reading(name)


def dense_kernel(params=PARAMS, x=X):
    """(1/k) Σ_a J_a J_aᵀ from jax.jacobian."""
    flat, unravel = ravel_pytree(params)
    jacobian = np.asarray(jax.jacobian(lambda w: MODEL.apply(unravel(w), x))(flat))
    return np.einsum("iap,jap->ij", jacobian, jacobian) / jacobian.shape[1]


def linear(w, x):
    """A model that is linear in its parameters."""
    return x @ w


def test_the_rows_are_those_of_the_group():
    """Rules and pages rely on the names."""
    names = "kernel_spectrum kernel_condition label_alignment learning_time kernel_drift"
    more = "feature_drift linear_error quadratic_error"
    assert [each.name for each in MEASURES] == f"{names} {more}".split()


def test_spectrum_is_that_of_the_dense_kernel():
    """Oracle: eigenvalues of JJᵀ with the Jacobian made dense."""
    found, kernel = row("kernel_spectrum"), dense_kernel()
    values = np.linalg.eigvalsh(kernel)[::-1]
    np.testing.assert_allclose(found.curves["eigenvalues"], values, atol=1e-10)
    np.testing.assert_allclose(found.value, values[0], rtol=1e-10)
    np.testing.assert_allclose(detail(found, "trace"), values.sum(), rtol=1e-10)
    rank = values.sum() ** 2 / (values**2).sum()
    np.testing.assert_allclose(detail(found, "effective rank"), rank, rtol=1e-10)


def test_condition_is_that_of_the_dense_kernel():
    """Oracle: λ_max/λ_min of JJᵀ."""
    found, values = row("kernel_condition"), np.linalg.eigvalsh(dense_kernel())
    np.testing.assert_allclose(found.value, values[-1] / values[0], rtol=1e-6)
    assert found.low <= values[-1] / values[0] <= found.high


def test_a_singular_kernel_has_a_bound_for_its_condition():
    """Oracle: 20 inputs of 4 entries have a kernel xxᵀ of rank 4, whose condition is infinite."""
    found = row("kernel_condition", linear, jnp.ones((4, 1)), y=X[:, :1], loss="mse")
    assert found.low == found.value > 1e10
    assert found.high == np.inf
    assert "at least" in found.meaning


def test_alignment_is_one_for_a_kernel_of_the_labels():
    """Oracle: K = xxᵀ with x = y, centred."""
    y = jnp.array([[1.0], [-1.0], [1.0], [-1.0]])
    found = row("label_alignment", linear, jnp.ones((1, 1)), y, y, loss="mse")
    np.testing.assert_allclose(found.value, 1.0, rtol=1e-12)


def test_alignment_of_classes_is_that_of_their_centred_one_hot_rows():
    """Oracle: tr(YᵀKY)/(‖K‖‖YYᵀ‖) written out with dense matrices."""
    found, kernel = row("label_alignment"), dense_kernel()
    y = np.eye(3)[CLASSES]
    y = y - y.mean(axis=0)
    expected = np.vdot(kernel, y @ y.T) / np.linalg.norm(kernel) / np.linalg.norm(y @ y.T)
    np.testing.assert_allclose(found.value, expected, rtol=1e-10)


def test_shuffled_labels_are_seldom_found_aligned():
    """Oracle: the p-value of labels that are random is uniform, so 10 % are below 0.1."""
    rng = np.random.default_rng(0)
    low = sum(
        detail(row("label_alignment", y=rng.permutation(CLASSES)), "p-value") <= 0.1
        for _ in range(60)
    )
    assert low <= 13  # P(Binomial(60, 0.1) > 13) < 0.01


def test_the_mean_over_shuffles_has_a_closed_form():
    """Oracle: for centred Y, E tr(YᵀPᵀKPY) = ‖Y‖² (tr K − 1ᵀK1/m)/(m − 1)."""
    found, kernel = row("label_alignment"), dense_kernel()
    y = np.eye(3)[CLASSES]
    y, m = y - y.mean(axis=0), len(kernel)
    mean = (y**2).sum() * (np.trace(kernel) - kernel.sum() / m) / (m - 1)
    expected = mean / np.linalg.norm(kernel) / np.linalg.norm(y @ y.T)
    np.testing.assert_allclose(detail(found, "shuffled: mean"), expected, rtol=0.1)


def test_after_its_time_a_direction_has_decayed_by_e():
    """Oracle: gradient descent with small steps on the linear model itself."""
    x = jnp.diag(jnp.array([3.0, 1.0, 0.5]))
    y, rate = jnp.array([[0.0], [1.0], [0.0]]), 1e-3  # all labels in the second direction
    found = row("learning_time", linear, jnp.zeros((3, 1)), x, y, loss="mse", learning_rate=rate)
    slope = jax.grad(lambda w: ((x @ w - y) ** 2).mean())
    w = jax.lax.fori_loop(
        0, round(found.value), lambda _, w: w - rate * slope(w), jnp.zeros((3, 1))
    )
    np.testing.assert_allclose(float((y - x @ w)[1, 0]), np.exp(-1), rtol=0.01)
    assert detail(found, "directions for 90 %") == 2


def test_times_without_a_learning_rate_are_in_units_of_it():
    """Oracle: t = steps · η."""
    steps = row("learning_time", learning_rate=0.25).value
    np.testing.assert_allclose(row("learning_time").value, 0.25 * steps, rtol=1e-12)


def test_momentum_learns_faster_by_its_factor():
    """Oracle: heavy ball with β is descent with η/(1 − β)."""
    known = {"learning_rate": 0.1, "optimizer": "momentum", "momentum": 0.75}
    plain = row("learning_time", learning_rate=0.1).value
    np.testing.assert_allclose(row("learning_time", **known).value, plain / 4, rtol=1e-12)


def test_a_loss_without_curvature_has_no_time():
    """The row is skipped, not failed."""
    y = np.where(CLASSES > 0, 1.0, -1.0)[:, None] * np.ones((1, 3))
    card = examine(MODEL.apply, PARAMS, X, y, loss=hinge("mean"), only=["learning_time"])
    assert card["learning_time"].status == "skipped"


def test_drift_is_that_of_dense_kernels():
    """Oracle: ‖K − K₀‖/‖K₀‖ and the cosine from dense Jacobians."""
    found = row("kernel_drift", initial_params=START)
    after, before = dense_kernel(), dense_kernel(START)
    expected = np.linalg.norm(after - before) / np.linalg.norm(before)
    np.testing.assert_allclose(found.value, expected, rtol=1e-8)
    cosine = np.vdot(after, before) / np.linalg.norm(after) / np.linalg.norm(before)
    np.testing.assert_allclose(detail(found, "1 − alignment"), 1 - cosine, atol=1e-10)


def test_a_kernel_that_doubled_has_a_drift_of_one():
    """Oracle: f = Σ x w²/2 has the kernel Σ w² x x′, which √2 times the weights double."""
    network = lambda w, x: x @ (w**2) / 2  # noqa: E731
    before = jnp.ones((4, 1))
    found = row(
        "kernel_drift", network, 2**0.5 * before, y=X[:, :1], loss="mse", initial_params=before
    )
    np.testing.assert_allclose(found.value, 1.0, rtol=1e-10)
    np.testing.assert_allclose(detail(found, "1 − alignment"), 0.0, atol=1e-10)
    assert "features were learned" in found.meaning


def test_feature_drift_is_that_of_the_hidden_layer():
    """Oracle: tanh(xW + b) written out at both parameters."""

    def hidden(params):
        return np.tanh(np.asarray(X @ params[0]["weight"] / 2 + params[0]["bias"][None]))

    found = row("feature_drift", initial_params=START)
    after, before = hidden(PARAMS), hidden(START)
    expected = np.linalg.norm(after - before) / np.linalg.norm(before)
    np.testing.assert_allclose(found.value, expected, rtol=1e-8)
    assert list(found.details) == ["[2]['weight']"]
    assert found.low < found.value < found.high


def test_a_linear_model_has_no_hidden_features():
    """There is nothing to move."""
    given = {"loss": "mse", "initial_params": jnp.zeros((4, 1)), "only": ["feature_drift"]}
    card = examine(linear, jnp.ones((4, 1)), X, X[:, :1], **given)
    assert card["feature_drift"].status == "skipped"


def test_a_linear_model_has_no_linear_error():
    """Oracle: f_lin = f."""
    given = {"y": X[:, :1], "loss": "mse", "initial_params": jnp.zeros((4, 1))}
    assert row("linear_error", linear, jnp.ones((4, 1)), **given).value < 1e-12


def test_a_quadratic_model_has_a_linear_but_no_quadratic_error():
    """Oracle: f = x(w²): from w₀ = 1 to w = 2 it moves by 3 and the linear model misses 1."""
    square = lambda w, x: x @ w**2  # noqa: E731
    given = {"y": X[:, :1], "loss": "mse", "initial_params": jnp.ones((4, 1))}
    error = partial(row, apply=square, params=2 * jnp.ones((4, 1)), **given)
    found = error("linear_error")
    np.testing.assert_allclose(found.value, 1 / 3, rtol=1e-10)
    np.testing.assert_allclose(found.curves["linear"][5], 0.25 / 3, rtol=1e-10)  # s = ½: s²/3
    assert error("quadratic_error").value < 1e-12


def test_errors_are_those_of_linearize_and_quadratize():
    """Oracle: the models themselves, as networks."""
    from theorylab.models import linearize, quadratize

    moved = np.linalg.norm(MODEL.apply(PARAMS, X) - MODEL.apply(START, X))
    for name, model in (("linear_error", linearize), ("quadratic_error", quadratize)):
        gap = np.linalg.norm(MODEL.apply(PARAMS, X) - model(MODEL.apply, START)(PARAMS, X))
        found = row(name, initial_params=START)
        np.testing.assert_allclose(found.value, gap / moved, rtol=1e-8)
        assert found.low <= found.value <= found.high


@pytest.mark.parametrize("name", ["linear_error", "quadratic_error"])
def test_nothing_learned_is_no_error(name):
    """0/0 is skipped."""
    card = examine(MODEL.apply, PARAMS, X, CLASSES, initial_params=PARAMS, only=[name])
    assert card[name].status == "skipped"


def test_every_row_is_drawn():
    """What a measure draws are its own curves."""
    import matplotlib.pyplot as plt

    names = [each.name for each in MEASURES]
    card = examine(MODEL.apply, PARAMS, X, CLASSES, initial_params=START, only=names)
    for each in card.rows:
        assert each.status == "measured", each.reason
        if each.measure.draw is not None and each.reading is not None:
            figure, axes = plt.subplots()
            each.measure.draw(each.reading, axes)
            assert axes.lines
            plt.close(figure)


def test_another_card_of_the_network_compiles_nothing():
    """Oracle: the number of compiled programs, at other parameters."""
    from theorylab.features import signals
    from theorylab.kernels import linearity

    names = [each.name for each in MEASURES]
    sizes = []
    for params in (PARAMS, START, MODEL.init(jax.random.key(5))):
        start = MODEL.init(jax.random.key(6))
        examine(MODEL.apply, params, X, CLASSES, initial_params=start, only=names)
        sizes.append((programs(linearity._errors), programs(signals._movement)))
    assert sizes[0] == sizes[1] == sizes[2]


def test_feature_drift_is_read_before_the_last_layer():
    """Oracle: names whose alphabet is not the order of the network."""

    def apply(w, x):
        return jnp.tanh(jnp.tanh(x @ w["z"]) @ w["y"]) @ w["a"]

    def params(key):
        return {
            name: jax.random.normal(jax.random.fold_in(key, ord(name)), (4, 4)) for name in "zya"
        }

    before, after = params(jax.random.key(0)), params(jax.random.key(1))
    found = row("feature_drift", apply, after, y=np.arange(20) % 4, initial_params=before)
    hidden = [np.tanh(np.tanh(X @ w["z"]) @ w["y"]) for w in (before, after)]
    expected = np.linalg.norm(hidden[1] - hidden[0]) / np.linalg.norm(hidden[0])
    np.testing.assert_allclose(found.value, expected, rtol=1e-8)
    assert list(found.details) == ["['y']", "['a']"]
