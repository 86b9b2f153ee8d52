"""Any traced function, with its convolutions in the form that a CPU computes fast.

A function is traced to a program (a jaxpr), and every `conv_general_dilated` in it is replaced by
`convolutions.convolve`, also inside of loops, branches, compiled functions, checkpoints and
functions with derivatives of their own, which they keep. What comes out is a function again: it
can be differentiated, mapped and compiled, and gives the same numbers to rounding. The program of a
function without convolutions stays as it is, and so does every function on a GPU or TPU.

A derivative has convolutions of its own, in other forms: it is the derivative that is to be
replaced, and not the function that it is taken of. Loops of this library (Lanczos, descent, blocks
of inputs, …) do so by themselves; `as_written` turns it off.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun
from jaxtyping import Array

from .convolutions import Options, axes_of, convolve

_ON: ContextVar[bool] = ContextVar("theorylab_fast_convolutions", default=True)
_NAME = "conv_general_dilated"

Function = TypeVar("Function", bound=Callable[..., Any])


def fast_convolutions(function: Function, platform: str | None = None) -> Function:
    """Give the same function with convolutions that are fast on a CPU, also inside a loop.

    Args:
        function: Of trees of arrays, to a tree of arrays. It is traced at every call.
        platform: Where it will run, "cpu", "gpu" or "tpu"; by default where JAX runs. On anything
            but a CPU the function itself is returned.

    Example: the gradient of a convolution, as a step of a compiled loop.
        >>> import jax.numpy as jnp
        >>> x = jnp.arange(5.0).reshape(1, 1, 5)
        >>> loss = lambda w: jnp.sum(jax.lax.conv(x, w, (1,), "VALID") ** 2)
        >>> gradient = fast_convolutions(jax.grad(loss))
        >>> w = jax.lax.fori_loop(0, 3, lambda _, w: w - 0.01 * gradient(w), jnp.ones((1, 1, 2)))
        >>> [round(float(entry), 3) for entry in w.ravel()]
        [0.217, -0.143]
    """
    if (platform or jax.default_backend()) != "cpu" or not _ON.get():
        return function

    @wraps(function)
    def fast(*args: Any) -> Any:
        program, results = jax.make_jaxpr(function, return_shape=True)(*args)
        found = jaxpr_as_fun(fast_program(program))(*jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(results), found)

    return cast(Function, fast)


@contextmanager
def as_written() -> Iterator[None]:
    """Leave convolutions as they are written in all that is traced inside.

    A program that was compiled before, and is kept, is used as it is.

    Example:
        >>> with as_written():
        ...     fast_convolutions(abs) is abs
        True
    """
    token = _ON.set(False)
    try:
        yield
    finally:
        _ON.reset(token)


def has_slow_convolutions(function: Callable, *args: Any) -> bool:
    """Whether a function has convolutions that are to be replaced, or whose derivatives are.

    Nothing is computed. On a GPU, and where convolutions stay as they are written, it has none.

    Example:
        >>> import jax.numpy as jnp
        >>> has_slow_convolutions(lambda x: x @ x, jnp.ones((2, 2)))
        False
    """
    if fast_convolutions(function) is function:
        return False
    return _holds(jax.make_jaxpr(function)(*args))


def fast_program(program: ClosedJaxpr) -> ClosedJaxpr:
    """Give a program with every convolution replaced; itself, if there is none to replace.

    Example: a program of products has none.
        >>> import jax.numpy as jnp
        >>> program = jax.make_jaxpr(jax.lax.dot)(jnp.ones((2, 3)), jnp.ones((3, 4)))
        >>> fast_program(program) is program
        True
    """
    return _replaced(program, {})


def _holds(value: Any) -> bool:
    """Whether there is a convolution in a program, or in what an equation is told."""
    if isinstance(value, tuple | list):
        return any(map(_holds, value))
    if not isinstance(value, ClosedJaxpr | Jaxpr):
        return False
    return any(
        equation.primitive.name == _NAME or any(map(_holds, equation.params.values()))
        for equation in value.eqns
    )


def _replaced(value: Any, known: dict[int, Any]) -> Any:
    """A program, or what an equation is told, with convolutions replaced; `known`: those done."""
    if isinstance(value, tuple | list):
        parts = [_replaced(part, known) for part in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        make = getattr(value, "_make", type(value))  # of a named tuple
        return make(parts)
    if not isinstance(value, ClosedJaxpr | Jaxpr):
        return value
    if id(value) not in known:  # a program that is called twice is compiled once
        known[id(value)] = _program(value, known)
    return known[id(value)]


def _program(program: ClosedJaxpr | Jaxpr, known: dict[int, Any]) -> ClosedJaxpr | Jaxpr:
    if isinstance(program, ClosedJaxpr):
        inner = _replaced(program.jaxpr, known)
        return program if inner is program.jaxpr else ClosedJaxpr(inner, program.consts)
    equations = [_equation(equation, known) for equation in program.eqns]
    if all(new is old for new, old in zip(equations, program.eqns, strict=True)):
        return program
    return program.replace(eqns=equations)


def _equation(equation: JaxprEqn, known: dict[int, Any]) -> JaxprEqn:
    if equation.primitive.name == _NAME:
        return _convolution(equation)
    params = {name: _replaced(value, known) for name, value in equation.params.items()}
    if all(params[name] is value for name, value in equation.params.items()):
        return equation
    return equation.replace(params=params)


def _convolution(equation: JaxprEqn) -> JaxprEqn:
    """A call of the fast form in the equation's place; itself if it is one already."""
    options = Options(**{name: equation.params[name] for name in Options._fields})
    x, kernel = (jax.ShapeDtypeStruct(*_kind(atom)) for atom in equation.invars)
    result, _ = _kind(equation.outvars[0])
    axes, library = options.dimension_numbers, axes_of(x.ndim - 2)
    window = tuple(kernel.shape[axis] for axis in axes.rhs_spec[2:])
    counts = tuple(result[axis] for axis in axes.out_spec[2:])
    fast = options.is_fast(window, counts) and not options.is_spread(window, counts)
    if len(window) == 2 and axes == library and fast:
        return equation
    (call,) = jax.make_jaxpr(_call(options))(x, kernel).eqns
    return equation.replace(primitive=call.primitive, params=call.params, effects=call.effects)


def _kind(atom: Any) -> tuple[tuple[int, ...], Any]:
    """The shape and the type of an array in a program."""
    return atom.aval.shape, atom.aval.dtype


@lru_cache
def _call(options: Options) -> Callable[[Array, Array], Array]:
    """One compiled function for all convolutions with these options."""

    def convolution(x: Array, kernel: Array) -> Array:
        return convolve(x, kernel, options)

    return jax.jit(convolution)
