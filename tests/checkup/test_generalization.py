"""Rows of the group generalization: fit, margins, bounds, flatness, predictability, barriers."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.checkup import examine, programs
from theorylab.checkup.classes import chance, class_numbers, has_classes, is_right, margins_of
from theorylab.checkup.rows import MEASURES
from theorylab.checkup.rows.connectivity import _interval
from theorylab.checkup.rows.predictability import _points
from theorylab.generalization import layer_norms, spectral_bound
from theorylab.generalization.tangent_bounds import complexity_measure
from theorylab.kernels import ntk
from theorylab.landscape import Segment
from theorylab.landscape.connectivity import _along
from theorylab.landscape.flatness import _around
from theorylab.training import cross_entropy, hinge, logistic, squared

NAMES = [name for name, each in MEASURES.items() if each.group == "generalization"]
RNG = np.random.default_rng(0)
X = jnp.asarray(RNG.normal(size=(60, 4)))
CLASSES = np.asarray(X)[:, :3].argmax(axis=1)
PARAMS = {
    "a": jnp.asarray(RNG.normal(size=(4, 16)) / 2),
    "b": jnp.asarray(RNG.normal(size=(16, 3))),
}
OTHER = {"a": PARAMS["a"] + 0.1, "b": PARAMS["b"] * 1.5}


def apply(w, x):
    """A network with one hidden layer and three outputs."""
    return jnp.tanh(x @ w["a"]) @ w["b"]


def one(w, x):
    """A network with one output."""
    return (x @ w["a"])[:, :1]


TRUE = {"a": jnp.eye(4, 16) * 0.1, "b": 100 * jnp.eye(16, 3)}  # classifies all inputs


@pytest.fixture(scope="module")
def card():
    return examine(
        apply,
        TRUE,
        X,
        CLASSES,
        only=NAMES,
        x_test=X[:50],
        y_test=1 - np.minimum(CLASSES[:50], 1),
        initial_params=PARAMS,
        checkpoint=PARAMS,
    )


def test_all_rows_of_the_group_are_there(card):
    """Oracle: the list of names, in the card's order; all are measured."""
    expected = "fit test_gap margins spectral_margin flatness tangent_bound"
    assert [*expected.split(), "label_predictability", "connectivity"] == NAMES
    assert [row.reason for row in card.rows if row.status != "measured"] == []


def test_numbers_of_a_fit_are_those_of_numpy(card):
    """Oracle: counting, and the loss itself."""
    reading, f = card.reading("fit"), apply(TRUE, X)
    assert reading.value == np.mean(np.asarray(f).argmax(1) == CLASSES) == 1.0
    np.testing.assert_allclose(
        (reading.low, reading.high), (0.025 ** (1 / 60), 1.0)
    )  # Clopper–Pearson of all
    np.testing.assert_allclose(
        reading.details["loss"], cross_entropy("mean")(f, jax.nn.one_hot(CLASSES, 3)), rtol=1e-6
    )
    assert reading.details["chance"] == np.bincount(CLASSES).max() / 60


def test_margins_and_their_bound_are_those_of_the_library(card):
    """Oracle: the library's functions, and numpy."""
    f = np.sort(np.asarray(apply(TRUE, X)), axis=1)
    margins = np.sort(f[:, 2] - f[:, 1])  # all are right
    assert card.reading("margins").value == np.median(margins)
    np.testing.assert_allclose(card.reading("margins").curves["margin"], margins)
    found = card.reading("spectral_margin")
    gamma, length = np.quantile(margins, 0.05), float(jnp.linalg.norm(X))
    norm = np.linalg.norm(TRUE["a"], 2) * np.linalg.norm(TRUE["b"], 2)
    np.testing.assert_allclose(found.value, gamma / (norm * length / np.sqrt(60)), rtol=1e-6)
    expected = spectral_bound(layer_norms(apply, TRUE, X), gamma, length, 60)
    np.testing.assert_allclose(found.details["‖X‖R/γn"], expected, rtol=1e-6)
    assert "vacuous" in found.meaning


