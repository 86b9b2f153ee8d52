"""Why wide networks are linear: their Hessian is a Gaussian series, and such series are small.

The output of a network on a graph is a sum over the neurons that it reads, f = Σ γₖ fₖ/√m with
Gaussian weights γ, so that the Hessian in all other weights is Σ γₖ Bₖ, Bₖ = ∇²fₖ/√m. Its norm
exceeds t + R√ν, after the weights were moved by R in the worst direction, with probability at most
(d₁ + d₂) exp(−t²/2ν), where ν = ‖Σ BₖBₖᵀ‖ is of the order 1/m. Here the bounds of the proof are
compared with what happens, in draws of γ, on graphs that are fully connected, densely connected,
thinned out, or uneven.

Three of them are printed otherwise: with Rν for R√ν, with ‖Σ Uᵢ‖² for the variance ‖Σ UᵢUᵢᵀ‖, and
for activations whose φ″ and φ‴ are bounded, such as z², where φ′ and φ″ must be.

Source: zhu · dag-bounds · A.11.2, A.11.4–A.11.10, Eqs 2.13–2.14.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, between, exponent_between, probability_at_most
from theorylab.curvature import (
    columns_bound,
    dag_series,
    form_bound,
    image_bound,
    series_bound,
    series_variance,
    worst_move,
)
from theorylab.data import sphere
from theorylab.experiments.checks import (
    refuse_below,
)
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Increasing, Plural, Positive, Seeded
from theorylab.models import Dag, activation
from theorylab.models.dag_builders import densely_connected, drop_edges, fully_connected, random_dag
from theorylab.numerics import power_law
from theorylab.progress import report
from theorylab.typing import RandomKey, Scalar

PRECISION = "float64"
FORMULA = (
    r"P\left(\left\|\sum_k (\gamma_k + \Delta_k) B_k\right\| > t + R\sqrt\nu\right)"
    r" \le (d_1 + d_2) e^{-t^2/2\nu}"
)

SERIES = Source("zhu", "dag-bounds", "A.11.8")
VARIANCE = Source("zhu", "dag-bounds", "A.11.10")
FORM = Source("zhu", "dag-bounds", "A.11.4")
COLUMNS = Source("zhu", "dag-bounds", "A.11.5–A.11.6")
IMAGE = Source("zhu", "dag-bounds", "A.11.7")
NEURONS = Source("zhu", "dag-bounds", "A.11.2")
ORDER = Source("zhu", "dag-bounds", "A.11.9")

NAMES = ("fully connected", "densely connected", "half of the edges", "in-degrees m to m^1.5")


@dataclass(frozen=True)
class Config(Seeded):
    """Gaussian weights of the last layer, drawn again and again over the same other weights."""

    widths: Increasing[Count] = (4, 6, 9, 13)  # neurons m of each of two hidden layers
    dimension: Plural = 2  # inputs d
    radius: Positive = 3.0  # R, by which the weights are moved
    failure: float = 0.05  # probability with which the bounds may fail
    num_draws: Plural = 2000  # draws of the last layer's weights
    num_seeds: Plural = 64  # other weights, for the order of ν

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_below(self, 4, "widths")
        if not 0 < self.failure < 0.5:
            raise ValueError(f"failure must be in (0, 0.5), got {self.failure}.")


PRESETS = {
    "smoke": Config(widths=(4, 12), num_draws=500, num_seeds=64),
    "paper": Config(widths=(8, 12, 16, 24), dimension=4, num_draws=20000),
}


class Result(NamedTuple):
    """Counts are of draws in which a bound failed.

    Axes: s seeds, w widths, q draws, r radii, g kinds of graphs (`NAMES`).
    """

    variances: Float[np.ndarray, "s w"]  # ν of the Hessian's series, fully connected
    norms: Float[np.ndarray, "g q"]  # of the series at the smallest width, moved by R
    bounds: Float[np.ndarray, " g"]  # t + R√ν there
    series: Int[np.ndarray, " g"]
    columns: int
    unmoved: int  # t alone, without R√ν, for a series of one direction
    form: int
    image: int
    printed_series: int  # t + Rν for a series of one direction
    corrected_series: int  # t + R√ν for the same
    printed_variance: int  # with ‖Σ Uᵢ‖² as the variance of a series that alternates
    corrected_variance: int  # with ‖Σ UᵢUᵢᵀ‖
    radii: Float[np.ndarray, " r"]
    square_neuron: Float[np.ndarray, " r"]  # a first neuron with φ(z) = z², moved by R
    softplus_neuron: Float[np.ndarray, " r"]  # the same with softplus, whose φ′ is bounded


def memory(config: Config) -> int:
    """Bytes of the widest networks' dense Hessians, neuron by neuron, and of the draws."""
    widest = max(config.widths)
    weights = widest * (widest + config.dimension)
    smallest = config.widths[0] * (config.widths[0] + config.dimension)
    return 8 * (3 * config.num_seeds * widest * weights**2 + 2 * config.num_draws * smallest**2)


