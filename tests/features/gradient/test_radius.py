"""How long inputs of a mixture are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import gaussian_mixture
from theorylab.features.gradient import longer_probability, sample_radius

LAW = gaussian_mixture(
    jnp.array([[3.0, 0.0, 0.0], [0.0, -1.0, 0.0]]),
    jnp.array([1.0, -1.0]),
    jnp.array([0.3, 0.7]),
    jnp.array([0.5, 2.0]),
)


@pytest.mark.parametrize("radius", [1.0, 3.0, 5.0])
def test_the_probability_is_that_of_samples(radius):
    """Oracle: 20000 samples, to four standard errors."""
    x = LAW.sample(jax.random.key(0), 20000).x
    share = float((jnp.linalg.norm(x, axis=1) > radius).mean())
    found = longer_probability(LAW, radius)
    assert share == pytest.approx(found, abs=4 * (found * (1 - found) / 20000) ** 0.5)


def test_the_radius_is_its_formula():
    """Oracle: by hand; the longest mean and the largest deviation need not be one cluster's."""
    expected = 3 + 2 * (3**0.5 + (2 * np.log(1000)) ** 0.5)
    assert sample_radius(LAW, 10, 0.01) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("num_samples", "failure"), [(1, 0.5), (100, 0.1), (10**6, 1e-3)])
def test_all_samples_are_within_it_but_for_the_failure(num_samples, failure):
    """Oracle: the union bound over samples, with exact probabilities."""
    beyond = num_samples * longer_probability(LAW, sample_radius(LAW, num_samples, failure))
    assert 0 < beyond <= failure


@pytest.mark.parametrize(("num_samples", "failure"), [(0, 0.1), (5, 0.0), (5, 1.0)])
def test_what_has_no_radius_is_refused(num_samples, failure):
    with pytest.raises(ValueError, match="num_samples must be at least 1 and failure in"):
        sample_radius(LAW, num_samples, failure)
