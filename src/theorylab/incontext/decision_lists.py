"""Decision lists: the label of a token is decided by the first token of its list that is there.

Tokens are 0 … L − 1. Every token a has a list (a₁, …, a_m) that ends with a itself, and π is a
permutation. In a set s of n tokens, the token that determines the label of a ∈ s is the first a_j
of its list with a_j ∈ s; the label is π(a_j). Sequences have no token twice, and their order does
not matter, so they are sets, uniform among all C(L, n).

How rare may a situation be? `triple_delta` is the least positive probability of a, b, c ∈ s with b
determining a, where b is in a's list and c after it or not in it (Assumption 4.3); `set_delta` that
of a set (4.4). Lists shorter than others are filled up with their own token, which changes nothing.

Source: karp · dl-task · §4.2.2, §4.2.3.
"""

from itertools import combinations
from math import comb
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from theorylab.typing import RandomKey

MOST_SETS = 2_000_000  # that are enumerated


class DecisionLists(NamedTuple):
    """The list of every token, and the permutation.

    Example:
        >>> lists = DecisionLists(order=jnp.array([[1, 0], [0, 1]]), permutation=jnp.array([1, 0]))
        >>> list_labels(lists, jnp.array([[0, 1]])).tolist()  # each is decided by the other
        [[0, 1]]
    """

    order: Int[Array, "l m"]  # row a: the list of a, which ends with a
    permutation: Int[Array, " l"]  # π


def random_lists(
    key: RandomKey, num_tokens: int, length: int, shortest: int | None = None
) -> DecisionLists:
    """Draw lists of m − 1 other tokens and the own one, and a permutation, all uniform.

    On uniform sets, all lists of one length are alike but for the names of tokens.

    Args:
        key: The randomness.
        num_tokens: L.
        length: m.
        shortest: If given, m is drawn for every token, between this and `length`.

    Example:
        >>> lists = random_lists(jax.random.key(0), num_tokens=5, length=3)
        >>> lists.order.shape, lists.order[:, -1].tolist()  # a list ends with its own token
        ((5, 3), [0, 1, 2, 3, 4])
    """
    check_lists(num_tokens, length)
    least = length if shortest is None else shortest
    if not 1 <= least <= length:
        raise ValueError(f"shortest must be between 1 and the length {length}, got {least}.")
    own = jnp.arange(num_tokens)
    order_key, permutation_key, length_key = jax.random.split(key, 3)
    chance = jax.random.uniform(order_key, (num_tokens, num_tokens))
    others = jnp.argsort(jnp.where(jnp.eye(num_tokens, dtype=bool), 2.0, chance), axis=1)
    lengths = jax.random.randint(length_key, (num_tokens, 1), least, length + 1)
    order = jnp.where(jnp.arange(length)[None, :] < lengths - 1, others[:, :length], own[:, None])
    permutation = jnp.argsort(jax.random.uniform(permutation_key, (num_tokens,)))
    return DecisionLists(order, permutation)


def circulant_lists(num_tokens: int, shifts: tuple[int, ...], label_shift: int) -> DecisionLists:
    """The list of i is (i + shift, for all shifts; i), and π(i) = i + label_shift, modulo L.

    (The source counts tokens from 1 and takes i mod (L + 1), which is no permutation.)

    Example:
        >>> circulant_lists(4, (1, 2), 3).order.tolist()
        [[1, 2, 0], [2, 3, 1], [3, 0, 2], [0, 1, 3]]
    """
    check_lists(num_tokens, len(shifts) + 1)
    own = jnp.arange(num_tokens)
    order = (own[:, None] + jnp.array([*shifts, 0])[None, :]) % num_tokens
    return DecisionLists(order, (own + label_shift) % num_tokens)


def all_sets(num_tokens: int, size: int) -> Int[np.ndarray, "b n"]:
    """All C(L, n) sets, one in each row, in lexicographic order.

    Example:
        >>> all_sets(num_tokens=3, size=2).tolist()
        [[0, 1], [0, 2], [1, 2]]
    """
    check_sets(num_tokens, size)
    count = comb(num_tokens, size)
    if count > MOST_SETS:
        raise ValueError(f"at most {MOST_SETS} sets are enumerated, got {count}.")
    return np.array(list(combinations(range(num_tokens), size)))


def random_sets(key: RandomKey, count: int, num_tokens: int, size: int) -> Int[Array, "b n"]:
    """Draw so many sets, uniformly and independently.

    Example:
        >>> random_sets(jax.random.key(0), count=100, num_tokens=5, size=3).shape
        (100, 3)
    """
    check_sets(num_tokens, size)
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}.")
    chance = jax.random.uniform(key, (count, num_tokens))
    return jax.lax.top_k(chance, size)[1]


def determining_tokens(lists: DecisionLists, tokens: Int[Array, "b n"]) -> Int[Array, "b n"]:
    """The token that determines the label of every token of every set.

    Example:
        >>> lists = circulant_lists(4, shifts=(1,), label_shift=2)  # i asks for i + 1 first
        >>> determining_tokens(lists, jnp.array([[0, 1], [0, 2]])).tolist()
        [[1, 1], [0, 2]]
    """
    rows = jnp.arange(len(tokens))
    there = jnp.zeros((len(tokens), len(lists.order)), bool).at[rows[:, None], tokens].set(True)
    candidates = lists.order[tokens]
    first = jnp.argmax(there[rows[:, None, None], candidates], axis=2)
    return jnp.take_along_axis(candidates, first[:, :, None], axis=2)[:, :, 0]


