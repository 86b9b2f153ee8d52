"""Constants from data: those that a case has in closed form, within the error of a sample."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data.mixtures import orthogonal_mixture
from theorylab.features.gradient import (
    ReluNetwork,
    gradient_features,
    measured_constants,
    sample_constants,
)


def test_constants_of_a_sample_by_hand():
    """Two points, and a network whose weights have the lengths 2 and 1."""
    x = jnp.array([[3.0, 4.0], [0.0, 1.0]])
    network = ReluNetwork(
        jnp.array([1.0, -3.0]), jnp.array([[2.0, 0.0], [0.0, 1.0]]), jnp.array([6.0, -1.0])
    )
    found = sample_constants(x, network, probability=0.3, opening=0.1, gradient_norm=0.5)
    assert (found.num_neurons, found.entry_bound, found.bias_bound) == (2, 3.0, 3.0)
    assert found.norm_bound == pytest.approx(np.sqrt(13))
    assert (found.mean_norm, found.mean_square, found.largest_norm) == (3.0, 13.0, 5.0)
    assert (found.probability, found.opening, found.gradient_norm) == (0.3, 0.1, 0.5)
    given = sample_constants(x, network, 0.3, 0.1, 0.5, bias_bound=9.0, slope=0.5)
    assert (given.bias_bound, given.slope) == (9.0, 0.5)
    with pytest.raises(ValueError, match="must not be 0, got a neuron without direction"):
        sample_constants(x, network._replace(weights=0 * network.weights), 0.3, 0.1, 0.5)


def test_constants_of_clusters_come_from_their_samples_alone():
    """Oracle: the mixture's moments to 2 %, and the features' own interval and cone."""
    law = orthogonal_mixture(3, 16, separation=1.0, deviation=0.5)
    data = law.sample(jax.random.key(0), 3000)
    features = gradient_features(jax.random.key(1), data, 3, opening=0.05, num_neurons=600)[:3]
    directions = jnp.stack([feature.direction for feature in features])
    target = ReluNetwork(jnp.ones(3), directions, jnp.full(3, 2.0))
    found = measured_constants(data, target, features)
    assert found.mean_square == pytest.approx(float(law.mean_square), rel=0.02)
    assert found.probability == min(feature.probability.low for feature in features) > 0
    assert found.opening == 0.05
    assert 0 < found.gradient_norm < 4 / 3  # p_j‖μ_j‖
    with pytest.raises(ValueError, match="features must be one or more"):
        measured_constants(data, target, ())
