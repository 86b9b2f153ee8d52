import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics.mean_field import (
    NeuronMeasure,
    gaussian_measure,
    linear_limit,
    measure_kernel,
    measure_output,
    neuron_velocity,
)
from theorylab.kernels import infinite_kernels
from theorylab.models import mlp
from theorylab.training import flow

X = jax.random.normal(jax.random.key(0), (5, 3)) / 2
Y = jnp.sin(3 * X[:, 0])
ACTIVATIONS = [jnp.tanh, jax.scipy.special.erf, lambda z: z**2]


def network(activation, weights, x, scale):
    """A network of n neurons, written with a sum: scale/n Σ v φ(w·x)."""
    outer, inner = weights
    return (
        scale / len(outer) * sum(v * activation(x @ w) for v, w in zip(outer, inner, strict=True))
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_velocities_are_the_gradient_flow_of_the_network(activation, scale):
    """Oracle: autodiff of the loss, times the learning rate n/α² of the parametrization."""
    measure = gaussian_measure(jax.random.key(1), 4, 3)
    weights = (measure.outer, measure.inner)

    def loss(w):
        return jnp.sum((Y - network(activation, w, X, scale)) ** 2) / 2

    expected = jax.tree.map(lambda g: -4 / scale**2 * g, jax.grad(loss)(weights))
    moved = neuron_velocity(activation, measure, X, Y, scale)
    np.testing.assert_allclose(moved.outer, expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(moved.inner, expected[1], rtol=1e-10, atol=1e-12)
    assert not moved.mass.any()


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_kernel_is_the_learning_rate_times_that_of_the_network(activation):
    """Oracle: the Jacobian of the network by autodiff; η = n."""
    measure = gaussian_measure(jax.random.key(2), 6, 3)
    weights = (measure.outer, measure.inner)
    jacobians = jax.jacobian(lambda w: network(activation, w, X, 1.0))(weights)
    rows = jnp.concatenate([leaf.reshape(len(X), -1) for leaf in jacobians], axis=1)
    np.testing.assert_allclose(measure_kernel(activation, measure, X), 6 * rows @ rows.T, rtol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_outputs_move_by_the_kernel_times_the_residual(scale):
    """Oracle: the chain rule, by differentiating the output along the velocity."""
    measure = gaussian_measure(jax.random.key(3), 5, 3)
    moved = neuron_velocity(jnp.tanh, measure, X, Y, scale)

    def output(m):
        return measure_output(jnp.tanh, m, X, scale)

    _, speed = jax.jvp(output, (measure,), (moved,))
    residual = Y - output(measure)
    np.testing.assert_allclose(speed, measure_kernel(jnp.tanh, measure, X) @ residual, rtol=1e-10)


def test_neurons_without_mass_change_nothing():
    """Oracle: the network without them."""
    whole = gaussian_measure(jax.random.key(4), 8, 3, width=5)
    few = NeuronMeasure(whole.outer[:5], whole.inner[:5], jnp.full(5, 0.2))
    np.testing.assert_allclose(
        measure_output(jnp.tanh, whole, X), measure_output(jnp.tanh, few, X), rtol=1e-12
    )
    np.testing.assert_allclose(
        measure_kernel(jnp.tanh, whole, X), measure_kernel(jnp.tanh, few, X), rtol=1e-12
    )


def test_the_first_kernel_of_many_neurons_is_that_of_infinite_width():
    """Oracle: closed forms; inputs times √d, for there w has variance 1/d. Four standard errors."""
    n = 40_000
    measure = gaussian_measure(jax.random.key(5), n, 3)
    found = measure_kernel(jax.scipy.special.erf, measure, X)
    limit = infinite_kernels(mlp((1,), activation="erf"), X * 3**0.5).ntk
    np.testing.assert_allclose(found, limit, atol=4 * 1.5 / n**0.5)


def test_the_linear_limit_is_that_of_many_neurons():
    """Oracle: the flow of a network of 20,000 neurons; its output deviates by about n^(−1/2)."""
    times = jnp.array([0.0, 0.5, 2.0])

    def linear(z):
        return z

    measure = gaussian_measure(jax.random.key(6), 20_000, 3)
    found = flow(
        lambda m: neuron_velocity(linear, m, X, Y),
        measure,
        times,
        lambda m: measure_output(linear, m, X),
    ).records
    np.testing.assert_allclose(found, linear_limit(X, Y, times), atol=0.03)
    assert abs(found[2]).max() > 0.3  # it learned something


def test_sizes_must_be_positive():
    with pytest.raises(ValueError, match="num_neurons and dimension must be at least 1, got 0"):
        gaussian_measure(jax.random.key(0), 0, 3)
