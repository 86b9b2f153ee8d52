"""A network's program, run at one input to see what the units of its activations do.

Every value is followed with two things: its axes of units (`unit_axes`), and of which value it is a
function entry by entry (`elementwise`). Where a value that is such a function leaves it for
anything else (a product, a sum with another value), it is an activation φ of pre-activations z, and
the slopes φ′(z) are counted. What only goes to the outputs is not.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jaxtyping import Array

from .elementwise import (
    ELEMENTWISE,
    Node,
    combined,
    is_activation,
    label,
    root_of,
    slopes_of,
    value_of,
)
from .unit_axes import Units, moved

FLAT = 0.01  # a slope below this share of the largest is flat
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
_PRODUCTS = ("dot_general", "conv_general_dilated")


class Seen(NamedTuple):
    """What the units of one activation do at one input.

    Example:
        >>> Seen(counts={}, activation="relu", leaf=0, num_positions=1).activation
        'relu'
    """

    counts: dict[str, Array]  # numbers of positions, unit by unit: see `count_units`
    activation: str
    leaf: int | None  # of the parameters: the weights that feed it
    num_positions: int


class _Value(NamedTuple):
    """A value in a program, and what is known of it."""

    array: Any
    units: Units
    node: Node | None  # if inputs enter
    is_number: bool  # one number for all entries, in which no input enters


class Walk:
    """Runs a program at one input, and counts what the units of its activations do.

    Example:
        >>> program = jax.make_jaxpr(lambda w, x: jnp.tanh(x @ w) @ w)(jnp.eye(2), jnp.ones((1, 2)))
        >>> known = [Units(False, frozenset({0, 1}), leaf=0), Units(True)]
        >>> found = Walk().all(program, [jnp.eye(2), jnp.ones((1, 2))], known)
        >>> [one.activation for one in found]
        ['tanh']
    """

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.roots: dict[int, tuple[Any, Units]] = {}  # pre-activations by their token
        self.tokens: list[object] = []  # kept, so that no two have one id
        self.done: set[tuple[int, frozenset[int]]] = set()

    def all(self, program: ClosedJaxpr, given: list, known: list) -> list:
        """Run the whole program.

        Args:
            program: Of a network, at one input.
            given: Its arguments: parameters, then inputs.
            known: What is known of each, as `Units`.
        """
        values = [self._fresh(array, units) for array, units in zip(given, known, strict=True)]
        self.run(program.jaxpr, list(program.consts), values, smooth=True)
        return self.seen

    def run(self, jaxpr: Jaxpr, consts: list[Any], given: list, smooth: bool) -> list:
        """Run a program in the program, and give its values.

        Args:
            jaxpr: The program.
            consts: Its constants.
            given: Its arguments, as values.
            smooth: Whether max(z, 0) has the slope ½ at 0.
        """
        known: dict[Any, _Value] = {
            variable: self._fresh(array, Units(False))
            for variable, array in zip(jaxpr.constvars, consts, strict=True)
        }
        known.update(zip(jaxpr.invars, given, strict=True))

        def read(atom: Any) -> _Value:
            return self._fresh(atom.val, Units(False)) if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            results = self._one(jaxpr, equation, inputs, smooth)
            known.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _fresh(self, array: Any, units: Units) -> _Value:
        """A value of which nothing is known but where it comes from."""
        if not units.from_inputs:
            return _Value(array, units, None, jnp.size(array) == 1)
        token = object()
        self.tokens.append(token)
        self.roots[id(token)] = (array, units)
        return _Value(array, units, root_of(token), False)

    def _one(self, jaxpr: Jaxpr, equation: JaxprEqn, inputs: list, smooth: bool) -> list:
        name = equation.primitive.name
        if name in _CALLS:
            return self._call(equation, inputs, smooth)
        if name == "scan":
            return self._scan(equation, inputs, smooth)
        arrays = [value.array for value in inputs]
        results = run_equation(jaxpr, equation, arrays)
        operands = [_operand(value) for value in inputs]
        node = combined(equation, operands, smooth)
        if node is not None:
            units = moved(equation, [value.units for value in inputs])
            return [_Value(results[0], units, node, False)]
        for value in inputs:
            self._look(value, name in _PRODUCTS)
        units = [moved(equation, [v.units for v in inputs], n) for n in range(len(results))]
        values = [self._fresh(r, u) for r, u in zip(results, units, strict=True)]
        keeps = name in ELEMENTWISE or name in ("broadcast_in_dim", "reshape", "squeeze")
        if keeps and inputs and all(value.is_number for value in inputs):
            values = [values[0]._replace(is_number=True)]
        return values

    def _call(self, equation: JaxprEqn, inputs: list, smooth: bool) -> list:
        """Walk through a function; if it is elementwise as a whole, φ has its name."""
        inner = equation.params[_CALLS[equation.primitive.name]]
        jaxpr, consts = (
            (inner.jaxpr, inner.consts) if isinstance(inner, ClosedJaxpr) else (inner, [])
        )
        own = equation.primitive.name.startswith("custom_jvp")
        results = self.run(jaxpr, list(consts), inputs, smooth and not (own and _is_kinked(jaxpr)))
        name = str(equation.params.get("name", ""))
        roots = {id(value.node.root) for value in inputs if value.node is not None}
        return [self._named(value, name, roots) for value in results]

    def _named(self, value: _Value, name: str, roots: set[int]) -> _Value:
        node = value.node
        plain = not name or name.startswith(("_", "<"))
        if node is None or node.is_linear or plain or id(node.root) not in roots:
            return value
        return value._replace(node=node._replace(name=name))

    def _look(self, value: _Value, before_product: bool) -> None:
        """Count what the units do, if a value that is used here is an activation's."""
        node = value.node
        if node is None or node.is_linear or not jnp.issubdtype(value.array.dtype, jnp.floating):
            return
        z, units = self.roots[id(node.root)]
        key = (id(node.root), node.places)
        if not units.axes or key in self.done or not is_activation(node, before_product):
            return
        self.done.add(key)
        counts, positions = count_units(partial(value_of, node), z, units.axes)
        self.seen.append(Seen(counts, label(node), units.leaf, positions))

    def _scan(self, equation: JaxprEqn, inputs: list, smooth: bool) -> list:
        """Walk through the steps of a loop; what its units do is summed over the steps."""
        settings = equation.params
        num_consts, num_carry = settings["num_consts"], settings["num_carry"]
        for value in inputs:
            self._look(value, before_product=False)
        known = [value.units for value in inputs]
        xs = [_dropped(units) for units in known[num_consts + num_carry :]]
        apart = any(not u.from_inputs and u.axes for u in known[num_consts + num_carry :])
        body, told = settings["jaxpr"], []

        def step(carry: list[Array], slices: list[Array]) -> tuple[list[Array], Any]:
            walk = Walk()
            arrays = [*(value.array for value in inputs[:num_consts]), *carry, *slices]
            units = [*known[:num_consts], *carried, *xs]
            values = [walk._fresh(a, u) for a, u in zip(arrays, units, strict=True)]
            results = walk.run(body.jaxpr, list(body.consts), values, smooth)
            for value in results:  # used in the next step, or after the loop
                walk._look(value, before_product=False)
            told[:] = [(*walk.seen,), [value.units for value in results]]
            found = [value.array for value in results]
            return found[:num_carry], (found[num_carry:], [seen.counts for seen in walk.seen])

        carried = known[num_consts : num_consts + num_carry]
        start = [value.array for value in inputs[num_consts : num_consts + num_carry]]
        steps = [value.array for value in inputs[num_consts + num_carry :]]
        loop = partial(
            jax.lax.scan, step, start, steps, settings["length"], settings["reverse"], unroll=1
        )
        for _ in range(4):  # until what is known of the carry is known
            jax.eval_shape(loop)
            after = [_joined(a, b) for a, b in zip(carried, told[1][:num_carry], strict=True)]
            if after == carried:
                break
            carried = after
        carry, (ys, counts) = loop()
        length = settings["length"]
        for seen, count in zip(told[0], counts, strict=True):
            whole = {name: _over_steps(name, leaf, apart, length) for name, leaf in count.items()}
            positions = seen.num_positions * (1 if apart else length)
            self.seen.append(Seen(whole, seen.activation, seen.leaf, positions))
        units = [*carried, *(_stacked(units) for units in told[1][num_carry:])]
        return [self._fresh(a, u) for a, u in zip([*carry, *ys], units, strict=True)]


