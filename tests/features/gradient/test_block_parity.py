import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import BlockParity
from theorylab.features.gradient import (
    background_deviation,
    block_parity_network,
    fixed_feature_bound,
    sure_neurons,
)

LAW = BlockParity(dimension=11, block_size=3, num_blocks=3, block_probability=0.1)


def test_the_exact_network_is_the_sum_of_the_parities():
    """Oracle: products of signs, on all patterns of the relevant coordinates."""
    patterns, _ = LAW.patterns()
    x = jnp.pad(patterns, ((0, 0), (0, 2)), constant_values=-1.0)
    parities = np.asarray(patterns).reshape(-1, 3, 3).prod(axis=2).sum(axis=1)
    found = block_parity_network(LAW)(x)
    np.testing.assert_allclose(found, parities, atol=1e-12)
    assert float((LAW.labels(x) * found).min()) > 1 - 1e-12


def test_sure_neurons_are_gaussian_but_for_their_sum():
    """Oracle: the sum, and moments across it to five standard errors."""
    weights = np.asarray(sure_neurons(jax.random.key(0), LAW, 2000, bias=4.0, block=1))
    np.testing.assert_allclose(weights[:, 3:6].sum(axis=1), 6.0, rtol=1e-10)
    five = 5 / math.sqrt(2000)
    np.testing.assert_allclose(weights[:, :3].mean(axis=0), 0.0, atol=five)
    np.testing.assert_allclose(weights[:, 0].var(), 1.0, atol=2 * five)
    np.testing.assert_allclose(weights[:, 3].var(), 2 / 3, atol=2 * five)


def test_the_background_has_the_deviation_of_its_samples():
    x = np.asarray(LAW.sample(jax.random.key(0), 20000).x)
    weights = np.asarray(jax.random.normal(jax.random.key(1), (400, 2)))
    spread = (x[:, 9:] @ weights.T).var()
    np.testing.assert_allclose(math.sqrt(spread), background_deviation(LAW), rtol=0.1)


def test_the_bound_falls_with_the_norm_and_not_with_its_root():
    """Oracle: affine in B, and ½ without features' help."""
    steps = np.diff([float(fixed_feature_bound(8, bound, 5)) for bound in (0.0, 1.0, 2.0)])
    np.testing.assert_allclose(steps, [-1 / 16, -1 / 16], rtol=1e-12)
    assert fixed_feature_bound(8, 0.0, 5) == 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sure_neurons(jax.random.key(0), LAW, 0, 1.0), "num_neurons must be at least 1"),
        (
            lambda: sure_neurons(jax.random.key(0), LAW, 1, 1.0, block=3),
            "block must be in",
        ),
        (lambda: fixed_feature_bound(0, 1.0, 5), "num_features must be at least 1"),
    ],
)
def test_bad_sizes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
