"""The finite reading of an architecture: a network that can be drawn, applied and trained.

    model = network(mlp([512]), input_shape=(784,), parametrization=NTK())
    params = model.init(jax.random.key(0))
    outputs = model.apply(params, x)

Parameters are plain pytrees: a dictionary for a layer with parameters, () for one without, a tuple
for a `Serial`. Weights have the shape (fan-in, fan-out), in convolutions (*window, in, out), and
(*positions, *window, in, out) where every position has its own. How each is scaled follows from
its place; see `parts`.

Source: zhu · dag-zoo · A.1, A.4–A.6.
"""

import functools
import math
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from theorylab.typing import Apply, Params, RandomKey

from .activations import activation
from .architecture import (
    Activation,
    Architecture,
    AvgPool,
    BatchNorm,
    Concatenate,
    Conv,
    ConvTranspose,
    Dense,
    Flatten,
    GlobalPool,
    LayerNorm,
    Product,
    Residual,
    Serial,
    check_sizes,
)
from .attention import self_attention
from .branches import Parallel
from .custom_layer import CustomLayer
from .einsum import Einsum, einsum_of_inputs
from .masks import Masked, output_mask, unmasked
from .mixing import Aggregate, Dropout, Resize, SelfAttention, Upsample
from .parameters import Law, initialize, learning_rates
from .parametrization import NTK, Parametrization, check_bias_scale
from .parts import (
    Bias,
    FiniteLayer,
    LayerPlace,
    NetworkSettings,
    SideInputs,
    aggregation,
    custom_layer,
    dropout,
    fixed,
    global_pool,
    linear_layer,
    masking,
    normalization,
)
from .selection import Index
from .unfold import Patches, unfold
from .windows import (
    convolve,
    convolve_locally,
    convolve_transposed,
    resize,
    upsample,
    window_counts,
    window_mean,
    window_sum,
)


class Model(NamedTuple):
    """A finite network.

    Args:
        init: Draws parameters: key ─► params.
        apply: Computes outputs: (params, inputs with a leading axis of samples) ─► outputs; a third
            argument has the graph of every input, for an `Aggregate` that has none. Inputs may be
            `Masked(x, mask)`; outputs are 0 where they are missing.
        learning_rates: Gives the factor of the learning rate of every array of parameters, as
            numbers in the structure of `params`.
        parameters: The declaration of the parameters; `summary` prints it.
        noisy: Computes outputs as in training, with the noise of every `Dropout`:
            (params, inputs, key) ─► outputs; a fourth argument has the graphs.

    Example:
        >>> from theorylab.models import Dense
        >>> model = network(Dense(2), input_shape=(3,))
        >>> model.learning_rates(model.init(jax.random.key(0)))
        {'weight': 1.0}
    """

    init: Callable[[RandomKey], Params]
    apply: Callable[..., Array]
    learning_rates: Callable[[Params], Params]
    parameters: Params
    noisy: Callable[..., Array]


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
        bias: "none"; "zero": trained, initially 0; "normal" or "uniform": trained, initially so.
        law: The law D of the initial weights, of mean 0 and variance 1.

    Example:
        >>> from theorylab.models import mlp
        >>> model = network(mlp([8], num_outputs=2), input_shape=(3,))
        >>> params = model.init(jax.random.key(0))
        >>> model.apply(params, jnp.ones((5, 3))).shape
        (5, 2)
    """
    _check_settings(architecture, input_shape, parametrization, bias, law)
    input_shape = tuple(input_shape)
    architecture.output_shape(input_shape)  # says what does not fit, before any work
    settings = NetworkSettings(parametrization, bias, law)
    whole = _read(architecture, LayerPlace(input_shape, wide=False, last=True), settings)
    factors = learning_rates(whole.parameters)
    needs_graphs = any(
        isinstance(layer, Aggregate) and layer.graph is None for layer in _layers(architecture)
    )

    def init(key: RandomKey) -> Params:
        return initialize(key, whole.parameters)

    def outputs(
        params: Params, inputs: Array | Masked, key: RandomKey | None, graphs: Array | None
    ) -> Array:
        x, mask = unmasked(inputs)
        _check_inputs(x, graphs, input_shape, needs_graphs)
        return whole.apply(params, x, SideInputs(graphs, key, mask))

    def apply(params: Params, x: Array | Masked, graphs: Array | None = None) -> Array:
        return outputs(params, x, None, graphs)

    def noisy(
        params: Params, x: Array | Masked, key: RandomKey, graphs: Array | None = None
    ) -> Array:
        return outputs(params, x, key, graphs)

    def factors_of(params: Params) -> Params:
        return jax.tree.map(lambda factor, _: factor, factors, params)

    return Model(init, apply, factors_of, whole.parameters, noisy)


def in_batches(apply: Apply, batch_size: int) -> Apply:
    """Make a network that takes its inputs in batches, which matters if it has a `BatchNorm`.

    Args:
        apply: Any network.
        batch_size: Inputs at a time; the last batch is smaller if they do not divide.

    Example:
        >>> centred = in_batches(lambda _, x: x - x.mean(axis=0, keepdims=True), batch_size=2)
        >>> centred((), jnp.array([[0.0], [2.0], [5.0]])).tolist()
        [[-1.0], [1.0], [0.0]]
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")

    def in_turn(params: Params, x: Array) -> Array:
        whole, shape = len(x) // batch_size, x.shape[1:]
        if whole == 0 or len(x) == batch_size:
            return apply(params, x)
        parts = x[: whole * batch_size].reshape(whole, batch_size, *shape)
        outputs = jax.lax.map(lambda part: apply(params, part), parts)
        joined = outputs.reshape(-1, *outputs.shape[2:])
        rest = x[whole * batch_size :]
        return jnp.concatenate([joined, apply(params, rest)]) if len(rest) else joined

    return in_turn