def list_labels(lists: DecisionLists, tokens: Int[Array, "b n"]) -> Int[Array, "b n"]:
    """π of the token that determines the label.

    Example:
        >>> lists = circulant_lists(4, shifts=(1,), label_shift=2)
        >>> list_labels(lists, jnp.array([[0, 1], [0, 2]])).tolist()  # π(i) = i + 2
        [[3, 3], [2, 0]]
    """
    return lists.permutation[determining_tokens(lists, tokens)]


def list_positions(lists: DecisionLists) -> Int[Array, "l l"]:
    """Where token b stands in the list of a, from 0; m where it does not.

    Example:
        >>> lists = circulant_lists(4, shifts=(1,), label_shift=2)
        >>> list_positions(lists)[0].tolist()  # the list of 0 is (1, 0)
        [1, 0, 2, 2]
    """
    length = lists.order.shape[1]
    matches = lists.order[:, :, None] == jnp.arange(len(lists.order))[None, None, :]
    found = jnp.argmax(matches, axis=1)
    return jnp.where(matches.any(axis=1), found, length)


def triple_delta(lists: DecisionLists, tokens: Int[np.ndarray, "b n"]) -> float:
    """δ of Assumption 4.3, over sets of equal probability.

    Args:
        lists: The lists.
        tokens: All sets, of `all_sets`.

    Example:
        >>> lists = circulant_lists(4, shifts=(1,), label_shift=2)
        >>> round(float(triple_delta(lists, all_sets(num_tokens=4, size=2))), 3)  # one set of six
        0.167
    """
    decided = np.asarray(determining_tokens(lists, jnp.asarray(tokens)))
    where = np.asarray(list_positions(lists))
    there = np.zeros((len(tokens), len(where)), bool)
    np.put_along_axis(there, tokens, True, axis=1)
    least = len(tokens) + 1
    for a, row in enumerate(np.asarray(lists.order)):
        sets, column = np.nonzero(tokens == a)
        for b in np.unique(row):
            together = there[sets[decided[sets, column] == b]].sum(axis=0)
            later = together[where[a] > where[a, b]]  # c after b in the list, or not in it
            least = min(least, later[later > 0].min(initial=least))
    return least / len(tokens)


def set_delta(num_tokens: int, size: int) -> float:
    """δ of Assumption 4.4 for uniform sets: 1/C(L, n).

    Example:
        >>> set_delta(num_tokens=5, size=2)
        0.1
    """
    check_sets(num_tokens, size)
    return 1 / comb(num_tokens, size)


def one_step_values(
    lists: DecisionLists, size: int, learning_rate: float
) -> Float[np.ndarray, "l l"]:
    """V after one step of gradient descent from W = 0, V = 0, on all sets: exact, for any lists.

    With uniform attention V₁[l, i] = (η/n²)(E[N_l 1{i ∈ s}] − n²/L²), where N_l tokens of s have
    the label l. By lists: P(a, x, i ∈ s, and no token before x in a's list) is hypergeometric.

    Args:
        lists: The lists.
        size: n.
        learning_rate: η.

    Example:
        >>> lists = circulant_lists(4, shifts=(1,), label_shift=2)
        >>> one_step_values(lists, size=2, learning_rate=16.0).argmax(axis=0).tolist()  # says π
        [2, 3, 0, 1]
    """
    order, permutation = np.asarray(lists.order), np.asarray(lists.permutation)
    num_tokens, n = len(order), size
    check_sets(num_tokens, n)
    counts = np.zeros((num_tokens, num_tokens))
    everyone = np.arange(num_tokens)
    for a, row in enumerate(order):
        before: list[int] = []
        for x in map(int, dict.fromkeys(row.tolist())):
            needed = len({a, x}) + ~np.isin(everyone, [a, x])  # how many tokens must be there
            chance = np.array([_chance(num_tokens, n, int(k), len(before)) for k in (1, 2, 3)])
            counts[permutation[x]] += np.where(np.isin(everyone, before), 0, chance[needed - 1])
            before.append(x)
    return learning_rate / n**2 * (counts - n**2 / num_tokens**2)


def _chance(num_tokens: int, size: int, inside: int, outside: int) -> float:
    """P(these are in the set, and those not): C(L − in − out, n − in)/C(L, n)."""
    if size < inside:
        return 0.0
    return comb(max(num_tokens - inside - outside, 0), size - inside) / comb(num_tokens, size)


def check_lists(num_tokens: int, length: int) -> None:
    """Refuse lists that are longer than there are tokens.

    Example:
        >>> check_lists(num_tokens=3, length=4)
        Traceback (most recent call last):
        ValueError: length must be between 1 and the number of tokens 3, got 4.
    """
    if not 1 <= length <= num_tokens:
        raise ValueError(
            f"length must be between 1 and the number of tokens {num_tokens}, got {length}."
        )


def check_sets(num_tokens: int, size: int) -> None:
    """Refuse sets that are larger than all tokens, or empty.

    Example:
        >>> check_sets(num_tokens=3, size=0)
        Traceback (most recent call last):
        ValueError: size must be between 1 and the number of tokens 3, got 0.
    """
    if not 1 <= size <= num_tokens:
        raise ValueError(
            f"size must be between 1 and the number of tokens {num_tokens}, got {size}."
        )
