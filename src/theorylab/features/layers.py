"""Features layer by layer: what a layer's weights prefer, and what the network asks of them.

A layer takes h = gW, from what comes in, g (c,), to what goes out, h (m,), with weights W (c, m):

    N = WWᵀ                                     neural feature matrix, (c, c)
    G = (1/n) Σᵢ Σ_a (∂f_a/∂g)(∂f_a/∂g)ᵀ        AGOP of the layer, at n inputs and k outputs a
      = W B Wᵀ,  B = (1/n) Σᵢ Σ_a b_a b_aᵀ,  b_a = ∂f_a/∂h

The neural feature ansatz says that training makes N ∝ G^s, with s from ½ to 1. In a convolution g
is the window at a position, and G sums over positions. Any network is read: the products with
weights are found in its program, and one pass back gives all b.

Source: zhu · ext-* · Ch. 5 (ext-agop-reg); the ansatz: Radhakrishnan, Beaglehole, Pandit and Belkin
(2022), arXiv:2212.13881.
"""

from functools import partial
from typing import cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from theorylab.answers import Answer
from theorylab.kernels.finite.cost import Way
from theorylab.kernels.finite.jacobian import jacobian_of
from theorylab.kernels.finite.program import program_of, uses_of
from theorylab.kernels.finite.uses import WeightFactors, WeightUse
from theorylab.models.inputs import check_inputs as check_tree
from theorylab.models.inputs import num_inputs, one_input
from theorylab.typing import Apply, Inputs, Params

from .agop import agop_alignment, check_inputs
from .blocks import block_size_for, sum_over_blocks


class LayerFeatures(Answer, axes=("row", "column"), labels={"weights": "N = WWᵀ"}):
    """What a layer's weights prefer, N = WWᵀ, and what the network's outputs ask of them, G.

    Example:
        >>> found = LayerFeatures(weights=jnp.eye(2), gradients=jnp.diag(jnp.array([4.0, 0.0])))
        >>> round(float(feature_ansatz(found)), 4)
        0.7071
    """

    weights: Float[Array, "c c"]
    gradients: Float[Array, "c c"]


def layer_features(
    apply: Apply, params: Params, x: Inputs, block_size: int | None = None
) -> dict[str, LayerFeatures]:
    """N and G of every layer, by the name of its weights in `params`.

    Layers are the weights that enter by matrix products or convolutions alone, as they are
    or transposed, and one for all positions; others are left out.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: Its parameters, any pytree.
        x: The inputs, an array or a tree.
        block_size: How many inputs to take at a time; by default as many as 32 MiB hold, 256 at
            most.

    Example:
        >>> network = lambda w, x: jax.nn.relu(x @ w["in"]) @ w["out"]
        >>> params = {"in": jnp.eye(2), "out": jnp.array([[2.0], [0.0]])}
        >>> found = layer_features(network, params, jnp.ones((3, 2)))
        >>> found["['in']"].gradients.tolist()
        [[4.0, 0.0], [0.0, 0.0]]
    """
    if isinstance(x, jax.Array):
        check_inputs(x, block_size)
    check_tree(x)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    found = _features(apply, params, x, block_size)
    return {names[leaf]: features for leaf, features in found.items()}


def feature_ansatz(features: LayerFeatures, power: float = 1.0) -> Float[Array, ""]:
    """cos(N, G^s): how well the neural feature ansatz holds in a layer, from 0 to 1.

    Args:
        features: N and G of the layer.
        power: s, positive.

    Example:
        >>> found = LayerFeatures(jnp.eye(2), jnp.diag(jnp.array([4.0, 0.0])))
        >>> round(float(feature_ansatz(found, 0.5)), 6)
        0.707107
    """
    return agop_alignment(features.weights, _powered(features.gradients, power))


class Ansatz(Answer, labels={"cosine": "cos(N, Gˢ)"}):
    """How well N ∝ G^s holds in a layer.

    Args:
        cosine: cos(N, G^s), as `feature_ansatz` has it. Random weights have much of it already, as
            both matrices are nearly multiples of I.
        correlation: The same of what is left of both without their multiples of I.

    Example:
        >>> Ansatz(cosine=jnp.array(0.9), correlation=jnp.array(0.5)).correlation.item()
        0.5
    """

    cosine: Float[Array, ""]
    correlation: Float[Array, ""]


