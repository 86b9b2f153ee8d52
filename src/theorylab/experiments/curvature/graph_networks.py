"""Common architectures are networks on directed acyclic graphs, with the same outputs.

In a network on a graph every vertex v is a neuron, f_v = φ(f̃_v), and reads its predecessors:

    f̃_v = Σ_u w_(u,v) f_u / √in(v),    layer of v = length of the longest path from an input

Fully connected networks, DenseNets, networks with skip connections and CNNs are written here as
their own formulas, and as graphs with the same weights. The scale 1/√in(v) keeps every neuron of
order 1, whatever its in-degree.

Networks whose edges are dropped are printed with the sum over all edges and an indicator, and said
to be the network on the graph without these edges. That holds only if in(v) counts the edges that
remain.

Source: zhu · dag-net · Defs 2.2.1–2.2.7; zhu · dag-zoo · A.1, A.4, A.5.
"""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, exponent_between, identity
from theorylab.experiments.curvature import _formulas
from theorylab.experiments.drawing import agreement, label_axes, panels, scaling
from theorylab.fields import Count, Plural, Seeded, within
from theorylab.models import dag_network
from theorylab.models.dag_builders import (
    convolutional,
    densely_connected,
    drop_edges,
    fully_connected,
    random_dag,
    residual,
)
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = r"\tilde f_v = \frac{1}{\sqrt{\mathrm{in}(v)}} \sum_{u \in S_{in}(v)} w_{(u, v)} f_u"

LAYERS = Source("zhu", "dag-net", "Defs 2.2.1, 2.2.5")
NETWORK = Source("zhu", "dag-net", "Def. 2.2.2, Eq. 2.2")
WIDTH = Source("zhu", "dag-net", "Def. 2.2.7, Remark 2.2.8")
SCALE = Source("zhu", "dag-net", "2.2, Weight initialization")
EXAMPLES = Source("zhu", "dag-zoo", "A.1, Eqs A.4–A.6")
DROPPED = Source("zhu", "dag-zoo", "A.1, randomly dropped edges")
SKIP = Source("zhu", "dag-zoo", "A.4, Eq. A.12")
SHARED = Source("zhu", "dag-zoo", "A.5, Eq. A.15")

NAMES = ("random graph", "fully connected", "DenseNet", "edges dropped", "skip connections", "CNN")
RANDOM, FULL, DENSE, HALF, SKIPPING, SHARING = range(6)
DROP = 0.5  # probability of an edge to be dropped


@dataclass(frozen=True)
class Config(Seeded):
    """Small tanh networks of random sizes, as graphs and as formulas."""

    dimension: Plural = 4  # inputs d, or positions of the CNN
    width: Annotated[int, within(4)] = 12  # neurons of the larger hidden layers
    num_seeds: Count = 16  # networks of every kind
    num_draws: Plural = 400  # weights of one graph, for the size of its neurons


PRESETS = {
    "smoke": Config(width=8, num_seeds=6, num_draws=200),
    "paper": Config(dimension=16, width=32, num_seeds=20, num_draws=2000),
}


class Result(NamedTuple):
    """Axes: a kinds of networks (`NAMES`), s seeds, q groups of draws, v vertices."""

    on_graph: Float[Measured, "a s"]  # outputs of the network on the graph
    formula: Float[Measured, "a s"]  # the same by the architecture's own formula
    all_counted: Float[Measured, " s"]  # edges dropped, but in(v) counts all of them
    layers: Int[Measured, "s v"]  # of a random graph
    longest: Int[Measured, "s v"]  # the longest path to every vertex, by trying all paths
    shortest: Int[Measured, "s v"]
    widths: Int[Measured, " s"]  # of fully connected graphs
    smallest: Int[Measured, " s"]  # their smallest hidden layer
    dense_degrees: Int[Measured, "s 3"]  # in-degrees of a DenseNet, layer by layer
    sizes_before: Int[Measured, "s 3"]  # how many neurons are in all layers before
    degrees: Int[Measured, " v"]  # in-degrees of the second layer of one graph, rising
    sizes: Float[Measured, "q v"]  # root mean squares of f̃_v there, each over a tenth of the draws


def memory(config: Config) -> int:
    """Bytes of the weights of all draws of the graph whose neurons differ."""
    return 8 * 8 * config.num_draws * config.width**3


def run(config: Config) -> Result:
    """Build graphs, evaluate them, and evaluate the formulas with the same weights."""
    key, size_key = jax.random.split(jax.random.key(config.seed))
    rows = [_one(each, config) for each in jax.random.split(key, config.num_seeds)]
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    for name in ("on_graph", "formula"):
        stacked[name] = stacked[name].T
    degrees, sizes = _sizes(size_key, config)
    return Result(**stacked, degrees=degrees, sizes=sizes)


