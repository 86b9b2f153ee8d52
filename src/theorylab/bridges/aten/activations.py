"""Activations whose derivatives stay finite far from 0, and agree with PyTorch's at a kink."""

from typing import Any

import jax
import jax.numpy as jnp

from .table import level, operation


@operation("aten.relu.default")
def _relu(x: Any) -> Any:
    return jax.nn.relu(x)


@operation("aten.hardtanh.default", "aten.relu6.default")
def _hardtanh(x: Any, low: Any = None, high: Any = None) -> Any:
    """The derivative at a bound is 0, unlike that of `clamp`. Without bounds it is ReLU6."""
    low, high = (0.0, 6.0) if low is None else (low, high)
    return jnp.where(x <= low, low, jnp.where(x >= high, high, x))


@operation("aten.leaky_relu.default")
def _leaky_relu(x: Any, slope: Any = 0.01) -> Any:
    return jnp.where(x > 0, x, slope * x)


@operation("aten.rrelu.default")
def _mean_leaky_relu(x: Any, low: Any, high: Any, training: bool = False, *_: Any) -> Any:
    return _leaky_relu(x, (low + high) / 2)


@operation("aten.prelu.default", "aten._prelu_kernel.default")
def _prelu(x: Any, slope: Any) -> Any:
    if slope.ndim == 1 and x.ndim > 1:  # one for every channel, the second axis
        slope = slope.reshape((1, -1) + (1,) * (x.ndim - 2))
    x, slope = level(x, slope)
    return jnp.where(x > 0, x, slope * x)


@operation("aten.elu.default")
def _elu(x: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Any:
    below = jnp.where(x > 0, 0, x)  # exp of a large number has no finite derivative
    return jnp.where(x > 0, scale * x, scale * alpha * jnp.expm1(input_scale * below))


@operation("aten.selu.default")
def _selu(x: Any) -> Any:
    return jax.nn.selu(x)


@operation("aten.celu.default")
def _celu(x: Any, alpha: Any = 1.0) -> Any:
    return _elu(x, alpha, 1.0, 1.0 / alpha)


@operation("aten.gelu.default")
def _gelu(x: Any, approximate: str = "none") -> Any:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


@operation("aten.silu.default")
def _silu(x: Any) -> Any:
    return x * jax.nn.sigmoid(x)


@operation("aten.mish.default")
def _mish(x: Any) -> Any:
    return x * jnp.tanh(jax.nn.softplus(x))


@operation("aten.softplus.default")
def _softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    scaled = beta * x
    return jnp.where(scaled > threshold, x, jax.nn.softplus(scaled) / beta)


@operation("aten.hardsigmoid.default")
def _hardsigmoid(x: Any) -> Any:
    return _hardtanh(x + 3, 0.0, 6.0) / 6


@operation("aten.hardswish.default")
def _hardswish(x: Any) -> Any:
    return jnp.where(x <= -3, 0, jnp.where(x >= 3, x, x * (x + 3) / 6))


@operation("aten.hardshrink.default")
def _hardshrink(x: Any, bound: Any = 0.5) -> Any:
    return jnp.where(jnp.abs(x) > bound, x, 0)


@operation("aten.softshrink.default")
def _softshrink(x: Any, bound: Any = 0.5) -> Any:
    return jnp.where(x > bound, x - bound, jnp.where(x < -bound, x + bound, 0))


@operation("aten.threshold.default")
def _threshold(x: Any, bound: Any, value: Any) -> Any:
    return jnp.where(x > bound, x, value)


@operation("aten.log_sigmoid.default")
def _log_sigmoid(x: Any) -> Any:
    return jax.nn.log_sigmoid(x)


@operation("aten.glu.default")
def _glu(x: Any, axis: int = -1) -> Any:
    first, second = jnp.split(x, 2, axis)
    return first * jax.nn.sigmoid(second)


@operation("aten._softmax.default", "aten._safe_softmax.default")
def _softmax(x: Any, axis: int, _: Any = None) -> Any:
    return jax.nn.softmax(x, axis) if x.ndim else jnp.ones_like(x)


@operation("aten._log_softmax.default")
def _log_softmax(x: Any, axis: int, _: Any = None) -> Any:
    return jax.nn.log_softmax(x, axis) if x.ndim else jnp.zeros_like(x)
