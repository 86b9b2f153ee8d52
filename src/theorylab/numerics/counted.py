"""An operator that is applied from outside, one product at a time, and counted.

What an operator reads from outside (parameters, data) becomes an argument of one compiled program,
never a constant in it: v ↦ A(c) v with the arrays c. So large data is held once, and compiling
does not depend on its size; and a function made anew, of other data, is compiled no second time
(`reuse`). Nothing is inside a loop of the compiler; XLA's convolutions on CPUs
are slow there.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from jaxtyping import Array, Float

from .reuse import compiled
from .spectra import Operator, Vector, flat_operator, template


class CompiledOperator:
    """v ↦ A v on flat vectors that is a compiled program already, and is not to be compiled again.

    Args:
        apply: A, a function of a flat array, such as one that calls a function of `jax.jit`.

    Example:
        >>> doubled = jax.jit(lambda v: 2 * v)
        >>> CompiledOperator(doubled)(jnp.ones(2)).tolist()
        [2.0, 2.0]
    """

    def __init__(self, apply: Callable[[Float[Array, " p"]], Float[Array, " p"]]) -> None:
        self._apply = apply

    def __call__(self, vector: Float[Array, " p"]) -> Float[Array, " p"]:
        """A v."""
        return self._apply(vector)


class CountedOperator:
    """v ↦ ±A v on flat vectors, and how often it was applied.

    Example:
        >>> operator = CountedOperator(lambda v: 2 * v, 3)
        >>> operator(jnp.ones(3)).tolist(), operator.products, operator.size
        ([2.0, 2.0, 2.0], 1, 3)
    """

    def __init__(self, matvec: Operator, like: Vector | int, negative: bool = False) -> None:
        flat, self.unravel = template(like)
        self.size, self.dtype = flat.size, flat.dtype
        self.products = 0
        if isinstance(matvec, CompiledOperator):
            refuse_tracing(flat)
            self._constants, self._apply = [], _as_program(matvec, negative)
            return
        closed = _hoisted(flat_operator(matvec, self.unravel), flat)
        refuse_tracing((flat, closed.consts))
        self._constants = [jnp.asarray(constant) for constant in closed.consts]
        self._apply = compiled(closed.jaxpr, negative)

    @property
    def epsilon(self) -> float:
        """The unit of the last place."""
        return float(jnp.finfo(self.dtype).eps)

    def __call__(self, vector: Float[Array, " p"]) -> Float[Array, " p"]:
        """Apply it once."""
        self.products += 1
        return self._apply(self._constants, vector)


def hoisted(function: Callable[..., Any], *like: Array) -> tuple[Callable[..., Array], list[Any]]:
    """The function with all arrays that it reads from outside as its first argument; and these.

    Example:
        >>> data = jnp.arange(3.0)
        >>> program, arrays = hoisted(lambda v: data * v, jnp.ones(3))
        >>> program([10 * arrays[0]], jnp.ones(3)).tolist()
        [0.0, 10.0, 20.0]
    """
    closed = _hoisted(function, *like)

    def program(constants: list[Any], *arguments: Array) -> Array:
        return jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, constants))(*arguments)[0]

    return program, [jnp.asarray(constant) for constant in closed.consts]


def _hoisted(function: Callable[..., Any], *like: Array) -> ClosedJaxpr:
    """The program with all arrays that it reads from outside as its constants."""
    # Programs inside of the program keep arrays of their own, so they are written out.
    outer = jax.make_jaxpr(function)(*like)
    return jax.make_jaxpr(lambda *arguments: _written_out(outer, arguments))(*like)


def refuse_tracing(values: Any) -> None:
    """Raise where a loop that looks at its numbers cannot run: inside a compiled program.

    Example:
        >>> jax.jit(lambda v: refuse_tracing(v))(1.0)
        Traceback (most recent call last):
        ...
        TypeError: a tolerance needs values to look at, got a traced one: ...
    """
    if is_traced(values):
        raise TypeError(
            "a tolerance needs values to look at, got a traced one: inside jit, vmap, grad or scan"
            " give the number of steps or probes instead, or call it outside."
        )


def is_traced(values: Any) -> bool:
    """Whether a tree has a leaf that is known only to a compiler.

    Example:
        >>> is_traced([1.0]), bool(jax.jit(lambda v: jnp.asarray(is_traced([v])))(1.0))
        (False, True)
    """
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))


def _written_out(closed: ClosedJaxpr, arguments: Sequence[Any]) -> list[Any]:
    """The program's results, with compiled functions inside of it called as if they were not."""
    program = closed.jaxpr
    values: dict[Any, Any] = dict(zip(program.constvars, closed.consts, strict=True))
    values.update(zip(program.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for equation in program.eqns:
        given = [read(atom) for atom in equation.invars]
        inner = equation.params.get("jaxpr")
        if equation.primitive.name in ("jit", "pjit") and isinstance(inner, ClosedJaxpr):
            found = _written_out(inner, given)
        else:
            settings = equation.primitive.get_bind_params(equation.params)
            found = equation.primitive.bind(*given, **settings)
            found = found if equation.primitive.multiple_results else [found]
        values.update(zip(equation.outvars, found, strict=True))
    return [read(atom) for atom in program.outvars]


def _as_program(matvec: CompiledOperator, negative: bool) -> Callable[..., Array]:
    return lambda _, vector: -matvec(vector) if negative else matvec(vector)
