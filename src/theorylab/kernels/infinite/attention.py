"""Attention at infinite width: heads and their width m grow, and so does the number of heads.

A head gives P V with P = softmax(G), values V = xW_V and logits G = QKᵀ · scale. By the law of
large numbers over heads, with K_V = σ_w² K and Θ_V = σ_w² (K + Θ) those of the values,

    K_heads = E P K_V P′ᵀ,      then a layer of weights W_O.

scale = 1/m: logits do not fluctuate. Tied W_Q = W_K: G = K_V(x, x); untied: G = 0, P is uniform.
Queries and keys add nothing to the tangent kernel: Θ_heads = P Θ_V P′ᵀ.

scale = 1/√m, untied: logits are Gaussian, with Cov(G_su, G′_s′u′) = K_V(s, s′) K_V(u, u′). They are
drawn as a matrix L Z Lᵀ, where LLᵀ is the covariance K_V of the positions of x and x′ together and
Z has independent normal entries. Queries and keys, and what is before them, move the logits: with
Θ_G(su, s′u′) = Θ_V(s, s′) K_V(u, u′) + K_V(s, s′) Θ_V(u, u′),

    Θ_heads(s, s′) = E P Θ_V P′ᵀ + E Σ_uu′ P_su P′_s′u′ Θ_G(su, s′u′)
                     · [K_V(u, u′) − (PK_V)(s, u′) − (K_V P′ᵀ)(u, s′) + (PK_V P′ᵀ)(s, s′)].

Source: golikov · ntk-attention · 2.4.4; Hron et al. (2020), arXiv:2006.10540.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models import SelfAttention
from theorylab.models.parts import attention_weights

from .masks import missing_keys
from .positions import as_matrix, as_pairs, mixed
from .state import Context, Draws, LayerState
from .weights import linear

Matrix = Float[Array, "... s t"]
Root = Float[Array, "... u u"]  # of the positions of x and x′ together


def attend(layer: SelfAttention, state: LayerState, context: Context) -> LayerState:
    """Heads, side by side, and the weights after them.

    Example: where all positions are alike, attention changes nothing.
        >>> from theorylab.kernels.infinite.state import Notes, Settings
        >>> from theorylab.models import NTK
        >>> state = LayerState(jnp.ones((1, 2, 2)), None, (2, 1), paired=True, gaussian=True)
        >>> context = Context(Settings(NTK(), "none", False, tangent=True), Notes())
        >>> attend(SelfAttention(1, 1, 1, scaling="linear"), state, context).nngp.tolist()
        [[[1.0, 1.0], [1.0, 1.0]]]
    """
    settings, width = context.settings, layer.num_heads * layer.head_width
    values = linear(state, layer, state.shape[-1], width, settings, has_bias=False)
    if layer.scaling == "linear":
        heads = mixed(values, *context.notes.of(lambda: _attention(layer, values)))
    else:
        heads = _sampled(layer, values, context)
    return linear(heads, layer, width, layer.channels, settings)


def _attention(layer: SelfAttention, values: LayerState) -> Matrix:
    """P of logits that do not fluctuate."""
    covariance = as_matrix(values.nngp, values.shape[:-1])
    logits = covariance if layer.tied else jnp.zeros_like(covariance)
    return attention_weights(logits, missing_keys(values)[0])


def _sampled(layer: SelfAttention, values: LayerState, context: Context) -> LayerState:
    """The mean over draws of logits."""
    if layer.tied:
        raise ValueError(
            'SelfAttention(scaling="root", tied=True) has no infinite width: its logits QQᵀ/√m '
            'grow as √m. Untie them, or divide by m: scaling="linear".'
        )
    if context.draws is None:
        raise ValueError(
            'SelfAttention(scaling="root") has random logits at infinite width, and no closed '
            "form: infinite_kernels_sampled averages over them, with standard errors. "
            'scaling="linear" has a closed form.'
        )
    positions = values.shape[:-1]
    nngp = as_matrix(values.nngp, positions)
    ntk = None if values.ntk is None else as_matrix(values.ntk, positions)
    own, others = context.notes.of(lambda: nngp)
    if context.notes.itself:
        joint = nngp
    else:
        shape = nngp.shape
        own, others = jnp.broadcast_to(own, shape), jnp.broadcast_to(others, shape)
        joint = jnp.block([[own, nngp], [jnp.swapaxes(nngp, -1, -2), others]])
    key = jax.random.fold_in(context.draws.key, context.notes.count)
    draws = Draws(key, context.draws.count)
    means = _mean_over_logits(nngp, ntk, _root(joint), missing_keys(values), draws)
    return values._replace(
        nngp=as_pairs(means[0], positions),
        ntk=None if ntk is None else as_pairs(means[1], positions),
    )


def _mean_over_logits(
    nngp: Matrix,
    ntk: Matrix | None,
    root: Root,
    missing: tuple[Array | None, Array | None],
    draws: Draws,
) -> tuple[Matrix, ...]:
    size = nngp.shape[-1]

    def one(key: Array) -> tuple[Matrix, ...]:
        # The same normal numbers for every pair of inputs: fewer of them, and smoother kernels.
        normal = jax.random.normal(key, root.shape[-2:], root.dtype)
        logits = root @ jnp.broadcast_to(normal, root.shape) @ jnp.swapaxes(root, -1, -2)
        first = attention_weights(logits[..., :size, :size], missing[0])
        second = attention_weights(logits[..., -size:, -size:], missing[1])
        return _heads(nngp, ntk, first, second)

    def add(total: tuple[Matrix, ...], key: Array) -> tuple[tuple[Matrix, ...], None]:
        return tuple(map(jnp.add, total, one(key))), None

    zeros = tuple(jnp.zeros_like(nngp) for _ in range(1 if ntk is None else 2))
    sums, _ = jax.lax.scan(add, zeros, jax.random.split(draws.key, draws.count))
    return tuple(total / draws.count for total in sums)


def _heads(nngp: Matrix, ntk: Matrix | None, first: Matrix, second: Matrix) -> tuple[Matrix, ...]:
    """K_heads and Θ_heads of given P and P′; products over u and u′ one after the other."""
    turned = jnp.swapaxes(second, -1, -2)
    right = first @ nngp  # (PK)(s, u′)
    left = nngp @ turned  # (KP′ᵀ)(u, s′)
    mean = right @ turned
    if ntk is None:
        return (mean,)

    def centred(weights: Matrix) -> Matrix:
        """Σ_uu′ P_su P′_s′u′ [...] weights(u, u′)."""
        return (
            first @ (weights * nngp) @ turned
            - ((first @ weights) * right) @ turned
            - first @ (left * (weights @ turned))
            + mean * (first @ weights @ turned)
        )

    return mean, first @ ntk @ turned + ntk * centred(nngp) + nngp * centred(ntk)


def _root(covariance: Root) -> Root:
    """L with LLᵀ = covariance, which may be singular: x may be with itself."""
    values, vectors = jnp.linalg.eigh(covariance)
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))[..., None, :]
