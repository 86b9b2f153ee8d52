import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import all_sums
from theorylab.features.fourier import (
    AdditionRecipe,
    average_margin,
    diagonal_spectrum,
    function_spectrum,
    group_norm,
    initial_neurons,
    learn_addition,
    least_margin,
    margin,
    margins,
    maximum_margin,
    normalized_margin,
    polynomial_network,
    weighted_margin,
)


def brute_margins(outputs, total):
    """Margins against the best and against the average of the others, by Python loops."""
    best, average = [], []
    for row, right in zip(np.asarray(outputs), np.asarray(total), strict=True):
        others = np.delete(row, right)
        best.append(row[right] - others.max())
        average.append(row[right] - others.mean())
    return np.array(best), np.array(average)


@pytest.mark.parametrize(("num_terms", "modulus"), [(2, 4), (3, 5)])
def test_margins_are_those_of_the_definitions(num_terms, modulus):
    """Oracle: loops over all examples; E g′ also for an even modulus."""
    params = initial_neurons(jax.random.key(0), num_terms, modulus, 3)
    sums = all_sums(num_terms, modulus)
    outputs = polynomial_network(params, sums.terms)
    best, average = brute_margins(outputs, sums.total)
    np.testing.assert_allclose(margin(outputs, sums.total), best, rtol=1e-12)
    np.testing.assert_allclose(weighted_margin(outputs, sums.total), average, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(average_margin)(params), average.mean(), rtol=1e-10)
    np.testing.assert_allclose(jax.jit(least_margin)(params), best.min(), rtol=1e-12)
    norm = group_norm(params) ** (num_terms + 1)
    np.testing.assert_allclose(jax.jit(normalized_margin)(params), best.min() / norm, rtol=1e-12)


def test_the_least_margin_does_not_depend_on_chunks(monkeypatch):
    params = initial_neurons(jax.random.key(1), 2, 7, 3)
    whole = jax.jit(least_margin)(params)
    monkeypatch.setattr(margins, "_CHUNK", 10)  # 49 examples: the last chunk overlaps
    np.testing.assert_allclose(jax.jit(least_margin)(params), whole, rtol=1e-12)


@pytest.mark.parametrize(("num_terms", "modulus"), [(3, 5)])
def test_no_network_is_above_the_certificate(num_terms, modulus):
    """H ≤ E g′ ≤ γ*‖θ‖ᵏ⁺¹ for a thousand random networks."""

    def measured(key):
        params = initial_neurons(key, num_terms, modulus, 3)
        return least_margin(params), average_margin(params), group_norm(params) ** (num_terms + 1)

    keys = jax.random.split(jax.random.key(2), 1000)
    least, average, norm = jax.jit(jax.vmap(measured))(keys)
    assert (least <= average + 1e-12).all()
    assert (jnp.abs(average) <= maximum_margin(num_terms, modulus) * norm * (1 + 1e-5)).all()


def test_function_spectrum_is_the_transform_of_the_table():
    """Oracle: the sum over all examples and outputs at one place, by its definition."""
    params = initial_neurons(jax.random.key(3), 2, 5, 2)
    sums = all_sums(2, 5)
    terms, outputs = np.asarray(sums.terms), np.asarray(polynomial_network(params, sums.terms))
    spectrum = np.asarray(jax.jit(function_spectrum)(params))
    assert spectrum.shape == (5, 5, 5)
    for place in [(0, 0, 0), (1, 1, 4), (2, 0, 3)]:
        angles = (terms @ np.array(place[:2]))[:, None] + place[2] * np.arange(5)[None, :]
        expected = (outputs * np.exp(-2j * np.pi * angles / 5)).sum()
        np.testing.assert_allclose(spectrum[place], expected, rtol=1e-10)
    diagonal = [spectrum[j, j, -j] for j in range(1, 5)]
    np.testing.assert_allclose(diagonal_spectrum(params), diagonal, rtol=1e-10)


def test_a_trained_network_uses_every_frequency():
    """Oracle: λpᵏ at every j, with λ the average margin (Lemma C.20); training leaves a tenth."""
    sums, start = all_sums(2, 7), initial_neurons(jax.random.key(4), 2, 7, 24)
    recipe, key = AdditionRecipe(0.02, penalty=0.05), jax.random.key(5)
    settings = (polynomial_network, group_norm, start, (sums, sums), recipe, [400])
    params = jax.jit(lambda key: learn_addition(key, *settings).params)(key)
    shares = diagonal_spectrum(params) / (average_margin(params) * 7**2)
    np.testing.assert_allclose(shares, 1, atol=0.1)
    before = diagonal_spectrum(start) / (average_margin(start) * 7**2)
    assert np.abs(before - 1).max() > 0.5