def test_the_tangent_bound_is_that_of_the_initial_kernel(card):
    """Oracle: the library's kernel and measure."""
    targets = np.eye(3)[CLASSES] - np.asarray(apply(PARAMS, X))
    expected = complexity_measure(np.asarray(ntk(apply, PARAMS, X), float), targets).max()
    found = card.reading("tangent_bound")
    np.testing.assert_allclose(found.value, expected, rtol=1e-4)
    assert found.certainty == "exact"


def test_held_out_inputs_of_other_labels_are_told(card):
    """Oracle: counting."""
    found = card.reading("test_gap")
    held_out = 1 - np.minimum(CLASSES[:50], 1)
    assert found.details["kind"] == "error"
    np.testing.assert_allclose(found.value, np.mean(CLASSES[:50] != held_out))
    assert found.low > 0.3


def test_the_barrier_has_its_curve_and_its_ends(card):
    """Oracle: the loss at both ends."""
    found, y = card.reading("connectivity"), jax.nn.one_hot(CLASSES, 3)
    for name, params in (("loss here", TRUE), ("loss at the checkpoint", PARAMS)):
        expected = cross_entropy("mean")(apply(params, X), y)
        np.testing.assert_allclose(found.details[name], expected, rtol=1e-6)
    assert found.low <= found.value <= found.high
    s, losses = found.curves["points"], found.curves["losses"]
    line = (1 - s) * losses[0] + s * losses[-1]
    np.testing.assert_allclose(found.value, (losses - line).max(), atol=1e-12)


def test_a_second_card_compiles_nothing():
    """Oracle: JAX's own count of compilations, for other parameters of the same network."""
    known = {"only": NAMES, "x_test": X[:50], "y_test": CLASSES[:50]}
    examine(apply, PARAMS, X, CLASSES, initial_params=PARAMS, checkpoint=TRUE, **known)
    before = _compiled()
    examine(apply, OTHER, X, CLASSES, initial_params=OTHER, checkpoint=TRUE, **known)
    assert _compiled() == before > 0


def _compiled() -> int:
    kept: Any = (programs.outputs, _around, _along, programs.loss_of_each)
    return sum(each._cache_size() for each in kept)


