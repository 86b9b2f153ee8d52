"""Clusters of directions: planted ones are found, and chance is told from structure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.features.emergence import scrambled, spherical_means


@pytest.fixture(scope="module")
def planted():
    """Forty vectors of different lengths around three orthogonal axes of twenty, by turns."""
    noise = 0.05 * jax.random.normal(jax.random.key(0), (40, 20))
    axes = jnp.eye(20)[jnp.arange(40) % 3]
    return (axes + noise) * (1 + jnp.arange(40.0) % 5)[:, None]


def test_planted_clusters_are_found(planted):
    """Oracle: the axes; cosines by hand from the members, as a loop in NumPy."""
    found = spherical_means(planted, 3)
    members = np.asarray(found.members)
    assert len({tuple(members[place::3]) for place in range(3)}) == 3
    assert all(len(set(members[place::3])) == 1 for place in range(3))
    unit = np.asarray(planted) / np.linalg.norm(planted, axis=1, keepdims=True)
    centres = np.stack([unit[members == u].sum(axis=0) for u in range(3)])
    centres = centres / np.linalg.norm(centres, axis=1, keepdims=True)
    np.testing.assert_allclose(found.centres, centres, atol=1e-12)
    within = np.mean([unit[i] @ centres[members[i]] for i in range(40)])
    between = max(centres[u] @ centres[v] for u in range(3) for v in range(u))
    np.testing.assert_allclose([found.within, found.between], [within, between], atol=1e-12)


def test_lengths_and_rotations_do_not_matter(planted):
    """Oracle: invariance of cosines; another first centre may only rename clusters."""
    rotation, _ = jnp.linalg.qr(jax.random.normal(jax.random.key(1), (20, 20)))
    plain = spherical_means(planted, 3)
    turned = spherical_means(7 * planted @ rotation, 3)
    np.testing.assert_allclose(turned.within, plain.within, rtol=1e-10)
    np.testing.assert_array_equal(turned.members, plain.members)


def test_scrambled_vectors_have_the_same_numbers_and_no_clusters(planted):
    """Oracle: sorted rows; planted ones are within 0.9, scrambled ones far below."""
    mixed = scrambled(jax.random.key(2), planted)
    np.testing.assert_array_equal(jnp.sort(mixed, axis=1), jnp.sort(planted, axis=1))
    assert spherical_means(planted, 3).within > 0.9
    assert spherical_means(mixed, 3).within < 0.6


def test_opposite_directions_are_two_clusters():
    """Oracle: ±v, with centres of cosine −1; a vector that is 0 does no harm."""
    vectors = jnp.array([[1.0, 2.0], [-1.0, -2.0], [3.0, 6.0], [0.0, 0.0]])
    found = spherical_means(vectors)
    assert found.between == pytest.approx(-1.0)
    assert found.within == pytest.approx(0.75)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"num_clusters must be in \[2, 3\]"):
        spherical_means(jnp.ones((3, 2)), 4)
