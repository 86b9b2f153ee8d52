"""Layer by layer through the proof that wide networks are linear: what neurons read and depend on.

The Hessian of a wide network is small because of what is true of its parts. What a neuron reads has
a length of the order of √in(v), and no single value is large. The derivative of all these values in
the weights of a layer p has a norm of the order of √(in(v)/m_q), m_q the least in-degree on the
way: it stays while layers grow alike, grows like √(M/m) where M neurons read a layer of m, and like
√M behind a narrow layer, which is why that breaks the theorem. Blocks of the Hessian between two
layers fall like m^(−1/2) each, that of the last layer is 0, and together they bound the whole.

A neuron depends on no more weights than its in-degrees allow, even if the layers are as large as
one likes; and a sum Σ Uᵢ ∂f̃/∂f̃ᵢ over the m neurons of a layer stays bounded, because the signs of
the weights differ. If the matrices Uᵢ know these signs, it grows like √m.

All this holds in a ball around the start. Networks whose layers grow alike are measured again at
its edge, where what the output reads grows fastest: there no norm grows faster with the width.

Source: zhu · dag-bounds · Lemmas A.2.1, A.2.2, A.9.1, A.11.1–A.11.3, A.11.10.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, exponent_between, holds, identity
from theorylab.curvature import (
    DagBlocks,
    dag_blocks,
    dependence,
    dependence_bound,
    read_lengths,
)
from theorylab.data import sphere
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Increasing, Plural, Positive, Seeded
from theorylab.models.dag_builders import densely_connected, fully_connected, random_dag
from theorylab.progress import report
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = (
    r"\left\| \partial f_S / \partial w^{(p)} \right\| ="
    r" \tilde O\left(\max_{p < q \le \ell} \sqrt{\mathrm{in}(v) / m_q}\right)"
)

JACOBIAN = Source("zhu", "dag-bounds", "Lemma A.2.1")
BLOCKS = Source("zhu", "dag-bounds", "Lemmas A.2.2, A.9.2")
COUNT = Source("zhu", "dag-bounds", "Lemma A.9.1")
SUM = Source("zhu", "dag-bounds", "Lemma A.11.1")
NEURONS = Source("zhu", "dag-bounds", "Lemma A.11.2")
READ = Source("zhu", "dag-bounds", "Lemma A.11.3")
SERIES = Source("zhu", "dag-bounds", "Lemma A.11.10")

NAMES = ("m, then m", "m, then m^1.5", "2, then m^1.5")  # the two hidden layers
EQUAL, SPREAD, NARROW = range(3)
FIRST, SECOND = range(2)  # layers of weights
FEW = 4  # in-degree of neurons that read little, and size of the matrices U


@dataclass(frozen=True)
class Config(Seeded):
    """Random softplus networks of two hidden layers that grow alike, or one faster."""

    widths: Increasing[Count] = (12, 24, 48, 64)  # neurons m of the first layer
    dimension: Count = 4  # inputs d
    num_seeds: Count = 20  # random networks of each kind and width
    num_steps: Plural = 8  # products with the Hessian for one norm
    radius: Positive = 1.0  # R, the distance from the start at which some networks are measured
    num_moved: Count = 20  # networks of each width there; of 8 an interval is ±0.2 wide

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.widths[0] < 8:
            raise ValueError(f"widths must be at least 8, got {self.widths}.")


PRESETS = {
    "smoke": Config(widths=(8, 48), num_seeds=18, num_steps=6, num_moved=18),
    "paper": Config(widths=(16, 32, 64, 128, 256), dimension=16, num_seeds=20, num_steps=30),
}


class Result(NamedTuple):
    """Axes: a kinds (`NAMES`), s, r seeds, w widths, l layers, v neurons, g graphs, q draws."""

    in_degrees: Int[np.ndarray, "a w"]  # of the output
    lengths: Float[np.ndarray, "a s w"]  # ‖f_S‖ of what it reads
    largest: Float[np.ndarray, "a s w"]  # max |f_u|
    jacobians: Float[np.ndarray, "a s w l"]  # ‖∂f_S/∂w⁽ᵖ⁾‖, p = 1, 2
    frobenius: Float[np.ndarray, "a s w l"]
    whole: Float[np.ndarray, "s w"]  # ‖∇²f‖ of layers that grow alike
    blocks: Float[np.ndarray, "s w 3 3"]  # and of its blocks
    ball_lengths: Float[np.ndarray, "r w"]  # ‖f_S‖ at the distance R, layers that grow alike
    ball_jacobians: Float[np.ndarray, "r w"]  # ‖∂f_S/∂w⁽¹⁾‖ there
    ball_blocks: Float[np.ndarray, "r w"]  # the largest block there
    degrees: Int[np.ndarray, " v"]  # in-degrees in a graph where they differ, rising
    reads: Float[np.ndarray, "s v"]  # ‖f_S‖ of its neurons
    margins: Float[np.ndarray, "g l"]  # bound of A.9.1 over the count, less 1
    counts: Int[np.ndarray, "s w"]  # weights that the output depends on, in-degrees 4
    totals: Int[np.ndarray, "s w"]  # weights of these graphs
    series: Float[np.ndarray, "q w"]  # ‖Σ Uᵢ ∂f̃/∂f̃ᵢ‖ with fixed U
    knowing: Float[np.ndarray, "q w"]  # with Uᵢ = ± I that know the signs


def memory(config: Config) -> int:
    """Bytes of the wirings and of one network's Lanczos basis on each of two cores."""
    widest = max(config.widths)
    weights = round(widest**2.5) + widest * config.dimension
    num_graphs = (len(NAMES) * config.num_seeds + config.num_moved) * len(config.widths)
    return 4 * weights * (5 * num_graphs + 2 * (config.num_steps + 8))


