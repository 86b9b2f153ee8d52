"""Jacobians in factors: the gradient of a weight matrix is an outer product, never multiplied out.

Where a network computes h_s = g_s W, at one or several positions s, output a has the gradient

    ∂f_a/∂W = Σ_s g_s ⊗ b_as,   b_as = ∂f_a/∂h_s,

and the gradients at two inputs have the product Σ_st ⟨g_s, g′_t⟩ ⟨b_as, b′_bt⟩: fan-in plus fan-out
numbers do the work of fan-in times fan-out. Which parameters enter like this is read from the
network's program (its jaxpr), so any `apply(params, x)` will do. The others (biases, convolutions,
weights that are used in other ways too) keep their plain Jacobian.

Source: golikov · ntk-emp · Eq. 2.56; arora · ntk-deep · §9.4.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jaxtyping import Array, Float

from theorylab.typing import Apply, Params

_CALLS = ("jit", "pjit", "closed_call")  # programs in the program, to be walked through


class Factors(NamedTuple):
    """∂f_a/∂W = Σ_s g_s ⊗ b_as: what comes into a layer (g), and what comes back to it (b)."""

    forward: Float[Array, "s c"]
    backward: Float[Array, "k s m"]


Part = Factors | Float[Array, "k ..."]  # the Jacobian of one leaf of the parameters


class _Product(NamedTuple):
    """A product of a weight matrix with something else, somewhere in the network's program."""

    leaf: int  # which parameter it is
    weight_first: bool  # W g or g W
    contracted: tuple[int, ...]  # axes of g that are summed over
    shape: tuple[int, ...]  # of the result
    fan_in: int
    fan_out: int

    @property
    def num_positions(self) -> int:
        return math.prod(self.shape) // self.fan_out

    def factors(self, given: Array, backward: Array) -> Factors:
        """Arrange g and b: positions, then channels."""
        last = range(-len(self.contracted), 0)
        forward = jnp.moveaxis(given, self.contracted, last).reshape(-1, self.fan_in)
        if self.weight_first:
            backward = backward.reshape(len(backward), self.fan_out, -1)
            return Factors(forward, jnp.swapaxes(backward, 1, 2))
        return Factors(forward, backward.reshape(len(backward), -1, self.fan_out))


_Tap = Callable[[_Product, Array, Array], Array]  # (product, g, result) ─► result


def factored_jacobian(
    apply: Apply, params: Params, one: jax.ShapeDtypeStruct
) -> tuple[Callable[[Array], list[Part]], int]:
    """The function x ↦ ∂f(x)/∂w for single inputs x, and the bytes that one result takes.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        one: Shape and dtype of a single input.
    """
    leaves, tree = jax.tree.flatten(params)

    def network(leaves: list[Array], x: Array) -> Array:
        return apply(jax.tree.unflatten(tree, leaves), x[None])[0]

    program = jax.make_jaxpr(network)(leaves, one)
    (output,) = program.out_avals
    products = _products(program, leaves, one)
    in_factors = {product.leaf for product in products}
    plain = [leaf for i, leaf in enumerate(leaves) if i not in in_factors]

    def tapped(plain: list[Array], taps: list[Array], x: Array) -> tuple[Array, list[Array]]:
        """The outputs, with a tap added to the result of every product; and every product's g."""
        values, remaining, given = iter(plain), iter(taps), []

        def tap(product: _Product, other: Array, result: Array) -> Array:
            if product.leaf not in in_factors:
                return result
            given.append(other)
            return result + next(remaining)

        inputs = [leaf if i in in_factors else next(values) for i, leaf in enumerate(leaves)]
        (result,) = _walk(program, [*inputs, x], [*range(len(leaves)), None], tap, set())
        return result, given

    def jacobian(x: Array) -> list[Part]:
        taps = [jnp.zeros(product.shape, output.dtype) for product in products]
        _, pull_back, given = jax.vjp(lambda w, taps: tapped(w, taps, x), plain, taps, has_aux=True)
        slopes, backward = jax.vmap(pull_back)(jnp.eye(output.size, dtype=output.dtype))
        parts = [p.factors(g, b) for p, g, b in zip(products, given, backward, strict=True)]
        rest = iter(slopes)
        return [
            _joined(part for p, part in zip(products, parts, strict=True) if p.leaf == i)
            if i in in_factors
            else next(rest)
            for i in range(len(leaves))
        ]

    numbers = output.size * sum(leaf.size for leaf in plain)
    numbers += sum(p.num_positions * (p.fan_in + output.size * p.fan_out) for p in products)
    return jacobian, numbers * output.dtype.itemsize


