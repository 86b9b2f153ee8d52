"""Networks on graphs, compiled: one matrix product for every layer of the graph.

`dag_network` makes a `Model` whose parameters are one vector, the weights of the graph in their
order. A layer whose vertices all read the same ones is a plain matrix product; otherwise its
matrix is gathered from the weights with zeros between; or, where it would be nearly empty, its
edges are summed one by one.

`wire` writes many graphs as arrays of one shape, so that one compiled program is enough for
all of them: networks of many widths and architectures then cost the compilation of one.

Source: zhu · dag-net · Defs 2.2.1–2.2.6.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theorylab.typing import Params

from .activations import Elementwise, activation
from .dags import Dag
from .network import Model
from .parameters import Parameter, initialize
from .parametrization import Scaling

Written = Array | np.ndarray  # on the host first, then on the device
_SPARSE = 8  # a matrix with fewer than one in eight entries is not written out


class DagLayer(NamedTuple):
    """One layer of a graph: its vertices, and the edges into them by places.

    The place of a vertex is its number in the order of the layers, in which values are computed.

    Args:
        vertices: The vertices.
        sources: The place that every edge reads.
        targets: Which of the vertices every edge goes to.
        weights: The number of every edge's weight.
        shortcuts: The place that the shortcut of every vertex reads; -1 without one.
    """

    vertices: Int[np.ndarray, " v"]
    sources: Int[np.ndarray, " e"]
    targets: Int[np.ndarray, " e"]
    weights: Int[np.ndarray, " e"]
    shortcuts: Int[np.ndarray, " v"]


def dag_network(graph: Dag) -> Model:
    """Make a network of a graph: weights N(0, 1), scaled by the in-degree of the vertex they enter.

    Args:
        graph: The graph; inputs have shape (n, d), outputs (n, k).

    Example:
        >>> from theorylab.models.dag_builders import fully_connected
        >>> model = dag_network(fully_connected(3, [8, 8], num_outputs=2))
        >>> weights = model.init(jax.random.key(0))
        >>> weights.shape, model.apply(weights, jnp.ones((5, 3))).shape
        ((104,), (5, 2))
    """
    places = _places(graph)
    steps = [_step(graph, layer, _functions(graph, layer)) for layer in layers(graph, places)]
    num_inputs, outputs = len(graph.inputs), places[graph.outputs]
    parameters = Parameter((graph.num_weights,), "hidden", Scaling(1.0, 1.0, 1.0), "normal")

    def apply(params: Params, x: Float[Array, "n d"]) -> Float[Array, "n k"]:
        if x.ndim != 2 or x.shape[1] != num_inputs:
            raise ValueError(f"inputs must have shape (n, {num_inputs}), got {x.shape}.")
        if jnp.shape(params) != (graph.num_weights,):
            raise ValueError(
                f"weights must have shape ({graph.num_weights},), got {jnp.shape(params)}."
            )
        values = x
        for step in steps:
            values = jnp.concatenate([values, step(params, values)], axis=1)
        return values[:, outputs]

    return Model(
        init=lambda key: initialize(key, parameters),
        apply=apply,
        learning_rates=lambda params: jax.tree.map(lambda _: 1.0, params),
        parameters=parameters,
        noisy=lambda params, x, key: apply(params, x),
    )


class Wiring(NamedTuple):
    """A graph as arrays; those of `wire` have a leading axis of graphs.

    Args:
        numbers: For every entry of the vector of weights: which weight of the graph it is; −1 if
            it is none, and does nothing.
        reads: For every entry of the layers' matrices: which entry of the vector it reads, one
            more than there are for 0. Empty if no weights are shared: then they are the vector.
        scales: For every layer: 1/√in(v), 0 where there is no vertex.
        linear: For every layer: which vertices have the identity as activation.
        shortcuts: For every layer: the place that a vertex's shortcut reads; without, the next.
        outputs: The places of the outputs.
    """

    numbers: Int[Written, "*g p"]
    reads: Int[Written, "*g r"]
    scales: tuple[Float[Written, "*g v"], ...]
    linear: tuple[Bool[Written, "*g v"], ...]
    shortcuts: tuple[Int[Written, "*g v"], ...]
    outputs: Int[Written, "*g k"]


class Frame(NamedTuple):
    """What graphs that are wired together share.

    Args:
        sizes: The number of vertices of every layer, from the inputs on.
        starts: The place of the first vertex of every layer, and the number of all.
        lows: For every layer with weights: the first place that some graph reads there.
    """

    sizes: list[int]
    starts: Int[np.ndarray, " l"]
    lows: list[int]

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """The shape of every layer's matrix: sources by vertices."""
        pairs = zip(self.starts[1:-1].tolist(), self.lows, self.sizes[1:], strict=True)
        return [(start - low, size) for start, low, size in pairs]


