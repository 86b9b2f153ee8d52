"""The parameters of a finite network, declared before any is drawn.

A network's declaration is a pytree of `Parameter`s: the shape, the role and the scaling of every
array. From it come the initial parameters, the factors of the learning rate, and a summary.

Source: golikov · abc-dichotomy · Def. 3.4.5 (the laws D); zhu · nqm-relu2 · Eq. 3.9 (outputs ±1).
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Params, RandomKey

from .parametrization import Role, Scaling

Law = Literal["normal", "uniform", "rademacher", "exponential"]


class OwnParameters(NamedTuple):
    """Parameters that a layer of the user's draws itself; their learning rates have the factor 1.

    Args:
        draw: key ─► parameters.

    Example:
        >>> own = OwnParameters(lambda key: {"gain": jnp.ones(3)})
        >>> [(name, leaf.shape) for name, leaf in own.shapes()]
        [('gain', (3,))]
    """

    draw: Callable[[RandomKey], Params]

    def shapes(self) -> list[tuple[str, jax.ShapeDtypeStruct]]:
        """Name every array, with its shape."""
        leaves, _ = jax.tree.flatten_with_path(jax.eval_shape(self.draw, jax.random.key(0)))
        return [(_path(path), leaf) for path, leaf in leaves]


class Parameter(NamedTuple):
    """One array of parameters w, used as W = multiplier · w.

    Args:
        shape: The shape of the array.
        role: What it connects; see `parametrization`.
        scaling: Its initial scale, multiplier and factor of the learning rate.
        start: A law D, from which w = initial scale · D is drawn; or the value W = 0 or 1.
    """

    shape: tuple[int, ...]
    role: Role
    scaling: Scaling
    start: Law | Literal["zero", "one"]


def initialize(key: RandomKey, parameters: Params) -> Params:
    """Draw parameters as they are declared, all of them independent.

    Args:
        key: The source of randomness.
        parameters: A pytree of `Parameter`s.

    Example:
        >>> from theorylab.models import Dense, network
        >>> declared = network(Dense(2), input_shape=(3,)).parameters
        >>> initialize(jax.random.key(0), declared)["weight"].shape
        (3, 2)
    """
    declared, structure = jax.tree.flatten(parameters, is_leaf=_is_parameter)
    drawn = [leaf for leaf in declared if isinstance(leaf, Parameter)]
    shapes = {law: tuple(p.shape for p in drawn if p.start == law) for law in get_args(Law)}
    pieces = {law: iter(_pieces(key, shapes[law], law)) for law in shapes if shapes[law]}
    own_keys = (jax.random.fold_in(key, number) for number in itertools.count(len(shapes)))

    def start(parameter: Parameter | OwnParameters) -> Params:
        if isinstance(parameter, OwnParameters):
            return parameter.draw(next(own_keys))
        shape, _, scaling, start = parameter
        if start == "zero":
            return jnp.zeros(shape)
        if start == "one":
            return jnp.full(shape, 1 / scaling.multiplier)
        return scaling.initial * next(pieces[start])

    return jax.tree.unflatten(structure, map(start, declared))


def learning_rates(parameters: Params) -> Params:
    """Give the factor of the learning rate of every array, in the structure of the parameters.

    Example:
        >>> from theorylab.models import MuP, mlp, network
        >>> model = network(mlp([64]), input_shape=(4,), parametrization=MuP())
        >>> learning_rates(model.parameters)
        ({'weight': 64.0}, (), {'weight': 64.0})
    """

    def factor(parameter: Parameter | OwnParameters) -> Params:
        if isinstance(parameter, Parameter):
            return parameter.scaling.learning_rate
        return jax.tree.map(lambda _: 1.0, jax.eval_shape(parameter.draw, jax.random.key(0)))

    return jax.tree.map(factor, parameters, is_leaf=_is_parameter)


def draw_weights(
    key: RandomKey, shape: tuple[int, ...], law: Law = "normal"
) -> Float[Array, "..."]:
    """Draw independent entries of mean 0 and variance 1.

    Args:
        key: The source of randomness.
        shape: The shape of the array.
        law: "normal"; "uniform" on [−√3, √3]; "rademacher": ±1 with probability ½ each;
            "exponential": E − 1 with E ~ Exp(1), which is not symmetric.

    Example:
        >>> draw_weights(jax.random.key(0), (2, 3)).shape
        (2, 3)
    """
    match law:
        case "normal":
            return jax.random.normal(key, shape)
        case "uniform":
            return jax.random.uniform(key, shape, minval=-math.sqrt(3), maxval=math.sqrt(3))
        case "rademacher":
            return jax.random.rademacher(key, shape, dtype=float)
        case "exponential":
            return jax.random.exponential(key, shape) - 1
    raise ValueError(f"law must be normal, uniform, rademacher or exponential, got {law!r}.")


def summary(parameters: Params) -> str:
    """Print the arrays of a network: shape, size, role and scales, and the total size.

    Args:
        parameters: A pytree of `Parameter`s, such as `model.parameters`, or the model.

    Example:
        >>> from theorylab.models import mlp, network
        >>> print(summary(network(mlp([64]), input_shape=(4,))))
        parameter  shape   size  role    initial  multiplier  learning rate
        0.weight   4 × 64   256  input         1         0.5              1
        2.weight   64 × 1    64  output        1       0.125              1
        all                 320
    """
    parameters = getattr(parameters, "parameters", parameters)
    declared, _ = jax.tree.flatten_with_path(parameters, is_leaf=_is_parameter)
    others = [part for _, part in declared if not _is_parameter(part)]
    if others or not declared:
        raise TypeError(
            "summary takes a model of theorylab.models or its parameters, got"
            f" {type(others[0] if others else parameters).__name__}."
        )
    head = ("parameter", "shape", "size", "role", "initial", "multiplier", "learning rate")
    arrays = [row for path, parameter in declared for row in _rows(_path(path), parameter)]
    rows = [
        (name, " × ".join(map(str, shape)), str(math.prod(shape)), *told)
        for name, shape, told in arrays
    ]
    total = sum(math.prod(shape) for _, shape, _ in arrays)
    rows = [head, *rows, ("all", "", str(total), "", "", "", "")]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = "<<><>>>"  # words to the left, numbers to the right
    lines = (
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


@partial(jax.jit, static_argnames=("shapes", "law"))
def _pieces(
    key: RandomKey, shapes: tuple[tuple[int, ...], ...], law: Law
) -> list[Float[Array, "..."]]:
    """The arrays that start with this law, cut from one draw: one program, whatever the shapes."""
    *ends, total = itertools.accumulate(map(math.prod, shapes))
    key_of_law = jax.random.fold_in(key, get_args(Law).index(law))
    numbers = jnp.split(draw_weights(key_of_law, (total,), law), ends)
    return [piece.reshape(shape) for shape, piece in zip(shapes, numbers, strict=True)]


def _rows(
    path: str, parameter: Parameter | OwnParameters
) -> list[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    """Name, shape, and role and scales of every array that is declared here."""
    if isinstance(parameter, Parameter):
        scales = (f"{scale:.4g}" for scale in parameter.scaling)
        return [(path, parameter.shape, (parameter.role, *scales))]
    return [
        (".".join(filter(None, (path, name))), leaf.shape, ("own", "", "", "1"))
        for name, leaf in parameter.shapes()
    ]


def _path(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _is_parameter(node: object) -> bool:
    return isinstance(node, Parameter | OwnParameters)
