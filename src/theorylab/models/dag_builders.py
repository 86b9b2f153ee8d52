"""Directed acyclic graphs of common architectures, and of some unusual ones.

    fully_connected       f⁽ˡ⁾ = φ(W⁽ˡ⁾f⁽ˡ⁻¹⁾/√m_{ℓ−1})
    densely_connected     every layer reads the input and all layers before it
    residual              f⁽ˡ⁾ = φ(f̃⁽ˡ⁾) + f⁽ˡ⁻¹⁾ wherever the sizes agree
    convolutional         windows along one axis, with shared weights and zeros at the border
    bottleneck_neurons    fully connected, but for a few neurons that read very little
    random_dag          layers whose neurons read random earlier ones, with different in-degrees
    drop_edges            any graph with some of its edges removed before training

The first two number the weights as the parameters of `network(mlp(…))` and `network(densenet(…))`
are in a row, and `convolutional` as those of `network(cnn(…))`: with the same weights they are the
same networks. A bottleneck layer is `fully_connected(d, [m, 2, m])`, its remedy
`densely_connected(d, [m, 2, m])`.

The source says that an edge is dropped "with parameter p" and prints the indicator 1{ξ ≥ p} of one
that stays, ξ ~ Bernoulli(p): its p is the probability to stay. That of `drop_edges` is the one to
go. The shape of W⁽ˡ⁾ is printed as m_{ℓ+1} × m_ℓ, which should be m_ℓ × m_{ℓ−1}.

Source: zhu · dag-zoo · A.1, A.4–A.6, A.12–A.15, Fig. 2.3.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Int

from theorylab.typing import RandomKey

from .activations import Elementwise
from .dags import Dag, dag


def fully_connected(
    dimension: int,
    widths: Sequence[int],
    num_outputs: int = 1,
    activation: str | Elementwise = "relu",
) -> Dag:
    """The graph of `mlp`: every layer reads the one before.

    Args:
        dimension: The number of inputs d.
        widths: The number of neurons of every hidden layer.
        num_outputs: The number of outputs k.
        activation: φ of the hidden layers.

    Example:
        >>> fully_connected(3, [8, 8]).layer_sizes
        (3, 8, 8, 1)
    """
    members = _members(dimension, widths, num_outputs)
    edges = [_all_pairs(a, b) for a, b in itertools.pairwise(members)]
    return _layered(members, edges, activation)


def densely_connected(
    dimension: int,
    widths: Sequence[int],
    num_outputs: int = 1,
    activation: str | Elementwise = "relu",
) -> Dag:
    """The graph of `densenet`: every layer, and the outputs, read all that comes before.

    Args:
        dimension: The number of inputs d.
        widths: The number of neurons that every layer adds.
        num_outputs: The number of outputs k.
        activation: φ of the hidden layers.

    Example:
        >>> densely_connected(3, [8, 8]).in_degrees[[3, 11, 19]].tolist()  # one of each layer
        [3, 11, 19]
    """
    members = _members(dimension, widths, num_outputs)
    edges = [_all_pairs(np.arange(layer[0]), layer) for layer in members[1:]]
    return _layered(members, edges, activation)


def residual(
    dimension: int,
    widths: Sequence[int],
    num_outputs: int = 1,
    activation: str | Elementwise = "relu",
) -> Dag:
    """A fully connected graph with a shortcut from every neuron to that of the next hidden layer.

    Args:
        dimension: The number of inputs d.
        widths: The number of neurons of every hidden layer; the last of a wider one go without.
        num_outputs: The number of outputs k.
        activation: φ of the hidden layers.

    Example:
        >>> len(residual(3, [8, 8]).shortcuts)
        8
    """
    members = _members(dimension, widths, num_outputs)
    pairs = itertools.pairwise(members[1:-1])
    shortcuts = [np.stack([a[: len(b)], b[: len(a)]], axis=1) for a, b in pairs]
    plain = fully_connected(dimension, widths, num_outputs, activation)
    if not shortcuts:
        raise ValueError(f"widths must be at least 2 for a shortcut between them, got {widths}.")
    return dataclasses.replace(plain, shortcuts=np.concatenate(shortcuts))


def convolutional(
    length: int,
    channels: Sequence[int],
    window: int,
    input_channels: int = 1,
    num_outputs: int = 1,
    activation: str | Elementwise = "relu",
) -> Dag:
    """The graph of `cnn` along one axis: stride 1, zeros at the border, all positions read at last.

    Inputs are a row of positions with their channels, (length · input_channels,).

    Args:
        length: The number of positions.
        channels: The number of channels of every hidden layer.
        window: The number of positions that a neuron sees, odd.
        input_channels: The number of channels of the inputs.
        num_outputs: The number of outputs k.
        activation: φ of the hidden layers.

    Example:
        >>> small = convolutional(length=5, channels=[2], window=3)
        >>> small.layer_sizes, small.num_weights  # 3 · 1 · 2 shared ones, 10 of the output
        ((5, 10, 1), 16)
    """
    if window < 1 or window % 2 == 0:
        raise ValueError(f"window must be odd and at least 1, got {window}.")
    counts = [input_channels, *channels]
    members = _members(length * input_channels, [length * m for m in channels], num_outputs)
    edges, weights, padding = [], [], [np.zeros(len(members[0]), int)]
    offset = 0
    for before, after, a, b in zip(members[:-2], members[1:-1], counts, counts[1:], strict=False):
        p, i, j, k = np.meshgrid(*map(np.arange, (window, length, a, b)), indexing="ij")
        source = i + p - window // 2
        inside = (source >= 0) & (source < length)
        pairs = np.stack([before[0] + source * a + j, after[0] + i * b + k], axis=-1)
        edges.append(pairs[inside])
        weights.append(offset + ((p * a + j) * b + k)[inside])
        outside = (~inside).sum(axis=(0, 2))  # (length, b)
        padding.append(outside.ravel())
        offset += window * a * b
    last = _all_pairs(members[-2], members[-1])
    edges, weights = [*edges, last], [*weights, offset + np.arange(len(last))]
    padding = np.concatenate([*padding, np.zeros(num_outputs, int)])
    return _layered(members, edges, activation, np.concatenate(weights), padding)


def bottleneck_neurons(
    dimension: int,
    widths: Sequence[int],
    count: int = 2,
    in_degree: int = 1,
    layer: int = 2,
    num_outputs: int = 1,
    activation: str | Elementwise = "relu",
) -> Dag:
    """A fully connected graph in which the first neurons of a layer read only a few.

    Args:
        dimension: The number of inputs d.
        widths: The number of neurons of every hidden layer.
        count: How many neurons are bottlenecks.
        in_degree: How many neurons each of them reads.
        layer: The hidden layer they are in, from 1.
        num_outputs: The number of outputs k.
        activation: φ of the hidden layers.

    Example:
        >>> bottleneck_neurons(3, [8, 8], count=2, in_degree=1).width
        1
    """
    members = _members(dimension, widths, num_outputs)
    if not 1 <= layer <= len(widths):
        raise ValueError(f"layer must be in 1 to {len(widths)}, got {layer}.")
    if not 1 <= count <= widths[layer - 1]:
        raise ValueError(f"count must be in 1 to {widths[layer - 1]}, got {count}.")
    if not 1 <= in_degree <= len(members[layer - 1]):
        raise ValueError(f"in_degree must be in 1 to {len(members[layer - 1])}, got {in_degree}.")
    edges = fully_connected(dimension, widths, num_outputs).edges
    narrow = np.isin(edges[:, 1], members[layer][:count])
    # Each its own: the bottlenecks would otherwise be copies of one neuron.
    source, target = (edges - [members[layer - 1][0], members[layer][0]]).T
    number = (source - in_degree * target) % len(members[layer - 1])
    return _layered(members, [edges[~narrow | (number < in_degree)]], activation)


def random_dag(
    key: RandomKey,
    dimension: int,
    widths: Sequence[int],
    in_degrees: tuple[int, int],
    output_in_degree: int | None = None,
    num_outputs: int = 1,
    activation: str | Elementwise = "relu",
) -> Dag:
    """Layers whose neurons read random ones of all layers before, at least one of the last.

    The first hidden layer reads all inputs. From the second on, the in-degree of a neuron is
    log-uniform in [low, high]; one neuron of each layer has the least and one the most. With
    widths (m^1.5, m) and in-degrees (m, m^1.5) the graph has width m, however much its in-degrees
    differ.

    Args:
        key: Draws the edges.
        dimension: The number of inputs d.
        widths: The number of neurons of every hidden layer.
        in_degrees: The least and the most that a neuron from the second hidden layer on reads.
        output_in_degree: How many of the last hidden layer an output reads; None: all.
        num_outputs: The number of outputs k.
        activation: φ of the hidden layers.

    Example:
        >>> random_dag(jax.random.key(0), 3, [27, 9], in_degrees=(9, 27)).width
        9
    """
    if not widths:
        raise ValueError("widths must be at least one hidden layer, got none.")
    low, high = in_degrees
    available = dimension + widths[0]
    if not 1 <= low <= high <= available:
        raise ValueError(f"in_degrees must be rising in 1 to {available}, got {in_degrees}.")
    if output_in_degree is not None and not 1 <= output_in_degree <= widths[-1]:
        raise ValueError(f"output_in_degree must be in 1 to {widths[-1]}, got {output_in_degree}.")
    rng = _generator(key)
    members = _members(dimension, widths, num_outputs)
    edges = [_all_pairs(members[0], members[1])]
    for before, layer in itertools.pairwise(members[1:-1]):
        degrees = np.rint(np.exp(rng.uniform(np.log(low), np.log(high), len(layer)))).astype(int)
        degrees[0], degrees[-1] = low, high
        edges.append(_random_reads(rng, before, layer, degrees))
    if output_in_degree is None:
        edges.append(_all_pairs(members[-2], members[-1]))
    else:
        few = (rng.choice(members[-2], output_in_degree, replace=False) for _ in members[-1])
        edges += [_all_pairs(u, v[None]) for u, v in zip(few, members[-1], strict=True)]
    return _layered(members, edges, activation)


def drop_edges(key: RandomKey, given: Dag, probability: float) -> Dag:
    """Remove each edge with the same probability before training (this is not dropout).

    In-degrees, and so scales, are those of what remains. A vertex that would lose all its edges
    keeps one of them, because 1/√0 is no scale.

    Args:
        key: Draws the edges to go.
        given: The graph.
        probability: The probability p of an edge to go.

    Example:
        >>> whole = fully_connected(3, [8, 8])
        >>> thinned = drop_edges(jax.random.key(0), whole, probability=0.5)
        >>> len(thinned.edges) < len(whole.edges), thinned.layer_sizes == whole.layer_sizes
        (True, True)
    """
    if not 0 <= probability < 1:
        raise ValueError(f"probability must be in [0, 1), got {probability}.")
    draws = _generator(key).random(len(given.edges))
    # The edge with the largest draw into each vertex, which stays whatever the others do.
    largest = np.zeros(given.num_vertices)
    np.maximum.at(largest, given.edges[:, 1], draws)
    stays = (draws >= probability) | (draws == largest[given.edges[:, 1]])
    # Weights that no edge carries any more are gone, and the others move up.
    numbers = np.unique(given.weights[stays], return_inverse=True)[1]
    return dataclasses.replace(given, edges=given.edges[stays], weights=numbers)


def _random_reads(
    rng: np.random.Generator,
    before: Int[np.ndarray, " b"],
    layer: Int[np.ndarray, " v"],
    degrees: Int[np.ndarray, " v"],
) -> Int[np.ndarray, "e 2"]:
    rows = []
    for vertex, degree in zip(layer, degrees, strict=True):
        sure = rng.choice(before)  # makes its longest path one longer than theirs
        others = rng.choice(layer[0] - 1, degree - 1, replace=False)
        others = others + (others >= sure)
        sources = np.sort(np.append(others, sure))
        rows.append(np.stack([sources, np.full(degree, vertex)], axis=1))
    return np.concatenate(rows)


def _members(
    dimension: int, widths: Sequence[int], num_outputs: int
) -> list[Int[np.ndarray, " _"]]:
    """The vertices of every layer, numbered from the inputs to the outputs."""
    if min(dimension, num_outputs, *widths, 1) < 1:
        raise ValueError(
            "dimension, widths and num_outputs must be at least 1, "
            f"got {dimension}, {tuple(widths)} and {num_outputs}."
        )
    ends = np.cumsum([dimension, *widths, num_outputs])
    return np.split(np.arange(ends[-1]), ends[:-1])


def _all_pairs(sources: Int[np.ndarray, " u"], targets: Int[np.ndarray, " v"]):
    """All edges from one set of vertices to another, source by source."""
    u, v = np.meshgrid(sources, targets, indexing="ij")
    return np.stack([u.ravel(), v.ravel()], axis=1)


def _layered(
    members: list[Int[np.ndarray, " _"]],
    edges: list[Int[np.ndarray, "_ 2"]],
    activation: str | Elementwise,
    weights: Int[np.ndarray, " _"] | None = None,
    padding: Int[np.ndarray, " _"] | None = None,
) -> Dag:
    return dag(
        np.concatenate(edges),
        inputs=members[0],
        outputs=members[-1],
        weights=weights,
        padding=padding,
        activation=activation,
        num_vertices=int(members[-1][-1]) + 1,
    )


def _generator(key: RandomKey) -> np.random.Generator:
    """NumPy's randomness, because graphs are made on the host."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).astype(np.uint32))