Wired = Callable[[Wiring, Float[Array, " p"], Float[Array, "n d"]], Float[Array, "n k"]]


def wire(graphs: Sequence[Dag]) -> tuple[Wired, Wiring]:
    """Write graphs as arrays of one shape, and give the function that computes all of them.

    Args:
        graphs: Graphs with the same number of inputs and of outputs and with one activation, to
            which single vertices may prefer the identity. The number and the size of layers may
            differ; what a graph lacks is filled with vertices that nothing reads.

    Returns:
        (wiring, weights, x) ─► outputs, and the wirings of all graphs, stacked.

    Example:
        >>> from theorylab.models.dag_builders import fully_connected
        >>> apply, wirings = wire([fully_connected(2, [width]) for width in (3, 5)])
        >>> first = jax.tree.map(lambda leaf: leaf[0], wirings)
        >>> apply(first, jnp.ones(first.numbers.shape), jnp.ones((4, 2))).shape
        (4, 1)
    """
    _check_alike(graphs)
    depth = max(each.depth for each in graphs)
    sizes = np.max([each.layer_sizes + (0,) * (depth - each.depth) for each in graphs], axis=0)
    starts = np.cumsum([0, *sizes])
    different = {id(each): each for each in graphs}  # one graph may come with many seeds
    placed = {name: _padded_places(each, starts) for name, each in different.items()}
    read = {name: layers(each, placed[name]) for name, each in different.items()}
    lows = [
        min(int(every[at].sources.min()) for every in read.values() if at < len(every))
        for at in range(depth)
    ]
    frame = Frame(sizes.tolist(), starts, lows)
    shared = any(each.num_weights < len(each.edges) for each in graphs)
    most = max(each.num_weights for each in graphs) if shared else None
    found = {
        name: _wiring(each, placed[name], read[name], frame, most)
        for name, each in different.items()
    }
    wirings = [found[id(each)] for each in graphs]
    phi = activation(graphs[0].activation)
    cuts = np.cumsum([math.prod(shape) for shape in frame.shapes])[:-1]

    def apply(wiring: Wiring, weights: Float[Array, " p"], x: Float[Array, "n d"]):
        entries = jnp.where(wiring.numbers < 0, 0.0, weights)
        if shared:
            entries = jnp.append(entries, 0.0)[wiring.reads]
        values = x
        for layer, flat in enumerate(jnp.split(entries, cuts)):
            matrix = flat.reshape(frame.shapes[layer])
            before = values[:, lows[layer] :] @ matrix * wiring.scales[layer][None, :]
            after = jnp.where(wiring.linear[layer][None, :], before, phi(before))
            padded = jnp.pad(values, ((0, 0), (0, 1)))
            after = after + padded[:, wiring.shortcuts[layer]]
            values = jnp.concatenate([values, after], axis=1)
        return values[:, wiring.outputs]

    return apply, jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *wirings)


def layers(graph: Dag, places: Int[np.ndarray, " v"]) -> list[DagLayer]:
    """The layers of a graph from the first on, with the places of its vertices as given.

    Example:
        >>> from theorylab.models.dag_builders import fully_connected
        >>> small = fully_connected(2, [3])
        >>> [len(layer.vertices) for layer in layers(small, np.arange(small.num_vertices))]
        [3, 1]
    """
    found = []
    shortcut_of = np.full(graph.num_vertices, -1)
    shortcut_of[graph.shortcuts[:, 1]] = places[graph.shortcuts[:, 0]]
    into = graph.layers[graph.edges[:, 1]]
    for layer in range(1, graph.depth + 1):
        vertices = np.flatnonzero(graph.layers == layer)
        at = into == layer
        found.append(
            DagLayer(
                vertices=vertices,
                sources=places[graph.edges[at, 0]],
                targets=np.searchsorted(vertices, graph.edges[at, 1]),
                weights=graph.weights[at],
                shortcuts=shortcut_of[vertices],
            )
        )
    return found


def _places(graph: Dag) -> Int[np.ndarray, " v"]:
    """Inputs in their own order, then layer by layer."""
    return _padded_places(graph, np.cumsum([0, *graph.layer_sizes]))


def _padded_places(graph: Dag, starts: Int[np.ndarray, " l"]) -> Int[np.ndarray, " v"]:
    places = np.zeros(graph.num_vertices, int)
    places[graph.inputs] = np.arange(len(graph.inputs))
    for layer in range(1, graph.depth + 1):
        vertices = np.flatnonzero(graph.layers == layer)
        places[vertices] = starts[layer] + np.arange(len(vertices))
    return places


def _functions(graph: Dag, layer: DagLayer) -> list[Elementwise]:
    """The activation of every vertex of a layer."""
    outputs = set(graph.outputs.tolist())
    return [
        activation("identity" if v in outputs else graph.activations.get(v, graph.activation))
        for v in layer.vertices.tolist()
    ]


