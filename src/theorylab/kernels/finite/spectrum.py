"""The tangent kernel of many inputs without its matrix: eigenvalues, trace, rank, alignment.

With Θ the kernel of n inputs and k outputs as one matrix of nk rows:

    trace            tr Θ = Σ_x Σ_a ‖∂f_a(x)/∂w‖², exact, from gradients one by one
    Frobenius norm   ‖Θ‖_F² = tr Θ² = ‖ΘQ‖_F² + E‖Θ(1 − QQᵀ)z‖², Q exact and z random signs
    effective rank   (tr Θ)² / tr Θ², the participation ratio of the eigenvalues
    alignment        yᵀΘy / (‖Θ‖_F ‖y‖²), the cosine between Θ and yyᵀ
    eigenvalues      by Lanczos, with bounds; of Θ, or of its mean over outputs, which is `ntk`

Q spans a few directions in which Θ is large, found from random ones (Meyer et al. 2021, Hutch++),
so that little is left to chance. Only products Θv are formed: passes back and forward over all
inputs, or blocks of them.

Source: golikov · ntk-emp · 2.1; arora · ntk-dynamics · (9.5).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.answers import Answer, fixed
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.models.inputs import map_inputs, num_inputs, one_input
from theorylab.models.own_network import check_outputs, entered, with_float32_outputs
from theorylab.numerics import certified_eigenpairs, eigenpairs, squared_norm
from theorylab.numerics.certificates import CertifiedEigenpairs
from theorylab.numerics.counted import is_traced, refuse_tracing
from theorylab.typing import Apply, Inputs, Params, RandomKey, Reduction, check_key

from ..estimate import Estimate, mean_of
from .contraction import EACH, contracted
from .cost import Workload, cheapest_ways
from .empirical import ntk_vector_product
from .jacobian import jacobian_of
from .program import program_of, uses_of

_COMPILED_STEPS = 50


class KernelMoments(Answer, labels={"trace": "trace tr Θ"}):
    """The trace, exact; the squared Frobenius norm and the effective rank with standard errors.

    With a tolerance: the ends of the interval that covers tr Θ² in 95 %, so that the effective rank
    is between trace² over the one and over the other; the products that were taken, whether the
    interval meets the tolerance, and about how many products would do.

    Example: three eigenvalues 4: the effective rank is 12²/48.
        >>> exact = lambda value: Estimate(jnp.asarray(value), jnp.zeros(()))
        >>> moments = KernelMoments(jnp.asarray(12.0), exact(48.0), effective_rank=exact(3.0))
        >>> float(moments.trace**2 / moments.square.mean)
        3.0
    """

    trace: Float[Array, ""]
    square: Estimate
    effective_rank: Estimate
    square_interval: Float[Array, "2"] | None = None
    products: int = fixed(default=0)
    converged: bool = fixed(default=False)
    needed: int = fixed(default=0)


def ntk_diagonal(
    apply: Apply,
    params: Params,
    x: Inputs,
    batch_size: int = 32,
    *,
    outputs: Reduction | None = None,
) -> Float[Array, "n k"]:
    """Θ_aa(x, x) = ‖∂f_a(x)/∂w‖², the squared gradients; their sum is the trace.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        x: The inputs.
        batch_size: How many inputs are treated at once.
        outputs: What reduces other outputs to (n, k), such as `lambda f: f[:, -1]`.

    Example:
        >>> x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
        >>> ntk_diagonal(lambda w, x: x @ w, jnp.zeros((2, 1)), x).tolist()
        [[5.0], [25.0]]
    """
    apply, params, x = _entered(apply, params, x, outputs)
    return _diagonal(apply, params, x, batch_size)


@partial(jax.jit, static_argnums=(0, 3))
def _diagonal(apply: Apply, params: Params, x: Inputs, batch_size: int) -> Array:
    apply = with_float32_outputs(apply, params, x)
    program = program_of(apply, params, one_input(x))
    uses, k = uses_of(program), program.output.size
    one = Workload(1, 1, symmetric=True, outputs=k, pairs=k)
    jacobian = jacobian_of(program, uses, cheapest_ways(program, uses, one))

    def norms(x: Inputs) -> Array:
        parts = [jax.tree.map(lambda leaf: leaf[None], part) for part in jacobian.at(x)]
        squares = [contracted(EACH, part, part)[:, 0, 0] for part in parts]
        return sum(squares[1:], squares[0])

    mapped = lambda x: map_inputs(norms, x, batch_size)  # noqa: E731
    return fast_convolutions(mapped)(x)


def ntk_eigenpairs(
    apply: Apply,
    params: Params,
    x: Inputs,
    num_values: int,
    key: RandomKey,
    num_steps: int | None = None,
    block_size: int | None = None,
    *,
    kernel: Literal["mean", "full"] = "mean",
    tolerance: float = 0.01,
    budget: int | None = None,
    outputs: Reduction | None = None,
) -> CertifiedEigenpairs:
    """The largest eigenvalues of the tangent kernel and their vectors, certain to a tolerance.

    The kernel is that of `ntk`, (1/k) Σ_a Θ_aa(x, x′), averaged over the k outputs: n × n, with
    vectors (num_values, n), at k passes for a product. With kernel="full" it is that of `ntk_full`
    as one matrix of nk rows, with vectors (num_values, n, k), at one pass. For one output both are
    the same; the trace of the full one is k times that of the mean.

    Products are taken until every eigenvalue is certain to the tolerance, or the budget ends; the
    answer says which, and about how many products would do. With k outputs the full kernel is
    nearly Θ₁ ⊗ 1, with eigenvalues in clusters of k, closer the wider the network: all of a cluster
    are found. With `num_steps` it is one compiled program, which can be jitted and mapped: then
    residuals do not say that one of a cluster is missing. While compiled, 50 steps are the default.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays; trained ones give the spectrum after training.
        x: The inputs.
        num_values: How many, at most the kernel's rows and num_steps.
        key: The randomness of the first vectors.
        num_steps: How many products; by default as many as the tolerance asks for.
        block_size: The number of inputs that a pass takes at once; by default all.
        kernel: "mean", as `ntk` has it, or "full", as `ntk_full`.
        tolerance: The bound wanted, relative to each eigenvalue.
        budget: The greatest number of products; by default 200 + 20 num_values.
        outputs: What reduces other outputs to (n, k), such as `lambda f: f[:, -1]`.

    Example: a linear model, whose kernel is xxᵀ.
        >>> x = jnp.diag(jnp.array([1.0, 2.0, 3.0]))
        >>> pairs = ntk_eigenpairs(lambda w, x: x @ w, jnp.zeros((3, 1)), x, 2, jax.random.key(0))
        >>> [round(float(value), 3) for value in pairs.values], pairs.vectors.shape
        ([9.0, 4.0], (2, 3))
        >>> pairs.converged, pairs.products
        (True, 3)
    """
    check_key(key)
    apply, params, x = _entered(apply, params, x, outputs)
    if num_steps is None and is_traced((params, x, key)):
        num_steps = _COMPILED_STEPS
    rows = _checked_rows(apply, params, x, num_values, num_steps, kernel)
    if num_steps is not None:
        steps = min(num_steps, rows)
        return _fixed_eigenpairs(apply, params, x, num_values, key, steps, block_size, kernel)
    product, like = _kernel_product(apply, params, x, block_size, kernel)
    until = {"tolerance": tolerance, "budget": budget}
    return certified_eigenpairs(product, like, num_values, key, **until)


def _fixed_eigenpairs(*given: Any) -> CertifiedEigenpairs:
    """What so many steps give; nothing is certain of what they may have missed."""
    values, vectors, residuals = _eigenpairs(*given)
    return CertifiedEigenpairs(values, vectors, residuals, jnp.full_like(values, jnp.inf))


def _checked_rows(
    apply: Apply, params: Params, x: Inputs, num_values: int, num_steps: int | None, kernel: str
) -> int:
    """How many rows the kernel has, if it has so many eigenvalues."""
    if kernel not in ("mean", "full"):
        raise ValueError(f"kernel must be 'mean' or 'full', got {kernel!r}.")
    n, k = _output_shape(apply, params, x)
    rows, name = (n, "n") if kernel == "mean" else (n * k, "nk")
    if not 1 <= num_values <= min(rows, rows if num_steps is None else num_steps):
        steps = "" if num_steps is None else f" and num_steps = {num_steps}"
        raise ValueError(
            f"num_values must be between 1 and {name} = {rows}{steps}, got {num_values}."
        )
    return rows


@partial(jax.jit, static_argnums=(0, 3, 5, 6, 7))
def _eigenpairs(
    apply, params, x, num_values, key, num_steps, block_size, kernel
) -> tuple[Array, Array, Array]:
    product, like = _kernel_product(apply, params, x, block_size, kernel)
    found = eigenpairs(product, like, num_values, num_steps, key)
    return found.values, found.vectors, found.residuals


def _kernel_product(
    apply: Apply, params: Params, x: Inputs, block_size: int | None, kernel: str
) -> tuple[Callable[[Array], Array], Array]:
    """The operator v ↦ Θv of either kernel, and a vector that it acts on."""
    product = ntk_vector_product(apply, params, x, block_size=block_size)
    found = jax.eval_shape(with_float32_outputs(apply, params, x), params, x)
    n, k = found.shape
    if kernel == "full":
        return product, jnp.zeros((n, k), found.dtype)
    if k == 1:
        return lambda vector: product(vector[:, None])[:, 0], jnp.zeros(n, found.dtype)

    def averaged(vector: Float[Array, " n"]) -> Float[Array, " n"]:
        def one(output: Float[Array, " k"]) -> Float[Array, " n"]:
            return product(vector[:, None] * output[None]) @ output

        return jnp.mean(jax.lax.map(one, jnp.eye(k, dtype=found.dtype)), axis=0)

    return averaged, jnp.zeros(n, found.dtype)


def ntk_moments(
    apply: Apply,
    params: Params,
    x: Inputs,
    key: RandomKey,
    num_probes: int = 20,
    rank: int = 10,
    block_size: int | None = None,
    *,
    tolerance: float | None = None,
    budget: int = 1000,
    outputs: Reduction | None = None,
) -> KernelMoments:
    """Trace, squared Frobenius norm and effective rank of Θ, from 2 rank + num_probes products.

    With a tolerance, probes are taken until the 95 % interval of tr Θ² is within it or the budget
    ends; that looks at numbers, so it cannot be compiled.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays; trained ones give the moments after training.
        x: The inputs.
        key: The randomness of directions and probes.
        num_probes: How many random vectors estimate what the directions Q leave, at least 2.
        rank: How many directions Q has; at most nk, where all is exact.
        block_size: The number of inputs that a pass takes at once; by default all.
        tolerance: The greatest distance of the interval's ends from tr Θ², relative to it.
        budget: The greatest number of products, with a tolerance: at least 2 rank + 2.
        outputs: What reduces other outputs to (n, k), such as `lambda f: f[:, -1]`.

    Example: three equal eigenvalues: an effective rank of 3.
        >>> linear, w = lambda w, x: x @ w, jnp.zeros((3, 1))
        >>> moments = ntk_moments(linear, w, 2.0 * jnp.eye(3), jax.random.key(0))
        >>> float(moments.trace), round(float(moments.effective_rank.mean), 3)
        (12.0, 3.0)
    """
    if num_probes < 2 or rank < 1:
        raise ValueError(
            f"num_probes must be at least 2 and rank at least 1, got {num_probes} and {rank}."
        )
    check_key(key)
    apply, params, x = _entered(apply, params, x, outputs)
    if tolerance is None:
        return _moments(apply, params, x, key, num_probes, rank, block_size)
    refuse_tracing((params, x, key))
    product, like = _kernel_product(apply, params, x, block_size, "full")
    plan = {"tolerance": tolerance, "budget": budget}
    found = squared_norm(product, like, key, num_probes, rank, **plan)
    trace = jnp.sum(_diagonal(apply, params, x, 32))
    square, interval = Estimate(found.value, found.error), jnp.stack([found.low, found.high])
    until = found.products, found.converged, found.needed
    return KernelMoments(trace, square, _rank(trace, square), interval, *until)


@partial(jax.jit, static_argnums=(0, 4, 5, 6))
def _moments(apply, params, x, key, num_probes, rank, block_size) -> KernelMoments:
    trace = jnp.sum(_diagonal(apply, params, x, 32))
    product = _flat_product(apply, params, x, block_size)
    found = jax.eval_shape(with_float32_outputs(apply, params, x), params, x)
    size = found.size
    square = _squared_norm(product, size, found.dtype, key, num_probes, min(rank, size))
    return KernelMoments(trace, square, _rank(trace, square))


def _rank(trace: Float[Array, ""], square: Estimate) -> Estimate:
    """(tr Θ)² / tr Θ²."""
    mean = trace**2 / square.mean
    return Estimate(mean, mean * square.error / square.mean)


def label_alignment(
    apply: Apply,
    params: Params,
    x: Inputs,
    y: Float[Array, "n k"],
    key: RandomKey,
    num_probes: int = 20,
    rank: int = 10,
    block_size: int | None = None,
    *,
    outputs: Reduction | None = None,
) -> Estimate:
    """yᵀΘy / (‖Θ‖_F ‖y‖²): 1 if Θ is a multiple of yyᵀ, and small if y is hard to learn.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays; trained ones give the alignment after training.
        x: The inputs.
        y: The labels, not all 0.
        key: The randomness of directions and probes.
        num_probes: How many random vectors estimate ‖Θ‖_F, beside the directions Q; at least 2.
        rank: How many directions Q has; at most nk, where all is exact.
        block_size: The number of inputs that a pass takes at once; by default all.
        outputs: What reduces other outputs to (n, k), such as `lambda f: f[:, -1]`.

    Example: the kernel of one feature, which has the labels' signs.
        >>> x = jnp.array([[1.0], [-1.0]])
        >>> found = label_alignment(lambda w, x: x @ w, jnp.zeros((1, 1)), x, x, jax.random.key(0))
        >>> round(float(found.mean), 4)
        1.0
    """
    check_key(key)
    apply, params, x = _entered(apply, params, x, outputs)
    shape = _output_shape(apply, params, x)
    if y.shape != shape:
        raise ValueError(f"y must have the shape of the outputs, {shape}, got {y.shape}.")
    moments = ntk_moments(apply, params, x, key, num_probes, rank, block_size)
    return _alignment(apply, params, x, y, moments.square, block_size)


@partial(jax.jit, static_argnums=(0, 5))
def _alignment(apply, params, x, y, square: Estimate, block_size) -> Estimate:
    product = ntk_vector_product(apply, params, x, block_size=block_size)
    quadratic = jnp.vdot(y, product(y))
    value = quadratic / (jnp.sqrt(square.mean) * jnp.vdot(y, y))
    return Estimate(value, jnp.abs(value) * square.error / (2 * square.mean))


def _entered(
    apply: Apply, params: Params, x: Inputs, outputs: Reduction | None
) -> tuple[Apply, Params, Inputs]:
    """The network with outputs (n, k), its parameters and its inputs, if all is well with them."""
    own = entered(apply, params, x, None, outputs)
    check_outputs(own.apply, own.params, own.x1)
    return own.apply, own.params, own.x1


def _output_shape(apply: Apply, params: Params, x: Inputs) -> tuple[int, int]:
    """(n, k)."""
    return num_inputs(x), check_outputs(apply, params, x)


def _flat_product(
    apply: Apply, params: Params, x: Inputs, block_size: int | None
) -> Callable[[Array], Array]:
    """The operator v ↦ Θv for flat vectors of nk numbers."""
    shape = jax.eval_shape(apply, params, x).shape
    product = ntk_vector_product(apply, params, x, block_size=block_size)
    return lambda vector: product(vector.reshape(shape)).ravel()


def _squared_norm(
    product: Callable[[Array], Array],
    size: int,
    dtype: jnp.dtype,
    key: RandomKey,
    num_probes: int,
    rank: int,
) -> Estimate:
    """Estimate tr Θ² = ‖ΘQ‖_F² + E‖Θ(1 − QQᵀ)z‖², with the error of the second term."""
    for_directions, for_probes = jax.random.split(key)
    directions = jax.random.normal(for_directions, (rank, size), dtype)
    basis, _ = jnp.linalg.qr(jax.lax.map(product, directions).T)
    along = jnp.sum(jax.lax.map(product, basis.T) ** 2)
    probes = jax.random.rademacher(for_probes, (num_probes, size), dtype)
    left = probes - (probes @ basis) @ basis.T
    rest = mean_of(jnp.sum(jax.lax.map(product, left) ** 2, axis=1))
    return Estimate(along + rest.mean, rest.error)
