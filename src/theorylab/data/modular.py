"""Modular addition: k numbers from 0 to p - 1, and the rest of their sum after division by p.

    c = (a₁ + … + a_k) mod p,   a uniform on {0, …, p - 1}ᵏ

There are pᵏ examples, so the law can be listed whole. Any k of the k + 1 numbers a₁, …, a_k, c are
independent and uniform, so no k - 1 terms say anything about the sum. With characters instead of
probabilities: E ∏ᵢ e^{2πi jᵢaᵢ/p} · e^{-2πi jc/p} is 1 if all jᵢ = j (mod p), and else 0. With
p = 2 this is the parity of k bits.

Examples are kept as numbers, `Sums`; `modular_addition` writes them as one-hot vectors for networks
that expect these. The source takes p to be an odd prime, but nothing here needs that.

Source: shi · modadd-data · §4.3.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Int

from theorylab.typing import RandomKey

from .dataset import Dataset
from .inputs import check_at_least

_LARGEST = 2**31 - 1  # the numbers of the examples fit into 32 bits


class Sums(NamedTuple):
    """Examples of addition: terms a, from 0 to p - 1, and totals c."""

    terms: Int[Array, "n k"]
    total: Int[Array, " n"]


def all_sums(num_terms: int, modulus: int) -> Sums:
    """All pᵏ examples, the last term changing fastest.

    Args:
        num_terms: The number of terms k.
        modulus: p.

    Example:
        >>> sums = all_sums(num_terms=2, modulus=2)
        >>> sums.terms.tolist(), sums.total.tolist()
        ([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0])
    """
    return numbered_sums(jnp.arange(num_sums(num_terms, modulus)), num_terms, modulus)


def sampled_sums(key: RandomKey, num_samples: int, num_terms: int, modulus: int) -> Sums:
    """Independent examples, drawn with replacement.

    Args:
        key: Draws the terms.
        num_samples: The number of examples n.
        num_terms: The number of terms k.
        modulus: p.

    Example:
        >>> sums = sampled_sums(jax.random.key(0), num_samples=4, num_terms=2, modulus=5)
        >>> sums.terms.shape, bool((sums.total == sums.terms.sum(axis=1) % 5).all())
        ((4, 2), True)
    """
    num_sums(num_terms, modulus)  # refuses what is too small or too large
    check_at_least("num_samples", num_samples, 1)
    terms = jax.random.randint(key, (num_samples, num_terms), 0, modulus)
    return Sums(terms, terms.sum(axis=1) % modulus)


def numbered_sums(numbers: Int[Array, " n"], num_terms: int, modulus: int) -> Sums:
    """The examples with these numbers, whose digits to the base p are the terms.

    So a part of a set can be visited that would not fit into memory.

    Args:
        numbers: From 0 to pᵏ - 1.
        num_terms: The number of terms k.
        modulus: p.

    Example:
        >>> numbered_sums(jnp.array([7]), num_terms=2, modulus=5).terms.tolist()  # 7 = 1 · 5 + 2
        [[1, 2]]
    """
    check_numbers("numbers", numbers, num_sums(num_terms, modulus))
    places = modulus ** jnp.arange(num_terms - 1, -1, -1, dtype=numbers.dtype)
    terms = numbers[:, None] // places[None, :] % modulus
    return Sums(terms, terms.sum(axis=1) % modulus)


def split_sums(key: RandomKey, sums: Sums, fraction: float) -> tuple[Sums, Sums]:
    """Cut at random: a fraction of the examples to train on, the rest to test on.

    Args:
        key: Draws the order.
        sums: The examples, such as `all_sums(2, 97)`.
        fraction: How many are in the first part, rounded to a whole number.

    Example:
        >>> train, test = split_sums(jax.random.key(0), all_sums(2, 5), fraction=0.5)
        >>> len(train.total), len(test.total)
        (12, 13)
    """
    num_samples = len(sums.total)
    num_first = round(fraction * num_samples) if math.isfinite(fraction) else 0
    if not 0 < num_first < num_samples:
        raise ValueError(
            f"fraction must leave examples in both parts of {num_samples}, got {fraction}."
        )
    order = jax.random.permutation(key, num_samples)
    first, second = order[:num_first], order[num_first:]
    return (
        Sums(sums.terms[first], sums.total[first]),
        Sums(sums.terms[second], sums.total[second]),
    )


def modular_addition(sums: Sums, modulus: int) -> Dataset:
    """Examples as one-hot vectors: x (n, k, p) and y (n, p), for any network and loss.

    Args:
        sums: The examples.
        modulus: p.

    Example:
        >>> print(modular_addition(all_sums(2, 5), modulus=5))
        25 samples (2, 5) ─► (5,): a₁ + … + a_2 mod 5, one-hot. Source: synthetic.
    """
    check_at_least("modulus", modulus, 2)
    check_numbers("terms", sums.terms, modulus)
    check_numbers("totals", sums.total, modulus)
    x, y = jax.nn.one_hot(sums.terms, modulus), jax.nn.one_hot(sums.total, modulus)
    law = f"a₁ + … + a_{sums.terms.shape[1]} mod {modulus}, one-hot"
    return Dataset(x, y, law, source="synthetic")


def character_moment(frequencies: Sequence[int], modulus: int) -> float:
    """E ∏ᵢ e^{2πi jᵢaᵢ/p} · e^{-2πi jc/p} over uniform terms: 1 if all jᵢ = j (mod p), else 0.

    Args:
        frequencies: j₁, …, j_k of the terms, then j of the total.
        modulus: p.

    Example:
        >>> character_moment([1, 1, 1], modulus=5), character_moment([1, 2, 1], modulus=5)
        (1.0, 0.0)
    """
    check_at_least("modulus", modulus, 2)
    if len(frequencies) < 2:
        raise ValueError(f"frequencies must be those of terms and total, got {frequencies}.")
    return float(len({frequency % modulus for frequency in frequencies}) == 1)


def check_numbers(name: str, numbers: Int[Array, "..."], count: int) -> None:
    """Raise unless all of these are from 0 to count - 1; of what is traced nothing is known.

    Args:
        name: What they are.
        numbers: Such as terms, or the numbers of examples.
        count: Of different ones, such as p.

    Example:
        >>> check_numbers("terms", jnp.array([0, 7]), 5)
        Traceback (most recent call last):
        ...
        ValueError: terms must be from 0 to 4, got 0 to 7.
    """
    if isinstance(numbers, Tracer) or numbers.size == 0:
        return
    known = np.asarray(numbers)  # by NumPy, because under jit JAX would trace even what is known
    least, most = int(known.min()), int(known.max())
    if least < 0 or most >= count:
        raise ValueError(f"{name} must be from 0 to {count - 1}, got {least} to {most}.")


def num_sums(num_terms: int, modulus: int) -> int:
    """The number of all examples, pᵏ.

    Example:
        >>> num_sums(num_terms=2, modulus=97)
        9409
    """
    check_at_least("num_terms", num_terms, 1)
    check_at_least("modulus", modulus, 2)
    if num_terms * math.log2(modulus) >= 31:
        raise ValueError(
            f"modulus^num_terms must be below {_LARGEST + 1}, got {modulus}^{num_terms}."
        )
    return modulus**num_terms