def count_units(
    function: Callable[[Array], Array], z: Array, axes: frozenset[int]
) -> tuple[dict[str, Array], int]:
    """Numbers of positions at which the units of one input are active, flat, or not 0.

    Args:
        function: φ, entry by entry.
        z: Pre-activations.
        axes: The axes of z that count units.

    Example: three positions of two units.
        >>> z = jnp.array([[1.0, -1.0], [2.0, -1.0], [-1.0, -1.0]])
        >>> counts, positions = count_units(jax.nn.relu, z, frozenset({1}))
        >>> counts["active"].tolist(), positions
        ([2.0, 0.0], 3)
    """
    slopes = slopes_of(function, z.dtype)
    values, steep = jax.jvp(function, (z,), (jnp.ones_like(z),))
    order = [*(axis for axis in range(z.ndim) if axis not in axes), *sorted(axes)]

    def rows(entries: Array) -> Array:
        size = 1
        for axis in axes:
            size *= z.shape[axis]
        return jnp.transpose(entries, order).reshape(-1, size).astype(jnp.float32)

    active = rows(steep != 0)
    counts = {
        "active": active.sum(axis=0),
        "flat": rows(jnp.abs(steep) < 0.999 * FLAT * slopes.largest).sum(axis=0),
        "output": rows(values != 0).sum(axis=0),
        "reached": active.max(axis=0),
        "tails": (slopes.tails / slopes.largest).astype(jnp.float32),
    }
    return counts, len(active)


