"""Kernels of many inputs, block by block: memory stays bounded, and symmetric halves are made once.

Blocks begin at 0, b, 2b, …; the last one is moved back to end with the inputs, so that all are of
one size and one compiled program serves them all; entries that two blocks share are made twice.
Where the Jacobians of all inputs fit into memory they are made once, else again for every pair.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from theorylab.models.inputs import map_inputs, num_inputs, some_inputs
from theorylab.typing import Inputs

from .contraction import OutputLayout
from .jacobian import Jacobian, Part

HELD_BYTES = 2**30  # Jacobians that are held at once, of both sides together
WORKING_BYTES = 2**25  # what is needed to make some of them, and a block of the kernel
_FEWEST_ROWS = 256  # of a matrix product that is worth a turn of its own
_MOST_BLOCKS = 8  # of Jacobians that are at hand; more would save little

Compare = Callable[[list[Part], list[Part]], list[Array]]


class JacobianBlocks(NamedTuple):
    """One of the two batches in blocks of one size: how to make the Jacobians of a block.

    Example: the last block is moved back to end with the inputs.
        >>> JacobianBlocks(num_samples=7, size=3, at=lambda start: []).starts
        [0, 3, 4]
    """

    num_samples: int
    size: int
    at: Callable[[Any], list[Part]]  # (where the block begins) ─► Jacobians

    @property
    def starts(self) -> list[int]:
        """Where the blocks begin."""
        last = self.num_samples - self.size
        return [min(start, last) for start in range(0, self.num_samples, self.size)]


def kernel_by_blocks(
    jacobian: Jacobian,
    compare: Compare,
    outputs: OutputLayout,
    x1: Inputs,
    x2: Inputs | None,
    block_size: int | None,
) -> list[Array]:
    """Compare all inputs.

    Args:
        jacobian: The network's Jacobian at one input.
        compare: What two blocks of Jacobians give.
        outputs: The layout of the kernel.
        x1: The inputs x.
        x2: The inputs x′; None: x.
        block_size: How many inputs' Jacobians are held at once on either side; by default as many
            as 1 GiB holds.

    Example: a linear model, whose kernel is xxᵀ, one input at a time.
        >>> from theorylab.kernels.finite.contraction import MEAN, compared
        >>> from theorylab.kernels.finite.jacobian import jacobian_of
        >>> from theorylab.kernels.finite.program import program_of
        >>> x, one = jnp.array([[1.0, 2.0], [3.0, 4.0]]), jax.ShapeDtypeStruct((2,), float)
        >>> program = program_of(lambda w, x: x @ w, jnp.zeros((2, 1)), one)
        >>> jacobian, compare = jacobian_of(program, [], ["plain"]), compared(MEAN, [1.0], True)
        >>> kernel_by_blocks(jacobian, compare, MEAN, x, None, block_size=1)[0].tolist()
        [[5.0, 11.0], [11.0, 25.0]]
    """
    both = [x1] if x2 is None else [x1, x2]
    most = max(map(num_inputs, both))
    widest = max(leaf.dtype.itemsize for leaf in jax.tree.leaves(x1))
    per_entry = math.prod(outputs.shape(1, 1, jacobian.num_outputs)) * widest
    largest = max(1, math.isqrt(WORKING_BYTES // per_entry))
    all_held = all_fit(jacobian, x1, x2, None)
    if most > 1 and not all_held if block_size is None else most > block_size:
        size = min(HELD_BYTES // 2 // jacobian.held, largest) if block_size is None else block_size
        sides = [_made_again(jacobian, x, max(1, size)) for x in both]
    else:
        rows = _FEWEST_ROWS // (jacobian.num_outputs if outputs.kernel == "ijab" else 1)
        size = min(max(-(-most // _MOST_BLOCKS), rows, 1), largest)
        sides = [_at_hand(jacobians(jacobian, x), num_inputs(x), size) for x in both]
    if all(side.num_samples == side.size for side in sides):
        parts = [side.at(0) for side in sides]
        return compare(parts[0], parts[-1])
    shape = outputs.shape(sides[0].num_samples, sides[-1].num_samples, jacobian.num_outputs)
    return _assembled(sides[0], sides[-1], compare, outputs, shape, symmetric=x2 is None)


def all_fit(jacobian: Jacobian, x1: Inputs, x2: Inputs | None, block_size: int | None) -> bool:
    """Whether 1 GiB holds the Jacobians of all inputs, or as many as are held at once.

    Args:
        jacobian: The network's Jacobian at one input.
        x1: The inputs x.
        x2: The inputs x′; None: x.
        block_size: How many inputs' Jacobians are held at once on either side, if that was told.

    Example: the Jacobians of ten inputs with two entries.
        >>> from theorylab.kernels.finite.jacobian import jacobian_of
        >>> from theorylab.kernels.finite.program import program_of
        >>> one = jax.ShapeDtypeStruct((2,), float)
        >>> program = program_of(lambda w, x: x @ w, jnp.zeros((2, 1)), one)
        >>> all_fit(jacobian_of(program, [], ["plain"]), jnp.ones((10, 2)), None, None)
        True
    """
    sizes = [num_inputs(x) for x in (x1, x2) if x is not None]
    if block_size is not None:
        sizes = [min(size, block_size) for size in sizes]
    return sum(sizes) * jacobian.held <= HELD_BYTES


def jacobians(jacobian: Jacobian, x: Inputs) -> list[Part]:
    """Jacobians at many inputs, made some at a time.

    Example: the Jacobian of a linear model is its inputs.
        >>> from theorylab.kernels.finite.jacobian import jacobian_of
        >>> from theorylab.kernels.finite.program import program_of
        >>> x, one = jnp.array([[1.0, 2.0], [3.0, 4.0]]), jax.ShapeDtypeStruct((2,), float)
        >>> program = program_of(lambda w, x: x @ w, jnp.zeros((2, 1)), one)
        >>> jacobians(jacobian_of(program, [], ["plain"]), x)[0].reshape(2, 2).tolist()
        [[1.0, 2.0], [3.0, 4.0]]
    """
    most = max(1, WORKING_BYTES // jacobian.working)
    return map_inputs(jacobian.at, x, most)


def _at_hand(parts: list[Part], num_samples: int, size: int) -> JacobianBlocks:
    """Blocks of Jacobians that are there."""
    size = min(size, num_samples)

    def at(start: Any) -> list[Part]:
        if size == num_samples:
            return parts
        cut = lambda part: jax.lax.dynamic_slice_in_dim(part, start, size)  # noqa: E731
        return jax.tree.map(cut, parts)

    return JacobianBlocks(num_samples, size, at)


def _made_again(jacobian: Jacobian, x: Inputs, size: int) -> JacobianBlocks:
    """Blocks of Jacobians that are made when they are asked for."""
    size = min(size, num_inputs(x))

    def at(start: Any) -> list[Part]:
        return jacobians(jacobian, some_inputs(x, start, size))

    return JacobianBlocks(num_inputs(x), size, at)


def _assembled(
    first: JacobianBlocks,
    second: JacobianBlocks,
    compare: Compare,
    outputs: OutputLayout,
    shape: tuple[int, ...],
    symmetric: bool,
) -> list[Array]:
    """Scan over all pairs of blocks, row by row; of symmetric pairs over one half."""
    pairs = list(_pairs(first.starts, second.starts, symmetric))
    starts = jnp.asarray([(i, j) for i, j, _ in pairs])
    new_row = jnp.asarray([new for _, _, new in pairs])
    parts, other = jax.eval_shape(first.at, 0), jax.eval_shape(second.at, 0)
    like = jax.eval_shape(compare, parts, other)
    empty = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), parts)
    results = [jnp.zeros(shape, block.dtype) for block in like]

    def put(result: Array, block: Array, i: Any, j: Any) -> Array:
        begin = [0] * result.ndim
        begin[outputs.rows : outputs.rows + 2] = i, j
        return jax.lax.dynamic_update_slice(result, block, begin)

    def step(state: tuple, pair: tuple) -> tuple[tuple, None]:
        results, row = state
        (i, j), new = pair
        row = jax.lax.cond(new, lambda: first.at(i), lambda: row)
        blocks = compare(row, second.at(j))
        if symmetric:
            mirrored = [jnp.transpose(block, outputs.transposed) for block in blocks]
            results = [put(*both, j, i) for both in zip(results, mirrored, strict=True)]
        results = [put(*both, i, j) for both in zip(results, blocks, strict=True)]
        return (results, row), None

    (results, _), _ = jax.lax.scan(step, (results, empty), (starts, new_row))
    return results


def _pairs(first: list[int], second: list[int], symmetric: bool) -> Iterator[tuple[int, int, bool]]:
    """Where two blocks begin, and whether the first one is new."""
    for row, i in enumerate(first):
        columns = second[row:] if symmetric else second
        yield from ((i, j, column == 0) for column, j in enumerate(columns))