def run(config: Config) -> Result:
    """Measure the parts of random networks."""
    x_key, block_key, read_key, count_key, series_key = jax.random.split(
        jax.random.key(config.seed), 5
    )
    d = config.dimension
    x = sphere(x_key, 1, d, radius=math.sqrt(d))[0]
    report("blocks of the Hessian", 0.05)
    sizes = [[(m, m), (m, _more(m)), (2, _more(m))] for m in config.widths]
    shape = (len(NAMES), config.num_seeds, len(config.widths))
    build = partial(fully_connected, d, activation="softplus")
    chosen = [[build(pair[kind]) for pair in sizes] for kind in range(len(NAMES))]
    graphs = [graph for kind in chosen for graph in kind * config.num_seeds]
    num_started = len(graphs)
    graphs += chosen[EQUAL] * config.num_moved  # at the distance R
    radii = [0.0] * num_started + [config.radius] * (len(graphs) - num_started)
    everywhere = dag_blocks(graphs, x, block_key, config.num_steps, num_probes=16, radii=radii)
    found = DagBlocks(*(part[:num_started] for part in everywhere))
    ball = DagBlocks(*(part[num_started:] for part in everywhere))
    blocks = found.norms.reshape(*shape, 3, 3)
    report("what neurons read and depend on", 0.8)
    degrees, reads = _reads(read_key, x, config)
    counts, totals = _counts(count_key, config)
    series, knowing = _series(series_key, x, config)
    return Result(
        in_degrees=found.in_degrees.reshape(shape)[:, 0],
        lengths=found.lengths.reshape(shape),
        largest=found.largest.reshape(shape),
        jacobians=found.jacobians.reshape(*shape, 3)[..., :2],
        frobenius=found.frobenius.reshape(*shape, 3)[..., :2],
        whole=found.whole.reshape(shape)[EQUAL],
        blocks=blocks[EQUAL],
        ball_lengths=ball.lengths.reshape(config.num_moved, -1),
        ball_jacobians=ball.jacobians[:, FIRST].reshape(config.num_moved, -1),
        ball_blocks=ball.norms.max(axis=(1, 2)).reshape(config.num_moved, -1),
        degrees=degrees,
        reads=reads,
        margins=_margins(count_key, d),
        counts=counts,
        totals=totals,
        series=series,
        knowing=knowing,
    )


def _more(width: int) -> int:
    return round(width**1.5)


def _reads(key: RandomKey, x: Float[Array, " d"], config: Config):
    """In-degrees from m to m^1.5 in one graph, and ‖f_S‖ of its neurons for many weights."""
    graph_key, weight_key = jax.random.split(key)
    m = config.widths[-1]
    sizes, in_degrees = [_more(m), m], (m, _more(m))
    uneven = random_dag(graph_key, len(x), sizes, in_degrees, activation="softplus")
    draws = jax.random.normal(weight_key, (config.num_seeds, uneven.num_weights))
    lengths = jax.jit(jax.vmap(lambda weights: read_lengths(uneven, weights, x, 2)))(draws)
    degrees = uneven.in_degrees[uneven.layers == 2]
    order = np.argsort(degrees, kind="stable")
    return degrees[order], np.asarray(lengths)[:, order]


def _counts(key: RandomKey, config: Config) -> tuple[Int[np.ndarray, "s w"], ...]:
    """Weights that an output depends on where neurons read few, and all weights, over m."""
    rows = []
    for seed_key in jax.random.split(key, config.num_seeds):
        graphs = [
            random_dag(seed_key, config.dimension, [16 * m] * 2, (FEW, FEW), FEW)
            for m in config.widths
        ]
        counts = [dependence(graph, int(graph.outputs[0])).sum() for graph in graphs]
        rows.append((counts, [graph.num_weights for graph in graphs]))
    counts, totals = np.transpose(np.array(rows), (1, 0, 2))
    return counts, totals


