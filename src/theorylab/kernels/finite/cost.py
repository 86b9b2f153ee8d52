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
from .uses import FactorSizes, WeightUse, shape_of

NTKMethod = Literal["auto", "jacobian", "products", "structured"]
Way = Literal["factors", "outer", "plain"]  # of one parameter

_COMBINATION = 8  # what an entry of a product, elementwise, costs beside one in a matrix product


class Workload(NamedTuple):
    """How many inputs and outputs are compared.

    Example: of a symmetric kernel, one half and the diagonal are compared.
        >>> workload = Workload(first=4, second=4, symmetric=True, outputs=1, pairs=1)
        >>> workload.inputs, workload.entries
        (4, 10.0)
    """

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
    """Multiplications, and numbers that are held if all is done at once.

    Example: the cheaper one takes fewer multiplications.
        >>> min(Cost(multiplications=7.0, numbers=1.0), Cost(multiplications=6.0, numbers=2.0))
        Cost(multiplications=6.0, numbers=2.0)
    """

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


def sizes_of(uses: list[WeightUse]) -> dict[int, FactorSizes]:
    """Sizes of the factors of every weight, with the positions of all its uses.

    Example: a weight that is used twice has two positions.
        >>> import jax, jax.numpy as jnp
        >>> from theorylab.kernels.finite.program import program_of, uses_of
        >>> one = jax.ShapeDtypeStruct((3,), float)
        >>> sizes_of(uses_of(program_of(lambda w, x: x @ w @ w, jnp.zeros((3, 3)), one)))[0]
        FactorSizes(groups=1, positions=2, fan_in=3, fan_out=3)
    """
    sizes: dict[int, FactorSizes] = {}
    for use in uses:
        before = sizes[use.leaf].positions if use.leaf in sizes else 0
        sizes[use.leaf] = use.sizes._replace(positions=use.sizes.positions + before)
    return sizes


def cheapest_comparison(sizes: FactorSizes, workload: Workload) -> Literal["factors", "outer"]:
    """Whether a weight's factors are compared as they are, or multiplied out before.

    Example: a dense layer stays in factors, a convolution over 256 positions is multiplied out.
        >>> workload = Workload(100, 100, symmetric=True, outputs=1, pairs=1)
        >>> dense, convolution = FactorSizes(1, 1, 512, 512), FactorSizes(1, 256, 288, 32)
        >>> cheapest_comparison(dense, workload), cheapest_comparison(convolution, workload)
        ('factors', 'outer')
    """
    factors = _in_factors(sizes, workload).multiplications
    return "factors" if factors <= _multiplied_out(sizes, workload).multiplications else "outer"


def cheapest_way(sizes: FactorSizes, workload: Workload) -> Way:
    """How to hold a weight's Jacobian: as it is compared, or in factors if these are smaller.

    Outputs that are not paired can be multiplied out one by one while they are compared.

    Example: ten outputs of a layer over 32 positions.
        >>> workload = Workload(100, 100, symmetric=True, outputs=10, pairs=10)
        >>> cheapest_way(FactorSizes(1, 32, 128, 512), workload)
        'factors'
    """
    _, s, c, m = sizes
    way = cheapest_comparison(sizes, workload)
    smaller = s * (c + workload.outputs * m) < workload.outputs * c * m
    return "factors" if smaller and workload.pairs == workload.outputs else way


def cheapest_ways(program: Program, uses: list[WeightUse], workload: Workload) -> list[Way]:
    """How to keep the Jacobian of every parameter.

    Example: a bias has no factors.
        >>> import jax, jax.numpy as jnp
        >>> from theorylab.kernels.finite.program import program_of, uses_of
        >>> network = lambda w, x: x @ w["weight"] + w["bias"]
        >>> params = {"bias": jnp.zeros((1, 4)), "weight": jnp.zeros((3, 4))}
        >>> program = program_of(network, params, jax.ShapeDtypeStruct((3,), float))
        >>> workload = Workload(8, 8, symmetric=True, outputs=4, pairs=4)
        >>> cheapest_ways(program, uses_of(program), workload)
        ['plain', 'factors']
    """
    sizes = sizes_of(uses)
    return [
        cheapest_way(sizes[leaf], workload) if leaf in sizes else "plain"
        for leaf in range(len(program.leaves))
    ]


def costs_of(program: Program, uses: list[WeightUse], workload: Workload) -> Costs:
    """Count what every method takes.

    Example: the Jacobians of 8 inputs with respect to 100 parameters.
        >>> import jax, jax.numpy as jnp
        >>> from theorylab.kernels.finite.program import program_of, uses_of
        >>> one = jax.ShapeDtypeStruct((100,), float)
        >>> program = program_of(lambda w, x: x @ w, jnp.zeros((100, 1)), one)
        >>> workload = Workload(8, 8, symmetric=True, outputs=1, pairs=1)
        >>> costs_of(program, uses_of(program), workload).jacobian.numbers
        800
    """
    k, passes = workload.outputs, multiplications(program.jaxpr)
    sizes = sizes_of(uses)
    parts = [
        min(_in_factors(sizes[i], workload), _multiplied_out(sizes[i], workload))
        if i in sizes
        else Cost(workload.entries * workload.pairs * leaf.size, workload.inputs * k * leaf.size)
        for i, leaf in enumerate(program.leaves)
    ]
    num_parameters = sum(leaf.size for leaf in program.leaves)
    jacobians = workload.inputs * k * num_parameters
    return Costs(
        jacobian=Cost(
            workload.inputs * (1 + 2 * k) * passes
            + workload.entries * workload.pairs * num_parameters,
            jacobians,
        ),
        products=Cost(
            (
                workload.second * (1 + 2 * k)
                + workload.first
                + 2 * workload.first * workload.second * k
            )
            * passes,
            workload.second * k * num_parameters,
        ),
        structured=Cost(
            workload.inputs * (1 + k) * passes + sum(part.multiplications for part in parts),
            sum(part.numbers for part in parts),
        ),
        passes=passes,
    )


def multiplications(program: ClosedJaxpr | Jaxpr) -> int:
    """Count the multiplications of a program: products, convolutions, and one for any other entry.

    Loops of unknown length count as one turn.

    Example: a product of matrices of 2 × 3 and 3 × 4 entries.
        >>> import jax, jax.numpy as jnp
        >>> multiplications(jax.make_jaxpr(jax.lax.dot)(jnp.ones((2, 3)), jnp.ones((3, 4))))
        24
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


def _in_factors(sizes: FactorSizes, workload: Workload) -> Cost:
    groups, s, c, m = sizes
    combined = c + workload.pairs * m + _COMBINATION * workload.pairs
    held = workload.inputs * groups * s * (c + workload.outputs * m)
    return Cost(workload.entries * groups * s**2 * combined, held)


def _multiplied_out(sizes: FactorSizes, workload: Workload) -> Cost:
    groups, s, c, m = sizes
    made = workload.inputs * workload.outputs * groups * s * c * m
    compared = workload.entries * workload.pairs * groups * c * m
    return Cost(made + compared, workload.inputs * workload.outputs * groups * c * m)
