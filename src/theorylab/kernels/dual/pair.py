"""A Gaussian pair (u, v) by its angle: what closed forms of duals have in common.

    E |u||v| = (2/π) (√(q₁q₂) √(1−ρ²) + c arcsin ρ),   ρ = c/√(q₁q₂)
    E sign u sign v = (2/π) arcsin ρ

The arcsine is a polynomial P, to rounding: XLA's own costs a call for every entry on a CPU.

    |ρ| ≤ ½    arcsin ρ = ρ + ρ³ P(ρ²)
    |ρ| > ½    arcsin|ρ| = π/2 − 2 arcsin √y,   y = (1−|ρ|)/2 < ¼,   √(1−ρ²) = 2√y √(1−y)

Source: golikov · ntk-dual · 2.4.3.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Scalar

# (arcsin √y/√y − 1)/y on [0, ¼], interpolated at Chebyshev's points: y P errs by 4e-18 and 1e-9.
_DOUBLE = (
    0.16666666666666669,
    0.07499999999998433,
    0.04464285714635543,
    0.030381944138531247,
    0.02237217294214989,
    0.017352392720869973,
    0.013971212973552933,
    0.011479177415184906,
    0.01032281435018578,
    0.005457506718640358,
    0.01740087944269402,
    -0.014851887071247204,
    0.028757851367421566,
)
_SINGLE = (
    0.16666666337430908,
    0.07500094543497424,
    0.04459940152851218,
    0.03110066273549457,
    0.017149238357677253,
    0.03369084720283012,
)


class Dual(NamedTuple):
    """What becomes of a Gaussian pair: E σ(u)σ(v) and E σ′(u)σ′(v).

    Example: what `dual` gives, for ReLU of a pair that is one number twice.
        >>> relu = Dual(value=jnp.array(0.5), derivative=jnp.array(0.5))
        >>> float(relu.value), float(relu.derivative)
        (0.5, 0.5)
    """

    value: Float[Array, "*pairs"]
    derivative: Float[Array, "*pairs"]


class Folded(NamedTuple):
    """A Gaussian pair folded at 0.

    Example: two independent standard Gaussians have E |u||v| = 2/π.
        >>> pair = folded(jnp.array(1.0), jnp.array(1.0), jnp.array(0.0))
        >>> round(float(pair.absolute), 4), float(pair.sign)
        (0.6366, 0.0)
    """

    absolute: Float[Array, "*pairs"]  # E |u||v|
    sign: Float[Array, "*pairs"]  # E sign u sign v


def polynomial(coefficients: tuple[Scalar, ...], x: Array) -> Array:
    """Σₖ aₖ xᵏ (Horner); the sum of no terms is 0.

    Example:
        >>> float(polynomial((1.0, 2.0, 3.0), jnp.array(2.0)))  # 1 + 2·2 + 3·4
        17.0
    """
    value = jnp.zeros_like(x)
    for index, coefficient in enumerate(reversed(coefficients)):
        value = value * x + coefficient if index else value + coefficient
    return value


@jax.custom_jvp
def angle(sine: Float[Array, "*pairs"]) -> tuple[Float[Array, "*pairs"], Float[Array, "*pairs"]]:
    """The angle arcsin s and its cosine √(1 − s²); from |s| = 1 on, ±π/2 and 0 with derivative 0.

    Equal inputs have ρ = 1 up to a few roundings, of which the cosine would make their root: what
    is within 8 roundings of ±1 counts as ±1.

    Example:
        >>> arcsine, cosine = angle(jnp.array(0.5))
        >>> round(float(arcsine), 5) == round(math.pi / 6, 5), round(float(cosine), 5)
        (True, 0.86603)
    """
    size = jnp.abs(sine)
    large = size > 0.5
    near = (1 - size) / 2
    near = jnp.where(near > 4 * jnp.finfo(sine.dtype).eps, near, 0.0)
    root = jnp.sqrt(near)
    square, chord = jnp.where(large, near, size * size), jnp.where(large, root, size)
    series = _DOUBLE if sine.dtype == jnp.float64 else _SINGLE
    arcsine = chord + chord * square * polynomial(series, square)
    arcsine = jnp.where(large, math.pi / 2 - 2 * arcsine, arcsine)
    cosine = jnp.sqrt(1 - square) * jnp.where(large, 2 * root, 1.0)
    return jnp.where(sine < 0, -arcsine, arcsine), cosine


@angle.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple:
    (sine,), (change,) = primals, tangents
    arcsine, cosine = angle(sine)
    slope = change * inverse(cosine)
    return (arcsine, cosine), (slope, -sine * slope)


@jax.custom_jvp
def folded(q1: Array, q2: Array, c: Array) -> Folded:
    """E |u||v| and E sign u sign v; 0 where a variance is 0.

    Example: E u² = 4 of a pair that is one number twice.
        >>> pair = folded(jnp.array(4.0), jnp.array(4.0), jnp.array(4.0))
        >>> round(float(pair.absolute), 5), round(float(pair.sign), 5)
        (4.0, 1.0)
    """
    arcsine, width = _arcsine_and_width(q1, q2, c)
    return Folded((2 / math.pi) * (width + c * arcsine), (2 / math.pi) * arcsine)


@folded.defjvp
def _(primals: tuple[Array, Array, Array], tangents: tuple[Array, Array, Array]) -> tuple:
    """∂E|u||v|/∂c = E sign u sign v (Price), ∂E|u||v|/∂q₁ = √(q₁q₂ − c²)/πq₁: nothing cancels."""
    (q1, q2, c), (change1, change2, change) = primals, tangents
    value = folded(q1, q2, c)
    _, width = _arcsine_and_width(q1, q2, c)
    relative = inverse(q1) * change1 + inverse(q2) * change2
    absolute = value.sign * change + width / math.pi * relative
    sign = (2 / math.pi) * inverse(width) * (change - c / 2 * relative)
    return value, Folded(absolute, sign)


def _arcsine_and_width(q1: Array, q2: Array, c: Array) -> tuple[Array, Array]:
    """The angle arcsin ρ and √(q₁q₂ − c²)."""
    root1, root2 = _inverse_root(q1), _inverse_root(q2)
    arcsine, cosine = angle(c * (root1 * root2))
    return arcsine, (q1 * root1) * (q2 * root2) * cosine


def inverse(x: Array) -> Array:
    """1/x, and 0 with derivative 0 where x ≤ 0.

    Example:
        >>> inverse(jnp.array([4.0, 0.0, -1.0])).tolist()
        [0.25, 0.0, 0.0]
    """
    positive = x > 0
    return jnp.where(positive, 1 / jnp.where(positive, x, 1.0), 0.0)


def _inverse_root(x: Array) -> Array:
    """1/√x, and 0 with derivative 0 where x ≤ 0."""
    positive = x > 0
    return jnp.where(positive, 1 / jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def determinant(scale: Scalar, q1: Array, q2: Array, c: Array) -> Array:
    """det(I + scale · Σ) of Σ = [[q₁, c], [c, q₂]]; at least 1.

    Example:
        >>> float(determinant(2.0, jnp.array(1.0), jnp.array(1.0), jnp.array(0.5)))  # 3·3 − 1
        8.0
    """
    sums = 1 + scale * (q1 + q2) + scale**2 * (q1 * q2 - c**2)
    return jnp.where(sums < 1, 1.0, sums)  # by rounding of large variances only
