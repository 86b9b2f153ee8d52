"""Tail bounds of Gaussian matrix series explain why wide networks become linear.

The output of a network on a graph is a sum over the neurons that it reads, f = Σ γₖ fₖ/√m with
Gaussian weights γ, so that the Hessian in all other weights is Σ γₖ Bₖ, Bₖ = ∇²fₖ/√m. Its norm
exceeds t + R√ν, after the weights were moved by R in the worst direction, with probability at most
(d₁ + d₂) exp(−t²/2ν), where ν = ‖Σ BₖBₖᵀ‖ is of the order 1/m. Here the bounds of the proof are
compared with the frequency in draws of γ, on graphs that are fully connected, densely connected,
sparse, or of uneven in-degree.

Two of them are misprinted: with Rν for R√ν, and for activations whose φ″ and φ‴ are bounded, such
as z², where φ′ and φ″ must be.

Source: zhu · dag-bounds · Lemmas A.11.2, A.11.4–A.11.9, Assumption 2.3.2, Eqs 2.13–2.14.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab import curvature
from theorylab.claims import Source, between, exponent_between, probability_at_most
from theorylab.data import sphere
from theorylab.experiments.drawing import THEORY, label_axes, panels, scaling
from theorylab.fields import Increasing, Plural, Positive, Seeded, within
from theorylab.models import Dag, activation
from theorylab.models.dag_builders import densely_connected, drop_edges, fully_connected, random_dag
from theorylab.numerics import power_law
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey, Scalar

PRECISION = "float64"
FORMULA = (
    r"P\left(\left\|\sum_k (\gamma_k + \Delta_k) B_k\right\| > t + R\sqrt\nu\right)"
    r" \le (d_1 + d_2) e^{-t^2/2\nu}"
)

SERIES = Source("zhu", "dag-bounds", "Lemma A.11.8, Eq. A.30")
FORM = Source("zhu", "dag-bounds", "Lemma A.11.4, Eq. A.26")
COLUMNS = Source("zhu", "dag-bounds", "Lemma A.11.6, Eq. A.28")
IMAGE = Source("zhu", "dag-bounds", "Lemma A.11.7, Eq. A.29")
NEURONS = Source("zhu", "dag-bounds", "Lemma A.11.2 under Assumption 2.3.2")
ORDER = Source("zhu", "dag-bounds", "Lemma A.11.9, Eq. A.33")

RADII = np.geomspace(4.0, 64.0, 5)  # R of single neurons
NAMES = ("fully connected", "densely connected", "half of the edges", "in-degrees m to m^1.5")


@dataclass(frozen=True)
class Config(Seeded):
    """Gaussian weights of the last layer, drawn again and again over the same other weights."""

    widths: Increasing[Annotated[int, within(4)]] = (4, 6, 9, 13)  # m of both hidden layers
    dimension: Plural = 2  # inputs d
    radius: Positive = 3.0  # R, by which the weights are moved
    failure: Annotated[Positive, within(0, 0.49)] = 0.05  # probability that a bound may fail with
    num_draws: Plural = 2000  # draws of the last layer's weights
    num_seeds: Plural = 64  # other weights, for the order of ν


PRESETS = {
    "smoke": Config(widths=(4, 12), num_draws=500, num_seeds=64),
    "paper": Config(widths=(8, 12, 16, 24), dimension=4, num_draws=20000),
}


class Result(NamedTuple):
    """Counts (int) are of draws in which a bound failed.

    Axes: s seeds, w widths, q draws, r distances (`RADII`), g kinds of graphs (`NAMES`).
    """

    variances: Float[Measured, "s w"]  # ν of the Hessian's series, fully connected
    norms: Float[Measured, "g q"]  # of the series at the smallest width, moved by R
    bounds: Float[Measured, " g"]  # t + R√ν there
    columns: Float[Measured, " q"]  # ‖[B₁a₁ … Bₘaₘ]‖ moved by R, over its bound
    unmoved: int  # t alone, without R√ν, for a series of one direction
    form: int  # t + ‖b‖R
    image: Float[Measured, " q"]  # ‖Ba‖ moved by R, over its bound
    printed_series: int  # t + Rν for a series of one direction
    corrected_series: int  # t + R√ν for the same
    square_neuron: Float[Measured, " r"]  # a first neuron with φ(z) = z², moved by R
    softplus_neuron: Float[Measured, " r"]  # the same with softplus, whose φ′ is bounded


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
    d = config.dimension
    x = sphere(x_key, 1, d, radius=math.sqrt(d))[0]
    plain = [fully_connected(d, [m, m], activation="tanh") for m in config.widths]
    variance = jax.jit(jax.vmap(curvature.series_variance))
    variances = [variance(_series(graph_key, graph, x, config.num_seeds)) for graph in plain]
    report("draws of the last weights", 0.5)
    graphs = _graphs(graph_key, d, config.widths[0])
    several = [_series(graph_key, graph, x, 1)[0] for graph in graphs]
    norms, bounds = zip(*(_moved(draw_key, each, config) for each in several), strict=True)
    first = several[0]
    draws = np.asarray(jax.random.normal(draw_key, (config.num_draws, len(first))))
    before = jnp.asarray(RADII) * jnp.linalg.norm(x) / math.sqrt(d)  # moved by R along x, from 0
    return Result(
        variances=np.stack(variances, axis=1),
        norms=np.stack(norms),
        bounds=np.array(bounds),
        columns=_columns(draw_key, first, config),
        **_counts(np.asarray(first[-1][:, : len(first)]), draws, config),
        square_neuron=activation("square")(before),
        softplus_neuron=activation("softplus")(before),
    )


def _series(
    key: RandomKey, graph: Dag, x: Float[Array, " d"], num_seeds: int
) -> Float[Array, "s m p p"]:
    """Bₖ = ∇²fₖ/√m of the neurons that the output reads, for many weights before them."""
    draws = jax.random.normal(key, (num_seeds, graph.num_weights))
    return jax.jit(jax.vmap(lambda weights: curvature.dag_series(graph, weights, x)))(draws)


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


def _moved(
    key: RandomKey, matrices: Float[Array, "m p p"], config: Config
) -> tuple[Float[Array, " q"], Scalar]:
    """Norms of a series in many draws, moved by R in the worst direction, and their bound."""
    draws = jax.random.normal(key, (config.num_draws, len(matrices)))
    variance = curvature.series_variance(matrices)
    t = _distance(variance, sum(matrices.shape[1:]), config.failure)
    bound = curvature.series_bound(matrices, t, config.radius).value
    return _moved_norms(matrices, draws, config.radius), bound


@jax.jit
def _moved_norms(
    matrices: Float[Array, "m p p"], draws: Float[Array, "q m"], radius: Scalar
) -> Float[Array, " q"]:
    """‖Σ (γₖ + Δₖ)Bₖ‖ with the worst Δ of length R."""

    def one(gamma: Float[Array, " m"]) -> Float[Array, ""]:
        moved = gamma + curvature.worst_move(matrices, gamma, radius)
        return jnp.linalg.norm(jnp.einsum("k,kij->ij", moved, matrices), 2)

    return jax.lax.map(one, draws)


def _columns(key: RandomKey, matrices: Float[Array, "m p p"], config: Config) -> Float[Array, " q"]:
    """‖[B₁a₁ … Bₘaₘ]‖, moved by R along its top vectors, over its bound with C = √2.

    Chevet's inequality has the failure exp(−t²/2); √2 makes that the stated exp(−t²).
    """
    t = math.sqrt(math.log(2 / config.failure))
    bound = curvature.columns_bound(matrices, t, config.radius, math.sqrt(2)).value

    def one(key: RandomKey) -> Float[Array, ""]:
        m, p = matrices.shape[:2]
        a = jax.random.normal(key, (m * p,)).reshape(m, p)
        u, _, vt = jnp.linalg.svd(jnp.einsum("mij,mj->im", matrices, a), full_matrices=False)
        uphill = jnp.einsum("i,mij,m->mj", u[:, 0], matrices, vt[0])
        moved = a + config.radius * uphill / jnp.linalg.norm(uphill)
        return jnp.linalg.norm(jnp.einsum("mij,mj->im", matrices, moved), 2)

    keys = jax.random.split(key, config.num_draws)
    return jax.jit(lambda keys: jax.lax.map(one, keys))(keys) / bound


def _counts(
    image: Float[Measured, "p m"], draws: Float[Measured, "q m"], config: Config
) -> dict[str, Any]:
    """How often each of the other bounds fails, and how near the image comes to its own."""
    radius, failure, size = config.radius, config.failure, draws.shape[1]
    b = np.full(size, 0.2 / math.sqrt(size))  # ν = ‖b‖² = 0.04, below 1
    t = _distance(0.04, 2, failure)
    far = float(np.linalg.norm(image, 2)) * math.sqrt(2 * math.log(1 / failure))
    bounds = jax.jit(
        lambda b, image: (
            curvature.form_bound(b, t, radius).value,
            curvature.image_bound(image, far, radius).value,
            curvature.series_bound(b[:, None, None], t, radius).value,
        )
    )
    form_bound, image_bound, series_bound = map(float, bounds(b, image))
    form = np.abs(draws @ b) + radius * 0.2  # moved in the worst direction
    top = np.linalg.svd(image)[2][0]
    moves = radius * np.where(draws @ top > 0, 1.0, -1.0)[:, None] * top[None, :]
    moved = np.linalg.norm((draws + moves) @ image.T, axis=1)
    failed = {
        "unmoved": form > t,
        "form": form > form_bound,
        "printed_series": form > t + radius * 0.04,
        "corrected_series": form > series_bound,
    }
    counts = {name: int(each.sum()) for name, each in failed.items()}
    return counts | {"image": moved / image_bound}


def _ratios(result: Result) -> Float[Measured, "g q"]:
    """Norms of the Hessian's series over their bounds, by kind of graph."""
    return result.norms / result.bounds[:, None]


