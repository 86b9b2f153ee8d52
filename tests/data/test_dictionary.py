"""Dictionary data: exact moments against samples, count laws against fractions by hand."""

from fractions import Fraction
from itertools import product
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import CountLaw, dictionary_data, independent_patterns, parity_mixture
from theorylab.data.dictionary import (
    ListedLaw,
    incoherence,
    incoherent_dictionary,
    listed_patterns,
    orthonormal_dictionary,
    parity_counts,
    threshold_counts,
)

N = 20_000
LAWS = {
    "mixture": parity_mixture(12, 5),
    "skewed mixture": parity_mixture(12, 3, other_probability=0.2),
    "interval": independent_patterns(12, 6, range(4, 6), relevant_probability=2 / 3),
    "imbalanced": parity_mixture(12, 5).resampled(0.8),
    "lists": listed_patterns(jax.random.key(3), 12, 4, num_each=3),
}


def test_the_count_law_of_the_mixture_is_the_sources():
    """Oracle: Pr[s] = ½ C(5, s)/32 + ¼ 1[s ∈ {0, 5}], in fractions."""
    expected = [Fraction(comb(5, s), 64) + Fraction(s in (0, 5), 4) for s in range(6)]
    np.testing.assert_allclose(parity_mixture(100, 5).counts, np.array(expected, float))


@pytest.mark.parametrize("chance", [0.1, 0.5, 2 / 3])
def test_structure_of_the_mixture(chance):
    """Oracle: γ = (1 − p_o)/2, both classes equally likely, and p_o outside of A."""
    law = parity_mixture(9, 5, chance)
    np.testing.assert_allclose(law.structure, (1 - chance) / 2)
    np.testing.assert_allclose(law.balanced_structure, law.structure)
    np.testing.assert_allclose(law.class_probabilities, 0.5)
    np.testing.assert_allclose(law.mean[5:], chance)


def test_patterns_outside_covary_unless_the_mixture_is_fair():
    """Oracle: the covariance of two coins with a common hidden bias, p(1 − p)(½ − p/(2 − 2p))²."""
    assert parity_mixture(9, 3).other_covariance == 0
    p = 0.2
    expected = p * (1 - p) * (0.5 - p / (2 - 2 * p)) ** 2
    np.testing.assert_allclose(parity_mixture(9, 3, p).other_covariance, expected)


@pytest.mark.parametrize("name", LAWS)
def test_samples_have_the_moments_of_their_law(name):
    """Oracle: averages over draws, each within 4.5 standard errors."""
    law = LAWS[name]
    data = dictionary_data(jax.random.key(0), law, N)
    x, y = np.asarray(data.x), np.asarray(data.y)[:, 0]
    k, scale = law.num_relevant, law.scale()

    def agree(samples, expected):
        error = samples.std(axis=0) / np.sqrt(N) + 1e-12
        assert np.all(np.abs(samples.mean(axis=0) - expected) < 4.5 * error)

    agree(x, 0.0)
    agree((x**2).sum(axis=1), 1.0)
    signal = np.zeros(12)
    signal[:k] = law.structure
    agree((y - y.mean())[:, None] * x, signal / scale)
    chance = law.mean[k:]
    agree(np.abs(x[:, k:]), 2 * chance * (1 - chance) / scale)
    if isinstance(law, CountLaw):
        counts = np.rint((x * scale + law.mean)[:, :k].sum(axis=1)).astype(int)
        agree(np.eye(k + 1)[counts], law.counts)
        np.testing.assert_array_equal(y, law.labels[counts])
        agree(x[:, -1] * x[:, -2], law.other_covariance / scale**2)
        weights = np.where(
            y > 0, 0.5 / law.class_probabilities[1], 0.5 / law.class_probabilities[0]
        )
        agree(weights * y, 0.0)
        agree((weights * y)[:, None] * x[:, :k], law.balanced_structure / scale)


