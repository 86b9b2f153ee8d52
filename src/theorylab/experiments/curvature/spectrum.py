"""What Lanczos says of a Hessian's spectrum can be trusted, if it is asked in the right way.

A Hessian is known only by its products with vectors. From these, Lanczos finds eigenvalues; but a
residual says only that some eigenvalue is near, and a repeated one is found once. With a second
look at what the found vectors leave, every one of many random operators (with repeated, clustered,
paired or only two eigenvalues) has its i-th eigenvalue within the stated bound. This bound is not
empty: where a gap parts an eigenvalue from the rest it is the residuals, and where there is none it
is the share of the spread that so many checks can exclude, and no more. The density lies within a
hundredth of the range of the exact spectrum, and of Marchenko and Pastur's law. (The trace is
`curvature/trace`.)

Without care, power iteration on a Hessian whose eigenvalues are ± pairs (two layers with ReLU)
stops nowhere, Lanczos without re-orthogonalisation shows ghosts, copies of eigenvalues that stand
there once, and residuals alone miss what is repeated.

Source: zhu · hessian-norm · Measure, Traps; arora · sharpness · §2.6.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    at_most,
    holds,
    median_at_least,
    median_at_most,
    probability_at_least,
)
from theorylab.curvature import output_hessian, spectral_norm
from theorylab.experiments.checks import refuse_below
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Plural, Seeded
from theorylab.numerics import (
    certified_eigenpairs,
    lanczos,
    marchenko_pastur,
    power_iteration,
    spectral_cdf,
    spectral_density,
    spectral_distance,
)
from theorylab.numerics.certificates import unsure_share
from theorylab.numerics.spectra import tridiagonal_matrix
from theorylab.progress import report
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = (
    r"\theta_i \le \lambda_i \le \max(\theta_i, \lambda_{\max}(A')) + \|AV - V\Theta\|, \quad"
    r" A' = (1 - VV^\top) A (1 - VV^\top)"
)
MEASURE = Source("zhu", "hessian-norm", "Measure")
TRAPS = Source("zhu", "hessian-norm", "Traps")
SHARPNESS = Source("arora", "sharpness", "§2.6")

KINDS = ("random", "two values", "repeated", "clustered", "paired")
EPSILON = float(np.finfo(float).eps)
RATIO = 0.5  # dimensions over samples, of the covariance matrix
WIDTH, DIMENSION = 64, 4  # of the network with ± pairs


@dataclass(frozen=True)
class Config(Seeded):
    """Random symmetric operators of five kinds, and what is found of them without their matrix."""

    num_operators: Count = 1000  # of all kinds together
    size: Count = 60  # dimensions p of an operator
    num_values: Count = 5  # eigenvalues that are wanted
    num_steps: Count = 24  # Lanczos steps that look for them
    num_checks: Count = 30  # Lanczos steps that look at what is left
    density_size: Count = 600  # dimensions of the covariance matrix
    density_steps: Count = 60  # Lanczos steps of one probe of the density
    density_probes: Plural = 20  # random vectors of a density
    num_seeds: Count = 12  # densities, and networks

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_below(self, 5, "num_operators")
        if not self.num_values <= self.num_steps < self.size or self.size % 2:
            raise ValueError(
                "num_values, num_steps and size must grow, and size must be even, "
                f"got {self.num_values}, {self.num_steps} and {self.size}."
            )


PRESETS = {
    "smoke": Config(num_operators=300, density_size=400, density_steps=40, num_seeds=6),
    "paper": Config(num_operators=20000, size=200, num_values=20, num_steps=80, num_checks=80),
}


class Result(NamedTuple):
    """Axes: q kinds of spectra, o operators, s seeds, t points of a distribution."""

    share: float  # of the spread, that so many checks leave open
    margin: Float[np.ndarray, "q o"]  # the least bound minus error of an operator, over its norm
    bound: Float[np.ndarray, "q o"]  # of the largest eigenvalue, over the norm
    excess: Float[np.ndarray, "q o"]  # of the widest over the residuals, over the spread
    missed: Int[np.ndarray, " q"]  # operators in which a residual alone is less than the error
    num_each: int  # operators of one kind
    orthogonality: float  # max |QᵀQ − 1| after as many steps as dimensions
    distance: Float[np.ndarray, " s"]  # W₁ to the exact spectrum, over its range
    points: Float[np.ndarray, " t"]
    law: Float[np.ndarray, " t"]  # Marchenko and Pastur's distribution
    found: Float[np.ndarray, "s t"]  # and what the density says
    lanczos_error: Float[np.ndarray, " s"]  # of ‖H_f‖, relative
    power_residual: Float[np.ndarray, " s"]  # of power iteration, relative to ‖H_f‖
    ghosts: Float[np.ndarray, " s"]  # copies of the largest eigenvalue without care


def memory(config: Config) -> int:
    """Bytes of the operators of one kind, and of the covariance matrices with their bases."""
    each = config.num_operators // len(KINDS)
    return 8 * (4 * each * config.size**2 + 8 * config.density_size**2)


def run(config: Config) -> Result:
    """Draw operators, look at them through their products, and compare with what they are."""
    keys = jax.random.split(jax.random.key(config.seed), 5)
    each = config.num_operators // len(KINDS)
    plan = (config.num_values, config.num_steps, config.num_checks)
    kinds = []
    for index, kind in enumerate(KINDS):
        report(f"certificates: {kind} eigenvalues", 0.5 * index / len(KINDS))
        drawn = jax.random.split(jax.random.fold_in(keys[0], index), each)
        spectra = _spectra(jax.random.fold_in(keys[1], index), kind, each, config.size)
        kinds.append([np.asarray(part) for part in _certified(spectra, drawn, *plan)])
    margin, bound, excess, missed, orthogonality = (
        np.stack(part) for part in zip(*kinds, strict=True)
    )
    report("densities", 0.6)
    seeds = jax.random.split(keys[3], config.num_seeds)
    points = np.linspace(0.2, 2.8, 14)
    sizes = (config.density_size, config.density_steps, config.density_probes)
    distance, found = _densities(seeds, jnp.asarray(points), *sizes)
    report("power iteration and ghosts", 0.9)
    return Result(
        share=unsure_share(config.num_checks, config.size, config.num_values),
        margin=margin,
        bound=bound,
        excess=excess,
        missed=missed.sum(axis=1),
        num_each=each,
        orthogonality=float(orthogonality.max()),
        distance=np.asarray(distance),
        points=points,
        law=np.asarray(marchenko_pastur(jnp.asarray(points), RATIO)),
        found=np.asarray(found),
        **jax.tree.map(np.asarray, _pairs(jax.random.split(keys[4], config.num_seeds))),
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
) -> tuple[Array, ...]:
    """Margins, bounds and their excess, whether residuals alone fail, and Q's orthogonality."""
    size = spectra.shape[1]

    def one(given: tuple[Array, Array]) -> tuple[Array, ...]:
        values, key = given
        matrix = _rotated(key, values)
        exact = -jnp.sort(-values)[:num_values]
        norm = jnp.abs(values).max()

        def product(v: Float[Array, " p"]) -> Float[Array, " p"]:
            return matrix @ v

        plan = (num_values, num_steps, key, "largest", num_checks)
        sure = certified_eigenpairs(product, size, *plan)
        margin = jnp.min(sure.bounds - jnp.abs(sure.values - exact)) / norm
        seen = jnp.linalg.norm(sure.residuals) + sure.residuals[-1] + 33 * EPSILON * norm
        excess = (jnp.max(sure.bounds) - seen) / (values.max() - values.min())
        rows, diagonal, off = lanczos(product, jnp.ones(size), size, key)
        # The first steps of a long run are a short run, with the residuals |β s|.
        early = tridiagonal_matrix(diagonal[:num_steps], off[: num_steps - 1])
        alone, vectors = jnp.linalg.eigh(early)
        residuals = jnp.abs(off[num_steps - 1] * vectors[-1])[::-1][:num_values]
        error = jnp.abs(alone[::-1][:num_values] - exact)
        missed = jnp.any(error > residuals + 1e-10 * norm)
        orthogonality = jnp.abs(rows @ rows.T - jnp.eye(size)).max()
        return margin, sure.bounds[0] / norm, excess, missed, orthogonality

    return jax.lax.map(one, (spectra, keys))


