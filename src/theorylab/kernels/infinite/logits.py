"""Random logits of attention, drawn: the mean of K_heads and Θ_heads, as `attention` has them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models.attention import attention_weights
from theorylab.models.mixing import Mechanism

from .state import Draws

Matrix = Float[Array, "... s t"]
Joint = Float[Array, "... u u"]  # of the positions of x and x′ together


class Moments(NamedTuple):
    """What is known of queries, keys and values at pairs of positions.

    Args:
        query: K_Q.
        key: K_K.
        value: K_V.
        tangents: Θ_Q, Θ_K and Θ_V; None: not asked for.
    """

    query: Matrix
    key: Matrix
    value: Matrix
    tangents: tuple[Matrix, Matrix, Matrix] | None


def mean_over_logits(
    mechanism: Mechanism,
    moments: Moments,
    joint: Joint,
    missing: tuple[Array | None, Array | None],
    draws: Draws,
) -> tuple[Matrix, ...]:
    """The mean of K_heads, and of Θ_heads if asked for, over draws of the logits.

    Args:
        mechanism: φ, by its name.
        moments: Of queries, keys and values.
        joint: σ_Q σ_K K between all positions of x and x′, or of x with itself.
        missing: Which keys of x and of x′ are missing.
        draws: How many logits are drawn, from which key.

    Example: with a single key, its weight is 1.
        >>> one = jnp.ones((1, 1, 1))
        >>> draws = Draws(jax.random.key(0), 8)
        >>> moments = Moments(one, one, 3 * one, None)
        >>> mean_over_logits("softmax", moments, one, (None, None), draws)[0].tolist()
        [[[3.0]]]
    """
    root, size = _root(joint), moments.value.shape[-1]

    def one(key: Array) -> tuple[Matrix, ...]:
        # The same normal numbers for every pair of inputs: fewer of them, and smoother kernels.
        normal = jax.random.normal(key, root.shape[-2:], root.dtype)
        logits = root @ jnp.broadcast_to(normal, root.shape) @ jnp.swapaxes(root, -1, -2)
        logits1, logits2 = logits[..., :size, :size], logits[..., -size:, -size:]
        first = attention_weights(logits1, missing[0], mechanism)
        second = attention_weights(logits2, missing[1], mechanism)
        if mechanism == "softmax":
            return _softmax_heads(moments, first, second)
        slopes = _slopes(mechanism, logits1, missing[0]), _slopes(mechanism, logits2, missing[1])
        return _elementwise_heads(moments, (first, second), slopes)

    def add(sums: tuple[Matrix, ...], key: Array) -> tuple[tuple[Matrix, ...], None]:
        return tuple(map(jnp.add, sums, one(key))), None

    number = 1 if moments.tangents is None else 2
    zeros = tuple(jnp.zeros_like(moments.value) for _ in range(number))
    sums, _ = jax.lax.scan(add, zeros, jax.random.split(draws.key, draws.count))
    return tuple(each / draws.count for each in sums)


def _softmax_heads(moments: Moments, first: Matrix, second: Matrix) -> tuple[Matrix, ...]:
    """K_heads and Θ_heads of given P and P′; products over u and u′ one after the other."""
    query, key, value, tangents = moments
    turned = jnp.swapaxes(second, -1, -2)
    right = first @ value  # (PK_V)(s, u′)
    left = value @ turned  # (K_V P′ᵀ)(u, s′)
    mean = right @ turned
    if tangents is None:
        return (mean,)

    def centred(weights: Matrix) -> Matrix:
        """Σ_uu′ P_su P′_s′u′ [...] weights(u, u′)."""
        return (
            first @ (weights * value) @ turned
            - ((first @ weights) * right) @ turned
            - first @ (left * (weights @ turned))
            + mean * (first @ weights @ turned)
        )

    of_values = first @ tangents[2] @ turned
    return mean, of_values + tangents[0] * centred(key) + query * centred(tangents[1])


def _elementwise_heads(
    moments: Moments, weights: tuple[Matrix, Matrix], slopes: tuple[Matrix, Matrix]
) -> tuple[Matrix, ...]:
    """The same of φ and φ′ of every logit of x, and of x′."""
    query, key, value, tangents = moments

    def between(pair: tuple[Matrix, Matrix], kernel: Matrix) -> Matrix:
        return pair[0] @ kernel @ jnp.swapaxes(pair[1], -1, -2)

    mean = between(weights, value)
    if tangents is None:
        return (mean,)
    moved = tangents[0] * between(slopes, key * value)
    moved = moved + query * between(slopes, tangents[1] * value)
    return mean, between(weights, tangents[2]) + moved


def _slopes(mechanism: Mechanism, logits: Matrix, missing: Array | None) -> Matrix:
    """φ′ of every logit, 0 where a key is missing."""
    slopes = {
        "identity": jnp.ones_like,
        "abs": jnp.sign,
        "relu": lambda logits: (logits > 0).astype(logits.dtype),
    }[mechanism](logits)
    return slopes if missing is None else jnp.where(missing, 0.0, slopes)


@jax.custom_jvp
def _root(covariance: Joint) -> Joint:
    """L with LLᵀ = covariance, which may be singular: x may be with itself."""
    return _factors(covariance)[0]


@_root.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """The change V (VᵀdC V)ᵢⱼ/(rᵢ + rⱼ), with roots r of the eigenvalues: dL Lᵀ + L dLᵀ = dC.

    Eigenvectors have no derivative where eigenvalues are equal. They need none: any L with LLᵀ = C
    gives logits of the same law.
    """
    (covariance,), (change,) = primals, tangents
    root, roots, vectors = _factors(covariance)
    inside = jnp.swapaxes(vectors, -1, -2) @ change @ vectors
    sums = roots[..., :, None] + roots[..., None, :]
    positive = sums > jnp.sqrt(jnp.finfo(root.dtype).eps) * roots[..., -1:, None]
    return root, vectors @ jnp.where(positive, inside / jnp.where(positive, sums, 1.0), 0.0)


def _factors(covariance: Joint) -> tuple[Joint, Array, Joint]:
    values, vectors = jnp.linalg.eigh(covariance)
    roots = jnp.sqrt(jnp.maximum(values, 0.0))
    return vectors * roots[..., None, :], roots, vectors
