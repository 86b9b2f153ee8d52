"""Duals in closed form.

In terms of V = E |u||v| and S = E sign u sign v of `pair`, and of D(k) = det(I + kΣ):

    σ(u)              E σ(u)σ(v)                                        E σ′(u)σ′(v)
    au + b|u|         a²c + b²V                                         a² + b²S
    sign              S                                                 0 (almost everywhere)
    max(u, 0)ⁿ        A₀ = (1+S)/4,  A₁ = (c+V)/4,                      n² Aₙ₋₁
                      Aₙ₊₁ = (2n+1) c Aₙ + n² (q₁q₂ − c²) Aₙ₋₁
    polynomials       Σₖ cᵏ/k! mₖ(q₁)mₖ(q₂),  mₖ(q) = E σ⁽ᵏ⁾(√q z)       its derivative in c
    erf               (2/π) arcsin(2c/√((1+2q₁)(1+2q₂)))                (4/π)/√D(2)
    gelu              c/4 + (cα + N/√D(1))/2π,  N = q₁q₂ − κc²,         ¼ + (α + cM/√D(1))/2π,
                      α = arcsin(c/√((1+q₁)(1+q₂))),                    M = 1 − 2κ + N/D(1)
                      κ = 1 − 1/(1+q₁) − 1/(1+q₂)
    sin(u + p)        (e⁻ − cos 2p e⁺)/2,  e^∓ = exp(−(q₁+q₂∓2c)/2)     (e⁻ + cos 2p e⁺)/2
    exp(−u²)          1/√D(2)                                           4c/D(2)^(3/2)
    exp(u)            exp((q₁+q₂+2c)/2)                                 the same
    exp(−u²) sin u    exp(−T/2) sinh(t)/√D(2),  t = c/D(2),             its derivative in c
                      T = (q₁+q₂+4(q₁q₂−c²))/D(2)

relu is a = b = ½. The right column is the derivative of the left in c (Price's theorem), except for
jumps (sign, and max(u, 0)⁰), whose σ′ is taken to be 0: a kernel cannot see the jump itself.

Source: golikov · ntk-dual · 2.4.3.
"""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array

from theorylab.models.activations import Elementwise
from theorylab.models.families import (
    GELU,
    ABReLU,
    Abs,
    Cosine,
    Erf,
    Exponential,
    Gabor,
    GaussianActivation,
    Hermite,
    Identity,
    LeakyReLU,
    Monomial,
    Polynomial,
    RectifiedMonomial,
    ReLU,
    Sign,
    Sine,
)
from theorylab.typing import Scalar

from .pair import Dual, angle, determinant, folded, polynomial

ClosedForm = Callable[[Array, Array, Array], Dual]
Table = tuple[tuple[Scalar, ...], ...]


def closed_form(function: Elementwise) -> ClosedForm | None:
    """Find the dual of a member of a family; None if it has no closed form.

    Example: ReLU of a pair with variances 1 that is one number twice; tanh has no closed form.
        >>> one = jnp.ones(())
        >>> [round(float(number), 6) for number in closed_form(ReLU())(one, one, one)]
        [0.5, 0.5]
        >>> closed_form(jnp.tanh) is None
        True
    """
    match function:
        case Identity():
            return partial(_bent_line, 1.0, 1.0)
        case ReLU():
            return partial(_bent_line, 0.0, 1.0)
        case LeakyReLU(slope=slope):
            return partial(_bent_line, slope, 1.0)
        case ABReLU(left=left, right=right):
            return partial(_bent_line, left, right)
        case Abs():
            return partial(_bent_line, -1.0, 1.0)
        case Sign():
            return _sign
        case RectifiedMonomial(degree=degree):
            return partial(_rectified, degree)
        case Monomial(degree=degree):
            return partial(_series, _polynomial_table((*[0.0] * degree, 1.0)), 0.0)
        case Polynomial(coefficients=coefficients):
            return partial(_series, _polynomial_table(coefficients), 0.0)
        case Hermite(degree=degree):
            return partial(_series, _hermite_table(degree), 1.0)
    return _analytic(function)


def _analytic(function: Elementwise) -> ClosedForm | None:
    match function:
        case Erf():
            return partial(_erf, function)
        case GELU():
            return _gelu
        case Sine(a=a, b=b, c=phase):
            return partial(_sine, a, b, phase)
        case Cosine(a=a, b=b, c=phase):
            return partial(_sine, a, b, phase + math.pi / 2)
        case GaussianActivation(a=a, b=b):
            return partial(_gaussian, a, b)
        case Exponential(a=a, b=b):
            return partial(_exponential, a, b)
        case Gabor():
            return _gabor
    own = getattr(function, "dual", None)
    return own and partial(_own, own)


def _own(form: Callable[..., tuple[Array, Array]], q1: Array, q2: Array, c: Array) -> Dual:
    """The dual that an activation of the user's brings along."""
    return Dual(*jnp.broadcast_arrays(*form(q1, q2, c), q1 * q2 * c)[:2])


def _bent_line(left: Scalar, right: Scalar, q1: Array, q2: Array, c: Array) -> Dual:
    slope, fold = (right + left) / 2, (right - left) / 2
    if not isinstance(fold, jax.Array) and fold == 0:
        line = jnp.broadcast_arrays(slope**2 * c, q1, q2)[0]
        return Dual(line, jnp.full_like(line, slope**2))
    pair = folded(q1, q2, c)
    return Dual(slope**2 * c + fold**2 * pair.absolute, slope**2 + fold**2 * pair.sign)