def _rotated(key: RandomKey, values: Float[Array, " p"]) -> Float[Array, "p p"]:
    """A matrix with these eigenvalues, in a random basis."""
    size = len(values)
    basis, _ = jnp.linalg.qr(jax.random.normal(key, (size * size,)).reshape(size, size))
    return (basis * values[None, :]) @ basis.T


@partial(jax.jit, static_argnums=(2, 3, 4))
def _densities(
    keys: Key[Array, " s"],
    points: Float[Array, " t"],
    size: int,
    num_steps: int,
    num_probes: int,
) -> tuple[Array, Array]:
    """Densities of covariance matrices: their distance to the exact one, and distributions."""
    num_samples = int(size / RATIO)

    def one(key: RandomKey) -> tuple[Array, Array]:
        data = jax.random.normal(key, (num_samples * size,)).reshape(num_samples, size)
        matrix = data.T @ data / num_samples
        exact = jnp.linalg.eigvalsh(matrix)
        found = spectral_density(lambda v: matrix @ v, size, key, num_steps, num_probes)
        distance = spectral_distance(found, exact) / (exact[-1] - exact[0])
        return distance, spectral_cdf(found, points).value

    return jax.lax.map(one, keys)


@jax.jit
def _pairs(keys: Key[Array, " s"]) -> dict[str, Float[Array, " s"]]:
    """Networks with ± pairs, and the ghosts of a spectrum with one large eigenvalue."""
    diagonal = jnp.append(jnp.linspace(0.0, 1.0, 99), 4.0)
    num_ghosts = 60

    def one(key: RandomKey) -> dict[str, Float[Array, ""]]:
        drawn = jax.random.normal(key, ((DIMENSION + 1) * WIDTH + DIMENSION,))
        params, x = drawn[DIMENSION:], drawn[:DIMENSION]
        operator = output_hessian(_two_layers, params, x)
        exact = jnp.linalg.norm(x) / jnp.sqrt(WIDTH * DIMENSION)
        found = spectral_norm(operator, params, key, 20)
        swung = power_iteration(operator, params + 1.0, 200)
        first = drawn[: len(diagonal)]
        plain = _without_care(diagonal, first, num_ghosts)
        return {
            "lanczos_error": jnp.abs(found.value - exact) / exact,
            "power_residual": swung.residuals / exact,
            "ghosts": jnp.sum(jnp.linalg.eigvalsh(plain) > 3.9).astype(float),
        }

    return jax.lax.map(one, keys)


