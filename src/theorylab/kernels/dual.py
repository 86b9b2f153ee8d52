"""Dual activations: what a nonlinearity makes of a Gaussian pair.

    (u, v) ~ N(0, [[q₁, c], [c, q₂]])   ─►   E σ(u)σ(v)   and   E σ′(u)σ′(v)

In terms of the correlation ρ = c/√(q₁q₂):

    σ(u) = au + b|u|    a²c + (2b²/π) (√(q₁q₂) √(1−ρ²) + c arcsin ρ),   a² + (2b²/π) arcsin ρ
    erf                 (2/π) arcsin(2c/√((1+2q₁)(1+2q₂))),   (4/π) / √((1+2q₁)(1+2q₂) − 4c²)
    sin                 e^(−(q₁+q₂)/2) sinh c,   e^(−(q₁+q₂)/2) cosh c;   exchanged for cos
    relu²               (3c√(q₁q₂)√(1−ρ²) + (q₁q₂ + 2c²)(π/2 + arcsin ρ)) / 2π,   4 E relu(u)relu(v)

relu is a = b = ½. Every other σ is expanded in normalised Hermite polynomials hₖ,

    E σ(u)σ(v) = Σₖ sₖ(q₁) sₖ(q₂) ρᵏ,   sₖ(q) = E σ(√q z) hₖ(z),   z ~ N(0, 1)   (Mehler),

with the coefficients sₖ by Gauss–Hermite quadrature: n² terms of a sum instead of n² integrals.

Values and derivatives are finite everywhere, at ρ = ±1 and at variance 0 too: where the derivative
in a variance or covariance does not exist, it is 0.

Source: golikov · ntk-dual · 2.4.3.
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.models import ACTIVATIONS, Elementwise
from theorylab.numerics import gauss_hermite

NUM_TERMS = 128  # for tanh at variance 1: 1e-12 at any correlation; see `quadrature_error`


class Dual(NamedTuple):
    """What becomes of a Gaussian pair: E σ(u)σ(v) and E σ′(u)σ′(v)."""

    value: Float[Array, "*pairs"]
    derivative: Float[Array, "*pairs"]


@partial(jax.jit, static_argnames="activation")
def dual(
    activation: str,
    variance1: Float[Array, "*#pairs"],
    variance2: Float[Array, "*#pairs"],
    covariance: Float[Array, "*#pairs"],
) -> Dual:
    """E σ(u)σ(v) and E σ′(u)σ′(v) of a named activation, in closed form where there is one.

    Args:
        activation: The name of σ, one of `theorylab.models.ACTIVATIONS`.
        variance1: q₁, the variance of u; broadcast against the others.
        variance2: q₂, the variance of v.
        covariance: c, the covariance of u and v; |ρ| > 1 by rounding counts as 1.

    Example:
        >>> one = jnp.ones(())
        >>> [float(number) for number in dual("relu", one, one, one)]
        [0.5, 0.5]
    """
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"activation must be one of {', '.join(ACTIVATIONS)}; got {activation!r}. "
            "For any other function there is quadrature_dual(function, ...)."
        )
    if activation in _CLOSED_FORMS:
        return _CLOSED_FORMS[activation](variance1, variance2, covariance)
    return quadrature_dual(ACTIVATIONS[activation], variance1, variance2, covariance)


@partial(jax.jit, static_argnames=("function", "num_terms"))
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
    """
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
    error of the one-dimensional rule itself, which for smooth σ is far smaller.
    """

    def tail(sigma: Elementwise) -> Array:
        values, table = _at_nodes(sigma, variance, num_terms)
        mean_square = values**2 @ table[:, 0]
        kept = jnp.sum(_coefficients(sigma, variance, num_terms) ** 2, axis=0)
        return jnp.maximum(mean_square - kept, 0.0)

    return Dual(tail(function), tail(_slope(function)))


@lru_cache
def _rule(num_terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes z, and the table of w hₖ(z), with √(k+1) hₖ₊₁ = z hₖ − √k hₖ₋₁ and w the weights."""
    if num_terms < 1:
        raise ValueError(f"num_terms must be at least 1, got {num_terms}.")
    # Twice as many nodes as terms: coefficient k then meets nothing below coefficient 4K − k.
    with jax.ensure_compile_time_eval():
        nodes, weights = (np.asarray(array) for array in gauss_hermite(max(256, 2 * num_terms)))
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


