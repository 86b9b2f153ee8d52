"""How networks are put together, by Neural Tangents' names: `serial`, `FanOut`, `FanInSum`."""

from typing import Any

import jax

from theorylab.models import NTK, Architecture, Model, network
from theorylab.models.architecture import Shape
from theorylab.models.parameters import Parameter
from theorylab.typing import Params

from ..layer import Layer, layer_of, node_of
from ..nodes import Chain, Join, Leaf, Spread, Ways


def serial(*layers: Any) -> Layer:
    """One layer after the other.

    Example:
        >>> import jax
        >>> from theorylab.compat import stax
        >>> init_fn, apply_fn, kernel_fn = serial(stax.Dense(8), stax.Relu(), stax.Dense(1))
        >>> kernel_fn(jax.numpy.array([[1.0, 1.0]]), None, ("nngp", "ntk"))
        AnalyticKernel(nngp=Array([[0.5]], dtype=...), ntk=Array([[1.]], dtype=...))
    """
    return layer_of(Chain(tuple(map(node_of, layers))))


def repeat(layer: Any, n: int) -> Layer:
    """The same layer several times, each time with parameters of its own, along a first axis.

    Example:
        >>> import jax
        >>> from theorylab.compat import stax
        >>> _, _, kernel_fn = repeat(stax.serial(stax.Dense(8), stax.Relu()), 3)
        >>> kernel_fn(jax.numpy.array([[1.0, 1.0]]), None, "nngp").tolist()
        [[0.125]]
    """
    if n < 0:
        raise ValueError(f"n must be at least 0, got {n}.")
    return layer_of(Chain((node_of(layer),) * n, stacked=True))


def parallel(*layers: Any) -> Layer:
    """One layer for each of several inputs.

    Example:
        >>> import jax
        >>> from theorylab.compat import stax
        >>> ways = stax.parallel(stax.Dense(3), stax.Identity())
        >>> network = stax.serial(stax.FanOut(2), ways, stax.FanInSum())
        >>> network.init_fn(jax.random.key(0), (-1, 3))[0]
        (-1, 3)
    """
    return layer_of(Ways(tuple(map(node_of, layers))))


def FanOut(num: int) -> Layer:
    """One input, several times.

    Example:
        >>> FanOut(2).init_fn(None, (-1, 3))[0]
        [(-1, 3), (-1, 3)]
    """
    return layer_of(Spread(num))


def FanInSum() -> Layer:
    """The sum of several inputs.

    Example:
        >>> FanInSum().init_fn(None, [(-1, 3), (-1, 3)])[0]
        (-1, 3)
    """
    return layer_of(Join("sum"))


def FanInProd() -> Layer:
    """The product of several inputs, coordinate by coordinate.

    Example:
        >>> FanInProd().init_fn(None, [(-1, 3), (-1, 3)])[0]
        (-1, 3)
    """
    return layer_of(Join("product"))


def FanInConcat(axis: int = -1) -> Layer:
    """Several inputs in one, along an axis.

    Args:
        axis: −1 for the channels, 1 for the first axis of positions.

    Example:
        >>> FanInConcat().init_fn(None, [(-1, 3), (-1, 4)])[0]
        (-1, 7)
    """
    if axis == 0:
        raise ValueError("axis must be that of channels or positions, got 0, that of samples.")
    return layer_of(Join("concatenate", axis if axis < 0 else axis - 1))


def from_architecture(architecture: Architecture) -> Layer:
    """Make a network of any architecture of theorylab, in the NTK parametrization with biases.

    Args:
        architecture: What it is; a layer of your own is one too.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.models import mlp
        >>> _, _, kernel_fn = from_architecture(mlp([8], output_bias=False))
        >>> kernel_fn(jnp.array([[1.0, 1.0]]), None, "nngp").tolist()
        [[1.0]]
    """

    def declared(shape: Shape) -> Model:
        return network(architecture, shape, NTK(), bias="normal")

    def convert(params: Any, shape: Shape) -> Params:
        """The weights themselves, multipliers included."""
        return jax.tree.map(
            lambda parameter, w: parameter.scaling.multiplier * w,
            declared(shape).parameters,
            params,
            is_leaf=lambda node: isinstance(node, Parameter),
        )

    def draw(key: Any, shape: Shape) -> Any:
        return declared(shape).init(key)

    leaf = Leaf("Architecture", lambda shape, _: architecture, draw, convert, "ntk")
    return layer_of(leaf)
