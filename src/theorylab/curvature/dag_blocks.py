"""The lemmas under the Hessian's norm: what a neuron reads, and blocks between layers.

A neuron v of layer ℓ takes f̃_v = 1/√in(v) Σ w_uv f_u from the neurons S it reads, of values f_S.
Its derivatives in its own weights w_v are those values, so that two lemmas are about its Hessian:

    f_S = √in(v) ∂f̃_v/∂w_v             ‖f_S‖ = Õ(√in(v))                             A.11.3
    ∂f_S/∂w⁽ᵖ⁾ = √in(v) ∂²f̃_v/∂w_v∂w⁽ᵖ⁾    norm Õ(max √(in(v)/m_q)), q = p + 1, …, ℓ     A.2.1
                                       Frobenius norm Õ(√in(v))
    ∂²f̃_v/∂w⁽ᵖ⁾∂w⁽ᵠ⁾                    norm Õ(max m_r^(−½)), r from the lower + 1 to ℓ    A.2.2
    ‖∇²f̃_v‖ ≤ Σ_pq ‖∂²f̃_v/∂w⁽ᵖ⁾∂w⁽ᵠ⁾‖                                                A.11.1

w⁽ᵖ⁾ are the weights into layer p, and m_q the least in-degree there. How many of them the neuron
depends on at all is at most the product of the largest in-degrees of the layers from p to ℓ
(A.9.1), whatever the sizes of the layers.

Source: zhu · dag-bounds · Lemmas A.2.1, A.2.2, A.9.1, A.11.1–A.11.3.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from theorylab.answers import Answer
from theorylab.models import Dag, dag_network
from theorylab.models.dag_network import Wired, wire
from theorylab.training import ensemble
from theorylab.typing import RandomKey

from .dag_norms import check_dags
from .norm import spectral_norm
from .operators import output_hessian


class DagBlocks(Answer, axes=("graph",)):
    """Of every graph's first output: what it reads, and the blocks of its Hessian.

    Graphs may stand along several axes.

    Args:
        lengths: ‖f_S‖.
        largest: max |f_u| over S.
        whole: ‖∇²f̃‖ of all weights.
        norms: Norms of the blocks of the Hessian between layers p and q, from the first on.
        frobenius: ‖∂f_S/∂w⁽ᵖ⁾‖_F.
        in_degrees: in(v) of the output.

    Example:
        >>> one, blocks = np.ones(1), np.array([[[0.5, 0.25], [0.25, 0.0]]])
        >>> found = DagBlocks(one, one, one, blocks, np.ones((1, 2)), in_degrees=np.array([4]))
        >>> found.jacobians.tolist()
        [[0.5, 0.0]]
    """

    lengths: Float[np.ndarray, "*g"]
    largest: Float[np.ndarray, "*g"]
    whole: Float[np.ndarray, "*g"]
    norms: Float[np.ndarray, "*g l l"]
    frobenius: Float[np.ndarray, "*g l"]
    in_degrees: Int[np.ndarray, "*g"]

    @property
    def jacobians(self) -> Float[np.ndarray, "*g l"]:
        """‖∂f_S/∂w⁽ᵖ⁾‖, from the last row of blocks; 0 for the output's own weights."""
        return np.sqrt(self.in_degrees)[..., None] * self.norms[..., -1, :]


def dag_blocks(
    graphs: Sequence[Dag],
    x: Float[Array, " d"],
    key: RandomKey,
    num_steps: int = 16,
    num_probes: int = 32,
    radii: Sequence[float] = (),
) -> DagBlocks:
    """Draw a network on every graph and measure the blocks of its first output's Hessian.

    Args:
        graphs: Graphs of one depth and one activation, with as many inputs and outputs, and
            without shared weights; all in one compiled program, so of about one size.
        x: One input.
        key: Draws the weights.
        num_steps: Products with the Hessian for the norm of a block.
        num_probes: Products for the Frobenius norms, with random signs; their squares have a
            relative error of (2/(num_probes · r))^½ at most, r = ‖J‖_F²/‖J‖² the stable rank.
        radii: How far from the drawn weights each network is measured, along the steepest ascent
            of ‖f_S‖; none: there.

    Example:
        >>> from theorylab.models.dag_builders import fully_connected
        >>> small = fully_connected(2, [4])
        >>> found = dag_blocks([small], jnp.ones(2), jax.random.key(0), num_steps=4)
        >>> found.norms.shape, found.in_degrees.tolist()
        ((1, 2, 2), [4])
    """
    if num_probes < 1:
        raise ValueError(f"num_probes must be at least 1, got {num_probes}.")
    check_dags(graphs, x)
    if radii and (len(radii) != len(graphs) or not min(radii) >= 0):
        raise ValueError(
            f"radii must be {len(graphs)} numbers that are not negative, or none, got {radii}."
        )
    depths = {graph.depth for graph in graphs}
    if len(depths) != 1:
        raise ValueError(f"graphs must have one depth, got {sorted(depths)}.")
    for graph in graphs:
        check_own_weights(graph)
    (depth,) = depths
    apply, wirings = wire(graphs)
    numbers = np.asarray(wirings.numbers)
    layers = [np.append(_weight_layers(graph), 0) for graph in graphs]  # −1 reads the 0
    masks = np.stack([layer[number] for layer, number in zip(layers, numbers, strict=True)])
    outputs = [int(graph.outputs[0]) for graph in graphs]
    degrees = np.array([graph.in_degrees[v] for graph, v in zip(graphs, outputs, strict=True)])
    own = _own_places(graphs, numbers, int(degrees.max()))
    one = _measurement(apply, x, depth, num_steps, num_probes)
    keys = jax.random.split(key, len(graphs))
    places = jnp.asarray(masks, jnp.int8), jnp.asarray(own), jnp.asarray(degrees)
    given = (wirings, *places, jnp.asarray(radii or [0.0] * len(graphs), float), keys)
    lengths, largest, whole, norms, frobenius = map(np.asarray, ensemble(one, given))
    return DagBlocks(lengths, largest, whole, norms, frobenius, degrees)


