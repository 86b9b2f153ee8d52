"""Kernels larger than memory: written tile by tile into `npy` files.

The files are whole or not there: they are written under another name, and renamed at the end.
"""

import os
import shutil
from pathlib import Path

import numpy as np
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.models import NTK, Architecture, Parametrization
from theorylab.models.masks import Masked
from theorylab.models.parts import Bias
from theorylab.numerics.memory import readable

from .kernels import input_batches, kernel_shape, make_reading, on_host
from .tiles import fill


class StoredKernels(Answer, labels={"nngp": "NNGP K(x, x′)"}, axes=("x", "x′")):
    """NNGP and tangent kernel in files, read when they are looked at.

    Args:
        nngp: `folder/nngp.npy` as a memory map, (n₁, n₂).
        ntk: `folder/ntk.npy`.

    Example:
        >>> StoredKernels(nngp=np.eye(2), ntk=2 * np.eye(2)).ntk.shape
        (2, 2)
    """

    nngp: Float[np.ndarray, "n1 n2 ..."]
    ntk: Float[np.ndarray, "n1 n2 ..."]


def infinite_kernels_on_disk(
    folder: str | Path,
    architecture: Architecture,
    x1: Float[Array, "n1 ..."] | Masked,
    x2: Float[Array, "n2 ..."] | Masked | None = None,
    parametrization: Parametrization = NTK(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    training: bool = False,
    graphs1: Float[Array, "n1 s s"] | None = None,
    graphs2: Float[Array, "n2 s s"] | None = None,
    block: int | None = None,
) -> StoredKernels:
    """Write `nngp.npy` and `ntk.npy` into a folder; other arguments as of `infinite_kernels`.

    The folder is made if it is not there. Older files are replaced.

    Example:
        >>> import tempfile
        >>> import jax.numpy as jnp
        >>> from theorylab.models import mlp
        >>> x = jnp.array([[1.0, 1.0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     kernels = infinite_kernels_on_disk(folder, mlp([1, 1]), x)
        ...     print(sorted(os.listdir(folder)), float(kernels.ntk[0, 0]))
        ['nngp.npy', 'ntk.npy'] 0.75
    """
    reading = make_reading(architecture, x1, parametrization, bias, training, tangent=True)
    first, second = input_batches(architecture, x1, x2, graphs1, graphs2)
    if block is not None and block < 1:
        raise ValueError(f"block must be at least 1, got {block}.")
    dtype = first.x.dtype
    shape = kernel_shape(reading, len(first.x), len((second or first).x))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    needed = 2 * int(np.prod(shape, dtype=object)) * dtype.itemsize
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(f"the kernels need {readable(needed)}, and {folder} has {readable(free)}.")
    finals = [folder / f"{name}.npy" for name in ("nngp", "ntk")]
    parts = [final.with_name(f".{final.name}.{os.getpid()}.part") for final in finals]
    try:
        outputs = tuple(
            np.lib.format.open_memmap(part, mode="w+", dtype=dtype, shape=shape) for part in parts
        )
        other = None if second is None else on_host(second)
        fill(outputs, reading, on_host(first), other, block)
        for output in outputs:
            output.flush()
        del outputs
        for part, final in zip(parts, finals, strict=True):
            part.replace(final)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
    return StoredKernels(*(np.load(final, mmap_mode="r") for final in finals))
