"""The straight line between two networks, and the barrier on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.landscape import segment
from theorylab.training import cross_entropy, squared

X, Y = jnp.ones((1, 1)), jnp.ones((1, 1))


def well(w, x):
    """A network w² x: with y = 1 the loss is a double well."""
    return w**2 * x


def test_the_barrier_of_a_double_well_is_that_of_its_formula():
    """Oracle: closed form. L = (w² − 1)² between ∓1 has L(s) = (1 − (1 − 2s)²)², at most 1."""
    path = segment(well, squared("mean"), -1.0, 1.0, X, Y, num_points=11)
    s = np.linspace(0, 1, 11)
    np.testing.assert_allclose(path.losses, (1 - (1 - 2 * s) ** 2) ** 2, atol=1e-12)
    np.testing.assert_allclose(path.barrier, 1.0, rtol=1e-12)
    assert path.top == 5


def test_the_line_between_the_ends_is_taken_off():
    """Oracle: closed form. Between w = −1 and 2, w = 3s − 1; L(0) = 0 and L(1) = 9."""
    path = segment(well, squared("mean"), -1.0, 2.0, X, Y, num_points=31)
    s = np.linspace(0, 1, 31)
    np.testing.assert_allclose(path.barrier, max(((3 * s - 1) ** 2 - 1) ** 2 - 9 * s), rtol=1e-12)


@pytest.mark.parametrize("loss", [squared("half_sum"), cross_entropy("mean"), squared("mean")])
def test_losses_and_errors_are_those_of_networks_in_between(loss):
    """Oracle: brute force, network by network, by the loss itself."""
    keys = jax.random.split(jax.random.key(0), 4)
    x = jax.random.normal(keys[0], (20, 3))
    first, other = ({"w": jax.random.normal(key, (3, 4))} for key in keys[1:3])
    y = jax.nn.one_hot(jax.random.randint(keys[3], (20,), 0, 4), 4)
    apply = lambda w, x: jnp.tanh(x @ w["w"])  # noqa: E731
    path = segment(apply, loss, first, other, x, y, num_points=5)
    for i, s in enumerate(np.linspace(0, 1, 5)):
        f = apply({"w": (1 - s) * first["w"] + s * other["w"]}, x)
        np.testing.assert_allclose(path.losses[i], loss(f, y), rtol=1e-12)
        wrong = np.mean(np.asarray(f).argmax(1) != np.asarray(y).argmax(1))
        np.testing.assert_allclose(path.errors[i], wrong, rtol=1e-12)
    assert path.error_barrier == max(path.errors) - max(path.errors[0], path.errors[-1])


def test_there_is_no_barrier_of_a_convex_loss():
    """Oracle: convexity. A linear network with the squared loss."""
    x, y = jax.random.normal(jax.random.key(0), (10, 3)), jnp.ones((10, 1))
    apply = lambda w, x: x @ w  # noqa: E731
    path = segment(apply, squared("mean"), jnp.ones((3, 1)), -jnp.ones((3, 1)), x, y)
    assert abs(path.barrier) < 1e-12


def test_two_points_are_too_few():
    with pytest.raises(ValueError, match="at least 3"):
        segment(well, squared("mean"), -1.0, 1.0, X, Y, num_points=2)