def _measurement(apply: Wired, x: Float[Array, " d"], depth: int, num_steps: int, num_probes: int):
    """(wiring, layers of weights, the output's own, in-degree, R, key) ─► what is measured."""
    rows, columns = np.tril_indices(depth)
    pairs = np.append(np.stack([rows, columns], axis=1) + 1, [[0, 0]], axis=0)  # at last all

    def one(given):
        wiring, layer_of, own, degree, radius, key = given
        weight_key, lanczos_key, probe_key = jax.random.split(key, 3)
        layer_of = layer_of.astype(int)
        drawn = jnp.where(layer_of == 0, 0.0, jax.random.normal(weight_key, layer_of.shape))

        def output(w: Float[Array, " p"]) -> Float[Array, ""]:
            return apply(wiring, w, x[None])[0, 0]

        # ∇½‖f_S‖² in all weights is in(v) times the Hessian's product with the own slopes.
        mine = jnp.zeros(layer_of.size + 1, bool).at[own].set(True)[:-1]
        slope = jax.grad(output)
        _, uphill = jax.jvp(slope, (drawn,), (jnp.where(mine, slope(drawn), 0.0),))
        weights = drawn + radius * uphill / jnp.linalg.norm(uphill)
        hessian = output_hessian(lambda w, x: apply(wiring, w, x), weights, x)

        def block_norm(pair: Int[Array, " 2"]) -> Float[Array, ""]:
            row, column = ((layer_of == layer) | (layer == 0) for layer in pair)

            def product(v: Float[Array, " p"]) -> Float[Array, " p"]:
                halves = jnp.where(jnp.stack([column, row]), v[None], 0.0)
                down, up = jnp.where(jnp.stack([row, column]), jax.vmap(hessian)(halves), 0.0)
                return jnp.where(pair[0] == pair[1], down, down + up)

            return spectral_norm(product, weights, lanczos_key, num_steps).value

        def squares(signs: Float[Array, " m"]) -> Float[Array, " l"]:
            """Of the Hessian's product with signs at the output's own weights, layer by layer."""
            probe = jnp.zeros(layer_of.size + 1, weights.dtype).at[own].set(signs)[:-1]
            return jax.ops.segment_sum(hessian(probe) ** 2, layer_of, depth + 1)[1:]

        slopes = slope(weights)
        root = jnp.sqrt(degree.astype(weights.dtype))
        values = root * jnp.append(slopes, 0.0)[own]  # f_S
        lower = jax.lax.map(block_norm, jnp.asarray(pairs))
        norms = jnp.zeros((depth, depth), lower.dtype).at[rows, columns].set(lower[:-1])
        probes = jax.random.rademacher(probe_key, (num_probes, own.size), weights.dtype)
        frobenius = root * jnp.sqrt(jax.lax.map(squares, probes).mean(axis=0))
        read = jnp.linalg.norm(values), jnp.abs(values).max()
        return *read, lower[-1], jnp.maximum(norms, norms.T), frobenius

    return one


