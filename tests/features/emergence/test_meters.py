"""Meters of emergence against enumeration, exact geometry and brute force over classifiers."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import dictionary_data, independent_patterns, parity_mixture
from theorylab.features.emergence import (
    cosine_map,
    cosines,
    emerge,
    emergence_stages,
    expected_largest_cosine,
    gradient_parts,
    largest_cosines,
    normalized,
    relevant_direction,
    sampling_floor,
    separation,
    silhouette,
    start_scales,
    threshold_ceiling,
    unbiased_start,
    weight_maps,
)


def test_the_second_step_has_the_signal_of_theory_and_noise_at_its_floor():
    """Oracle: T = γ Pr(open)/σ̃ on A and 2/√n of it elsewhere: weights are forgotten, b is not."""
    law, n = parity_mixture(40, 3), 4000
    data = dictionary_data(jax.random.key(0), law, n)
    start = unbiased_start(jax.random.key(1), 6, 40, start_scales(3, 0.25, law.scale()))
    stages = emergence_stages(3, law.structure, law.scale(), 6)
    found = emerge(start, data, stages)
    parts = gradient_parts(found.second_gradient.weights, found.first.outer, 3)
    opened = jax.scipy.stats.norm.cdf(found.first.biases / stages[1].noise)
    np.testing.assert_allclose(parts.signal, opened * 0.25 / law.scale(), rtol=0.1)
    floor = sampling_floor(jnp.tile(opened[None, :], (5, 1)), 0.25, 0.5, n)
    np.testing.assert_allclose(floor, 2 / np.sqrt(n))
    np.testing.assert_allclose(parts.noise / parts.signal, floor, rtol=0.35)  # 37 patterns


def test_the_floor_of_half_open_neurons():
    """Oracle: o ∈ {0, 1} with mean ½ has √E[o²]/E[o] = √2."""
    opened = jnp.array([[0.0], [1.0]])
    np.testing.assert_allclose(sampling_floor(opened, 0.1, 0.2, 100), 0.04 / 0.1 * np.sqrt(2))


def test_cosines_know_what_lies_outside_and_tiny_weights():
    """Oracle: by hand; 3, 4 and a length of 12 outside make 13."""
    weights = jnp.array([[3.0, 4.0], [0.0, 0.0], [-1e-25, 0.0]])
    direction = jnp.array([2.0, 0.0])
    np.testing.assert_allclose(cosines(weights, direction), [0.6, 0.0, -1.0], atol=1e-12)
    outside = jnp.array([144.0, 0.0, 0.0])
    np.testing.assert_allclose(cosines(weights, direction, outside)[0], 3 / 13)
    assert relevant_direction(4, 2).tolist() == [1.0, 1.0, 0.0, 0.0]


def test_the_largest_cosine_of_random_directions():
    """Oracle: an average over draws, to 4 standard errors and the formula's 1 %."""
    draws = jax.random.normal(jax.random.key(0), (400 * 50, 40))
    largest = cosines(draws, jnp.eye(40)[0]).reshape(400, 50).max(axis=1)
    expected = expected_largest_cosine(50, 40)
    error = 4 * float(largest.std()) / 20 + 0.02 * expected  # unit vectors are lighter in the tail
    np.testing.assert_allclose(largest.mean(), expected, atol=error)
    np.testing.assert_allclose(expected_largest_cosine(300, 100), 0.288, atol=0.001)


def test_a_map_of_few_directions_has_their_distances():
    """Oracle: 1 − cos itself, where it is Euclidean: three vectors, of any lengths."""
    vectors = np.array([[1.0, 0.0, 0.0], [5.0, 5.0, 0.0], [0.0, 0.0, 2.0]])
    points = cosine_map(vectors)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = 1 - units @ units.T
    found = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_maps_end_with_both_targets():
    """Oracle: two neurons on the relevant patterns, and opposite to them, lie on the targets."""
    weights = np.array([[[2.0, 2.0, 0.0], [-1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]])
    (points,) = weight_maps(weights, 2)
    # An eigenvalue of 0 has a root of √ε.
    np.testing.assert_allclose(points[[0, 1]], points[[3, 4]], atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(points[3] - points[4]), 2.0, atol=1e-12)


def test_every_direction_has_its_closest_neuron():
    """By hand: cosines of a few vectors in the plane."""
    weights = jnp.array([[3.0, 0.0], [1.0, 1.0]])
    found = largest_cosines(weights, jnp.array([[0.0, 5.0], [1.0, 0.0], [-1.0, 0.0]]))
    np.testing.assert_allclose(found, [np.sqrt(0.5), 1.0, -np.sqrt(0.5)], rtol=1e-12)


def test_the_silhouette_is_the_mean_over_single_vectors():
    """Oracle: loops over all pairs."""
    vectors = np.random.default_rng(0).normal(size=(7, 3))
    members = np.array([0, 0, 1, 0, 1, 1, 1])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    values = []
    for i in range(7):
        to = {
            u: [1 - unit[i] @ unit[j] for j in range(7) if members[j] == u and j != i]
            for u in (0, 1)
        }
        own, other = np.mean(to[members[i]]), np.mean(to[1 - members[i]])
        values.append((other - own) / max(own, other))
    found = silhouette(jnp.asarray(vectors), jnp.asarray(members))
    np.testing.assert_allclose(found, np.mean(values), rtol=1e-12)
    alone = silhouette(jnp.eye(3), jnp.array([0, 1, 1]))
    np.testing.assert_allclose(alone, 0.0, atol=1e-12)  # no distance differs, and one is alone


def test_the_separation_of_two_Gaussians_is_their_distance_over_their_variance():
    """Closed form: means at ±1 along one axis, variances 1 and 4: 4/5; 0 if they are equal."""
    labels = jnp.sign(jax.random.normal(jax.random.key(0), (20000,)))
    noise = jax.random.normal(jax.random.key(1), (20000, 2)) * jnp.array([1.0, 2.0])[None, :]
    shifted = noise + jnp.stack([labels, 0 * labels], axis=1)
    np.testing.assert_allclose(separation(shifted, labels), 0.8, rtol=0.05)
    assert float(separation(noise, labels)) < 0.01


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("changes", [0, 1, 2, 3])
def test_the_ceiling_is_the_best_of_all_classifiers_of_the_count(changes, balanced):
    """Oracle: all 2⁶ classifiers of the counts 0 … 5."""
    for law in (parity_mixture(9, 5).resampled(0.7), independent_patterns(9, 5, [0, 3], 0.6)):
        share = np.where(law.labels > 0, law.class_probabilities[1], law.class_probabilities[0])
        weights = law.counts * (0.5 / share if balanced else 1)
        values = [
            weights[np.array(signs) == law.labels].sum()
            for signs in product([-1, 1], repeat=6)
            if np.count_nonzero(np.diff(signs)) <= changes
        ]
        np.testing.assert_allclose(threshold_ceiling(law, changes, balanced), max(values))


def test_plateaus_of_five_patterns_are_those_worked_out_before():
    """Oracle: 27/32 for one threshold of the count, 59/64 for three changes of sign."""
    ceilings = [threshold_ceiling(parity_mixture(5, 5), changes) for changes in (1, 3)]
    np.testing.assert_allclose(ceilings, [27 / 32, 59 / 64], rtol=1e-12)


def test_one_constant_makes_lengths_equal():
    small, large = jnp.array([[3e-20, 4e-20]]), jnp.array([[0.0, 10.0]])
    np.testing.assert_allclose(normalized(small, large), 2e20)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="num_changes must be at least 0, got -1"):
        threshold_ceiling(parity_mixture(9, 3), -1)
