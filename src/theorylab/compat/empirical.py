"""Kernels and expansions of finite networks by Neural Tangents' names.

    empirical_ntk_fn, empirical_nngp_fn, empirical_kernel_fn     f ─► kernel_fn(x1, x2, params)
    empirical_ntk_vp_fn                                          f, x1, x2, params ─► (v ─► Θv)
    linearize, taylor_expand                                     f, params ─► f of them

`trace_axes` are averaged, of `diagonal_axes` every entry is compared with itself, and other axes of
the outputs stand in interleaved pairs. A network must treat every input by itself.
"""

import enum
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
from jaxtyping import Array

from theorylab.kernels import nngp, ntk_of_axes, ntk_vector_product
from theorylab.kernels.finite import NTKMethod
from theorylab.kernels.finite.axes import Axes
from theorylab.models import linearize as linearized
from theorylab.models.taylor import taylor
from theorylab.typing import Apply, Params

from .kernel import Get, names_of, picked


class NtkImplementation(enum.IntEnum):
    """How a tangent kernel is computed; all give the same one.

    Example:
        >>> int(NtkImplementation.STRUCTURED_DERIVATIVES)
        3
    """

    AUTO = 0
    JACOBIAN_CONTRACTION = 1
    NTK_VECTOR_PRODUCTS = 2
    STRUCTURED_DERIVATIVES = 3


# What is default there is slow, so it leaves the choice here: a count of operations decides.
_METHODS: dict[int, NTKMethod] = {0: "auto", 1: "auto", 2: "products", 3: "structured"}


def empirical_ntk_fn(
    f: Callable[..., Array],
    trace_axes: Axes = (-1,),
    diagonal_axes: Axes = (),
    vmap_axes: Any = None,
    implementation: NtkImplementation | int = NtkImplementation.JACOBIAN_CONTRACTION,
    **_: Any,
) -> Callable[..., Array]:
    """Make the function of the tangent kernel of a network.

    Args:
        f: The network: (params, x, ...) ─► outputs.
        trace_axes: The axes of outputs that are averaged.
        diagonal_axes: The axes of which each entry is compared with itself only.
        vmap_axes: Has no effect: inputs are taken one by one along their first axis.
        implementation: Which method; 0 and 1 leave it to a count of operations.
        **_: Settings that have no effect.

    Example:
        >>> import jax.numpy as jnp
        >>> kernel_fn = empirical_ntk_fn(lambda w, x: x @ w)
        >>> kernel_fn(jnp.array([[1.0, 2.0]]), None, jnp.ones((2, 1))).tolist()
        [[5.0]]
    """
    method = _METHODS[int(implementation)]

    def kernel_fn(x1: Array, x2: Array | None, params: Params, **options: Any) -> Array:
        network = _with(f, options)
        return ntk_of_axes(network, params, x1, x2, trace_axes, diagonal_axes, method)

    return _in_blocks_already(kernel_fn)


def empirical_nngp_fn(
    f: Callable[..., Array], trace_axes: Axes = (-1,), diagonal_axes: Axes = ()
) -> Callable[..., Array]:
    """Make the function of the mean of f(x)f(x′) over outputs; arguments as above.

    Example:
        >>> import jax.numpy as jnp
        >>> kernel_fn = empirical_nngp_fn(lambda w, x: x @ w)
        >>> kernel_fn(jnp.array([[1.0, 2.0]]), None, jnp.ones((2, 1))).tolist()
        [[9.0]]
    """

    def kernel_fn(x1: Array, x2: Array | None, params: Params, **options: Any) -> Array:
        return nngp(_with(f, options), params, x1, x2, trace_axes, diagonal_axes)

    return _in_blocks_already(kernel_fn)


