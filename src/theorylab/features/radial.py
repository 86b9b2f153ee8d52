"""Kernels of a distance, and the gradients of machines that are made of them.

With a profile φ of the squared distance t = ‖x − z‖² (points come in units of the bandwidth):

    k(x, z) = φ(t)                         laplace     φ = e^(−√t)
    f_a(x)  = Σⱼ αⱼ_a k(x, zⱼ)             gaussian    φ = e^(−t/2)
    ∇f_a(x) = 2 Σⱼ φ′(tⱼ) αⱼ_a (x − zⱼ)    matern3     φ = (1 + √(3t)) e^(−√(3t))
                                           matern5     φ = (1 + √(5t) + 5t/3) e^(−√(5t))

`radial_kernel` makes one of any other profile. Gradients of all points are matrix products, so that
the AGOP of f costs about what the kernel matrix does for each output, in blocks, on the host with
BLAS. At its own centre a Laplace kernel has no gradient; it is taken for 0.

Source: zhu · agop · Eq. 4.5; Radhakrishnan et al. (2022), arXiv:2212.13881, for kernel machines.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Profile = Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]
_ENTRIES = 2_000_000  # of a block of the kernel: it stays near the cache
_ROUNDING = 16  # in units of ε: squared distances below it are 0


class Radial(NamedTuple):
    """A kernel k(x, z) = φ(‖x − z‖²), which can be called with two batches of points.

    Args:
        value: φ.
        slope: φ′, 0 where it is not defined.

    Example:
        >>> bell = Radial(lambda t: np.exp(-t / 2), lambda t: -np.exp(-t / 2) / 2)
        >>> bell(np.zeros((1, 2)), np.array([[0.0, 0.0], [0.0, 2.0]])).round(4).tolist()
        [[1.0, 0.1353]]
    """

    value: Profile
    slope: Profile

    def __call__(self, x1: Any, x2: Any) -> Float[np.ndarray, "n1 n2"]:
        """The matrix of k at all pairs of two batches."""
        return self.value(squared_distances(np.asarray(x1), np.asarray(x2)))


def squared_distances(
    x1: Float[np.ndarray, "n1 d"], x2: Float[np.ndarray, "n2 d"]
) -> Float[np.ndarray, "n1 n2"]:
    """‖x − z‖² of all pairs, by one matrix product.

    Example:
        >>> squared_distances(np.zeros((1, 2)), np.array([[3.0, 4.0]])).round(6).tolist()
        [[25.0]]
    """
    # Shrunk by rounding: a point must be at distance 0 from itself, or its root is far from 0.
    shrink = 1 - _ROUNDING * float(np.finfo(x1.dtype).eps)
    squares = (-2 * x1) @ x2.T
    squares += (shrink * np.sum(x1**2, axis=1))[:, None]
    squares += (shrink * np.sum(x2**2, axis=1))[None]
    return np.maximum(squares, 0, out=squares)


def _laplace(t: np.ndarray) -> np.ndarray:
    root = np.sqrt(t)
    return np.exp(np.negative(root, out=root), out=root)


def _laplace_slope(t: np.ndarray) -> np.ndarray:
    root = np.sqrt(t)
    return np.divide(np.exp(-root), -2 * root, out=np.zeros_like(root), where=root > 0)


def _matern3(t: np.ndarray) -> np.ndarray:
    root = np.sqrt(3 * t)
    return (1 + root) * np.exp(-root)


def _matern5(t: np.ndarray) -> np.ndarray:
    root = np.sqrt(5 * t)
    return (1 + root + root**2 / 3) * np.exp(-root)


def _matern5_slope(t: np.ndarray) -> np.ndarray:
    root = np.sqrt(5 * t)
    return (-5 / 6) * (1 + root) * np.exp(-root)


RADIAL = {
    "laplace": Radial(_laplace, _laplace_slope),
    "gaussian": Radial(lambda t: np.exp(-t / 2), lambda t: -np.exp(-t / 2) / 2),
    "matern3": Radial(_matern3, lambda t: -1.5 * np.exp(-np.sqrt(3 * t))),
    "matern5": Radial(_matern5, _matern5_slope),
}


def radial_kernel(profile: Callable[[Array], Array]) -> Radial:
    """Make a kernel of any profile φ(t), written with `jax.numpy`; its slope is taken by JAX.

    Args:
        profile: φ, a function of one number t = ‖x − z‖².

    Example:
        >>> rational = radial_kernel(lambda t: 1 / (1 + t))
        >>> rational(np.zeros((1, 2)), np.array([[1.0, 1.0]])).round(6).tolist()
        [[0.333333]]
    """
    value, slope = (jax.jit(jnp.vectorize(function)) for function in (profile, jax.grad(profile)))

    def evaluated(t: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.asarray(value(t), t.dtype)

    def derived(t: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        return np.nan_to_num(np.asarray(slope(t), t.dtype), posinf=0.0, neginf=0.0)

    return Radial(evaluated, derived)


def radial_agop(
    kernel: Radial,
    points: Float[np.ndarray, "m d"],
    coefficients: Float[np.ndarray, "m k"],
    x: Float[np.ndarray, "n d"],
) -> Float[np.ndarray, "d d"]:
    """G = (1/n) Σᵢ Σ_a ∇f_a(xᵢ) ∇f_a(xᵢ)ᵀ of f_a(x) = Σⱼ αⱼ_a k(x, zⱼ), in closed form.

    Args:
        kernel: k.
        points: The centres zⱼ.
        coefficients: α.
        x: The points xᵢ at which gradients are taken.

    Example:
        >>> bell, point = RADIAL["gaussian"], np.array([[0.0, 0.0]])
        >>> found = radial_agop(bell, point, np.array([[1.0]]), np.array([[1.0, 0.0]]))
        >>> bool(np.isclose(found[0, 0], np.exp(-1)))
        True
    """
    if points.shape[1:] != x.shape[1:] or len(points) != len(coefficients):
        raise ValueError(
            f"points (m, d), coefficients (m, k) and x (n, d) must fit, got {points.shape}, "
            f"{coefficients.shape} and {x.shape}."
        )
    total = np.zeros((x.shape[1], x.shape[1]), x.dtype)
    size = max(1, min(len(x), _ENTRIES // len(points)))
    weighted = [column[:, None] * points for column in coefficients.T]
    for start in range(0, len(x), size):
        some = x[start : start + size]
        slopes = kernel.slope(squared_distances(some, points))
        own = slopes @ coefficients
        for output, others in enumerate(weighted):
            gradients = own[:, output, None] * some - slopes @ others
            total += gradients.T @ gradients
    return total * (4 / len(x))


def median_distance(points: Float[np.ndarray, "n d"], at_most: int = 1000) -> float:
    """The median distance of two points, from a thousand of them at most; 1 if it is 0.

    Example:
        >>> round(median_distance(np.array([[0.0], [1.0], [3.0]])), 6)
        2.0
    """
    some = points[np.unique(np.linspace(0, len(points) - 1, min(len(points), at_most)).astype(int))]
    squares = squared_distances(some, some)
    pairs = squares[np.triu_indices(len(some), 1)]
    median = math.sqrt(float(np.median(pairs))) if len(pairs) else 0.0
    return median if median > 0 else 1.0
