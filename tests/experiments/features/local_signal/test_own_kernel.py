"""Networks and linearisations against their definitions and a dense solution."""

import jax
import jax.numpy as jnp
import numpy as np

from theorylab.data import Dataset
from theorylab.experiments.features.local_signal._own_kernel import (
    Recipe,
    compare,
    train_classifier,
)
from theorylab.features import accuracy
from theorylab.models import mlp, network

MODEL = network(mlp([4], num_outputs=2), (3,), bias="zero")
START = MODEL.init(jax.random.key(0))
EXAMPLES = Dataset(
    jax.random.normal(jax.random.key(1), (20, 3)), jnp.eye(2)[jnp.arange(20) % 2], "", ""
)


def test_a_network_that_is_linear_is_as_good_as_its_linearisation():
    """Oracle: without hidden layers the two are one function, trained by the same batches."""
    model = network(mlp([], num_outputs=2), (3,), bias="zero")
    test = Dataset(EXAMPLES.x[::-1] ** 3, EXAMPLES.y, "", "")
    recipe = Recipe(0.1, 0.0, batch_size=5, num_steps=30)
    key = jax.random.key(4)
    found = jax.jit(lambda key: compare(key, model, EXAMPLES, test, recipe, (0.1, 1e-6), 10))(key)
    np.testing.assert_array_equal(found.tangent[0], found.network)
    # A rate of nearly 0 leaves the start as it was.
    start = model.init(jax.random.split(key)[0])
    before = [accuracy(model.apply(start, part.x), part.y) for part in (EXAMPLES, test)]
    np.testing.assert_allclose(found.tangent[1], before, rtol=1e-12)


def test_training_separates_what_can_be_separated():
    separable = Dataset(EXAMPLES.x, jnp.eye(2)[(EXAMPLES.x[:, 0] > 0).astype(int)], "", "")
    recipe = Recipe(0.05, 0.0, batch_size=10, num_steps=200)
    train = jax.jit(lambda key: train_classifier(MODEL.apply, START, separable, recipe, key))
    trained = train(jax.random.key(2))
    before, after = (
        float(accuracy(MODEL.apply(params, separable.x), separable.y))
        for params in (START, trained)
    )
    assert before < 0.9
    assert after == 1


def test_accuracy_counts_the_largest_output():
    outputs = jnp.array([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0], [5.0, 4.0]])
    targets = jnp.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert float(accuracy(outputs, targets)) == 0.75
