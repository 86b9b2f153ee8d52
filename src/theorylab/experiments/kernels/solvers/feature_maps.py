"""Kernels have features, sometimes infinitely many, and a Taylor series says which.

On unit vectors a kernel is a function κ of t = xᵀx′. If all coefficients of κ(t) = Σₖ cₖtᵏ are at
least 0, tensor powers √cₖ x⊗…⊗x are features of it: the Gaussian and the Laplace kernel and the
tangent kernels of wide networks are of this kind. The features of the Gaussian kernel converge
faster than exponentially in their order.

The source has three slips. The power kernel 1 + (xᵀx′)ᵖ has finitely many features, where an
infinite map is asked for. The Laplace kernel on unit vectors is e^(−√(2 − 2xᵀx′)), where the minus
sign is dropped and √(1 − 2xᵀx′) is printed: without the sign it is no kernel at all.

Source: arora · kernel-regression · §3.2, Problem 3.2.2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_least,
    at_most,
    holds,
    identity,
    median_at_most,
)
from theorylab.data import sphere
from theorylab.experiments.drawing import COLOURS, THEORY, panels
from theorylab.fields import Count, Seeded, within
from theorylab.kernels import dot_product as kernels
from theorylab.progress import report

PRECISION = "float64"
FORMULA = r"K(x, x') = \sum_k c_k (x^\top x')^k = \langle \varphi(x), \varphi(x') \rangle"

REGRESSION = Source("arora", "kernel-regression", "§3.2")
POWER = Source("arora", "kernel-regression", "Problem 3.2.2 (a)")
GAUSSIAN = Source("arora", "kernel-regression", "Problem 3.2.2 (b)")
LAPLACE = Source("arora", "kernel-regression", "Problem 3.2.2 (c)")

POWER_DEGREE = 3
NUM_COEFFICIENTS = 25
FEW = 10  # points whose tensor powers are written down


@dataclass(frozen=True)
class Config(Seeded):
    """Kernels between random points of the unit sphere in three dimensions."""

    num_points: Annotated[int, within(22)] = 40  # of Gram matrices; 22 is twice the least rank
    max_order: Annotated[int, within(2, 10)] = (
        8  # highest tensor power of the Gaussian kernel's features, of 3ᵏ entries
    )
    num_seeds: Count = 20  # random sets of points


PRESETS = {
    "smoke": Config(num_points=24, max_order=6, num_seeds=8),
    "paper": Config(num_points=200, max_order=10, num_seeds=100),
}


class Result(NamedTuple):
    """Axes: s seeds, m points, k powers of t, q orders, c cosines."""

    feature_gram: np.ndarray  # (s, m, m), inner products of the quadratic features
    quadratic_gram: np.ndarray  # (s, m, m), (1 + xᵀx′)²
    truncation_error: np.ndarray  # (s, q), of the Gaussian kernel's features to order q
    truncation_bound: np.ndarray  # (q), the rest of its series
    coefficients: np.ndarray  # (3, k), Taylor's, of the Gaussian, Laplace and tangent kernels
    wrong_coefficients: np.ndarray  # (k), of e^(+√(2 − 2t))
    lowest: np.ndarray  # (s, 5), lowest eigenvalue over the highest, for five kernels
    wrong_lowest: np.ndarray  # (s), for e^(+‖x − x′‖)
    power_rank: np.ndarray  # (s), of the Gram matrix of 1 + (xᵀx′)³
    laplace_rank: np.ndarray  # (s)
    cosines: np.ndarray  # (c)
    laplace: np.ndarray  # (c), e^(−‖x − x′‖) at unit vectors with these cosines


def memory(config: Config) -> int:
    """Tensor powers of a few points, and Gram matrices of all; in bytes."""
    powers = 3 ** (config.max_order + 1)
    return 8 * (3 * powers * FEW + 12 * config.num_seeds * config.num_points**2)


def run(config: Config) -> Result:
    """Look at Gram matrices, features and Taylor series of kernels."""
    report("Gram matrices", 0.0)
    points = sphere(jax.random.key(config.seed), config.num_seeds * config.num_points, 3)
    points = points.reshape(config.num_seeds, config.num_points, 3)
    found = _gram_matrices(points)
    report("features of the Gaussian kernel", 0.4)
    orders = range(config.max_order + 1)
    series = kernels.gaussian_coefficients(config.max_order + 1)
    found["truncation_error"] = jax.lax.map(partial(_truncations, series), points[:, :FEW])
    report("Taylor coefficients", 0.8)
    cosines = np.linspace(-1.0, 0.5, 31)
    away = jnp.asarray(np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1))
    return Result(
        truncation_bound=np.array([1 - sum(series[: order + 1]) for order in orders]),
        coefficients=np.stack([_taylor(profile) for profile in (_gaussian, _laplace, _tangent)]),
        wrong_coefficients=_taylor(lambda t: jnp.exp(jnp.sqrt(2 - 2 * t))),
        cosines=cosines,
        laplace=np.asarray(kernels.laplace_kernel(jnp.array([[1.0, 0.0]]), away)[0]),
        **{name: np.asarray(values) for name, values in found.items()},
    )


def _gaussian(t: Array) -> Array:
    return jnp.exp(2 * t - 2)


def _laplace(t: Array) -> Array:
    return jnp.exp(-jnp.sqrt(2 - 2 * t))


def _tangent(t: Array) -> Array:
    """That of the first of two layers with ReLU; arccos t = −i log(t + i√(1 − t²))."""
    arccos = -1j * jnp.log(t + 1j * jnp.sqrt(1 - t * t + 0j))
    return t * (jnp.pi - arccos) / (2 * jnp.pi)


def _taylor(profile: Callable[[Array], Array]) -> np.ndarray:
    return np.asarray(kernels.taylor_coefficients(profile, NUM_COEFFICIENTS))


@jax.jit
def _gram_matrices(every_points: Float[Array, "s m 3"]) -> dict[str, Array]:
    """Lowest eigenvalues and ranks of Gram matrices."""

    def each(points: Float[Array, "m 3"]) -> dict[str, Array]:
        laplace = kernels.laplace_kernel(points, points)
        cosines = jnp.clip(points @ points.T, -1, 1)
        grams = (
            kernels.polynomial_kernel(points, points, 2),
            kernels.power_kernel(points, points, POWER_DEGREE),
            kernels.gaussian_kernel(points, points),
            laplace,
            cosines * (jnp.pi - jnp.arccos(cosines)),
            1 / laplace,
        )
        spectra = jax.vmap(jnp.linalg.eigvalsh)(jnp.stack(grams))
        lowest = spectra[:, 0] / jnp.abs(spectra).max(axis=1)
        ranks = jnp.sum(spectra > 1e-10 * spectra[:, -1:], axis=1)
        features = kernels.quadratic_features(points)
        return {
            "feature_gram": features @ features.T,
            "quadratic_gram": grams[0],
            "lowest": lowest[:-1],
            "wrong_lowest": lowest[-1],
            "power_rank": ranks[1],
            "laplace_rank": ranks[3],
        }

    return jax.vmap(each)(every_points)


def _truncations(series: list[float], points: Float[Array, "m 3"]) -> Float[Array, " q"]:
    """Largest errors of inner products of the Gaussian kernel's features, to each order."""
    features = kernels.series_features(points, series)
    ends = np.cumsum([3**order for order in range(len(series))])
    exact = kernels.gaussian_kernel(points, points)
    grams = [features[:, :end] @ features[:, :end].T for end in ends]
    return jnp.stack([jnp.abs(gram - exact).max() for gram in grams])


