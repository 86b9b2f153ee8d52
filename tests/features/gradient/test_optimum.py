"""The best output layer on frozen features: known minima, certificates, projections."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from theorylab.features.gradient import (
    FiniteLaw,
    direction_optimum,
    frozen_optimum,
    offered_neurons,
    projected,
)


@pytest.fixture(scope="module")
def problem():
    hidden = jax.nn.relu(jax.random.normal(jax.random.key(0), (40, 5)))
    y = jnp.where(jax.random.normal(jax.random.key(1), (40,)) > 0, 1.0, -1.0)
    return hidden, FiniteLaw(hidden, y, jnp.full(40, 1 / 40))


def test_one_neuron_with_a_bound_has_a_known_optimum():
    """E max(0, 1 − a) with |a| ≤ ½ is ½."""
    law = FiniteLaw(jnp.ones((2, 1)), jnp.ones(2), jnp.array([0.3, 0.7]))
    found = jax.jit(frozen_optimum)(law.x, law, 0.5)
    np.testing.assert_allclose([found.loss, found.lower], 0.5, atol=1e-6)
    np.testing.assert_allclose(found.outputs, [0.5], atol=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_optimum_is_that_of_another_solver(problem, loss):
    """Oracle: SLSQP of SciPy, with slack variables for the hinge."""
    hidden, law = problem
    signed, shares = np.asarray(law.y)[:, None] * np.asarray(hidden), np.full(40, 1 / 40)
    ball = {"type": "ineq", "fun": lambda v: 0.25 - v[:5] @ v[:5]}
    if loss == "hinge":
        slack = {"type": "ineq", "fun": lambda v: v[5:] - 1 + signed @ v[:5]}
        best = optimize.minimize(
            lambda v: shares @ v[5:],
            np.r_[np.zeros(5), np.ones(40)],
            bounds=[(None, None)] * 5 + [(0, None)] * 40,
            constraints=[ball, slack],
        )
    else:
        best = optimize.minimize(
            lambda a: shares @ np.logaddexp(0, -signed @ a) / np.log(2),
            np.zeros(5),
            constraints=[ball],
        )
    found = frozen_optimum(hidden, law, 0.5, loss=loss)
    assert best.success
    np.testing.assert_allclose(found.loss, best.fun, atol=1e-4)
    assert best.fun - 1e-3 < found.lower <= best.fun + 1e-7
    assert np.linalg.norm(found.outputs) <= 0.5 + 1e-12


def test_projections_are_nearest():
    """Ball, box, and both: the variational inequality ⟨v − Pv, a − Pv⟩ ≤ 0 on many allowed a."""
    v = jnp.array([3.0, -1.0, 0.2, 0.05])
    np.testing.assert_allclose(projected(v, 1.0), v / jnp.linalg.norm(v), rtol=1e-12)
    np.testing.assert_allclose(projected(v, 9.0, 0.5), [0.5, -0.5, 0.2, 0.05], rtol=1e-12)
    near = projected(v, 0.6, 0.5)
    np.testing.assert_allclose(jnp.linalg.norm(near), 0.6, rtol=1e-9)
    others = jax.random.uniform(jax.random.key(2), (500, 4), minval=-0.5, maxval=0.5)
    allowed = others[jnp.linalg.norm(others, axis=1) <= 0.6]
    assert len(allowed) > 100
    assert float(((allowed - near[None, :]) @ (v - near)).max()) <= 1e-9


def test_directions_with_a_grid_of_biases_solve_what_lines_cannot():
    """XOR on the axes: σ(|⟨D, x⟩| − b) with both axes has loss 0; one axis alone leaves it."""
    x = 2 * jnp.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    law = FiniteLaw(x, jnp.array([1.0, 1.0, -1.0, -1.0]), jnp.full(4, 0.25))
    biases = jnp.array([0.5, 1.0])
    both = direction_optimum(jnp.eye(2), biases, law, norm_bound=3.0)
    assert both.loss < 1e-3
    one = direction_optimum(jnp.eye(2)[:1], biases, law, norm_bound=3.0)
    np.testing.assert_allclose([one.loss, one.lower], 0.5, atol=2e-3)  # the other axis: g = 0
    capped = direction_optimum(jnp.eye(2), biases, law, norm_bound=3.0, entry_bound=0.1)
    np.testing.assert_allclose(capped.loss, 1 - 0.1 * 1.5 - 0.1 * 1.0, atol=1e-3)


def test_all_directions_and_biases_are_offered():
    neurons = offered_neurons(jnp.eye(2), jnp.array([1.0, 2.0, 3.0]))
    pairs = {
        (*w, b) for w, b in zip(neurons.weights.tolist(), neurons.biases.tolist(), strict=True)
    }
    assert len(pairs) == 12
    assert (0.0, -1.0, 2.0) in pairs


def test_bad_input_is_refused(problem):
    with pytest.raises(ValueError, match="norm_bound must be positive, got -1"):
        frozen_optimum(problem[0], problem[1], norm_bound=-1.0)
    with pytest.raises(ValueError, match="num_steps and smoothing must be positive, got 0"):
        frozen_optimum(problem[0], problem[1], 1.0, num_steps=0)
