"""What a network of Neural Tangents is, before it becomes an `Architecture`: a tree of nodes.

    Leaf       one layer: an Architecture once the input's shape is known, and its parameters
    Chain      serial(a, b, …)
    Ways       parallel(a, b, …): a list of inputs, each through its own way
    Spread     FanOut(n): one input, n times
    Join       FanInSum, FanInProd, FanInConcat: one output of several

There a network may take and give lists; an `Architecture` has one input and one output. So
`Spread`, the `Ways` after it and a `Join` become one layer with branches (`assembled`).

Parameters keep the structure that they have there: a list for a chain, a pair (W, b) for a layer of
weights, () for a layer without. A piece of the network knows where its own are, and what our finite
network makes of them.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from theorylab.models import Architecture, Serial
from theorylab.models.architecture import Shape
from theorylab.models.branches import Join as Joined
from theorylab.models.branches import Parallel
from theorylab.typing import Params

Parametrized = Literal["ntk", "standard"]


class Reading(NamedTuple):
    """For what a network is read.

    Args:
        finite: True: as a finite network; False: at infinite width.
        graphs: Whether every input comes with a graph of its own.

    Example:
        >>> Reading(finite=True, graphs=False).finite
        True
    """

    finite: bool
    graphs: bool


def _nothing(*_: Any) -> tuple:
    return ()


@dataclass(frozen=True, eq=False)
class Leaf:
    """One layer.

    Args:
        name: What it is called there.
        layer: Makes the layer: (shape of one input, reading) ─► Architecture.
        draw: Draws parameters, in their structure: (key, shape of one input) ─► params.
        convert: Makes of them what our network computes with: (params, shape) ─► params.
        parametrized: "ntk" or "standard", for layers with weights.
        noisy: Whether there is noise while training, as in dropout.
    """

    name: str
    layer: Callable[[Shape, Reading], Architecture]
    draw: Callable[[Any, Shape], Any] = _nothing
    convert: Callable[[Any, Shape], Params] = _nothing
    parametrized: Parametrized | None = None
    noisy: bool = False


@dataclass(frozen=True, eq=False)
class Chain:
    """One after the other.

    Args:
        nodes: What stands in it.
        stacked: Whether their parameters, all of one structure, are held along a first axis.
    """

    nodes: tuple["Node", ...]
    stacked: bool = False


@dataclass(frozen=True, eq=False)
class Ways:
    """Side by side: the first takes the first input, and so on."""

    nodes: tuple["Node", ...]


@dataclass(frozen=True)
class Spread:
    """One input, several times."""

    num: int


@dataclass(frozen=True)
class Join:
    """One output of several."""

    kind: Joined
    axis: int = -1


Node = Leaf | Chain | Ways | Spread | Join


class Piece(NamedTuple):
    """A part of a network, ready to be read.

    Args:
        layer: What it is.
        params: Takes its parameters out of those of the whole: params ─► params.
    """

    layer: Architecture
    params: Callable[[Any], Params]


class _Placed(NamedTuple):
    """A node, and the way to its parameters."""

    node: Leaf | Ways | Spread | Join
    path: tuple[Callable[[Any], Any], ...]


@lru_cache(maxsize=512)
def assembled(node: Node, shape: Shape, reading: Reading) -> Piece:
    """Put a network together for inputs of a shape.

    Args:
        node: The network.
        shape: The shape of one input.
        reading: For what it is read.

    Example:
        >>> from theorylab.models import Activation
        >>> relu = Leaf("Relu", lambda shape, reading: Activation("relu"))
        >>> assembled(Chain((relu, relu)), (3,), Reading(finite=True, graphs=False)).layer
        Serial(Activation(function='relu'), Activation(function='relu'))
    """
    return _chain(_flat(node, ()), shape, reading)


def leaves(node: Node) -> list[Leaf]:
    """All layers of a network.

    Example:
        >>> len(leaves(Chain((Spread(2), Join("sum")))))
        0
    """
    match node:
        case Leaf():
            return [node]
        case Chain(nodes=nodes) | Ways(nodes=nodes):
            return [leaf for inner in nodes for leaf in leaves(inner)]
    return []


def drawn(node: Node, key: Any, shape: Any) -> tuple[Any, Any]:
    """Draw parameters in Neural Tangents' order, and give the shape that comes out.

    A chain splits off a key for each of its layers, one after the other; ways share one split.

    Args:
        node: The network.
        key: The source of randomness.
        shape: The shape of one input; a list of them where there are several.

    Example:
        >>> drawn(Spread(2), jax.random.key(0), (3,))
        ([(3,), (3,)], ())
    """
    match node:
        case Leaf():
            layer = node.layer(shape, Reading(finite=True, graphs=False))
            return layer.output_shape(shape), node.draw(key, shape)
        case Chain(nodes=nodes):
            params = []
            for inner in nodes:
                key, own = jax.random.split(key)
                shape, inner_params = drawn(inner, own, shape)
                params.append(inner_params)
            return shape, _stacked(params) if node.stacked else params
        case Ways(nodes=nodes):
            keys = jax.random.split(key, len(nodes))
            shapes = _several(shape, len(nodes))
            each = [drawn(*one) for one in zip(nodes, keys, shapes, strict=True)]
            return [one[0] for one in each], tuple(one[1] for one in each)
        case Spread(num=num):
            return [shape] * num, ()
        case Join():
            return _joined_shape(node, _several(shape)), ()


def _stacked(params: list[Any]) -> Any:
    return jax.tree.map(lambda *each: jnp.stack(each), *params) if params else ()


def _several(shape: Any, count: int | None = None) -> list[Shape]:
    if not isinstance(shape, list) or count not in (None, len(shape)):
        raise ValueError(f"parallel and FanIn need a list of inputs, one a way, got {shape}.")
    return shape


def _flat(node: Node, path: tuple[Callable[[Any], Any], ...]) -> list[_Placed]:
    """Chains in chains as one, each node with the way to its parameters."""
    if not isinstance(node, Chain):
        return [_Placed(node, path)]
    step = _slice if node.stacked else _entry
    placed = [_flat(inner, (*path, step(index))) for index, inner in enumerate(node.nodes)]
    return [each for part in placed for each in part]


def _entry(index: int) -> Callable[[Any], Any]:
    return operator.itemgetter(index)


def _slice(index: int) -> Callable[[Any], Any]:
    """The entry of every array of stacked parameters."""
    return lambda params: jax.tree.map(_entry(index), params)


def _chain(placed: list[_Placed], shape: Shape, reading: Reading) -> Piece:
    pieces: list[Piece] = []
    ways: list[list[_Placed]] | None = None
    for each in placed:
        node = each.node
        if isinstance(node, Leaf) and ways is None:
            pieces.append(_leaf(node, each.path, shape, reading))
            shape = pieces[-1].layer.output_shape(shape)
        elif isinstance(node, Spread) and ways is None:
            ways = [[] for _ in range(node.num)]
        elif isinstance(node, Ways) and ways is not None and len(ways) == len(node.nodes):
            for index, (way, inner) in enumerate(zip(ways, node.nodes, strict=True)):
                way.extend(_flat(inner, (*each.path, _entry(index))))
        elif isinstance(node, Join) and ways is not None:
            pieces.append(_joined(node, [_chain(way, shape, reading) for way in ways]))
            shape = pieces[-1].layer.output_shape(shape)
            ways = None
        else:
            raise ValueError(_misplaced(node, ways))
    if ways is not None:
        raise ValueError(
            "FanOut must be followed by a FanIn: a network has one output, got a list."
        )
    if len(pieces) == 1:
        return pieces[0]
    layer = Serial(*(piece.layer for piece in pieces))
    return Piece(layer, lambda params: tuple(piece.params(params) for piece in pieces))


def _leaf(
    leaf: Leaf, path: tuple[Callable[[Any], Any], ...], shape: Shape, reading: Reading
) -> Piece:
    def params(whole: Any) -> Params:
        return leaf.convert(reduce(lambda params, step: step(params), path, whole), shape)

    return Piece(leaf.layer(shape, reading), params)


def _misplaced(node: Node, ways: list | None) -> str:
    if isinstance(node, Ways):
        found = "one input" if ways is None else f"{len(ways)} inputs"
        return f"parallel must stand after FanOut({len(node.nodes)}), got it after {found}."
    if isinstance(node, Join):
        return "FanIn must stand after FanOut and parallel, got it after one input."
    name = node.name if isinstance(node, Leaf) else "FanOut"
    return f"{name} must stand inside parallel after FanOut, got it after a list of inputs."


def _joined(join: Join, ways: list[Piece]) -> Piece:
    """One layer with branches."""
    layer = Parallel(*(way.layer for way in ways), join=join.kind, axis=join.axis)
    return Piece(layer, lambda params: tuple(way.params(params) for way in ways))


def _joined_shape(join: Join, shapes: list[Shape]) -> Shape:
    """The shape that comes out."""
    first = shapes[0]
    if join.kind != "concatenate":
        if any(shape != first for shape in shapes):
            raise ValueError(f"FanIn needs ways of one shape, got {shapes}.")
        return first
    axis = join.axis % len(first)
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])