def _margins(key: RandomKey, d: int) -> Float[np.ndarray, "g l"]:
    """How far counts stay below the products of in-degrees, in graphs of three layers."""
    graphs = [
        fully_connected(d, [12, 30]),
        densely_connected(d, [12, 30]),
        random_dag(key, d, [60, 15], (15, 60)),
        random_dag(key, d, [60, 15], (FEW, FEW), FEW),
    ]
    pairs = [(graph, int(graph.outputs[0])) for graph in graphs]
    return np.stack([dependence_bound(*pair) / dependence(*pair) - 1 for pair in pairs])


def _series(key: RandomKey, x: Float[Array, " d"], config: Config):
    """‖Σ Uᵢ gᵢ‖ with g = ∂f̃/∂f̃⁽¹⁾, 4m neurons: Uᵢ fixed of norm 1, and Uᵢ = sign(gᵢ) I."""

    def one(m: int, key: RandomKey) -> tuple[Float[Array, ""], Float[Array, ""]]:
        weight_key, matrix_key = jax.random.split(key)
        drawn = jax.random.normal(weight_key, (m * (len(x) + m + 1),))
        inner, middle, outer = jnp.split(drawn, [m * len(x), m * (len(x) + m)])
        before = x @ inner.reshape(-1, m) / math.sqrt(len(x))

        def output(before: Float[Array, " m"]) -> Float[Array, ""]:
            second = jax.nn.softplus(before) @ middle.reshape(m, m) / math.sqrt(m)
            return jax.nn.softplus(second) @ outer / math.sqrt(m)

        g = jax.grad(output)(before)
        square = jax.random.normal(matrix_key, (m * FEW**2,)).reshape(m, FEW, FEW)
        units = square / jnp.linalg.norm(square, 2, axis=(1, 2))[:, None, None]
        return jnp.linalg.norm(jnp.einsum("i,ijk->jk", g, units), 2), jnp.abs(g).sum()

    keys = jax.random.split(key, 4 * config.num_seeds)  # they cost nothing
    rows = [jax.jit(jax.vmap(partial(one, 4 * m)))(keys) for m in config.widths]
    return tuple(np.stack([np.asarray(row[i]) for row in rows], axis=1) for i in range(2))


