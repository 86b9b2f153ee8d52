"""NNGP and tangent kernel of an infinitely wide network, for all pairs of inputs.

    infinite_kernels     K(x, x′) and Θ(x, x′)
    infinite_nngp        K(x, x′) alone
    infinite_diagonal    K(x, x) and Θ(x, x)
    infinite_pairs       K and Θ of the first x with the first x′, the second with the second, ...
    infinite_positions   K and Θ at equal positions s = s′ of the outputs

A kernel larger than memory is refused before work. A large one is made in tiles (`tiles`), a small
one in one piece, inside other compiled functions too: so it can be differentiated, in inputs and
in scales (`theorylab.models.scales`).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.models import NTK, Architecture, Parametrization, Standard
from theorylab.models.masks import Masked, unmasked
from theorylab.models.parametrization import check_bias_scale
from theorylab.models.parts import Bias
from theorylab.models.scales import as_dtype, with_arrays, without_arrays
from theorylab.numerics.memory import available_memory, readable
from theorylab.typing import Axes, Figure

from ..inputs import input_pair, require_array
from .needs import needs_graphs
from .reading import (
    InfiniteReading,
    InputBatch,
    Outputs,
    read_batches,
    read_diagonal,
    read_one_by_one,
)
from .state import Settings
from .tiles import alone_with_notes, by_rows, fill, planned
from .workers import compiled

_SMALL = 2**18  # numbers: in one piece


class Kernels(
    Answer,
    labels={"nngp": "NNGP K(x, x′)", "ntk": "tangent kernel Θ(x, x′)"},
    axes=("x", "x′"),
):
    """The two kernels of an infinitely wide network.

    Args:
        nngp: E f(x)f(x′) over initial parameters: at initialisation, outputs are this Gaussian
            process. (n₁, n₂), or (n,) for x with itself; if the outputs have positions, pairs of
            them follow, with interleaved axes: (n₁, n₂, H, H′, W, W′).
        ntk: The tangent kernel Θ(x, x′), which stays the same during training.

    Example:
        >>> from theorylab.models import mlp
        >>> nngp, ntk = infinite_kernels(mlp([1, 1]), jnp.array([[1.0, 1.0]]))
        >>> float(nngp[0, 0]), float(ntk[0, 0])
        (0.25, 0.75)
    """

    nngp: Float[Array, "..."]
    ntk: Float[Array, "..."]

    def plot(self) -> Figure:
        """Both kernels, as images; those of inputs with themselves one by one."""
        from theorylab.answers.figure import draw_first, drawn

        def panel(name: str) -> Callable[[Axes], None]:
            values = {name: getattr(self, name)}
            return lambda axes: draw_first(axes, values, {}, self._labels, self._axes)

        return drawn(NNGP=panel("nngp"), NTK=panel("ntk"))


def infinite_kernels(
    architecture: Architecture,
    x1: Float[Array, "n1 ..."] | Masked,
    x2: Float[Array, "n2 ..."] | Masked | None = None,
    parametrization: Parametrization = NTK(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    training: bool = False,
    graphs1: Float[Array, "n1 s s"] | None = None,
    graphs2: Float[Array, "n2 s s"] | None = None,
    block: int | None = None,
) -> Kernels:
    """Take all hidden widths to infinity.

    Their numbers in the architecture do not matter, but for their ratio where channels are
    concatenated, and for themselves in the standard parametrization. After an `Activation` at the
    very end, the kernels are means over infinitely many outputs.

    Args:
        architecture: What the network is.
        x1: The inputs x, (n₁, d) or (n₁, *positions, channels); `Masked(x, mask)` if some of their
            positions are missing.
        x2: The inputs x′; the same as x if not given.
        parametrization: `NTK(weight_scale=σ_w, bias_scale=σ_b)`, or `Standard(...)`.
        bias: "none"; "zero": trained, initially 0; "normal": trained, drawn like the weights.
        training: True: dropout counts, with masks of its own for every input.
        graphs1: The graphs of x, for `Aggregate(None)`.
        graphs2: The graphs of x′; those of x if there is no x′.
        block: The size of a tile: the side of a rectangle of the matrix, or, where pairs of
            positions count, how many pairs of inputs. Chosen if not given.

    Example:
        >>> from theorylab.models import mlp
        >>> x = jnp.array([[1.0, 1.0]])
        >>> kernels = infinite_kernels(mlp([1, 1]), x)
        >>> float(kernels.ntk[0, 0])
        0.75
    """
    reading = make_reading(architecture, x1, parametrization, bias, training, tangent=True)
    return Kernels(*_computed(reading, x1, x2, graphs1, graphs2, block))


def infinite_nngp(
    architecture: Architecture,
    x1: Float[Array, "n1 ..."] | Masked,
    x2: Float[Array, "n2 ..."] | Masked | None = None,
    parametrization: Parametrization = NTK(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    training: bool = False,
    graphs1: Float[Array, "n1 s s"] | None = None,
    graphs2: Float[Array, "n2 s s"] | None = None,
    block: int | None = None,
) -> Float[Array, "n1 n2 ..."]:
    """The NNGP alone, for about half the work; arguments as those of `infinite_kernels`.

    Example:
        >>> from theorylab.models import mlp
        >>> float(infinite_nngp(mlp([1, 1]), jnp.array([[1.0, 1.0]]))[0, 0])
        0.25
    """
    reading = make_reading(architecture, x1, parametrization, bias, training, tangent=False)
    return _computed(reading, x1, x2, graphs1, graphs2, block)[0]


def infinite_diagonal(
    architecture: Architecture,
    x: Float[Array, "n ..."] | Masked,
    parametrization: Parametrization = NTK(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    training: bool = False,
    graphs: Float[Array, "n s s"] | None = None,
) -> Kernels:
    """K(x, x) and Θ(x, x), each (n,); arguments as those of `infinite_kernels`.

    Example:
        >>> from theorylab.models import mlp
        >>> infinite_diagonal(mlp([1, 1]), jnp.array([[1.0, 1.0]])).ntk.tolist()
        [0.75]
    """
    reading = make_reading(architecture, x, parametrization, bias, training, tangent=True)
    inputs, _ = input_batches(architecture, x, None, graphs, None)
    if _small_or_traced(reading, inputs):
        return Kernels(*in_one_piece(read_diagonal, reading, (inputs,)))
    size = planned(reading, inputs.x.shape[0], None, None).size
    alone, _ = alone_with_notes(reading, on_host(inputs), size)
    return Kernels(*map(jnp.asarray, alone))


def infinite_pairs(
    architecture: Architecture,
    x1: Float[Array, "n1 ..."] | Masked,
    x2: Float[Array, "n2 ..."] | Masked,
    parametrization: Parametrization = NTK(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    training: bool = False,
    graphs1: Float[Array, "n1 s s"] | None = None,
    graphs2: Float[Array, "n2 s s"] | None = None,
) -> Kernels:
    """K and Θ of inputs one by one, (n,): the first with the first, the second with the second.

    Arguments are those of `infinite_kernels`; x and x′ are as many.

    Example:
        >>> from theorylab.models import Dense
        >>> x1, x2 = jnp.array([[1.0, 1.0], [1.0, 3.0]]), jnp.array([[2.0, 0.0], [2.0, 2.0]])
        >>> infinite_pairs(Dense(1), x1, x2).nngp.tolist()
        [1.0, 4.0]
    """
    reading = make_reading(architecture, x1, parametrization, bias, training, tangent=True)
    first, second = input_batches(architecture, x1, x2, graphs1, graphs2)
    if second is None or first.x.shape[0] != second.x.shape[0]:
        numbers = [len(each.x) for each in (first, second) if each is not None]
        raise ValueError(f"x1 and x2 must be as many inputs, got {numbers}.")
    if _small_or_traced(reading, (first, second)):
        return Kernels(*in_one_piece(read_one_by_one, reading, (first, second)))
    size = planned(reading, first.x.shape[0], None, None).size
    found = by_rows(read_one_by_one, reading, (on_host(first), on_host(second)), size)
    return Kernels(*map(jnp.asarray, found))


def infinite_positions(
    architecture: Architecture,
    x1: Float[Array, "n1 ..."] | Masked,
    x2: Float[Array, "n2 ..."] | Masked | None = None,
    parametrization: Parametrization = NTK(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    training: bool = False,
    graphs1: Float[Array, "n1 s s"] | None = None,
    graphs2: Float[Array, "n2 s s"] | None = None,
    block: int | None = None,
) -> Kernels:
    """K and Θ at every position of the outputs with itself, s = s′: (n₁, n₂, *positions).

    Without pooling before, this costs O(positions) for a pair of inputs, where all pairs of
    positions, as `infinite_kernels` gives them, cost their square. Arguments are its own.

    Example: at the second of two positions, 3 · 3.
        >>> from theorylab.models import Dense
        >>> infinite_positions(Dense(1), jnp.array([[[1.0], [3.0]]])).nngp.tolist()
        [[[1.0, 9.0]]]
    """
    reading = make_reading(architecture, x1, parametrization, bias, training, tangent=True)
    reading = reading._replace(pairs_wanted=False)
    return Kernels(*_computed(reading, x1, x2, graphs1, graphs2, block))


def make_reading(
    architecture: Architecture,
    x: Float[Array, "n ..."] | Masked,
    parametrization: Parametrization,
    bias: Bias,
    training: bool,
    tangent: bool,
) -> InfiniteReading:
    """Say how a network is read, or why it cannot be.

    Example: vectors have no positions, so no pairs of positions are needed.
        >>> from theorylab.models import mlp
        >>> reading = make_reading(mlp([1]), jnp.ones((3, 2)), NTK(), "none", False, tangent=True)
        >>> reading.shape, reading.paired
        ((2,), False)
    """
    if not isinstance(architecture, Architecture):
        raise TypeError(
            f"architecture must be an Architecture such as mlp([512]), got {architecture!r}."
        )
    if not isinstance(parametrization, NTK | Standard):
        raise ValueError(
            "parametrization must be NTK(...) or Standard(...): in others the tangent kernel has "
            f"no finite limit or does not stay at it; got {parametrization}."
        )
    if bias not in ("none", "zero", "normal"):
        raise ValueError(f"bias must be none, zero or normal, got {bias!r}.")
    check_bias_scale(parametrization, bias)
    x = x.x if isinstance(x, Masked) else x
    require_array("x1", x)
    if x.ndim < 2:
        raise ValueError(f"x1 must have shape (n, ...) with n >= 1, got {x.shape}.")
    architecture.output_shape(x.shape[1:])  # says what does not fit, before any work
    settings = Settings(parametrization, bias, training, tangent)
    return as_dtype(InfiniteReading(architecture, settings, x.shape[1:]), x.dtype)


def check_graphs(
    architecture: Architecture,
    x1: Array,
    x2: Array | None,
    graphs1: Array | None,
    graphs2: Array | None,
) -> None:
    """Graphs must be there where inputs need them, and only there.

    Example:
        >>> from theorylab.models import mlp
        >>> x, graphs = jnp.ones((1, 2)), jnp.ones((1, 2, 2))
        >>> check_graphs(mlp([1]), x, None, graphs1=graphs, graphs2=None)
        Traceback (most recent call last):
        ...
        ValueError: graphs1 must not be given: no layer reads it.
    """
    needed = needs_graphs(architecture)
    for name, x, graphs in (("graphs1", x1, graphs1), ("graphs2", x2, graphs2)):
        if graphs is None and needed and x is not None:
            raise ValueError(f"{name} must be given: Aggregate(None) has no graph of its own.")
        if graphs is not None and (not needed or x is None):
            raise ValueError(f"{name} must not be given: no layer reads it.")
        if graphs is not None and x is not None:
            expected = (x.shape[0], x.shape[1], x.shape[1])
            if graphs.shape != expected:
                raise ValueError(f"{name} must have shape {expected}, got {graphs.shape}.")


def input_batches(
    architecture: Architecture,
    x1: Array | Masked,
    x2: Array | Masked | None,
    graphs1: Array | None,
    graphs2: Array | None,
) -> tuple[InputBatch, InputBatch | None]:
    """The inputs x and x′ with all that belongs to them, checked.

    Example: where something is missing of x, x′ has a mask too.
        >>> from theorylab.models import mlp
        >>> x, mask = jnp.ones((2, 3, 1)), jnp.zeros((2, 3), bool)
        >>> first, second = input_batches(mlp([1]), Masked(x, mask), x, None, None)
        >>> first.mask.shape, second.mask.shape
        ((2, 3, 1), (2, 3, 1))
    """
    one, mask1 = unmasked(x1, "x1")
    other, mask2 = unmasked(x2, "x2")
    _, second = input_pair(one, other)
    check_graphs(architecture, one, other, graphs1, graphs2)
    if one.dtype != second.dtype:
        raise ValueError(f"x1 and x2 must have one dtype, got {one.dtype} and {second.dtype}.")
    if mask1 is not None or mask2 is not None:
        mask1, mask2 = (
            jnp.zeros((*x.shape[:-1], 1), bool) if mask is None else mask
            for mask, x in ((mask1, one), (mask2, second))
        )
    first = InputBatch(one, graphs1, mask1)
    return first, None if other is None else InputBatch(other, graphs2, mask2)


def kernel_shape(reading: InfiniteReading, n1: int, n2: int) -> tuple[int, ...]:
    """The shape of a kernel.

    Example: outputs with five positions have kernels with pairs of them.
        >>> from theorylab.models import Dense
        >>> reading = make_reading(Dense(1), jnp.ones((1, 5, 2)), NTK(), "none", False, True)
        >>> kernel_shape(reading, n1=3, n2=4)
        (3, 4, 5, 5)
    """
    positions = reading.architecture.output_shape(reading.shape)[:-1]
    sides = 2 if reading.pairs_wanted else 1
    return (n1, n2, *(size for size in positions for _ in range(sides)))


def _computed(
    reading: InfiniteReading,
    x1: Array | Masked,
    x2: Array | Masked | None,
    graphs1: Array | None,
    graphs2: Array | None,
    block: int | None,
) -> Outputs:
    first, second = input_batches(reading.architecture, x1, x2, graphs1, graphs2)
    if block is not None and block < 1:
        raise ValueError(f"block must be at least 1, got {block}.")
    dtype = first.x.dtype
    shape = kernel_shape(reading, len(first.x), len((second or first).x))
    numbers = shape[0] * shape[1] * reading.numbers_per_pair
    if _traced((first, second, without_arrays(reading)[1])) or (
        block is None and numbers <= _SMALL
    ):
        return in_one_piece(read_batches, reading, (first, second))
    count = 2 if reading.settings.tangent else 1
    _check_memory(shape, count * math.prod(shape) * dtype.itemsize)
    outputs = tuple(_empty(shape, dtype) for _ in range(count))
    fill(outputs, reading, on_host(first), None if second is None else on_host(second), block)
    return tuple(jax.device_put(output, may_alias=True) for output in outputs)


def on_host(inputs: InputBatch) -> InputBatch:
    """Inputs where tiles are cut, as arrays of NumPy.

    Example:
        >>> isinstance(on_host(InputBatch(jnp.ones((2, 3)))).x, np.ndarray)
        True
    """
    return jax.tree.map(np.asarray, inputs)


def _check_memory(shape: tuple[int, ...], needed: int) -> None:
    available = available_memory()
    if available is not None and needed > available:
        size = " × ".join(map(str, shape))
        raise MemoryError(
            f"kernels of {size} entries need {readable(needed)}, and {readable(available)} are "
            "free. Compute blocks of them, infinite_kernels(architecture, x1[a:b], x2), or write "
            "them to disk: infinite_kernels_on_disk(folder, ...)."
        )


def _empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array that begins where JAX wants it, and so need not be copied."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def _small_or_traced(reading: InfiniteReading, inputs: Any) -> bool:
    """Whether a kernel of every input with one other is made in one piece."""
    leaves = jax.tree.leaves(inputs)
    if _traced((leaves, without_arrays(reading)[1])):
        return True
    return leaves[0].shape[0] * reading.numbers_per_pair <= _SMALL


def _traced(arrays: object) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arrays))


def in_one_piece(
    function: Callable[..., Outputs],
    reading: InfiniteReading,
    arguments: tuple[InputBatch | None, ...],
) -> Outputs:
    """Compiled by itself, or as a part of the function that is being compiled.

    Example: NNGP and tangent kernel of an input with itself, for two hidden ReLU layers.
        >>> from theorylab.models import mlp
        >>> x = jnp.array([[1.0, 1.0]])
        >>> reading = make_reading(mlp([1, 1]), x, NTK(), "none", False, tangent=True)
        >>> kernels = in_one_piece(read_diagonal, reading, (InputBatch(x),))
        >>> [round(float(kernel[0]), 6) for kernel in kernels]
        [0.25, 0.75]
    """
    frame, scales = without_arrays(reading)
    if _traced(scales):
        return _of_frame(function, frame, scales, arguments)
    if _traced(arguments):
        return function(reading, *arguments)
    device = jax.local_devices()[0]
    arguments = jax.device_put(arguments, device)
    return compiled(function, reading, arguments, device, quick=True)(*arguments)


@partial(jax.jit, static_argnums=(0, 1))
def _of_frame(
    function: Callable[..., Outputs],
    frame: InfiniteReading,
    scales: tuple[Array, ...],
    arguments: tuple[InputBatch | None, ...],
) -> Outputs:
    """One program for all values of scales, which is differentiated in them."""
    return function(with_arrays(frame, scales), *arguments)
