import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import all_sums, modular_addition, parity, split_sums
from theorylab.data.modular import character_moment, num_sums, numbered_sums, sampled_sums


@pytest.mark.parametrize(("num_terms", "modulus"), [(1, 4), (2, 7), (3, 5)])
def test_all_sums_are_the_whole_table(num_terms, modulus):
    """Oracle: Python's own product and remainder."""
    sums = all_sums(num_terms, modulus)
    expected = list(itertools.product(range(modulus), repeat=num_terms))
    assert sums.terms.tolist() == [list(terms) for terms in expected]
    assert sums.total.tolist() == [sum(terms) % modulus for terms in expected]
    assert len(expected) == num_sums(num_terms, modulus)


def test_any_k_of_the_numbers_are_uniform_and_independent():
    """Oracle: counting. Without one term, every combination with the total occurs exactly once."""
    sums = all_sums(3, 5)
    numbers = np.column_stack([sums.terms, sums.total])
    for left_out in range(4):
        rest = np.delete(numbers, left_out, axis=1)
        assert len(np.unique(rest, axis=0)) == 5**3


@pytest.mark.parametrize("modulus", [3, 4, 5])
def test_moments_of_characters_are_those_of_the_table(modulus):
    """Oracle: the mean over all examples, for all frequencies."""
    sums = all_sums(2, modulus)
    numbers = np.column_stack([sums.terms, -np.asarray(sums.total)])
    for frequencies in itertools.product(range(modulus), repeat=3):
        mean = np.exp(2j * np.pi * numbers @ np.array(frequencies) / modulus).mean()
        np.testing.assert_allclose(mean, character_moment(frequencies, modulus), atol=1e-12)


def test_samples_follow_the_law():
    """Oracle: the exact moments, to five standard errors 1/√n."""
    sums = sampled_sums(jax.random.key(0), 4000, num_terms=3, modulus=7)
    assert (np.asarray(sums.terms).sum(axis=1) % 7 == np.asarray(sums.total)).all()
    assert set(np.ravel(sums.terms).tolist()) == set(range(7))
    numbers = np.column_stack([sums.terms, -np.asarray(sums.total)])
    for frequencies in [(1, 0, 0, 0), (0, 0, 0, 1), (1, 2, 1, 1), (3, 3, 3, 3), (8, 1, 1, 1)]:
        mean = np.exp(2j * np.pi * numbers @ np.array(frequencies) / 7).mean()
        assert abs(mean - character_moment(frequencies, 7)) < 5 / np.sqrt(4000)


def test_a_split_is_a_partition_and_another_key_another_one():
    sums = all_sums(2, 7)
    train, test = split_sums(jax.random.key(1), sums, fraction=0.4)
    assert len(train.total) == 20
    together = np.concatenate([train.terms, test.terms]).tolist()
    assert sorted(together) == sorted(sums.terms.tolist())
    for part in (train, test):
        assert (np.asarray(part.terms).sum(axis=1) % 7 == np.asarray(part.total)).all()
    assert split_sums(jax.random.key(2), sums, 0.4)[0].terms.tolist() != train.terms.tolist()


def test_numbered_sums_are_rows_of_the_table():
    numbers = jnp.array([124, 0, 37])
    some, whole = numbered_sums(numbers, 3, 5), all_sums(3, 5)
    assert some.terms.tolist() == whole.terms[numbers].tolist()


def test_one_hot_vectors_say_the_same_numbers():
    sums = all_sums(2, 5)
    data = modular_addition(sums, 5)
    assert data.x.argmax(axis=2).tolist() == sums.terms.tolist()
    assert data.y.argmax(axis=1).tolist() == sums.total.tolist()
    np.testing.assert_array_equal(data.x.sum(axis=2), 1.0)
    np.testing.assert_allclose(data.y.mean(axis=0), 1 / 5)


def test_modulus_two_is_the_parity_of_bits():
    """Oracle: the parity of signs x = (-1)ᵃ, another module's."""
    data = parity(jax.random.key(0), 20, dimension=3, num_bits=3)
    bits = ((1 - data.x) // 2).astype(int)
    total = numbered_sums(bits @ jnp.array([4, 2, 1]), 3, 2).total
    np.testing.assert_array_equal(data.y[:, 0], (-1.0) ** np.asarray(total))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: all_sums(0, 5), "num_terms must be at least 1, got 0"),
        (lambda: all_sums(2, 1), "modulus must be at least 2, got 1"),
        (lambda: all_sums(5, 97), r"modulus\^num_terms must be below 2147483648, got 97\^5"),
        (lambda: sampled_sums(jax.random.key(0), 0, 2, 5), "num_samples must be at least 1, got 0"),
        (lambda: split_sums(jax.random.key(0), all_sums(2, 5), 1.0), "fraction must leave"),
        (lambda: character_moment([1], 5), "frequencies must be those of terms and total"),
        (lambda: modular_addition(all_sums(2, 5), 1), "modulus must be at least 2, got 1"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_numbers_outside_the_law_are_refused():
    with pytest.raises(ValueError, match="numbers must be from 0 to 8, got 0 to 9"):
        numbered_sums(jnp.array([0, 9]), 2, 3)
    with pytest.raises(ValueError, match="terms must be from 0 to 2, got 0 to 4"):
        modular_addition(all_sums(2, 5), modulus=3)
    with pytest.raises(ValueError, match=r"fraction must leave examples .* of 9, got nan"):
        split_sums(jax.random.key(0), all_sums(2, 3), float("nan"))
