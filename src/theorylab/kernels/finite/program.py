"""A network's program (its jaxpr), run equation by equation, to see where each parameter goes.

A parameter may be reshaped, transposed, reversed or multiplied by a number before it is used: it
is the same parameter still, up to the order of its entries. Whatever else happens to it is another
use, of which nothing is known.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jaxtyping import Array

from theorylab.models.inputs import as_batch
from theorylab.typing import Apply, Inputs, Params

from .uses import WeightUse, convolution, convolution_use, product_use, shape_of

_CALLS = ("jit", "pjit", "closed_call")  # programs in the program, to be walked through
_VIEWS = ("reshape", "transpose", "rev", "squeeze", "expand_dims", "convert_element_type", "copy")

Tap = Callable[[WeightUse, Array, Array], Array]  # (use, g, result) ─► result


class Origin(NamedTuple):
    """Which parameter a value is: its entries, in the order that `layout` says, times `scale`.

    Example: the first parameter, multiplied by 2.
        >>> Origin(leaf=0)._replace(scale=2.0)
        Origin(leaf=0, layout=(), scale=2.0)
    """

    leaf: int
    layout: tuple[Any, ...] = ()
    scale: Any = 1.0


class Program(NamedTuple):
    """A network for one input, as a program of its parameters' leaves.

    Example: the tap sees the product xW, and may change it.
        >>> one = jax.ShapeDtypeStruct((2,), float)
        >>> program = program_of(lambda w, x: x @ w, jnp.ones((2, 3)), one)
        >>> doubled = lambda use, given, result: 2 * result
        >>> program.run(program.leaves, jnp.ones(2), tap=doubled, other_uses=set()).tolist()
        [4.0, 4.0, 4.0]
    """

    jaxpr: ClosedJaxpr
    leaves: list[Any]
    one: Any  # shapes and types of one input, or of the leaves of its tree

    @property
    def output(self) -> Any:
        """Shape and dtype of the outputs, (k,)."""
        return self.jaxpr.out_avals[0]

    def run(self, leaves: list[Array], x: Inputs, tap: Tap, other_uses: set[int]) -> Array:
        """The outputs at x; every use of a weight is shown to `tap`, which may change the result.

        Args:
            leaves: The parameters.
            x: One input.
            tap: Is given the use, the other factor and the result, and gives the result.
            other_uses: Is told the parameters that are used in any other way.
        """
        given = jax.tree.leaves(x)
        origins = [*map(Origin, range(len(leaves))), *[None] * len(given)]
        (result,), (source,) = _walk(self.jaxpr, [*leaves, *given], origins, tap, other_uses)
        if source is not None:  # the output is a parameter
            other_uses.add(source.leaf)
        return result


def program_of(apply: Apply, params: Params, one: Any) -> Program:
    """Read the program of `apply` at one input.

    Example:
        >>> one = jax.ShapeDtypeStruct((2,), float)
        >>> program = program_of(lambda w, x: x @ w["weight"], {"weight": jnp.ones((2, 3))}, one)
        >>> program.output.shape, len(program.leaves)
        ((3,), 1)
    """
    leaves, tree = jax.tree.flatten(params)

    def network(leaves: list[Array], x: Inputs) -> Array:
        return apply(jax.tree.unflatten(tree, leaves), as_batch(x))[0]

    return Program(jax.make_jaxpr(network)(leaves, one), leaves, one)


def uses_of(program: Program) -> list[WeightUse]:
    """All uses of those weights that enter in one way: as factors of products, in one layout.

    Example: the weight, parameter 1, is a factor; the bias, parameter 0, is not.
        >>> network = lambda w, x: x @ w["weight"] + w["bias"]
        >>> params = {"bias": jnp.zeros((1, 4)), "weight": jnp.zeros((3, 4))}
        >>> program = program_of(network, params, jax.ShapeDtypeStruct((3,), float))
        >>> [use.leaf for use in uses_of(program)]
        [1]
    """
    found: list[WeightUse] = []
    other_uses: set[int] = set()

    def tap(use: WeightUse, given: Array, result: Array) -> Array:
        found.append(use)
        return result

    jax.eval_shape(
        lambda leaves, x: program.run(leaves, x, tap, other_uses), program.leaves, program.one
    )
    layouts: dict[int, set[Any]] = {}
    for use in found:
        layouts.setdefault(use.leaf, set()).add(use.layout)
    in_one_way = {i for i, ways in layouts.items() if len(ways) == 1 and i not in other_uses}
    return [use for use in found if use.leaf in in_one_way]


def _walk(
    program: ClosedJaxpr,
    values: list[Any],
    origins: list[Origin | None],
    tap: Tap,
    other_uses: set[int],
) -> tuple[list[Any], list[Origin | None]]:
    """Run a program; `origins` says which of its inputs are parameters. So for what comes out."""
    jaxpr = program.jaxpr
    known: dict[Any, tuple[Any, Origin | None]] = {}

    def write(variables: Iterable[Any], values: Iterable[Any], origins: Iterable[Any]) -> None:
        known.update(zip(variables, zip(values, origins, strict=True), strict=True))

    def read(atoms: Iterable[Any]) -> tuple[list[Any], list[Origin | None]]:
        pairs = [(a.val, None) if isinstance(a, Literal) else known[a] for a in atoms]
        return [value for value, _ in pairs], [origin for _, origin in pairs]

    write(jaxpr.constvars, program.consts, [None] * len(program.consts))
    write(jaxpr.invars, values, origins)
    for equation in _needed(jaxpr):
        inputs, sources = read(equation.invars)
        if equation.primitive.name in _CALLS:
            inner = _walk(equation.params["jaxpr"], inputs, sources, tap, other_uses)
            write(equation.outvars, *inner)
            continue
        results = _run(jaxpr, equation, inputs)
        view = _view(equation, inputs, sources)
        if view is None:
            results = _tapped(equation, inputs, sources, results, tap, other_uses)
        write(equation.outvars, results, [view] * len(results))
    return read(jaxpr.outvars)


def _needed(jaxpr: Jaxpr) -> list[JaxprEqn]:
    """The equations that the results depend on; tracing may leave others, such as a vjp's value."""
    wanted = set(map(id, jaxpr.outvars))
    kept: list[JaxprEqn] = []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or wanted.intersection(map(id, equation.outvars)):
            wanted.update(map(id, equation.invars))
            kept.append(equation)
    return kept[::-1]


