"""Arrays of PyTorch as arrays of JAX, and the names of their types.

A copy by default: PyTorch trains in place, and an array of JAX never changes. Without a copy the
array stands in PyTorch's own memory (DLPack), where the two allow it, and changes with it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def kind_of(dtype: Any) -> str:
    """The name of a type: torch.float32 ─► float32.

    Args:
        dtype: A type of PyTorch, or of JAX.

    Example:
        >>> kind_of(jnp.dtype("float32"))
        'float32'
    """
    return str(dtype).rpartition(".")[2]


def canonical(kind: str) -> Any:
    """The type that JAX has for this name: of 32 bits, unless 64 are switched on.

    Args:
        kind: Such as "int64".

    Example: doctests run with 64 bits.
        >>> canonical("int64")
        dtype('int64')
    """
    return jax.dtypes.canonicalize_dtype(jnp.dtype(kind))


def as_jax(tensor: Any, copy: bool = True) -> Array:
    """A tensor of PyTorch as an array of JAX, of the same type.

    Args:
        tensor: On any device; it is brought to the CPU.
        copy: Whether the array has memory of its own.

    Example: whatever PyTorch can read, such as an array of NumPy, is read here too.
        >>> as_jax(np.arange(3.0)).tolist()
        [0.0, 1.0, 2.0]
    """
    if isinstance(tensor, np.ndarray):
        return jnp.asarray(tensor)
    tensor = tensor.detach().cpu().contiguous()
    kind = kind_of(tensor.dtype)
    if not copy and canonical(kind) == jnp.dtype(kind) and tensor.numel():
        return jnp.from_dlpack(tensor, copy=None)
    if kind == "bfloat16":  # NumPy alone does not know it
        import_as = tensor.view(_int16(tensor)).numpy().view(jnp.dtype("bfloat16"))
        return jnp.array(import_as)
    return jnp.array(tensor.numpy())


def _int16(tensor: Any) -> Any:
    """The type of 16 bits to look at memory through."""
    return tensor.new_empty(0).short().dtype
