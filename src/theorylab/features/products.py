"""Every product of a network with weights: what comes in, what goes out, and who reads it.

A network's program is run equation by equation. A product (dot_general, conv_general_dilated) is
one with weights if one factor is computed from parameters alone and the other from inputs:

    z = s' · (s h) W      h what comes in, W the weights, s and s' numbers before and after

Numbers count as part of the weights: a layer's multiplier may stand before the product, after it,
or in W. A loop whose body has products with weights (layers in a `scan`) is unrolled; products
inside `while` and `cond` are not seen.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jaxtyping import Array

from theorylab.kernels.finite.uses import convolution
from theorylab.models.inputs import as_batch
from theorylab.typing import Apply, Inputs, Params

_MOST_ROUNDS = 128  # of a loop that is unrolled
_PRODUCTS = ("dot_general", "conv_general_dilated")
_SAME = ("reshape", "transpose", "squeeze", "expand_dims", "convert_element_type", "copy")
_SUMS = ("reduce_sum", "reduce_window_sum", "reduce_window", "cumsum", "scatter-add", *_PRODUCTS)


@dataclass(eq=False)
class Product:
    """A product with weights, as a network runs.

    Example:
        >>> (product,), _ = products_of(lambda w, x: 3 * (x @ w), jnp.eye(2), jnp.ones(2))
        >>> product.fan_in, float(product.after), product.is_hidden, product.is_readout
        (2, 3.0, False, True)
    """

    name: str  # of its weights in params; "name [2]" in the second round of a loop
    incoming: Array  # h
    outgoing: Array  # z, without s'
    weights: Array  # W, with what multiplies it
    fan_in: int
    before: Any  # s
    is_hidden: bool  # h depends on parameters
    sources: frozenset[int]  # the products of whose results h is made, other products between
    after: Any = 1.0  # s'
    is_readout: bool = False  # the outputs are made of z without another product between

    @property
    def weight_scale(self) -> Any:
        """σ = |s s'| rms(W) √fan-in: how much larger z is than h, if W is random."""
        size = jnp.sqrt(self.fan_in * jnp.mean(jnp.square(self.weights)))
        return jnp.abs(self.before * self.after) * size


class _Value(NamedTuple):
    """A number of the program, and what is known of it."""

    array: Any
    leaves: frozenset[int] = frozenset()  # parameters that it depends on
    data: bool = False  # it depends on the inputs
    sources: frozenset[int] = frozenset()  # products that it is made of
    product: int | None = None  # it is the result of this product, but for a number
    scale: Any = 1.0  # what a value was multiplied by, after its last other equation
    summed: bool = False  # that equation is a sum; a number after it makes a mean of it

    @property
    def is_weight(self) -> bool:
        return bool(self.leaves) and not self.data


def products_of(
    apply: Apply, params: Params, one: Inputs, taps: list[Array] | None = None
) -> tuple[list[Product], Array]:
    """Run a network at one input; give its products with weights, and its outputs (k,).

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: Its parameters.
        one: One input, without the axis of inputs.
        taps: What is added to the result of every product.

    Example: the second product reads the first.
        >>> network = lambda w, x: jnp.tanh(x @ w["in"]) @ w["out"]
        >>> params = {"in": jnp.ones((2, 3)), "out": jnp.ones((3, 1))}
        >>> products, outputs = products_of(network, params, jnp.ones(2))
        >>> [(each.name, sorted(each.sources)) for each in products], outputs.shape
        ([("['in']", []), ("['out']", [0])], (1,))
    """
    leaves = jax.tree.leaves_with_path(params)
    names = [jax.tree_util.keystr(path) for path, _ in leaves]
    program = jax.make_jaxpr(lambda w, x: apply(w, as_batch(x))[0])(params, one)
    values = [_Value(jnp.asarray(leaf), frozenset({i})) for i, (_, leaf) in enumerate(leaves)]
    values += [_Value(leaf, data=True) for leaf in jax.tree.leaves(one)]
    walk = _Walk(names, [jnp.shape(leaf) for _, leaf in leaves], taps)
    (result,) = walk.run(program, values, "")
    for i in result.sources:
        walk.products[i].is_readout = True
    return walk.products, result.array