def run(config: Config) -> Result:
    """Take the Hessian apart, draw the last weights, and count."""
    report("Hessians neuron by neuron", 0.05)
    x_key, graph_key, draw_key = jax.random.split(jax.random.key(config.seed), 3)
    x = sphere(x_key, 1, config.dimension, radius=math.sqrt(config.dimension))
    d, number = config.dimension, config.num_seeds
    plain = [fully_connected(d, [m, m], activation="tanh") for m in config.widths]
    parts = [_series(graph_key, graph, x[0], number) for graph in plain]
    report("draws of the last weights", 0.5)
    variance = jax.jit(jax.vmap(series_variance))
    variances = np.stack([np.asarray(variance(each)) for each in parts], axis=1)
    graphs = _graphs(graph_key, d, config.widths[0])
    several = [_series(graph_key, graph, x[0], 1)[0] for graph in graphs]
    found = [_exceeding(draw_key, each, config) for each in several]
    matrices = several[0]
    draws = jax.random.normal(draw_key, (config.num_draws, matrices.shape[0]))
    radii = np.geomspace(4.0, 64.0, 5)
    return Result(
        variances=variances,
        norms=np.stack([norms for norms, _ in found]),
        bounds=np.array([bound for _, bound in found]),
        series=np.array([int((norms > bound).sum()) for norms, bound in found]),
        columns=_columns(draw_key, matrices, config),
        **_counts(matrices[-1][:, : draws.shape[1]], draws, config),
        radii=radii,
        square_neuron=_neuron("square", x[0], radii),
        softplus_neuron=_neuron("softplus", x[0], radii),
    )


def _series(
    key: RandomKey, graph: Dag, x: Float[Array, " d"], num_seeds: int
) -> Float[Array, "s m p p"]:
    """Bₖ = ∇²fₖ/√m of the neurons that the output reads, for many weights before them."""
    draws = jax.random.normal(key, (num_seeds, graph.num_weights))
    return jax.jit(jax.vmap(lambda weights: dag_series(graph, weights, x)))(draws)


def _graphs(key: RandomKey, d: int, m: int) -> list[Dag]:
    """Of the smallest width, in the order of `NAMES`."""
    dense = densely_connected(d, [m, m], activation="tanh")
    most = round(m**1.5)
    return [
        fully_connected(d, [m, m], activation="tanh"),
        dense,
        drop_edges(key, dense, 0.5),
        random_dag(key, d, [most, m], (m, most), activation="tanh"),
    ]


def _distance(variance: Scalar, dimensions: int, failure: float) -> float:
    """The t with dimensions · exp(−t²/2ν) = failure."""
    return math.sqrt(2 * float(variance) * math.log(dimensions / failure))


def _exceeding(
    key: RandomKey, matrices: Float[Array, "m p p"], config: Config
) -> tuple[Float[np.ndarray, " q"], float]:
    """Norms of a series in many draws, moved in the worst direction, and their bound."""
    draws = jax.random.normal(key, (config.num_draws, matrices.shape[0]))
    t = _distance(series_variance(matrices), sum(matrices.shape[1:]), config.failure)
    moved = np.asarray(_moved_norms(matrices, draws, config.radius))
    return moved, float(series_bound(matrices, t, config.radius).value)


