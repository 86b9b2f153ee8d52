"""Zonal kernels K(x, x′) = κ(xᵀx′) on the sphere Sᵖ⁻¹: their eigenvalues, degree by degree.

Their eigenfunctions are spherical harmonics: all N(p, k) of degree k have one eigenvalue,

    λₖ = E κ(t) Pₖ(t)                        t = xᵀx′, x and x′ uniform on the sphere,
    κ(t) = Σₖ λₖ N(p, k) Pₖ(t)               (Mercer),

with Pₖ the Gegenbauer polynomial of degree k scaled to Pₖ(1) = 1 (cos kθ on the circle, Legendre's
on S²). λₖ belongs to averages over the sphere; with sums over its surface it is larger by the
area: on the circle κ = λ₀/2π + Σₖ λₖ cos kθ/π. N(p, k) is the dimension

    N(p, 0) = 1,    N(p, k) = (2k + p − 2)/k · binomial(k + p − 3, p − 2).

On m points, eigenvalues of the Gram matrix go to mλₖ; on m equidistant points of a circle they are
its discrete Fourier transform exactly, m times the sum of λⱼ over j = k modulo m (aliases).

The tangent kernel of a ReLU network has λₖ ∝ k⁻ᵖ. With one hidden layer and no biases, those of
odd k ≥ 3 are 0: its odd part is a multiple of t.

Source: golikov · ntk-spectral-bias · 2.6.2, Eqs 2.106–2.114.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

Profile = Callable[[Float[Array, " t"]], Float[Array, " t"]]


def num_harmonics(dimension: int, degree: int) -> int:
    """N(p, k), how many spherical harmonics of degree k there are on Sᵖ⁻¹.

    Example:
        >>> [num_harmonics(3, k) for k in range(4)]
        [1, 3, 5, 7]
    """
    _check_dimension(dimension)
    if degree < 0:
        raise ValueError(f"degree must be at least 0, got {degree}.")
    p, k = dimension, degree
    return math.comb(k + p - 1, p - 1) - (math.comb(k + p - 3, p - 1) if k >= 2 else 0)


def area(dimension: int) -> float:
    """The surface of Sᵖ⁻¹, 2 π^(p/2)/Γ(p/2).

    Example:
        >>> area(3) == 4 * math.pi
        True
    """
    _check_dimension(dimension)
    return 2 * math.pi ** (dimension / 2) / math.gamma(dimension / 2)


def gegenbauer(
    dimension: int, num_degrees: int, cosines: Float[Array, " t"]
) -> Float[Array, "k t"]:
    """Pₖ(t) for k < `num_degrees`, with Pₖ(1) = 1, by (k+p−2) Pₖ₊₁ = (2k+p−2) t Pₖ − k Pₖ₋₁.

    Args:
        dimension: p, of the space around the sphere; at least 2.
        num_degrees: How many polynomials.
        cosines: The values of t, in [−1, 1].

    Example:
        >>> gegenbauer(3, 3, jnp.array([0.5]))[:, 0].tolist()
        [1.0, 0.5, -0.125]
    """
    _check_dimension(dimension)
    _check_degrees(num_degrees)
    p = dimension

    def climb(pair: tuple[Array, Array], k: Array) -> tuple[tuple[Array, Array], Array]:
        before, now = pair
        after = ((2 * k + p - 2) * cosines * now - k * before) / (k + p - 2)
        return (now, after), before

    start = (jnp.ones_like(cosines), cosines)
    degrees = jnp.arange(1, num_degrees + 1, dtype=cosines.dtype)
    return jax.lax.scan(climb, start, degrees)[1]


def zonal_spectrum(
    profile: Profile, dimension: int, num_degrees: int, num_nodes: int = 1024
) -> Float[Array, " k"]:
    """λₖ = E κ(t) Pₖ(t), by Gauss–Legendre quadrature in the angle θ, t = cos θ.

    In the angle, kernels of ReLU networks are smooth up to the ends (in t they are not), so that
    the error falls geometrically once there are more nodes than degrees.

    Args:
        profile: κ, on an array of cosines.
        dimension: p, of the space around the sphere; at least 2.
        num_degrees: How many eigenvalues.
        num_nodes: How many values of κ; more than degrees.

    Example:
        >>> [f"{abs(value):.4f}" for value in zonal_spectrum(lambda t: t, 3, num_degrees=3)]
        ['0.0000', '0.3333', '0.0000']
    """
    _check_dimension(dimension)
    _check_degrees(num_degrees)
    if num_nodes <= num_degrees:
        raise ValueError(f"num_nodes must be more than num_degrees, got {num_nodes}.")
    angles, weights = _rule(dimension, num_nodes)
    cosines = jnp.asarray(np.cos(angles))
    return gegenbauer(dimension, num_degrees, cosines) @ (jnp.asarray(weights) * profile(cosines))


def circle_spectrum(values: Float[Array, " m"]) -> Float[Array, " k"]:
    """Eigenvalues of the kernel on m equidistant points of a circle, over m: degrees 0 … m//2.

    Exactly those of the circulant Gram matrix over m; each is λₖ with its aliases.

    Args:
        values: κ(cos θ) at θ = 0, 2π/m, …, 2π(m − 1)/m.

    Example:
        >>> angles = 2 * jnp.pi * jnp.arange(8) / 8
        >>> [f"{abs(value):.3f}" for value in circle_spectrum(jnp.cos(2 * angles))]
        ['0.000', '0.000', '0.500', '0.000', '0.000']
    """
    return jnp.fft.rfft(values).real / len(values)


def mercer(
    eigenvalues: Float[Array, " k"], dimension: int, cosines: Float[Array, " t"]
) -> Float[Array, " t"]:
    """κ(t) = Σₖ λₖ N(p, k) Pₖ(t), the kernel that has these eigenvalues.

    Example:
        >>> float(mercer(jnp.array([0.0, 1 / 3]), 3, jnp.array([0.5]))[0])
        0.5
    """
    num_degrees = len(eigenvalues)
    counts = [num_harmonics(dimension, k) for k in range(num_degrees)]
    weights = eigenvalues * jnp.array(counts, eigenvalues.dtype)
    return weights @ gegenbauer(dimension, num_degrees, cosines)


@lru_cache
def _rule(dimension: int, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Angles in (0, π), and weights ∝ sinᵖ⁻²θ dθ of sum 1."""
    nodes, weights = special.roots_legendre(num_nodes)
    angles = (nodes + 1) * math.pi / 2
    density = math.pi / 2 * weights * np.sin(angles) ** (dimension - 2)
    integral = math.sqrt(math.pi) * math.gamma((dimension - 1) / 2) / math.gamma(dimension / 2)
    return angles, density / integral


def _check_dimension(dimension: int) -> None:
    if dimension < 2:
        raise ValueError(f"dimension must be at least 2, got {dimension}.")


def _check_degrees(num_degrees: int) -> None:
    if num_degrees < 1:
        raise ValueError(f"num_degrees must be at least 1, got {num_degrees}.")