def neural_feature_ansatz(
    apply: Apply, params: Params, x: Inputs, power: float = 1.0
) -> dict[str, Ansatz]:
    """Hold N = WWᵀ against G^s in every layer of a network, by the name of its weights.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: Its parameters, any pytree.
        x: The inputs, an array or a tree.
        power: s, positive.

    Example:
        >>> network = lambda w, x: jnp.tanh(x @ w["in"]).sum(axis=1, keepdims=True)
        >>> found = neural_feature_ansatz(network, {"in": jnp.diag(jnp.array([2.0, 0.0]))},
        ...                               jnp.ones((3, 2)))
        >>> [round(float(number), 5) for number in found["['in']"]]
        [1.0, 1.0]
    """
    found = {}
    for name, features in layer_features(apply, params, x).items():
        weights, gradients = features.weights, _powered(features.gradients, power)
        apart = agop_alignment(_without_identity(weights), _without_identity(gradients))
        found[name] = Ansatz(agop_alignment(weights, gradients), apart)
    return found


def _powered(matrix: Float[Array, "c c"], power: float) -> Float[Array, "c c"]:
    """G^s of a matrix that is positive but for rounding."""
    if not 0 < power < float("inf"):
        raise ValueError(f"power must be positive, got {power}.")
    if power == 1:
        return matrix
    values, vectors = jnp.linalg.eigh(matrix)
    return (vectors * jnp.maximum(values, 0)[None] ** power) @ vectors.T


def _without_identity(matrix: Float[Array, "c c"]) -> Float[Array, "c c"]:
    """A − (tr A/c) I."""
    return matrix - jnp.trace(matrix) / len(matrix) * jnp.eye(len(matrix), dtype=matrix.dtype)


@partial(jax.jit, static_argnums=(0, 3))
def _features(
    apply: Apply, params: Params, x: Inputs, block_size: int | None
) -> dict[int, LayerFeatures]:
    program = program_of(apply, params, one_input(x))
    uses = [use for use in uses_of(program) if use.sizes.groups == 1]
    matrices = {use.leaf: _matrix(program.leaves[use.leaf], use) for use in uses}
    kept = {leaf: matrix for leaf, matrix in matrices.items() if matrix is not None}
    ways: list[Way] = ["plain"] * len(program.leaves)
    for leaf in kept:
        ways[leaf] = "factors"
    jacobian = jacobian_of(program, uses, ways)
    kind = program.output.dtype
    size = block_size_for(x, max(1, jacobian.held // kind.itemsize), block_size, kind)

    def backward(inputs: Inputs, counted: Bool[Array, " b"]) -> dict[int, Array]:
        parts = jax.vmap(jacobian.at)(inputs)
        return {leaf: _outer(cast(WeightFactors, parts[leaf]), counted) for leaf in kept}

    sums = sum_over_blocks(backward, x, size)
    return {
        leaf: LayerFeatures(w @ w.T, w @ (sums[leaf] / num_inputs(x)) @ w.T)
        for leaf, w in kept.items()
    }


def _outer(factors: WeightFactors, counted: Bool[Array, " b"]) -> Float[Array, "m m"]:
    """Σ b bᵀ over inputs that count, outputs and positions."""
    b = jnp.where(counted[:, None, None, None, None], factors.backward, 0)
    rows = b.reshape(-1, b.shape[-1])
    return rows.T @ rows


def _matrix(weight: Array, use: WeightUse) -> Float[Array, "c m"] | None:
    """W with what comes in as rows, in the order in which the windows of a convolution stand.

    None if it is not known how the weights were arranged before the product.
    """
    *views, kind, axes, _ = cast(tuple, use.layout)
    for name, _ in views:
        if name != "transpose" or weight.ndim != 2:
            return None
        weight = weight.T
    if kind == "product":
        first = axes
        last = tuple(axis for axis in range(weight.ndim) if axis not in first)
    else:
        out, into, *window = axes
        first, last = (*window, into), (out,)
    return jnp.transpose(weight, (*first, *last)).reshape(use.sizes.fan_in, -1)
