import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.dynamics import watch
from theorylab.training import descend, gradient_descent

CURVATURES = jnp.array([1.0, 3.0])


def bowl(w):
    """Its sharpness is 3 everywhere."""
    return CURVATURES @ w**2 / 2


def valley(w):
    """Its curvature changes along the way."""
    return (1 - w[0] * w[1]) ** 2 / 2


def test_watch_records_descent():
    """Oracle: `descend` at the same steps, and the dense Hessian there."""
    start, key = jnp.array([1.5, 0.2]), jax.random.key(0)
    run = watch(valley, start, 0.2, num_records=4, gap=5, key=key, num_lanczos=2)
    steps = np.arange(0, 21, 5)
    expected = descend(valley, start, gradient_descent(0.2), steps, lambda w: w)
    np.testing.assert_array_equal(run.steps, steps)
    np.testing.assert_allclose(run.params, expected.params, rtol=1e-14)
    dense_hessian = jax.jit(jax.hessian(valley))
    for index, w in enumerate(expected.records):
        np.testing.assert_allclose(run.records.loss[index], valley(w), atol=1e-15)
        dense = np.linalg.eigvalsh(dense_hessian(w))[-1]
        np.testing.assert_allclose(run.records.sharpness[index], dense, rtol=1e-10)
    assert not run.diverged
    assert run.diverged_at == -1


@pytest.mark.parametrize(("learning_rate", "rises"), [(0.6, 0.0), (0.7, 1.0)])
def test_the_loss_rises_at_every_step_exactly_beyond_the_edge(learning_rate, rises):
    """Oracle: 2/η = 3.3 or 2.9 against the sharpness 3 of a bowl, begun on its steep axis."""
    run = watch(bowl, jnp.array([0.0, 1.0]), learning_rate, 3, gap=7, key=jax.random.key(0))
    # A stretch compares with the loss before its own first step, which the start does not have.
    np.testing.assert_allclose(run.records.rises[2:], rises)
    np.testing.assert_allclose(run.records.sharpness, 3.0, rtol=1e-12)


def test_divergence_is_recorded_in_steps():
    """Oracle: f grows by 100 per step from 1, so it overflows at about step 154."""
    run = watch(lambda w: w @ w / 2, jnp.ones(1), 11.0, 40, gap=5, key=jax.random.key(0))
    assert run.diverged
    assert 150 <= run.diverged_at <= 160


def test_a_record_is_needed():
    with pytest.raises(ValueError, match="num_records must be at least 1, got 0"):
        watch(bowl, jnp.ones(2), 0.1, 0, gap=5, key=jax.random.key(0))
