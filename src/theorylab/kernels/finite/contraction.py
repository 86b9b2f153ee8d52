"""Products of the Jacobians of two blocks: of every pair of outputs, each output, or their sum.

    plain        ⟨∂f_a/∂w, ∂f′_b/∂w⟩, a matrix product, for as many entries at a time as caches hold
    in factors   Σ_st ⟨g_s, g′_t⟩ ⟨b_as, b′_bt⟩, two matrix products, summed over positions s, t
    by outputs   the same, but Σ_s g_s ⊗ b_as multiplied out for one output a after the other, where
                 outputs are not paired and that is cheaper: what is made stays in caches

Letters of the sums: i, j inputs; a, b outputs; g groups; s, t positions; c, m channels; p entries.
"""

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .cost import Workload, cheapest_comparison
from .jacobian import Part
from .uses import FactorSizes, WeightFactors

_PRODUCT_BYTES = 2**25  # of the products at all pairs of positions, at a time
_CHUNK = 2**18  # numbers of a Jacobian at a time: more of them leave a CPU's caches


class OutputLayout(NamedTuple):
    """How the outputs at two inputs are compared, and how the kernel is laid out.

    Args:
        kernel: The axes of the kernel.
        plain: The sum over the entries of plain Jacobians.
        back: The sum over what comes back, at all pairs of positions.
        expanded: The axes of `back` that ⟨g_s, g′_t⟩ (g, i, s, j, t) has not.
        summed: The axes of `back` that are groups and positions.
        order: The kernel's axes in what is left.
        transposed: The axes of the kernel (x′, x) in the kernel (x, x′).

    Example: kernels of 3 and 4 inputs with 2 outputs, for all pairs of outputs and averaged.
        >>> FULL.shape(3, 4, num_outputs=2), MEAN.shape(3, 4, num_outputs=2)
        ((3, 4, 2, 2), (3, 4))
    """

    kernel: str
    plain: str
    back: str
    expanded: tuple[int, ...]
    summed: tuple[int, ...]
    order: tuple[int, ...]
    transposed: tuple[int, ...]

    @property
    def rows(self) -> int:
        """The axis of the kernel that the first inputs have; the second ones have the next."""
        return self.kernel.index("i")

    def shape(self, first: int, second: int, num_outputs: int) -> tuple[int, ...]:
        """The shape of a kernel."""
        sizes = {"i": first, "j": second, "a": num_outputs, "b": num_outputs}
        return tuple(sizes[letter] for letter in self.kernel)


FULL = OutputLayout(
    kernel="ijab",
    plain="iap,jbp->ijab",
    back="iagsm,jbgtm->giasjbt",
    expanded=(2, 5),
    summed=(0, 3, 6),
    order=(0, 2, 1, 3),
    transposed=(1, 0, 3, 2),
)
EACH = OutputLayout(
    kernel="aij",
    plain="iap,jap->aij",
    back="iagsm,jagtm->agisjt",
    expanded=(0,),
    summed=(1, 3, 5),
    order=(0, 1, 2),
    transposed=(0, 2, 1),
)
MEAN = OutputLayout(  # a sum here: the factor 1/k is in the rates
    kernel="ij",
    plain="iap,jap->ij",
    back="iagsm,jagtm->gisjt",
    expanded=(),
    summed=(0, 2, 4),
    order=(0, 1),
    transposed=(1, 0),
)


def compared(
    outputs: OutputLayout, rates: list[Any], together: bool
) -> Callable[[list[Part], list[Part]], list[Array]]:
    """The comparison of two blocks: the kernel of every parameter, or their sum alone.

    Args:
        outputs: How the outputs are compared.
        rates: The factor of every parameter's kernel.
        together: True: a list of one kernel, the sum.

    Example: two inputs, one output and two parameters.
        >>> jacobian = jnp.array([[[1.0, 2.0]], [[3.0, 4.0]]])
        >>> compared(MEAN, rates=[1.0], together=True)([jacobian], [jacobian])[0].tolist()
        [[5.0, 11.0], [11.0, 25.0]]
    """

    def compare(first: list[Part], second: list[Part]) -> list[Array]:
        triples = zip(rates, first, second, strict=True)
        terms = [rate * contracted(outputs, one, two) for rate, one, two in triples]
        return [reduce(jnp.add, terms)] if together else terms

    return compare


