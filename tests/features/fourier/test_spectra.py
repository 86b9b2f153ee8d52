import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features.fourier import (
    PolynomialNeurons,
    attention_concentration,
    attention_power,
    concentration,
    coverage,
    frequency_counts,
    interpolated,
    maximum_margin_network,
    neuron_spectra,
    power,
    uniformity,
)

P = 11
TOKENS = jnp.arange(P)


def wave(frequency, phase, modulus=P):
    return jnp.cos(phase + 2 * jnp.pi * frequency * jnp.arange(modulus) / modulus)


def test_powers_are_half_of_the_energy_without_the_mean():
    """Oracle: Plancherel, Σ_{j≠0} |û(j)|² = p(‖u‖² - p ū²), each power counted twice there."""
    weights = jax.random.normal(jax.random.key(0), (P,)) + 3.0
    expected = P * ((weights**2).sum() - P * weights.mean() ** 2)
    np.testing.assert_allclose(2 * power(weights).sum(), expected, rtol=1e-12)


def test_a_cosine_has_concentration_1_and_two_have_the_share_of_the_stronger():
    np.testing.assert_allclose(concentration(wave(3, 0.7) + 5.0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(concentration(2 * wave(3, 0.7) + wave(1, 0.1)), 4 / 5, rtol=1e-12)


def test_neurons_are_told_by_frequency_phase_and_life():
    """Oracle: neurons made of known waves; the third is dead, and its vectors disagree."""
    phases = [[0.4, 1.0, 1.4], [2.0, 3.0, -1.0], [0.0, 0.0, 0.0]]
    frequencies = [[2, 2, 2], [5, 5, 5], [1, 3, 1]]
    sizes = [1.0, 0.5, 0.01]
    vectors = jnp.stack(
        [
            jnp.stack([size * wave(f, phi) for f, phi in zip(fs, phis, strict=True)])
            for fs, phis, size in zip(frequencies, phases, sizes, strict=True)
        ],
        axis=2,
    )
    vectors = vectors.at[0, :, 0].add(1.0)
    spectra = jax.jit(neuron_spectra)(PolynomialNeurons(vectors[:-1], vectors[-1]))
    assert spectra.live.tolist() == [True, True, False]
    assert spectra.frequency.tolist() == [2, 5, 1]
    assert spectra.same.tolist() == [True, True, False]
    np.testing.assert_allclose(spectra.concentration, 1.0, rtol=1e-10)
    np.testing.assert_allclose(spectra.phase[:, 0], phases[0], rtol=1e-10)
    np.testing.assert_allclose(spectra.residual[:2], [0.0, 2 * np.pi - 6.0], atol=1e-10)
    np.testing.assert_allclose(spectra.mean_share[:, 0], [2 / 3, 0.0, 0.0], atol=1e-12)
    counts = frequency_counts(spectra, P)
    assert counts.tolist() == [0, 1, 0, 0, 1]
    assert float(coverage(counts)) == pytest.approx(2 / 5)


def test_the_maximum_margin_network_has_all_frequencies_equally_often():
    spectra = jax.jit(neuron_spectra)(maximum_margin_network(2, P))
    counts = frequency_counts(spectra, P)
    assert counts.tolist() == [8] * 5
    np.testing.assert_allclose(spectra.residual, 0.0, atol=1e-9)
    assert uniformity(counts).p_value == 1.0


def test_uniformity_is_pearsons_test():
    """Oracle: two degrees of freedom, where P(χ² > s) = e^{-s/2}."""
    test = uniformity(np.array([5, 9, 1]))
    assert test.statistic == pytest.approx(6.4)
    assert test.p_value == pytest.approx(np.exp(-3.2))


def test_interpolation_goes_through_the_weights_and_knows_cosines():
    weights = jax.random.normal(jax.random.key(1), (P,))
    np.testing.assert_allclose(interpolated(weights, TOKENS.astype(float)), weights, atol=1e-12)
    between = jnp.array([0.25, 7.5])
    expected = 2.0 + jnp.cos(0.3 + 2 * jnp.pi * 4 * between / P)
    np.testing.assert_allclose(interpolated(2.0 + wave(4, 0.3), between), expected, atol=1e-12)


def test_attention_counts_both_signs_as_one_frequency():
    """Oracle: waves in the plane and their products; the powers add up to those without a mean."""
    product = jnp.outer(wave(2, 0.3), wave(5, 1.0))
    oblique = jnp.cos(0.4 + 2 * jnp.pi * (3 * TOKENS[:, None] - TOKENS[None, :]) / P)
    rows = jnp.outer(wave(4, 0.2), jnp.ones(P))
    scores = jnp.stack([product, oblique, rows]) + 1.5
    np.testing.assert_allclose(attention_concentration(scores), 1.0, rtol=1e-10)
    strongest = [
        np.unravel_index(np.argmax(powers), powers.shape)
        for powers in np.asarray(attention_power(scores))
    ]
    assert strongest == [(2, 5), (3, 1), (4, 0)]
    drawn = jax.random.normal(jax.random.key(2), (P * P,)).reshape(P, P)
    energy = P**2 * ((drawn - drawn.mean()) ** 2).sum()
    np.testing.assert_allclose(attention_power(drawn).sum(), energy, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: power(jnp.ones(4)), "modulus must be odd and at least 3, got 4"),
        (lambda: attention_power(jnp.ones((4, 4))), "modulus must be odd and at least 3, got 4"),
        (lambda: interpolated(jnp.ones(4), jnp.zeros(1)), "modulus must be odd for one curve"),
        (lambda: uniformity(np.array([0, 0])), "counts must be of two frequencies or more"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_counts_below_zero_are_refused():
    with pytest.raises(ValueError, match="counts must be at least 0"):
        uniformity(np.array([-1, 5, 3]))
