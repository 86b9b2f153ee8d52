"""Second derivatives as operators: what they do to a direction, without any matrix.

    hessian           v ─► ∇²f(w) v             forward over reverse: the derivative of ∇f along v
    output_hessian    v ─► ∇²f_k(w; x) v        f_k one output of a network at one input x
    gauss_newton      v ─► Jᵀ ∇²ℓ(f(w)) J v     J the Jacobian of the outputs f, ℓ their loss
    jacobian          v ─► J v  and  u ─► Jᵀu
    preconditioned    v ─► P^(−½) A P^(−½) v     P a diagonal, such as Adam's
    in_batches        v ─► Σ_b (n_b/n) A_b v     batch after batch, for data that memory cannot hold
    block             v ─► the part of A v between two groups of parameters, such as two layers

The Gauss–Newton operator is what remains of the Hessian of ℓ(f(w)) without ∇²f; both agree where
the network is linear in w or where it fits (∇ℓ = 0). What does not depend on v is computed once,
when the operator is made; one application then costs about two gradients. Where that takes too much
memory for all samples at once, `batched_operator` computes it again for each batch.

The second derivative of a ReLU is 0 here, also at its kink: delta functions are left out.

Source: arora · sharpness · §2.6; zhu · hessian-norm · Thm 2.3.6, Lemma A.11.1.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float

from theorylab.models.fast_convolutions import fast_convolutions, has_slow_convolutions
from theorylab.models.independence import check_deterministic
from theorylab.models.own_network import (
    check_called_again,
    check_finite,
    check_params,
    in_float32,
    reduced,
)
from theorylab.typing import Apply, Inputs, Params, Reduction

Operator = Callable[[Params], Params]  # linear and symmetric
Part = int | str | tuple[int | str, ...]  # where in a tree: the key of a child, or of a descendant


class JacobianProducts(NamedTuple):
    """Both ways through the Jacobian of the outputs: v ─► J v, and u ─► Jᵀu.

    Example:
        >>> both = jacobian(lambda w: w**2, jnp.array([1.0, 3.0]))
        >>> both.forward(jnp.ones(2)).tolist(), both.transpose(jnp.ones(2)).tolist()
        ([2.0, 6.0], [2.0, 6.0])
    """

    forward: Callable[[Params], Array]
    transpose: Callable[[Array], Params]


def hessian(objective: Callable[[Params], Float[Array, ""]], params: Params) -> Operator:
    """Give v ─► ∇²f(w) v.

    Args:
        objective: f(w), a scalar, and one function: without live dropout. It may be the loss of a
            whole batch, with batch statistics.
        params: w, any pytree of finite floating arrays; those of 16 bits are taken as float32.

    Example:
        >>> import jax.numpy as jnp
        >>> curve = hessian(lambda w: w[0] ** 2 * w[1], jnp.array([1.0, 3.0]))
        >>> curve(jnp.array([1.0, 0.0])).tolist()
        [6.0, 2.0]
    """
    check_params(params)
    check_finite(params)
    check_deterministic(objective, params)
    wide = in_float32(params)
    if not has_slow_convolutions(objective, wide):
        return _taking(params, wide, jax.linearize(jax.grad(objective), wide)[1])
    gradient = fast_convolutions(jax.grad(objective))
    return _taking(params, wide, fast_convolutions(jax.linearize(gradient, wide)[1]))


def _taking(params: Params, wide: Params, operator: Callable[[Params], Any]) -> Callable:
    """The operator, also for vectors of the 16 bits that the parameters had."""
    if wide is params:
        return operator
    return lambda vector: operator(
        jax.tree.map(lambda entry, like: jnp.asarray(entry, like.dtype), vector, wide)
    )


def output_hessian(
    apply: Apply,
    params: Params,
    x: Inputs,
    output: int = 0,
    *,
    outputs: Reduction | None = None,
) -> Operator:
    """Give v ─► ∇²f_k(w; x) v, the curvature of the network itself and not of a loss.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w, any pytree.
        x: One input, an array or a tree of arrays.
        output: k, which of the outputs.
        outputs: What reduces other outputs to (n, k), such as `lambda f: f[:, -1]`.

    Example:
        >>> network = lambda w, x: w[0] * w[1] * x  # one input, one output
        >>> operator = output_hessian(network, jnp.array([1.0, 3.0]), jnp.array([2.0]))
        >>> operator(jnp.array([1.0, 0.0])).tolist()
        [0.0, 2.0]
    """
    check_params(params)
    network = reduced(apply, outputs)
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], x)
    shape = jax.eval_shape(network, params, one).shape
    if shape[:1] != (1,) or len(shape) > 2:
        raise ValueError(
            f"x must be one input, which gives outputs (1, k) with an axis of samples, got {shape}."
        )
    num_outputs = math.prod(shape)
    if not 0 <= output < num_outputs:
        raise ValueError(f"output must be between 0 and {num_outputs - 1}, got {output}.")
    check_called_again(network, params, one)
    return hessian(lambda w: network(w, one).ravel()[output], params)


def gauss_newton(
    outputs: Callable[[Params], Array],
    loss: Callable[[Array], Float[Array, ""]],
    params: Params,
) -> Operator:
    """Give v ─► Jᵀ ∇²ℓ J v for the objective ℓ(f(w)).

    Args:
        outputs: f, the outputs on fixed inputs as a function of the parameters.
        loss: ℓ, the loss as a function of the outputs.
        params: w, any pytree.

    Example:
        >>> loss = lambda f: jnp.sum(f**2) / 2
        >>> operator = gauss_newton(lambda w: w**2, loss, jnp.array([1.0, 3.0]))
        >>> operator(jnp.ones(2)).tolist()  # (2w)²
        [4.0, 36.0]
    """
    check_params(params)
    params = in_float32(params)
    if has_slow_convolutions(outputs, params):
        outputs = fast_convolutions(outputs)
    both = jacobian(outputs, params)
    bend = jax.linearize(jax.grad(loss), outputs(params))[1]
    return lambda vector: both.transpose(bend(both.forward(vector)))


def jacobian(outputs: Callable[[Params], Array], params: Params) -> JacobianProducts:
    """Give v ─► J v and u ─► Jᵀu; the tangent kernel is their product J Jᵀ.

    Args:
        outputs: f, the outputs on fixed inputs as a function of the parameters.
        params: w, any pytree.

    Example:
        >>> both = jacobian(lambda w: jnp.stack([w[0] * w[1]]), jnp.array([2.0, 3.0]))
        >>> both.forward(both.transpose(jnp.ones(1))).tolist()  # J Jᵀ, the tangent kernel
        [13.0]
    """
    check_params(params)
    check_finite(params)
    check_deterministic(outputs, params)
    wide = in_float32(params)
    fast = fast_convolutions if has_slow_convolutions(outputs, wide) else lambda function: function
    _, forward = jax.linearize(fast(outputs), wide)
    _, backward = jax.vjp(fast(outputs), wide)
    forward = _taking(params, wide, fast(forward))
    return JacobianProducts(forward, fast(lambda cotangent: backward(cotangent)[0]))


def preconditioned(operator: Operator, diagonal: Params) -> Operator:
    """Give v ─► P^(−½) A P^(−½) v, whose eigenvalues are those of P⁻¹A.

    Descent w ← w − η P⁻¹∇L is stable at a minimum while the largest of them is below 2/η. For Adam
    P is √v̂ + ε, with v̂ its mean of squared gradients.

    Args:
        operator: A, such as the Hessian.
        diagonal: P, a tree of positive numbers like the parameters.

    Example:
        >>> sharp = preconditioned(lambda v: 8.0 * v, jnp.array([4.0, 2.0]))
        >>> sharp(jnp.ones(2)).round(4).tolist()
        [2.0, 4.0]
    """
    for leaf in jax.tree.leaves(diagonal):
        if not isinstance(leaf, Tracer) and not jnp.all(leaf > 0):
            raise ValueError(f"diagonal must be positive, got {float(jnp.min(leaf))}.")

    def scaled(vector: Params) -> Params:
        return jax.tree.map(lambda v, p: v / jnp.sqrt(p), vector, diagonal)

    return lambda vector: scaled(operator(scaled(vector)))


def batched_operator(
    operator_of: Callable[[Any], Operator], data: Any, params: Params, batch_size: int
) -> Operator:
    """Give v ─► Σ_b (n_b/n) A_b v: the operator of a mean over samples, one batch at a time.

    Args:
        operator_of: A_b of a batch, such as `lambda b: hessian(lambda w: risk(w, *b), params)`,
            of a loss that is a mean over the samples of the batch.
        data: Arrays with n samples along the first axis: (x, y), say.
        params: A vector that A acts on, for its shape.
        batch_size: How many samples are held at once; a last batch may be smaller.

    Example:
        >>> x, w = jnp.arange(3.0), jnp.array(1.0)
        >>> risk = lambda w, x: jnp.mean((w * x) ** 2) / 2
        >>> of_batch = lambda x: hessian(lambda w: risk(w, x), w)
        >>> operator = batched_operator(of_batch, x, w, batch_size=2)
        >>> round(float(operator(jnp.array(1.0))), 5)  # the mean of x²
        1.66667
    """
    n = len(jax.tree.leaves(data)[0])
    if not 1 <= batch_size <= n:
        raise ValueError(f"batch_size must be between 1 and n = {n}, got {batch_size}.")
    whole = n - n % batch_size
    batches = jax.tree.map(lambda leaf: leaf[:whole].reshape(-1, batch_size, *leaf.shape[1:]), data)
    rest = jax.tree.map(lambda leaf: leaf[whole:], data)

    def product(vector: Params) -> Params:
        def add(total: Params, batch: Any, share: float) -> Params:
            return jax.tree.map(lambda t, a: t + share * a, total, operator_of(batch)(vector))

        def step(total: Params, batch: Any) -> tuple[Params, None]:
            return add(total, batch, batch_size / n), None

        total, _ = jax.lax.scan(step, jax.tree.map(jnp.zeros_like, params), batches)
        return add(total, rest, 1 - whole / n) if whole < n else total

    return product


def block(operator: Operator, params: Params, row: Part, column: Part) -> Operator:
    """Give the block of A between two parts of the parameters, as a symmetric operator.

    With P and Q the projections on the two parts, this is P A P for one part and P A Q + Q A P for
    two; its spectral norm is that of the block, ‖P A Q‖.

    Args:
        operator: A.
        params: A vector that A acts on, for its shape.
        row: One part: the index or name of a child of the tree, such as a layer's, or a path.
        column: The other part: the same, or one that has no parameter in common with it.

    Example:
        >>> product = hessian(lambda w: w["a"] ** 2 * w["b"], {"a": 1.0, "b": 3.0})
        >>> block(product, {"a": 1.0, "b": 3.0}, "a", "b")({"a": 0.0, "b": 1.0})["a"].item()
        2.0
    """
    first, second = (_indicator(params, part) for part in (row, column))
    alike = first == second
    if not alike and any(a and b for a, b in zip(first, second, strict=True)):
        raise ValueError(f"row and column must be equal or apart, got {row!r} and {column!r}.")

    def product(vector: Params) -> Params:
        found = _kept(operator(_kept(vector, second)), first)
        if alike:
            return found
        return jax.tree.map(jnp.add, found, _kept(operator(_kept(vector, first)), second))

    return product


def _indicator(params: Params, part: Part) -> list[bool]:
    """Which leaves lie in a part of the tree."""
    prefix = part if isinstance(part, tuple) else (part,)
    paths = [path for path, _ in jax.tree.leaves_with_path(params)]
    keys = [tuple(map(_plain, path[: len(prefix)])) for path in paths]
    if prefix not in keys:
        raise ValueError(
            f"A part must name parameters, got {part!r}; there are {sorted(set(keys))}."
        )
    return [key == prefix for key in keys]


def _plain(entry: Any) -> int | str:
    """The index or the name in one step of a path."""
    return next(getattr(entry, name) for name in ("idx", "key", "name") if hasattr(entry, name))


def _kept(vector: Params, indicator: list[bool]) -> Params:
    """The vector with 0 outside a part."""
    leaves, tree = jax.tree.flatten(vector)
    chosen = [
        leaf if kept else jnp.zeros_like(leaf) for leaf, kept in zip(leaves, indicator, strict=True)
    ]
    return jax.tree.unflatten(tree, chosen)
