"""Attention whose logits stay random at infinite width: a kernel that is an average over them.

With Q = xW_Q, K = xW_K, V = xW_V of width m, weights N(0, 1/c) and positions x (s × c), the logits
G = QKᵀ/√m of one head go to a Gaussian matrix, not to a constant,

    E G_st(x) G_s′t′(x′) = q(s, s′) q(t, t′),   q = x x′ᵀ/c,   as of G = x Z xᵀ/c, Z ~ N(0, 1).

Given the logits, a wide head is Gaussian with covariance P(x) q P(x′)ᵀ, P = softmax G; so outputs
of few heads are mixtures of Gaussians, and those of many heads a Gaussian process with the mean
kernel E P(x) q P(x′)ᵀ. Of a mixture with random variance S, and of the mean of H of them,

    excess kurtosis = 3 Var S/(E S)²   and   3 Var S/(H (E S)²).

Source: golikov · ntk-attention · 2.4.4.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import RandomKey

from .estimate import Estimate, mean_of


def random_logits(
    key: RandomKey, features: Float[Array, "n s c"], num_draws: int
) -> Float[Array, "draws n s s"]:
    """Draw the logits of infinitely wide heads, jointly for all inputs.

    Args:
        key: The source of randomness.
        features: Any x with q = x x′ᵀ, that is inputs divided by √c.
        num_draws: The number of heads.

    Example: three heads, two inputs with four positions.
        >>> random_logits(jax.random.key(0), jnp.ones((2, 4, 5)), num_draws=3).shape
        (3, 2, 4, 4)
    """
    _check(features, num_draws)
    size = features.shape[-1]
    numbers = jax.random.normal(key, (num_draws * size * size,), features.dtype)
    z = numbers.reshape(num_draws, size, size)
    return jnp.einsum("nsi,dij,ntj->dnst", features, z, features)


@partial(jax.jit, static_argnames="num_draws")
def head_kernels(
    key: RandomKey, features: Float[Array, "n s c"], num_draws: int
) -> Float[Array, "draws n s n s"]:
    """P(x) q P(x′)ᵀ of infinitely wide heads: the covariance of a head's outputs, given its logits.

    Args:
        key: The source of randomness.
        features: Any x with q = x x′ᵀ, that is inputs divided by √c.
        num_draws: The number of heads.

    Example: where all positions are equal, attention changes nothing.
        >>> kernels = head_kernels(jax.random.key(0), jnp.ones((1, 2, 1)), num_draws=3)
        >>> kernels.shape, bool(jnp.allclose(kernels, 1.0))
        ((3, 1, 2, 1, 2), True)
    """
    attention = jax.nn.softmax(random_logits(key, features, num_draws), axis=-1)
    mixed = jnp.einsum("dnst,ntc->dnsc", attention, features)
    return jnp.einsum("dnsc,dmtc->dnsmt", mixed, mixed)


def attention_nngp(key: RandomKey, features: Float[Array, "n s c"], num_draws: int) -> Estimate:
    """E P(x) q P(x′)ᵀ, (n, s, n, s): the kernel of infinitely many, infinitely wide heads.

    Args:
        key: The source of randomness.
        features: Any x with q = x x′ᵀ, that is inputs divided by √c.
        num_draws: The number of heads that are averaged.

    Example:
        >>> found = attention_nngp(jax.random.key(0), jnp.eye(2)[None], num_draws=50)
        >>> found.mean.shape, bool(found.error.max() < 0.1)
        ((1, 2, 1, 2), True)
    """
    return mean_of(head_kernels(key, features, num_draws))


def mixture_kurtosis(variances: Float[Array, "draws ..."]) -> Float[Array, "..."]:
    """3 Var S/(E S)²: the excess kurtosis of a centred Gaussian whose variance S is random.

    Args:
        variances: Independent draws of S.

    Example:
        >>> mixture_kurtosis(jnp.array([1.0, 3.0])).tolist()  # Var S = 2, E S = 2
        1.5
    """
    if variances.shape[0] < 2:
        raise ValueError(f"variances must have at least 2 draws, got {variances.shape[0]}.")
    return 3 * variances.var(axis=0, ddof=1) / variances.mean(axis=0) ** 2


def _check(features: Array, num_draws: int) -> None:
    if features.ndim != 3:
        raise ValueError(f"features must have shape (n, positions, c), got {features.shape}.")
    if num_draws < 1:
        raise ValueError(f"num_draws must be at least 1, got {num_draws}.")
