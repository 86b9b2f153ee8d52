"""The one-call comparison: what must be won, by whom, and what its numbers are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import Dataset, digits, parity
from theorylab.features import compare_features

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def found():
    """A product of two signs among ten."""
    return compare_features(
        KEY,
        lambda key, n: parity(key, n, 10, 2),
        width=64,
        num_train=200,
        num_test=400,
        num_steps=400,
        batch_size=50,
        rates=(1.0, 10.0),
    )


def test_a_network_learns_parity_better_than_few_random_features(found):
    network, _, random, waves = found.test[:, -1]
    assert network > 0.97
    assert network > random + 0.05
    assert network > waves + 0.05
    assert found.train[0] == 1


def test_curves_begin_at_chance_where_models_begin_at_zero(found):
    """Outputs of 0 are errors, so fixed features begin with no right answer."""
    assert found.steps[0] == 0
    assert found.steps[-1] == 400
    np.testing.assert_array_equal(found.test[1:, 0], 0)
    assert 0.5 < found.kernel <= 1


def test_gradient_features_lie_in_the_two_signs(found):
    """Oracle: for y = x₁x₂ with a bias, E[y x 1[⟨w, x⟩ > b]] is largest in x₁ and x₂."""
    assert [feature.sign for feature in found.features] == [1, 1, -1, -1]
    energy = np.square(found.features[0].direction)
    assert energy[:2].sum() > 0.5


def test_figure_shows_every_contender(found):
    left, right = found.figure().axes
    assert len(left.get_lines()) == 5
    assert len(right.patches) == 4


def test_several_classes_have_no_gradient_features():
    sizes = {"width": 16, "num_train": 100, "num_test": 100, "num_steps": 40, "batch_size": 20}
    found = compare_features(KEY, digits(), **sizes, rates=(1.0,))
    assert found.features == ()
    assert found.kernel > 0.8
    found.figure()


def test_bad_input_is_refused():
    data = parity(KEY, 50, 4, 2)
    with pytest.raises(ValueError, match=r"at most the 50 samples there are, got 40 \+ 20"):
        compare_features(KEY, data, num_train=40, num_test=20, batch_size=10)
    with pytest.raises(ValueError, match="batch_size must be at most num_train 40, got 100"):
        compare_features(KEY, data, num_train=40, num_test=10)
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        compare_features(KEY, data, width=0)
    wrong = Dataset(data.x, 2 * jnp.abs(data.y), "y = 2", "made up")
    with pytest.raises(ValueError, match="targets must be -1 or 1"):
        compare_features(KEY, wrong, num_train=20, num_test=20, batch_size=10)