def _operand(value: _Value) -> Any:
    """A node, a number, or None if it is neither."""
    if value.units.from_inputs:
        return value.node
    return jnp.ravel(value.array)[0] if value.is_number else None


def _is_kinked(program: Jaxpr) -> bool:
    """Whether a function is made of kinks alone: relu, whose derivative at 0 is 0 by its rule."""
    for equation in program.eqns:
        name = equation.primitive.name
        inner = equation.params.get(_CALLS.get(name, ""))
        if inner is not None:
            if not _is_kinked(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner):
                return False
        elif name not in ("max", "min", "convert_element_type"):
            return False
    return True


def run_equation(jaxpr: Jaxpr, equation: JaxprEqn, inputs: list[Any]) -> list[Any]:
    """Run one equation of a program, as a program of its own.

    Example:
        >>> program = jax.make_jaxpr(jnp.sin)(jnp.zeros(2)).jaxpr
        >>> run_equation(program, program.eqns[0], [jnp.zeros(2)])[0].tolist()
        [0.0, 0.0]
    """
    given = {
        atom: value
        for atom, value in zip(equation.invars, inputs, strict=True)
        if not isinstance(atom, Literal)
    }
    alone = jaxpr.replace(
        constvars=[], invars=list(given), outvars=equation.outvars, eqns=[equation]
    )
    return jaxpr_as_fun(ClosedJaxpr(alone, ()))(*given.values())


def _dropped(units: Units) -> Units:
    """Of a step of what is stacked along the first axis."""
    return units._replace(axes=frozenset(axis - 1 for axis in units.axes if axis > 0))


def _stacked(units: Units) -> Units:
    return units._replace(axes=frozenset(axis + 1 for axis in units.axes))


def _joined(before: Units, after: Units) -> Units:
    """What is known of a carry: at the start, and after a step."""
    data = before.from_inputs or after.from_inputs
    if not after.axes or not after.from_inputs:
        return before._replace(from_inputs=data)
    return Units(data, after.axes, after.leaf)


def _over_steps(name: str, count: Array, apart: bool, length: int) -> Array:
    """What is counted in all steps together, or in each for itself as units of its own."""
    if name == "tails":
        return count[0]
    if apart:
        return count.reshape(-1)
    return count.max(axis=0) if name == "reached" else count.sum(axis=0)
