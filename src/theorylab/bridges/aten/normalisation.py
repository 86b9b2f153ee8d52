"""Normalisation: (x − mean) / √(variance + ε) · weight + bias.

Whose mean and variance:

batch      running statistics, held; or those of the batch, where a module keeps none
layer      of the last axes of one input
group      of the channels of a group, at all positions
instance   comes as statistics of a batch of one input whose channels are all channels

RMS normalisation is x / √(mean x² + ε) · weight.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from .table import level, operation


def _standardised(x: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    centred = x - jnp.mean(x, axes, keepdims=True)
    return centred * lax.rsqrt(jnp.mean(jnp.square(centred), axes, keepdims=True) + epsilon)


def _scaled(x: Any, weight: Any, bias: Any) -> Any:
    """With a number for every channel, which is the second axis."""
    shape = (1, -1) + (1,) * (x.ndim - 2)
    x = x if weight is None else x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


@operation("aten._native_batch_norm_legit_no_training.default")
def _by_running_statistics(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, epsilon: float
) -> tuple[Any, None, None]:
    shape = (1, -1) + (1,) * (x.ndim - 2)
    centred = x - mean.reshape(shape)
    return _scaled(centred * lax.rsqrt(variance.reshape(shape) + epsilon), weight, bias), None, None


@operation("aten._native_batch_norm_legit.no_stats")
def _by_batch(
    x: Any, weight: Any, bias: Any, training: bool, momentum: float, epsilon: float
) -> tuple[Any, None, None]:
    axes = (0, *range(2, x.ndim))
    return _scaled(_standardised(x, axes, epsilon), weight, bias), None, None


@operation("aten.native_layer_norm.default")
def _layer(
    x: Any, shape: Sequence[int], weight: Any, bias: Any, epsilon: float
) -> tuple[Any, None, None]:
    y = _standardised(x, tuple(range(x.ndim - len(shape), x.ndim)), epsilon)
    y = y if weight is None else jnp.multiply(*level(y, weight))
    return y if bias is None else jnp.add(*level(y, bias)), None, None


@operation("aten.native_group_norm.default")
def _group(
    x: Any,
    weight: Any,
    bias: Any,
    num_inputs: int,
    num_channels: int,
    num_positions: int,
    num_groups: int,
    epsilon: float,
) -> tuple[Any, None, None]:
    grouped = x.reshape(x.shape[0], num_groups, math.prod(x.shape[1:]) // num_groups)
    y = _standardised(grouped, (2,), epsilon).reshape(x.shape)
    return _scaled(y, weight, bias), None, None


@operation("aten.rms_norm.default")
def _root_mean_square(
    x: Any, shape: Sequence[int], weight: Any = None, epsilon: float | None = None
) -> Any:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    epsilon = float(jnp.finfo(x.dtype).eps) if epsilon is None else epsilon
    y = x * lax.rsqrt(jnp.mean(jnp.square(x), axes, keepdims=True) + epsilon)
    return y if weight is None else jnp.multiply(*level(y, weight))