def _one(key: RandomKey, config: Config) -> dict[str, np.ndarray]:
    """Everything that one seed gives."""
    graph_key, weight_key, size_key = jax.random.split(key, 3)
    d, most = config.dimension, config.width
    n, m = map(int, jax.random.randint(size_key, (2,), most // 2, most + 1))
    whole = densely_connected(d, [n, m], activation="tanh")
    graphs = [
        random_dag(graph_key, d, [n, m], (2, n), activation="tanh"),
        fully_connected(d, [n, m], activation="tanh"),
        whole,
        drop_edges(graph_key, whole, DROP),
        residual(d, [m, m], activation="tanh"),
        convolutional(d, [n, m], _formulas.WINDOW, activation="tanh"),
    ]
    drawn = jax.random.normal(weight_key, (d + max(g.num_weights for g in graphs),))
    own = [drawn[d : d + g.num_weights] for g in graphs]
    pairs = zip(graphs, own, strict=True)
    outputs = [dag_network(g).apply(w, drawn[None, :d])[0, 0] for g, w in pairs]
    x, weights = np.asarray(drawn[:d]), np.asarray(drawn[d:])
    thinned, uneven = graphs[HALF], graphs[RANDOM]
    formulas = [
        _formulas.vertex_by_vertex(uneven, weights, x),
        _formulas.fully_connected(weights, x, (n, m)),
        _formulas.densenet(weights, x, (n, m)),
        _formulas.vertex_by_vertex(thinned, weights, x),
        _formulas.residual(weights, x, m),
        _formulas.cnn(weights, x, (n, m)),
    ]
    return {
        "on_graph": np.array(outputs),
        "formula": np.array(formulas),
        "all_counted": np.array(_formulas.vertex_by_vertex(thinned, weights, x, whole.in_degrees)),
        "layers": _padded(uneven.layers, config),
        "longest": _padded(_formulas.distances(uneven, max), config),
        "shortest": _padded(_formulas.distances(uneven, min), config),
        "widths": np.array(graphs[FULL].width),
        "smallest": np.array(min(n, m)),
        "dense_degrees": whole.in_degrees[[d, d + n, d + n + m]],
        "sizes_before": np.cumsum([d, n, m]),
    }


def _padded(numbers: Int[np.ndarray, " v"], config: Config) -> Int[np.ndarray, " w"]:
    """As many numbers for every seed, although graphs have different sizes."""
    return np.pad(numbers, (0, config.dimension + 2 * config.width + 1 - len(numbers)))


def _sizes(key: RandomKey, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """In-degrees from 2 to m², and root mean squares of the pre-activations that have them."""
    graph_key, weight_key = jax.random.split(key)
    m, d = config.width, config.dimension
    graph = random_dag(graph_key, d, [m * m, m], (2, m * m), activation="tanh")
    vertices = np.flatnonzero(graph.layers == 2)
    order = vertices[np.argsort(graph.in_degrees[vertices], kind="stable")]
    model = dag_network(dataclasses.replace(graph, outputs=order))
    draws = jax.random.normal(weight_key, (config.num_draws, graph.num_weights))
    x = jnp.ones((1, d))
    squares = np.asarray(jax.jit(jax.vmap(lambda w: model.apply(w, x)[0]))(draws)) ** 2
    # Ten groups of draws, each with its own mean: one row of sizes for every group.
    groups = np.stack([part.mean(axis=0) for part in np.array_split(squares, 10)])
    return graph.in_degrees[order], np.sqrt(groups)


def _same(kind: int):
    """Both outputs agree to rounding of float64, in every network."""
    return lambda r, c: identity(r.on_graph[kind], r.formula[kind], 1e-12)


CLAIMS = (
    LAYERS.claim(
        "The layer of a vertex is the length of the longest path that ends with it.",
        lambda r, c: identity(r.layers.astype(float), r.longest.astype(float), 0.0),
        quote="the maximum length of all paths that start from a vertex within",
    ),
    LAYERS.control(
        "It is not that of the shortest path: some vertex of some graph differs.",
        lambda r, c: at_least(np.count_nonzero(r.layers != r.shortest), 1),
    ),
    NETWORK.check("A random graph gives the sum over edges, vertex by vertex.", _same(RANDOM)),
    EXAMPLES.claim(
        "A fully connected network is a network on a graph: both have the same output.",
        _same(FULL),
        quote="many common neural networks are special examples of the feedforward neural networks",
        formula=r"f^{(\ell)} = \phi(W^{(\ell)} f^{(\ell - 1)} / \sqrt{m_{\ell - 1}})",
    ),
    EXAMPLES.claim("So is a DenseNet.", _same(DENSE)),
    SKIP.claim("So is a network with skip connections, with shortcuts added.", _same(SKIPPING)),
    SHARED.claim(
        "So is a CNN, with shared weights and zeros that count in the in-degree.",
        _same(SHARING),
        quote="includes standard CNN as a special example",
    ),
    *DROPPED.erratum(
        printed=(
            "With dropped edges and the in(v) of all edges, it is the network on the new graph.",
            lambda r, c: identity(r.on_graph[HALF], r.all_counted, 1e-12),
        ),
        corrected=(
            "With the in(v) of the edges that remain, it is the network on the new graph.",
            _same(HALF),
        ),
        quote="the new DAG network corresponds to the network with randomly dropped edges",
    ),
    WIDTH.claim(
        "The width of a fully connected network is the size of its smallest hidden layer.",
        lambda r, c: identity(r.widths.astype(float), r.smallest.astype(float), 0.0),
        quote="is the same as the minimum hidden layer size",
    ),
    EXAMPLES.claim(
        "The in-degree in a DenseNet is the number of all neurons before.",
        lambda r, c: identity(r.dense_degrees.astype(float), r.sizes_before.astype(float), 0.0),
        quote="makes the in-degree of the neuron be",
    ),
    SCALE.claim(
        "Neurons are of order 1 whatever their in-degree: their size does not depend on it.",
        lambda r, c: exponent_between(r.degrees, r.sizes, -0.1, 0.1),
        quote="to control the value of neurons to be of order",
        demand="derived: exponent 0; without the scale it would be 1/2, with 1/in(v) −1/2",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Outputs of both kinds, and the size of neurons over their in-degree."""
    figure, (outputs, sizes) = panels("output: formula and graph", "size of a neuron")
    pairs = zip(NAMES, result.formula, result.on_graph, strict=True)
    agreement(outputs, {name: (formula, found) for name, formula, found in pairs})
    scaling(sizes, result.degrees, {"pre-activation": result.sizes}, exponent=0.0)
    label_axes(sizes, "in-degree")
    return figure
