"""The finite reading of an architecture: a network that can be drawn, applied and trained.

    model = network(mlp([512]), input_shape=(784,), parametrization=NTK())
    params = model.init(jax.random.key(0))
    outputs = model.apply(params, x)

Parameters are plain pytrees: a dictionary for a layer with parameters, () for one without, a tuple
for a `Serial`. Weights have the shape (fan-in, fan-out), in convolutions (*window, in, out).

The role of a weight follows from its place. A layer after which no weights come is an output layer;
any other `Dense` or `Conv` makes a wide layer, whose width is taken for large. What has passed a
wide layer is wide.

Source: zhu · dag-zoo · A.1, A.4–A.6.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from theorylab.typing import Apply, Params, RandomKey

from .activations import activation
from .architecture import (
    Activation,
    Architecture,
    AvgPool,
    Concatenate,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    LayerNorm,
    Residual,
    Serial,
    Shape,
)
from .parameters import Law, Parameter, initialize, learning_rates
from .parametrization import NTK, Parametrization, Role
from .windows import average, convolve

Bias = Literal["none", "zero", "normal"]


class Model(NamedTuple):
    """A finite network.

    Args:
        init: Draws parameters: key ─► params.
        apply: Computes outputs: (params, inputs with a leading axis of samples) ─► outputs.
        learning_rates: Gives the factor of the learning rate of every array of parameters, as
            numbers in the structure of `params`.
        parameters: The declaration of the parameters, which `summary` tells.
    """

    init: Callable[[RandomKey], Params]
    apply: Apply
    learning_rates: Callable[[Params], Params]
    parameters: Params


class _Settings(NamedTuple):
    """What holds for the whole network."""

    parametrization: Parametrization
    bias: Bias
    law: Law


class _Place(NamedTuple):
    """Where a layer stands: what comes in, is it wide, and are these the last weights?"""

    shape: Shape
    wide: bool
    last: bool


class _Part(NamedTuple):
    """A layer in its place: its parameters, what it computes, and whether that is wide."""

    parameters: Params
    apply: Apply
    wide: bool


def network(
    architecture: Architecture,
    input_shape: tuple[int, ...],
    parametrization: Parametrization = NTK(),  # noqa: B008 (it is frozen)
    bias: Bias = "none",
    law: Law = "normal",
) -> Model:
    """Read an architecture as a finite network.

    Args:
        architecture: What the network is.
        input_shape: The shape of one input: (d,), (height, width, channels), ...
        parametrization: Initial scale, multiplier and learning rate of every parameter.
        bias: "none"; "zero": trained, initially 0; "normal": trained, initially normal.
        law: The law D of the initial weights, of mean 0 and variance 1.

    Example:
        >>> from theorylab.models import mlp
        >>> model = network(mlp([8], num_outputs=2), input_shape=(3,))
        >>> params = model.init(jax.random.key(0))
        >>> model.apply(params, jnp.ones((5, 3))).shape
        (5, 2)
    """
    if any(size < 1 for size in input_shape):
        raise ValueError(f"input_shape must have sizes of at least 1, got {input_shape}.")
    architecture.output_shape(input_shape)  # says what does not fit, before any work
    settings = _Settings(parametrization, bias, law)
    whole = _read(architecture, _Place(input_shape, wide=False, last=True), settings)
    factors = learning_rates(whole.parameters)

    def init(key: RandomKey) -> Params:
        return initialize(key, whole.parameters)

    def apply(params: Params, x: Array) -> Array:
        if x.ndim == 0 or x.shape[1:] != input_shape:
            expected = ", ".join(["n", *map(str, input_shape)])
            raise ValueError(f"inputs must have shape ({expected}), got {x.shape}.")
        return whole.apply(params, x)

    def factors_of(params: Params) -> Params:
        return jax.tree.map(lambda factor, _: factor, factors, params)

    return Model(init, apply, factors_of, whole.parameters)


def _read(layer: Architecture, place: _Place, settings: _Settings) -> _Part:
    match layer:
        case Serial():
            return _serial(layer, place, settings)
        case Residual():
            return _residual(layer, place, settings)
        case Concatenate():
            return _concatenate(layer, place, settings)
        case Dense():
            return _linear(layer, (place.shape[-1], layer.width), jnp.matmul, place, settings)
        case Conv():
            shape = (*layer.window, place.shape[-1], layer.channels)
            product = partial(convolve, strides=layer.strides, padding=layer.padding)
            return _linear(layer, shape, product, place, settings)
        case LayerNorm():
            return _layer_norm(layer, place, settings)
        case Activation():
            return _fixed(activation(layer.function), place)
        case AvgPool():
            return _fixed(
                partial(average, window=layer.window, strides=layer.strides, padding=layer.padding),
                place,
            )
        case GlobalPool():
            return _fixed(lambda x: x.mean(axis=tuple(range(1, x.ndim - 1))), place)
        case Flatten():
            return _fixed(lambda x: x.reshape(x.shape[0], math.prod(place.shape)), place)
    raise TypeError(f"network has no reading for a layer of type {type(layer).__name__}.")


def _serial(serial: Serial, place: _Place, settings: _Settings) -> _Part:
    shape, wide = place.shape, place.wide
    parts: list[_Part] = []
    for index, layer in enumerate(serial.layers):
        last = place.last and not any(map(_has_weights, serial.layers[index + 1 :]))
        parts.append(_read(layer, _Place(shape, wide, last), settings))
        shape, wide = layer.output_shape(shape), parts[-1].wide

    def apply(params: Params, x: Array) -> Array:
        for part, part_params in zip(parts, params, strict=True):
            x = part.apply(part_params, x)
        return x

    return _Part(tuple(part.parameters for part in parts), apply, wide)


def _residual(residual: Residual, place: _Place, settings: _Settings) -> _Part:
    branch = _read(residual.branch, place, settings)
    shortcut = _read(residual.shortcut, place, settings)

    def apply(params: Params, x: Array) -> Array:
        return shortcut.apply(params["shortcut"], x) + branch.apply(params["branch"], x)

    parameters = {"branch": branch.parameters, "shortcut": shortcut.parameters}
    return _Part(parameters, apply, branch.wide or shortcut.wide)


def _concatenate(concatenate: Concatenate, place: _Place, settings: _Settings) -> _Part:
    branch = _read(concatenate.branch, place, settings)

    def apply(params: Params, x: Array) -> Array:
        return jnp.concatenate([x, branch.apply(params, x)], axis=-1)

    return _Part(branch.parameters, apply, place.wide or branch.wide)


def _linear(
    layer: Dense | Conv,
    shape: Shape,
    product: Callable[[Array, Array], Array],
    place: _Place,
    settings: _Settings,
) -> _Part:
    fan_in, fan_out = math.prod(shape[:-1]), shape[-1]
    roles: dict[tuple[bool, bool], Role] = {
        (False, False): "input",
        (True, False): "hidden",
        (True, True): "output",
        (False, True): "fixed",
    }
    role = roles[place.wide, place.last]
    scaling = settings.parametrization.scaling(role, fan_in, fan_out)
    parameters = {"weight": Parameter(shape, role, scaling, settings.law)}
    bias_scaling = None
    if layer.bias and settings.bias != "none":
        role = "output_bias" if place.last else "bias"
        bias_scaling = settings.parametrization.scaling(role, fan_in, fan_out)
        parameters["bias"] = Parameter((fan_out,), role, bias_scaling, settings.bias)

    def apply(params: Params, x: Array) -> Array:
        y = scaling.multiplier * product(x, params["weight"])
        if bias_scaling is None:
            return y
        return y + jnp.broadcast_to(bias_scaling.multiplier * params["bias"], y.shape)

    return _Part(parameters, apply, wide=not place.last)


def _layer_norm(layer: LayerNorm, place: _Place, settings: _Settings) -> _Part:
    def normalise(params: Params, x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = jnp.square(centred).mean(axis=-1, keepdims=True)
        return centred / jnp.sqrt(variance + layer.epsilon)

    if not layer.affine:
        return _Part((), normalise, place.wide)

    width = place.shape[-1]
    # Where channels do not grow with the width, n = 1 and no exponent counts.
    scaling = settings.parametrization.scaling("gain", 1, width if place.wide else 1)
    parameters = {
        "gain": Parameter((width,), "gain", scaling, "one"),
        "offset": Parameter((width,), "gain", scaling, "zero"),
    }

    def apply(params: Params, x: Array) -> Array:
        gain = jnp.broadcast_to(scaling.multiplier * params["gain"], x.shape)
        offset = jnp.broadcast_to(scaling.multiplier * params["offset"], x.shape)
        return gain * normalise((), x) + offset

    return _Part(parameters, apply, place.wide)


def _fixed(function: Callable[[Array], Array], place: _Place) -> _Part:
    return _Part((), lambda params, x: function(x), place.wide)


def _has_weights(layer: Architecture) -> bool:
    match layer:
        case Dense() | Conv():
            return True
        case Serial(layers=layers):
            return any(map(_has_weights, layers))
        case Residual(branch=branch, shortcut=shortcut):
            return _has_weights(branch) or _has_weights(shortcut)
        case Concatenate(branch=branch):
            return _has_weights(branch)
    return False
