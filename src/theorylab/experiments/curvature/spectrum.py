"""Lanczos gives Hessian eigenvalues with a certified error bound.

A Hessian is known only by its products with vectors. From these, Lanczos finds eigenvalues; but a
residual says only that some eigenvalue is near, and a repeated one is found once. With a second run
on what the found vectors leave, the i-th eigenvalue lies within the stated bound in every one of
many random operators (with repeated, clustered, paired or only two eigenvalues). The bound is
tight: where a gap separates an eigenvalue from the rest it is the residuals, and where there is no
gap it is the share of the spread that so many checks leave open. The spectral density lies within
a hundredth of the range of the exact spectrum, and of the Marchenko–Pastur law. (The trace is
`curvature/trace`.)

Without a second run, residuals alone miss repeated eigenvalues. (`curvature/power_method` has what
power iteration does, and Lanczos without re-orthogonalisation.)

Nothing of this is a statement of the sources: these are checks of the library.

Source: zhu · hessian-norm · 2.3.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key
from matplotlib.figure import Figure

from theorylab import numerics
from theorylab.claims import (
    Source,
    at_most,
    holds,
    median_at_most,
    probability_at_least,
)
from theorylab.experiments.curvature._operators import rotated
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels
from theorylab.fields import Count, Plural, Seeded, within
from theorylab.numerics.certificates import unsure_share
from theorylab.numerics.spectra import tridiagonal_matrix
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = (
    r"\theta_i \le \lambda_i \le \max(\theta_i, \lambda_{\max}(A')) + \|AV - V\Theta\|, \quad"
    r" A' = (1 - VV^\top) A (1 - VV^\top)"
)
NORM = Source("zhu", "hessian-norm", "2.3")

KINDS = ("random", "two values", "repeated", "clustered", "paired")
RANDOM, TWO_VALUES, REPEATED, CLUSTERED, PAIRED = range(5)
EPSILON = float(np.finfo(float).eps)
RATIO = 0.5  # dimensions over samples, of the covariance matrix
POINTS = np.linspace(0.2, 2.8, 14)  # at which its distribution is compared


@dataclass(frozen=True)
class Config(Seeded):
    """Random symmetric operators of five kinds, and what is found of them without their matrix."""

    num_operators: Annotated[int, within(5)] = 1000  # of all kinds together
    size: Count = 60  # dimensions p of an operator
    num_values: Count = 5  # eigenvalues that are wanted
    num_steps: Count = 24  # Lanczos steps that look for them
    num_checks: Count = 30  # Lanczos steps that look at what is left
    density_size: Count = 600  # dimensions of the covariance matrix
    density_steps: Count = 60  # Lanczos steps of one probe of the density
    density_probes: Plural = 20  # random vectors of a density
    num_seeds: Count = 12  # densities

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.num_values <= self.num_steps < self.size or self.size % 2:
            raise ValueError(
                "num_values, num_steps and size must grow, and size must be even, "
                f"got {self.num_values}, {self.num_steps} and {self.size}."
            )


PRESETS = {
    "smoke": Config(num_operators=300, density_size=400, density_steps=40, num_seeds=6),
    "paper": Config(num_operators=20000, size=200, num_values=20, num_steps=80, num_checks=80),
}


class Certified(NamedTuple):
    """Of operators; axes: q kinds of spectra (`KINDS`), o operators."""

    margin: Float[Measured, "q o"]  # the least bound minus error of an operator, over its norm
    bound: Float[Measured, "q o"]  # of the largest eigenvalue, over the norm
    excess: Float[Measured, "q o"]  # of the widest over the residuals, over the spread
    missed: Bool[Measured, "q o"]  # whether a residual alone is less than the error
    orthogonality: Float[Measured, "q o"]  # max |QᵀQ − 1| after as many steps as dimensions


class Result(NamedTuple):
    """Axes: s seeds, t `POINTS` of a distribution."""

    certified: Certified
    distance: Float[Measured, " s"]  # W₁ of the density to the exact spectrum, over its range
    found: Float[Measured, "s t"]  # the distribution that the density has
    law: Float[Measured, " t"]  # the Marchenko–Pastur distribution


def run(config: Config) -> Result:
    """Draw operators, look at them through their products, and compare with what they are."""
    key, spectrum_key, _, density_key, _ = jax.random.split(jax.random.key(config.seed), 5)
    each = config.num_operators // len(KINDS)
    plan = (config.num_values, config.num_steps, config.num_checks)
    kinds = []
    for index, kind in enumerate(KINDS):
        report(f"certificates: {kind} eigenvalues", 0.5 * index / len(KINDS))
        drawn = jax.random.split(jax.random.fold_in(key, index), each)
        spectra = _spectra(jax.random.fold_in(spectrum_key, index), kind, each, config.size)
        kinds.append(_certified(spectra, drawn, *plan))
    report("densities", 0.6)
    sizes = (config.density_size, config.density_steps, config.density_probes)
    distance, found = _densities(jax.random.split(density_key, config.num_seeds), *sizes)
    return Result(
        certified=jax.tree.map(lambda *parts: jnp.stack(parts), *kinds),
        distance=distance,
        found=found,
        law=numerics.marchenko_pastur(jnp.asarray(POINTS), RATIO),
    )


def _spectra(key: RandomKey, kind: str, number: int, size: int) -> Float[Array, "o p"]:
    """Eigenvalues of operators of one kind."""
    z = jax.random.normal(key, (number, size))
    match kind:
        case "two values":
            return jnp.where(z > 0, z[:, :1], z[:, 1:2])
        case "repeated":
            return z.at[:, :3].set(5 + z[:, :1] / 2)  # parted from the others by a gap
        case "clustered":
            return z.at[:, :4].set(5 + 1e-7 * z[:, :4])
        case "paired":
            return jnp.concatenate([z[:, : size // 2], -z[:, : size // 2]], axis=1)
        case _:
            return z


@partial(jax.jit, static_argnums=(2, 3, 4))
def _certified(
    spectra: Float[Array, "o p"],
    keys: Key[Array, " o"],
    num_values: int,
    num_steps: int,
    num_checks: int,
) -> Certified:
    """Certified eigenpairs of every operator, beside what residuals alone would say."""
    size = spectra.shape[1]

    def one(given: tuple[Array, Array]) -> Certified:
        values, key = given
        matrix = rotated(key, values)
        exact = -jnp.sort(-values)[:num_values]
        norm = jnp.abs(values).max()

        def product(v: Float[Array, " p"]) -> Float[Array, " p"]:
            return matrix @ v

        plan = (num_values, key, num_steps, "largest", num_checks)
        sure = numerics.certified_eigenpairs(product, size, *plan)
        seen = jnp.linalg.norm(sure.residuals) + sure.residuals[-1] + 33 * EPSILON * norm
        rows, diagonal, off = numerics.lanczos(product, jnp.ones(size), size, key)
        # The first steps of a long run are a short run, with the residuals |β s|.
        early = tridiagonal_matrix(diagonal[:num_steps], off[: num_steps - 1])
        alone, vectors = jnp.linalg.eigh(early)
        residuals = jnp.abs(off[num_steps - 1] * vectors[-1])[::-1][:num_values]
        error = jnp.abs(alone[::-1][:num_values] - exact)
        return Certified(
            margin=jnp.min(sure.bounds - jnp.abs(sure.values - exact)) / norm,
            bound=sure.bounds[0] / norm,
            excess=(jnp.max(sure.bounds) - seen) / (values.max() - values.min()),
            missed=jnp.any(error > residuals + 1e-10 * norm),
            orthogonality=jnp.abs(rows @ rows.T - jnp.eye(size)).max(),
        )

    return jax.lax.map(one, (spectra, keys))


@partial(jax.jit, static_argnums=(1, 2, 3))
def _densities(
    keys: Key[Array, " s"], size: int, num_steps: int, num_probes: int
) -> tuple[Float[Array, " s"], Float[Array, "s t"]]:
    """Densities of covariance matrices: their distance to the exact one, and distributions."""
    num_samples = int(size / RATIO)

    def one(key: RandomKey) -> tuple[Array, Array]:
        data = jax.random.normal(key, (num_samples * size,)).reshape(num_samples, size)
        matrix = data.T @ data / num_samples
        exact = jnp.linalg.eigvalsh(matrix)
        found = numerics.spectral_density(lambda v: matrix @ v, size, key, num_steps, num_probes)
        distance = numerics.spectral_distance(found, exact) / (exact[-1] - exact[0])
        return distance, numerics.spectral_cdf(found, jnp.asarray(POINTS)).value

    return jax.lax.map(one, keys)


def _share(config: Config) -> float:
    """The share of the spread that so many checks leave open."""
    return unsure_share(config.num_checks, config.size, config.num_values)


GOAL = "lab: the library's own goal"
CLAIMS = (
    NORM.check(
        "The bound of every eigenvalue holds, in all operators of every kind.",
        lambda r, c: holds(r.certified.margin),
        formula=r"|\theta_i - \lambda_i| \le b_i",
    ),
    NORM.check(
        "It is never wider than the residuals and the share of the spread that the checks leave.",
        # What is left has at most the spread of all; 32 units of rounding are in the bounds.
        lambda r, c: holds(_share(c) - r.certified.excess, 1e-12),
        formula=r"b_i \le \|R\| + \|r_k\|"
        r" + \tfrac{\varepsilon}{1 - 2\varepsilon} (\lambda_{\max} - \lambda_{\min})",
    ),
    NORM.check(
        "Where a gap separates the largest eigenvalues, repeated or clustered, it is less than that"
        " share of the norm.",
        lambda r, c: median_at_most(np.ravel(r.certified.bound[[REPEATED, CLUSTERED]]), _share(c)),
    ),
    NORM.check(
        "Where no gap separates them, it is at most twice that share.",
        # The spread is at most twice the norm.
        lambda r, c: median_at_most(
            np.ravel(r.certified.bound[[TWO_VALUES, RANDOM]]), 2 * _share(c)
        ),
    ),
    NORM.check(
        "Re-orthogonalised twice, the basis stays orthonormal to 1e-12.",
        lambda r, c: at_most(r.certified.orthogonality.max(), 1e-12),
        demand=GOAL,
        formula=r"\max |Q^\top Q - 1| \le 10^{-12}",
    ),
    NORM.control(
        "Residuals alone do not bound the errors where eigenvalues are repeated.",
        lambda r, c: probability_at_least(
            r.certified.missed[REPEATED].sum(), r.certified.missed.shape[1], 0.5
        ),
    ),
    NORM.check(
        "The density lies within a hundredth of the range of the exact spectrum.",
        lambda r, c: median_at_most(r.distance, 0.01),
        demand=GOAL,
        formula=r"W_1(\hat F, F) \le 0.01\,(\lambda_{\max} - \lambda_{\min})",
    ),
    NORM.check(
        "The spectrum of a covariance matrix follows Marchenko and Pastur's law.",
        lambda r, c: median_at_most(np.abs(r.found - r.law).max(axis=1), 0.03),
        demand="derived: four standard errors √(1/(2 p probes)) of the smoke run",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Bounds of every kind, and the density's distribution."""
    figure, (bounds, density) = panels(
        "bound of the largest eigenvalue / norm", "share of eigenvalues up to t"
    )
    for kind, values in zip(KINDS, result.certified.bound, strict=True):
        bounds.ecdf(np.maximum(values, 1e-16), label=kind)
    bounds.legend(fontsize=7)
    label_axes(bounds, "bound", "share of operators", logarithmic="x")
    density.plot(POINTS, result.law, **THEORY, label="Marchenko–Pastur law")
    curves(density, POINTS, {"Lanczos": result.found})
    label_axes(density, "t")
    return figure