def _columns(key: RandomKey, matrices: Float[Array, "m p p"], config: Config) -> int:
    """How often ‖[B₁a₁ … Bₘaₘ]‖ exceeds its bound with C = √2, moved by R along its top vectors.

    Chevet's inequality has the failure exp(−t²/2); √2 makes that the stated exp(−t²).
    """
    t = math.sqrt(math.log(2 / config.failure))
    bound = columns_bound(matrices, t, config.radius, math.sqrt(2)).value

    def one(key: RandomKey) -> Float[Array, ""]:
        m, p = matrices.shape[:2]
        a = jax.random.normal(key, (m * p,)).reshape(m, p)
        u, _, vt = jnp.linalg.svd(jnp.einsum("mij,mj->im", matrices, a), full_matrices=False)
        uphill = jnp.einsum("i,mij,m->mj", u[:, 0], matrices, vt[0])
        moved = a + config.radius * uphill / jnp.linalg.norm(uphill)
        return jnp.linalg.norm(jnp.einsum("mij,mj->im", matrices, moved), 2)

    found = jax.jit(lambda keys: jax.lax.map(one, keys))(jax.random.split(key, config.num_draws))
    return int((found > bound).sum())


@jax.jit
def _moved_norms(
    matrices: Float[Array, "m p p"], draws: Float[Array, "q m"], radius: Scalar
) -> Float[Array, " q"]:
    """‖Σ (γₖ + Δₖ)Bₖ‖ with the worst Δ of length R."""

    def one(gamma: Float[Array, " m"]) -> Float[Array, ""]:
        moved = gamma + worst_move(matrices, gamma, radius)
        return jnp.linalg.norm(jnp.einsum("k,kij->ij", moved, matrices), 2)

    return jax.lax.map(one, draws)


def _counts(matrix: Float[Array, "p m"], draws: Float[Array, "q m"], config: Config):
    """How often each of the other bounds fails."""
    radius, failure, size = config.radius, config.failure, draws.shape[1]
    numbers, image = np.asarray(draws), np.asarray(matrix)
    b = np.full(size, 0.2 / math.sqrt(size))  # ν = ‖b‖² = 0.04, below 1
    signs = np.where(np.arange(size) % 2 == 0, 1.0, -1.0)
    t = _distance(0.04, 2, failure)
    far = float(np.linalg.norm(image, 2)) * math.sqrt(2 * math.log(1 / failure))
    bounds = jax.jit(
        lambda b, matrix: (
            form_bound(b, t, radius).value,
            image_bound(matrix, far, radius).value,
            series_bound(b[:, None, None], t, radius).value,
        )
    )
    form_at, image_at, series_at = bounds(jnp.asarray(b), matrix)
    form = np.abs(numbers @ b) + radius * 0.2  # moved in the worst direction
    top = np.linalg.svd(image)[2][0]
    moves = radius * np.where(numbers @ top > 0, 1.0, -1.0)[:, None] * top[None, :]
    alternating = np.abs(numbers @ signs)
    failed = {
        "unmoved": form > t,
        "form": form > float(form_at),
        "image": np.linalg.norm((numbers + moves) @ image.T, axis=1) > float(image_at),
        "printed_series": form > t + radius * 0.04,
        "corrected_series": form > float(series_at),
        "printed_variance": alternating > _distance(float(signs.sum() ** 2), 2, failure),
        "corrected_variance": alternating > _distance(float(size), 2, failure),
    }
    return {name: int(each.sum()) for name, each in failed.items()}


def _neuron(name: str, x: Float[Array, " d"], radii: Float[np.ndarray, " r"]):
    """φ(R‖x‖/√d): a neuron of the first layer whose weights were moved by R along x, from 0."""
    before = jnp.asarray(radii) * jnp.linalg.norm(x) / math.sqrt(x.shape[0])
    return np.asarray(activation(name)(before), float)


def _seldom(kind: int):
    return lambda r, c: probability_at_most(r.series[kind], c.num_draws, c.failure)


