"""What a finite network's kernel costs by each method, counted from shapes before any work.

With n inputs, k outputs, p parameters and F multiplications for one output at one input:

    Jacobian contraction    n (1 + 2k) F + n² k² p          memory n k p
    NTK-vector products     n (2 + 2k) F + 2 n² k F         memory n k p, or less in blocks
    structured              n (1 + k) F + Σ of the layers   memory Σ n (s c + k s m)

where a layer with fan-in c, fan-out m and s positions takes the cheaper of

    in factors        n² s² (c + k² m + k²)
    multiplied out    n k s c m + n² k² c m

and the rest (biases, gains, what is not recognised) its plain Jacobian. Averaged over outputs, or
for each of them, k² is k. Of the kernel of a batch with itself, half is computed. Products pay
where k exceeds F/p, the number of times an average parameter is used.

Source: golikov · entk-cost · 2.5.2.
"""

import math
from typing import Any, Literal, NamedTuple

from jax.extend.core import ClosedJaxpr, Jaxpr

from .program import Program
from .uses import Sizes, Use, shape_of

Method = Literal["auto", "jacobian", "products", "structured"]
Way = Literal["factors", "outer", "plain"]  # of one parameter

_COMBINATION = 8  # what an entry of a product, elementwise, costs beside one in a matrix product


class Task(NamedTuple):
    """How many inputs and outputs are compared."""

    first: int
    second: int
    symmetric: bool  # the inputs with themselves
    outputs: int  # k
    pairs: int  # of outputs: k² or k

    @property
    def inputs(self) -> int:
        """Inputs at which derivatives are taken."""
        return self.first if self.symmetric else self.first + self.second

    @property
    def entries(self) -> float:
        """Pairs of inputs that are compared."""
        n1, n2 = float(self.first), float(self.second)
        return n1 * (n1 + 1) / 2 if self.symmetric else n1 * n2


class Cost(NamedTuple):
    """Multiplications, and numbers that are held if all is done at once."""

    multiplications: float
    numbers: float


class Costs(NamedTuple):
    """The cost of every method.

    Example: what `ntk_costs` counts.
        >>> jacobian, products, structured = Cost(50, 9), Cost(20, 4), Cost(30, 6)
        >>> Costs(jacobian, products, structured, passes=2).cheapest
        'products'
    """

    jacobian: Cost
    products: Cost
    structured: Cost
    passes: int  # F, the multiplications of one pass at one input

    @property
    def cheapest(self) -> Literal["products", "structured"]:
        """What "auto" takes; multiplied out, structured derivatives are a Jacobian contraction."""
        cheaper = self.products.multiplications < self.structured.multiplications
        return "products" if cheaper else "structured"


def sizes_of(uses: list[Use]) -> dict[int, Sizes]:
    """Sizes of the factors of every weight, with the positions of all its uses."""
    sizes: dict[int, Sizes] = {}
    for use in uses:
        before = sizes[use.leaf].positions if use.leaf in sizes else 0
        sizes[use.leaf] = use.sizes._replace(positions=use.sizes.positions + before)
    return sizes


def cheapest_way(sizes: Sizes, task: Task) -> Way:
    """Whether a weight's factors are compared as they are, or multiplied out before."""
    factors = _in_factors(sizes, task).multiplications
    return "factors" if factors <= _multiplied_out(sizes, task).multiplications else "outer"


def cheapest_ways(program: Program, uses: list[Use], task: Task) -> list[Way]:
    """How to keep the Jacobian of every parameter."""
    sizes = sizes_of(uses)
    return [
        cheapest_way(sizes[leaf], task) if leaf in sizes else "plain"
        for leaf in range(len(program.leaves))
    ]


def costs_of(program: Program, uses: list[Use], task: Task) -> Costs:
    """Count what every method takes."""
    k, passes = task.outputs, multiplications(program.jaxpr)
    sizes = sizes_of(uses)
    parts = [
        min(_in_factors(sizes[i], task), _multiplied_out(sizes[i], task))
        if i in sizes
        else Cost(task.entries * task.pairs * leaf.size, task.inputs * k * leaf.size)
        for i, leaf in enumerate(program.leaves)
    ]
    num_parameters = sum(leaf.size for leaf in program.leaves)
    jacobians = task.inputs * k * num_parameters
    return Costs(
        jacobian=Cost(
            task.inputs * (1 + 2 * k) * passes + task.entries * task.pairs * num_parameters,
            jacobians,
        ),
        products=Cost(
            (task.second * (1 + 2 * k) + task.first + 2 * task.first * task.second * k) * passes,
            task.second * k * num_parameters,
        ),
        structured=Cost(
            task.inputs * (1 + k) * passes + sum(part.multiplications for part in parts),
            sum(part.numbers for part in parts),
        ),
        passes=passes,
    )


def multiplications(program: ClosedJaxpr | Jaxpr) -> int:
    """Count the multiplications of a program: products, convolutions, and one for any other entry.

    Loops of unknown length count as one turn.
    """
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    total = 0
    for equation in jaxpr.eqns:
        results = sum(math.prod(shape_of(value)) for value in equation.outvars)
        inner = [part for value in equation.params.values() for part in _programs(value)]
        if equation.primitive.name == "dot_general":
            (summed, _), _ = equation.params["dimension_numbers"]
            total += results * math.prod(shape_of(equation.invars[0])[axis] for axis in summed)
        elif equation.primitive.name == "conv_general_dilated":
            kernel, spec = shape_of(equation.invars[1]), equation.params["dimension_numbers"]
            total += results * math.prod(kernel) // kernel[spec.rhs_spec[0]]
        elif inner:
            total += equation.params.get("length", 1) * max(map(multiplications, inner))
        else:
            total += results
    return total


def _programs(value: Any) -> list[ClosedJaxpr | Jaxpr]:
    values = value if isinstance(value, tuple | list) else [value]
    return [part for part in values if isinstance(part, ClosedJaxpr | Jaxpr)]


def _in_factors(sizes: Sizes, task: Task) -> Cost:
    groups, s, c, m = sizes
    combined = c + task.pairs * m + _COMBINATION * task.pairs
    held = task.inputs * groups * s * (c + task.outputs * m)
    return Cost(task.entries * groups * s**2 * combined, held)


def _multiplied_out(sizes: Sizes, task: Task) -> Cost:
    groups, s, c, m = sizes
    made = task.inputs * task.outputs * groups * s * c * m
    compared = task.entries * task.pairs * groups * c * m
    return Cost(made + compared, task.inputs * task.outputs * groups * c * m)
