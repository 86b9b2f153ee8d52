import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import SparseParity
from theorylab.features.gradient import (
    FiniteLaw,
    aligned,
    aligned_cosine,
    finite_gradients,
    gradient_length,
    limit_samples,
    majority_coefficient,
    needed_samples,
    parity_gradients,
    parity_rate,
    parity_start,
    parity_step,
    risk,
)


def listed(dimension: int, num_bits: int) -> FiniteLaw:
    """All points of a sparse parity."""
    x, y = SparseParity(dimension, num_bits).points()
    return FiniteLaw(x, y, jnp.full(len(y), 1 / len(y)))


@pytest.mark.parametrize("degree", range(8))
def test_majority_coefficients_are_means_over_all_signs(degree):
    """Oracle: all 2⁷ points."""
    x = np.asarray(listed(7, 2).x)
    mean = (np.sign(x.sum(axis=1)) * x[:, :degree].prod(axis=1)).mean()
    np.testing.assert_allclose(majority_coefficient(7, degree), mean, atol=1e-15)


@pytest.mark.parametrize(("dimension", "num_bits"), [(9, 2), (11, 4), (13, 4)])
def test_the_gradient_is_that_of_all_points(dimension, num_bits):
    """Oracle: enumeration of the hypercube, to 1e-12, whatever the bias between −1 and 1."""
    key = jax.random.key(dimension)
    weights = jax.random.rademacher(key, (12, dimension)).astype(float)
    weights = weights.at[0].set(1.0)
    biases = jnp.linspace(-0.99, 0.99, 12)
    law = listed(dimension, num_bits)
    expected = finite_gradients(law, weights, biases)
    found = parity_gradients(weights, num_bits)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    lengths = np.linalg.norm(expected, axis=1)
    np.testing.assert_allclose(lengths, gradient_length(dimension, num_bits), rtol=1e-12)
    cosine = abs(expected[0] @ SparseParity(dimension, num_bits).direction) / lengths[0]
    np.testing.assert_allclose(cosine, aligned_cosine(dimension, num_bits), rtol=1e-12)


def test_neurons_are_aligned_where_their_gradient_is_closest_to_the_direction():
    """Oracle: cosines of all 2⁵ neurons; 2^{−(k−1)} of them are aligned."""
    weights, _ = SparseParity(5, 4).points()
    gradients = parity_gradients(weights, 4)
    cosines = jnp.abs(gradients @ SparseParity(5, 4).direction)
    chosen = np.asarray(aligned(weights, 4))
    np.testing.assert_array_equal(chosen, np.isclose(cosines, cosines.max()))
    assert chosen.mean() == 2**-3


def test_samples_for_the_right_signs_follow_the_gaussian_limit():
    """Oracle: the limit; with 4000 trials the place where 90 % succeed is known to some percent."""
    for dimension, num_bits in ((33, 2), (21, 4)):
        found = needed_samples(jax.random.key(0), dimension, num_bits, num_trials=4000)
        limit = limit_samples(dimension, num_bits, 0.9)
        np.testing.assert_allclose(found, limit, rtol=0.08)


def test_signs_of_simulated_gradients_are_right_as_often_as_the_limit_says():
    """Oracle: gradients of drawn samples, no counts of patterns."""
    num_samples, num_trials = round(limit_samples(9, 2, 0.8)), 2000
    x = jax.random.rademacher(jax.random.key(0), (num_trials, num_samples, 9)).astype(float)
    active = (x.sum(axis=2) > 0).astype(float)
    sums = jnp.einsum("tn,tn,tnj->tj", active, x[:, :, 0] * x[:, :, 1], x[:, :, :2])
    right = (sums > 0).all(axis=1).mean()
    np.testing.assert_allclose(right, 0.8, atol=5 * 0.4 / np.sqrt(num_trials) + 0.03)


def test_the_first_step_is_gradient_descent_on_the_network():
    """Oracle: autodiff of the risk over all points; forgetting leaves −η∇L."""
    start = parity_start(jax.random.key(1), width=3, dimension=9, num_bits=2)
    law = listed(9, 2)
    rate = parity_rate(9, 2)
    np.testing.assert_allclose(start(law.x), 0.0, atol=1e-12)
    slope = jax.grad(risk)(start, law).weights
    after = parity_step(start, 2, rate)
    np.testing.assert_allclose(after.weights, -rate * slope, atol=1e-12)
    np.testing.assert_allclose(jnp.abs(after.weights[:, :2]), 0.5, rtol=1e-12)
    assert set(np.asarray(start.biases).tolist()) <= {-0.5, 0.0, 0.5}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: majority_coefficient(4, 1), "dimension must be odd"),
        (lambda: majority_coefficient(5, 6), r"degree must be in \[0, 5\], got 6"),
        (lambda: aligned_cosine(9, 3), "num_bits must be even and at least 2, got 3"),
        (lambda: gradient_length(10, 2), "dimension must be odd and above 2, got 10"),
        (lambda: limit_samples(9, 2, 0.1), "probability must be in"),
        (lambda: parity_start(jax.random.key(0), 0, 9, 2), "width must be at least 1, got 0"),
    ],
)
def test_bad_sizes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