def _step(graph: Dag, layer: DagLayer, functions: list[Elementwise]):
    """(weights, values so far) ─► the values of one layer."""
    product = _product(layer)
    scales = graph.in_degrees[layer.vertices] ** -0.5
    shortcuts = np.flatnonzero(layer.shortcuts >= 0)

    def step(weights: Float[Array, " p"], values: Float[Array, "n s"]) -> Float[Array, "n v"]:
        # One number where it is one, as in any fully connected network, to the last bit.
        scale = float(scales[0]) if (scales == scales[0]).all() else jnp.asarray(scales)[None, :]
        after = _activated(functions, scale * product(weights, values))
        if shortcuts.size:
            after = after.at[:, shortcuts].add(values[:, layer.shortcuts[shortcuts]])
        return after

    return step


def _product(layer: DagLayer) -> Callable[[Float[Array, " p"], Array], Array]:
    """(weights, values so far) ─► Σ w f of every vertex: whole, gathered or edge by edge."""
    used, rows = np.unique(layer.sources, return_inverse=True)
    size = len(used), len(layer.vertices)
    whole = np.array_equal(used, np.arange(used[0], used[0] + len(used)))
    slots = slice(int(used[0]), int(used[-1]) + 1) if whole else used
    if math.prod(size) > _SPARSE * len(layer.sources):

        def edge_by_edge(weights: Float[Array, " p"], values: Float[Array, "n s"]):
            terms = values[:, layer.sources] * weights[layer.weights][None, :]
            return jax.ops.segment_sum(terms.T, layer.targets, size[1]).T

        return edge_by_edge
    numbers = np.full(size, -1)
    numbers[rows, layer.targets] = layer.weights
    first = int(numbers.min())
    if first >= 0 and np.array_equal(numbers, first + np.arange(math.prod(size)).reshape(size)):
        return lambda weights, values: (
            values[:, slots] @ weights[first : first + math.prod(size)].reshape(size)
        )
    return lambda weights, values: values[:, slots] @ jnp.append(weights, 0.0)[numbers]


def _activated(functions: list[Elementwise], before: Float[Array, "n v"]) -> Float[Array, "n v"]:
    """φ_v of every column, each function computed once."""
    different = list(dict.fromkeys(functions))
    after = different[0](before)
    for function in different[1:]:
        here = np.array([each == function for each in functions])
        after = jnp.where(here[None, :], function(before), after)
    return after


def _wiring(
    graph: Dag,
    places: Int[np.ndarray, " v"],
    read: list[DagLayer],
    frame: Frame,
    most: int | None,
) -> Wiring:
    """One graph as arrays of the common sizes; with shared weights there are at most `most`."""
    matrices = [np.full(shape, -1, np.int32) for shape in frame.shapes]
    scales = [np.zeros(size, jnp.result_type(float)) for size in frame.sizes[1:]]
    linear = [np.zeros(size, bool) for size in frame.sizes[1:]]
    shortcuts = [
        np.full(size, start, np.int32)
        for size, start in zip(frame.sizes[1:], frame.starts[1:-1], strict=True)
    ]
    identity = activation("identity")
    for at, layer in enumerate(read):
        count = len(layer.vertices)
        matrices[at][layer.sources - frame.lows[at], layer.targets] = layer.weights
        scales[at][:count] = graph.in_degrees[layer.vertices] ** -0.5
        linear[at][:count] = [phi is identity for phi in _functions(graph, layer)]
        has = layer.shortcuts >= 0
        shortcuts[at][:count][has] = layer.shortcuts[has]
    numbers = np.concatenate([matrix.ravel() for matrix in matrices])
    reads = np.zeros(0, np.int32)
    if most is not None:
        reads = np.where(numbers < 0, most, numbers)
        every = np.arange(most, dtype=np.int32)
        numbers = np.where(every < graph.num_weights, every, -1)
    outputs = places[graph.outputs].astype(np.int32)
    return Wiring(numbers, reads, tuple(scales), tuple(linear), tuple(shortcuts), outputs)


def _check_alike(graphs: Sequence[Dag]) -> None:
    if not graphs:
        raise ValueError("graphs must be at least one, got none.")
    for name in ("inputs", "outputs"):
        counts = {len(getattr(each, name)) for each in graphs}
        if len(counts) > 1:
            raise ValueError(f"graphs must have the same number of {name}, got {sorted(counts)}.")
    common = activation(graphs[0].activation)
    for each in graphs:
        others = {activation(phi) for phi in (each.activation, *each.activations.values())}
        if others - {common, activation("identity")}:
            raise ValueError("graphs must share one activation, beside the identity.")