def _sign(q1: Array, q2: Array, c: Array) -> Dual:
    sign = folded(q1, q2, c).sign
    return Dual(sign, jnp.zeros_like(sign))


def _rectified(degree: int, q1: Array, q2: Array, c: Array) -> Dual:
    pair = folded(q1, q2, c)
    before, value = (1 + pair.sign) / 4, (c + pair.absolute) / 4
    if degree == 0:
        return Dual(before, jnp.zeros_like(before))
    gap = q1 * q2 - c**2
    for n in range(1, degree):
        before, value = value, (2 * n + 1) * c * value + n**2 * gap * before
    return Dual(value, degree**2 * before)


def _series(table: Table, centre: float, q1: Array, q2: Array, c: Array) -> Dual:
    """Σₖ cᵏ mₖ(q₁)mₖ(q₂) with the polynomials mₖ in q − centre, and its derivative in c."""
    value = derivative = jnp.zeros_like(q1 * q2 * c)
    for k, coefficients in reversed(tuple(enumerate(table))):
        term = polynomial(coefficients, q1 - centre) * polynomial(coefficients, q2 - centre)
        value = value * c + term
        derivative = derivative * c + k * term if k else derivative
    return Dual(value, derivative)


def _polynomial_table(coefficients: tuple[Scalar, ...]) -> Table:
    """E σ⁽ᵏ⁾(√q z)/√k! = Σᵢ aₖ₊₂ᵢ (k+2i)!/(2ⁱ i! √k!) qⁱ, from E z²ⁱ = (2i)!/(2ⁱ i!)."""
    return tuple(
        tuple(
            coefficients[k + 2 * i]
            * (
                math.factorial(k + 2 * i)
                / (2**i * math.factorial(i) * math.sqrt(math.factorial(k)))
            )
            for i in range((len(coefficients) - k + 1) // 2)
        )
        for k in range(len(coefficients))
    )


def _hermite_table(degree: int) -> Table:
    """E h⁽ᵏ⁾(√q z)/√k! = √(n!/k!)/(2ʲ j!) (q−1)ʲ if n − k = 2j, else 0."""

    def row(k: int) -> tuple[Scalar, ...]:
        j, odd = divmod(degree - k, 2)
        if odd:
            return ()
        ratio = math.sqrt(math.factorial(degree) / math.factorial(k))
        return (*[0.0] * j, ratio / (2**j * math.factorial(j)))

    return tuple(map(row, range(degree + 1)))


def _erf(erf: Erf, q1: Array, q2: Array, c: Array) -> Dual:
    scale = 2 * erf.b**2
    arcsine, _ = angle(scale * c / (jnp.sqrt(1 + scale * q1) * jnp.sqrt(1 + scale * q2)))
    root = jnp.sqrt(determinant(scale, q1, q2, c))
    return Dual(
        erf.a**2 * (2 / math.pi) * arcsine + erf.c**2,
        (erf.a * erf.b) ** 2 * (4 / math.pi) / root,
    )


def _gelu(q1: Array, q2: Array, c: Array) -> Dual:
    arcsine, _ = angle(c / (jnp.sqrt(1 + q1) * jnp.sqrt(1 + q2)))
    det = determinant(1.0, q1, q2, c)
    root = jnp.sqrt(det)
    kappa = 1 - 1 / (1 + q1) - 1 / (1 + q2)
    numerator = q1 * q2 - kappa * c**2
    slope = c / root * (1 - 2 * kappa + numerator / det)
    return Dual(
        c / 4 + (c * arcsine + numerator / root) / (2 * math.pi),
        1 / 4 + (arcsine + slope) / (2 * math.pi),
    )


def _sine(a: Scalar, b: Scalar, phase: Scalar, q1: Array, q2: Array, c: Array) -> Dual:
    # exp of the sum: the factors alone would overflow and underflow for large variances.
    apart = jnp.exp(b**2 * (c - (q1 + q2) / 2))
    cosine = jnp.cos(2 * phase) if isinstance(phase, jax.Array) else math.cos(2 * phase)
    together = cosine * jnp.exp(-(b**2) * (c + (q1 + q2) / 2))
    return Dual(a**2 / 2 * (apart - together), (a * b) ** 2 / 2 * (apart + together))


def _gaussian(a: Scalar, b: Scalar, q1: Array, q2: Array, c: Array) -> Dual:
    det = determinant(2 * b, q1, q2, c)
    value = a**2 / jnp.sqrt(det)
    return Dual(value, 4 * b**2 * c * value / det)


def _exponential(a: Scalar, b: Scalar, q1: Array, q2: Array, c: Array) -> Dual:
    value = a**2 * jnp.exp(b**2 * (c + (q1 + q2) / 2))
    return Dual(value, b**2 * value)


def _gabor(q1: Array, q2: Array, c: Array) -> Dual:
    """Under the two bells (u, v) is again Gaussian, with covariance Σ(I + 2Σ)⁻¹."""
    det = determinant(2.0, q1, q2, c)
    total = (q1 + q2 + 4 * (q1 * q2 - c**2)) / det
    covariance = c / det
    bell = jnp.exp(-total / 2) / jnp.sqrt(det)
    sine, cosine = jnp.sinh(covariance), jnp.cosh(covariance)
    slope = 4 * (2 - total) * covariance * sine + (1 + 8 * c * covariance) / det * cosine
    return Dual(bell * sine, bell * slope)
