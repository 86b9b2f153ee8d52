"""The network written down by hand: right on every count, within the norms of the lemma."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import independent_patterns, parity_mixture
from theorylab.data.dictionary import orthonormal_dictionary, parity_counts, threshold_counts
from theorylab.features.emergence import bump, good_network, outputs, preactivations


def random_counts(k):
    return tuple(np.flatnonzero(np.random.default_rng(k).random(k + 1) < 0.5).tolist())


LABELS = {
    "threshold": threshold_counts,
    "parity": parity_counts,
    "interval": lambda k: tuple(range(2 * k // 3, k + 1)),
    "random": lambda k: tuple(
        np.flatnonzero(np.random.default_rng(k).random(k + 1) < 0.5).tolist()
    ),
}


def one_of_each_count(law):
    """An input with every count of relevant patterns, and its label."""
    k = law.num_relevant
    patterns = np.zeros((k + 1, law.num_patterns))
    patterns[:, :k] = np.tril(np.ones((k + 1, k)), -1)
    return jnp.asarray((patterns - law.mean) / law.scale()), law.labels


@pytest.mark.parametrize("k", [3, 5, 8, 30])
@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("chance", [0.5, 0.62])  # means on a half, and off it
def test_it_is_right_on_every_count_within_its_norms(k, name, chance):
    """Oracle: the labels; norms of Lemma A.1, or twice 64k outside of what A.29 prints."""
    law = independent_patterns(k + 2, k, LABELS[name](k), chance)
    x, labels = one_of_each_count(law)
    for robust, factor in ((False, 1), (True, 2)):
        good = good_network(law, robust=robust)
        np.testing.assert_allclose(outputs(good, x)[:, 0], factor * labels, atol=1e-9)
        assert len(good.biases) == 3 * (k + 1)
        assert np.abs(good.outer).max() <= (128 if robust else 32) * k
        assert np.abs(good.biases).min() >= 1 / (32 * factor * k) - 1e-12
        assert np.abs(good.biases).max() <= 0.5 / factor
        assert np.abs(preactivations(good, x)).max() <= 1
        expected = law.scale() / (4 * factor * k)
        np.testing.assert_allclose(good.weights[:, :k], expected)
        np.testing.assert_allclose(good.weights[:, k:], 0.0)


def test_the_places_of_patterns_and_the_dictionary_do_not_matter():
    """Oracle: all 2ᵏ patterns, in a random orthonormal dictionary."""
    law, M = parity_mixture(5, 3), orthonormal_dictionary(jax.random.key(0), 9, 5)
    patterns = np.array(list(product([0, 1], repeat=5)), float)
    labels = law.labels[patterns[:, :3].sum(axis=1).astype(int)]
    x = jnp.asarray((patterns - law.mean) / law.scale()) @ M.T
    np.testing.assert_allclose(outputs(good_network(law, M), x)[:, 0], labels, atol=1e-9)


@pytest.mark.parametrize(("chance", "tolerance"), [(0.5, 1 / 8), (0.75, 1 / 4)])
def test_the_robust_network_keeps_a_margin_of_one_under_noise(chance, tolerance):
    """Oracle: the count moved by up to the tolerance; beyond it the margin is lost."""
    law = independent_patterns(3, 3, parity_counts(3), chance)
    x, labels = one_of_each_count(law)
    good = good_network(law, robust=True)
    along = jnp.ones(3) / (3 * law.scale())  # moves the count by 1
    for moved in (-tolerance, tolerance):
        margins = labels * np.asarray(outputs(good, x + moved * along[None, :])[:, 0])
        assert margins.min() >= 1 - 1e-9
    margins = [
        labels * np.asarray(outputs(good, x + sign * 1.2 * tolerance * along[None, :])[:, 0])
        for sign in (-1, 1)
    ]
    assert np.min(margins) < 1


def test_a_bump_is_a_tent():
    """Oracle: max(0, a(b − |z − s|))."""
    z = jnp.linspace(-1, 3, 41)
    tent = np.maximum(0, 2.5 * (0.75 - np.abs(np.asarray(z) - 0.9)))
    np.testing.assert_allclose(bump(z, 0.9, 2.5, 0.75), tent, atol=1e-12)