def contracted(outputs: OutputLayout, first: Part, second: Part) -> Array:
    """Compare the Jacobians of one parameter at two blocks of inputs.

    Example: g = (1, 2) and b = 3 are the factors of the gradient (3, 6).
        >>> factors = WeightFactors(jnp.array([[[[1.0, 2.0]]]]), jnp.array([[[[[3.0]]]]]))
        >>> contracted(MEAN, factors, factors).tolist()  # 3² + 6²
        [[45.0]]
    """
    if not (isinstance(first, WeightFactors) and isinstance(second, WeightFactors)):
        arrays = (jnp.asarray(first), jnp.asarray(second))
        one, two = (jnp.reshape(part, (*part.shape[:2], -1)) for part in arrays)
        return _by_chunks(outputs, one, two)
    if _is_cheaper_by_outputs(outputs, first, second):
        return _by_outputs(outputs, first, second)
    inputs, rows = len(first.forward), _num_rows(outputs, first, second)
    if rows >= inputs:
        return _by_factors(outputs, first, second)

    def row(one: WeightFactors) -> Array:
        alone = jax.tree.map(lambda leaf: leaf[None], one)
        return jnp.squeeze(_by_factors(outputs, alone, second), axis=outputs.rows)

    return jnp.moveaxis(jax.lax.map(row, first, batch_size=rows), 0, outputs.rows)


def _by_chunks(outputs: OutputLayout, first: Array, second: Array) -> Array:
    """The sum over entries p of (i, a, p) and (j, b, p), some of them at a time.

    CPUs multiply matrices with few rows and very many columns at a fifth of their speed.
    """
    product = partial(jnp.einsum, outputs.plain)
    if outputs == MEAN:  # outputs and entries are summed alike, so that they are one axis
        first, second = (part.reshape(len(part), 1, -1) for part in (first, second))
    num_entries = first.shape[-1]
    rows = max(math.prod(first.shape[:2]), math.prod(second.shape[:2]), 1)
    size = max(_CHUNK // rows, 1)
    num_chunks = num_entries // size
    if num_chunks < 2 or jax.default_backend() != "cpu":
        return product(first, second)

    def add(total: Array, start: Array) -> tuple[Array, None]:
        cut = lambda part: jax.lax.dynamic_slice_in_dim(part, start, size, axis=2)  # noqa: E731
        return total + product(cut(first), cut(second)), None

    rest = num_chunks * size
    total = product(first[:, :, rest:], second[:, :, rest:])
    return jax.lax.scan(add, total, size * jnp.arange(num_chunks))[0]


def _is_cheaper_by_outputs(
    outputs: OutputLayout, first: WeightFactors, second: WeightFactors
) -> bool:
    if outputs == FULL:
        return False
    one, other = len(first.forward), len(second.forward)
    _, k, groups, s, m = first.backward.shape
    sizes = FactorSizes(groups, s, first.forward.shape[-1], m)
    workload = Workload(one, other, symmetric=False, outputs=k, pairs=k)
    return cheapest_comparison(sizes, workload) == "outer"


def _by_outputs(outputs: OutputLayout, first: WeightFactors, second: WeightFactors) -> Array:
    """One output after the other: its gradients are multiplied out, compared and forgotten."""

    def gradients(forward: Array, back: Array) -> Array:
        products = jnp.einsum("igsc,igsm->igcm", forward, back)
        return products.reshape(len(forward), 1, -1)

    def one(pair: tuple[Array, ...]) -> Array:
        rows = gradients(first.forward, pair[0])
        return _by_chunks(MEAN, rows, gradients(second.forward, pair[1]) if pair[1:] else rows)

    both = (first,) if first is second else (first, second)
    backs = tuple(jnp.moveaxis(part.backward, 1, 0) for part in both)
    if outputs == EACH:
        return jax.lax.map(one, backs)
    nothing = jnp.zeros((len(first.forward), len(second.forward)), first.backward.dtype)
    return jax.lax.scan(lambda total, pair: (total + one(pair), None), nothing, backs)[0]


def _by_factors(outputs: OutputLayout, first: WeightFactors, second: WeightFactors) -> Array:
    forward = jnp.einsum("igsc,jgtc->gisjt", first.forward, second.forward)
    backward = jnp.einsum(outputs.back, first.backward, second.backward)
    products = jnp.expand_dims(forward, outputs.expanded) * backward
    return jnp.transpose(jnp.sum(products, axis=outputs.summed), outputs.order)


def _num_rows(outputs: OutputLayout, first: WeightFactors, second: WeightFactors) -> int:
    """How many inputs of the first block to take at a time."""
    inputs, k, groups, positions, _ = first.backward.shape
    if positions == 1:
        return inputs  # no more numbers than the kernel itself has
    pairs = k ** (len(outputs.kernel) - 2)
    numbers = len(second.forward) * groups * positions**2 * (pairs + 1)
    return max(1, _PRODUCT_BYTES // (numbers * first.backward.dtype.itemsize))
