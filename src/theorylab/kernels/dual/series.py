"""The dual of any function, by its series of normalised Hermite polynomials hₖ.

    E σ(u)σ(v) = Σₖ sₖ(q₁) sₖ(q₂) ρᵏ,   sₖ(q) = E σ(√q z) hₖ(z),   z ~ N(0, 1)   (Mehler)

with the coefficients sₖ by quadrature on both sides of 0, so that a kink or a jump of σ at 0 does
no harm: n² sums instead of n² integrals.

Source: golikov · ntk-dual · 2.4.3.
"""

import math
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.models.activations import Elementwise
from theorylab.models.scales import with_arrays, without_arrays

from .pair import Dual

NUM_TERMS = 128  # for tanh at variance 1: 1e-12 at any correlation; see `quadrature_error`


def quadrature_dual(
    function: Elementwise,
    variance1: Float[Array, "*#pairs"],
    variance2: Float[Array, "*#pairs"],
    covariance: Float[Array, "*#pairs"],
    num_terms: int = NUM_TERMS,
) -> Dual:
    """E σ(u)σ(v) and E σ′(u)σ′(v) of any elementwise function σ, by its Hermite series.

    The error is at most √(T(q₁)T(q₂)) |ρ|^`num_terms`, with T of `quadrature_error`.

    Args:
        function: σ, differentiable almost everywhere.
        variance1: q₁, the variance of u; broadcast against the others.
        variance2: q₂, the variance of v.
        covariance: c, the covariance of u and v.
        num_terms: The number of terms of the series.

    Example: E u²v² = 1 + 2ρ² of a pair with variances 1.
        >>> one = jnp.array(1.0)
        >>> squares = quadrature_dual(jnp.square, one, one, 0.5 * one, num_terms=4)
        >>> round(float(squares.value), 4), round(float(squares.derivative), 4)
        (1.5, 2.0)
    """
    frame, parameters = without_arrays(function)
    return _quadrature(frame, parameters, variance1, variance2, covariance, num_terms)


@partial(jax.jit, static_argnames=("frame", "num_terms"))
def _quadrature(
    frame: Elementwise,
    parameters: tuple[Array, ...],
    variance1: Array,
    variance2: Array,
    covariance: Array,
    num_terms: int,
) -> Dual:
    function = with_arrays(frame, parameters)
    scale = _safe_sqrt(variance1 * variance2)
    correlation = covariance / jnp.where(scale > 0, scale, 1.0)

    def series(sigma: Elementwise) -> Array:
        first = _coefficients(sigma, variance1, num_terms)
        second = _coefficients(sigma, variance2, num_terms)

        def horner(total: Array, pair: tuple[Array, Array]) -> tuple[Array, None]:
            return total * correlation + pair[0] * pair[1], None

        shape = jnp.broadcast_shapes(first.shape[1:], second.shape[1:], correlation.shape)
        start = jnp.zeros(shape, correlation.dtype)
        return jax.lax.scan(horner, start, (first, second), reverse=True)[0]

    return Dual(series(function), series(_slope(function)))


@partial(jax.jit, static_argnames=("function", "num_terms"))
def quadrature_error(
    function: Elementwise, variance: Float[Array, "*pairs"], num_terms: int = NUM_TERMS
) -> Dual:
    """T(q) = E σ(√q z)² − Σₖ sₖ(q)², and the same of σ′: what the series leaves out, by Parseval.

    √(T(q₁)T(q₂)) |ρ|^`num_terms` bounds the error of `quadrature_dual` (Cauchy–Schwarz), up to the
    error of the one-dimensional rule itself: rounding, if σ is smooth on both sides of 0.

    Example: z² ends with the polynomial of degree 2.
        >>> left = [quadrature_error(jnp.square, jnp.array(1.0), num_terms=n).value for n in (2, 3)]
        >>> [round(abs(float(value)), 4) for value in left]
        [2.0, 0.0]
    """

    def tail(sigma: Elementwise) -> Array:
        values, table = _at_nodes(sigma, variance, num_terms)
        mean_square = values**2 @ table[:, 0]
        kept = jnp.sum(_coefficients(sigma, variance, num_terms) ** 2, axis=0)
        return jnp.maximum(mean_square - kept, 0.0)

    return Dual(tail(function), tail(_slope(function)))


@lru_cache
def _rule(num_terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes z, and the table of w hₖ(z), with √(k+1) hₖ₊₁ = z hₖ − √k hₖ₋₁ and w the weights.

    Gauss–Legendre in panels on either side of 0, some nodes to every zero of the last polynomial;
    beyond 16, √density bounds what is left of hₖ(z) density(z) by 1e-28.
    """
    if num_terms < 1:
        raise ValueError(f"num_terms must be at least 1, got {num_terms}.")
    cuts = np.linspace(0, 16, max(12, math.ceil(1.5 * math.sqrt(num_terms))) + 1)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    length = np.diff(cuts)[:, None]
    half = (cuts[:-1, None] + length * (1 + nodes) / 2).ravel()
    density = np.exp(-(half**2) / 2) / math.sqrt(2 * math.pi)
    density = density * (length / 2 * weights).ravel()
    nodes, weights = np.concatenate([-half, half]), np.concatenate([density, density])
    columns = [np.zeros_like(nodes), weights]
    for k in range(num_terms - 1):
        columns.append((nodes * columns[-1] - math.sqrt(k) * columns[-2]) / math.sqrt(k + 1))
    return nodes, np.stack(columns[1:], axis=1)


def _at_nodes(
    sigma: Elementwise, variance: Float[Array, "*pairs"], num_terms: int
) -> tuple[Float[Array, "*pairs m"], Float[Array, "m k"]]:
    """σ(√q z) at every node z, and the table of w hₖ(z)."""
    nodes, table = (jnp.asarray(array, variance.dtype) for array in _rule(num_terms))
    return sigma(jnp.multiply.outer(_safe_sqrt(variance), nodes)), table


def _coefficients(
    sigma: Elementwise, variance: Float[Array, "*pairs"], num_terms: int
) -> Float[Array, "k ..."]:
    """sₖ(q) = E σ(√q z) hₖ(z), for k < num_terms."""
    values, table = _at_nodes(sigma, variance, num_terms)
    return jnp.moveaxis(values @ table, -1, 0)


def _slope(function: Elementwise) -> Elementwise:
    """σ′, element by element."""
    return lambda z: jax.jvp(function, (z,), (jnp.ones_like(z),))[1]


def _safe_sqrt(square: Array) -> Array:
    """√s, and 0 with derivative 0 where s ≤ 0."""
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)