# A slope is given 0.15 on either side, as the catalogue gives the Hessian's. Where the largest of m
# Gaussian numbers comes in, √(2 log m) adds 1/(2 log m) to a slope, 0.1 to 0.2 at these widths.
CLAIMS = (
    Claim(
        "What a neuron reads has a length that grows like the root of its in-degree.",
        judge=lambda r, c: exponent_between(r.in_degrees[EQUAL], r.lengths[EQUAL], 0.35, 0.65),
        source=READ,
        formula=r"\|f_S\| = \tilde O(\sqrt{\mathrm{in}(v)})",
    ),
    Claim(
        "So it does from neuron to neuron in one graph, with in-degrees from m to m^1.5.",
        judge=lambda r, c: exponent_between(r.degrees, r.reads, 0.35, 0.65),
        source=READ,
    ),
    Claim(
        "The largest of the values grows no faster than the logarithm of the width.",
        judge=lambda r, c: exponent_between(
            c.widths, r.largest[EQUAL] / np.log(np.asarray(c.widths)), -1.0, 0.15
        ),
        source=NEURONS,
        formula=r"|f_u| = O((\log m)^\ell)",
    ),
    Claim(
        "Their derivative in the first layer's weights keeps its norm if layers grow alike.",
        judge=lambda r, c: exponent_between(c.widths, r.jacobians[EQUAL, ..., FIRST], -0.15, 0.3),
        source=JACOBIAN,
    ),
    Claim(
        "If m^1.5 neurons read m, that norm grows like the root of their ratio, m^(1/4).",
        judge=lambda r, c: exponent_between(c.widths, r.jacobians[SPREAD, ..., FIRST], 0.1, 0.4),
        source=JACOBIAN,
        formula=r"\sqrt{m_j / m_p} = m^{1/4}",
    ),
    Claim(
        "In the weights of the layer that is read it stays even then: only layers above p count.",
        judge=lambda r, c: exponent_between(c.widths, r.jacobians[SPREAD, ..., SECOND], -0.15, 0.3),
        source=JACOBIAN,
    ),
    Claim(
        "The derivative's Frobenius norm grows like the root of the in-degree.",
        judge=lambda r, c: exponent_between(
            r.in_degrees[SPREAD], r.frobenius[SPREAD, ..., FIRST], 0.35, 0.65
        ),
        source=JACOBIAN,
        formula=r"\|\partial f_S / \partial w^{(p)}\|_F = \tilde O(\sqrt{\mathrm{in}(v)})",
    ),
    Claim(
        "Behind a layer of 2 neurons the norm itself grows like the root of the in-degree.",
        # Networks with two neurons in a layer differ much: a quarter on either side.
        judge=lambda r, c: exponent_between(
            r.in_degrees[NARROW], r.jacobians[NARROW, ..., FIRST], 0.25, 0.75
        ),
        source=JACOBIAN,
        kind="control",
    ),
    Claim(
        "The largest block of the Hessian between two layers falls like m^(−1/2), and so do all.",
        judge=lambda r, c: exponent_between(c.widths, r.blocks.max(axis=(-2, -1)), -0.65, -0.2),
        source=BLOCKS,
        formula=r"\|\partial^2 f / \partial w^{(p)} \partial w^{(q)}\| = \tilde O(1/\sqrt m)",
    ),
    Claim(
        "At a distance R from the start, uphill, what a neuron reads grows no faster.",
        judge=lambda r, c: exponent_between(r.in_degrees[EQUAL], r.ball_lengths, -1.0, 0.65),
        source=READ,
        formula=r"\|f_S\| = O(\sqrt{\mathrm{in}(v)} (\log m + R)^{\ell - 1})",
    ),
    Claim(
        "There its derivative grows no faster, either.",
        judge=lambda r, c: exponent_between(c.widths, r.ball_jacobians, -1.0, 0.3),
        source=JACOBIAN,
    ),
    Claim(
        "There the largest of the blocks still falls with the width.",
        judge=lambda r, c: exponent_between(c.widths, r.ball_blocks, -1.0, -0.2),
        source=BLOCKS,
    ),
    Claim(
        "The block of the last layer's weights with themselves is 0.",
        judge=lambda r, c: identity(r.blocks[..., 2, 2], np.zeros_like(r.whole), 1e-6),
        source=SUM,
    ),
    Claim(
        "The norm of the whole is at most the sum of those of all blocks.",
        judge=lambda r, c: holds(r.blocks.sum(axis=(-2, -1)) - r.whole, 1e-5),
        source=SUM,
    ),
    Claim(
        "A neuron depends on no more weights of a layer than the product of in-degrees, in 4 kinds"
        " of graphs.",
        judge=lambda r, c: holds(r.margins),
        source=COUNT,
    ),
    Claim(
        "If neurons read 4 others, that number does not grow with the layers.",
        judge=lambda r, c: exponent_between(c.widths, r.counts, -0.1, 0.1),
        source=COUNT,
    ),
    Claim(
        "The number of all weights does.",
        judge=lambda r, c: exponent_between(c.widths, r.totals, 0.9, 1.1),
        source=COUNT,
        kind="control",
    ),
    Claim(
        "A sum of m bounded matrices, weighted by derivatives, stays bounded.",
        judge=lambda r, c: exponent_between(c.widths, r.series, -0.15, 0.15),
        source=SERIES,
        formula=r"\|\sum_i U_i \, \partial\tilde f / \partial\tilde f_i\|"
        r" = \tilde O(\max_i \|U_i\|)",
    ),
    Claim(
        "If the matrices know the signs of the weights, it grows like √m.",
        judge=lambda r, c: exponent_between(c.widths, r.knowing, 0.35, 0.65),
        source=SERIES,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Lengths, derivatives and blocks over the width."""
    figure, (reads, jacobians, blocks) = panels(
        "length of what a neuron reads", "norm of its derivative", "blocks of the Hessian"
    )
    reads.loglog(
        result.degrees, np.median(result.reads, axis=0), ".", label="in-degrees m to m^1.5"
    )
    for kind, name in enumerate(NAMES):
        lengths = np.median(result.lengths[kind], axis=0)
        reads.loglog(result.in_degrees[kind], lengths, "o-", markersize=3, label=name)
        norms = np.median(result.jacobians[kind, ..., FIRST], axis=0)
        jacobians.loglog(config.widths, norms, "o-", markersize=3, label=name)
    for p in range(3):
        for q in range(min(p + 1, 2)):
            middle = np.median(result.blocks[..., p, q], axis=0)
            blocks.loglog(config.widths, middle, "o-", markersize=3, label=f"{q + 1}, {p + 1}")
    blocks.loglog(config.widths, np.median(result.whole, axis=0), **THEORY, label="whole")
    reads.set_xlabel("in-degree")
    jacobians.set_xlabel("width m")
    blocks.set_xlabel("width m")
    for axis in (reads, jacobians, blocks):
        axis.legend(fontsize=6)
    return figure
