"""The Jacobian of a network at one input, parameter by parameter: in factors, or multiplied out.

The factors of all weights come from one pass forward and one pass back: to the result h of every
product a tap, 0, is added; the derivative by the tap is b.

Source: golikov · ntk-emp · Eq. 2.56; arora · ntk-deep · §9.4.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Inputs

from .cost import Way
from .program import Program
from .uses import WeightFactors, WeightUse

Part = WeightFactors | Float[Array, "..."]  # the Jacobian of one leaf of the parameters


class Jacobian(NamedTuple):
    """x ↦ ∂f(x)/∂w for single inputs, as a list of parts; and how many bytes it takes.

    Example: the Jacobian of a linear model is its input.
        >>> from theorylab.kernels.finite.program import program_of
        >>> one = jax.ShapeDtypeStruct((2,), float)
        >>> program = program_of(lambda w, x: x @ w, jnp.zeros((2, 1)), one)
        >>> jacobian_of(program, [], ["plain"]).at(jnp.array([1.0, 2.0]))[0].ravel().tolist()
        [1.0, 2.0]
    """

    at: Callable[[Inputs], list[Part]]
    num_outputs: int  # k
    held: int  # bytes of one result
    working: int  # bytes while it is made, for one input


def jacobian_of(program: Program, uses: list[WeightUse], ways: list[Way]) -> Jacobian:
    """The Jacobian of a network, for each parameter in the way asked for.

    Args:
        program: The network.
        uses: How those weights enter that are not to be plain.
        ways: Of each parameter: "factors", "outer" (factors multiplied out) or "plain".

    Example: the factors of xW are what comes in, x, and what comes back, 1.
        >>> from theorylab.kernels.finite.program import program_of, uses_of
        >>> one = jax.ShapeDtypeStruct((2,), float)
        >>> program = program_of(lambda w, x: x @ w, jnp.zeros((2, 1)), one)
        >>> (part,) = jacobian_of(program, uses_of(program), ["factors"]).at(jnp.array([1.0, 2.0]))
        >>> part.forward.ravel().tolist(), part.backward.ravel().tolist()
        ([1.0, 2.0], [1.0])
    """
    leaves, output = program.leaves, program.output
    uses = [use for use in uses if ways[use.leaf] != "plain"]
    plain = [leaf for leaf, way in zip(leaves, ways, strict=True) if way == "plain"]

    def tapped(plain: list[Array], taps: list[Array], x: Inputs) -> tuple[Array, list[Array]]:
        """The outputs, with a tap added to the result of every product; and every product's g."""
        values, remaining, given = iter(plain), iter(taps), []

        def tap(use: WeightUse, other: Array, result: Array) -> Array:
            if ways[use.leaf] == "plain":
                return result
            # A network may compute in 16 bits; sums of factors are those of its outputs' type.
            given.append(other.astype(jnp.promote_types(other.dtype, output.dtype)))
            return result + next(remaining).astype(result.dtype)

        pairs = zip(leaves, ways, strict=True)
        inputs = [next(values) if way == "plain" else leaf for leaf, way in pairs]
        return program.run(inputs, x, tap, set()), given

    def at(x: Inputs) -> list[Part]:
        taps = [jnp.zeros(use.shape, output.dtype) for use in uses]
        _, pull_back, given = jax.vjp(lambda w, taps: tapped(w, taps, x), plain, taps, has_aux=True)
        slopes, backward = jax.vmap(pull_back)(jnp.eye(output.size, dtype=output.dtype))
        found = list(zip(uses, given, backward, strict=True))
        rest = iter(slopes)

        def part(leaf: int, way: Way) -> Part:
            if way == "plain":
                return next(rest)
            mine = [(use, g, b) for use, g, b in found if use.leaf == leaf]
            if way == "factors":
                return _joined(use.factors(g, b) for use, g, b in mine)
            terms = [use.multiplied_out(g, b) for use, g, b in mine]
            return sum(terms[1:], terms[0])

        return [part(leaf, way) for leaf, way in enumerate(ways)]

    held = sum(part.size for part in jax.tree.leaves(jax.eval_shape(at, program.one)))
    made = [use.sizes for use in uses if ways[use.leaf] == "outer"]
    working = sum(s.groups * s.positions * (s.fan_in + output.size * s.fan_out) for s in made)
    bytes_each = output.dtype.itemsize
    return Jacobian(at, output.size, bytes_each * held, bytes_each * (held + working))


def _joined(parts: Iterable[WeightFactors]) -> WeightFactors:
    """WeightFactors of a weight that is used several times: the positions of all uses."""
    forward, backward = zip(*parts, strict=True)
    if len(forward) == 1:
        return WeightFactors(forward[0], backward[0])
    return WeightFactors(jnp.concatenate(forward, axis=1), jnp.concatenate(backward, axis=2))
