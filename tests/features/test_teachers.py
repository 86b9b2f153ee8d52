"""Teachers: what is taken of them, against networks that can be taken apart."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import Dataset
from theorylab.features import halving_cnn, teach
from theorylab.models import Dense, Serial, network
from theorylab.training import squared


def test_a_linear_teacher_finds_the_line():
    """Oracle: y = wx, so that the AGOP is wwᵀ after training and the start's before."""
    x = jax.random.normal(jax.random.key(0), (180,)).reshape(60, 3)
    truth = jnp.array([[1.0], [-2.0], [0.5]])
    data = Dataset(x, x @ truth, "y = wx", "made up")
    model = network(Serial(Dense(1)), (3,))
    key = jax.random.key(1)
    teacher = teach(key, model, data, data, x[:7], squared("mean"), 0.1, 300)
    np.testing.assert_allclose(teacher.features, truth @ truth.T, atol=0.1)
    (weights,) = jax.tree.leaves(model.init(jax.random.split(key)[0]))
    np.testing.assert_allclose(teacher.untrained, weights @ weights.T / 3, rtol=1e-12)
    assert teacher.accuracy > 0.95


def test_the_test_samples_choose_nothing_and_a_held_out_tenth_does():
    """Other labels of the samples beside it change its accuracy alone; of the tenth, its best.

    Where the last tenth is told that the start was right, the start is what is kept.
    """
    x = jax.random.normal(jax.random.key(0), (180,)).reshape(60, 3)
    data = Dataset(x, x[:, :1], "y = x₁", "made up")
    model = network(Serial(Dense(1)), (3,))
    key = jax.random.key(1)

    @jax.jit
    def taught(y, others_y):
        train, others = replace(data, y=y), replace(data, y=others_y)
        return teach(key, model, train, others, x[:7], squared("mean"), 0.1, 100)

    usual, turned = taught(data.y, data.y), taught(data.y, -data.y)
    np.testing.assert_array_equal(usual.features, turned.features)
    np.testing.assert_allclose(usual.accuracy + turned.accuracy, 1.0, rtol=1e-12)
    start = model.apply(model.init(jax.random.split(key)[0]), x)
    kept = taught(jnp.concatenate([data.y[:54], start[54:]]), data.y)
    np.testing.assert_array_equal(kept.features, kept.untrained)
    few = data.subset(slice(55))
    with pytest.raises(ValueError, match="at least 56 samples, got 55"):
        teach(key, model, few, data, x[:7], squared("mean"), 0.1, 100)


def test_convolutions_halve_the_image():
    """Oracle: sizes of weights by hand, for 8×8 ─► 4×4 ─► 2×2 with 3 and 5 channels."""
    params = network(halving_cnn((3, 5), 2), (8, 8, 1)).init(jax.random.key(0))
    sizes = sorted(leaf.size for leaf in jax.tree.leaves(params))
    assert sizes == sorted([9 * 3, 9 * 3 * 5, 2 * 2 * 5 * 2])
    with pytest.raises(ValueError, match="channels must be at least 1 each"):
        halving_cnn(())