def _joined(parts: Iterable[Factors]) -> Factors:
    """Factors of a weight that is used several times: the positions of all uses."""
    forward, backward = zip(*parts, strict=True)
    return Factors(jnp.concatenate(forward), jnp.concatenate(backward, axis=1))


def _products(
    program: ClosedJaxpr, leaves: list[Array], one: jax.ShapeDtypeStruct
) -> list[_Product]:
    """The products of weights that enter in no other way and have few positions."""
    found: list[_Product] = []
    other_uses: set[int] = set()

    def tap(product: _Product, other: Array, result: Array) -> Array:
        found.append(product)
        return result

    def walk(leaves: list[Array], x: Array) -> list[Array]:
        return _walk(program, [*leaves, x], [*range(len(leaves)), None], tap, other_uses)

    jax.eval_shape(walk, leaves, one)
    sizes = dict.fromkeys((product.leaf for product in found), 0)
    for product in found:
        sizes[product.leaf] += product.num_positions * (product.fan_in + product.fan_out)
    kept = {i for i, size in sizes.items() if size <= leaves[i].size and i not in other_uses}
    return [product for product in found if product.leaf in kept]


def _walk(
    program: ClosedJaxpr,
    values: list[Array],
    origins: list[int | None],
    tap: _Tap,
    other_uses: set[int],
) -> list[Array]:
    """Run a program, showing every product with a weight to `tap`, which may change the result.

    Args:
        program: The jaxpr with its constants.
        values: What goes in.
        origins: Which parameter each of them is; None for what is no parameter.
        tap: Is given the product, the other factor and the result, and gives the result.
        other_uses: Is told the parameters that are used in any other way.
    """
    jaxpr = program.jaxpr
    known: dict[Any, tuple[Any, int | None]] = {}

    def write(variables: Iterable[Any], pairs: Iterable[tuple[Any, int | None]]) -> None:
        known.update(zip(variables, pairs, strict=True))

    def read(atoms: Iterable[Any]) -> tuple[list[Any], list[int | None]]:
        pairs = [(a.val, None) if isinstance(a, Literal) else known[a] for a in atoms]
        return [value for value, _ in pairs], [origin for _, origin in pairs]

    write(jaxpr.constvars, ((value, None) for value in program.consts))
    write(jaxpr.invars, zip(values, origins, strict=True))
    for equation in jaxpr.eqns:
        inputs, sources = read(equation.invars)
        if equation.primitive.name in _CALLS:
            results = _walk(equation.params["jaxpr"], inputs, sources, tap, other_uses)
        else:
            results = _run(jaxpr, equation, inputs)
            product = _recognised(equation, inputs, sources, results)
            if product:
                results = [tap(product, inputs[product.weight_first], results[0])]
            else:
                other_uses.update(origin for origin in sources if origin is not None)
        write(equation.outvars, ((value, None) for value in results))
    results, sources = read(jaxpr.outvars)
    other_uses.update(origin for origin in sources if origin is not None)
    return results


def _run(jaxpr: Jaxpr, equation: JaxprEqn, inputs: list[Any]) -> list[Any]:
    """Run one equation of a program, as a program of its own."""
    given = {
        atom: value
        for atom, value in zip(equation.invars, inputs, strict=True)
        if not isinstance(atom, Literal)
    }
    alone = jaxpr.replace(
        constvars=[], invars=list(given), outvars=equation.outvars, eqns=[equation]
    )
    return jaxpr_as_fun(ClosedJaxpr(alone, ()))(*given.values())


def _recognised(
    equation: JaxprEqn, inputs: list[Any], origins: list[int | None], results: list[Any]
) -> _Product | None:
    """The product of one weight with something that is no parameter, if the equation is one."""
    if equation.primitive.name != "dot_general":
        return None
    (summed_first, summed_second), (batched, _) = equation.params["dimension_numbers"]
    match origins:
        case [int(leaf), None] if not batched:
            weight, of_weight, of_other = inputs[0], summed_first, summed_second
        case [None, int(leaf)] if not batched:
            weight, of_weight, of_other = inputs[1], summed_second, summed_first
        case _:
            return None
    fan_in = math.prod(weight.shape[axis] for axis in of_weight)
    return _Product(
        leaf=leaf,
        weight_first=origins[0] is not None,
        contracted=tuple(of_other),
        shape=results[0].shape,
        fan_in=fan_in,
        fan_out=weight.size // fan_in,
    )
