"""Which units of a network are active, dead or saturated, for every activation of any network.

A unit is a feature of a hidden layer (a channel of a convolution); its observations are the inputs,
and all positions of each. With its pre-activation z and the activation φ, over the observations:

    active      share with φ′(z) ≠ 0: the only ones at which the unit learns
    dead        φ(z) = 0 and φ′(z) = 0 at every observation
    flat        share with |φ′(z)| < sup |φ′|/100
    saturated   flat at 99 % of the observations at least, and not dead

Activations are found in the network's program, by what they compute (`elementwise`), also inside
jitted functions, functions with derivatives of their own, checkpoints and, where a loop has a fixed
number of steps (`scan`), inside of it: there the steps are observations too, or units of their own
if the weights differ from step to step. Branches and `while` loops are not looked into, nor is an
activation with an array of parameters of its own (a PReLU of every channel). What is applied to the
outputs is no hidden unit.

n inputs that all miss a unit bound the share of inputs that reach it below 1 − 0.05^(1/n), about
3/n, at 95 % confidence: dead on 500 inputs is active on less than 0.6 % of all.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jaxtyping import Array, Bool, Float

from theorylab.answers import Answer
from theorylab.models.inputs import as_batch, num_inputs, one_input
from theorylab.models.own_network import entered
from theorylab.typing import Apply, Axes, Inputs, Params, Reduction

from .blocks import block_size_for, sum_over_blocks
from .elementwise import Node, combined, is_activation, label, root_of, slopes_of, value_of
from .unit_axes import Units, moved

FLAT = 0.01  # a slope below this share of the largest is flat
SATURATED = 0.99  # of the observations are flat
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


class UnitActivity(Answer, axes=("unit",), labels={"active": "share of observations with φ′ ≠ 0"}):
    """What the units of one activation do, over inputs and positions.

    Example:
        >>> network = lambda w, x: jax.nn.relu(x @ w["in"]) @ w["out"]
        >>> params = {"in": jnp.array([[1.0, -1.0]]), "out": jnp.ones((2, 1))}
        >>> found = unit_activity(network, params, jnp.ones((3, 1)))
        >>> found["relu 1"].dead.tolist(), found["relu 1"].weights
        ([False, True], "['in']")
    """

    active: Float[Array, " units"]  # share of observations with φ′ ≠ 0
    flat: Float[Array, " units"]  # share with |φ′| below 1 % of the largest
    reached: Float[Array, " units"]  # share of inputs with φ′ ≠ 0 at one position at least
    dead: Bool[Array, " units"]
    saturated: Bool[Array, " units"]
    tails: Float[Array, "2"]  # |φ′| far out at −∞ and ∞, over the largest
    activation: str  # what φ is called
    weights: str  # the weights that feed it, by their path in params
    num_observations: int

    def draw(self, axes: Axes) -> None:
        """The shares of active observations, unit by unit, from the least on."""
        from theorylab.answers.figure import ranked

        ranked(axes, jnp.sort(self.active), x="unit", y="share of observations with φ′ ≠ 0")


def unit_activity(
    apply: Apply,
    params: Params,
    x: Inputs,
    block_size: int | None = None,
    *,
    outputs: Reduction | None = None,
) -> dict[str, UnitActivity]:
    """What the units of every activation do at some inputs, in the order of the network.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, ...).
        params: Its parameters, any pytree.
        x: The inputs, an array or a tree.
        block_size: How many inputs to take at a time, 64 at most by default.
        outputs: A function of the outputs to take in their place.

    Example:
        >>> network = lambda w, x: jnp.tanh(x @ w["in"]) @ w["out"]
        >>> params = {"in": jnp.array([[1.0, 50.0]]), "out": jnp.ones((2, 1))}
        >>> found = unit_activity(network, params, jnp.array([[0.5], [1.0]]))
        >>> found["tanh 1"].saturated.tolist()
        [False, True]
    """
    if block_size is not None and block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}.")
    own = entered(apply, params, x, None, outputs)
    found = _activity(own.apply, own.params, own.x1, block_size)
    return {f"{one.activation} {n}": one for n, one in enumerate(found, 1)}


class _Seen(NamedTuple):
    """An activation at one input: φ, and its pre-activations (observations, units)."""

    counts: dict[str, Array]
    activation: str
    leaf: int | None
    num_positions: int


@partial(jax.jit, static_argnums=(0, 3))
def _activity(
    apply: Apply, params: Params, x: Inputs, block_size: int | None
) -> tuple[UnitActivity, ...]:
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    leaves, tree = jax.tree.flatten(params)
    network = lambda leaves, x: apply(jax.tree.unflatten(tree, leaves), as_batch(x))  # noqa: E731
    program = jax.make_jaxpr(network)(leaves, one_input(x))
    size = min(64, block_size_for(x, 1, None)) if block_size is None else block_size
    told: list[_Seen] = []

    def at_one(one: Inputs) -> list[dict[str, Array]]:
        given = [*leaves, *jax.tree.leaves(one)]
        known = [Units(False, frozenset(range(jnp.ndim(leaf))), n) for n, leaf in enumerate(leaves)]
        known += [Units(True)] * (len(given) - len(leaves))
        told[:] = _Walk().all(program, given, known)
        counts = [seen.counts for seen in told]
        told[:] = [seen._replace(counts={}) for seen in told]
        return counts

    def summed(inputs: Inputs, counted: Bool[Array, " b"]) -> list[dict[str, Array]]:
        each = jax.vmap(at_one)(inputs)
        return jax.tree.map(lambda leaf: jnp.tensordot(counted.astype(leaf.dtype), leaf, 1), each)

    n = num_inputs(x)
    sums = sum_over_blocks(summed, x, min(size, n))
    pairs = zip(sums, told, strict=True)
    return tuple(_answer(count, seen, n, paths) for count, seen in pairs)


def _answer(count: dict[str, Array], seen: _Seen, n: int, paths: list[str]) -> UnitActivity:
    """Shares of the observations from their numbers."""
    total = n * seen.num_positions
    dead = (count["active"] == 0) & (count["output"] == 0)
    flat = count["flat"] / total
    return UnitActivity(
        active=count["active"] / total,
        flat=flat,
        reached=count["reached"] / n,
        dead=dead,
        saturated=(flat >= SATURATED) & ~dead,
        tails=count["tails"] / n,
        activation=seen.activation,
        weights="" if seen.leaf is None else paths[seen.leaf],
        num_observations=total,
    )


class _Value(NamedTuple):
    """A value in a program, and what is known of it."""

    array: Any
    units: Units
    node: Node | None  # if inputs enter
    is_number: bool  # one number for all entries, in which no input enters


class _Walk:
    """Runs a program at one input, and counts what the units of its activations do."""

    def __init__(self) -> None:
        self.seen: list[_Seen] = []
        self.roots: dict[int, tuple[Any, Units]] = {}  # pre-activations by their token
        self.tokens: list[object] = []  # kept, so that no two have one id
        self.done: set[tuple[int, frozenset[int]]] = set()

    def all(self, program: ClosedJaxpr, given: list, known: list) -> list:
        """Run the whole program."""
        values = [self._fresh(array, units) for array, units in zip(given, known, strict=True)]
        self.run(program.jaxpr, list(program.consts), values, smooth=True)
        return self.seen

    def run(self, jaxpr: Jaxpr, consts: list[Any], given: list, smooth: bool) -> list:
        """Run a program in the program."""
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
        spread = name == "broadcast_in_dim" and inputs[0].is_number
        if spread or (len(results) == 1 and all(value.is_number for value in inputs)):
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
        self.seen.append(_Seen(counts, label(node), units.leaf, positions))

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
            walk = _Walk()
            arrays = [*(value.array for value in inputs[:num_consts]), *carry, *slices]
            units = [*known[:num_consts], *carried, *xs]
            values = [walk._fresh(a, u) for a, u in zip(arrays, units, strict=True)]
            results = walk.run(body.jaxpr, list(body.consts), values, smooth)
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
            self.seen.append(_Seen(whole, seen.activation, seen.leaf, positions))
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
