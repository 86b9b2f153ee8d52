"""The tangent kernel of a finite network: any `apply(params, x)`, at any parameters.

    Θ_ab(x, x′) = ⟨∂f_a(x)/∂w, ∂f_b(x′)/∂w⟩        full, (n₁, n₂, k, k)
    Θ_aa(x, x′)                                     of every output, (k, n₁, n₂)
    Θ(x, x′)    = (1/k) Σ_a Θ_aa(x, x′)             averaged over the k outputs, (n₁, n₂)
    (Θv)(x)     = Σ_x′ Θ(x, x′) v(x′)               as an operator, without any Jacobian

Under gradient flow of a loss, outputs move as df(x)/dt = −Σ_x′ Θ(x, x′) ∂loss/∂f(x′). If every
parameter w has its own learning rate η_w (as in μP), the same holds with the weighted kernel
⟨∂f, ∂f′⟩ = Σ_w η_w (∂f/∂w)(∂f′/∂w), which `learning_rates` asks for; rate 0 leaves a layer out.
The kernel after training is the kernel at the trained parameters: `ntk(apply, trained, x)`.

There are three methods. "jacobian" makes the Jacobians and multiplies them; "products" pushes
gradients at x′ forward at x; "structured" keeps the Jacobians of weights in factors, as the layers
have them. All give the same kernel; "auto" takes the cheapest by count (see `ntk_costs`). Jacobians
are made for a block of inputs at a time, and where those of all outputs would not fit, for one
output after the other: memory stays bounded whatever n is. Everything can be
jitted, and mapped over params (seeds). The network must treat every input by itself: with batch
statistics, f(x) depends on the other inputs, and Θ(x, x′) is not defined; that is refused where
there are values to look at, and so are random numbers (dropout). Outputs that are not (n, k) are
reduced by `outputs`; inputs may be trees (token ids and a mask).

One compiled program is kept for each function `apply`, as by `jax.jit`: a variable that it reads
from outside (of a closure, or an attribute) keeps the value of the first call. Put everything that
changes into params.

Source: golikov · ntk-emp · 2.1; golikov · entk-cost · 2.5.2; arora · ntk-dynamics · Lemma 9.1.1.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.models.inputs import num_inputs, one_input
from theorylab.models.own_network import (
    OwnNetwork,
    check_outputs,
    entered,
    with_float32_outputs,
)
from theorylab.numerics.memory import available_memory, readable
from theorylab.typing import Apply, Inputs, Params, Reduction

from .blocks import all_fit, kernel_by_blocks
from .contraction import EACH, FULL, MEAN, OutputLayout, compared
from .cost import Costs, NTKMethod, Way, Workload, cheapest_ways, costs_of
from .jacobian import Jacobian, jacobian_of
from .products import kernel_by_products, product_by_blocks
from .program import Program, program_of, uses_of
from .uses import WeightUse


def ntk(
    apply: Apply,
    params: Params,
    x1: Inputs,
    x2: Inputs | None = None,
    learning_rates: Params | None = None,
    block_size: int | None = None,
    method: NTKMethod = "auto",
    *,
    outputs: Reduction | None = None,
) -> Float[Array, "n1 n2"]:
    """Θ(x, x′) = (1/k) Σ_a ⟨∂f_a(x)/∂w, ∂f_a(x′)/∂w⟩, the tangent kernel averaged over outputs.

    `ntk_eigenpairs` has the eigenvalues of this kernel; with kernel="full" those of `ntk_full`.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k). One compiled program is
            kept for it; a variable that it reads from outside keeps the value of the first call.
        params: w, any pytree of floating arrays; trained ones give the kernel after training.
        x1: The inputs x: an array (n, ...), or a tree of arrays with the same first axis.
        x2: The inputs x′; the same as x if not given.
        learning_rates: η_w, the parameters' tree or a prefix of it, at least 0; all 1 by default.
        block_size: The number of inputs whose Jacobians are held at once; by default as many as
            1 GiB holds.
        method: How: "jacobian", "products", "structured", or "auto", the cheapest by count.
        outputs: What reduces other outputs to (n, k), such as `lambda f: f[:, -1]`.

    Example:
        >>> import jax.numpy as jnp
        >>> x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
        >>> ntk(lambda w, x: x @ w, jnp.zeros((2, 1)), x).tolist()
        [[5.0, 11.0], [11.0, 25.0]]
    """
    own = _checked(apply, params, x1, x2, block_size, method, outputs)
    return _kernel(*own, learning_rates, block_size, method, MEAN, True)[0]


def ntk_per_parameter(
    apply: Apply,
    params: Params,
    x1: Inputs,
    x2: Inputs | None = None,
    learning_rates: Params | None = None,
    block_size: int | None = None,
    method: NTKMethod = "auto",
    *,
    outputs: Reduction | None = None,
) -> Params:
    """The terms of Θ = Σ_w Θ_w: a tree like `params` with a kernel (n1, n2) for every array.

    They add up to `ntk`, which explains the arguments.

    Example:
        >>> import jax.numpy as jnp
        >>> network = lambda w, x: x @ w["weight"] + w["bias"]
        >>> params = {"weight": jnp.zeros((2, 1)), "bias": jnp.zeros((1, 1))}
        >>> ntk_per_parameter(network, params, jnp.array([[1.0, 2.0]]))
        {'bias': Array([[1.]], dtype=...), 'weight': Array([[5.]], dtype=...)}
    """
    own = _checked(apply, params, x1, x2, block_size, method, outputs)
    kernels = _kernel(*own, learning_rates, block_size, method, MEAN, False)
    return jax.tree.unflatten(jax.tree.structure(params), kernels)


def ntk_per_output(
    apply: Apply,
    params: Params,
    x1: Inputs,
    x2: Inputs | None = None,
    learning_rates: Params | None = None,
    block_size: int | None = None,
    method: NTKMethod = "auto",
    *,
    outputs: Reduction | None = None,
) -> Float[Array, "k n1 n2"]:
    """Θ_aa(x, x′) = ⟨∂f_a(x)/∂w, ∂f_a(x′)/∂w⟩, the tangent kernel of every output by itself.

    Their average over a is `ntk`, which explains the arguments.

    Example:
        >>> import jax.numpy as jnp
        >>> x, scales = jnp.array([[1.0, 2.0]]), jnp.array([[1.0, 3.0]])
        >>> ntk_per_output(lambda w, x: (x @ w) * scales, jnp.zeros((2, 2)), x).tolist()
        [[[5.0]], [[45.0]]]
    """
    own = _checked(apply, params, x1, x2, block_size, method, outputs)
    return _kernel(*own, learning_rates, block_size, method, EACH, True)[0]


def ntk_full(
    apply: Apply,
    params: Params,
    x1: Inputs,
    x2: Inputs | None = None,
    learning_rates: Params | None = None,
    block_size: int | None = None,
    method: NTKMethod = "auto",
    *,
    outputs: Reduction | None = None,
) -> Float[Array, "n1 n2 k k"]:
    """Θ_ab(x, x′) = ⟨∂f_a(x)/∂w, ∂f_b(x′)/∂w⟩, the tangent kernel of every pair of outputs.

    The arguments are those of `ntk`.

    Example: two outputs that share their weights.
        >>> import jax.numpy as jnp
        >>> x, scales = jnp.array([[1.0, 2.0]]), jnp.array([[1.0, 3.0]])
        >>> kernel = ntk_full(lambda w, x: (x @ w) * scales, jnp.zeros((2, 1)), x)
        >>> kernel.shape, kernel[0, 0].tolist()
        ((1, 1, 2, 2), [[5.0, 15.0], [15.0, 45.0]])
    """
    own = _checked(apply, params, x1, x2, block_size, method, outputs)
    return _kernel(*own, learning_rates, block_size, method, FULL, True)[0]


def ntk_vector_product(
    apply: Apply,
    params: Params,
    x1: Inputs,
    x2: Inputs | None = None,
    learning_rates: Params | None = None,
    block_size: int | None = None,
    *,
    outputs: Reduction | None = None,
) -> Callable[[Float[Array, "n2 k"]], Float[Array, "n1 k"]]:
    """The operator v ↦ Θv, (Θv)_a(x) = Σ_x′ Σ_b Θ_ab(x, x′) v_b(x′).

    It costs one pass back at x′ and one pass forward at x; no kernel entry is ever made.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays.
        x1: The inputs x.
        x2: The inputs x′; the same as x if not given.
        learning_rates: η_w, the parameters' tree or a prefix of it, at least 0; all 1 by default.
        block_size: The number of inputs that a pass takes at once; by default all.
        outputs: What reduces other outputs to (n, k), such as `lambda f: f[:, -1]`.

    Example:
        >>> import jax.numpy as jnp
        >>> x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
        >>> product = ntk_vector_product(lambda w, x: x @ w, jnp.zeros((2, 1)), x)
        >>> product(jnp.array([[1.0], [0.0]])).tolist()  # the first column of the kernel
        [[5.0], [11.0]]
    """
    apply, params, x1, x2 = _checked(apply, params, x1, x2, block_size, "products", outputs)
    check_outputs(apply, params, x1)
    apply = with_float32_outputs(apply, params, x1)
    second = x1 if x2 is None else x2
    rates = _rates(params, learning_rates)
    return product_by_blocks(apply, params, x1, second, rates, block_size)


def ntk_costs(
    apply: Apply,
    params: Params,
    x1: Inputs,
    x2: Inputs | None = None,
    outputs: Literal["mean", "each", "full"] = "mean",
) -> Costs:
    """Count the multiplications and the memory of every method, from shapes alone.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree of arrays, or of their shapes.
        x1: The inputs x, or their shape.
        x2: The inputs x′, or their shape; the same as x if not given.
        outputs: Of `ntk`, of `ntk_per_output` or of `ntk_full`.

    Example:
        >>> import jax.numpy as jnp
        >>> counted = ntk_costs(lambda w, x: x @ w, jnp.zeros((100, 1)), jnp.zeros((8, 100)))
        >>> counted.passes, counted.cheapest
        (201, 'structured')
    """
    program = _program(apply, params, x1)
    layout = {"mean": MEAN, "each": EACH, "full": FULL}[outputs]
    return costs_of(program, uses_of(program), _workload(program, x1, x2, layout))


@partial(jax.jit, static_argnums=(0, 5, 6, 7, 8))
def _kernel(
    apply: Apply,
    params: Params,
    x1: Inputs,
    x2: Inputs | None,
    learning_rates: Params | None,
    block_size: int | None,
    method: NTKMethod,
    outputs: OutputLayout,
    together: bool,
) -> list[Array]:
    """The kernel, or the kernels of all parameters; what is checked here is so before any work."""
    k = check_outputs(apply, params, x1)
    apply = with_float32_outputs(apply, params, x1)
    rates = _rates(params, learning_rates)
    if outputs == MEAN:
        rates = jax.tree.map(lambda rate: rate / k, rates)
    program = _program(apply, params, x1)
    uses, workload = uses_of(program), _workload(program, x1, x2, outputs)
    _check_memory(program, workload, outputs, 1 if together else len(program.leaves))
    if method == "auto":
        method = costs_of(program, uses, workload).cheapest if together else "structured"
    if method == "products":
        second = x1 if x2 is None else x2
        each = [rates] if together else _one_at_a_time(rates)
        by_products = partial(kernel_by_products, apply, params, x1, second)
        kernels = lambda: [by_products(rates, outputs, block_size) for rates in each]  # noqa: E731
        return fast_convolutions(kernels)()
    compare = partial(compared, rates=jax.tree.leaves(rates), together=together)
    by_blocks = partial(kernel_by_blocks, x1=x1, x2=x2, block_size=block_size)
    jacobian = _jacobian(program, uses, method, workload)
    if k == 1 or outputs == FULL or all_fit(jacobian, x1, x2, block_size):
        kernels = lambda: by_blocks(jacobian, compare(outputs), outputs)  # noqa: E731
        return fast_convolutions(kernels)()

    def alone(output: Array) -> list[Array]:
        cut = lambda w, x: jax.lax.dynamic_slice_in_dim(apply(w, x), output, 1, axis=1)  # noqa: E731
        program = _program(cut, params, x1)
        workload = _workload(program, x1, x2, MEAN)
        return by_blocks(
            _jacobian(program, uses_of(program), method, workload), compare(MEAN), MEAN
        )

    return fast_convolutions(lambda: _one_by_one(alone, k, outputs))()


def _jacobian(
    program: Program, uses: list[WeightUse], method: NTKMethod, workload: Workload
) -> Jacobian:
    plain: list[Way] = ["plain"] * len(program.leaves)
    ways = plain if method == "jacobian" else cheapest_ways(program, uses, workload)
    return jacobian_of(program, uses, ways)


def _one_by_one(
    kernels: Callable[[Array], list[Array]], k: int, outputs: OutputLayout
) -> list[Array]:
    """One output after the other: Jacobians are k times smaller, and seldom made again."""
    if outputs == EACH:
        return jax.lax.map(kernels, jnp.arange(k))
    empty = [jnp.zeros(each.shape, each.dtype) for each in jax.eval_shape(kernels, jnp.array(0))]
    added = lambda sums, output: (jax.tree.map(jnp.add, sums, kernels(output)), None)  # noqa: E731
    return jax.lax.scan(added, empty, jnp.arange(k))[0]


def _program(apply: Apply, params: Params, x: Inputs) -> Program:
    return program_of(apply, params, one_input(x))


def _workload(program: Program, x1: Inputs, x2: Inputs | None, outputs: OutputLayout) -> Workload:
    k = program.output.size
    pairs = k**2 if outputs == FULL else k
    first = num_inputs(x1)
    second = first if x2 is None else num_inputs(x2)
    return Workload(first, second, x2 is None, k, pairs)


def _rates(params: Params, learning_rates: Params | None) -> Params:
    """One number for each leaf of the parameters."""
    given = 1.0 if learning_rates is None else learning_rates
    return jax.tree.map(lambda rate, branch: jax.tree.map(lambda _: rate, branch), given, params)


def _one_at_a_time(rates: Params) -> list[Params]:
    """Rates that leave out all parameters but one."""
    leaves, tree = jax.tree.flatten(rates)
    return [
        jax.tree.unflatten(tree, [leaf if i == kept else 0.0 for i, leaf in enumerate(leaves)])
        for kept in range(len(leaves))
    ]


def _checked(
    apply: Apply,
    params: Params,
    x1: Inputs,
    x2: Inputs | None,
    block_size: int | None,
    method: str,
    outputs: Reduction | None,
) -> OwnNetwork:
    """The network, ready to be compiled, if all that the user gave makes sense."""
    if block_size is not None and block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}.")
    if method not in get_args(NTKMethod):
        raise ValueError(f"method must be one of {get_args(NTKMethod)}, got {method!r}.")
    return entered(apply, params, x1, x2, outputs)


def _check_memory(
    program: Program, workload: Workload, outputs: OutputLayout, num_kernels: int
) -> None:
    shape = outputs.shape(workload.first, workload.second, workload.outputs)
    needed = num_kernels * math.prod(shape) * program.output.dtype.itemsize
    available = available_memory()
    if available is not None and needed > available:
        raise ValueError(
            f"the kernel must fit into the {readable(available)} of memory that are free, got one"
            f" of shape {shape} that takes {readable(needed)}. Compare blocks of x1 and x2 one"
            " after the other, or use ntk_vector_product, which makes no entry."
        )
