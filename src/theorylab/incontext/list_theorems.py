"""When a transformer learns all decision lists: constants of the theorems, and their steps checked.

W alone (Theorem 4.3): V = cP with c = 4n² log L/δ, W₀ = 0, η = 1/λ_max. Some t ≤ 32Mλ_max/log L
classifies every token of every sequence. W and V (Theorem 4.4): V₀ within ε/2 of cP, ε ≤ 16M,
c > (4L̄√(M/ε) + 6ε/n) 10n²/δ + 4ε with L̄ = max(1, loss at the start): some t ≤ λ_max ε/2L̄ does, and
V stays within ε of cP. λ_max is the largest eigenvalue of the Hessian on the whole way.

The proofs look at a token a that is misclassified in some sequence. Let k* be the earliest token of
its list that is determining in such a sequence, S all sequences with k* in which a is wrong, v the
indicator of k* and all before it in the list, p* the attention on k*, w column a of W:

    s ∈ S:   ⟨∇_w loss(s), v⟩ ≤ −(c − 4ε)/2n · p*(1 − p*)        s ∉ S:   ⟨∇_w loss(s), v⟩ ≤ 6ε/n

with ε = 0 for W alone; sequences in S with p* ≤ 1/2n are rare; so the gradient is large wherever
something is wrong. (The source once prints ε/2 for c/2n, and 6ε for 6ε/n.)

Source: karp · dl-thm43 · Theorems 4.1, 4.3; karp · dl-thm44 · Theorems 4.2, 4.4, Lemma 4.1.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from theorylab.typing import Scalar

from .decision_lists import DecisionLists, determining_tokens, list_positions
from .list_transformer import (
    ListTransformer,
    Sets,
    attention_weights,
    list_gradient,
    list_loss,
    list_margins,
    set_gradients,
)


def attention_scale(size: int, num_tokens: int, delta: float) -> float:
    """The scale c = 4n² log L/δ of V, for training W alone.

    Example:
        >>> round(attention_scale(size=3, num_tokens=6, delta=0.05))
        1290
    """
    _check(size, num_tokens, delta)
    return float(4 * size**2 * np.log(num_tokens) / delta)


def attention_steps(length: int, sharpness: Scalar, num_tokens: int) -> Scalar:
    """32Mλ_max/log L, within which W alone becomes perfect.

    Example:
        >>> round(attention_steps(length=3, sharpness=2.0, num_tokens=8), 1)
        92.3
    """
    return 32 * length * sharpness / float(np.log(num_tokens))


def initial_loss(size: int, num_tokens: int, scale: Scalar) -> Float[Array, ""]:
    """log(n + (L − n)e^{−c/n}), the loss at W = 0 and V = cP.

    Example:
        >>> round(float(initial_loss(size=3, num_tokens=8, scale=1000.0)), 4)  # log 3
        1.0986
    """
    return jnp.log(size + (num_tokens - size) * jnp.exp(-jnp.asarray(scale) / size))


def joint_scale(
    size: int, num_tokens: int, length: int, delta: float, epsilon: float, loss: float
) -> float:
    """(4L̄√(M/ε) + 6ε/n) 10n²/δ + 4ε, which c must exceed when W and V are trained.

    Args:
        size: n.
        num_tokens: L.
        length: M, the length of the longest list.
        delta: δ of Assumption 4.4.
        epsilon: ε; V₀ is within ε/2 of cP.
        loss: The loss at the start, or a bound of it, such as log L + ε.

    Example:
        >>> round(joint_scale(size=3, num_tokens=8, length=3, delta=0.02, epsilon=1.0, loss=2.0))
        71358
    """
    _check(size, num_tokens, delta)
    if not 0 < epsilon <= 16 * length:
        raise ValueError(f"epsilon must be in (0, 16 M] = (0, {16 * length}], got {epsilon}.")
    n, bar = size, max(1.0, loss)
    inner = 4 * bar * np.sqrt(length / epsilon) + 6 * epsilon / n
    return float(inner * 10 * n**2 / delta + 4 * epsilon)


def joint_steps(sharpness: Scalar, epsilon: Scalar, loss: Scalar) -> Scalar:
    """λ_max ε/2L̄, within which W and V become perfect.

    Example:
        >>> float(joint_steps(sharpness=10.0, epsilon=1.0, loss=2.0))
        2.5
    """
    return sharpness * epsilon / (2 * jnp.maximum(1.0, loss))


class Audit(NamedTuple):
    """The steps of the proofs at one iterate; the worst of all misclassified tokens.

    Where everything is classified they are the most harmless: margins 1, `inner` −∞, and so on.
    """

    perfect: Bool[Array, ""]
    loss: Float[Array, ""]
    gradient: Float[Array, ""]  # ‖∇_W loss‖²
    inside: Float[Array, ""]  # least −(c − 4ε)/2n · p*(1 − p*) − ⟨∇_w loss(s), v⟩ in S, over c
    outside: Float[Array, ""]  # least 6ε/n − ⟨∇_w loss(s), v⟩ elsewhere, over c
    chance: Float[Array, ""]  # least P[S]
    rare: Float[Array, ""]  # largest P[s ∈ S, p* ≤ 1/2n]
    most: Float[Array, ""]  # largest p* in S
    inner: Float[Array, ""]  # largest ⟨∇_w loss, v⟩


def audit(
    params: ListTransformer, sets: Sets, lists: DecisionLists, scale: Scalar, epsilon: Scalar = 0.0
) -> Audit:
    """Check the steps of both proofs at these matrices, on sets of equal probability.

    Args:
        params: W and V.
        sets: All sets and labels.
        lists: The lists that give the labels.
        scale: c.
        epsilon: How far V may be from cP, entry by entry; 0 if it is not trained.

    Example:
        >>> from theorylab.incontext.decision_lists import all_sets, circulant_lists, list_labels
        >>> from theorylab.incontext.list_transformer import aligned_values
        >>> lists = circulant_lists(4, shifts=(1,), label_shift=2)
        >>> tokens = jnp.asarray(all_sets(4, 2))
        >>> sets = Sets(tokens, list_labels(lists, tokens))
        >>> start = ListTransformer(jnp.zeros((4, 4)), aligned_values(lists.permutation, 10.0))
        >>> checks = audit(start, sets, lists, scale=10.0)
        >>> bool(checks.perfect), bool(checks.inside >= 0)  # nothing is classified; the proof holds
        (False, True)
    """
    tokens, n = sets.tokens, sets.tokens.shape[1]
    where, decided = list_positions(lists), determining_tokens(lists, tokens)
    never = lists.order.shape[1] + 1
    key_place = where[tokens[:, None, :], tokens[:, :, None]]  # [set, key, query]
    place = where[tokens, decided]
    wrong = list_margins(params, sets) <= 0
    first = jnp.full(len(where), never).at[tokens].min(jnp.where(wrong, place, never))
    star = first[tokens]  # the place of k* in the list of every token
    in_s, concerned = wrong & (place == star), star < never
    attention = attention_weights(params.attention, tokens)
    slope = set_gradients(params, sets)[0]
    product = jnp.where(key_place <= star[:, None, :], slope, 0.0).sum(axis=1)
    product = jnp.where(concerned, product, 0.0)
    on_star = jnp.where(tokens[:, :, None] == decided[:, None, :], attention, 0.0).sum(axis=1)
    push = (scale - 4 * epsilon) / (2 * n) * on_star * (1 - on_star)

    def share(which: Bool[Array, "b n"]) -> Float[Array, " l"]:
        """The probability of it, for every token."""
        return jnp.zeros(len(where)).at[tokens].add(which / len(tokens))

    chance = jnp.where(first < never, share(in_s), 1.0)
    inner = jnp.zeros(len(where)).at[tokens].add(product / len(tokens))
    return Audit(
        perfect=~wrong.any(),
        loss=list_loss(params, sets),
        gradient=(list_gradient(params, sets).attention ** 2).sum(),
        inside=jnp.where(in_s, -push - product, jnp.inf).min(initial=scale) / scale,
        outside=jnp.where(concerned & ~in_s, 6 * epsilon / n - product, scale).min() / scale,
        chance=chance.min(),
        rare=share(in_s & (on_star <= 1 / (2 * n))).max(),
        most=jnp.where(in_s, on_star, 0.0).max(),
        inner=jnp.where(first < never, inner, -jnp.inf).max(),
    )


def _check(size: int, num_tokens: int, delta: float) -> None:
    if not 1 <= size <= num_tokens:
        raise ValueError(
            f"size must be between 1 and the number of tokens {num_tokens}, got {size}."
        )
    if not 0 < delta <= 1:
        raise ValueError(f"delta must be a probability above 0, got {delta}.")
