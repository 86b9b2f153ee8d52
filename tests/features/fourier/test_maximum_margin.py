import jax
import numpy as np
import optax
import pytest

from theorylab.data import all_sums
from theorylab.features.fourier import (
    ascended_neuron,
    average_margin,
    cosine_neuron,
    function_spectrum,
    group_norm,
    initial_neurons,
    least_penalized_loss,
    margin,
    maximum_margin,
    maximum_margin_network,
    neuron_norms,
    neuron_spectra,
    normalized_margin,
    num_cosine_neurons,
    polynomial_network,
    scaled,
)


@pytest.mark.parametrize(("num_terms", "modulus"), [(2, 9), (3, 5), (4, 3)])
def test_the_cosine_network_has_the_maximum_margin(num_terms, modulus):
    """Oracle: all examples. Each is on the margin, and all wrong outputs are -k! 2ᵏ⁻²."""
    params = maximum_margin_network(num_terms, modulus)
    assert params.output.shape[1] == num_cosine_neurons(num_terms, modulus)
    expected = maximum_margin(num_terms, modulus)
    np.testing.assert_allclose(jax.jit(normalized_margin)(params), expected, rtol=1e-12)
    np.testing.assert_allclose(neuron_norms(params), neuron_norms(params)[0], rtol=1e-12)

    sums = all_sums(num_terms, modulus)
    outputs = jax.jit(polynomial_network)(params, sums.terms)
    unit = 2 ** (num_terms - 2) * np.prod(range(1, num_terms + 1))
    np.testing.assert_allclose(margin(outputs, sums.total), unit * modulus, rtol=1e-10)
    wrong = np.arange(modulus)[None, :] != np.asarray(sums.total)[:, None]
    np.testing.assert_allclose(np.asarray(outputs)[wrong], -unit, rtol=1e-9)


def test_three_terms_are_the_sources_formula():
    """Oracle: 3/16 · 1/(p(p - 1)), which the source prints for k = 3."""
    for modulus in (5, 7, 97):
        expected = 3 / 16 / (modulus * (modulus - 1))
        np.testing.assert_allclose(maximum_margin(3, modulus), expected, rtol=1e-14)


@pytest.mark.parametrize("num_terms", [2, 5])
def test_a_cosine_neuron_has_norm_1_and_the_maximum_average_margin(num_terms):
    phases = np.linspace(-2.0, 3.0, num_terms)
    neuron = cosine_neuron(7, frequency=3, phases=phases.tolist())
    np.testing.assert_allclose(group_norm(neuron), 1.0, rtol=1e-12)
    np.testing.assert_allclose(average_margin(neuron), maximum_margin(num_terms, 7), rtol=1e-12)
    spectra = jax.jit(neuron_spectra)(neuron)
    np.testing.assert_allclose(spectra.residual, 0.0, atol=1e-12)


def test_ascent_finds_a_cosine_neuron_and_nothing_better():
    """Oracle: the closed form, from ten random starts."""
    keys = jax.random.split(jax.random.key(0), 10)
    neurons = jax.jit(jax.vmap(lambda key: ascended_neuron(key, 3, 5, 400)))(keys)
    reached = np.asarray(jax.vmap(average_margin)(neurons)) / maximum_margin(3, 5)
    assert reached.max() <= 1 + 1e-12
    assert reached.max() >= 1 - 1e-9
    best = jax.jit(neuron_spectra)(jax.tree.map(lambda leaf: leaf[reached.argmax()], neurons))
    assert best.concentration.min() > 0.9999
    assert bool(best.same[0])
    assert float(best.residual[0]) < 1e-3


def test_the_least_penalized_loss_is_that_of_the_cosine_network_and_of_no_other():
    """Oracle: the loss on all examples; of cosine networks of all norms, and of random ones."""
    sums, penalty = all_sums(2, 7), 0.05
    bound = least_penalized_loss(2, 7, penalty)
    cosines = maximum_margin_network(2, 7)
    cosines = scaled(cosines, 1 / group_norm(cosines))

    @jax.jit
    def loss(params):
        outputs = polynomial_network(params, sums.terms)
        losses = optax.softmax_cross_entropy_with_integer_labels(outputs, sums.total)
        return losses.mean() + penalty * group_norm(params)

    by_norm = [float(loss(scaled(cosines, norm))) for norm in np.linspace(6.5, 7.5, 101)]
    assert min(by_norm) == pytest.approx(bound, abs=1e-5)
    assert min(by_norm) >= bound - 1e-12
    for seed in range(5):
        random = initial_neurons(jax.random.key(seed), 2, 7, 24)
        assert all(float(loss(scaled(random, factor))) > bound for factor in (0.1, 1.0, 2.0))
    assert least_penalized_loss(2, 7, 10.0) == pytest.approx(np.log(7))


@pytest.mark.parametrize(("num_terms", "modulus"), [(3, 3), (2, 7), (3, 7)])
def test_all_frequencies_are_used_equally(num_terms, modulus):
    """Oracle: f̂(j, …, j, -j) = λpᵏ, and 0 elsewhere but at the mean (Lemma C.20)."""
    spectrum = np.array(jax.jit(function_spectrum)(maximum_margin_network(num_terms, modulus)))
    unit = 2 ** (num_terms - 2) * np.prod(range(1, num_terms + 1)) * modulus
    expected = np.zeros_like(spectrum)
    for frequency in range(1, modulus):
        expected[(frequency,) * num_terms + (modulus - frequency,)] = unit * modulus**num_terms
    np.testing.assert_allclose(spectrum, expected, atol=1e-9 * unit * modulus**num_terms)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: maximum_margin(1, 5), "num_terms must be at least 2 for a maximum margin, got 1"),
        (lambda: maximum_margin(2, 6), "modulus must be odd and at least 3, got 6"),
        (lambda: least_penalized_loss(2, 5, 0.0), "penalty must be positive, got 0"),
        (lambda: cosine_neuron(7, 4, [0.0, 0.0]), r"frequency must be in \[1, 3\], got 4"),
    ],
)
def test_what_has_no_maximum_margin_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