def _read(layer: Architecture, place: LayerPlace, settings: NetworkSettings) -> FiniteLayer:
    return masking(layer, place, _unmasked_reading(layer, place, settings))


def _unmasked_reading(
    layer: Architecture, place: LayerPlace, settings: NetworkSettings
) -> FiniteLayer:
    match layer:
        case Serial():
            return _serial(layer, place, settings)
        case Residual():
            return _two_ways(layer, jnp.add, place, settings)
        case Product():
            return _two_ways(layer, jnp.multiply, place, settings)
        case Concatenate():
            return _concatenate(layer, place, settings)
        case Parallel():
            return _parallel(layer, place, settings)
        case Dense():
            return linear_layer(layer, (place.shape[-1], layer.width), jnp.matmul, place, settings)
        case Conv() | ConvTranspose():
            return _convolution(layer, place, settings)
        case SelfAttention():
            return self_attention(layer, place, settings)
        case LayerNorm() | BatchNorm():
            return normalization(layer, place, settings)
        case GlobalPool():
            return global_pool(layer, place)
        case Aggregate():
            return aggregation(layer, place)
        case Dropout():
            return dropout(layer, place)
        case CustomLayer():
            return custom_layer(layer, place)
    return fixed(_function(layer, place), place)


def _function(layer: Architecture, place: LayerPlace) -> Callable[[Array], Array]:
    """What a layer without parameters computes."""
    match layer:
        case Activation():
            return activation(layer.function)
        case AvgPool():
            return _pool(layer, place.shape)
        case Flatten():
            return lambda x: x.reshape(x.shape[0], math.prod(place.shape))
        case Patches():
            return lambda x: unfold(x, layer.window, layer.strides, layer.padding)
        case Upsample():
            return lambda x: upsample(x, layer.factors, layer.method)
        case Resize():
            return lambda x: resize(x, layer.positions, layer.method, layer.antialias)
        case Index():
            return lambda x: x[:, *layer.at(place.shape)]
        case Einsum():
            return lambda x: einsum_of_inputs(layer, x)
    raise TypeError(
        f"network has no reading for a layer of type {type(layer).__name__}: a layer of your own "
        "is a CustomLayer."
    )


def _pool(layer: AvgPool, shape: tuple[int, ...]) -> Callable[[Array], Array]:
    window = (layer.window, layer.strides, layer.padding)
    if layer.reduce == "sum":
        return lambda x: window_sum(x, *window)
    if layer.count_padding:
        return lambda x: window_mean(x, *window)
    counts = functools.reduce(np.multiply.outer, window_counts(shape[:-1], *window))
    return lambda x: window_sum(x, *window) / jnp.asarray(counts, x.dtype)[None, ..., None]


def _convolution(
    layer: Conv | ConvTranspose, place: LayerPlace, settings: NetworkSettings
) -> FiniteLayer:
    shape = (*layer.window, place.shape[-1], layer.channels)
    copies = ()
    if isinstance(layer, ConvTranspose):
        convolution = convolve_transposed
    elif layer.shared:
        convolution = convolve
    else:
        convolution, copies = convolve_locally, layer.output_shape(place.shape)[:-1]
    product = partial(convolution, strides=layer.strides, padding=layer.padding)
    return linear_layer(layer, shape, product, place, settings, copies)