def _printed_laplace(result: Result) -> np.ndarray:
    """e^(√(1 − 2t)), which is real up to t = ½."""
    return np.exp(np.sqrt(1 - 2 * result.cosines))


def _shrinkage(result: Result) -> np.ndarray:
    """How much each further order of features shrinks the error: (s, q − 1)."""
    return result.truncation_error[:, 1:] / result.truncation_error[:, :-1]


CLAIMS = (
    REGRESSION.claim(
        "Explicit quadratic features have the polynomial kernel for inner products.",
        lambda r, c: identity(r.feature_gram, r.quadratic_gram, 1e-12),
        formula=r"\varphi(x) = (1, \sqrt2 x_i, x_i^2, \sqrt2 x_i x_j),\ K = (1 + x^\top x')^2",
    ),
    *POWER.erratum(
        printed=(
            "The power kernel has infinitely many features: ranks of Gram matrices have no limit.",
            lambda r, c: at_least(r.power_rank.max(), float(c.num_points)),
            r"K(x, x') = 1 + (x^\top x')^p",
        ),
        corrected=(
            "The power kernel of degree 3 in three dimensions has eleven features.",
            lambda r, c: identity(r.power_rank, np.full(len(r.power_rank), 11), 0.0),
            r"1 + \binom{d + p - 1}{p}",
        ),
    ),
    LAPLACE.claim(
        "The Laplace kernel gives Gram matrices of full rank.",
        lambda r, c: identity(r.laplace_rank, np.full(len(r.laplace_rank), c.num_points), 0.0),
    ),
    GAUSSIAN.claim(
        "Features of the Gaussian kernel to order q err by no more than the rest of the series.",
        lambda r, c: holds(r.truncation_bound[None] - r.truncation_error, rounding=1e-13),
        formula=r"e^{-\|x-x'\|^2} = e^{-2} \sum_k \frac{2^k}{k!} (x^\top x')^k",
    ),
    GAUSSIAN.claim(
        "Every further order shrinks the error more than the one before.",
        lambda r, c: holds(0.98 * _shrinkage(r)[:, :-1] - _shrinkage(r)[:, 1:]),
    ),
    LAPLACE.claim(
        "The Taylor coefficients of the Gaussian, Laplace and tangent kernels are not negative.",
        lambda r, c: holds(r.coefficients, rounding=1e-12),
        formula=r"\kappa(t) = \sum_k c_k t^k,\ c_k \ge 0",
    ),
    REGRESSION.claim(
        "The Gram matrices of all five kernels are positive semi-definite.",
        lambda r, c: holds(r.lowest, rounding=1e-13),
    ),
    *LAPLACE.erratum(
        printed=(
            "On unit vectors, the Laplace kernel is e^√(1 − 2xᵀx′).",
            lambda r, c: identity(r.laplace, _printed_laplace(r), 1e-12),
            r"e^{\sqrt{1 - 2x^\top x'}}",
        ),
        corrected=(
            "On unit vectors, the Laplace kernel is e^(−√(2 − 2xᵀx′)).",
            lambda r, c: identity(r.laplace, np.exp(-np.sqrt(2 - 2 * r.cosines)), 1e-12),
            r"e^{-\|x - x'\|} = e^{-\sqrt{2 - 2x^\top x'}}",
        ),
    ),
    LAPLACE.control(
        "Without the minus sign a Taylor coefficient is negative.",
        lambda r, c: at_most(r.wrong_coefficients.min(), -0.1),
    ),
    LAPLACE.control(
        "Without the minus sign Gram matrices have negative eigenvalues.",
        lambda r, c: median_at_most(r.wrong_lowest, -1e-3),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the Gaussian features' error, Taylor coefficients, and lowest eigenvalues."""
    figure, (truncation, taylor, profiles) = panels(
        "Gaussian kernel: features to order q", "Taylor coefficients", "Laplace kernel"
    )
    orders = np.arange(len(result.truncation_bound))
    truncation.semilogy(orders, result.truncation_error.T, "o", markersize=3, color=COLOURS[0])
    truncation.semilogy(orders, result.truncation_bound, **THEORY, label="rest of the series")
    truncation.set(xlabel="order q", ylabel="largest error")
    powers = np.arange(NUM_COEFFICIENTS)
    for name, values in zip(("Gaussian", "Laplace", "tangent"), result.coefficients, strict=True):
        taylor.semilogy(powers, np.maximum(values, 1e-16), "o-", markersize=3, label=name)
    taylor.set(xlabel="power of t", ylim=(1e-12, 2))
    profiles.plot(result.cosines, result.laplace, "o", markersize=3, label="e^(−‖x − x′‖)")
    exact = np.exp(-np.sqrt(2 - 2 * result.cosines))
    profiles.plot(result.cosines, exact, **THEORY, label="e^(−√(2 − 2t))")
    profiles.plot(result.cosines, _printed_laplace(result), label="e^√(1 − 2t), as printed")
    profiles.set(xlabel="t = xᵀx′", yscale="log")
    for axis in (truncation, taylor, profiles):
        axis.legend(fontsize=7)
    return figure
