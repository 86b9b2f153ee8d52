"""One compiled program, called for one piece of work after another by every core or device.

JAX leaves Python alone while it computes, so threads are enough. On several devices, each has a
thread of its own and takes the next piece when it is done with one.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from theorylab.models.scales import with_arrays, without_arrays

from .reading import InfiniteReading

Device = Any

# Every thread computes on one core; that others help it would only cost time. And barriers in the
# program shall stay: without them every term of a sum over shifts would compute its layer anew.
_CPU_OPTIONS = {
    "xla_cpu_multi_thread_eigen": False,
    "xla_disable_hlo_passes": "cse_barrier_expander",
}
# What runs once, on little, takes longer to compile than to run: here half as long as else.
_QUICK_OPTIONS = {
    **_CPU_OPTIONS,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}


def compute(
    function: Callable[..., Any],
    reading: InfiniteReading,
    num_pieces: int,
    prepare: Callable[[int], Any],
    store: Callable[[int, Any], None],
) -> None:
    """Do all pieces of work, in any order.

    Args:
        function: (reading, *arguments) ─► results; compiled once.
        reading: The network.
        num_pieces: How many pieces there are.
        prepare: Gives the arguments of a piece, NumPy arrays of shapes that never change.
        store: Takes the number of a piece and its results.

    Example: K = xᵀx/d of a linear layer, for two inputs one after the other.
        >>> from theorylab.kernels.infinite.reading import InputBatch, read_diagonal
        >>> from theorylab.kernels.infinite.state import Settings
        >>> from theorylab.models import NTK, Dense
        >>> reading = InfiniteReading(Dense(1), Settings(NTK(), "none", False, tangent=False), (2,))
        >>> inputs, found = np.array([[[1.0, 1.0]], [[1.0, 3.0]]]), {}
        >>> prepare = lambda number: (InputBatch(inputs[number]),)
        >>> compute(read_diagonal, reading, 2, prepare, found.__setitem__)
        >>> [float(found[number][0][0]) for number in range(2)]
        [1.0, 5.0]
    """
    if num_pieces == 0:
        return
    devices = _devices(num_pieces)
    example = prepare(0)
    programs = [compiled(function, reading, example, device) for device in devices]
    pieces, lock = iter(range(num_pieces)), threading.Lock()

    double = jax.dtypes.canonicalize_dtype(np.float64) == np.float64

    def work(device: Device, program: Callable[..., Any]) -> None:
        with jax.enable_x64(double):  # a thread does not know what was set for this one
            while True:
                with lock:
                    number = next(pieces, None)
                if number is None:
                    return
                arguments = prepare(number)
                if len(set(devices)) > 1:
                    arguments = jax.device_put(arguments, device)
                store(number, jax.block_until_ready(program(*arguments)))

    if len(devices) == 1:
        work(devices[0], programs[0])
        return
    with ThreadPoolExecutor(len(devices)) as pool:
        for finished in [pool.submit(work, *pair) for pair in zip(devices, programs, strict=True)]:
            finished.result()


def compiled(
    function: Callable[..., Any],
    reading: InfiniteReading,
    arguments: Any,
    device: Device,
    quick: bool = False,
) -> Callable[..., Any]:
    """The program for arguments of these shapes, made once for all values of scales.

    Args:
        function: (reading, *arguments) ─► results.
        reading: The network.
        arguments: Arrays of these shapes.
        device: Where it runs.
        quick: Whether to compile it quickly rather than well.

    Example: K = xᵀx/d of a linear layer.
        >>> from theorylab.kernels.infinite.reading import InputBatch, read_diagonal
        >>> from theorylab.kernels.infinite.state import Settings
        >>> from theorylab.models import NTK, Dense
        >>> reading = InfiniteReading(Dense(1), Settings(NTK(), "none", False, tangent=False), (2,))
        >>> x, device = InputBatch(np.array([[1.0, 3.0]])), jax.local_devices()[0]
        >>> compiled(read_diagonal, reading, (x,), device)(x)[0].tolist()
        [5.0]
    """
    frame, scales = without_arrays(reading)
    scales = jax.device_put(scales, device)
    leaves, structure = jax.tree.flatten((scales, *arguments))
    forms = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
    return partial(_program(function, frame, structure, forms, device, quick), scales)


def _devices(num_pieces: int) -> list[Device]:
    """The device of every thread: each one once, or a lone CPU for every core."""
    devices = jax.local_devices()
    if len(devices) == 1 and devices[0].platform == "cpu":
        devices = devices * _num_cores()
    return devices[:num_pieces]


@lru_cache(maxsize=256)
def _program(
    function: Callable[..., Any],
    reading: InfiniteReading,
    structure: Any,
    forms: tuple[tuple[tuple[int, ...], Any], ...],
    device: Device,
    quick: bool,
) -> Callable[..., Any]:
    place = jax.sharding.SingleDeviceSharding(device)
    placed = [jax.ShapeDtypeStruct(*form, sharding=place) for form in forms]

    def given(scales: tuple[Array, ...], *arguments: Any) -> Any:
        return function(with_arrays(reading, scales), *arguments)

    lowered = jax.jit(given).lower(*jax.tree.unflatten(structure, placed))
    if device.platform != "cpu":
        return lowered.compile()
    try:
        return lowered.compile(_QUICK_OPTIONS if quick else _CPU_OPTIONS)
    except jax.errors.JaxRuntimeError:  # another version of XLA has other options
        return lowered.compile()


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # what this process may use, where the system says so
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
