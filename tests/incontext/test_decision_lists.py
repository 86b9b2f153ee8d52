from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.incontext import DecisionLists, ListTransformer, list_labels, random_lists
from theorylab.incontext.decision_lists import (
    all_sets,
    circulant_lists,
    determining_tokens,
    one_step_values,
    random_sets,
    set_delta,
    triple_delta,
)
from theorylab.incontext.list_transformer import Sets, list_gradient


def by_hand(lists, tokens):
    """The definition, token by token."""
    return [
        [next(int(b) for b in lists.order[a] if b in chosen) for a in chosen]
        for chosen in tokens.tolist()
    ]


def chance_by_hand(lists, tokens):
    """The least positive P[a, b, c ∈ s, b determines a] over all triples of the assumption."""
    found = []
    decided = by_hand(lists, tokens)
    for a, row in enumerate(lists.order.tolist()):
        for b in row:
            for c in set(range(len(lists.order))) - set(row[: row.index(b) + 1]):
                hits = [
                    a in s and c in s and d[s.index(a)] == b
                    for s, d in zip(tokens.tolist(), decided, strict=True)
                ]
                found += [np.mean(hits)]
    return min(value for value in found if value > 0)


@pytest.fixture(scope="module")
def lists():
    return random_lists(jax.random.key(0), 6, 3)


def test_labels_are_those_of_the_definition_on_all_sets(lists):
    tokens = all_sets(6, 3)
    assert len(tokens) == comb(6, 3)
    decided = by_hand(lists, tokens)
    np.testing.assert_array_equal(determining_tokens(lists, jnp.asarray(tokens)), decided)
    labels = np.asarray(lists.permutation)[np.array(decided)]
    np.testing.assert_array_equal(list_labels(lists, jnp.asarray(tokens)), labels)


def test_lists_are_what_they_say(lists):
    order = np.asarray(lists.order)
    np.testing.assert_array_equal(order[:, -1], np.arange(6))
    assert all(len(set(row)) == 3 for row in order.tolist())
    assert sorted(lists.permutation.tolist()) == list(range(6))
    varied = np.asarray(random_lists(jax.random.key(5), 20, 3, shortest=1).order).tolist()
    assert all(row[-1] == a and len(set(row)) == 1 + row.index(a) for a, row in enumerate(varied))
    assert {row.index(a) for a, row in enumerate(varied)} == {0, 1, 2}


def test_a_short_list_is_filled_up_with_its_own_token():
    short = DecisionLists(jnp.array([[1, 0, 0], [1, 1, 1], [0, 1, 2]]), jnp.arange(3))
    tokens = jnp.array([[0, 2], [1, 2], [0, 1]])
    np.testing.assert_array_equal(determining_tokens(short, tokens), [[0, 0], [1, 1], [1, 1]])


def test_deltas_are_least_probabilities(lists):
    """Oracle: brute force over all triples; by hand: 0.05 at (6, 3, 2) for any lists."""
    tokens = all_sets(6, 3)
    assert triple_delta(lists, tokens) == pytest.approx(chance_by_hand(lists, tokens))
    assert triple_delta(random_lists(jax.random.key(1), 6, 2), tokens) == pytest.approx(0.05)
    four = all_sets(6, 4)
    assert triple_delta(lists, four) == pytest.approx(chance_by_hand(lists, four))
    assert set_delta(8, 3) == 1 / 56


def test_random_sets_are_uniform():
    tokens = np.sort(random_sets(jax.random.key(0), 3000, 5, 2), axis=1)
    assert (tokens[:, 0] < tokens[:, 1]).all()
    counts = np.unique(tokens @ [5, 1], return_counts=True)[1]
    assert len(counts) == 10
    assert np.abs(counts - 300).max() < 5 * np.sqrt(300)


@pytest.mark.parametrize("size", [2, 4])
def test_one_step_is_the_gradient_on_all_sets(lists, size):
    """Oracle: the transformer's own gradient at zero, over all sets."""
    tokens = jnp.asarray(all_sets(6, size))
    sets = Sets(tokens, list_labels(lists, tokens))
    zero = jnp.zeros((6, 6))
    slope = list_gradient(ListTransformer(zero, zero), sets).values
    np.testing.assert_allclose(one_step_values(lists, size, 36.0), -36.0 * slope, atol=1e-12)


def test_one_step_has_the_values_of_the_circulant_example():
    """Oracle: four values computed apart, 7.000, −0.70, 0.63 and −0.035."""
    values = one_step_values(circulant_lists(200, (10, 20, 30), 20), 25, 200.0**2)
    column = values[20]  # label 20, of token 0
    expected = {0: 7.0, 10: -0.70, 30: -0.70, 190: 0.63, 170: 0.63, 5: -0.035}
    for token, value in expected.items():
        assert column[token] == pytest.approx(value, abs=0.006)
    assert (values.argmax(axis=0) == (np.arange(200) + 20) % 200).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random_lists(jax.random.key(0), 3, 4), "length must be between 1 and"),
        (lambda: all_sets(3, 4), "size must be between 1 and the number of tokens 3, got 4"),
        (lambda: all_sets(60, 30), "at most 2000000 sets are enumerated"),
        (lambda: random_sets(jax.random.key(0), 0, 4, 2), "count must be at least 1"),
    ],
)
def test_bad_sizes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
