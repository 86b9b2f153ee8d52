import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import all_sums, modular_addition
from theorylab.features.fourier import (
    PolynomialNeurons,
    group_norm,
    initial_neurons,
    neuron_norms,
    polynomial_network,
    scaled,
)


@pytest.mark.parametrize(("num_terms", "modulus", "width"), [(3, 3, 2)])
def test_the_network_is_its_formula_on_one_hot_vectors(num_terms, modulus, width):
    """Oracle: one-hot inputs, neuron by neuron in numpy."""
    params = initial_neurons(jax.random.key(0), num_terms, modulus, width)
    sums = all_sums(num_terms, modulus)
    data = modular_addition(sums, modulus)
    u, w = np.asarray(params.inputs), np.asarray(params.output)
    expected = np.zeros(data.y.shape)
    for i in range(width):
        hidden = np.einsum("nkp,kp->n", data.x, u[:, :, i])
        expected += hidden[:, None] ** num_terms * w[:, i]
    np.testing.assert_allclose(polynomial_network(params, sums.terms), expected, rtol=1e-12)


def test_scaling_multiplies_outputs_by_the_power_k_plus_1_and_the_norm_by_the_factor():
    params = initial_neurons(jax.random.key(1), 3, 5, 6)
    terms = all_sums(3, 5).terms
    large = scaled(params, 1.7)
    expected = 1.7**4 * polynomial_network(params, terms)
    np.testing.assert_allclose(polynomial_network(large, terms), expected, rtol=1e-12)
    np.testing.assert_allclose(group_norm(large), 1.7 * group_norm(params), rtol=1e-12)


def test_norms_are_lengths_and_their_k_plus_1_norm():
    """Oracle: numpy's norms of the neurons written as vectors."""
    params = initial_neurons(jax.random.key(2), 2, 7, 5)
    vectors = np.concatenate([params.inputs.reshape(14, 5), params.output])
    lengths = np.linalg.norm(vectors, axis=0)
    np.testing.assert_allclose(neuron_norms(params), lengths, rtol=1e-12)
    np.testing.assert_allclose(group_norm(params), np.linalg.norm(lengths, ord=3), rtol=1e-12)


def test_the_norm_has_a_gradient_where_a_neuron_is_zero():
    params = initial_neurons(jax.random.key(3), 2, 3, 2)
    dead = PolynomialNeurons(params.inputs.at[:, :, 0].set(0.0), params.output.at[:, 0].set(0.0))
    gradient = jax.jit(jax.grad(group_norm))(dead)
    assert all(np.isfinite(leaf).all() for leaf in gradient)


def test_initial_vectors_have_length_about_1():
    """Oracle: mean and variance 1/p, to five standard errors."""
    params = initial_neurons(jax.random.key(4), 2, 11, 300)
    drawn = np.concatenate([np.ravel(params.inputs), np.ravel(params.output)])
    assert abs(11 * np.var(drawn) - 1) < 5 * np.sqrt(2 / drawn.size)
    assert abs(drawn.mean()) < 5 / np.sqrt(11 * drawn.size)


def test_a_network_needs_neurons():
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        initial_neurons(jax.random.key(0), 2, 5, 0)


def test_terms_that_are_not_of_the_network_are_refused():
    params = initial_neurons(jax.random.key(0), 2, 5, 3)
    with pytest.raises(ValueError, match="terms must be from 0 to 4, got 0 to 5"):
        polynomial_network(params, jnp.array([[0, 5]]))
    with pytest.raises(ValueError, match="terms must be 2 numbers each, got 3"):
        polynomial_network(params, jnp.array([[0, 1, 2]]))
