"""Directed acyclic graphs whose vertices are neurons and whose edges are weights.

    f_v = φ_v(f̃_v) + f_s(v),    f̃_v = 1/√in(v) Σ_{u ─► v} w_uv f_u

f_v is the value of vertex v and φ_v its activation, the identity at inputs and outputs. in(v) is
the vertex's own in-degree, not the size of any layer. s(v) is its shortcut, not trained, if it has
one. Layer ℓ holds the vertices whose *longest* path from an input has ℓ edges; a vertex may read
any earlier layer. The width m of the graph is the least in-degree in the layers from the second on
(Def. 2.2.7): neither the size of a layer nor the number of inputs.

`dag` makes one from edges, `read_dag` from a networkx graph, `dag_builders` from a few
numbers; `dag_network` makes it a network. The assumption on activations is printed with bounds
of φ″ and φ‴; what the theorems use is |φ′| ≤ γ₁ and |φ″| ≤ γ₂.

Source: zhu · dag-net · Defs 2.2.1–2.2.7, Assumption 2.3.2; zhu · dag-zoo · A.12, A.14.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from .activations import Elementwise, activation

Vertices = Sequence[int] | Int[np.ndarray, " _"]
Pairs = Sequence[tuple[int, int]] | np.ndarray  # two columns of whole numbers


@dataclass(frozen=True, eq=False)
class Dag:
    """A directed acyclic graph of neurons, numbered from 0; `dag` makes one with less writing.

    Args:
        num_vertices: The number of vertices.
        edges: One row (u, v) for every trained edge u ─► v.
        inputs: The vertices that hold the inputs, in the order of these.
        outputs: The vertices whose f̃_v are the outputs, in the order of these.
        weights: For every edge the number of its weight; edges with the same number share it.
        shortcuts: One row (u, v) for every shortcut, f_v = φ(f̃_v) + f_u; at most one for each v.
        padding: How many reads of every vertex carry 0, as at the border of an image; in(v)
            counts them.
        activation: φ of all vertices that `activations` does not name.
        activations: φ_v of single vertices.
        labels: What the vertices are called in messages.

    Example:
        >>> diamond = dag([(0, 1), (0, 2), (1, 3), (2, 3)])
        >>> diamond.depth, diamond.width, diamond.num_weights
        (2, 2, 4)
    """

    num_vertices: int
    edges: Int[np.ndarray, "e 2"]
    inputs: Int[np.ndarray, " d"]
    outputs: Int[np.ndarray, " k"]
    weights: Int[np.ndarray, " _"]  # checked below, with words
    shortcuts: Int[np.ndarray, "s 2"]
    padding: Int[np.ndarray, " v"]
    activation: str | Elementwise = "relu"
    activations: Mapping[int, str | Elementwise] = field(default_factory=dict)
    labels: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        _check_numbers(self)
        _check_connections(self)
        for function in (self.activation, *self.activations.values()):
            activation(function)  # says which names there are

    @property
    def num_weights(self) -> int:
        """How many weights are trained; those that edges share count once."""
        return int(self.weights.max()) + 1

    @functools.cached_property
    def in_degrees(self) -> Int[np.ndarray, " v"]:
        """in(v) of every vertex, 0 at inputs."""
        return np.bincount(self.edges[:, 1], minlength=self.num_vertices) + self.padding

    @functools.cached_property
    def layers(self) -> Int[np.ndarray, " v"]:
        """The layer of every vertex: the number of edges of the longest path from an input."""
        return _longest_paths(self)

    @property
    def depth(self) -> int:
        """The number of layers L that are not inputs."""
        return int(self.layers.max())

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """How many vertices every layer has, from the inputs on."""
        return tuple(np.bincount(self.layers).tolist())

    @property
    def width(self) -> int:
        """The width m = min in(v) over the layers 2, …, L.

        Example:
            >>> from theorylab.models.dag_builders import fully_connected
            >>> fully_connected(3, [100, 50]).width
            50
        """
        if self.depth < 2:
            raise ValueError(f"width needs a graph of at least 2 layers, got {self.depth}.")
        return int(self.in_degrees[self.layers >= 2].min())

    @property
    def in_degree_histogram(self) -> dict[int, int]:
        """How many vertices that are no inputs have each in-degree.

        Example:
            >>> dag([(0, 1), (0, 2), (1, 2)]).in_degree_histogram
            {1: 1, 2: 1}
        """
        degrees, counts = np.unique(self.in_degrees[self.layers > 0], return_counts=True)
        return dict(zip(degrees.tolist(), counts.tolist(), strict=True))

    def named(self, vertex: int | np.integer) -> Any:
        """What a vertex is called."""
        return int(vertex) if self.labels is None else self.labels[int(vertex)]


def dag(
    edges: Pairs,
    inputs: Vertices | None = None,
    outputs: Vertices | None = None,
    weights: Vertices | None = None,
    shortcuts: Pairs = (),
    padding: Vertices | None = None,
    activation: str | Elementwise = "relu",
    activations: Mapping[int, str | Elementwise] | None = None,
    num_vertices: int | None = None,
    labels: tuple[Any, ...] | None = None,
) -> Dag:
    """Make a `Dag`, which explains the arguments, from its edges.

    Without `inputs`, these are the vertices that read nothing; without `outputs`, those that
    nothing reads; without `weights`, every edge has its own, in the order of the edges.

    Example:
        >>> diamond = dag([(0, 1), (1, 2), (0, 3), (2, 3)])
        >>> diamond.layers.tolist(), diamond.in_degrees.tolist()
        ([0, 1, 2, 3], [0, 1, 1, 2])
    """
    edges, shortcuts = _pairs("edges", edges), _pairs("shortcuts", shortcuts)
    both = np.concatenate([edges, shortcuts])
    if num_vertices is None:
        num_vertices = int(both.max(initial=-1)) + 1
    every = np.arange(num_vertices)
    return Dag(
        num_vertices=num_vertices,
        edges=edges,
        inputs=np.setdiff1d(every, both[:, 1]) if inputs is None else _whole("inputs", inputs),
        outputs=np.setdiff1d(every, both[:, 0]) if outputs is None else _whole("outputs", outputs),
        weights=np.arange(len(edges)) if weights is None else _whole("weights", weights),
        shortcuts=shortcuts,
        padding=np.zeros(num_vertices, int) if padding is None else _whole("padding", padding),
        activation=activation,
        activations=activations or {},
        labels=labels,
    )


def read_dag(
    source: Any,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    shortcuts: Iterable[tuple[Any, Any]] = (),
    activation: str | Elementwise = "relu",
    activations: Mapping[Any, str | Elementwise] | None = None,
) -> Dag:
    """Read a networkx `DiGraph`, or any object with `nodes` and `edges`, whatever its labels.

    Args:
        source: The graph. Its vertices are numbered in the order of `source.nodes`, its weights in
            that of `source.edges`.
        inputs: Labels of the inputs; without, the vertices that read nothing.
        outputs: Labels of the outputs; without, the vertices that nothing reads.
        shortcuts: Pairs of labels.
        activation: φ of all vertices that `activations` does not name.
        activations: φ_v by label.

    Example:
        >>> import networkx
        >>> read_dag(networkx.DiGraph([("x", "h"), ("h", "y"), ("x", "y")])).layers.tolist()
        [0, 1, 2]
    """
    directed = getattr(source, "is_directed", None)
    if directed is not None and not directed():
        raise ValueError("source must be a directed graph, got an undirected one.")
    labels = tuple(source.nodes)
    number = {label: index for index, label in enumerate(labels)}

    def numbers(given: Iterable[Any]) -> list[int]:
        unknown = [label for label in given if label not in number]
        if unknown:
            raise ValueError(f"every label must be a vertex of source, got {unknown[0]!r}.")
        return [number[label] for label in given]

    return dag(
        [(number[edge[0]], number[edge[1]]) for edge in source.edges],
        None if inputs is None else numbers(inputs),
        None if outputs is None else numbers(outputs),
        shortcuts=[(first, last) for first, last in map(numbers, shortcuts)],
        activation=activation,
        activations={numbers([label])[0]: phi for label, phi in (activations or {}).items()},
        num_vertices=len(labels),
        labels=labels,
    )


def _whole(name: str, given: Any) -> Int[np.ndarray, "..."]:
    """Whole numbers as an array; 1.7 is none, and is not cut to 1."""
    numbers = np.asarray(given)
    if numbers.size and not np.array_equal(numbers, np.rint(numbers)):
        raise ValueError(f"{name} must be whole numbers, got {numbers.ravel().tolist()[:4]}, ….")
    return numbers.astype(int)


def _pairs(name: str, given: Any) -> Int[np.ndarray, "e 2"]:
    numbers = _whole(name, given)
    if numbers.size == 0:
        return numbers.reshape(0, 2)
    if numbers.ndim != 2 or numbers.shape[1] != 2:
        raise ValueError(f"{name} must be pairs (u, v), got an array of shape {numbers.shape}.")
    return numbers


def _longest_paths(given: Dag) -> Int[np.ndarray, " v"]:
    """Take away, again and again, all vertices that read none of those that are left."""
    edges = np.concatenate([given.edges, given.shortcuts])
    edges = edges[np.argsort(edges[:, 0], kind="stable")]
    first = np.searchsorted(edges[:, 0], np.arange(given.num_vertices + 1))
    reads = np.bincount(edges[:, 1], minlength=given.num_vertices)
    layers = np.full(given.num_vertices, -1)
    front, layer = np.flatnonzero(reads == 0), 0
    while front.size:
        layers[front] = layer
        read = np.concatenate([edges[first[u] : first[u + 1], 1] for u in front])
        reads = reads - np.bincount(read, minlength=given.num_vertices)
        front = np.flatnonzero((reads == 0) & (layers < 0))
        layer += 1
    if (layers < 0).any():
        raise ValueError(f"edges must have no cycle, got {_cycle(given, edges, layers < 0)}.")
    return layers


def _cycle(given: Dag, edges: Int[np.ndarray, "e 2"], left: Bool[np.ndarray, " v"]) -> str:
    """One cycle: every vertex that is left reads one that is left, so going back must return."""
    before = {int(v): int(u) for u, v in edges if left[u] and left[v]}
    path = [next(iter(before))]
    while path[-1] not in path[:-1]:
        path.append(before[path[-1]])
    cycle = path[path.index(path[-1]) :][::-1]
    return " ─► ".join(str(given.named(vertex)) for vertex in cycle)


def _check_numbers(given: Dag) -> None:
    if given.num_vertices < 1 or len(given.edges) == 0:
        raise ValueError("a graph must have at least one edge, got none.")
    vertices = (given.edges, given.shortcuts, given.inputs, given.outputs)
    named = np.concatenate([np.ravel(array) for array in vertices])
    named = np.append(named, list(given.activations))
    if named.min() < 0 or named.max() >= given.num_vertices:
        wrong = int(named.min()) if named.min() < 0 else int(named.max())
        raise ValueError(f"vertices must be 0 to {given.num_vertices - 1}, got {wrong}.")
    codes = given.edges @ [given.num_vertices, 1]  # one number for an edge sorts faster than two
    for name, numbers in (
        ("edges", codes),
        ("inputs", given.inputs),
        ("outputs", given.outputs),
        ("the ends of shortcuts", given.shortcuts[:, 1]),
    ):
        ordered = np.sort(numbers)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if twice.size:
            what = divmod(int(twice[0]), given.num_vertices) if name == "edges" else int(twice[0])
            raise ValueError(f"{name} must be different, got {what} twice.")
    if given.padding.shape != (given.num_vertices,) or given.padding.min() < 0:
        raise ValueError("padding must be a count of at least 0 for every vertex.")
    if given.weights.shape != (len(given.edges),):
        raise ValueError(
            f"weights must be one number for each of {len(given.edges)} edges, "
            f"got {given.weights.shape}."
        )
    if given.labels is not None and len(given.labels) != given.num_vertices:
        raise ValueError(
            f"labels must be one for each of {given.num_vertices} vertices, "
            f"got {len(given.labels)}."
        )
    if given.weights.min() < 0 or not np.bincount(given.weights).all():
        raise ValueError("weights must be numbered 0, 1, …, without a gap.")


def _check_connections(given: Dag) -> None:
    layers = given.layers  # says if there is a cycle
    for name in ("inputs", "outputs"):
        if len(getattr(given, name)) == 0:
            raise ValueError(f"a graph must have {name}, got none.")
    is_input = np.isin(np.arange(given.num_vertices), given.inputs)
    read = np.concatenate([given.edges, given.shortcuts])
    if is_input[read[:, 1]].any():
        wrong = given.named(read[is_input[read[:, 1]]][0, 1])
        raise ValueError(f"inputs must read nothing, got an edge to {wrong!r}.")
    if is_input[given.outputs].any():
        wrong = given.named(given.outputs[is_input[given.outputs]][0])
        raise ValueError(f"outputs must not be inputs, got {wrong!r}.")
    for vertex, phi in given.activations.items():
        at_end = is_input[vertex] or vertex in given.outputs
        if at_end and activation(phi) is not activation("identity"):
            raise ValueError(
                f"activations of inputs and outputs must be the identity, got {phi!r} at "
                f"{given.named(vertex)!r}."
            )
    if np.isin(given.shortcuts[:, 1], given.outputs).any():
        raise ValueError("outputs must have no shortcut: they are linear in the last weights.")
    reached = is_input.copy()
    for layer in range(layers.max() + 1):
        at = given.edges[layers[given.edges[:, 1]] == layer]
        reached[at[reached[at[:, 0]], 1]] = True
    if not reached[given.outputs].all():
        wrong = given.named(given.outputs[~reached[given.outputs]][0])
        raise ValueError(f"outputs must be reachable from an input, got {wrong!r} which is not.")
    alone = ~is_input & (np.bincount(given.edges[:, 1], minlength=given.num_vertices) == 0)
    if alone.any():
        wrong = given.named(np.flatnonzero(alone)[0])
        raise ValueError(
            f"vertices that are no inputs must have an in-degree of at least 1, got 0 at {wrong!r}."
        )