def _serial(serial: Serial, place: LayerPlace, settings: NetworkSettings) -> FiniteLayer:
    shape, wide = place.shape, place.wide
    shapes: list[tuple[int, ...]] = []
    parts: list[FiniteLayer] = []
    for index, layer in enumerate(serial.layers):
        last = place.last and not any(map(_has_weights, serial.layers[index + 1 :]))
        parts.append(_read(layer, LayerPlace(shape, wide, last), settings))
        shapes.append(shape)
        shape, wide = layer.output_shape(shape), parts[-1].wide

    def apply(params: Params, x: Array, beside: SideInputs) -> Array:
        for index, (part, part_params) in enumerate(zip(parts, params, strict=True)):
            x = part.apply(part_params, x, beside.at(index))
            if beside.mask is not None:
                mask = output_mask(serial.layers[index], beside.mask, shapes[index])
                beside = beside._replace(mask=mask)
        return x

    return FiniteLayer(tuple(part.parameters for part in parts), apply, wide)


def _two_ways(
    layer: Residual | Product,
    join: Callable[[Array, Array], Array],
    place: LayerPlace,
    settings: NetworkSettings,
) -> FiniteLayer:
    branch = _read(layer.branch, place, settings)
    shortcut = _read(layer.shortcut, place, settings)

    def apply(params: Params, x: Array, beside: SideInputs) -> Array:
        first = shortcut.apply(params["shortcut"], x, beside.at(0))
        return join(first, branch.apply(params["branch"], x, beside.at(1)))

    parameters = {"branch": branch.parameters, "shortcut": shortcut.parameters}
    return FiniteLayer(parameters, apply, branch.wide or shortcut.wide)


def _concatenate(
    concatenate: Concatenate, place: LayerPlace, settings: NetworkSettings
) -> FiniteLayer:
    branch = _read(concatenate.branch, place, settings)

    def apply(params: Params, x: Array, beside: SideInputs) -> Array:
        return jnp.concatenate([x, branch.apply(params, x, beside)], axis=-1)

    return FiniteLayer(branch.parameters, apply, place.wide or branch.wide)


def _parallel(parallel: Parallel, place: LayerPlace, settings: NetworkSettings) -> FiniteLayer:
    branches = [_read(branch, place, settings) for branch in parallel.branches]

    def joined(outputs: list[Array]) -> Array:
        if parallel.join == "concatenate":
            return jnp.concatenate(outputs, 1 + parallel.joined_axis(outputs[0].shape[1:]))
        return reduce(jnp.add if parallel.join == "sum" else jnp.multiply, outputs)

    def apply(params: Params, x: Array, beside: SideInputs) -> Array:
        numbered = enumerate(zip(branches, params, strict=True))
        return joined([one.apply(own, x, beside.at(index)) for index, (one, own) in numbered])

    parameters = tuple(branch.parameters for branch in branches)
    return FiniteLayer(parameters, apply, any(branch.wide for branch in branches))


def _layers(layer: Architecture) -> Iterator[Architecture]:
    """Every layer of the tree that has no layers inside."""
    match layer:
        case Serial(layers=layers):
            inner = layers
        case Residual() | Product():
            inner = (layer.branch, layer.shortcut)
        case Concatenate():
            inner = (layer.branch,)
        case Parallel(branches=branches):
            inner = branches
        case _:
            yield layer
            return
    for each in inner:
        yield from _layers(each)


def _has_weights(layer: Architecture) -> bool:
    kinds = (Dense, Conv, ConvTranspose, SelfAttention)
    return any(
        isinstance(each, kinds) or (isinstance(each, CustomLayer) and each.outputs == "new")
        for each in _layers(layer)
    )


def _check_settings(
    architecture: Any, input_shape: Any, parametrization: Any, bias: Any, law: Any
) -> None:
    for name, value, kind, example in (
        ("architecture", architecture, Architecture, "mlp([512])"),
        ("parametrization", parametrization, Parametrization, "NTK() or MuP()"),
    ):
        if not isinstance(value, kind):
            must = f"{name} must be an instance of {kind.__name__} such as {example}"
            raise TypeError(f"{must}, got {value!r}.")
    for name, value, choices in (("bias", bias, get_args(Bias)), ("law", law, get_args(Law))):
        if value not in choices:
            raise ValueError(f"{name} must be one of {choices}, got {value!r}.")
    check_bias_scale(parametrization, bias)
    check_sizes("input_shape", input_shape)


def _check_inputs(
    x: Array, graphs: Array | None, input_shape: tuple[int, ...], needs_graphs: bool
) -> None:
    if x.ndim == 0 or x.shape[1:] != input_shape:
        expected = ", ".join(["n", *map(str, input_shape)])
        raise ValueError(f"inputs must have shape ({expected}), got {x.shape}.")
    if not needs_graphs:
        if graphs is not None:
            raise ValueError("graphs must not be given: no Aggregate of this network needs them.")
        return
    if graphs is None:
        raise ValueError("graphs must be given: an Aggregate of this network has none, got None.")
    expected = (x.shape[0], input_shape[0], input_shape[0])
    if graphs.shape != expected:
        raise ValueError(f"graphs must have shape {expected}, got {graphs.shape}.")
