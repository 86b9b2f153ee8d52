"""The lemmas that make a wide network linear hold layer by layer, on graphs of several kinds.

The Hessian of a wide network is small because of what is true of its parts. What a neuron reads has
a length of the order of √in(v), and no single value is large. The derivative of all these values in
the weights of a layer p has a norm of the order of √(in(v)/m_q), m_q the least in-degree on the
way: it stays while layers grow alike, grows like √(M/m) where M neurons read a layer of m, and like
√M behind a narrow layer, which breaks the theorem. Blocks of the Hessian between two layers fall
like m^(−1/2) each, that of the last layer is 0, and together they bound the whole.

A neuron depends on no more weights than its in-degrees allow, however large the layers are; and a
sum Σ Uᵢ ∂f̃/∂f̃ᵢ over the m neurons of a layer stays bounded, because the signs of the weights
differ. If the matrices Uᵢ have these signs too, it grows like √m.

All this holds in a ball around the start. Networks whose layers grow alike are measured again at
its edge, where what the output reads grows fastest: there no norm grows faster with the width.

Source: zhu · dag-bounds · Lemmas A.2.1, A.2.2, A.9.1, A.11.1–A.11.3, A.11.10.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, exponent_between, holds, identity
from theorylab.curvature import DagBlocks, dag_blocks, dependence, dependence_bound, read_lengths
from theorylab.data import sphere
from theorylab.experiments.drawing import label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Plural, Positive, Seeded, within
from theorylab.models.dag_builders import densely_connected, fully_connected, random_dag
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey

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

    widths: Increasing[Annotated[int, within(8)]] = (12, 24, 48, 64)  # m of the first layer
    dimension: Count = 4  # inputs d
    num_seeds: Count = 20  # random networks of each kind and width
    num_steps: Plural = 8  # products with the Hessian for one norm
    radius: Positive = 1.0  # R, the distance from the start at which some networks are measured
    num_moved: Count = 20  # networks of each width there; of 8 an interval is ±0.2 wide


PRESETS = {
    "smoke": Config(widths=(8, 48), num_seeds=18, num_steps=6, num_moved=18),
    "paper": Config(widths=(16, 32, 64, 128, 256), dimension=16, num_seeds=20, num_steps=30),
}


class Result(NamedTuple):
    """Axes: v neurons, s seeds, g graphs, l layers, w widths, q draws."""

    start: DagBlocks  # every array of it by kind (`NAMES`), seed and width
    ball: DagBlocks  # at the distance R, layers that grow alike; by network and width
    degrees: Int[Measured, " v"]  # in-degrees in a graph where they differ, rising
    reads: Float[Measured, "s v"]  # ‖f_S‖ of its neurons
    margins: Float[Measured, "g l"]  # bound of A.9.1 over the count, less 1
    counts: Int[Measured, "s w"]  # weights that the output depends on, in-degrees 4
    totals: Int[Measured, "s w"]  # weights of these graphs
    series: Float[Measured, "q w"]  # ‖Σ Uᵢ ∂f̃/∂f̃ᵢ‖ with fixed U
    knowing: Float[Measured, "q w"]  # with Uᵢ = ± I that know the signs


def memory(config: Config) -> int:
    """Bytes of the wirings and of one network's Lanczos basis on each of two cores."""
    widest = max(config.widths)
    weights = round(widest**2.5) + widest * config.dimension
    num_graphs = (len(NAMES) * config.num_seeds + config.num_moved) * len(config.widths)
    return 4 * weights * (5 * num_graphs + 2 * (config.num_steps + 8))


def run(config: Config) -> Result:
    """Measure the parts of random networks."""
    keys = jax.random.split(jax.random.key(config.seed), 5)
    x_key, block_key, read_key, count_key, series_key = keys
    d = config.dimension
    x = sphere(x_key, 1, d, radius=math.sqrt(d))[0]
    report("blocks of the Hessian", 0.05)
    start, ball = _blocks(block_key, x, config)
    report("what neurons read and depend on", 0.8)
    degrees, reads = _reads(read_key, x, config)
    counts, totals = _counts(count_key, config)
    series, knowing = _series(series_key, x, config)
    return Result(
        start=start,
        ball=ball,
        degrees=degrees,
        reads=reads,
        margins=_margins(count_key, d),
        counts=counts,
        totals=totals,
        series=series,
        knowing=knowing,
    )


