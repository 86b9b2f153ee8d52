import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics import linear


def problem(n=5, k=2):
    keys = jax.random.split(jax.random.key(0), 3)
    features = jax.random.normal(keys[0], (n, 8))
    initial, targets = (jax.random.normal(key, (n, k)) for key in keys[1:])
    return features, initial, targets


@pytest.mark.parametrize("ratio", [0.3, 0.99, 1.3])
def test_outputs_are_gradient_descent_on_the_weights(ratio):
    """Oracle: autodiff descent of f(W) = f(0) + ΦW, step by step. An identity: rounding."""
    features, initial, targets = problem()
    kernel = features @ features.T
    learning_rate = ratio * linear.largest_stable_rate(kernel)

    def outputs(weights):
        return initial + features @ weights

    gradient = jax.jit(jax.grad(lambda w: jnp.sum((outputs(w) - targets) ** 2) / 2))
    weights, expected = jnp.zeros((8, 2)), []
    for _ in range(21):
        expected.append(np.asarray(outputs(weights)))
        weights = weights - learning_rate * gradient(weights)
    predicted = linear.outputs(kernel, initial, targets, learning_rate, jnp.arange(21))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(predicted, np.stack(expected), atol=1e-12 * scale)


def test_the_critical_learning_rate_divides_convergence_from_divergence():
    """Oracle: the errors after many steps, just below and just above."""
    features, initial, targets = problem()
    kernel = features @ features.T
    critical = linear.largest_stable_rate(kernel)

    def error(ratio):
        steps = jnp.array([0, 3000])
        outputs = linear.outputs(kernel, initial, targets, ratio * critical, steps)
        return np.linalg.norm(outputs - targets[None], axis=(1, 2))

    below, above = error(0.995), error(1.005)
    assert below[1] < 1e-3 * below[0]
    assert above[1] > 1e6 * above[0]


def test_descended_is_the_closed_form_and_its_threshold_the_critical_one():
    """Oracle: `outputs`, itself checked above; 2/λ_max to the bisection's and the run's 0.5 %."""
    features, initial, targets = problem()
    kernel = features @ features.T
    critical = linear.largest_stable_rate(kernel)

    @jax.jit
    def measured(weights):
        def model(weights):
            return initial + features @ weights

        steps = np.array([0, 3, 7])
        outputs = linear.descended(model, weights, targets, 0.7 * critical, steps)
        units = critical * jnp.array([1.0, 0.5, 2.0, 0.1])
        find = lambda unit: linear.measured_threshold(model, weights, targets, unit, 500)  # noqa: E731
        return outputs, jax.lax.map(find, units)

    outputs, (threshold, *doubtful) = measured(jnp.zeros((8, 2)))
    steps = jnp.array([0, 3, 7])
    expected = linear.outputs(kernel, initial, targets, 0.7 * critical, steps)
    np.testing.assert_allclose(outputs, expected, atol=1e-12)
    np.testing.assert_allclose(threshold, 1.0, rtol=5e-3)
    # A unit that is wrong by a factor of 2 is found out; one that is far off is not measured.
    np.testing.assert_allclose(doubtful, [2.0, 0.5, np.nan], rtol=5e-3)
