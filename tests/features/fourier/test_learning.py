import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from theorylab.data import all_sums, split_sums
from theorylab.features.fourier import (
    AdditionRecipe,
    accuracy,
    delay,
    group_norm,
    initial_neurons,
    learn_addition,
    polynomial_network,
    scores,
    solved_at,
)


def test_accuracy_counts_the_right_ones():
    outputs = jnp.array([[1.0, 2.0], [2.0, 1.0], [0.0, 1.0]])
    assert float(accuracy(outputs, jnp.array([1, 1, 1]))) == pytest.approx(2 / 3)


def test_a_run_takes_steps_of_adamw_with_warm_up_on_the_penalized_loss():
    """Oracle: three steps by hand, with optax's Adam and the decay written out."""
    parts = split_sums(jax.random.key(0), all_sums(2, 3), 0.7)
    start = initial_neurons(jax.random.key(1), 2, 3, 4)
    recipe = AdditionRecipe(learning_rate=0.02, penalty=0.1, weight_decay=0.3, warm_up=1)
    run = learn_addition(
        jax.random.key(2), polynomial_network, group_norm, start, parts, recipe, [0, 3]
    )

    @jax.jit
    def loss(params):
        logits = jax.nn.log_softmax(polynomial_network(params, parts[0].terms))
        right = logits[jnp.arange(len(parts[0].total)), parts[0].total]
        return -right.mean() + 0.1 * group_norm(params)

    params, adam = start, optax.scale_by_adam(b1=0.9, b2=0.98)
    memory = adam.init(params)
    for rate in (0.01, 0.02, 0.02):
        direction, memory = adam.update(jax.grad(loss)(params), memory)
        params = jax.tree.map(lambda w, d, rate=rate: w - rate * (d + 0.3 * w), params, direction)
    for found, expected in zip(run.params, params, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)  # rates are in float32
    np.testing.assert_allclose(run.records.loss, [loss(start), loss(params)], rtol=1e-6)
    expected = accuracy(polynomial_network(params, parts[1].terms), parts[1].total)
    assert float(run.records.test[-1]) == float(expected)


def test_scores_in_parts_are_those_of_all_examples():
    """Oracle: all 4913 outputs at once; the last part is not full."""
    sums, params = all_sums(3, 17), initial_neurons(jax.random.key(3), 3, 17, 2)
    loss, share = jax.jit(lambda params: scores(polynomial_network, params, sums))(params)
    outputs = polynomial_network(params, sums.terms)
    losses = optax.softmax_cross_entropy_with_integer_labels(outputs, sums.total)
    assert float(loss) == pytest.approx(float(losses.mean()), rel=1e-12)
    assert float(share) == np.mean(np.argmax(outputs, axis=1) == np.asarray(sums.total))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"learning_rate": -1.0}, "learning_rate must be at least 0 and finite, got -1"),
        ({"weight_decay": float("nan")}, "weight_decay must be at least 0 and finite, got nan"),
    ],
)
def test_recipes_that_make_no_sense_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        AdditionRecipe(**fields)


def test_a_batch_of_all_examples_is_full_descent():
    sums = all_sums(2, 3)
    start = initial_neurons(jax.random.key(1), 2, 3, 4)

    def final(batch_size):
        recipe = AdditionRecipe(0.02, 0.1, batch_size=batch_size)
        key = jax.random.key(0)
        run = learn_addition(key, polynomial_network, group_norm, start, (sums, sums), recipe, [4])
        return run.params.output

    np.testing.assert_allclose(final(9), final(0), rtol=1e-8)


def test_delays_are_logarithms_and_censored_runs_wait_until_the_end():
    steps = np.array([0, 10, 100, 1000])
    train = solved_at(steps, np.array([[0.1, 1.0, 1.0, 1.0], [0.1, 0.99, 1, 1], [0, 0, 0, 0.98]]))
    test = solved_at(steps, np.array([[0.1, 0.1, 0.995, 1.0], [0.1, 0.2, 0.2, 0.3], [0, 0, 0, 0]]))
    np.testing.assert_array_equal(train, [10, 10, np.nan])
    np.testing.assert_array_equal(test, [100, np.nan, np.nan])
    np.testing.assert_allclose(delay(train, test, 1000), [np.log(10), np.log(100), np.nan])


def test_negative_batches_are_refused():
    with pytest.raises(ValueError, match="batch_size must be at least 0 and finite, got -1"):
        AdditionRecipe(batch_size=-1)
