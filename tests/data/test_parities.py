import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import BlockParity, SparseParity

SMALL = BlockParity(dimension=11, block_size=3, num_blocks=3, block_probability=0.1, background=0.3)


def test_moments_of_a_block_parity_are_those_of_its_patterns():
    """Oracle: all patterns of the relevant coordinates, listed with their probabilities."""
    patterns, chances = SMALL.patterns()
    a = SMALL.num_relevant
    labels = SMALL.labels(jnp.pad(patterns, ((0, 0), (0, 2))))
    np.testing.assert_allclose(chances.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(chances @ labels, 0.0, atol=1e-14)
    np.testing.assert_allclose((chances * labels) @ patterns, SMALL.label_mean[:a], atol=1e-14)
    second = (chances[:, None] * patterns).T @ patterns
    np.testing.assert_allclose(second, SMALL.second_moment[:a, :a], atol=1e-14)
    np.testing.assert_allclose(SMALL.mean_square, jnp.trace(SMALL.second_moment), rtol=1e-12)


def test_samples_of_a_block_parity_have_its_moments():
    """Oracle: the closed forms, to five standard errors of a mean of bounded numbers."""
    data = SMALL.sample(jax.random.key(0), 40000)
    x, y = np.asarray(data.x), np.asarray(data.y[:, 0])
    five = 5 / np.sqrt(len(y))
    np.testing.assert_allclose(x.mean(axis=0), 0.0, atol=five)
    np.testing.assert_allclose(y @ x / len(y), SMALL.label_mean, atol=five)
    np.testing.assert_allclose(x.T @ x / len(y), SMALL.second_moment, atol=five)
    assert set(np.unique(y)) == {-1.0, 1.0}
    shown = (x[:, :9].reshape(-1, 3, 3) == 0).all(axis=2).sum(axis=1)
    assert set(np.unique(shown)) == {0, 2}  # all blocks, or one alone
    np.testing.assert_allclose((shown == 2).mean(), 0.6, atol=five)


def test_fair_signs_have_a_majority_of_parities_as_label():
    """Oracle: products of three, block by block."""
    data = SMALL.sample_uniform(jax.random.key(1), 50)
    products = np.asarray(data.x[:, :9]).reshape(-1, 3, 3).prod(axis=2)
    np.testing.assert_array_equal(data.y[:, 0], np.sign(products.sum(axis=1)))
    assert np.abs(products).min() == 1.0


def test_directions_of_blocks_are_orthonormal():
    np.testing.assert_allclose(SMALL.directions @ SMALL.directions.T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("num_bits", [1, 3])
def test_moments_of_a_sparse_parity_are_those_of_all_points(num_bits):
    law = SparseParity(dimension=5, num_bits=num_bits)
    x, y = law.points()
    assert len({tuple(row) for row in x.tolist()}) == 32
    np.testing.assert_allclose(y @ x / 32, law.label_mean, atol=1e-14)
    np.testing.assert_allclose(x.T @ x / 32, law.second_moment, atol=1e-14)
    drawn = law.sample(jax.random.key(0), 20)
    np.testing.assert_array_equal(drawn.y[:, 0], drawn.x[:, :num_bits].prod(axis=1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BlockParity(48, 4), "must be odd, got 4 and 1"),
        (lambda: BlockParity(48, 5, 2), "must be odd, got 5 and 2"),
        (lambda: BlockParity(14, 5, 3), "dimension must be at least 15, got 14"),
        (lambda: BlockParity(48, 5, 3), r"block_probability must be in \[0, 1/\(2 num_blocks\)\]"),
        (lambda: BlockParity(48, 5, background=0.6), "background must be in"),
        (lambda: SparseParity(3, 4), "dimension must be at least 4, got 3"),
        (lambda: SparseParity(33, 4).points(), "at most 20 signs to list, got 33"),
    ],
)
def test_impossible_laws_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
