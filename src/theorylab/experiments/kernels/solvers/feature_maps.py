"""A kernel on unit vectors with non-negative Taylor coefficients has explicit features.

On unit vectors a kernel is a function κ of t = xᵀx′. If all coefficients of κ(t) = Σₖ cₖtᵏ are at
least 0, tensor powers √cₖ x⊗…⊗x are features of it: the Gaussian and the Laplace kernel and the
tangent kernels of wide networks are of this kind. The features of the Gaussian kernel converge
faster than exponentially in their order. The power kernel 1 + (xᵀx′)ᵖ has finitely many features.

The source prints the Laplace kernel on unit vectors without its minus sign, and with √(1 − 2xᵀx′)
for √(2 − 2xᵀx′). Without the sign it is no kernel at all.

Source: arora · kernel-regression · §3.2, Problem 3.2.2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, at_most, holds, identity, median_at_most
from theorylab.data import sphere
from theorylab.experiments.drawing import COLOURS, THEORY, label_axes, panels
from theorylab.fields import Count, Seeded, within
from theorylab.kernels import dot_product as kernels
from theorylab.progress import report
from theorylab.typing import Measured

PRECISION = "float64"
FORMULA = r"K(x, x') = \sum_k c_k (x^\top x')^k = \langle \varphi(x), \varphi(x') \rangle"

REGRESSION = Source("arora", "kernel-regression", "§3.2")
EXAMPLE = Source("arora", "kernel-regression", "Example 3.2.1")
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
    max_order: Annotated[int, within(2, 10)] = 8  # highest tensor power of features, of 3ᵏ entries
    num_seeds: Count = 20  # random sets of points


PRESETS = {
    "smoke": Config(num_points=24, max_order=6, num_seeds=8),
    "paper": Config(num_points=200, max_order=10, num_seeds=100),
}


class Grams(NamedTuple):
    """Gram matrices of random points; axes s seeds, m points."""

    features: Float[Measured, "s m m"]  # inner products of the quadratic features
    quadratic: Float[Measured, "s m m"]  # (1 + xᵀx′)²
    lowest: Float[Measured, "s 5"]  # lowest eigenvalue over the highest, for five kernels
    wrong_lowest: Float[Measured, " s"]  # for e^(+‖x − x′‖)
    power_rank: Int[Measured, " s"]  # of the Gram matrix of 1 + (xᵀx′)³
    laplace_rank: Int[Measured, " s"]


class Result(NamedTuple):
    """Axes: s seeds, k powers of t, q orders, c cosines."""

    grams: Grams
    truncation_error: Float[Measured, "s q"]  # of the Gaussian kernel's features to order q
    truncation_bound: Float[np.ndarray, " q"]  # the rest of its series
    coefficients: Float[Measured, "3 k"]  # of the Gaussian, Laplace and tangent kernels
    wrong_coefficients: Float[Measured, " k"]  # of e^(+√(2 − 2t))
    cosines: Float[np.ndarray, " c"]
    laplace: Float[Measured, " c"]  # e^(−‖x − x′‖) at unit vectors with these cosines


def run(config: Config) -> Result:
    """Look at Gram matrices, features and Taylor series of kernels."""
    report("Gram matrices", 0.0)
    points = sphere(jax.random.key(config.seed), config.num_seeds * config.num_points, 3)
    points = points.reshape(config.num_seeds, config.num_points, 3)
    grams = _gram_matrices(points)
    report("features of the Gaussian kernel", 0.4)
    series = kernels.gaussian_coefficients(config.max_order + 1)
    truncation_error = jax.lax.map(partial(_truncations, series), points[:, :FEW])
    report("Taylor coefficients", 0.8)
    cosines = np.linspace(-1.0, 0.5, 31)
    away = jnp.asarray(np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1))
    return Result(
        grams=grams,
        truncation_error=truncation_error,
        truncation_bound=np.array([1 - sum(series[: q + 1]) for q in range(len(series))]),
        coefficients=jnp.stack([_taylor(profile) for profile in (_gaussian, _laplace, _tangent)]),
        wrong_coefficients=_taylor(lambda t: jnp.exp(jnp.sqrt(2 - 2 * t))),
        cosines=cosines,
        laplace=kernels.laplace_kernel(jnp.array([[1.0, 0.0]]), away)[0],
    )


def _gaussian(t: Array) -> Array:
    return jnp.exp(2 * t - 2)


def _laplace(t: Array) -> Array:
    return jnp.exp(-jnp.sqrt(2 - 2 * t))


def _tangent(t: Array) -> Array:
    """That of the first of two layers with ReLU; arccos t = −i log(t + i√(1 − t²))."""
    arccos = -1j * jnp.log(t + 1j * jnp.sqrt(1 - t * t + 0j))
    return t * (jnp.pi - arccos) / (2 * jnp.pi)


def _taylor(profile: Callable[[Array], Array]) -> Float[Array, " k"]:
    return kernels.taylor_coefficients(profile, NUM_COEFFICIENTS)


@jax.jit
def _gram_matrices(every_points: Float[Array, "s m 3"]) -> Grams:
    """Lowest eigenvalues and ranks of Gram matrices."""

    def each(points: Float[Array, "m 3"]) -> Grams:
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
        return Grams(
            features=features @ features.T,
            quadratic=grams[0],
            lowest=lowest[:-1],
            wrong_lowest=lowest[-1],
            power_rank=ranks[1],
            laplace_rank=ranks[3],
        )

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
    EXAMPLE.claim(
        "Explicit quadratic features have the polynomial kernel for inner products.",
        lambda r, c: identity(r.grams.features, r.grams.quadratic, 1e-12),
        formula=r"\varphi(x) = (1, \sqrt2 x_i, x_i^2, \sqrt2 x_i x_j),\ K = (1 + x^\top x')^2",
    ),
    POWER.found(
        "The power kernel of degree 3 in three dimensions has eleven features.",
        lambda r, c: identity(r.grams.power_rank, np.full(len(r.grams.power_rank), 11), 0.0),
        formula=r"1 + \binom{d + p - 1}{p}",
    ),
    LAPLACE.found(
        "The Laplace kernel gives Gram matrices of full rank.",
        lambda r, c: identity(
            r.grams.laplace_rank, np.full(len(r.grams.laplace_rank), c.num_points), 0.0
        ),
    ),
    GAUSSIAN.found(
        "Features of the Gaussian kernel to order q err by the rest of the series at equal inputs.",
        lambda r, c: identity(
            r.truncation_error, np.tile(r.truncation_bound, (len(r.truncation_error), 1)), 1e-12
        ),
        formula=r"e^{-\|x-x'\|^2} = e^{-2} \sum_k \frac{2^k}{k!} (x^\top x')^k",
    ),
    GAUSSIAN.found(
        "Every further order shrinks the error more than the one before.",
        lambda r, c: holds(0.98 * _shrinkage(r)[:, :-1] - _shrinkage(r)[:, 1:]),
        demand="derived: the ratio of two rests is about 2/(q + 2), and falls by 10 % at least",
    ),
    LAPLACE.claim(
        "The Taylor coefficients of the Gaussian, Laplace and tangent kernels are not negative.",
        lambda r, c: holds(r.coefficients, rounding=1e-12),
        formula=r"\kappa(t) = \sum_k c_k t^k,\ c_k \ge 0",
        quote="look at the Taylor expansion of K()",
    ),
    LAPLACE.control(
        "Without the minus sign a Taylor coefficient is negative.",
        lambda r, c: at_most(r.wrong_coefficients.min(), -0.1),
        demand="derived: the coefficient of t is −e^√2/√2 = −2.9",
    ),
    REGRESSION.claim(
        "The Gram matrices of all five kernels are positive semi-definite.",
        lambda r, c: holds(r.grams.lowest, rounding=1e-13),
    ),
    LAPLACE.control(
        "Without the minus sign Gram matrices have negative eigenvalues.",
        lambda r, c: median_at_most(r.grams.wrong_lowest, -1e-3),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
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
        quote="(Laplace Kernel) K(x_1, x_2)",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the Gaussian features' error, Taylor coefficients, and lowest eigenvalues."""
    figure, (truncation, taylor, profiles) = panels(
        "Gaussian kernel: features to order q", "Taylor coefficients", "Laplace kernel"
    )
    orders = np.arange(len(result.truncation_bound))
    truncation.plot(orders, result.truncation_error.T, "o", markersize=3, color=COLOURS[0])
    truncation.plot(orders, result.truncation_bound, **THEORY, label="rest of the series")
    label_axes(truncation, "order q", "largest error", logarithmic="y")
    powers = np.arange(NUM_COEFFICIENTS)
    for name, values in zip(("Gaussian", "Laplace", "tangent"), result.coefficients, strict=True):
        taylor.plot(powers, np.maximum(values, 1e-16), "o-", markersize=3, label=name)
    label_axes(taylor, "power of t", logarithmic="y")
    taylor.set_ylim(1e-12, 2)
    profiles.plot(result.cosines, result.laplace, "o", markersize=3, label="e^(−‖x − x′‖)")
    exact = np.exp(-np.sqrt(2 - 2 * result.cosines))
    profiles.plot(result.cosines, exact, **THEORY, label="e^(−√(2 − 2t))")
    profiles.plot(result.cosines, _printed_laplace(result), label="e^√(1 − 2t), as printed")
    label_axes(profiles, "t = xᵀx′", logarithmic="y")
    for axis in (truncation, taylor, profiles):
        axis.legend(fontsize=7)
    return figure
