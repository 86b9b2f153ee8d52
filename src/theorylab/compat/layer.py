"""The three functions of a network: `init_fn, apply_fn, kernel_fn = stax.serial(...)`.

    init_fn(key, input_shape)    ─► (output_shape, params)    drawn in Neural Tangents' order
    apply_fn(params, x)          ─► outputs                   by `models.network`
    kernel_fn(x1, x2, get)       ─► kernels                   by `kernels.infinite_kernels`

Shapes have the axis of samples in front, which may be −1. Each function carries the `node` that it
was made of, so networks are put together from triples of functions.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from theorylab.kernels import infinite_diagonal, infinite_kernels, infinite_nngp
from theorylab.models import NTK, Model, Parametrization, Standard, network
from theorylab.models.masks import mask_constant as masked_at

from .kernel import Get, Kernel, names_of, picked
from .nodes import Node, Reading, assembled, drawn, leaves


class Layer(NamedTuple):
    """A network, or a part of one, as three functions.

    Example:
        >>> from theorylab.compat import stax
        >>> init_fn, apply_fn, kernel_fn = stax.Relu()
        >>> apply_fn((), jnp.array([[-1.0, 2.0]])).tolist()
        [[0.0, 2.0]]
    """

    init_fn: Callable[..., Any]
    apply_fn: Callable[..., Any]
    kernel_fn: Callable[..., Any]


def layer_of(node: Node) -> Layer:
    """Make the three functions of a node.

    Example:
        >>> import jax
        >>> from theorylab.compat.nodes import Spread
        >>> init_fn, _, _ = layer_of(Spread(2))
        >>> init_fn(jax.random.key(0), (-1, 3))
        ([(-1, 3), (-1, 3)], ())
    """

    def init_fn(rng: Any, input_shape: Any, **_: Any) -> tuple[Any, Any]:
        shape, params = drawn(node, rng, _without_samples(input_shape))
        return _with_samples(shape, input_shape), params

    def apply_fn(params: Any, inputs: Array, **options: Any) -> Array:
        return _outputs(node, params, inputs, **options)

    def kernel_fn(
        x1: Any,
        x2: Any = None,
        get: Get = None,
        *,
        pattern: tuple[Array | None, Array | None] | None = None,
        mask_constant: Any = None,
        **_: Any,
    ) -> Any:
        return _kernels(node, x1, x2, get, pattern, mask_constant)

    for function in (init_fn, apply_fn, kernel_fn):
        function.node = node  # type: ignore[attr-defined]
    return Layer(init_fn, apply_fn, kernel_fn)


def node_of(layer: Any) -> Node:
    """The node that a triple of functions was made of.

    Example:
        >>> from theorylab.compat import stax
        >>> node_of(stax.Relu()).name
        'Relu'
    """
    node = getattr(layer[-1], "node", None) if isinstance(layer, tuple) else None
    if node is None:
        raise TypeError(
            "layers must be made by theorylab.compat.stax, got one that is not; an Architecture of "
            "theorylab, or a layer of your own, becomes one by stax.from_architecture."
        )
    return node


def _without_samples(shape: Any) -> Any:
    if isinstance(shape, list):
        return [_without_samples(one) for one in shape]
    return tuple(int(size) for size in shape[1:])


def _with_samples(shape: Any, given: Any) -> Any:
    if isinstance(shape, list):
        return [_with_samples(one, given) for one in shape]
    first = given[0]
    while isinstance(first, tuple | list):
        first = first[0]
    return (first, *shape)


@lru_cache(maxsize=512)
def _network(node: Node, shape: tuple[int, ...], graphs: bool) -> tuple[Model, Any]:
    """The finite network: its weights are drawn and scaled beforehand."""
    piece = assembled(node, shape, Reading(finite=True, graphs=graphs))
    return network(piece.layer, shape, Standard(), bias="zero"), piece.params


def _outputs(
    node: Node,
    params: Any,
    inputs: Array,
    rng: Any = None,
    pattern: Array | None = None,
    mask_constant: Any = None,
    **_: Any,
) -> Array:
    inputs = jnp.asarray(inputs)
    noisy = any(leaf.noisy for leaf in leaves(node))
    if noisy and rng is None:
        raise ValueError("rng must be given: Dropout in the mode 'train' needs it, got None.")
    model, taken = _network(node, inputs.shape[1:], pattern is not None)
    x = _masked(inputs, mask_constant)
    graphs = () if pattern is None else (jnp.swapaxes(pattern, -1, -2),)
    if noisy:
        return model.noisy(taken(params), x, rng, *graphs)
    return model.apply(taken(params), x, *graphs)


def _masked(x: Any, constant: Any) -> Any:
    return x if constant is None else masked_at(x, float(constant))


def _kernels(
    node: Node,
    x1: Any,
    x2: Any,
    get: Get,
    pattern: tuple[Array | None, Array | None] | None,
    mask_constant: Any,
) -> Any:
    if isinstance(x1, Kernel):
        raise NotImplementedError("kernel_fn takes inputs, not a Kernel: join layers by serial.")
    names = names_of(get)
    x1 = jnp.asarray(x1, dtype=float)
    if x2 is not None:
        again = _same(x1, x2) and (pattern is None or _same(*pattern))
        x2 = None if again else jnp.asarray(x2, dtype=x1.dtype)
    piece = assembled(node, x1.shape[1:], Reading(finite=False, graphs=pattern is not None))
    graphs = [None if one is None else jnp.swapaxes(one, -1, -2) for one in pattern or (None,) * 2]
    first = _masked(x1, mask_constant)
    second = None if x2 is None else _masked(x2, mask_constant)
    settings = {
        "parametrization": parametrization_of(node),
        "bias": "normal",
        "training": any(leaf.noisy for leaf in leaves(node)),
    }
    both = {**settings, "graphs1": graphs[0], "graphs2": None if x2 is None else graphs[1]}
    values: dict[str, Any] = {}
    if "ntk" in names:
        kernels = infinite_kernels(piece.layer, first, second, **both)
        values = {"nngp": kernels.nngp, "ntk": kernels.ntk}
    elif "nngp" in names:
        values = {"nngp": infinite_nngp(piece.layer, first, second, **both)}
    if get is not None and set(names) <= set(values):
        return picked(values, get, "AnalyticKernel")

    def variances(x: Any, of: Array | None) -> Array | None:
        return None if x is None else infinite_diagonal(piece.layer, x, graphs=of, **settings).nngp

    shape = piece.layer.output_shape(x1.shape[1:])
    kernel = Kernel(
        nngp=values["nngp"] if values else None,
        ntk=values.get("ntk"),
        cov1=variances(first, graphs[0]),
        cov2=variances(second, graphs[1]),
        shape1=(len(x1), *shape),
        shape2=(len(x1 if x2 is None else x2), *shape),
        x1_is_x2=x2 is None,
    )
    return kernel if get is None else picked(vars(kernel), get, "AnalyticKernel")


def _same(x1: Array | None, x2: Array | None) -> bool:
    """Whether the second batch is the first again, where there are values to look at."""
    if x1 is x2:
        return True
    if x1 is None or x2 is None or x1.shape != x2.shape:
        return False
    if isinstance(x1, Tracer) or isinstance(x2, Tracer):
        return False
    return bool(np.array_equal(np.asarray(x1), np.asarray(x2)))


def parametrization_of(node: Node) -> Parametrization:
    """The one parametrization of all layers of a network.

    Example:
        >>> from theorylab.compat import stax
        >>> parametrization_of(node_of(stax.Dense(3, parameterization="standard")))
        Standard(weight_scale=1.0, bias_scale=1.0)
    """
    kinds = {leaf.parametrized for leaf in leaves(node)} - {None}
    if len(kinds) > 1:
        raise ValueError(
            "parameterization must be the same in all layers of one kernel, got ntk and standard."
        )
    return Standard() if kinds == {"standard"} else NTK()
