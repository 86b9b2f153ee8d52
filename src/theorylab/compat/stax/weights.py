"""Layers of weights by Neural Tangents' names: `Dense`, `Conv`, `ConvLocal`, `ConvTranspose`.

    ntk         W, b ~ N(0, 1)                                 y = W_std/√n W x + b_std b
    standard    W ~ N(0, W_std² s₀/n), b ~ N(0, b_std²)        y = W x/√s₀ + b

with n inputs of a weight and `s = (s₀, s₁)`, by which a finite layer is wider than that of theory.
Parameters are the pair (W, b); b is None where b_std is.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from theorylab.models import Architecture
from theorylab.models import Conv as OurConv
from theorylab.models import Dense as OurDense
from theorylab.models.architecture import ConvTranspose as OurConvTranspose
from theorylab.models.architecture import Shape
from theorylab.typing import Params, Scalar

from ..layer import Layer, layer_of
from ..nodes import Leaf, Reading

_NO_VARIANCE = 1e-200  # of a trained bias that is drawn 0: its square is 0


def Dense(
    out_dim: int,
    W_std: Scalar = 1.0,
    b_std: Scalar | None = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Layer:
    """A linear map of the channels.

    Args:
        out_dim: The number of channels that come out.
        W_std: σ_w.
        b_std: σ_b; None: no bias.
        batch_axis: 0.
        channel_axis: −1.
        parameterization: "ntk" or "standard".
        s: The factors of width before and after the layer, of the standard parametrization.

    Example:
        >>> init_fn, apply_fn, kernel_fn = Dense(3, b_std=1.0)
        >>> shape, (W, b) = init_fn(jax.random.key(0), (-1, 2))
        >>> shape, W.shape, b.shape
        ((-1, 3), (2, 3), (1, 3))
        >>> kernel_fn(jnp.array([[1.0, 1.0]]), None, "nngp").tolist()
        [[2.0]]
    """
    check_axes(batch_axis, channel_axis)

    layer = _of_width(OurDense, out_dim, W_std, b_std, parameterization, s)
    return _weights("Dense", layer, _shape_of(layer, ()), W_std, b_std, parameterization, s)


def Conv(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    W_std: Scalar = 1.0,
    b_std: Scalar | None = None,
    dimension_numbers: tuple[str, str, str] | None = None,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Layer:
    """A convolution.

    Args:
        out_chan: The number of channels that come out.
        filter_shape: The size of the window along every position axis.
        strides: The steps of the window; None: 1.
        padding: "VALID", "SAME" or "CIRCULAR".
        W_std: σ_w.
        b_std: σ_b; None: no bias.
        dimension_numbers: Channels last, as None means.
        parameterization: "ntk" or "standard".
        s: The factors of width before and after the layer, of the standard parametrization.

    Example:
        >>> init_fn, _, _ = Conv(16, (3, 3), padding="SAME")
        >>> shape, (W, b) = init_fn(jax.random.key(0), (-1, 8, 8, 3))
        >>> shape, W.shape, b
        ((-1, 8, 8, 16), (3, 3, 3, 16), None)
    """
    window = _window(filter_shape, strides, padding, dimension_numbers)

    layer = _of_width(partial(OurConv, **window), out_chan, W_std, b_std, parameterization, s)
    weight_shape = _shape_of(layer, window["window"])
    return _weights("Conv", layer, weight_shape, W_std, b_std, parameterization, s)


def ConvTranspose(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    W_std: Scalar = 1.0,
    b_std: Scalar | None = None,
    dimension_numbers: tuple[str, str, str] | None = None,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Layer:
    """A transposed convolution; arguments as those of `Conv`.

    Example:
        >>> init_fn, _, _ = ConvTranspose(16, (2,), strides=(2,))
        >>> init_fn(jax.random.key(0), (-1, 4, 3))[0]
        (-1, 8, 16)
    """
    window = _window(filter_shape, strides, padding, dimension_numbers)

    make = partial(OurConvTranspose, **window)
    layer = _of_width(make, out_chan, W_std, b_std, parameterization, s)
    weight_shape = _shape_of(layer, window["window"])

    def turned(W: jax.Array, _: Shape) -> jax.Array:
        """There, windows are read backwards."""
        return jnp.flip(W, range(len(filter_shape)))

    return _weights("ConvTranspose", layer, weight_shape, W_std, b_std, parameterization, s, turned)


def ConvLocal(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    W_std: Scalar = 1.0,
    b_std: Scalar | None = None,
    dimension_numbers: tuple[str, str, str] | None = None,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> Layer:
    """A convolution with weights of its own at every position; arguments as those of `Conv`.

    Example:
        >>> init_fn, _, _ = ConvLocal(16, (2,), b_std=1.0)
        >>> _, (W, b) = init_fn(jax.random.key(0), (-1, 5, 3))
        >>> W.shape, b.shape
        ((4, 6, 16), (1, 4, 16))
    """
    window = _window(filter_shape, strides, padding, dimension_numbers)

    make = partial(OurConv, **window, shared=False)
    layer = _of_width(make, out_chan, W_std, b_std, parameterization, (1, 1))

    def weight_shape(shape: Shape) -> Shape:
        *positions, channels = layer(shape, _FINITE).output_shape(shape)
        return (*positions, math.prod(window["window"]) * shape[-1], channels)

    def apart(W: jax.Array, shape: Shape) -> jax.Array:
        """(*positions, channels in × window, out) as (*positions, *window, channels in, out)."""
        positions, num_axes = W.shape[:-2], len(filter_shape)
        W = W.reshape(*positions, shape[-1], *filter_shape, W.shape[-1])
        return jnp.moveaxis(W, num_axes, -2)

    return _weights("ConvLocal", layer, weight_shape, W_std, b_std, parameterization, s, apart)


def check_axes(batch_axis: int, channel_axis: int) -> None:
    """Raise unless samples come first and channels last.

    Example:
        >>> check_axes(0, 1)
        Traceback (most recent call last):
        ...
        ValueError: channel_axis must be -1, got 1: move it last with jnp.moveaxis.
    """
    if batch_axis != 0:
        raise ValueError(f"batch_axis must be 0, got {batch_axis}: move it with jnp.moveaxis.")
    if channel_axis != -1:
        raise ValueError(
            f"channel_axis must be -1, got {channel_axis}: move it last with jnp.moveaxis."
        )


_FINITE = Reading(finite=True, graphs=False)


def _window(
    filter_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: str,
    dimension_numbers: tuple[str, str, str] | None,
) -> dict[str, Any]:
    axes = "".join("HWDEFGH"[: len(filter_shape)])
    last = (f"N{axes}C", f"{axes}IO", f"N{axes}C")
    if dimension_numbers not in (None, last):
        raise ValueError(f"dimension_numbers must be {last}, got {dimension_numbers}.")
    return {
        "window": tuple(filter_shape),
        "strides": tuple(strides or ()),
        "padding": padding.lower(),
    }


def _of_width(
    make: Callable[..., Architecture],
    width: int,
    W_std: Scalar,
    b_std: Scalar | None,
    parameterization: str,
    s: tuple[int, int],
) -> Callable[[Shape, Reading], Architecture]:
    """Our layer, for every reading: a finite one is wider by s₁ in the standard parametrization."""

    def layer(shape: Shape, reading: Reading) -> Architecture:
        wider = s[1] if reading.finite and parameterization == "standard" else 1
        return make(width * wider, **_scales(reading, parameterization, W_std, b_std))

    return layer


def _shape_of(
    layer: Callable[[Shape, Reading], Architecture], window: Shape
) -> Callable[[Shape], Shape]:
    """The shape of W for inputs of a shape: (*window, channels in, channels out)."""
    return lambda shape: (*window, shape[-1], layer(shape, _FINITE).output_shape(shape)[-1])


def _scales(
    reading: Reading, parameterization: str, W_std: Scalar, b_std: Scalar | None
) -> dict[str, Any]:
    """Whether there is a bias, and at infinite width its scale and that of the weights."""
    if reading.finite:
        return {"bias": b_std is not None}
    without = b_std is None or (parameterization == "ntk" and _is_zero(b_std))
    scale = None if without else (_NO_VARIANCE if _is_zero(b_std) else number(b_std))
    return {"bias": not without, "weight_scale": number(W_std), "bias_scale": scale}


def _is_zero(scale: Any) -> bool:
    return not isinstance(scale, Tracer) and float(scale) == 0


def number(scale: Scalar | None) -> Any:
    """Make a plain number of a setting, unless it is being differentiated.

    Example:
        >>> number(jnp.array(2.0))
        2.0
    """
    return scale if scale is None or isinstance(scale, Tracer) else float(scale)


def _weights(
    name: str,
    layer: Callable[[Shape, Reading], Architecture],
    weight_shape: Callable[[Shape], Shape],
    W_std: Scalar,
    b_std: Scalar | None,
    parameterization: str,
    s: tuple[int, int],
    ordered: Callable[[jax.Array, Shape], jax.Array] = lambda W, _: W,
) -> Layer:
    kind = parameterization.lower()
    if kind not in ("ntk", "standard"):
        raise ValueError(f"parameterization must be ntk or standard, got {parameterization!r}.")
    standard = kind == "standard"

    def fan_in(shape: Shape) -> int:
        *positions, inner, _ = weight_shape(shape)
        return inner if name == "ConvLocal" else math.prod(positions) * inner

    def draw(key: Any, shape: Shape) -> tuple:
        first, second = jax.random.split(key)
        W = jax.random.normal(first, weight_shape(shape))
        biases = layer(shape, _FINITE).output_shape(shape)
        alone = biases if name == "ConvLocal" else (*(1,) * (len(biases) - 1), biases[-1])
        b = None if b_std is None else jax.random.normal(second, (1, *alone))
        if standard:
            W = W * (W_std / math.sqrt(fan_in(shape) / s[0]))
            b = b if b is None or b_std is None else b * b_std
        return W, b

    def convert(params: tuple, shape: Shape) -> Params:
        W, b = params
        W_scale = s[0] ** -0.5 if standard else W_std / math.sqrt(fan_in(shape))
        weights = {"weight": ordered(W, shape) * W_scale}
        if b is None:
            return weights
        places = b.shape[1:] if name == "ConvLocal" else b.shape[-1:]
        return weights | {"bias": b.reshape(places) * (1.0 if standard or b_std is None else b_std)}

    return layer_of(Leaf(name, layer, draw, convert, "standard" if standard else "ntk"))
