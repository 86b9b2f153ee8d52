"""Operations of a program, counted on its jaxpr: loops as often as they run.

    product of matrices   2 · entries of the result · length of the sum
    convolution           2 · entries of the result · entries of the kernel for one of them
    loop of n steps       n · its body                (a `while` of unknown length counts once)
    anything else         the entries of what it reads and makes, whichever is more

The compiler's own count takes the body of every loop once, so that a recurrent network of 100 steps
would look 100 times too cheap.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax

_FREE = ("broadcast_in_dim", "reshape", "transpose", "squeeze", "copy", "convert_element_type")


def counted_flops(function: Callable[..., Any], *args: Any) -> float:
    """Operations of a function of JAX, read off its program; nothing is computed.

    Args:
        function: It must be traceable.
        args: What it is called with: arrays, or trees of them.

    Example: a product of 2 × 3 and 3 × 4, in a loop of ten steps.
        >>> import jax.numpy as jnp
        >>> product = lambda a, b: jax.lax.fori_loop(0, 10, lambda i, c: a @ b, jnp.zeros((2, 4)))
        >>> 480 <= counted_flops(product, jnp.ones((2, 3)), jnp.ones((3, 4))) < 520
        True
    """
    return program_flops(jax.make_jaxpr(function)(*args).jaxpr)


def program_flops(program: Any) -> float:
    """Operations of a jaxpr.

    Example:
        >>> import jax.numpy as jnp
        >>> program_flops(jax.make_jaxpr(lambda a: a + a)(jnp.ones(5)).jaxpr)
        5.0
    """
    return sum(map(_flops, program.eqns), 0.0)


def _flops(equation: Any) -> float:
    name, params = equation.primitive.name, equation.params
    match name:
        case "dot_general":
            (contracted, _), _ = params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            return 2.0 * _size(equation.outvars[0]) * math.prod(shape[axis] for axis in contracted)
        case "conv_general_dilated":
            kernel = equation.invars[1].aval.shape
            outputs = kernel[params["dimension_numbers"].rhs_spec[0]]
            return 2.0 * _size(equation.outvars[0]) * math.prod(kernel) / max(outputs, 1)
        case "scan":
            return params["length"] * program_flops(params["jaxpr"].jaxpr)
        case "cond":
            return max(program_flops(branch.jaxpr) for branch in params["branches"])
    if inner := list(_inner(params)):
        return sum(map(program_flops, inner), 0.0)
    if name in _FREE:
        return 0.0
    read = max((_size(each) for each in equation.invars), default=0)
    return float(max(read, max((_size(each) for each in equation.outvars), default=0)))


def _inner(params: dict[str, Any]) -> Iterator[Any]:
    """The programs that an equation calls."""
    for value in params.values():
        program = getattr(value, "jaxpr", value)
        if hasattr(program, "eqns"):
            yield program


def _size(atom: Any) -> int:
    return math.prod(getattr(atom.aval, "shape", ()))