def _tapped(
    equation: JaxprEqn,
    inputs: list[Any],
    sources: list[Origin | None],
    results: list[Any],
    tap: Tap,
    other_uses: set[int],
) -> list[Any]:
    """Show a use of a weight to `tap`; keep account of all other uses."""
    use = _use(equation, sources)
    if use is None:
        other_uses.update(origin.leaf for origin in sources if origin is not None)
        return results
    origin, given = sources[1 - use.other], inputs[use.other]
    assert origin is not None
    if not (isinstance(origin.scale, float) and origin.scale == 1.0):
        given = given * jnp.broadcast_to(jnp.asarray(origin.scale, given.dtype), given.shape)
    return [tap(use, given, results[0])]


def _use(equation: JaxprEqn, sources: list[Origin | None]) -> WeightUse | None:
    """The use of one weight that the equation is, if it is one."""
    name = equation.primitive.name
    match sources:
        case [Origin() as origin, None] if name == "dot_general":
            return product_use(equation, 0, origin.leaf, origin.layout)
        case [None, Origin() as origin] if name == "dot_general":
            return product_use(equation, 1, origin.leaf, origin.layout)
        case [None, Origin() as origin] if name == "conv_general_dilated":
            if equation.params["batch_group_count"] == 1:
                return convolution_use(equation, origin.leaf, origin.layout)
    return None


def _view(equation: JaxprEqn, inputs: list[Any], sources: list[Origin | None]) -> Origin | None:
    """The parameter that the result still is, if the equation only moves or scales its entries."""
    name = equation.primitive.name
    match sources:
        case [Origin() as origin]:
            if name == "neg":
                return origin._replace(scale=-1.0 * origin.scale)
            before, after = shape_of(equation.invars[0]), shape_of(equation.outvars[0])
            if name in _VIEWS or (
                name == "broadcast_in_dim" and math.prod(before) == math.prod(after)
            ):
                step = (name, str(sorted(equation.params.items(), key=lambda item: item[0])))
                return origin._replace(layout=(*origin.layout, step))
        case [Origin() as origin, None] if name in ("mul", "div") and jnp.size(inputs[1]) == 1:
            factor = jnp.reshape(inputs[1], ())
            return origin._replace(
                scale=origin.scale * factor if name == "mul" else origin.scale / factor
            )
        case [None, Origin() as origin] if name == "mul" and jnp.size(inputs[0]) == 1:
            return origin._replace(scale=origin.scale * jnp.reshape(inputs[0], ()))
    return None


def _run(jaxpr: Jaxpr, equation: JaxprEqn, inputs: list[Any]) -> list[Any]:
    """Run one equation of a program, as a program of its own."""
    if equation.primitive.name == "conv_general_dilated":
        return [convolution(equation)(*inputs)]
    given = {
        atom: value
        for atom, value in zip(equation.invars, inputs, strict=True)
        if not isinstance(atom, Literal)
    }
    alone = jaxpr.replace(
        constvars=[], invars=list(given), outvars=equation.outvars, eqns=[equation]
    )
    return jaxpr_as_fun(ClosedJaxpr(alone, ()))(*given.values())
