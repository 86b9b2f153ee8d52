"""Architectures by the formulas of their definitions, in NumPy, for one input and one output.

Source: zhu · dag-net · Eq. 2.2; zhu · dag-zoo · Eqs A.4–A.6, A.12, A.15.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from theorylab.models import Dag

WINDOW = 3  # positions that a neuron of the CNN sees
Vector = Float[np.ndarray, " _"]


def vertex_by_vertex(
    graph: Dag, weights: Vector, x: Vector, in_degrees: Int[np.ndarray, " v"] | None = None
) -> float:
    """Eq. 2.2 as it is written, a sum over the predecessors of one vertex after another."""
    degrees = graph.in_degrees if in_degrees is None else in_degrees
    values = dict(enumerate(x.tolist()))
    for v in range(len(x), graph.num_vertices):  # each reads only earlier ones
        into = graph.edges[:, 1] == v
        pairs = zip(graph.edges[into, 0].tolist(), graph.weights[into].tolist(), strict=True)
        before = sum(weights[number] * values[u] for u, number in pairs) / math.sqrt(degrees[v])
        values[v] = before if v == graph.num_vertices - 1 else math.tanh(before)
    return values[graph.num_vertices - 1]


def distances(graph: Dag, choose: Callable[[list[int]], int]) -> Int[np.ndarray, " v"]:
    """The length of the longest, or of the shortest, of all paths from an input."""
    found = [0] * graph.num_vertices
    for v in range(len(graph.inputs), graph.num_vertices):
        found[v] = 1 + choose([found[u] for u in graph.edges[graph.edges[:, 1] == v, 0]])
    return np.array(found)


def _split(weights: Vector, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Consecutive parts of the weights, as arrays of these shapes."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = np.split(weights[: ends[-1]], ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def fully_connected(weights: Vector, x: Vector, sizes: Sequence[int]) -> float:
    """Eq. A.4."""
    counts = (len(x), *sizes, 1)
    values = x
    *hidden, last = _split(weights, list(itertools.pairwise(counts)))
    for matrix in hidden:
        values = np.tanh(matrix.T @ values / math.sqrt(len(values)))
    return float((last.T @ values / math.sqrt(len(values)))[0])


def densenet(weights: Vector, x: Vector, sizes: Sequence[int]) -> float:
    """Eqs A.5–A.6: everything before is read, the input among it."""
    before = np.cumsum([len(x), *sizes]).tolist()
    *hidden, last = _split(weights, list(zip(before, (*sizes, 1), strict=True)))
    values = x
    for matrix in hidden:
        fresh = np.tanh(matrix.T @ values / math.sqrt(len(values)))
        values = np.concatenate([values, fresh])
    return float((last.T @ values / math.sqrt(len(values)))[0])


def residual(weights: Vector, x: Vector, m: int) -> float:
    """Eq. A.12: the second layer adds the neuron of the first with the same number."""
    one, two, last = _split(weights, [(len(x), m), (m, m), (m,)])
    first = np.tanh(one.T @ x / math.sqrt(len(x)))
    second = np.tanh(two.T @ first / math.sqrt(m)) + first
    return float(last @ second / math.sqrt(m))


def cnn(weights: Vector, x: Vector, channels: Sequence[int]) -> float:
    """Eq. A.15: window p, stride 1, zeros at the border, and all positions at last."""
    counts, values = (1, *channels), x[:, None]
    shapes = [(WINDOW, a, b) for a, b in itertools.pairwise(counts)]
    *filters, last = _split(weights, [*shapes, (len(x), counts[-1])])
    for kernel in filters:
        padded = np.pad(values, ((WINDOW // 2, WINDOW // 2), (0, 0)))
        windows = [padded[at : at + WINDOW] for at in range(len(x))]
        scale = math.sqrt(values.shape[1] * WINDOW)
        values = np.tanh(np.stack([np.tensordot(each, kernel, 2) for each in windows]) / scale)
    return float((last * values).sum() / math.sqrt(last.size))
