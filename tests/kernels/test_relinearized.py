"""Piecewise-linear training against the linearised network, descent, and gradient flow."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.kernels.relinearized import (
    Columns,
    WorkerSamples,
    columns,
    linear_step,
    relinearized_flow,
)
from theorylab.models import linearize, mlp, network
from theorylab.training import Solver, gradient_flow, squared

MODEL = network(mlp([6], num_outputs=2, activation="tanh"), (3,))
PARAMS = MODEL.init(jax.random.key(0))
ALL = WorkerSamples(
    jax.random.normal(jax.random.key(1), (5, 3)), jax.random.normal(jax.random.key(2), (5, 2))
)
LOSS = squared("half_sum")


def objective(params, apply=MODEL.apply):
    return LOSS(apply(params, ALL.x), ALL.y)


def distance(one, other):
    gaps = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), one, other)
    return max(jax.tree.leaves(gaps))


def run(durations, workers=(ALL,)):
    records = jax.jit(
        lambda params, durations: relinearized_flow(MODEL.apply, params, workers, durations)
    )(PARAMS, jnp.asarray(durations))
    return jax.tree.map(lambda leaf: leaf[-1], records)


def test_one_piece_is_the_flow_of_the_linearised_network():
    """Oracle: gradient flow of `linearize`, integrated."""
    linear = linearize(MODEL.apply, PARAMS)
    flowed = gradient_flow(
        lambda w: objective(w, linear), PARAMS, [2.0], lambda w: (), Solver(rtol=1e-10)
    )
    assert distance(run([2.0]), flowed.params) < 1e-8
    assert distance(run([2.0]), PARAMS) > 0.1


def test_a_short_piece_is_a_step_of_gradient_descent():
    """Oracle: θ − η∇L by autodiff; the difference falls as η²."""
    slopes = jax.grad(objective)(PARAMS)
    gaps = []
    for rate in (2e-3, 1e-3):
        descended = jax.tree.map(lambda w, g: w - rate * g, PARAMS, slopes)  # noqa: B023
        gaps.append(distance(run([rate]), descended))
    assert math.log2(gaps[0] / gaps[1]) == pytest.approx(2, abs=0.05)


def test_more_pieces_come_nearer_to_gradient_flow():
    """Oracle: gradient flow of the network, integrated; the error is halved with the pieces."""
    flowed = gradient_flow(objective, PARAMS, [2.0], lambda w: (), Solver(rtol=1e-9)).params
    gaps = [distance(run([2.0 / pieces] * pieces), flowed) for pieces in (32, 64)]
    assert math.log2(gaps[0] / gaps[1]) == pytest.approx(1, abs=0.2)


def test_workers_together_are_one():
    """Oracle: central training; the order of the samples does not matter either."""
    places = map(np.array, ([3], [0, 4], [2, 1]))
    parts = tuple(WorkerSamples(ALL.x[rows], ALL.y[rows]) for rows in places)
    assert distance(run([0.5, 0.7], parts), run([0.5, 0.7])) < 1e-12


def test_directions_without_kernel_do_not_move():
    """Oracle: a repeated sample and infinite time; minimal-norm least squares by NumPy."""
    gradients = jnp.array([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
    residuals = jnp.array([1.0, 1.0, -1.0])
    found = linear_step(jnp.zeros(3), [Columns(gradients, residuals)], 1e6)
    expected = np.linalg.pinv(np.asarray(gradients)) @ np.asarray(residuals)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"targets must have the shape \(5, 2\)"):
        columns(MODEL.apply, PARAMS, WorkerSamples(ALL.x, ALL.y[:, :1]))
    with pytest.raises(ValueError, match="at least one worker, got none"):
        linear_step(PARAMS, [], 1.0)
    with pytest.raises(ValueError, match=r"durations must be a list of times, got shape \(0,\)"):
        relinearized_flow(MODEL.apply, PARAMS, [ALL], jnp.zeros(0))
