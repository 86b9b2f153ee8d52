"""The average gradient outer product: which directions of its inputs a network looks at.

With the Jacobian J(x) = ∂f(x)/∂x, (k, d), of k outputs by d inputs (laid out flat), and n inputs:

    G = (1/n) Σᵢ J(xᵢ)ᵀJ(xᵢ)                        the AGOP, (d, d)
    G ≈ FFᵀ,  F = GΩ (ΩᵀGΩ)^(−½),  Ω (d, r) normal  its sketch, from products Gv alone
    cos(G, G*) = tr(GᵀG*) / (‖G‖_F ‖G*‖_F)          alignment with another one
               = ‖FᵀF*‖²_F / (‖FᵀF‖_F ‖F*ᵀF*‖_F)    of two sketches, again without (d, d)

G is not centred, and its expectation over the law of the inputs is the EGOP. A product Gv takes one
pass forward, Jv, and one pass back, Jᵀ(Jv), whatever k and d are; so the sketch needs no (d, d)
array. The network must treat every input by itself, without batch statistics and live dropout,
which is tested on two inputs where it can be. Inputs that are whole numbers are taken as real ones
where the network takes those; token ids are not, and `at` says by what to differentiate instead
(see `split`): the d numbers are then the rows that an input looks up. Of a tree of inputs, they are
its real numbers, one array after the other.

Source: zhu · agop · Eqs 4.5–4.6, C.6; the sketch: Nyström's approximation of G with r directions,
with the bound of Halko, Martinsson and Tropp (2011), Lemma 4.1, on what is left out.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from theorylab.answers import Answer
from theorylab.models.inputs import check_inputs as check_tree
from theorylab.models.inputs import num_inputs
from theorylab.models.own_network import entered, output_shapes, reduced
from theorylab.typing import Apply, Axes, Inputs, Params, RandomKey, Reduction, check_key

from .blocks import block_size_for, sum_over_blocks
from .split import At, Split, check_split, num_entries, split_at

_PROBES = 4  # fresh directions that test a sketch
_PASS = 2**18  # numbers of a pass back: more of them leave the processor's caches


def agop(
    apply: Apply,
    params: Params,
    x: Inputs,
    block_size: int | None = None,
    *,
    at: At | None = None,
    outputs: Reduction | None = None,
) -> Float[Array, "d d"]:
    """G = (1/n) Σᵢ J(xᵢ)ᵀJ(xᵢ), exactly, with the Jacobians of a block of inputs at a time.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, ...).
        params: Its parameters, any pytree.
        x: The inputs, an array or a tree; those of one input are laid out flat, d in all.
        block_size: How many inputs to take at a time; by default as many as 32 MiB hold, 256 at
            most.
        at: What to differentiate by in place of the inputs: the name of an array in params where
            token ids look up their rows, its path, or a pair of functions, embed(params, x) and
            rest(params, e, x).
        outputs: A function of the outputs to take in their place, such as `lambda f: f[:, -1]`.

    Example:
        >>> network = lambda w, x: x @ w
        >>> agop(network, jnp.array([[1.0], [2.0]]), jnp.ones((5, 2))).tolist()
        [[1.0, 2.0], [2.0, 4.0]]

    Example: token ids, by the rows of a table.
        >>> network = lambda w, ids: w["table"][ids].sum(axis=1) @ w["out"]
        >>> params = {"table": jnp.eye(2), "out": jnp.array([[1.0], [2.0]])}
        >>> agop(network, params, jnp.array([[0], [1]]), at="table").tolist()
        [[1.0, 2.0], [2.0, 4.0]]
    """
    own = checked_network(apply, params, x, block_size, at, outputs)
    return _agop(own.apply, at, own.params, own.x, block_size)


@partial(jax.jit, static_argnums=(0, 1, 4))
def _agop(apply: Apply, at: At | None, params: Params, x: Inputs, block_size: int | None) -> Array:
    split = split_at(apply, params, x, at)
    (dimension, kind), num_outputs = num_entries(split, params, x), outputs_of_one(apply, params, x)
    size = block_size_for(x, dimension * num_outputs, block_size, kind)

    def outer(inputs: Inputs, counted: Bool[Array, " b"]) -> Array:
        rows = _jacobians(*flat_network(split, params, inputs), num_outputs)
        rows = jnp.where(counted[None, :, None], rows, 0).reshape(-1, dimension)
        return rows.T @ rows

    return sum_over_blocks(outer, x, size) / num_inputs(x)


def _jacobians(
    network: Callable[[Array], Array], flat: Float[Array, "b d"], num_outputs: int
) -> Float[Array, "k b d"]:
    """J at every input; backward if there are fewer outputs than inputs, else forward."""
    # Each input has its own output, so one pass for all of them gives a row of every Jacobian.
    if num_outputs <= flat.shape[1]:
        outputs, pull_back = jax.vjp(network, flat)
        chosen = jnp.eye(num_outputs, dtype=outputs.dtype)
        rows = lambda row: pull_back(jnp.broadcast_to(row[None], outputs.shape))[0]  # noqa: E731
        at_once = _rows_at_once(num_outputs, flat.size)
        if at_once == num_outputs:
            return jax.vmap(rows)(chosen)
        return jax.lax.map(rows, chosen, batch_size=at_once)
    chosen = jnp.eye(flat.shape[1], dtype=flat.dtype)
    along = lambda row: jnp.broadcast_to(row[None], flat.shape)  # noqa: E731
    columns = jax.vmap(lambda row: jax.jvp(network, (flat,), (along(row),))[1])(chosen)
    return jnp.transpose(columns, (2, 1, 0))


def _rows_at_once(num_outputs: int, size: int) -> int:
    """How many outputs to go back from at once, in passes of nearly equal size."""
    num_passes = math.ceil(num_outputs / max(1, _PASS // size))
    return math.ceil(num_outputs / num_passes)


def agop_product(
    apply: Apply,
    params: Params,
    x: Inputs,
    block_size: int | None = None,
    *,
    at: At | None = None,
    outputs: Reduction | None = None,
) -> Callable[[Float[Array, "d r"]], Float[Array, "d r"]]:
    """The map V ↦ GV of some directions, without G: for inputs of any dimension.

    Args:
        apply: The network.
        params: Its parameters.
        x: The inputs.
        block_size: How many inputs to take at a time, 256 at most by default.
        at: What to differentiate by in place of the inputs, as for `agop`.
        outputs: A function of the outputs to take in their place.

    Example:
        >>> product = agop_product(lambda w, x: x @ w, jnp.array([[1.0], [2.0]]), jnp.ones((5, 2)))
        >>> product(jnp.eye(2)).tolist()
        [[1.0, 2.0], [2.0, 4.0]]
    """
    own = checked_network(apply, params, x, block_size, at, outputs)

    def product(directions: Float[Array, "d r"]) -> Float[Array, "d r"]:
        return _product(own.apply, at, own.params, own.x, directions, block_size)

    return product


@partial(jax.jit, static_argnums=(0, 1, 5))
def _product(
    apply: Apply,
    at: At | None,
    params: Params,
    x: Inputs,
    directions: Array,
    block_size: int | None,
) -> Array:
    split = split_at(apply, params, x, at)
    num_outputs = outputs_of_one(apply, params, x)
    per_input = directions.size + num_outputs * directions.shape[1]
    size = block_size_for(x, per_input, block_size, num_entries(split, params, x)[1])

    def pushed(inputs: Inputs, counted: Bool[Array, " b"]) -> Array:
        network, flat = flat_network(split, params, inputs)
        outputs, forward = jax.linearize(network, flat)
        backward = jax.linear_transpose(forward, flat)

        def one(direction: Float[Array, " d"]) -> Float[Array, " d"]:
            slopes = forward(jnp.broadcast_to(direction[None], flat.shape))
            (back,) = backward(jnp.where(counted[:, None], slopes, 0).astype(outputs.dtype))
            return back.sum(axis=0)

        return jax.vmap(one, in_axes=1, out_axes=1)(directions)

    return sum_over_blocks(pushed, x, size) / num_inputs(x)


class Sketch(Answer):
    """G ≈ FFᵀ, and how much of G it leaves out.

    Args:
        factor: F.
        residual: An estimate of ‖G − FFᵀ‖_F, from fresh random directions.
        bound: ‖G − FFᵀ‖₂ is at most this, but for one sketch in 10⁴.

    Example:
        >>> sketch = Sketch(jnp.eye(3)[:, :1], jnp.zeros(()), jnp.zeros(()))
        >>> (sketch.factor @ sketch.factor.T).tolist()
        [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """

    factor: Float[Array, "d r"]
    residual: Float[Array, ""]
    bound: Float[Array, ""]

    def draw(self, axes: Axes) -> None:
        """The eigenvalues of FFᵀ, by rank; those of G are within the bound."""
        from theorylab.answers.figure import ranked

        values = jnp.linalg.svd(self.factor, compute_uv=False) ** 2
        ranked(axes, values, jnp.full_like(values, self.bound), y="eigenvalue λ of the AGOP G")


def agop_sketch(
    apply: Apply,
    params: Params,
    x: Inputs,
    rank: int,
    key: RandomKey,
    block_size: int | None = None,
    *,
    at: At | None = None,
    outputs: Reduction | None = None,
) -> Sketch:
    """G ≈ FFᵀ from its products with r random directions: no array (d, d) is made.

    Exact if G has at most r eigenvalues that are not 0. FFᵀ never exceeds G. Its eigenvectors are
    the left singular vectors of F.

    Args:
        apply: The network.
        params: Its parameters.
        x: The inputs.
        rank: How many of them, r.
        key: Of the random directions.
        block_size: How many inputs to take at a time, 256 at most by default.
        at: What to differentiate by in place of the inputs, as for `agop`.
        outputs: A function of the outputs to take in their place.

    Example:
        >>> w = jnp.array([[1.0], [2.0], [0.0]])
        >>> found = agop_sketch(lambda w, x: x @ w, w, jnp.ones((5, 3)), 2, jax.random.key(0))
        >>> jnp.allclose(found.factor @ found.factor.T, w @ w.T, atol=1e-5).item()
        True
    """
    check_key(key)
    own = checked_network(apply, params, x, block_size, at, outputs)
    dimension, kind = num_entries(split_at(own.apply, own.params, own.x, at), own.params, own.x)
    if not 1 <= rank <= dimension:
        raise ValueError(f"rank must be from 1 to the {dimension} inputs, got {rank}.")
    product = partial(_product, own.apply, at, own.params, own.x, block_size=block_size)
    draws = jax.random.normal(key, (dimension * (rank + _PROBES),), kind)
    draws = draws.reshape(dimension, rank + _PROBES)
    directions = jnp.linalg.qr(draws[:, :rank])[0]
    factor = _nystrom(product(directions), directions)
    probes = draws[:, rank:]
    missed = jnp.linalg.norm(product(probes) - factor @ (factor.T @ probes), axis=0)
    # Halko et al.: ‖A‖₂ ≤ 10 √(2/π) maxⱼ ‖Azⱼ‖ with probability 1 − 10^(−probes).
    bound = 10 * math.sqrt(2 / math.pi) * missed.max()
    return Sketch(factor, jnp.sqrt(jnp.mean(missed**2)), bound)


def _nystrom(products: Float[Array, "d r"], directions: Float[Array, "d r"]) -> Float[Array, "d r"]:
    """F = Y (ΩᵀY)^(−½) with Y = GΩ; directions that G does not see, to rounding, give 0."""
    inner = directions.T @ products
    values, vectors = jnp.linalg.eigh((inner + inner.T) / 2)
    floor = 10 * len(values) * jnp.finfo(values.dtype).eps * values[-1]
    seen = values > floor
    roots = jnp.where(seen, 1 / jnp.sqrt(jnp.where(seen, values, 1)), 0)
    return products @ (vectors * roots[None])


def agop_alignment(
    features: Float[Array, "d d"], reference: Float[Array, "_ _"]
) -> Float[Array, ""]:
    """cos(G, G*) = tr(GᵀG*) / (‖G‖_F ‖G*‖_F): 1 if they differ in scale only, and at least 0.

    Args:
        features: G, not zero.
        reference: G*, not zero.

    Example:
        >>> round(float(agop_alignment(jnp.diag(jnp.array([1.0, 1.0])), jnp.eye(2))), 6)
        1.0
    """
    if features.ndim != 2 or features.shape != reference.shape:
        raise ValueError(
            f"two AGOPs must be matrices of one shape, got {features.shape}, {reference.shape}."
        )
    return jnp.vdot(features, reference) / (jnp.linalg.norm(features) * jnp.linalg.norm(reference))


def sketch_alignment(features: Sketch, reference: Sketch) -> Float[Array, ""]:
    """cos(FFᵀ, F*F*ᵀ) of two sketches, whose ranks may differ: no array (d, d) is made.

    Args:
        features: F, with what it leaves out.
        reference: F*, of as many inputs.

    Example:
        >>> nothing = jnp.zeros(())
        >>> first, second = (Sketch(c * jnp.eye(3)[:, :2], nothing, nothing) for c in (1.0, 2.0))
        >>> round(float(sketch_alignment(first, second)), 6)
        1.0
    """
    first, second = features.factor, reference.factor
    if len(first) != len(second):
        raise ValueError(
            f"two sketches must be of as many inputs, got {len(first)} and {len(second)}."
        )
    sizes = jnp.linalg.norm(first.T @ first) * jnp.linalg.norm(second.T @ second)
    return jnp.sum((first.T @ second) ** 2) / sizes


def flat_network(
    split: Split, params: Params, x: Inputs
) -> tuple[Callable[[Array], Array], Float[Array, "b d"]]:
    """The network from flat numbers (b, d) to flat outputs (b, k), and where it is looked at.

    Args:
        split: The network in two parts.
        params: Its parameters.
        x: The inputs.

    Example:
        >>> line, x = lambda w, x: x @ w, jnp.ones((5, 3))
        >>> network, flat = flat_network(split_at(line, jnp.ones((3, 2)), x, None),
        ...                              jnp.ones((3, 2)), x)
        >>> network(flat).shape
        (5, 2)
    """
    e = split.embed(params, x)

    def network(flat: Float[Array, "b d"]) -> Float[Array, "b k"]:
        return split.rest(params, flat.reshape(e.shape), x).reshape(len(flat), -1)

    return network, e.reshape(e.shape[0], -1)


def outputs_of_one(apply: Apply, params: Params, x: Inputs) -> int:
    """How many outputs the network has for one input.

    Example:
        >>> outputs_of_one(lambda w, x: x @ w, jnp.ones((3, 2)), jnp.ones((5, 3)))
        2
    """
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), leaf.dtype), x)
    shape = getattr(output_shapes(apply, params, one), "shape", ())
    if shape[:1] != (1,):
        raise ValueError(f"apply must give one output for each input, got {shape} for one input.")
    return math.prod(shape[1:])


def check_inputs(x: Array, block_size: int | None) -> None:
    """Refuse a batch without inputs, and blocks without any.

    Example:
        >>> check_inputs(jnp.ones((5, 2)), block_size=None)
    """
    if x.ndim < 2 or x.shape[0] < 1 or math.prod(x.shape[1:]) < 1:
        raise ValueError(f"x must have shape (n, ...) with at least one input, got {x.shape}.")
    if block_size is not None and block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}.")


class GivenNetwork(NamedTuple):
    """A network that was checked, with its parameters and inputs.

    Example:
        >>> network = GivenNetwork(lambda w, x: x @ w, jnp.ones((3, 2)), jnp.ones((5, 3)))
        >>> network.apply(network.params, network.x).shape
        (5, 2)
    """

    apply: Apply
    params: Params
    x: Inputs


def checked_network(
    apply: Apply,
    params: Params,
    x: Inputs,
    block_size: int | None,
    at: At | None,
    outputs: Reduction | None,
) -> GivenNetwork:
    """The network, if it has outputs for each input by itself.

    Args:
        apply: The network.
        params: Its parameters.
        x: The inputs.
        block_size: How many inputs to take at a time, if that was asked for.
        at: What to differentiate by in place of the inputs.
        outputs: A function of the outputs to take in their place.

    Example:
        >>> line = lambda w, x: x @ w
        >>> checked_network(line, jnp.ones((3, 2)), jnp.ones((5, 3)), None, None, None).x.shape
        (5, 3)
    """
    if isinstance(x, jax.Array):
        check_inputs(x, block_size)
    if block_size is not None and block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}.")
    check_tree(x)
    outputs_of_one(reduced(apply, outputs), params, x)
    own = entered(apply, params, x, None, outputs, only_floats=False)
    if at is not None or not jnp.issubdtype(jax.tree.leaves(own.x1)[0].dtype, jnp.floating):
        check_split(own.apply, own.params, own.x1, at)
    return GivenNetwork(own.apply, own.params, own.x1)
