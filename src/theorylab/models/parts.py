"""A layer in its place in a finite network: its parameters, and what it computes.

The role of a weight follows from its place. A layer after which no weights come is an output layer;
any other layer with weights makes a wide layer, whose width is taken for large. What has passed a
wide layer is wide:

                        not the last weights    the last weights
    from inputs         input                   fixed
    from a wide layer   hidden                  output
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Params, RandomKey, Scalar

from .architecture import (
    Architecture,
    BatchNorm,
    Conv,
    ConvTranspose,
    Dense,
    GlobalPool,
    LayerNorm,
    Shape,
)
from .custom_layer import CustomLayer
from .masks import Mask, mean_of_present, output_mask, zeroed
from .mixing import Aggregate, Dropout
from .parameters import Law, OwnParameters, Parameter
from .parametrization import Parametrization, Role, Scaling

Bias = Literal["none", "zero", "normal", "uniform"]


class NetworkSettings(NamedTuple):
    """What holds for the whole network."""

    parametrization: Parametrization
    bias: Bias
    law: Law


class LayerPlace(NamedTuple):
    """Place of a layer: its input shape, whether that is wide, whether its weights are last."""

    shape: Shape
    wide: bool
    last: bool


class SideInputs(NamedTuple):
    """What a network may receive in addition to its inputs.

    Args:
        graphs: The graph of every input, (n, nodes, nodes).
        key: The source of the noise of training; None: there is no noise.
        mask: What is missing of the inputs of a layer; None: nothing.
    """

    graphs: Float[Array, "n nodes nodes"] | None = None
    key: RandomKey | None = None
    mask: Mask | None = None

    def at(self, index: int) -> "SideInputs":
        """Give the layer with this number noise of its own."""
        if self.key is None:
            return self
        return self._replace(key=jax.random.fold_in(self.key, index))


class FiniteLayer(NamedTuple):
    """A layer in its place: its parameters, what it computes, and whether that is wide."""

    parameters: Params
    apply: Callable[[Params, Array, SideInputs], Array]
    wide: bool


def fixed(function: Callable[[Array], Array], place: LayerPlace) -> FiniteLayer:
    """Read a layer without parameters.

    Example:
        >>> layer = fixed(jnp.tanh, LayerPlace((4,), wide=True, last=False))
        >>> layer.parameters, layer.wide
        ((), True)
    """
    return FiniteLayer((), lambda params, x, beside: function(x), place.wide)


def linear_layer(
    layer: Dense | Conv | ConvTranspose,
    shape: Shape,
    product: Callable[[Array, Array], Array],
    place: LayerPlace,
    settings: NetworkSettings,
    num_copies: Shape = (),
) -> FiniteLayer:
    """Read a layer with weights, y = product(x, W) + b.

    Args:
        layer: It says whether it has a bias, and scales of its own.
        shape: The shape of W, of which the last axis is the fan-out, the others the fan-in.
        product: Applies W to inputs.
        place: Where it stands.
        settings: What holds for the whole network.
        num_copies: How many W and b there are, such as one for every position.

    Example:
        >>> from theorylab.models.parametrization import NTK
        >>> place = LayerPlace((4,), wide=False, last=False)
        >>> settings = NetworkSettings(NTK(), "zero", "normal")
        >>> layer = linear_layer(Dense(8), (4, 8), jnp.matmul, place, settings)
        >>> sorted(layer.parameters), layer.parameters["weight"].role
        (['bias', 'weight'], 'input')
    """
    settings = with_scales(settings, layer.weight_scale, layer.bias_scale)
    fan_in, fan_out = math.prod(shape[:-1]), shape[-1]
    weight = weight_parameter((*num_copies, *shape), fan_in, fan_out, place, settings)
    parameters = {"weight": weight}
    if layer.bias:
        parameters |= bias_parameters((*num_copies, fan_out), fan_in, place, settings)

    def apply(params: Params, x: Array, beside: SideInputs) -> Array:
        y = weight.scaling.multiplier * product(x, params["weight"])
        return plus_bias(y, params, parameters)

    return FiniteLayer(parameters, apply, wide=not place.last)


def normalization(
    layer: LayerNorm | BatchNorm, place: LayerPlace, settings: NetworkSettings
) -> FiniteLayer:
    """Read a normalisation over axes of each input, or of each channel over the batch.

    Example:
        >>> from theorylab.models.parametrization import NTK
        >>> place = LayerPlace((4,), wide=True, last=False)
        >>> settings = NetworkSettings(NTK(), "none", "normal")
        >>> sorted(normalization(LayerNorm(affine=True), place, settings).parameters)
        ['gain', 'offset']
    """
    if isinstance(layer, LayerNorm):
        axes = tuple(axis + 1 for axis in layer.axes_of(place.shape))
    else:
        axes = tuple(range(len(place.shape)))

    def normalise(x: Array, mask: Mask | None) -> Array:
        centred = x - mean_of_present(x, mask, axes)
        variance = mean_of_present(jnp.square(centred), mask, axes)
        return centred / jnp.sqrt(variance + layer.epsilon)

    if not layer.affine:
        plain = lambda params, x, beside: normalise(x, beside.mask)  # noqa: E731
        return FiniteLayer((), plain, place.wide)

    width = place.shape[-1]
    # Where channels do not grow with the width, n = 1 and no exponent counts.
    scaling = settings.parametrization.scaling("gain", 1, width if place.wide else 1)
    parameters = {
        "gain": Parameter((width,), "gain", scaling, "one"),
        "offset": Parameter((width,), "gain", scaling, "zero"),
    }

    def apply(params: Params, x: Array, beside: SideInputs) -> Array:
        gain = jnp.broadcast_to(scaling.multiplier * params["gain"], x.shape)
        offset = jnp.broadcast_to(scaling.multiplier * params["offset"], x.shape)
        return gain * normalise(x, beside.mask) + offset

    return FiniteLayer(parameters, apply, place.wide)


def global_pool(layer: GlobalPool, place: LayerPlace) -> FiniteLayer:
    """Read the mean, or sum, over all positions that are there.

    Example:
        >>> layer = global_pool(GlobalPool(), LayerPlace((2, 1), wide=True, last=False))
        >>> layer.apply((), jnp.array([[[1.0], [2.0]]]), SideInputs()).tolist()
        [[1.5]]
    """

    def apply(params: Params, x: Array, beside: SideInputs) -> Array:
        axes = tuple(range(1, x.ndim - 1))
        if layer.reduce == "sum":
            return x.sum(axis=axes)
        return mean_of_present(x, beside.mask, axes).squeeze(axes)

    return FiniteLayer((), apply, place.wide)


def aggregation(layer: Aggregate, place: LayerPlace) -> FiniteLayer:
    """Read a sum over neighbours, of one graph or of a graph for every input.

    Example:
        >>> swap = Aggregate(((0.0, 1.0), (1.0, 0.0)))
        >>> layer = aggregation(swap, LayerPlace((2, 1), wide=True, last=False))
        >>> layer.apply((), jnp.array([[[1.0], [2.0]]]), SideInputs()).ravel().tolist()
        [2.0, 1.0]
    """

    def apply(params: Params, x: Array, beside: SideInputs) -> Array:
        if layer.graph is None:
            return jnp.einsum("nst,ntc->nsc", beside.graphs, x)
        return jnp.einsum("st,ntc->nsc", jnp.asarray(layer.graph, x.dtype), x)

    return FiniteLayer((), apply, place.wide)


def dropout(layer: Dropout, place: LayerPlace) -> FiniteLayer:
    """Read the noise of training; without a key there is none.

    Example:
        >>> layer = dropout(Dropout(keep=0.5), LayerPlace((4,), wide=True, last=False))
        >>> layer.apply((), jnp.ones((1, 4)), SideInputs()).tolist()  # no key, no noise
        [[1.0, 1.0, 1.0, 1.0]]
    """

    def apply(params: Params, x: Array, beside: SideInputs) -> Array:
        if beside.key is None:
            return x
        mask = jax.random.bernoulli(beside.key, layer.keep, x.shape)
        return jnp.where(mask, x / layer.keep, 0.0)

    return FiniteLayer((), apply, place.wide)


def masking(layer: Architecture, place: LayerPlace, read: FiniteLayer) -> FiniteLayer:
    """Let a layer give 0 where something is missing, if anything is.

    Example: a bias at a missing position does not count.
        >>> shift = fixed(lambda x: x + 1, LayerPlace((2, 1), wide=True, last=False))
        >>> layer = masking(LayerNorm(), LayerPlace((2, 1), wide=True, last=False), shift)
        >>> mask = jnp.array([False, True]).reshape(1, 2, 1)
        >>> layer.apply((), jnp.zeros((1, 2, 1)), SideInputs(mask=mask)).ravel().tolist()
        [1.0, 0.0]
    """

    def apply(params: Params, x: Array, beside: SideInputs) -> Array:
        y = read.apply(params, x, beside)
        if beside.mask is None:
            return y
        return zeroed(y, output_mask(layer, beside.mask, place.shape))

    return read._replace(apply=apply)


def custom_layer(layer: CustomLayer, place: LayerPlace) -> FiniteLayer:
    """Read a layer of the user's, which draws its parameters itself.

    Example:
        >>> class Doubled(CustomLayer):
        ...     output_shape = lambda self, shape: shape
        ...     apply = lambda self, params, x: 2 * x
        >>> layer = custom_layer(Doubled(), LayerPlace((1,), wide=True, last=False))
        >>> layer.apply((), jnp.array([[3.0]]), SideInputs()).tolist()
        [[6.0]]
    """
    expected = layer.output_shape(place.shape)

    def apply(params: Params, x: Array, beside: SideInputs) -> Array:
        y = layer.apply(params, x)
        if y.shape != (x.shape[0], *expected):
            raise ValueError(
                f"apply of {type(layer).__name__} must give outputs of shape "
                f"{(x.shape[0], *expected)}, as output_shape says, got {y.shape}."
            )
        return y

    wide = not place.last if layer.outputs == "new" else place.wide
    drawn = OwnParameters(lambda key: layer.init(key, place.shape))
    return FiniteLayer(drawn if drawn.shapes() else (), apply, wide)


def with_scales(
    settings: NetworkSettings, weight_scale: Scalar | None, bias_scale: Scalar | None
) -> NetworkSettings:
    """The settings of a layer that may have scales of its own.

    Example:
        >>> from theorylab.models.parametrization import NTK
        >>> settings = NetworkSettings(NTK(), "none", "normal")
        >>> with_scales(settings, 2.0, None).parametrization
        NTK(weight_scale=2.0, bias_scale=1.0)
    """
    scales = {"weight_scale": weight_scale, "bias_scale": bias_scale}
    own = {name: scale for name, scale in scales.items() if scale is not None}
    return settings._replace(parametrization=dataclasses.replace(settings.parametrization, **own))


def weight_parameter(
    shape: Shape, fan_in: int, fan_out: int, place: LayerPlace, settings: NetworkSettings
) -> Parameter:
    """The declaration of a weight, whose role follows from its place.

    Example:
        >>> from theorylab.models.parametrization import NTK
        >>> settings = NetworkSettings(NTK(), "none", "normal")
        >>> place = LayerPlace((4,), wide=True, last=True)
        >>> weight_parameter((4, 2), 4, 2, place, settings).scaling.multiplier
        0.5
    """
    roles: dict[tuple[bool, bool], Role] = {
        (False, False): "input",
        (True, False): "hidden",
        (True, True): "output",
        (False, True): "fixed",
    }
    role = roles[place.wide, place.last]
    scaling = settings.parametrization.scaling(role, fan_in, fan_out)
    return Parameter(shape, role, scaling, settings.law)


def bias_parameters(
    shape: Shape, fan_in: int, place: LayerPlace, settings: NetworkSettings
) -> dict[str, Parameter]:
    """The declaration of a bias, if the network has biases.

    Example:
        >>> from theorylab.models.parametrization import NTK
        >>> settings = NetworkSettings(NTK(), "none", "normal")
        >>> bias_parameters((2,), 4, LayerPlace((4,), wide=True, last=True), settings)
        {}
    """
    if settings.bias == "none":
        return {}
    role = "output_bias" if place.last else "bias"
    scaling = settings.parametrization.scaling(role, fan_in, shape[-1])
    return {"bias": Parameter(shape, role, scaling, settings.bias)}


def plus_bias(y: Array, params: Params, parameters: dict[str, Parameter]) -> Array:
    """Add the bias of a layer, if it has one.

    Example:
        >>> plus_bias(jnp.ones((1, 2)), params={}, parameters={}).tolist()
        [[1.0, 1.0]]
    """
    if "bias" not in parameters:
        return y
    scaling: Scaling = parameters["bias"].scaling
    return y + jnp.broadcast_to(scaling.multiplier * params["bias"], y.shape)
