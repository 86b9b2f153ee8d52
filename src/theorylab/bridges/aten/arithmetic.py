"""Arithmetic entry by entry: sums, products, powers, comparisons, logic, elementary functions.

At a kink the derivative is PyTorch's: `clamp` passes it on at its bounds, and a maximum of two
equal entries gives a half to each.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .table import level, operation

ONE_BY_ONE: dict[str, Callable[..., Any]] = {
    "abs": jnp.abs,
    "acos": jnp.arccos,
    "acosh": jnp.arccosh,
    "asin": jnp.arcsin,
    "asinh": jnp.arcsinh,
    "atan": jnp.arctan,
    "atanh": jnp.arctanh,
    "bitwise_not": jnp.bitwise_not,
    "ceil": jnp.ceil,
    "cos": jnp.cos,
    "cosh": jnp.cosh,
    "erf": jax.scipy.special.erf,
    "erfc": jax.scipy.special.erfc,
    "erfinv": jax.scipy.special.erfinv,
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "floor": jnp.floor,
    "isinf": jnp.isinf,
    "isnan": jnp.isnan,
    "log": jnp.log,
    "log10": jnp.log10,
    "log1p": jnp.log1p,
    "log2": jnp.log2,
    "logical_not": jnp.logical_not,
    "neg": jnp.negative,
    "reciprocal": jnp.reciprocal,
    "round": jnp.round,
    "rsqrt": lax.rsqrt,
    "sigmoid": jax.nn.sigmoid,
    "sign": jnp.sign,
    "sin": jnp.sin,
    "sinh": jnp.sinh,
    "sqrt": jnp.sqrt,
    "square": jnp.square,
    "tan": jnp.tan,
    "tanh": jnp.tanh,
    "trunc": jnp.trunc,
}
TWO_BY_TWO: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "atan2": (("default",), jnp.arctan2),
    "bitwise_and": (("Tensor", "Scalar"), jnp.bitwise_and),
    "bitwise_or": (("Tensor", "Scalar"), jnp.bitwise_or),
    "bitwise_xor": (("Tensor", "Scalar"), jnp.bitwise_xor),
    "eq": (("Tensor", "Scalar"), jnp.equal),
    "floor_divide": (("default",), jnp.floor_divide),
    "fmod": (("Tensor", "Scalar"), jnp.fmod),
    "ge": (("Tensor", "Scalar"), jnp.greater_equal),
    "gt": (("Tensor", "Scalar"), jnp.greater),
    "le": (("Tensor", "Scalar"), jnp.less_equal),
    "logical_and": (("default",), jnp.logical_and),
    "logical_or": (("default",), jnp.logical_or),
    "logical_xor": (("default",), jnp.logical_xor),
    "lt": (("Tensor", "Scalar"), jnp.less),
    "maximum": (("default",), jnp.maximum),
    "minimum": (("default",), jnp.minimum),
    "mul": (("Tensor", "Scalar"), jnp.multiply),
    "ne": (("Tensor", "Scalar"), jnp.not_equal),
    "remainder": (("Tensor", "Scalar"), jnp.remainder),
}


def _of_two(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: function(*level(x, y))


for _name, _function in ONE_BY_ONE.items():
    operation(f"aten.{_name}.default")(_function)
for _name, (_overloads, _function) in TWO_BY_TWO.items():
    operation(*(f"aten.{_name}.{each}" for each in _overloads))(_of_two(_function))


@operation("aten.add.Tensor", "aten.add.Scalar")
def _add(x: Any, y: Any, alpha: Any = 1) -> Any:
    x, y = level(x, y)
    if jnp.issubdtype(jnp.result_type(x, y), jnp.bool_):
        return jnp.logical_or(x, y)
    return x + (y if alpha == 1 else alpha * y)


@operation("aten.sub.Tensor", "aten.sub.Scalar")
def _subtract(x: Any, y: Any, alpha: Any = 1) -> Any:
    return _add(x, y, -alpha)


@operation("aten.rsub.Tensor", "aten.rsub.Scalar")
def _subtract_from(x: Any, y: Any, alpha: Any = 1) -> Any:
    return _add(y, x, -alpha)


@operation("aten.div.Tensor", "aten.div.Scalar", "aten.div.Tensor_mode", "aten.div.Scalar_mode")
def _divide(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    x, y = level(x, y)
    if rounding_mode == "floor":
        return jnp.floor_divide(x, y)
    ratio = jnp.true_divide(x, y)
    return jnp.trunc(ratio) if rounding_mode == "trunc" else ratio


@operation("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def _power(base: Any, exponent: Any) -> Any:
    """A whole exponent as such: then derivatives at 0 and of negative numbers are there."""
    if isinstance(exponent, int | float):
        if exponent == 0.5:
            return jnp.sqrt(base)
        if exponent == -0.5:
            return lax.rsqrt(base)
        if math.isfinite(exponent) and exponent == int(exponent):
            return lax.integer_pow(base, int(exponent))
    return jnp.power(*level(base, exponent))


@operation("aten.round.decimals")
def _round(x: Any, decimals: int = 0) -> Any:
    return jnp.round(x, decimals)


@operation("aten.clamp.default", "aten.clamp.Tensor")
def _clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        x, low = level(x, low)
        x = jnp.where(x < low, low, x)
    if high is not None:
        x, high = level(x, high)
        x = jnp.where(x > high, high, x)
    return x


@operation("aten.where.self")
def _where(condition: Any, x: Any, y: Any) -> Any:
    return jnp.where(*level(condition, x, y))


@operation("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def _masked_fill(x: Any, mask: Any, value: Any) -> Any:
    x, mask = level(x, mask)
    return jnp.where(mask, value, x)
