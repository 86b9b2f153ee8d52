"""Methods of training in one mode, against the loops that they put into closed form."""

import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels.prediction import Descent, Flow, HeavyBall, Nesterov

EIGENVALUES = np.array([0.0, 1e-12, 0.3, 1.0, 3.9, 4.5])  # the last diverges with plain descent
STEPS = [0, 1, 2, 7, 100]
ETA, BETA = 0.5, 0.6


def loops(update):
    """The h and g by iteration: (decay, gain) at the recorded steps, of state (now, memory)."""
    found = []
    for residual in (True, False):
        value = np.ones(6) if residual else np.zeros(6)
        memory, rows = (value.copy() if update is heavy_ball else np.zeros(6)), []
        for step in range(max(STEPS) + 1):
            if step in STEPS:
                rows.append(value)
            gradient = EIGENVALUES * value - (0.0 if residual else 1.0)
            value, memory = update(value, memory, gradient)
        found.append(np.array(rows))
    return found


def descent(value, memory, gradient):
    return value - ETA * gradient, memory


def heavy_ball(value, before, gradient):
    return value - ETA * gradient + BETA * (value - before), value


def nesterov(value, velocity, gradient):
    """Optax's form: the trace of gradients, then the look-ahead."""
    velocity = gradient + BETA * velocity
    return value - ETA * (gradient + BETA * velocity), velocity


@pytest.mark.parametrize(
    ("method", "update"),
    [
        (Descent(ETA), descent),
        (HeavyBall(ETA, BETA), heavy_ball),
        (Nesterov(ETA, BETA), nesterov),
    ],
)
def test_closed_form_is_the_loop(method, update):
    """Oracle: the iteration itself, diverging modes and the zero mode included."""
    decay, gain = loops(update)
    s = jnp.asarray(EIGENVALUES)
    np.testing.assert_allclose(method.decay(s, STEPS), decay, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(method.gain(s, STEPS), gain, rtol=1e-10, atol=1e-12)


def test_momentum_zero_is_descent():
    s = jnp.asarray(EIGENVALUES)
    for method in (HeavyBall(ETA, 0.0), Nesterov(ETA, 0.0)):
        np.testing.assert_allclose(
            method.gain(s, STEPS), Descent(ETA).gain(s, STEPS), rtol=1e-12, atol=1e-13
        )


def test_flow_is_the_limit_of_small_steps_and_stays_exact_at_zero():
    s = jnp.asarray(EIGENVALUES)
    times = [0.0, 0.7, 5.0]
    decay, gain = Flow().decay(s, times), Flow().gain(s, times)
    np.testing.assert_allclose(decay, np.exp(-np.outer(times, EIGENVALUES)), rtol=1e-14)
    np.testing.assert_allclose(gain[:, 0], times)
    np.testing.assert_allclose(gain[:, 1], times, rtol=1e-11)  # t − t²s/2 + …: no cancellation
    small = Descent(1e-6)
    np.testing.assert_allclose(small.gain(s, [700_000]), gain[1:2], rtol=1e-5)


def test_flow_for_ever_is_the_pseudo_inverse():
    s = jnp.array([0.0, 1e-18, 0.5, 4.0])
    np.testing.assert_array_equal(Flow().gain(s, [np.inf])[0], [0.0, 0.0, 2.0, 0.25])
    np.testing.assert_array_equal(Flow().decay(s, [np.inf])[0], [1.0, 1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("method", "threshold"),
    [
        (lambda eta: Descent(eta), 2.0),
        (lambda eta: HeavyBall(eta, BETA), 2 * (1 + BETA)),
        (lambda eta: Nesterov(eta, BETA), 2 * (1 + BETA) / (1 + 2 * BETA)),
    ],
)
def test_divergence_begins_at_the_threshold(method, threshold):
    one = jnp.ones(1)
    below, above = (
        abs(float(method(f * threshold).decay(one, [2000])[0, 0])) for f in (0.98, 1.02)
    )
    assert below < 1e-6
    assert above > 1e6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Descent(0.0), "learning_rate must be positive, got 0.0"),
        (lambda: Descent(float("nan")), "learning_rate must be positive, got nan"),
        (lambda: HeavyBall(0.1, 1.0), r"momentum must be in \[0, 1\), got 1.0"),
        (lambda: Flow().gain(jnp.ones(1), [-1.0]), r"times must not be negative, got \[-1.0\]"),
        (lambda: Flow().gain(jnp.ones(1), []), "times must be a non-empty list"),
        (lambda: Descent(0.1).gain(jnp.ones(1), [1.5]), "steps must be integers"),
        (lambda: Nesterov(0.1, 0.5).gain(jnp.ones(1), [-2]), "steps must not be negative"),
    ],
)
def test_bad_methods_and_times_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