def _blocks(key: RandomKey, x: Float[Array, " d"], config: Config) -> tuple[DagBlocks, DagBlocks]:
    """What the outputs read and the blocks of their Hessians: at the start, and at distance R."""
    sizes = [[(m, m), (m, _more(m)), (2, _more(m))] for m in config.widths]
    build = partial(fully_connected, config.dimension, activation="softplus")
    kinds = [[build(pair) for pair in kind] for kind in zip(*sizes, strict=True)]
    started = [graph for kind in kinds for graph in kind * config.num_seeds]
    moved = kinds[EQUAL] * config.num_moved
    radii = [0.0] * len(started) + [config.radius] * len(moved)
    found = dag_blocks(started + moved, x, key, config.num_steps, num_probes=16, radii=radii)

    def shaped(part: slice, *shape: int) -> DagBlocks:
        whole = (*shape, len(config.widths))
        return DagBlocks(*(each[part].reshape(*whole, *each.shape[1:]) for each in found))

    start = shaped(slice(len(started)), len(NAMES), config.num_seeds)
    return start, shaped(slice(len(started), None), config.num_moved)


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


def _counts(key: RandomKey, config: Config) -> tuple[Int[Measured, "s w"], ...]:
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


def _margins(key: RandomKey, d: int) -> Float[Measured, "g l"]:
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
    return (np.stack(row, axis=1) for row in zip(*rows, strict=True))


