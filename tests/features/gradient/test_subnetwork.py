"""Nice neurons and the good subnetwork: by hand, and in the limit where it is g* itself."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features.gradient import (
    FiniteLaw,
    ReluNetwork,
    TheoremConstants,
    best_floor,
    blockwise_risk,
    drawn_subnetwork,
    good_subnetwork,
    nice_neurons,
    restricted,
    risk,
    subnetwork_bound,
)

CONSTANTS = TheoremConstants(2, 1.0, 1.4, 1.0, 1.0, 1.0, 2.0, 0.5, 0.01, 0.5)


def test_a_nice_neuron_points_along_its_direction_after_the_step():
    gradients = jnp.array([[1.0, 0.0], [-1.0, 0.0], [0.1, 0.0], [1.0, 1.0]])
    nice = nice_neurons(jnp.array([2.0, -3.0, 1.0, 1.0]), gradients, jnp.eye(2), 0.1, 0.5)
    assert nice.tolist() == [[True, False], [True, False], [False, False], [False, False]]
    turned = nice_neurons(jnp.array([-2.0, 3.0, 1.0, 1.0]), gradients, jnp.eye(2), 0.1, 0.5)
    assert not turned.any()


def test_neurons_of_the_right_direction_and_length_make_the_target_again():
    """Gradients exactly along the axes, outputs exactly of the right size: the network is g*."""
    target = ReluNetwork(jnp.array([1.5, -0.7]), jnp.eye(2), jnp.array([0.8, 0.4]))
    gradients = jnp.repeat(jnp.eye(2), 3, axis=0) * 2.0
    outputs = 0.3 / (0.1 * 2.0 * jnp.repeat(target.biases, 3))  # η|ℓ'| a‖G‖ b*/b̃ = 1
    start = ReluNetwork(outputs, jnp.zeros((6, 2)), jnp.full(6, 0.3))
    constants = dataclasses.replace(CONSTANTS, mean_norm=0.1)
    found = good_subnetwork(start, gradients, target, constants, first_rate=0.1, floor=0.2)
    assert found.members.sum(axis=0).tolist() == [3, 3]
    moved = 0.1 * outputs[:, None] * gradients
    x = jax.random.normal(jax.random.key(0), (20, 2))
    network = ReluNetwork(found.outputs, moved, start.biases)
    np.testing.assert_allclose(network(x), target(x), atol=1e-12)


def test_the_sign_of_the_bias_counts():
    target = ReluNetwork(jnp.ones(1), jnp.eye(1, 2), jnp.array([1.0]))
    start = ReluNetwork(jnp.ones(2), jnp.zeros((2, 2)), jnp.array([1.0, -1.0]))
    gradients = jnp.eye(1, 2).repeat(2, axis=0)
    found = good_subnetwork(start, gradients, target, CONSTANTS, first_rate=1.0, floor=1.0)
    assert found.members[:, 0].tolist() == [True, False]


def test_the_bound_is_its_formula_and_smallest_at_the_best_floor():
    bound = subnetwork_bound(CONSTANTS, 200, 0.5, optimum=0.1)
    expected = 2 * (1 / (10 * 0.5 * 0.5) + math.sqrt(0.02) + 0.5) + 0.1
    assert bound == pytest.approx(expected)
    best = best_floor(CONSTANTS, 200)
    bounds = [subnetwork_bound(CONSTANTS, 200, f * best, 0.0) for f in (0.8, 1.0, 1.25)]
    assert bounds[1] == min(bounds)


def test_restriction_keeps_the_output_of_the_members():
    network = ReluNetwork(jnp.array([1.0, 2.0, 3.0]), jnp.eye(3), jnp.zeros(3))
    kept = restricted(network, jnp.array([True, False, True]))
    assert kept(jnp.array([[1.0, 10.0, 100.0]])).tolist() == [301.0]


def test_a_drawn_subnetwork_is_the_good_one_of_its_start():
    """Oracle: the start is read off the weights after the step, |ℓ'(0)| a G, with b̃ = η = 1."""
    gradients = jnp.repeat(jnp.eye(2), 50, axis=0) * 2.0
    signs = jnp.ones(100)
    target = ReluNetwork(jnp.array([1.5, -0.7]), jnp.eye(2), jnp.array([0.8, 0.4]))
    constants = dataclasses.replace(CONSTANTS, slope=0.5)
    found, moved = drawn_subnetwork(
        jax.random.key(0), gradients, signs, target, constants, floor=0.1
    )
    outputs = moved.weights.sum(axis=1) / (0.5 * 2.0)
    start = ReluNetwork(outputs, jnp.zeros_like(gradients), signs)
    again = good_subnetwork(start, gradients, target, constants, 1.0, 0.1)
    assert found.members.tolist() == again.members.tolist()
    np.testing.assert_allclose(moved.outputs, again.outputs, rtol=1e-12)
    assert 0.5 < float(outputs.std()) * 0.5 * 0.5 * 0.1 < 2  # σ_a = b̃/(|ℓ'(0)| η B_G B_ε)


def test_the_risk_by_blocks_is_the_risk():
    network = ReluNetwork(jnp.array([1.0, -2.0]), jnp.eye(2), jnp.array([0.1, -0.2]))
    x = jax.random.normal(jax.random.key(1), (120, 2))
    law = FiniteLaw(x, jnp.sign(x[:, 0]), jnp.full(120, 1 / 120))
    np.testing.assert_allclose(blockwise_risk(network, law), risk(network, law), rtol=1e-12)
