"""The reading of a batch with itself, and of two batches with each other.

    read_alone(x)  ─► K(x, x), Θ(x, x), and notes: the variances that every layer met
    read_pairs(x, x′, notes, notes′)  ─► K(x, x′), Θ(x, x′)

Notes are made once for every input, and serve all the pairs it stands in.
"""

import math
import operator
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from theorylab.models import Architecture
from theorylab.models.masks import Mask

from .layers import read
from .needs import needs_pairs
from .positions import as_pairs, placed
from .state import Context, Covariance, Draws, LayerState, Notes, Settings

_FEW = 8  # channels, for which a matrix product costs more than it saves

# NNGP alone, or NNGP and tangent kernel.
Outputs = tuple[Array, ...]


class InputBatch(NamedTuple):
    """A batch of inputs with what belongs to each: its graph, and what is missing of it.

    Example: inputs without graphs, of which nothing is missing.
        >>> InputBatch(jnp.ones((2, 3))).mask is None
        True
    """

    x: Any  # an array of JAX, or of NumPy where tiles are cut; 0 where something is missing
    graphs: Any = None  # (n, s, t)
    mask: Any = None  # (n, *positions, 1)


class NotedInputs(NamedTuple):
    """A batch of inputs with what was noted of it.

    Example: the variance of an input at the one activation of a network.
        >>> NotedInputs(x=jnp.array([[1.0, 1.0]]), notes=(jnp.array([1.0]),)).notes[0].shape
        (1,)
    """

    x: Any  # an array of JAX, or of NumPy where tiles are cut
    notes: tuple[Any, ...]
    mask: Any = None


class InfiniteReading(NamedTuple):
    """A network and how it is read: all that is fixed when a program is compiled.

    Example: a global pool needs K(s, s′) for all pairs of 4 positions.
        >>> from theorylab.models import NTK, Dense, GlobalPool, Serial
        >>> settings = Settings(NTK(), "none", training=False, tangent=True)
        >>> reading = InfiniteReading(Serial(Dense(1), GlobalPool()), settings, (4, 3))
        >>> reading.paired, reading.numbers_per_pair, reading.outputs_have_positions
        (True, 16, False)
    """

    architecture: Architecture
    settings: Settings
    shape: tuple[int, ...]  # of one input
    pairs_wanted: bool = True  # of positions of the outputs, or s = s′ only

    @property
    def outputs_have_positions(self) -> bool:
        """Whether the kernels have pairs of positions."""
        return self.pairs_wanted and len(self.architecture.output_shape(self.shape)) > 1

    @property
    def paired(self) -> bool:
        """Whether K(s, s′) is needed for s ≠ s′."""
        has_positions = len(self.shape) > 1
        return has_positions and needs_pairs(self.architecture, self.outputs_have_positions)

    @property
    def numbers_per_pair(self) -> int:
        """How many covariances a pair of inputs has, at the input."""
        return math.prod(self.shape[:-1]) ** (2 if self.paired else 1)


def read_alone(
    reading: InfiniteReading,
    inputs: InputBatch,
    draws: Draws | None = None,
) -> tuple[Outputs, tuple[Array, ...]]:
    """Every input with itself, and the notes about it.

    Example: one hidden ReLU layer, and the variance that its activation met.
        >>> from theorylab.models import NTK, mlp
        >>> settings = Settings(NTK(), "none", training=False, tangent=True)
        >>> reading = InfiniteReading(mlp([1]), settings, (2,))
        >>> (nngp, ntk), notes = read_alone(reading, InputBatch(jnp.array([[1.0, 1.0]])))
        >>> [round(float(number[0]), 6) for number in (nngp, ntk, *notes)]
        [0.5, 1.0, 1.0]
    """
    notes = Notes()
    x, graphs, mask = inputs
    start = _covariance(x, x, reading.paired, crossed=False)
    masks = None if mask is None else (mask, mask)
    context = Context(reading.settings, notes, draws, graphs)
    return _read(reading, start, masks, context), tuple(notes.made)