def empirical_kernel_fn(
    f: Callable[..., Array],
    trace_axes: Axes = (-1,),
    diagonal_axes: Axes = (),
    vmap_axes: Any = None,
    implementation: NtkImplementation | int = NtkImplementation.JACOBIAN_CONTRACTION,
    **_: Any,
) -> Callable[..., Any]:
    """Make the function of both kernels, (x1, x2, get, params) ─► kernels; arguments as above.

    Example:
        >>> import jax.numpy as jnp
        >>> kernel_fn = empirical_kernel_fn(lambda w, x: x @ w)
        >>> kernel_fn(jnp.array([[1.0, 2.0]]), None, "ntk", jnp.ones((2, 1))).tolist()
        [[5.0]]
    """
    functions = {
        "nngp": empirical_nngp_fn(f, trace_axes, diagonal_axes),
        "ntk": empirical_ntk_fn(f, trace_axes, diagonal_axes, vmap_axes, implementation),
    }

    def kernel_fn(x1: Array, x2: Array | None, get: Get, params: Params, **options: Any) -> Any:
        names = names_of(get)
        unknown = [name for name in names if name not in functions]
        if unknown:
            raise ValueError(f"get must name nngp, ntk or both, got {unknown[0]!r}.")
        values = {name: functions[name](x1, x2, params, **options) for name in names}
        return picked(values, get, "EmpiricalKernel")

    return _in_blocks_already(kernel_fn)


def empirical_ntk_vp_fn(
    f: Callable[..., Array], x1: Array, x2: Array | None, params: Params, **options: Any
) -> Callable[[Array], Array]:
    """Make the operator v ↦ Θv, of the sum over all outputs.

    Args:
        f: The network: (params, x, ...) ─► outputs.
        x1: The inputs x of Θ(x, x′).
        x2: The inputs x′; None: the same as x.
        params: The network's parameters.
        **options: What the network takes beside.

    Example:
        >>> import jax.numpy as jnp
        >>> x = jnp.array([[1.0, 2.0]])
        >>> product = empirical_ntk_vp_fn(lambda w, x: x @ w, x, None, jnp.ones((2, 1)))
        >>> product(jnp.array([[2.0]])).tolist()
        [[10.0]]
    """
    network = _with(f, options)
    shape = jax.eval_shape(network, params, x1).shape
    product = ntk_vector_product(lambda w, x: _rows(network(w, x)), params, x1, x2)
    return lambda vectors: product(_rows(vectors)).reshape(shape)


def linearize(f: Callable[..., Array], params: Params) -> Callable[..., Array]:
    """Expand a network to first order in its parameters.

    Example:
        >>> import jax.numpy as jnp
        >>> line = linearize(lambda w, x: w**3 * x, jnp.asarray(1.0))
        >>> float(line(jnp.asarray(1.5), jnp.asarray(1.0)))
        2.5
    """
    return _expanded(f, partial(linearized, params=params))


def taylor_expand(f: Callable[..., Array], params: Params, degree: int) -> Callable[..., Array]:
    """Expand a network to any order in its parameters.

    Example:
        >>> import jax.numpy as jnp
        >>> square = taylor_expand(lambda w, x: w**3 * x, jnp.asarray(1.0), degree=2)
        >>> float(square(jnp.asarray(1.5), jnp.asarray(1.0)))
        3.25
    """
    return _expanded(f, partial(taylor, params=params, order=degree))


def _expanded(f: Callable[..., Array], expand: Callable[[Apply], Apply]) -> Callable[..., Array]:
    def expanded(params: Params, x: Array, *rest: Any, **options: Any) -> Array:
        def network(w: Params, x: Array) -> Array:
            return f(w, x, *rest, **options)

        return expand(network)(params, x)

    return expanded


def _with(f: Callable[..., Array], options: dict[str, Any]) -> Apply:
    return partial(f, **options) if options else _kept(f)


@lru_cache(maxsize=64)
def _kept(f: Callable[..., Array]) -> Apply:
    """The same function for the same network, so that it is compiled once."""

    def apply(params: Params, x: Array) -> Array:
        return f(params, x)

    return apply


def _rows(outputs: Array) -> Array:
    return outputs.reshape(outputs.shape[0], -1)


def _in_blocks_already(kernel_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Say that memory is bounded without `batch`."""
    kernel_fn.node = None  # type: ignore[attr-defined]
    return kernel_fn
