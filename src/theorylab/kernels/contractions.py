"""How products of a network's derivatives scale with its width: a conjecture as an engine.

A contraction is a product of derivative tensors of the output, at any inputs, in which every index
is summed with one other: the tangent kernel is ∂_a f ∂_a f, written ("a", "a"), and

    O₃ = 2 ∂_ab f ∂_a f ∂_b f        ("ab", "a", "b").

Join tensors that share an index. Let n_e and n_o count the clusters with an even and an odd number
of tensors, and let there be t tensors in all. Then, over random networks of width m,

    E C = O(mˢ),   s = n_e + n_o/2 − t/2,   and E C = 0 if t is odd.

A step of gradient flow, C ─► ⟨∇C, ∇f⟩, writes one more index at any of the tensors and adds a
tensor with it; the velocity of C is that times a residual y − f, so a tensor of no index may come
too. Whatever the number of steps, exponents of O_s and of its velocities follow.

Source: golikov · ntk-hierarchy · Conj. 2.3.1, Lemma 2.3.2.
"""

import itertools
import math
import string
from collections import Counter
from typing import NamedTuple

Contraction = tuple[str, ...]  # one word of index letters for each derivative tensor


class ClusterCounts(NamedTuple):
    """The clusters of tensors that share indices: n_e of even size, n_o of odd size.

    Example: the tangent kernel ∂_a f ∂_a f is one cluster of two tensors.
        >>> clusters(("a", "a"))
        ClusterCounts(even=1, odd=0)
    """

    even: int
    odd: int


def clusters(contraction: Contraction) -> ClusterCounts:
    """Count the clusters of tensors that indices join.

    Args:
        contraction: The index letters of every derivative tensor; "" is the output itself. Every
            letter stands twice.

    Example:
        >>> clusters(("ab", "a", "b", ""))
        ClusterCounts(even=0, odd=2)
    """
    _check(contraction)
    found: list[tuple[int, set[str]]] = []  # how many tensors, and their letters
    for word in contraction:
        touching = [cluster for cluster in found if cluster[1] & set(word)]
        found = [cluster for cluster in found if not cluster[1] & set(word)]
        letters = set(word).union(*(letters for _, letters in touching))
        found.append((1 + sum(count for count, _ in touching), letters))
    odd = sum(count % 2 for count, _ in found)
    return ClusterCounts(len(found) - odd, odd)


def exponent(contraction: Contraction) -> float:
    """The s = n_e + n_o/2 − t/2 for which the mean is O(mˢ); −∞ where the mean is 0.

    Args:
        contraction: The index letters of every derivative tensor.

    Example:
        >>> exponent(("a", "a")), exponent(("ab", "a", "b", "")), exponent(("ab", "a", "b"))
        (0.0, -1.0, -inf)
    """
    even, odd = clusters(contraction)
    if len(contraction) % 2:
        return -math.inf
    return even + odd / 2 - len(contraction) / 2


def along_gradient(contractions: tuple[Contraction, ...]) -> tuple[Contraction, ...]:
    """⟨∇C, ∇f⟩ of a sum of contractions: the terms of the product rule, equal ones once.

    Example:
        >>> along_gradient((("a", "a"),))
        (('ab', 'a', 'b'),)
    """
    terms = []
    for contraction in contractions:
        _check(contraction)
        used = set("".join(contraction))
        new = next(letter for letter in string.ascii_letters if letter not in used)
        for place, word in enumerate(contraction):
            before, after = contraction[:place], contraction[place + 1 :]
            terms.append(_ordered((*before, word + new, *after, new)))
    return tuple(dict.fromkeys(terms))


def terms_of_order(order: int) -> tuple[Contraction, ...]:
    """The contractions that O_s is a sum of.

    Example: O₂ is the tangent kernel.
        >>> terms_of_order(2), terms_of_order(3)
        ((('a', 'a'),), (('ab', 'a', 'b'),))
    """
    if order < 1:
        raise ValueError(f"order must be at least 1, got {order}.")
    terms: tuple[Contraction, ...] = (("",),)
    for _ in range(order - 1):
        terms = along_gradient(terms)
    return terms


def velocity(contractions: tuple[Contraction, ...]) -> tuple[Contraction, ...]:
    """dC/dt = ⟨∇C, ∇f⟩(y − f) of a sum of contractions: the terms with y, and those with f.

    Example: the velocity of the tangent kernel has the term of y, and the term of f.
        >>> velocity(terms_of_order(2))
        (('ab', 'a', 'b'), ('ab', 'a', 'b', ''))
    """
    moved = along_gradient(contractions)
    return moved + tuple(_ordered((*term, "")) for term in moved)


def product(*contractions: Contraction) -> Contraction:
    """Contractions side by side, each with index letters of its own.

    Example:
        >>> product(("a", "a"), ("a", "a"), ("",))
        ('a', 'a', 'b', 'b', '')
    """
    free = iter(string.ascii_letters)
    joined: list[str] = []
    for contraction in contractions:
        _check(contraction)
        names = {letter: next(free) for letter in sorted(set("".join(contraction)))}
        joined += [word.translate(str.maketrans(names)) for word in contraction]
    return tuple(joined)


def size(contractions: tuple[Contraction, ...]) -> float:
    """The s for which a sum of contractions is O(mˢ) in root mean square, half that of its square.

    Example:
        >>> [size(terms_of_order(order)) for order in (1, 2, 3, 4, 5)]
        [0.0, 0.0, -1.0, -1.0, -2.0]
    """
    pairs = itertools.combinations_with_replacement(contractions, 2)
    return max(exponent(product(*pair)) for pair in pairs) / 2


def _ordered(contraction: Contraction) -> Contraction:
    """Tensors by falling number of indices: a form in which many equal terms look equal."""
    return tuple(sorted(contraction, key=lambda word: (-len(word), word)))


def _check(contraction: Contraction) -> None:
    if not contraction:
        raise ValueError("a contraction must have at least one tensor, got none.")
    wrong = sorted(letter for letter, n in Counter("".join(contraction)).items() if n != 2)
    if wrong:
        raise ValueError(
            f"every index must stand twice, got {', '.join(wrong)} otherwise in {contraction}."
        )
