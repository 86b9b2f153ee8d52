"""Layers that mix or choose positions, by Neural Tangents' names: `Aggregate`, `Index`.

A graph's edge (i, j) leads from i to j: theorylab's `Aggregate` takes the transposed matrix.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from theorylab.models import Aggregate as OurAggregate
from theorylab.models import Architecture, Serial
from theorylab.models.architecture import Shape
from theorylab.models.einsum import Einsum
from theorylab.models.mixing import Resize, Upsample
from theorylab.models.selection import Index as OurIndex

from ..layer import Layer, layer_of
from ..nodes import Leaf, Reading
from .positions import Identity, fixed
from .weights import check_axes


def ImageResize(
    shape: Sequence[int],
    method: Any,
    antialias: bool = True,
    precision: Any = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Layer:
    """More positions: each one repeated, or linear in between.

    Args:
        shape: The shape that comes out, with samples and channels; −1 for what stays.
        method: "nearest" or "linear".
        antialias: Has no effect where positions are added.
        precision: Has no effect.
        batch_axis: 0.
        channel_axis: −1.

    Example:
        >>> ImageResize((-1, 6, -1), "nearest").init_fn(None, (-1, 3, 2))[0]
        (-1, 6, 2)
    """
    check_axes(batch_axis, channel_axis)
    name = getattr(method, "name", method).lower()
    known = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear"}
    if name not in (*known, "triangle"):
        raise ValueError(f"method must be nearest or linear, got {name}: no other has a kernel.")

    def layer(given: Shape, reading: Reading) -> Architecture:
        wanted = [old if new == -1 else new for old, new in zip(given, shape[1:], strict=True)]
        if shape[0] != -1 or wanted[-1] != given[-1]:
            raise ValueError(f"shape must keep samples and channels (-1), got {tuple(shape)}.")
        how = known.get(name, "linear")
        if any(new % old for old, new in zip(given, wanted, strict=True)):
            return Resize(tuple(wanted[:-1]), how, antialias)  # type: ignore[arg-type]
        factors = (new // old for old, new in zip(given[:-1], wanted[:-1], strict=True))
        return Upsample(tuple(factors), how)  # type: ignore[arg-type]

    return layer_of(Leaf("ImageResize", layer))


def Index(idx: Any, batch_axis: int = 0, channel_axis: int = -1) -> Layer:
    """A part of the positions: x[idx].

    Args:
        idx: An index of the whole array, such as `Slice[:, 1:4]`; samples are kept.
        batch_axis: 0.
        channel_axis: −1.

    Example:
        >>> Index(Slice[:, 0]).apply_fn((), jnp.arange(3.0).reshape(1, 3, 1)).tolist()
        [[0.0]]
    """
    check_axes(batch_axis, channel_axis)
    entries = idx if isinstance(idx, tuple) else (idx,)
    if entries and entries[0] is not ...:
        if entries[0] != slice(None):
            raise ValueError(f"idx must keep the samples: index x itself, got {idx}.")
        entries = entries[1:]
    return fixed("Index", OurIndex(*entries))


class _Slice:
    """Writes an index down: `Slice[:, 1:4]`."""

    def __getitem__(self, idx: Any) -> Any:
        return idx


Slice = _Slice()


def DotGeneral(
    *,
    lhs: Any = None,
    rhs: Any = None,
    dimension_numbers: Any = (((), ()), ((), ())),
    precision: Any = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Layer:
    """The product with a fixed array, over some positions.

    Args:
        lhs: The array, if it stands on the left.
        rhs: The array, if it stands on the right.
        dimension_numbers: ((contracted axes on the left, on the right), ((), ())), with all axes of
            the array; `Einsum` of theorylab takes what leaves some.
        precision: Has no effect.
        batch_axis: 0.
        channel_axis: −1.

    Example: the difference of two positions.
        >>> contracted = (((1,), (0,)), ((), ()))
        >>> layer = DotGeneral(rhs=jnp.array([1.0, -1.0]), dimension_numbers=contracted)
        >>> layer.apply_fn((), jnp.array([[[5.0], [3.0]]])).tolist()
        [[2.0]]
    """
    check_axes(batch_axis, channel_axis)
    if lhs is not None and rhs is not None:
        raise ValueError("lhs or rhs must be given, got both: the other one is the input.")
    if lhs is None and rhs is None:
        return Identity()
    array = jnp.asarray(lhs if rhs is None else rhs)
    (left, right), batches = dimension_numbers
    own, of_array = (left, right) if lhs is None else (right, left)
    if any(map(len, batches)) or len(of_array) < array.ndim or min(own, default=1) < 1:
        raise ValueError(
            "dimension_numbers must contract every axis of the array with positions; write others "
            "as theorylab.models.einsum.Einsum and give it to from_architecture."
        )

    def layer(shape: Shape, reading: Reading) -> Architecture:
        letters = "abdefgh"[: len(shape) - 1] + "c"
        names = {
            axis: letters[one % (len(shape) + 1) - 1]
            for one, axis in zip(own, of_array, strict=True)
        }
        contracted = "".join(names[axis] for axis in range(array.ndim))
        kept = "".join(letter for letter in letters if letter not in contracted)
        return Einsum(f"{letters},{contracted}->{kept}", array)

    return layer_of(Leaf("DotGeneral", layer))


def Aggregate(
    aggregate_axis: int | Sequence[int] | None = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
    to_dense: Callable[[Array], Array] | None = None,
    implementation: str = "DENSE",
) -> Layer:
    """A sum over the neighbours in a graph, which is given beside the inputs: `pattern=`.

    Its entry (i, j) is the weight of the edge from i to j, y(j) = Σᵢ pattern(i, j) x(i). Without a
    pattern the layer is the identity.

    Args:
        aggregate_axis: The axis of positions, of which there is one.
        batch_axis: 0.
        channel_axis: −1.
        to_dense: Applied to every pattern.
        implementation: "DENSE"; of lists of edges make a matrix, `to_dense`.

    Example: an edge from the first node to the second.
        >>> import jax.numpy as jnp
        >>> pattern = jnp.array([[[0.0, 1.0], [0.0, 0.0]]])
        >>> x = jnp.array([[[1.0], [2.0]]])
        >>> Aggregate().apply_fn((), x, pattern=pattern).ravel().tolist()
        [0.0, 1.0]
    """
    check_axes(batch_axis, channel_axis)
    if aggregate_axis not in (None, 1, (1,), [1]):
        raise ValueError(f"aggregate_axis must be 1, the axis of nodes, got {aggregate_axis}.")
    if to_dense is not None or implementation != "DENSE":
        raise NotImplementedError("implementation must be DENSE: give pattern as a matrix.")

    def layer(shape: Shape, reading: Reading) -> Architecture:
        return OurAggregate(None) if reading.graphs else Serial()

    return layer_of(Leaf("Aggregate", layer))