def _two_layers(params: Float[Array, " p"], x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
    """A network with ReLU in the NTK parametrization, of which all parameters are one vector."""
    inner, outer = params[WIDTH:].reshape(DIMENSION, WIDTH), params[:WIDTH, None]
    return jax.nn.relu(x @ inner / math.sqrt(DIMENSION)) @ outer / math.sqrt(WIDTH)


def _without_care(
    diagonal: Float[Array, " p"], start: Float[Array, " p"], num_steps: int
) -> Float[Array, "m m"]:
    """T of the three-term recurrence as textbooks have it, without re-orthogonalisation."""

    def step(state, _):
        before, now, length = state
        image = diagonal * now - length * before
        along = now @ image
        rest = image - along * now
        following = jnp.linalg.norm(rest)
        return (now, rest / following, following), (along, following)

    first = start / jnp.linalg.norm(start)
    state = (jnp.zeros_like(first), first, jnp.zeros(()))
    _, (along, lengths) = jax.lax.scan(step, state, length=num_steps)
    return tridiagonal_matrix(along, lengths[:-1])


# The thresholds are those of the library's own goals: a bound that holds in all operators, a basis
# orthonormal to 1e-12, a distance of 1 % of the range. The law is met to four standard errors
# √(1/(2 p probes)), which are 0.03 in the smoke run.
CLAIMS = (
    Claim(
        "The bound of every eigenvalue holds, in all operators of every kind.",
        judge=lambda r, c: holds(r.margin),
        source=MEASURE,
        formula=r"|\theta_i - \lambda_i| \le b_i",
    ),
    Claim(
        "It is never wider than the residuals and the share of the spread that the checks leave.",
        # What is left has at most the spread of all; 32 units of rounding are in the bounds.
        judge=lambda r, c: holds(r.share - r.excess, 1e-12),
        source=MEASURE,
        formula=r"b_i \le \|R\| + \|r_k\|"
        r" + \tfrac{\varepsilon}{1 - 2\varepsilon} (\lambda_{\max} - \lambda_{\min})",
    ),
    Claim(
        "Where a gap parts the largest from the rest, three times repeated, it is less than that"
        " share of the norm.",
        judge=lambda r, c: median_at_most(r.bound[KINDS.index("repeated")], r.share),
        source=MEASURE,
    ),
    Claim(
        "So it is where the largest are clustered.",
        judge=lambda r, c: median_at_most(r.bound[KINDS.index("clustered")], r.share),
        source=MEASURE,
    ),
    Claim(
        "Where nothing parts them, it is that share: it tells two values from one another.",
        judge=lambda r, c: median_at_most(
            np.concatenate([r.bound[KINDS.index(kind)] for kind in ("two values", "random")]),
            2 * r.share,  # the spread is at most twice the norm
        ),
        source=MEASURE,
    ),
    Claim(
        "Re-orthogonalised twice, the basis stays orthonormal to 1e-12.",
        judge=lambda r, c: at_most(r.orthogonality, 1e-12),
        source=MEASURE,
        formula=r"\max |Q^\top Q - 1| \le 10^{-12}",
    ),
    Claim(
        "Residuals alone do not bound the errors where eigenvalues are repeated.",
        judge=lambda r, c: probability_at_least(r.missed[KINDS.index("repeated")], r.num_each, 0.5),
        source=TRAPS,
        kind="control",
    ),
    Claim(
        "The density lies within a hundredth of the range of the exact spectrum.",
        judge=lambda r, c: median_at_most(r.distance, 0.01),
        source=MEASURE,
        formula=r"W_1(\hat F, F) \le 0.01\,(\lambda_{\max} - \lambda_{\min})",
    ),
    Claim(
        "The spectrum of a covariance matrix follows Marchenko and Pastur's law.",
        judge=lambda r, c: median_at_most(np.abs(r.found - r.law).max(axis=1), 0.03),
        source=MEASURE,
    ),
    Claim(
        "Lanczos finds the norm of a Hessian with ± pairs.",
        judge=lambda r, c: median_at_most(r.lanczos_error, 1e-6),
        source=MEASURE,
        formula=r"\|H_f\| = \|x\| / \sqrt{md}",
    ),
    Claim(
        "Power iteration on ± pairs stops nowhere: its residual stays a tenth of the norm or more.",
        judge=lambda r, c: median_at_least(r.power_residual, 0.1),
        source=TRAPS,
        kind="control",
    ),
    Claim(
        "Without re-orthogonalisation a single eigenvalue is found twice or more.",
        judge=lambda r, c: median_at_least(r.ghosts, 2.0),
        source=SHARPNESS,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the bounds of every kind, the density's distribution, and what goes wrong."""
    figure, (bounds, density, failures) = panels(
        "bound of the largest eigenvalue / norm",
        "share of eigenvalues up to t",
        "residual / norm, on ± pairs",
    )
    for kind, values in zip(KINDS, result.bound, strict=True):
        order = np.sort(values[np.isfinite(values)])
        bounds.semilogy(np.linspace(0, 1, len(order)), np.maximum(order, 1e-16), label=kind)
    bounds.legend(fontsize=7)
    density.plot(result.points, result.found.T, linewidth=0.8, alpha=0.5)
    density.plot(result.points, result.law, **THEORY)
    density.set_xlabel("t")
    failures.semilogy(result.power_residual, "o", label="power iteration")
    failures.semilogy(np.maximum(result.lanczos_error, 1e-16), "s", label="Lanczos")
    failures.legend(fontsize=7)
    return figure