def _safe_arcsin(sine: Array) -> tuple[Array, Array]:
    """The angle arcsin s and √(1 − s²); from |s| = 1 on, ±π/2 and 0 with derivative 0."""
    inside = jnp.abs(sine) < 1
    within = jnp.where(inside, sine, 0.0)
    arcsine = jnp.where(inside, jnp.arcsin(within), jnp.sign(sine) * (math.pi / 2))
    return arcsine, jnp.where(inside, jnp.sqrt((1 - within) * (1 + within)), 0.0)


class _Pair(NamedTuple):
    """A Gaussian pair by its scale and angle."""

    scale: Array  # √(q₁q₂)
    arcsine: Array  # arcsin ρ
    cosine: Array  # √(1 − ρ²) = cos arcsin ρ


def _pair(variance1: Array, variance2: Array, covariance: Array) -> _Pair:
    scale = _safe_sqrt(variance1 * variance2)
    ratio = covariance / jnp.where(scale > 0, scale, 1.0)
    # Equal inputs have ρ = 1 up to a few roundings, and arcsin would make 1e-8 of 1e-16.
    inside = 1 - jnp.abs(ratio) > 8 * jnp.finfo(ratio.dtype).eps
    return _Pair(scale, *_safe_arcsin(jnp.where(inside, ratio, jnp.sign(ratio))))


ClosedForm = Callable[[Array, Array, Array], Dual]


def _bent_line(slope: float, fold: float) -> ClosedForm:
    """σ(u) = slope · u + fold · |u|: the identity, relu, leaky relu and the absolute value."""

    def closed_form(q1: Array, q2: Array, c: Array) -> Dual:
        pair = _pair(q1, q2, c)
        absolute = 2 / math.pi * (pair.scale * pair.cosine + c * pair.arcsine)
        sign = 2 / math.pi * pair.arcsine
        return Dual(slope**2 * c + fold**2 * absolute, slope**2 + fold**2 * sign)

    return closed_form


def _erf(q1: Array, q2: Array, c: Array) -> Dual:
    square = (1 + 2 * q1) * (1 + 2 * q2)
    arcsine, _ = _safe_arcsin(2 * c / jnp.sqrt(square))
    return Dual(2 / math.pi * arcsine, 4 / math.pi / jnp.sqrt(square - 4 * c**2))


def _sine(q1: Array, q2: Array, c: Array) -> Dual:
    # exp of the sum: the two factors alone would overflow and underflow for large variances.
    apart, together = jnp.exp(c - (q1 + q2) / 2), jnp.exp(-c - (q1 + q2) / 2)
    return Dual((apart - together) / 2, (apart + together) / 2)


def _cosine(q1: Array, q2: Array, c: Array) -> Dual:
    sine = _sine(q1, q2, c)
    return Dual(value=sine.derivative, derivative=sine.value)


def _relu_squared(q1: Array, q2: Array, c: Array) -> Dual:
    pair = _pair(q1, q2, c)
    straight = 3 * c * pair.scale * pair.cosine
    turned = (q1 * q2 + 2 * c**2) * (math.pi / 2 + pair.arcsine)
    relu = _CLOSED_FORMS["relu"](q1, q2, c)
    return Dual((straight + turned) / (2 * math.pi), 4 * relu.value)


_CLOSED_FORMS: dict[str, ClosedForm] = {
    "identity": _bent_line(1.0, 0.0),
    "relu": _bent_line(0.5, 0.5),
    "leaky_relu": _bent_line(0.505, 0.495),  # slope 0.01 on the left
    "abs": _bent_line(0.0, 1.0),
    "erf": _erf,
    "sine": _sine,
    "cosine": _cosine,
    "relu_squared": _relu_squared,
}
