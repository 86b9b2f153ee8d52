"""Kernels of two vectors in closed form, and the features behind them.

    polynomial    (1 + xᵀx′)ᵖ                features: all monomials up to degree p
    power         1 + (xᵀx′)ᵖ                1 and the tensor power x⊗…⊗x, with dᵖ entries
    Gaussian      exp(−‖x − x′‖²)            infinitely many
    Laplace       exp(−‖x − x′‖)             infinitely many

On unit vectors all are functions κ(xᵀx′): the Gaussian one is e^(2t − 2), the Laplace one
e^(−√(2 − 2t)). If κ(t) = Σₖ cₖtᵏ with all cₖ ≥ 0, the tensor powers √cₖ x^⊗k are features of it,
so it is positive semi-definite in every dimension; by Schoenberg, only then.

Source: arora · kernel-regression · §3.2, Problem 3.2.2 (which asks for infinitely many features of
the power kernel, and prints the Laplace one as exp(√(1 − 2xᵀx′))).
"""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

Points = Float[Array, "n d"]
OtherPoints = Float[Array, "m d"]
Gram = Float[Array, "n m"]
Profile = Callable[[Complex[Array, " t"]], Complex[Array, " t"]]


def polynomial_kernel(x1: Points, x2: OtherPoints, degree: int) -> Gram:
    """Compute (1 + xᵀx′)ᵖ.

    Example:
        >>> polynomial_kernel(jnp.array([[1.0, 2.0]]), jnp.array([[3.0, 0.0]]), degree=2).tolist()
        [[16.0]]
    """
    _check_degree(degree)
    return (1 + x1 @ x2.T) ** degree


def quadratic_features(x: Points) -> Float[Array, "n p"]:
    """Give the features (1, √2xᵢ, xᵢ², √2xᵢxⱼ for i < j) of the polynomial kernel of degree 2.

    Example:
        >>> [round(float(feature), 4) for feature in quadratic_features(jnp.array([[2.0]]))[0]]
        [1.0, 2.8284, 4.0]
    """
    first, second = np.triu_indices(x.shape[1], k=1)
    root = math.sqrt(2.0)
    mixed = root * x[:, first] * x[:, second]
    return jnp.concatenate([jnp.ones((len(x), 1)), root * x, x**2, mixed], axis=1)


def power_kernel(x1: Points, x2: OtherPoints, degree: int) -> Gram:
    """Compute 1 + (xᵀx′)ᵖ, of rank 1 + binomial(d + p − 1, p) at most.

    Example:
        >>> power_kernel(jnp.array([[1.0, 2.0]]), jnp.array([[3.0, 0.0]]), 2).tolist()  # 1 + 3²
        [[10.0]]
    """
    _check_degree(degree)
    return 1 + (x1 @ x2.T) ** degree


def power_rank(dimension: int, degree: int) -> int:
    """Count the independent features of 1 + (xᵀx′)ᵖ: 1 and the monomials of degree p.

    On unit vectors there is one less if p is even, because (Σᵢxᵢ²)^(p/2) is 1 there.

    Example:
        >>> power_rank(dimension=2, degree=3)
        5
    """
    _check_degree(degree)
    return 1 + math.comb(dimension + degree - 1, degree)


def gaussian_kernel(x1: Points, x2: OtherPoints) -> Gram:
    """Compute exp(−‖x − x′‖²).

    Example:
        >>> round(float(gaussian_kernel(jnp.zeros((1, 2)), jnp.ones((1, 2)))[0, 0]), 4)  # e⁻²
        0.1353
    """
    return jnp.exp(-_squared_distances(x1, x2))


def laplace_kernel(x1: Points, x2: OtherPoints) -> Gram:
    """Compute exp(−‖x − x′‖).

    Example:
        >>> round(float(laplace_kernel(jnp.zeros((1, 2)), jnp.array([[3.0, 4.0]]))[0, 0]), 4)  # e⁻⁵
        0.0067
    """
    return jnp.exp(-jnp.sqrt(_squared_distances(x1, x2)))


def tensor_power(x: Points, degree: int) -> Float[Array, "n p"]:
    """Give x⊗…⊗x, flat, with dᵏ entries: their inner products are (xᵀx′)ᵏ.

    Example:
        >>> tensor_power(jnp.array([[2.0, 3.0]]), degree=2).tolist()
        [[4.0, 6.0, 6.0, 9.0]]
    """
    if degree < 0:
        raise ValueError(f"degree must not be negative, got {degree}.")
    power = jnp.ones((len(x), 1))
    for _ in range(degree):
        power = jax.vmap(jnp.outer)(power, x).reshape(len(x), -1)
    return power


def series_features(x: Points, coefficients: Sequence[float]) -> Float[Array, "n p"]:
    """Give the features √cₖ x^⊗k of Σₖ cₖ(xᵀx′)ᵏ, for coefficients that are none below 0.

    Example: 1 + 4 xᵀx′.
        >>> series_features(jnp.array([[3.0, 5.0]]), [1.0, 4.0]).tolist()
        [[1.0, 6.0, 10.0]]
    """
    if min(coefficients) < 0:
        raise ValueError(f"coefficients must not be negative, got {min(coefficients)}.")
    powers = [math.sqrt(c) * tensor_power(x, k) for k, c in enumerate(coefficients)]
    return jnp.concatenate(powers, axis=1)


def gaussian_coefficients(num_terms: int) -> list[float]:
    """Give e⁻² 2ᵏ/k!, the coefficients of exp(−‖x − x′‖²) = Σₖ cₖ(xᵀx′)ᵏ on unit vectors.

    Example: at x = x′ the series adds up to 1.
        >>> round(sum(gaussian_coefficients(20)), 6)
        1.0
    """
    return [math.exp(-2) * 2.0**k / math.factorial(k) for k in range(num_terms)]


def taylor_coefficients(profile: Profile, num_terms: int) -> Float[Array, " k"]:
    """Compute the Taylor coefficients of κ at 0, from its values on a circle.

    By Cauchy's formula they are Fourier coefficients of κ(re^iθ), here with r = ¾ and 256 points:
    to 1e-15 (4/3)ᵏ for a κ of order one that is analytic in the unit disc.

    Args:
        profile: κ, written for complex numbers (`jnp.arccos` takes them too).
        num_terms: The number of coefficients, from that of t⁰ on.

    Example:
        >>> [round(float(c), 6) for c in taylor_coefficients(lambda t: 1 / (2 - t), 3)]
        [0.5, 0.25, 0.125]
    """
    if not 1 <= num_terms <= 64:
        raise ValueError(f"num_terms must be in [1, 64], got {num_terms}.")
    radius, num_points = 0.75, 256
    circle = radius * jnp.exp(2j * jnp.pi * jnp.arange(num_points) / num_points)
    modes = jnp.fft.fft(profile(circle)).real / num_points
    return modes[:num_terms] / radius ** jnp.arange(num_terms)


def _squared_distances(x1: Points, x2: OtherPoints) -> Gram:
    """‖x − x′‖², without the cancellation of ‖x‖² − 2xᵀx′ + ‖x′‖²."""
    return jnp.sum((x1[:, None, :] - x2[None, :, :]) ** 2, axis=-1)


def _check_degree(degree: int) -> None:
    if degree < 1:
        raise ValueError(f"degree must be at least 1, got {degree}.")
