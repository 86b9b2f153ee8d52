"""A small transformer that adds: attention between k numbers, read out at the last of them.

    x_i = E(aᵢ) + P(i)
    x ← x + Σₕ softmax(x W_Qʰ (x W_Kʰ)ᵀ) x W_Vʰ W_Oʰ       softmax over all places
    x ← x + max(0, x U) D                                   if there are neurons between
    f(θ, a) = x_k R

Heads have a width of their own. Rows may be brought to mean 0 and variance 1 before each part
(`normalize`). Between tokens, without their places, head h of the first layer has the scores

    Aₕ = E W_Qʰ (E W_Kʰ)ᵀ,   (p, p),

query by key, whose spectrum `attention_concentration` measures. The source reads out at the last
token and does not say whether that is a number; here it is, because a query that were always the
same token would leave the scores between numbers unused.

Source: shi · exp-attention-fourier · Figs 4.3, C.5, C.6.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from theorylab.data.modular import check_numbers
from theorylab.typing import RandomKey


class Layer(NamedTuple):
    """Attention of h heads of width w on d channels, then m neurons (perhaps none)."""

    query: Float[Array, "h d w"]
    key: Float[Array, "h d w"]
    value: Float[Array, "h d w"]
    output: Float[Array, "h w d"]
    up: Float[Array, "d m"]
    down: Float[Array, "m d"]


class AdditionWeights(NamedTuple):
    """All weights of a transformer."""

    tokens: Float[Array, "p d"]
    places: Float[Array, "k d"]
    layers: tuple[Layer, ...]
    readout: Float[Array, "d p"]


@dataclass(frozen=True)
class AdditionTransformer:
    """A transformer on k numbers modulo p.

    Args:
        num_terms: The number of terms k.
        modulus: p.
        channels: The width d between layers.
        num_heads: Heads of every layer.
        head_width: Channels of every head.
        depth: The number of layers.
        num_neurons: Neurons after the attention of every layer; 0: attention only.
        normalize: Whether rows are brought to mean 0 and variance 1 before each part.
    """

    num_terms: int
    modulus: int
    channels: int = 32
    num_heads: int = 8
    head_width: int = 8
    depth: int = 1
    num_neurons: int = 0
    normalize: bool = False

    def __post_init__(self) -> None:
        for name in ("num_terms", "channels", "num_heads", "head_width", "depth"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.modulus < 2 or self.num_neurons < 0:
            raise ValueError(
                "modulus must be at least 2 and num_neurons at least 0, "
                f"got {self.modulus} and {self.num_neurons}."
            )

    def init(self, key: RandomKey) -> AdditionWeights:
        """Independent normal weights; outputs of every part have variance about 1.

        Args:
            key: Draws them, all in one.
        """
        d, h, w, m = self.channels, self.num_heads, self.head_width, self.num_neurons
        layer = [(h, d, w), (h, d, w), (h, d, w), (h, w, d), (d, m), (m, d)]
        shapes = [(self.modulus, d), (self.num_terms, d), *layer * self.depth]
        shapes.append((d, self.modulus))
        sizes = [math.prod(shape) for shape in shapes]
        parts = jnp.split(jax.random.normal(key, (sum(sizes),)), np.cumsum(sizes)[:-1])
        # By the number of channels that come in; embeddings have none.
        fan_in = [1, 1, *[d, d, d, h * w, d, max(1, m)] * self.depth, d]
        tokens, places, *inner, readout = (
            part.reshape(shape) / math.sqrt(count)
            for part, shape, count in zip(parts, shapes, fan_in, strict=True)
        )
        layers = tuple(Layer(*inner[first : first + 6]) for first in range(0, len(inner), 6))
        return AdditionWeights(tokens, places, layers, readout)

    def apply(self, params: AdditionWeights, terms: Int[Array, "n k"]) -> Float[Array, "n p"]:
        """The logits of the p possible sums.

        Args:
            params: Weights, from `init`.
            terms: The numbers, from 0 to p - 1.
        """
        if terms.shape[1] != self.num_terms:
            raise ValueError(f"terms must be {self.num_terms} numbers each, got {terms.shape[1]}.")
        check_numbers("terms", terms, self.modulus)
        x = params.tokens[terms] + params.places[None]
        for layer in params.layers:
            x = x + _attended(layer, self._scaled(x))
            if self.num_neurons:
                x = x + jax.nn.relu(self._scaled(x) @ layer.up) @ layer.down
        return self._scaled(x)[:, -1] @ params.readout

    def _scaled(self, x: Float[Array, "n k d"]) -> Float[Array, "n k d"]:
        if not self.normalize:
            return x
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def token_scores(params: AdditionWeights) -> Float[Array, "h p p"]:
    """Aₕ = E W_Qʰ (E W_Kʰ)ᵀ, the scores of all pairs of tokens in the first layer's heads.

    Example:
        >>> transformer = AdditionTransformer(num_terms=2, modulus=5, num_heads=3)
        >>> token_scores(transformer.init(jax.random.key(0))).shape
        (3, 5, 5)
    """
    first = params.layers[0]
    queries = jnp.einsum("pd,hdw->hpw", params.tokens, first.query)
    keys = jnp.einsum("pd,hdw->hpw", params.tokens, first.key)
    return jnp.einsum("hpw,hqw->hpq", queries, keys)


def weight_norm(params: AdditionWeights) -> Float[Array, ""]:
    """‖θ‖, the Euclidean length of all weights.

    Example:
        >>> weights = AdditionTransformer(num_terms=2, modulus=5).init(jax.random.key(0))
        >>> float(weight_norm(jax.tree.map(jnp.zeros_like, weights)))
        0.0
    """
    return jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(params)))


def _attended(layer: Layer, x: Float[Array, "n k d"]) -> Float[Array, "n k d"]:
    """What the heads add to every place."""
    queries = jnp.einsum("nid,hdw->nhiw", x, layer.query)
    keys = jnp.einsum("njd,hdw->nhjw", x, layer.key)
    values = jnp.einsum("njd,hdw->nhjw", x, layer.value)
    scores = jax.nn.softmax(jnp.einsum("nhiw,nhjw->nhij", queries, keys), axis=-1)
    return jnp.einsum("nhij,nhjw,hwd->nid", scores, values, layer.output)