# A slope has 0.15 on either side, as that of the whole Hessian. Where the largest of m Gaussian
# numbers comes in, √(2 log m) adds 1/(2 log m) to a slope, 0.1 to 0.2 at these widths.
CLAIMS = (
    READ.claim(
        "What a neuron reads has a length that grows like the root of its in-degree.",
        lambda r, c: exponent_between(c.widths, r.start.lengths[EQUAL], 0.35, 0.65),
        formula=r"\|f_S\| = \tilde O(\sqrt{\mathrm{in}(v)})",
    ),
    READ.claim(
        "So it does from neuron to neuron in one graph, with in-degrees from m to m^1.5.",
        lambda r, c: exponent_between(r.degrees, r.reads, 0.35, 0.65),
    ),
    NEURONS.claim(
        "The largest of the values grows no faster than the logarithm of the width.",
        lambda r, c: exponent_between(
            c.widths, r.start.largest[EQUAL] / np.log(c.widths), -1.0, 0.15
        ),
        formula=r"|f_u| = O((\log m)^\ell)",
    ),
    JACOBIAN.claim(
        "Their derivative in the first layer's weights keeps its norm if layers grow alike.",
        lambda r, c: exponent_between(c.widths, r.start.jacobians[EQUAL, ..., FIRST], -0.15, 0.3),
    ),
    JACOBIAN.claim(
        "If m^1.5 neurons read m, that norm grows like the root of their ratio, m^(1/4).",
        lambda r, c: exponent_between(c.widths, r.start.jacobians[SPREAD, ..., FIRST], 0.1, 0.4),
        formula=r"\sqrt{m_j / m_p} = m^{1/4}",
    ),
    JACOBIAN.claim(
        "In the weights of the layer that is read it stays even then: only layers above p count.",
        lambda r, c: exponent_between(c.widths, r.start.jacobians[SPREAD, ..., SECOND], -0.15, 0.3),
    ),
    JACOBIAN.claim(
        "The derivative's Frobenius norm grows like the root of the in-degree.",
        lambda r, c: exponent_between(
            r.start.in_degrees[SPREAD, 0], r.start.frobenius[SPREAD, ..., FIRST], 0.35, 0.65
        ),
        formula=r"\|\partial f_S / \partial w^{(p)}\|_F = \tilde O(\sqrt{\mathrm{in}(v)})",
    ),
    JACOBIAN.control(
        "Behind a layer of 2 neurons the norm itself grows like the root of the in-degree.",
        # Networks with two neurons in a layer differ much: a quarter on either side.
        lambda r, c: exponent_between(
            r.start.in_degrees[NARROW, 0], r.start.jacobians[NARROW, ..., FIRST], 0.25, 0.75
        ),
    ),
    BLOCKS.claim(
        "The largest block of the Hessian between two layers falls like m^(−1/2), and so do all.",
        lambda r, c: exponent_between(
            c.widths, r.start.norms[EQUAL].max(axis=(-2, -1)), -0.65, -0.2
        ),
        formula=r"\|\partial^2 f / \partial w^{(p)} \partial w^{(q)}\| = \tilde O(1/\sqrt m)",
    ),
    READ.claim(
        "At a distance R from the start, uphill, what a neuron reads grows no faster.",
        lambda r, c: exponent_between(c.widths, r.ball.lengths, -1.0, 0.65),
        formula=r"\|f_S\| = O(\sqrt{\mathrm{in}(v)} (\log m + R)^{\ell - 1})",
    ),
    JACOBIAN.claim(
        "There its derivative grows no faster, either.",
        lambda r, c: exponent_between(c.widths, r.ball.jacobians[..., FIRST], -1.0, 0.3),
    ),
    BLOCKS.claim(
        "There the largest of the blocks still falls with the width.",
        lambda r, c: exponent_between(c.widths, r.ball.norms.max(axis=(-2, -1)), -1.0, -0.2),
    ),
    SUM.claim(
        "The block of the last layer's weights with themselves is 0.",
        lambda r, c: identity(
            r.start.norms[EQUAL, ..., 2, 2], np.zeros_like(r.start.whole[EQUAL]), 1e-6
        ),
    ),
    SUM.claim(
        "The norm of the whole is at most the sum of those of all blocks.",
        lambda r, c: holds(r.start.norms[EQUAL].sum(axis=(-2, -1)) - r.start.whole[EQUAL], 1e-5),
    ),
    COUNT.claim(
        "A neuron depends on no more weights of a layer than the product of in-degrees, in 4 kinds"
        " of graphs.",
        lambda r, c: holds(r.margins),
    ),
    COUNT.claim(
        "If neurons read 4 others, that number does not grow with the layers.",
        lambda r, c: exponent_between(c.widths, r.counts, -0.1, 0.1),
    ),
    COUNT.control(
        "The number of all weights does.",
        lambda r, c: exponent_between(c.widths, r.totals, 0.9, 1.1),
    ),
    SERIES.claim(
        "A sum of m bounded matrices, weighted by derivatives, stays bounded.",
        lambda r, c: exponent_between(c.widths, r.series, -0.15, 0.15),
        formula=r"\|\sum_i U_i \, \partial\tilde f / \partial\tilde f_i\|"
        r" = \tilde O(\max_i \|U_i\|)",
    ),
    SERIES.control(
        "If the matrices know the signs of the weights, it grows like √m.",
        lambda r, c: exponent_between(c.widths, r.knowing, 0.35, 0.65),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Derivatives and blocks over the width."""
    figure, (jacobians, blocks) = panels("norm of the derivative", "blocks of the Hessian")
    norms = result.start.jacobians[..., FIRST]
    scaling(jacobians, config.widths, dict(zip(NAMES, norms, strict=True)))
    equal = result.start.norms[EQUAL]
    pairs = {f"layers {q + 1}, {p + 1}": equal[..., p, q] for p in range(3) for q in range(p + 1)}
    pairs.pop("layers 3, 3")  # it is 0
    scaling(blocks, config.widths, {"whole": result.start.whole[EQUAL], **pairs}, exponent=-0.5)
    for axis in (jacobians, blocks):
        label_axes(axis, "width m")
    return figure