CLAIMS = (
    Claim(
        "The Hessian's series exceeds t + R√ν as seldom as stated, fully connected.",
        judge=_seldom(0),
        source=SERIES,
    ),
    Claim("It does so densely connected.", judge=_seldom(1), source=SERIES),
    Claim("It does so without half of the edges.", judge=_seldom(2), source=SERIES),
    Claim("It does so where in-degrees differ, m to m^1.5.", judge=_seldom(3), source=SERIES),
    Claim(
        "Its variance ν falls with the width, nearly like one over it.",
        # Twice the exponents of the norm, which the catalogue gives −0.65 to −0.35.
        judge=lambda r, c: exponent_between(c.widths, r.variances, -1.3, -0.7),
        source=ORDER,
        formula=r"\nu = \tilde O(1/m)",
    ),
    Claim(
        "A Gaussian form exceeds t + ‖b‖R as seldom as stated.",
        judge=lambda r, c: probability_at_most(r.form, c.num_draws, c.failure),
        source=FORM,
        formula=r"P(|(a + \Delta)^T b| > t + \|b\| R) \le 2 e^{-t^2/2\|b\|^2}",
    ),
    Claim(
        "The image of a Gaussian vector, moved by R, exceeds t + ‖B‖_F + ‖B‖R as seldom as stated.",
        judge=lambda r, c: probability_at_most(r.image, c.num_draws, c.failure),
        source=IMAGE,
    ),
    Claim(
        "Columns B₁a₁, …, moved by R, exceed their bound as seldom as stated, with C = √2.",
        judge=lambda r, c: probability_at_most(r.columns, c.num_draws, c.failure),
        source=COLUMNS,
    ),
    Claim(
        "A series of one direction exceeds t + Rν as seldom as stated, with ν < 1.",
        judge=lambda r, c: probability_at_most(r.printed_series, c.num_draws, c.failure),
        source=SERIES,
        kind="printed",
        formula=r"\|Z\| \le t + R\nu",
    ),
    Claim(
        "It exceeds t + R√ν as seldom as stated.",
        judge=lambda r, c: probability_at_most(r.corrected_series, c.num_draws, c.failure),
        source=SERIES,
        kind="corrected",
        formula=r"\|Z\| \le t + R\sqrt\nu",
    ),
    Claim(
        "Without anything for the move it is exceeded much more often.",
        judge=lambda r, c: probability_at_most(c.num_draws - r.unmoved, c.num_draws, 0.5),
        source=SERIES,
        kind="control",
    ),
    Claim(
        "‖Σ Uᵢ‖² is the variance of a series.",
        judge=lambda r, c: probability_at_most(r.printed_variance, c.num_draws, c.failure),
        source=VARIANCE,
        kind="printed",
    ),
    Claim(
        "‖Σ UᵢUᵢᵀ‖ is.",
        judge=lambda r, c: probability_at_most(r.corrected_variance, c.num_draws, c.failure),
        source=VARIANCE,
        kind="corrected",
    ),
    Claim(
        "Bounds of φ″ and φ‴ keep a first neuron at the order of R: z² has them.",
        judge=lambda r, c: between(power_law(r.radii, r.square_neuron).exponent, 0.0, 1.1),
        source=NEURONS,
        kind="printed",
        formula=r"|f_v| = O((\log m + R)^\ell)",
    ),
    Claim(
        "Bounds of φ′ and φ″ do: softplus has them.",
        judge=lambda r, c: between(power_law(r.radii, r.softplus_neuron).exponent, 0.0, 1.1),
        source=NEURONS,
        kind="corrected",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Norms of the series with their bound, its variance over widths, and a neuron over R."""
    figure, (norms, variance, neuron) = panels(
        "norm of the Hessian's series / bound", "its variance ν", "a neuron, moved by R"
    )
    for name, each, bound in zip(NAMES, result.norms, result.bounds, strict=True):
        norms.hist(each / bound, bins=40, histtype="step", label=name)
    norms.axvline(1.0, **THEORY)
    norms.legend(fontsize=6)
    variance.loglog(config.widths, result.variances.T, "o", markersize=3, color="#0072B2")
    variance.set_xlabel("width m")
    neuron.loglog(result.radii, result.square_neuron, "o-", label="z²")
    neuron.loglog(result.radii, result.softplus_neuron, "o-", label="softplus")
    neuron.set_xlabel("distance R")
    neuron.legend(fontsize=7)
    return figure