def read_pairs(
    reading: InfiniteReading,
    first: NotedInputs,
    second: NotedInputs,
    crossed: bool,
    draws: Draws | None = None,
) -> Outputs:
    """Inputs with others.

    Args:
        reading: The network.
        first: The inputs x.
        second: The inputs x′.
        crossed: True: all of x with all of x′, (n₁, n₂); False: one by one, (n,).
        draws: The draws of random logits, if there are any.

    Example: orthogonal inputs of variance 1 have the NNGP 1/2π after ReLU.
        >>> from theorylab.models import NTK, mlp
        >>> settings = Settings(NTK(), "none", training=False, tangent=True)
        >>> reading = InfiniteReading(mlp([1]), settings, (2,))
        >>> x1, x2 = jnp.array([[1.0, 1.0]]), jnp.array([[1.0, -1.0]])
        >>> notes = [read_alone(reading, InputBatch(x))[1] for x in (x1, x2)]
        >>> first, second = NotedInputs(x1, notes[0]), NotedInputs(x2, notes[1])
        >>> round(float(read_pairs(reading, first, second, crossed=True)[0][0, 0]), 4)
        0.1592
    """
    start = _covariance(first.x, second.x, reading.paired, crossed)
    pairs = list(zip(first.notes, second.notes, strict=True))
    if crossed:
        pairs = [(one[:, None], other[None, :]) for one, other in pairs]
    masks = None if first.mask is None else (first.mask, second.mask)
    return _read(reading, start, masks, Context(reading.settings, Notes(pairs), draws))


def read_crossed(reading: InfiniteReading, first: NotedInputs, second: NotedInputs) -> Outputs:
    """All of x with all of x′, (n₁, n₂).

    Example: a linear layer has K = xᵀx′/d.
        >>> from theorylab.models import NTK, Dense
        >>> settings = Settings(NTK(), "none", training=False, tangent=True)
        >>> reading = InfiniteReading(Dense(1), settings, (2,))
        >>> inputs = NotedInputs(jnp.array([[1.0, 1.0], [1.0, 3.0]]), notes=())
        >>> read_crossed(reading, inputs, inputs)[0].tolist()
        [[1.0, 2.0], [2.0, 5.0]]
    """
    return read_pairs(reading, first, second, crossed=True)


def read_listed(reading: InfiniteReading, first: NotedInputs, second: NotedInputs) -> Outputs:
    """Inputs x with inputs x′ one by one, (n,).

    Example: a linear layer has K = xᵀx′/d.
        >>> from theorylab.models import NTK, Dense
        >>> settings = Settings(NTK(), "none", training=False, tangent=True)
        >>> reading = InfiniteReading(Dense(1), settings, (2,))
        >>> inputs = NotedInputs(jnp.array([[1.0, 1.0], [1.0, 3.0]]), notes=())
        >>> read_listed(reading, inputs, inputs)[0].tolist()
        [1.0, 5.0]
    """
    return read_pairs(reading, first, second, crossed=False)


def read_diagonal(reading: InfiniteReading, inputs: InputBatch) -> Outputs:
    """Every input with itself, (n,).

    Example: a linear layer has K = xᵀx/d.
        >>> from theorylab.models import NTK, Dense
        >>> settings = Settings(NTK(), "none", training=False, tangent=True)
        >>> reading = InfiniteReading(Dense(1), settings, (2,))
        >>> read_diagonal(reading, InputBatch(jnp.array([[1.0, 1.0], [1.0, 3.0]])))[0].tolist()
        [1.0, 5.0]
    """
    return read_alone(reading, inputs)[0]


