"""Kernels of any number of inputs, in tiles: bounded memory, every core and device at work.

    1. Every input is read with itself: its own kernels, and notes for the pairs it stands in.
    2. Tiles of pairs are read, all by one compiled program; of a symmetric matrix, half of them.

Where pairs of positions count, a tile is a list of pairs of inputs, small enough for a core's
cache; elsewhere it is a rectangle of the matrix, so that its first step is a matrix product.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from .reading import (
    InfiniteReading,
    InputBatch,
    NotedInputs,
    read_alone,
    read_crossed,
    read_listed,
)
from .workers import compute

_CACHE = 2**16  # numbers of one kernel in a tile


class Plan(NamedTuple):
    """How the pairs of inputs are cut into tiles.

    Args:
        crossed: Is a tile a rectangle of the matrix, or a list of pairs?
        size: The side of the rectangle, or the number of pairs in the list.
        num_rows: n₁.
        num_columns: n₂.
        symmetric: Are inputs compared with themselves, so that one triangle is enough?

    Example: one triangle of a 3 × 3 matrix in rectangles of side 2.
        >>> plan = Plan(crossed=True, size=2, num_rows=3, num_columns=3, symmetric=True)
        >>> plan.num_tiles, [indices.tolist() for indices in plan.tile(1)]
        (3, [[0, 1], [2]])
    """

    crossed: bool
    size: int
    num_rows: int
    num_columns: int
    symmetric: bool

    @property
    def num_tiles(self) -> int:
        """How many there are; of pairs in a list, the diagonal of a symmetric matrix is not one."""
        if self.crossed:
            rows, columns = -(-self.num_rows // self.size), -(-self.num_columns // self.size)
            return rows * (rows + 1) // 2 if self.symmetric else rows * columns
        return -(-self._num_pairs // self.size)

    def tile(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of a tile."""
        if not self.crossed:
            end = min((number + 1) * self.size, self._num_pairs)
            return self._pairs(np.arange(number * self.size, end))
        count = -(-self.num_columns // self.size)
        if self.symmetric:
            (row,), (column,) = triangle(np.array([number]), count)
        else:
            row, column = divmod(number, count)
        return (
            np.arange(row * self.size, min((row + 1) * self.size, self.num_rows)),
            np.arange(column * self.size, min((column + 1) * self.size, self.num_columns)),
        )

    @property
    def _num_pairs(self) -> int:
        if self.symmetric:
            return self.num_rows * (self.num_rows - 1) // 2
        return self.num_rows * self.num_columns

    def _pairs(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not self.symmetric:
            return numbers // self.num_columns, numbers % self.num_columns
        rows, columns = triangle(numbers, self.num_rows - 1)
        return rows, columns + 1


def planned(
    reading: InfiniteReading, num_rows: int, num_columns: int | None, block: int | None
) -> Plan:
    """Choose tiles that fit into a core's cache; no columns: the rows with themselves.

    Example: 100 vectors with themselves fit into one tile.
        >>> from theorylab.kernels.infinite.state import Settings
        >>> from theorylab.models import NTK, mlp
        >>> reading = InfiniteReading(mlp([1]), Settings(NTK(), "none", False, tangent=True), (8,))
        >>> planned(reading, 100, None, block=None)
        Plan(crossed=True, size=100, num_rows=100, num_columns=100, symmetric=True)
    """
    symmetric, columns = num_columns is None, num_columns or num_rows
    fitting = _CACHE // reading.numbers_per_pair  # pairs of inputs
    if reading.paired:
        size = min(block or fitting, num_rows * columns)
    else:
        size = min(block or math.isqrt(fitting), max(num_rows, columns))
    return Plan(not reading.paired, max(size, 1), num_rows, columns, symmetric)


def triangle(numbers: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of entries of an upper triangle, counted row by row, diagonal included.

    Example:
        >>> triangle(np.arange(6), 3)
        (array([0, 0, 0, 1, 1, 2]), array([0, 1, 2, 1, 2, 2]))
    """
    width = 2 * size + 1
    rows = ((width - np.sqrt(np.maximum(width**2 - 8.0 * numbers, 0))) / 2).astype(np.int64)
    rows = np.clip(rows, 0, size - 1)

    def begin(row: np.ndarray) -> np.ndarray:
        return row * (width - row) // 2

    rows = rows - (begin(rows) > numbers) + (begin(rows + 1) <= numbers)  # what the root rounded
    return rows, numbers - begin(rows) + rows


def fill(
    outputs: tuple[np.ndarray, ...],
    reading: InfiniteReading,
    first: InputBatch,
    second: InputBatch | None,
    block: int | None = None,
) -> None:
    """Compute the kernels of all pairs into arrays that are there, (n₁, n₂, ...).

    Args:
        outputs: NNGP, or NNGP and tangent kernel.
        reading: The network.
        first: The inputs x.
        second: The inputs x′; None: x itself.
        block: The size of a tile, if it shall not be chosen.

    Example: a linear layer has K = xᵀx′/d, here in tiles of one pair each.
        >>> from theorylab.kernels.infinite.state import Settings
        >>> from theorylab.models import NTK, Dense
        >>> reading = InfiniteReading(Dense(1), Settings(NTK(), "none", False, tangent=False), (2,))
        >>> nngp = np.empty((2, 2))
        >>> inputs = InputBatch(np.array([[1.0, 1.0], [1.0, 3.0]]))
        >>> fill((nngp,), reading, inputs, None, block=1)
        >>> nngp.tolist()
        [[1.0, 2.0], [2.0, 5.0]]
    """
    plan = planned(reading, len(first.x), None if second is None else len(second.x), block)
    alone, side1 = alone_with_notes(reading, first, plan.size)
    side2 = side1 if second is None else alone_with_notes(reading, second, plan.size)[1]

    def prepare(number: int) -> tuple[NotedInputs, NotedInputs]:
        rows, columns = plan.tile(number)
        return _taken(side1, rows, plan.size), _taken(side2, columns, plan.size)

    def store(number: int, results: Any) -> None:
        rows, columns = plan.tile(number)
        for output, result in zip(outputs, results, strict=True):
            _write(output, np.asarray(result), plan, rows, columns, reading.pairs_wanted)

    function = read_crossed if plan.crossed else read_listed
    compute(function, reading, plan.num_tiles, prepare, store)
    if second is None:
        every = np.arange(plan.num_rows)
        for output, diagonal in zip(outputs, alone, strict=True):
            output[every, every] = diagonal


def alone_with_notes(
    reading: InfiniteReading, inputs: InputBatch, size: int
) -> tuple[tuple[np.ndarray, ...], NotedInputs]:
    """Every input with itself: its kernels, and the inputs with their notes.

    Example: a linear layer has K = xᵀx/d, and notes nothing.
        >>> from theorylab.kernels.infinite.state import Settings
        >>> from theorylab.models import NTK, Dense
        >>> reading = InfiniteReading(Dense(1), Settings(NTK(), "none", False, tangent=False), (2,))
        >>> inputs = InputBatch(np.array([[1.0, 1.0], [1.0, 3.0]]))
        >>> (nngp,), side = alone_with_notes(reading, inputs, size=1)
        >>> nngp.tolist(), side.notes
        ([1.0, 5.0], ())
    """
    alone, notes = by_rows(read_alone, reading, (inputs,), size)
    return alone, NotedInputs(inputs.x, notes, inputs.mask)


def by_rows(
    function: Callable[..., Any],
    reading: InfiniteReading,
    inputs: tuple[InputBatch, ...],
    size: int,
) -> Any:
    """What a function makes of every row of inputs, of so many rows at a time.

    Args:
        function: (reading, *inputs) ─► results with as many rows.
        reading: The network.
        inputs: Batches of as many inputs.
        size: How many rows at a time.

    Example: a linear layer has K = xᵀx/d.
        >>> from theorylab.kernels.infinite.reading import read_diagonal
        >>> from theorylab.kernels.infinite.state import Settings
        >>> from theorylab.models import NTK, Dense
        >>> reading = InfiniteReading(Dense(1), Settings(NTK(), "none", False, tangent=False), (2,))
        >>> inputs = InputBatch(np.array([[1.0, 1.0], [1.0, 3.0]]))
        >>> (nngp,) = by_rows(read_diagonal, reading, (inputs,), size=1)
        >>> nngp.tolist()
        [1.0, 5.0]
    """
    count = len(inputs[0].x)
    size = min(size, count)
    results: dict[int, Any] = {}

    def prepare(number: int) -> tuple[InputBatch, ...]:
        rows = np.arange(number * size, min((number + 1) * size, count))
        return _taken(inputs, rows, size)

    def store(number: int, result: Any) -> None:
        results[number] = jax.tree.map(np.asarray, result)

    compute(function, reading, -(-count // size), prepare, store)
    parts = [results[number] for number in sorted(results)]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *parts)


def _taken(tree: Any, indices: np.ndarray, size: int) -> Any:
    """These inputs; the last one several times where a tile would be too small for the program."""
    if len(indices) < size:
        indices = np.pad(indices, (0, size - len(indices)), mode="edge")
    return jax.tree.map(lambda array: array[indices], tree)


def _write(
    output: np.ndarray,
    tile: np.ndarray,
    plan: Plan,
    rows: np.ndarray,
    columns: np.ndarray,
    pairs: bool,
) -> None:
    def exchanged(part: np.ndarray, lead: int) -> np.ndarray:
        return _exchanged(part, lead) if pairs else part

    if not plan.crossed:
        output[rows, columns] = tile[: len(rows)]
        if plan.symmetric:
            output[columns, rows] = exchanged(tile[: len(rows)], lead=1)
        return
    tile = tile[: len(rows), : len(columns)]
    if plan.symmetric and rows[0] == columns[0]:  # on the diagonal: one triangle for both
        above = np.triu_indices(len(rows), 1)
        tile = tile.copy()
        tile[above[::-1]] = exchanged(tile[above], lead=1)
    output[_span(rows), _span(columns)] = tile
    if plan.symmetric and rows[0] != columns[0]:
        output[_span(columns), _span(rows)] = np.swapaxes(exchanged(tile, lead=2), 0, 1)


def _exchanged(tile: np.ndarray, lead: int) -> np.ndarray:
    """K(x′, x) from K(x, x′): the positions s and s′ exchanged."""
    for axis in range(lead, tile.ndim, 2):
        tile = np.swapaxes(tile, axis, axis + 1)
    return tile


def _span(indices: np.ndarray) -> slice:
    return slice(indices[0], indices[-1] + 1)
