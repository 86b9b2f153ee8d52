"""The one-call comparison: what must be won, by whom, and what its numbers are."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import Dataset, digits, parity
from theorylab.features import compare_features
from theorylab.numerics import clopper_pearson

KEY = jax.random.key(0)
SIZES: dict[str, Any] = {
    "width": 64,
    "num_train": 200,
    "num_validation": 100,
    "num_test": 400,
    "num_steps": 400,
    "batch_size": 50,
    "rates": (1.0, 10.0),
}


@pytest.fixture(scope="module")
def found():
    """A product of two signs among ten."""
    return compare_features(KEY, lambda key, n: parity(key, n, 10, 2), **SIZES)


def test_a_network_learns_parity_better_than_few_random_features(found):
    network, _, random, waves, _ = [test.estimate for test in found.test]
    assert network > 0.97
    assert network > random + 0.05
    assert network > waves + 0.05
    assert found.train[0] == 1


def test_curves_begin_at_chance_where_models_begin_at_zero(found):
    """An output of 0 is half right, so fixed features begin at ½."""
    assert found.steps[0] == 0
    assert found.steps[-1] == 400
    np.testing.assert_array_equal(found.curves[1:, 0], 0.5)
    assert 0.5 < found.test[-1].estimate <= 1


def test_intervals_are_clopper_and_pearsons_of_the_last_accuracies(found):
    for share, test in zip(found.curves[:, -1], found.test, strict=False):
        assert test == clopper_pearson(round(share * 400), 400)


def test_the_test_part_chooses_nothing(found):
    """Labels of the test part are turned round: what is chosen stays, accuracies turn round too."""

    def law(key, n):
        data = parity(key, n, 10, 2)
        turned = jnp.where(jnp.arange(n) < n - 400, data.y[:, 0], -data.y[:, 0])
        return Dataset(data.x, turned[:, None])

    wrong = compare_features(KEY, law, **SIZES)
    np.testing.assert_array_equal(found.chosen, wrong.chosen)
    np.testing.assert_allclose(found.curves, 1 - wrong.curves, rtol=1e-12)
    for one, other in zip(found.test, wrong.test, strict=True):
        assert one.estimate == pytest.approx(1 - other.estimate, rel=1e-12)


def test_gradient_features_lie_in_the_two_signs(found):
    """Oracle: for y = x₁x₂ with a bias, E[y x 1[⟨w, x⟩ > b]] is largest in x₁ and x₂."""
    assert [feature.sign for feature in found.features] == [1, 1, -1, -1]
    energy = np.square(found.features[0].direction)
    assert energy[:2].sum() > 0.5


def test_figure_shows_every_contender_and_names_directions_by_inputs(found):
    left, right = found.figure().axes
    names = ["network", "tangent features", "random features", "waves", "infinite kernel"]
    assert left.get_legend_handles_labels()[1] == names
    assert len(left.containers) == 5  # error bars
    assert len(right.patches) == 4
    first = right.get_xticklabels()[0].get_text()
    assert "x[0]" in first or "x[1]" in first
    assert [line.split("  ")[0].strip() for line in str(found).split("\n")][-1] == names[-1]


def test_several_classes_have_no_gradient_features_and_no_panel_of_them():
    sizes: dict[str, Any] = {"width": 16, "num_train": 100, "num_validation": 50, "num_test": 100}
    found = compare_features(KEY, digits(), **sizes, num_steps=40, batch_size=20, rates=(1.0,))
    assert found.features == ()
    assert found.test[-1].estimate > 0.8
    assert len(found.figure().axes) == 1


def test_a_table_is_taken_as_it_is():
    """Words as classes, columns in different units, sizes by the number of rows: 30, 10 and 10."""
    x = np.random.default_rng(0).normal(size=(50, 3)) * np.array([[1e4, 1.0, 1e-4]])
    y = np.where(x[:, 2] > 0, "yes", "no")
    found = compare_features(KEY, (x, y), width=8, num_steps=60, standardize=True)
    assert found.test[0] == clopper_pearson(round(10 * found.curves[0, -1]), 10)
    assert found.train[0] > 0.9


def test_bad_input_is_refused_before_any_work():
    data = parity(KEY, 50, 4, 2)
    sizes: dict[str, Any] = {"num_train": 20, "num_validation": 10, "num_test": 10}
    with pytest.raises(ValueError, match=r"there must be 40 \+ 10 \+ 20 samples, got 50"):
        compare_features(KEY, data, num_train=40, num_test=20)
    with pytest.raises(ValueError, match=r"there must be 20 \+ 10 \+ 10 samples, got 5"):
        compare_features(KEY, lambda key, n: parity(key, 5, 4, 2), **sizes)
    with pytest.raises(ValueError, match=r"batch_size must be in \[1, num_train = 20\], got 100"):
        compare_features(KEY, data, **sizes, batch_size=100)
    for name in ("width", "num_steps", "num_directions", "num_train", "num_validation"):
        few: dict[str, Any] = {name: 0}
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            compare_features(KEY, data, **few)
    with pytest.raises(ValueError, match="rates must be positive"):
        compare_features(KEY, data, rates=(float("nan"),))
    with pytest.raises(ValueError, match=r"targets must be -1 or 1.* got 1 columns with 0, 1"):
        compare_features(KEY, Dataset(data.x, (1 + data.y) / 2))
    with pytest.raises(ValueError, match="inputs must be finite, got 1 rows with gaps"):
        compare_features(KEY, Dataset(data.x.at[3, 1].set(jnp.nan), data.y))


def test_what_is_no_data_is_refused():
    unchecked = inspect.unwrap(compare_features)  # as it is without the tests' check of types
    with pytest.raises(TypeError, match=r"key must be a key such as jax.random.key\(0\), got nd"):
        unchecked(np.ones((9, 2)), np.ones(9))
    with pytest.raises(TypeError, match=r"data must be a Dataset, the pair \(X, y\).*got ndarray"):
        unchecked(KEY, np.ones((9, 2)))
