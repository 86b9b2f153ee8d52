"""Several heads that learn parity in context: by binary codes, and by four heads for any dimension.

Heads have diagonals, V⁽ʰ⁾ = GᵀW⁽ʰ⁾G = diag(v⁽ʰ⁾), and outputs a_h = ±1. On prompts without end, the
pair (i, j) and its pattern say all:  g = Σ_h a_h ReLU[2γ(v⁽ʰ⁾_i φ_i + v⁽ʰ⁾_j φ_j)].

    binary   for every digit b of ν: a = −1, v_l = ±(2 digit_b(l) − 1)/4γ;  and a = 1, v_l = ∓ν/4γ
    four     a = −1, v_l = ±c_l = ±(l − (d − 1)/2)/2γ;  a = 1, v_l = ±½(max|c_i + c_j| + 1/2γ)

With ν binary digits y·g is the number of digits in which i and j differ. So log₂ d digits solve all
tasks (g₂*) and log₂ k solve the frequent ones, of pairs below k, with fewer heads (g₁*). But four
heads solve all of them too, in any dimension: the source's theorem, that g₁* is the optimum of a
small model as λ → 0, is false. What g₁* has is a small norm: it is the best of the three for λ in
an interval, which `preferred_penalties` gives.

In a prompt of M examples, 2γφ is replaced by the mean of M noisy signs, and heads see of the noise
what lies in the span of their diagonals: `noise_projection`, of rank ν + 1. (The source's formula
has the inverse of a singular matrix, as heads come in pairs ±v; here it is the pseudo-inverse.)
As g is even in the labels of the context, flipping all of them changes nothing.

Source: shi · icl-parity · §5.5; shi · parity-optimum · Theorem 5.5.1; shi · parity-noise · Theorem
5.5.2.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from theorylab.typing import Scalar

from .linear_attention import summaries
from .prompts import Prompts

# The four patterns of a pair, in the order of their probabilities ¼ + γ, ¼, ¼, ¼ − γ.
PATTERNS = ((1, 1), (1, -1), (-1, 1), (-1, -1))


class ParityHeads(NamedTuple):
    """Outputs a and diagonals v of the heads.

    Example:
        >>> heads = ParityHeads(outputs=jnp.array([1.0, -1.0]), diagonals=jnp.ones((2, 8)))
        >>> float(squared_norm(heads))
        16.0
    """

    outputs: Float[Array, " m"]
    diagonals: Float[Array, "m d"]


def binary_heads(num_digits: int, dimension: int, bias: float) -> ParityHeads:
    """2(ν + 1) heads that count the digits in which two numbers differ.

    Args:
        num_digits: ν; log₂ d for g₂*, log₂ k for g₁*.
        dimension: d.
        bias: γ in (0, ¼).

    Example:
        >>> heads = binary_heads(num_digits=3, dimension=8, bias=0.1)
        >>> heads.diagonals.shape  # 2(ν + 1) heads
        (8, 8)
    """
    _check(dimension, bias)
    if not 1 <= num_digits <= 30:
        raise ValueError(f"num_digits must be between 1 and 30, got {num_digits}.")
    digits = (np.arange(dimension)[None, :] >> np.arange(num_digits)[:, None]) & 1
    codes = (2.0 * digits - 1.0) / (4 * bias)
    whole = np.full((1, dimension), -num_digits / (4 * bias))
    half = np.concatenate([codes, whole])
    signs = np.append(-np.ones(num_digits), 1.0)
    return ParityHeads(jnp.asarray(np.tile(signs, 2)), jnp.asarray(np.concatenate([half, -half])))


def four_heads(dimension: int, bias: float) -> ParityHeads:
    """Four heads that solve all tasks with margin 1 and more, in any dimension.

    Example:
        >>> margins = parity_margins(four_heads(10, bias=0.1), all_pairs(10), bias=0.1)
        >>> round(float(margins.min()), 6)
        1.0
    """
    _check(dimension, bias)
    line = (np.arange(dimension) - (dimension - 1) / 2) / (2 * bias)
    most = np.abs(line[-1] + line[-2])  # the two largest
    whole = np.full(dimension, 0.5 * (most + 1 / (2 * bias)))
    diagonals = np.stack([line, -line, whole, -whole])
    return ParityHeads(jnp.array([-1.0, -1.0, 1.0, 1.0]), jnp.asarray(diagonals))


def parity_outputs(heads: ParityHeads, prompts: Prompts) -> Float[Array, " b"]:
    """The output g of every prompt, in the coordinates φ.

    Example:
        >>> prompts = Prompts(jnp.ones((1, 2, 4)), jnp.ones((1, 2)), jnp.ones((1, 4)), jnp.ones(1))
        >>> round(float(parity_outputs(four_heads(4, bias=0.1), prompts)[0]), 3)
        30.0
    """
    read = summaries(prompts) * prompts.query
    return jax.nn.relu(read @ heads.diagonals.T) @ heads.outputs


def all_pairs(dimension: int) -> Int[np.ndarray, "t 2"]:
    """All i < j; the order of a pair does not matter.

    Example:
        >>> all_pairs(3).tolist()
        [[0, 1], [0, 2], [1, 2]]
    """
    return np.stack(np.triu_indices(dimension, 1), axis=1)


def parity_margins(
    heads: ParityHeads, pairs: Int[Array | np.ndarray, "t 2"], bias: Scalar
) -> Float[Array, "t 4"]:
    """y·g on prompts without end, for every pair and pattern.

    Example:
        >>> margins = parity_margins(binary_heads(2, 4, bias=0.1), all_pairs(4), bias=0.1)
        >>> margins[:, 0].round(6).tolist(), differing_digits(all_pairs(4)).tolist()
        ([1.0, 1.0, 2.0, 2.0, 1.0, 1.0], [1, 1, 2, 2, 1, 1])
    """
    patterns = jnp.array(PATTERNS, float)
    diagonals = heads.diagonals[:, jnp.asarray(pairs)]  # (m, t, 2)
    read = jnp.einsum("mti,pi->mtp", diagonals, patterns)
    g = jnp.einsum("m,mtp->tp", heads.outputs, jax.nn.relu(2 * bias * read))
    return g * patterns.prod(axis=1)[None, :]


def differing_digits(pairs: Int[np.ndarray, "t 2"]) -> Int[np.ndarray, " t"]:
    """Hamming distances of the binary codes of i and j.

    Example:
        >>> differing_digits(np.array([[0, 3], [1, 3]])).tolist()
        [2, 1]
    """
    return np.bitwise_count(pairs[:, 0] ^ pairs[:, 1]).astype(int)


def task_law(
    pairs: Int[np.ndarray, "t 2"], num_frequent: int, rare: float
) -> Float[np.ndarray, " t"]:
    """Probabilities of all pairs: 1 − p_T for those below k together, p_T for the others.

    Example:
        >>> task_law(all_pairs(3), num_frequent=2, rare=0.1).round(3).tolist()
        [0.9, 0.05, 0.05]
    """
    frequent = (pairs < num_frequent).all(axis=1)
    others = max(int((~frequent).sum()), 1)
    return np.where(frequent, (1 - rare) / frequent.sum(), rare / others)


def parity_loss(
    heads: ParityHeads,
    pairs: Int[Array | np.ndarray, "t 2"],
    law: Float[Array | np.ndarray, " t"],
    bias: Scalar,
) -> Float[Array, ""]:
    """The hinge loss on prompts without end, over tasks and patterns.

    Example:
        >>> law = task_law(all_pairs(4), num_frequent=2, rare=0.1)
        >>> round(float(parity_loss(four_heads(4, bias=0.1), all_pairs(4), law, bias=0.1)), 6)
        0.0
    """
    hinge = jax.nn.relu(1 - parity_margins(heads, pairs, bias))
    chances = 0.25 + bias * jnp.array([1.0, 0.0, 0.0, -1.0])
    return jnp.asarray(law) @ hinge @ chances


def squared_norm(heads: ParityHeads) -> Float[Array, ""]:
    """Σ_h ‖W⁽ʰ⁾‖²_F, what λ multiplies.

    Example:
        >>> round(float(squared_norm(four_heads(4, bias=0.1))), 3)
        700.0
    """
    return (heads.diagonals**2).sum()


def preferred_penalties(losses: list[float], norms: list[float]) -> tuple[float, float]:
    """The λ between which the first network has a smaller loss + λ·norm than all others.

    Networks are lines in λ: those of larger norm lose above a λ, those of smaller norm below one.

    Example:
        >>> preferred_penalties(losses=[0.5, 0.0, 1.0], norms=[1.0, 3.0, 0.0])
        (0.25, 0.5)
    """
    low, high = 0.0, float("inf")
    for loss, norm in zip(losses[1:], norms[1:], strict=True):
        crossing = (losses[0] - loss) / (norm - norms[0])
        low, high = (max(low, crossing), high) if norm > norms[0] else (low, min(high, crossing))
    return low, high


def rare_limit(dimension: int, bias: float) -> float:
    """The p_T below which the source's theorem is stated.

    Example:
        >>> round(rare_limit(dimension=8, bias=0.1), 4)
        0.0151
    """
    _check(dimension, bias)
    least = 0.25 - bias
    return least / (dimension * (dimension - 1) / 2 * (0.25 + bias) + least)


def noise_projection(heads: ParityHeads) -> Float[Array, "d d"]:
    """P = ZZ⁺, onto the span of the diagonals: what heads see of a vector of noise.

    Example:
        >>> projection = noise_projection(binary_heads(num_digits=2, dimension=8, bias=0.1))
        >>> round(float(jnp.trace(projection)), 6)  # ν + 1
        3.0
    """
    return heads.diagonals.T @ jnp.linalg.pinv(heads.diagonals.T, rtol=1e-6)


def _check(dimension: int, bias: float) -> None:
    if not 2 <= dimension <= 100000:
        raise ValueError(f"dimension must be between 2 and 100000, got {dimension}.")
    if not 0 < bias < 0.25:
        raise ValueError(f"bias must be between 0 and 1/4, got {bias}.")