def read_lengths(
    graph: Dag, weights: Float[Array, " p"], x: Float[Array, " d"], layer: int
) -> Float[Array, " v"]:
    """‖f_S‖ of every vertex of a layer, in the order of their numbers; can be jitted and mapped.

    Args:
        graph: The graph, without shared weights.
        weights: Its weights.
        x: One input.
        layer: The layer, from 1.

    Example:
        >>> from theorylab.models import dag
        >>> two = dag([(0, 2), (1, 2), (1, 3)])
        >>> read_lengths(two, jnp.zeros(3), jnp.array([3.0, 4.0]), layer=1).round(4).tolist()
        [5.0, 4.0]
    """
    check_own_weights(graph)
    if not 1 <= layer <= graph.depth:
        raise ValueError(f"layer must be in 1 to {graph.depth}, got {layer}.")
    vertices = np.flatnonzero(graph.layers == layer)
    into = np.flatnonzero(np.isin(graph.edges[:, 1], vertices))
    # One by one they would be f̃_v; the sum has the same derivatives, as no other reads w_v.
    apply = dag_network(_reading(graph, vertices)).apply
    slopes = jax.grad(lambda w: apply(w, x[None]).sum())(weights)[graph.weights[into]]
    targets = np.searchsorted(vertices, graph.edges[into, 1])
    squares = jax.ops.segment_sum(slopes**2, targets, len(vertices))
    return jnp.sqrt(graph.in_degrees[vertices] * squares)


def dependence(graph: Dag, vertex: int) -> Int[np.ndarray, " l"]:
    """On how many weights into each layer, from the first on, a vertex depends.

    Args:
        graph: The graph.
        vertex: The vertex v.

    Example:
        >>> from theorylab.models.dag_builders import fully_connected
        >>> dependence(fully_connected(3, [8, 5]), 3 + 8).tolist()  # a neuron of the second layer
        [24, 8, 0]
    """
    _check_vertex(graph, vertex)
    needed = np.arange(graph.num_vertices) == vertex
    for layer in range(int(graph.layers[vertex]), 0, -1):
        for pairs in (graph.edges, graph.shortcuts):
            at = needed[pairs[:, 1]] & (graph.layers[pairs[:, 1]] == layer)
            needed[pairs[at, 0]] = True
    used = np.unique(graph.weights[needed[graph.edges[:, 1]]])
    return np.bincount(_weight_layers(graph)[used], minlength=graph.depth + 1)[1:]


def dependence_bound(graph: Dag, vertex: int) -> Float[np.ndarray, " l"]:
    """The product of the largest in-degrees of the layers from each to the vertex's own.

    Args:
        graph: The graph, without shortcuts.
        vertex: The vertex v.

    Example:
        >>> from theorylab.models.dag_builders import fully_connected
        >>> dependence_bound(fully_connected(3, [8, 5]), 3 + 8).tolist()
        [24.0, 8.0, 0.0]
    """
    if len(graph.shortcuts):
        raise ValueError("graph must have no shortcuts: they reach further than in-degrees say.")
    _check_vertex(graph, vertex)
    own = int(graph.layers[vertex])
    most = [graph.in_degrees[graph.layers == layer].max() for layer in range(1, own + 1)]
    products = np.cumprod(np.array(most[::-1], float))[::-1]
    return np.append(products, np.zeros(graph.depth - own))


def _weight_layers(graph: Dag) -> Int[np.ndarray, " p"]:
    """The layer that every weight leads into."""
    layers = np.zeros(graph.num_weights, int)
    layers[graph.weights] = graph.layers[graph.edges[:, 1]]
    return layers


def _own_places(
    graphs: Sequence[Dag], numbers: Int[np.ndarray, "g p"], most: int
) -> Int[np.ndarray, "g m"]:
    """Where the weights of every first output are, filled up with a place that there is not."""
    places = np.full((len(graphs), most), numbers.shape[1])
    for row, graph in enumerate(graphs):
        own = graph.weights[graph.edges[:, 1] == graph.outputs[0]]
        found = np.flatnonzero(np.isin(numbers[row], own))
        places[row, : len(found)] = found
    return places


def _reading(graph: Dag, vertices: Int[np.ndarray, " v"]) -> Dag:
    """The same graph with other outputs, which are taken before their activations."""
    if np.isin(vertices, graph.shortcuts[:, 1]).any():
        raise ValueError("vertices whose values are read must have no shortcut.")
    others = {v: phi for v, phi in graph.activations.items() if v not in vertices}
    return dataclasses.replace(graph, outputs=vertices, activations=others)


def _check_vertex(graph: Dag, vertex: int) -> None:
    if not 0 <= vertex < graph.num_vertices:
        raise ValueError(f"vertex must be in 0 to {graph.num_vertices - 1}, got {vertex}.")


def check_own_weights(graph: Dag) -> None:
    """Raise if edges share weights, or some read nothing.

    Example:
        >>> from theorylab.models.dag_builders import convolutional
        >>> check_own_weights(convolutional(5, [2], window=3))
        Traceback (most recent call last):
        ...
        ValueError: graphs must have a weight of its own for every edge, and no padding.
    """
    if graph.num_weights < len(graph.edges) or graph.padding.any():
        raise ValueError("graphs must have a weight of its own for every edge, and no padding.")