def test_lists_say_the_label():
    law = LAWS["lists"]
    assert isinstance(law, ListedLaw)
    patterns, labels = law.sample(jax.random.key(1), 200)
    rows = [tuple(row) for row in np.asarray(patterns, int)[:, :4].tolist()]
    for row, label in zip(rows, labels.tolist(), strict=True):
        assert row in (law.positive if label > 0 else law.negative)


@pytest.mark.parametrize("k", [3, 5])
def test_the_parity_is_the_product_of_signs(k):
    """Oracle: all 2ᵏ patterns."""
    for bits in product([0, 1], repeat=k):
        sign = np.prod(2 * np.array(bits) - 1)
        assert (sum(bits) in parity_counts(k)) == (sign > 0)
        assert (sum(bits) in threshold_counts(k)) == (2 * sum(bits) > k)


def test_resampling_keeps_the_classes():
    law = parity_mixture(12, 5).resampled(0.8)
    np.testing.assert_allclose(law.class_probabilities, (0.8, 0.2))
    np.testing.assert_allclose(law.class_means, parity_mixture(12, 5).class_means)
    np.testing.assert_allclose(law.structure, 4 * 0.8 * 0.2 * law.balanced_structure)


def test_dictionaries_are_orthonormal_or_nearly():
    """Oracle: Mᵀx in an orthonormal dictionary is x in its coordinates; E‖x‖² = 1 in each."""
    M = orthonormal_dictionary(jax.random.key(0), 20, 12)
    np.testing.assert_allclose(M.T @ M, np.eye(12), atol=1e-12)
    assert incoherence(M) < 1e-10
    law, key = LAWS["mixture"], jax.random.key(1)
    ambient, own = dictionary_data(key, law, 50, M), dictionary_data(key, law, 50)
    np.testing.assert_allclose(ambient.x @ M, own.x, atol=1e-12)

    M = incoherent_dictionary(jax.random.key(0), 400, 12)
    np.testing.assert_allclose(jnp.linalg.norm(M, axis=0), 1.0)
    assert 1 < incoherence(M) < 5
    squares = (dictionary_data(key, law, 4000, M, noise=0.1).x ** 2).sum(axis=1)
    np.testing.assert_allclose(squares.mean(), 1.0, atol=5 * squares.std() / np.sqrt(4000))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: parity_mixture(10, 4), "num_relevant must be odd"),
        (lambda: parity_mixture(10, 0), "num_relevant must be at least 1, got 0"),
        (lambda: parity_mixture(2**40, 5), "num_patterns must be in"),
        (lambda: parity_mixture(10, 5, 0.9), r"other_probability must be in \(0, 2/3\], got 0.9"),
        (lambda: independent_patterns(4, 5, [1]), "num_relevant must be at most num_patterns = 4"),
        (lambda: independent_patterns(2**19, 2**19, [1]), "num_relevant must be at most 1000"),
        (lambda: independent_patterns(9, 5, [7]), r"positive counts must be in \[0, 5\], got"),
        (lambda: independent_patterns(9, 5, [1], 1.5), "probabilities must be in"),
        (
            lambda: CountLaw(5, (1,), ((float("nan"), 1.0),), (0.5,)),
            "table must have probabilities that sum to 1, got",
        ),
        (lambda: parity_mixture(9, 3).resampled(1.0), "negative_fraction must be in"),
        (lambda: parity_mixture(9, 3).sample(jax.random.key(0), 0), "num_samples must be at least"),
        (lambda: orthonormal_dictionary(jax.random.key(0), 3, 4), "dimension must be at least 4"),
        (
            lambda: dictionary_data(jax.random.key(0), parity_mixture(9, 3), 5, jnp.eye(8)),
            "dictionary must have 9 columns, got 8",
        ),
        (
            lambda: dictionary_data(jax.random.key(0), parity_mixture(9, 3), 5, noise=-1.0),
            "noise must be at least 0 and finite, got -1",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