def test_flatness_is_that_of_a_quadratic_loss():
    """Oracle: closed form. 1 − R² of a linear network rises by σ² mean(a²) Σx²/Σ(y − ȳ)²."""
    w = {"a": jnp.asarray(RNG.normal(size=(4, 1)))}
    y = one(w, X)
    card = examine(one, w, X, y, loss="mse", only=["flatness", "fit"])
    found = card.reading("flatness")
    rise = float(jnp.mean(w["a"] ** 2) * jnp.sum(X**2) / jnp.sum((y - y.mean()) ** 2))
    expected = math.sqrt(0.1 / rise)
    assert found.low <= expected <= found.high
    np.testing.assert_allclose(card.reading("fit").value, 0.0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_labels_at_random_are_told_from_true_ones(seed):
    """Planted: the rows that the rule "random labels" reads."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(100, 4))
    for classes, known in ((rng.integers(0, 3, 100), False), (x[:, :3].argmax(axis=1), True)):
        card = examine(apply, PARAMS, x, classes, only=["label_predictability"])
        found = card.reading("label_predictability")
        chance_level = found.details["chance"]
        assert isinstance(chance_level, float)
        assert (found.low > chance_level) == known


def test_values_have_no_margins_and_a_relative_error():
    """Oracle: 1 − R², by numpy."""
    y = jnp.sin(X[:, :1])
    card = examine(one, PARAMS, X, y, loss="mse", only=NAMES, x_test=X[:9], y_test=y[:9])
    f = np.asarray(one(PARAMS, X))
    expected = np.sum((f - y) ** 2) / np.sum((y - y.mean()) ** 2)
    np.testing.assert_allclose(card.reading("fit").value, expected, rtol=1e-6)
    assert card["margins"].status == "skipped"
    assert card.reading("test_gap").details["kind"] == "relative squared error"
    assert card.reading("label_predictability").value > 0.5
    assert card["connectivity"].status == "missing"


@pytest.mark.parametrize("loss", ["logistic", hinge("mean"), "mse"])
def test_one_output_with_signs_is_classified(loss):
    """Oracle: the sign of y f."""
    signs = np.where(np.asarray(X)[:, 0] > 0, 1, -1)
    card = examine(one, PARAMS, X, signs, loss=loss, only=["fit", "margins", "flatness"])
    f = np.asarray(one(PARAMS, X))[:, 0]
    assert card.reading("fit").value == np.mean(f * signs > 0)
    assert card.reading("margins").value == np.median(f * signs)
    assert "PAC-Bayes bound" in card.reading("flatness").details


@pytest.mark.parametrize("barrier", [0.0, 0.1, 1.0])
def test_the_interval_of_a_barrier_covers_it(barrier):
    """Oracle: simulation. Rises 4bs(1 − s) with skewed factors for each input, 300 draws."""
    rng, s = np.random.default_rng(0), np.linspace(0, 1, 11)
    held = 0
    for _ in range(300):
        level = rng.exponential(size=(1, 80))
        sizes = barrier * rng.gamma(4, 1 / 4, size=(1, 80)) + 0.2 * rng.normal(size=(1, 80))
        parts = level + sizes * (4 * s * (1 - s))[:, None]
        path = Segment(
            jnp.asarray(parts.mean(1)), jnp.asarray(s), jnp.zeros(11), jnp.asarray(parts)
        )
        _, low, high = _interval(path)
        held += low <= barrier <= high
    assert held / 300 >= 0.92
    assert held / 300 <= (1.0 if barrier == 0 else 0.98)


def test_held_out_data_is_checked():
    """Oracle: messages that say what is wrong."""
    cases = [
        ({"x_test": X[:5]}, "given together"),
        ({"x_test": X[:5], "y_test": [0, 1]}, "y_test must have a target"),
        ({"x_test": X[:2, :3], "y_test": [0, 1]}, "x_test must hold inputs of the shape"),
        ({"x_test": X[:2], "y_test": [0, 7]}, "y_test must hold class numbers"),
    ]
    for known, message in cases:
        with pytest.raises(ValueError, match=message):
            examine(apply, PARAMS, X, CLASSES, only=["fit"], **known)


def test_classes_are_known_by_their_loss_and_targets():
    """Oracle: what the words mean."""
    many = jnp.array([[1.0, 1.0, -1.0], [-1.0, -1.0, -1.0]])
    assert has_classes(logistic("mean"), many)
    assert margins_of(jnp.array([[2.0, 1.0, 3.0], [-1.0, -2.0, -0.5]]), many).tolist() == [-3, 0.5]
    assert is_right(jnp.array([[2.0, 1.0, -3.0], [-1.0, 2.0, -0.5]]), many).tolist() == [
        True,
        False,
    ]
    assert class_numbers(many).tolist() == [1, 0]
    assert chance(many) == 0.5
    assert not has_classes(squared("mean"), jnp.array([[1.0], [0.0]]))
    assert not is_right(jnp.array([[jnp.nan, 0.0]]), jnp.eye(2)[:1]).any()


def test_token_ids_are_counted():
    """Oracle: by hand, up to a factor for each array; what every input has alike adds nothing."""
    ids = jnp.array([[7, 7, 9], [9, 9, 9]])
    points = _points({"ids": ids, "mask": jnp.ones((2, 3), bool)})
    np.testing.assert_allclose(points[0] - points[1], np.array([2, -2, 0, 0, 0]) / np.sqrt(2))
