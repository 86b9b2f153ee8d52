"""The trace of an operator that is known only by what it does to a vector, with an interval.

    Hutchinson    tr A = E zᵀAz                                z random signs
    Hutch++       tr A = tr QᵀAQ + E zᵀ(1 − QQᵀ)A(1 − QQᵀ)z    Q exact, z random signs outside it

Q spans A applied to a few random vectors, so that it holds most of what is large in A, and little
is left to chance. Given Q, what the probes z say is a mean of independent numbers, and Student's
interval bounds it. (Where Q leaves a few directions that outweigh all others, those numbers are
skew, and the interval covers less often than it says: take a greater rank then.)

Source: Meyer, Musco, Musco & Woodruff (2021), Hutch++: Optimal stochastic trace estimation.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from scipy import special

from theorylab.typing import RandomKey

from .spectra import Operator, Vector, flattened, template


class TraceEstimate(NamedTuple):
    """An unbiased estimate, its standard error, and the interval that covers the trace."""

    value: Float[Array, ""]
    error: Float[Array, ""]
    low: Float[Array, ""]
    high: Float[Array, ""]


def trace(
    matvec: Operator,
    like: Vector | int,
    key: RandomKey,
    num_probes: int = 20,
    rank: int = 10,
    confidence: float = 0.95,
) -> TraceEstimate:
    """Estimate tr A from 2 rank + num_probes products; it can be jitted, mapped and scanned.

    Args:
        matvec: The operator A, symmetric.
        like: A vector that A can act on, for its shape; or the size of a flat one.
        key: The randomness of directions and probes.
        num_probes: How many random vectors z, at least 2.
        rank: How many directions Q has: 0 is Hutchinson's estimate; all are exact.
        confidence: The probability with which the interval covers the trace.

    Example:
        >>> found = trace(lambda v: 2.0 * v, 50, jax.random.key(0), rank=0)
        >>> float(found.value.round(3))
        100.0
    """
    if num_probes < 2 or rank < 0:
        raise ValueError(
            f"num_probes must be at least 2 and rank at least 0, got {num_probes} and {rank}."
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}.")
    flat, unravel = template(like)
    apply = flattened(matvec, unravel)
    rank = min(rank, flat.size)
    direction_key, probe_key = jax.random.split(key)
    basis = jnp.zeros((0, flat.size), flat.dtype)
    if rank:
        directions = jax.random.normal(direction_key, (rank * flat.size,), flat.dtype)
        images = jax.lax.map(apply, directions.reshape(rank, flat.size))
        basis = jnp.linalg.qr(images.T)[0].T
    exact = _quadratic(apply, basis).sum()
    probes = jax.random.rademacher(probe_key, (num_probes * flat.size,), flat.dtype)
    probes = probes.reshape(num_probes, flat.size)
    samples = _quadratic(apply, probes - (probes @ basis.T) @ basis)
    error = jnp.std(samples, ddof=1) / math.sqrt(num_probes)
    value = exact + jnp.mean(samples)
    margin = float(special.stdtrit(num_probes - 1, (1 + confidence) / 2)) * error
    return TraceEstimate(value, error, value - margin, value + margin)


def _quadratic(apply, vectors: Float[Array, "m p"]) -> Float[Array, " m"]:
    """zᵀAz of each."""
    return jax.lax.map(lambda z: z @ apply(z), vectors)