class _Walk:
    """Runs a program and keeps its products with weights."""

    def __init__(
        self, names: list[str], shapes: list[tuple[int, ...]], taps: list[Array] | None
    ) -> None:
        self.names, self.sizes = names, [_size(shape) for shape in shapes]
        self.taps = None if taps is None else iter(taps)
        self.products: list[Product] = []

    def run(self, program: ClosedJaxpr, values: list[_Value], place: str) -> list[_Value]:
        jaxpr = program.jaxpr
        known = dict(zip(jaxpr.constvars, map(_Value, program.consts), strict=True))
        known.update(zip(jaxpr.invars, values, strict=True))
        read = lambda atom: _Value(atom.val) if isinstance(atom, Literal) else known[atom]  # noqa: E731
        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            known.update(
                zip(equation.outvars, self._one(jaxpr, equation, inputs, place), strict=True)
            )
        return [read(atom) for atom in jaxpr.outvars]

    def _one(
        self, jaxpr: Jaxpr, equation: JaxprEqn, inputs: list[_Value], place: str
    ) -> list[_Value]:
        """The results of one equation."""
        name = equation.primitive.name
        if (inner := _inner(equation)) is not None and (name == "jit" or _multiplies(inner)):
            if name != "scan":
                return self.run(inner, inputs, place)
            if equation.params["length"] <= _MOST_ROUNDS:
                return self._unrolled(equation, inner, inputs, place)
        if name in _PRODUCTS and sorted((i.is_weight, i.data) for i in inputs) == [
            (False, True),
            (True, False),
        ]:
            return [self._product(jaxpr, equation, inputs, place)]
        results = _run(jaxpr, equation, [value.array for value in inputs])
        return [self._after(name, inputs, array) for array in results]

    def _after(self, name: str, inputs: list[_Value], array: Any) -> _Value:
        """A result of an equation that is no product with weights."""
        if name in _SAME or (
            name == "broadcast_in_dim" and jnp.size(array) == jnp.size(inputs[0].array)
        ):
            return inputs[0]._replace(array=array)
        made = _joined(inputs, array)
        if name in ("mul", "div") and len(inputs) == 2:
            value, factor = inputs
            if name == "mul" and _number(factor) is None:
                value, factor = factor, value
            number = _number(factor)
            if value.data and number is not None:
                scale = value.scale * number if name == "mul" else value.scale / number
                if value.product is not None:
                    self.products[value.product].after = scale
                return value._replace(array=array, leaves=made.leaves, scale=scale)
        if name == "neg":
            return inputs[0]._replace(array=array, scale=-1.0 * inputs[0].scale)
        return made._replace(summed=name in _SUMS)

    def _product(
        self, jaxpr: Jaxpr, equation: JaxprEqn, inputs: list[_Value], place: str
    ) -> _Value:
        w = next(i for i, value in enumerate(inputs) if value.is_weight)
        weights, given = inputs[w], inputs[1 - w]
        (result,) = _run(jaxpr, equation, [value.array for value in inputs])
        if self.taps is not None:
            result = result + next(self.taps)
        number = len(self.products)
        hidden = bool(given.leaves)
        self.products.append(
            Product(
                name=self._name(weights.leaves, place),
                incoming=given.array,
                outgoing=result,
                weights=weights.array,
                fan_in=_fan_in(equation, w, jnp.shape(weights.array)),
                before=given.scale if hidden and not given.summed else 1.0,
                is_hidden=hidden,
                sources=given.sources,
            )
        )
        leaves = weights.leaves | given.leaves
        return _Value(result, leaves, True, frozenset({number}), number)

    def _name(self, leaves: frozenset[int], place: str) -> str:
        """The name of the largest array that the weights are made of, once for every use."""
        largest = max(sorted(leaves), key=lambda leaf: self.sizes[leaf])
        name, taken = f"{self.names[largest]}{place}", {each.name for each in self.products}
        uses = (f"{name} ({count})" for count in range(2, len(taken) + 3))
        return name if name not in taken else next(use for use in uses if use not in taken)

    def _unrolled(
        self, equation: JaxprEqn, body: ClosedJaxpr, inputs: list[_Value], place: str
    ) -> list[_Value]:
        settings = equation.params
        consts, carried = settings["num_consts"], settings["num_carry"]
        fixed, state, over = (
            inputs[:consts],
            inputs[consts : consts + carried],
            inputs[consts + carried :],
        )
        length, kept = settings["length"], []
        rounds = range(length)
        for i in reversed(rounds) if settings["reverse"] else rounds:
            each = [value._replace(array=value.array[i]) for value in over]
            found = self.run(
                body, [*fixed, *state, *each], f"{place} [{i}]" if length > 1 else place
            )
            state = found[:carried]
            kept.append(found[carried:])
        if settings["reverse"]:
            kept.reverse()
        return [*state, *(_stacked(values) for values in zip(*kept, strict=True))]


def _stacked(values: Iterable[_Value]) -> _Value:
    values = list(values)
    return _joined(values, jnp.stack([value.array for value in values]))


def _joined(values: list[_Value], array: Any) -> _Value:
    """A value that is made of others."""
    return _Value(
        array,
        frozenset().union(*(value.leaves for value in values)),
        any(value.data for value in values),
        frozenset().union(*(value.sources for value in values)),
    )


def _number(value: _Value) -> Any | None:
    """A number that is computed without the inputs, if the value is one."""
    if value.data or jnp.size(value.array) != 1:
        return None
    return jnp.reshape(value.array, ())


def _inner(equation: JaxprEqn) -> ClosedJaxpr | None:
    """The program that an equation runs, once or in rounds."""
    if equation.primitive.name in ("while", "cond"):
        return None
    found = [equation.params.get(name) for name in ("jaxpr", "call_jaxpr")]
    for program in found:
        if isinstance(program, ClosedJaxpr):
            return program
        if isinstance(program, Jaxpr):
            return ClosedJaxpr(program, ())
    return None


def _multiplies(program: ClosedJaxpr) -> bool:
    """Whether there are products in a program."""
    equations = program.jaxpr.eqns
    inner = (_inner(equation) for equation in equations)
    return any(equation.primitive.name in _PRODUCTS for equation in equations) or any(
        each is not None and _multiplies(each) for each in inner
    )


def _run(jaxpr: Jaxpr, equation: JaxprEqn, inputs: list[Any]) -> list[Any]:
    """Run one equation, as a program of its own."""
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
    return list(jaxpr_as_fun(ClosedJaxpr(alone, ()))(*given.values()))


def _fan_in(equation: JaxprEqn, weight: int, shape: tuple[int, ...]) -> int:
    """How many numbers add up in one entry of a product."""
    if equation.primitive.name == "dot_general":
        summed, _ = equation.params["dimension_numbers"]
        return _size(tuple(shape[axis] for axis in summed[weight]))
    _, *rest = equation.params["dimension_numbers"].rhs_spec
    return _size(tuple(shape[axis] for axis in rest))


def _size(shape: tuple[int, ...]) -> int:
    return math.prod(shape)