def read_one_by_one(reading: InfiniteReading, first: InputBatch, second: InputBatch) -> Outputs:
    """The first of x with the first of x′, the second with the second, ..., (n,).

    Example: a linear layer has K = xᵀx′/d.
        >>> from theorylab.models import NTK, Dense
        >>> settings = Settings(NTK(), "none", training=False, tangent=True)
        >>> reading = InfiniteReading(Dense(1), settings, (2,))
        >>> x1, x2 = jnp.array([[1.0, 1.0], [1.0, 3.0]]), jnp.array([[2.0, 0.0], [2.0, 2.0]])
        >>> read_one_by_one(reading, InputBatch(x1), InputBatch(x2))[0].tolist()
        [1.0, 4.0]
    """
    one, other = (
        NotedInputs(batch.x, read_alone(reading, batch)[1], batch.mask) for batch in (first, second)
    )
    return read_listed(reading, one, other)


def read_batches(
    reading: InfiniteReading,
    first: InputBatch,
    second: InputBatch | None,
    draws: Draws | None = None,
) -> Outputs:
    """All of x with all of x′, or of x, in one piece.

    Example: a linear layer has K = xᵀx′/d.
        >>> from theorylab.models import NTK, Dense
        >>> settings = Settings(NTK(), "none", training=False, tangent=True)
        >>> reading = InfiniteReading(Dense(1), settings, (2,))
        >>> x = jnp.array([[1.0, 1.0], [1.0, 3.0]])
        >>> read_batches(reading, InputBatch(x), None)[0].tolist()
        [[1.0, 2.0], [2.0, 5.0]]
    """
    alone, notes = read_alone(reading, first, draws)
    noted = NotedInputs(first.x, notes, first.mask)
    if second is not None:
        other = NotedInputs(second.x, read_alone(reading, second, draws)[1], second.mask)
        return read_pairs(reading, noted, other, True, draws)
    crossed = read_pairs(reading, noted, noted, True, draws)
    same = jnp.eye(first.x.shape[0], dtype=bool)

    def with_diagonal(matrix: Array, diagonal: Array) -> Array:
        where = same.reshape(*same.shape, *(1,) * (matrix.ndim - 2))
        return jnp.where(where, diagonal[:, None], matrix)

    return tuple(map(with_diagonal, crossed, alone))


def _read(
    reading: InfiniteReading,
    start: Covariance,
    masks: tuple[Mask, Mask] | None,
    context: Context,
) -> Outputs:
    state = LayerState(start, None, reading.shape, reading.paired, gaussian=False, masks=masks)
    end = read(reading.architecture, state, reading.outputs_have_positions, context)
    if not reading.settings.tangent:
        return (end.nngp,)
    return end.nngp, jnp.zeros_like(end.nngp) if end.ntk is None else end.ntk


def _covariance(x1: Array, x2: Array, paired: bool, crossed: bool) -> Covariance:
    """The mean over channels of x(s)x′(s′)."""
    *positions, channels = x1.shape[1:]
    size = math.prod(positions)
    if positions and channels <= _FEW:
        return _by_broadcasting(x1, x2, paired, crossed) / channels
    one, other = (x.reshape(x.shape[0], size, channels) for x in (x1, x2))
    if size == 1:  # a plain matrix product
        formula = "ic,jc->ij" if crossed else "ic,ic->i"
        one, other = one[:, 0], other[:, 0]
    else:
        formula = {
            (True, True): "isc,jtc->ijst",
            (True, False): "isc,jsc->ijs",
            (False, True): "isc,itc->ist",
            (False, False): "isc,isc->is",
        }[crossed, paired]
    mean = jnp.einsum(formula, one, other, precision=jax.lax.Precision.HIGHEST) / channels
    lead = mean.shape[: 2 if crossed else 1]
    if paired:
        return as_pairs(mean.reshape(*lead, size, size), tuple(positions))
    return mean.reshape(*lead, *positions)


def _by_broadcasting(x1: Array, x2: Array, paired: bool, crossed: bool) -> Covariance:
    """The sum over few channels, without a matrix product and its transposition."""
    one, other = (jnp.moveaxis(x, -1, 0) for x in (x1, x2))
    if paired:
        num_axes = x1.ndim - 2
        one, other = placed(one, num_axes, 1), placed(other, num_axes, 2)
    if crossed:
        one, other = one[:, :, None], other[:, None, :]
    return reduce(operator.add, (one[c] * other[c] for c in range(one.shape[0])))