def _seldom(ratios: Float[Measured, "*g q"], config: Config):
    """Draws exceed a bound with the stated probability at most, also where they do most often."""
    exceeded = np.atleast_2d(~(ratios <= 1)).sum(axis=1).max()  # NaN is beyond
    return probability_at_most(exceeded, config.num_draws, config.failure)


def _reaches(ratios: Float[Measured, "*g q"], share: float, config: Config):
    """Draws exceed this share of a bound more often than is stated for the bound, everywhere."""
    within = np.atleast_2d(~(ratios > share)).sum(axis=1).max()
    return probability_at_most(within, config.num_draws, 1 - config.failure)


CLAIMS = (
    SERIES.claim(
        "The Hessian's series exceeds t + R√ν as seldom as stated, on every kind of graph.",
        lambda r, c: _seldom(_ratios(r), c),
        demand="source",
    ),
    SERIES.control(
        "Half of that bound is exceeded more often than stated, on every kind of graph.",
        lambda r, c: _reaches(_ratios(r), 0.5, c),
        demand="lab: half, chosen before the first run",
    ),
    ORDER.claim(
        "The variance ν of the series is of the order of one over the width or less.",
        lambda r, c: exponent_between(c.widths, r.variances, -math.inf, -0.7),
        formula=r"\nu = \tilde O(1/m)",
        demand="lab: −1 and 0.3 for logarithms, twice what is left to the norm",
    ),
    FORM.claim(
        "A Gaussian form exceeds t + ‖b‖R as seldom as stated.",
        lambda r, c: probability_at_most(r.form, c.num_draws, c.failure),
        formula=r"P(|(a + \Delta)^T b| > t + \|b\| R) \le 2 e^{-t^2/2\|b\|^2}",
        demand="source",
    ),
    FORM.control(
        "Without ‖b‖R it is exceeded in more than half of the draws.",
        lambda r, c: probability_at_most(c.num_draws - r.unmoved, c.num_draws, 0.5),
        demand="derived: R = 3 standard deviations against t = 2.7 of them",
    ),
    IMAGE.claim(
        "The image of a Gaussian vector, moved by R, exceeds t + ‖B‖_F + ‖B‖R as seldom as stated.",
        lambda r, c: _seldom(r.image, c),
        demand="derived: the source leaves c open; Gaussian concentration gives c = 1/2",
    ),
    COLUMNS.claim(
        "Columns B₁a₁, …, moved by R, exceed their bound as seldom as stated, with C = √2.",
        lambda r, c: _seldom(r.columns, c),
        demand="derived: the source leaves C open; by Chevet's inequality √2 is enough",
    ),
    COLUMNS.control(
        "Half of the image's bound and a third of the columns' are exceeded too often.",
        lambda r, c: _reaches(np.stack([r.image / 0.5, r.columns / (1 / 3)]), 1.0, c),
        demand="lab: a half chosen before the first run, a third after it (seed 0)",
    ),
    *SERIES.erratum(
        printed=(
            "A series of one direction exceeds t + Rν as seldom as stated, with ν < 1.",
            lambda r, c: probability_at_most(r.printed_series, c.num_draws, c.failure),
            r"\|Z\| \le t + R\nu",
        ),
        corrected=(
            "It exceeds t + R√ν as seldom as stated.",
            lambda r, c: probability_at_most(r.corrected_series, c.num_draws, c.failure),
            r"\|Z\| \le t + R\sqrt\nu",
        ),
        quote="Then we have for any t ≥ 0, with probability at least … ‖Z‖ ≤ t + R",
    ),
    *NEURONS.erratum(
        printed=(
            "Lipschitz φ′ and φ″ keep a first neuron at the order of R: z² has them.",
            lambda r, c: between(power_law(RADII, r.square_neuron).exponent, 0.0, 1.1),
            r"|f_v| = O((\log m + R)^\ell)",
        ),
        corrected=(
            "Lipschitz φ and φ′ do: softplus has them.",
            lambda r, c: between(power_law(RADII, r.softplus_neuron).exponent, 0.0, 1.1),
        ),
        quote="the following Lipschitz continuity and smoothness conditions are satisfied",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Norms of the series over their bound, and its variance over widths."""
    figure, (norms, variance) = panels("norm of the Hessian's series / bound", "its variance ν")
    for name, each in zip(NAMES, _ratios(result), strict=True):
        norms.hist(each, bins=40, histtype="step", label=name)
    norms.axvline(1.0, **THEORY)
    norms.legend(fontsize=6)
    scaling(variance, config.widths, {"fully connected": result.variances}, exponent=-1.0)
    label_axes(variance, "width m")
    return figure
