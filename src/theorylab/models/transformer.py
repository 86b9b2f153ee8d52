"""A pre-norm transformer, causal or not, on tokens or on vectors, of any depth, heads and loops.

    h = read(x) + p                          p a learned vector for each position, or 0
    h ← h + Σ_heads softmax(q kᵀ/√e) v O     q, k, v = norm(h) Q, norm(h) K, norm(h) V
    h ← h + σ(norm(h) U + b) D + c           σ: GELU or ReLU
    f = norm(h) R

norm brings every row to mean 0 and variance 1, then scales and shifts it. Positions are learned
embeddings, or rotary: q and k are rotated by angles that grow with the position, so that their
product depends only on the distance between two positions. With loops, the stack of layers is
applied several times with the same weights. The weights of all layers are stacked: their first axis
is the layer.

A causal transformer decodes with a cache of keys and values: `init_cache` makes an empty one, and
`extend` appends new positions to it, so that nothing is computed twice.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from theorylab.typing import RandomKey

Reads = Literal["tokens", "vectors"]
Positions = Literal["learned", "rotary", "none"]
Nonlinearity = Literal["gelu", "relu"]
Inputs = Int[Array, "b n"] | Float[Array, "b n d"]

_ROTARY_BASE = 10_000.0
_SMALLEST_VARIANCE = 1e-5
_UNROLLED = 8  # up to so many layers are compiled one by one, which is a little faster


class Norm(NamedTuple):
    """What follows the normalisation of rows."""

    scale: Float[Array, "... w"]
    shift: Float[Array, "... w"]


class TransformerLayer(NamedTuple):
    """Attention and neurons; the first axis of every array is the layer."""

    before_attention: Norm
    mix: Float[Array, "l w a"]  # queries, keys and values of all heads, side by side
    combine: Float[Array, "l v w"]
    before_neurons: Norm
    up: Float[Array, "l w m"]
    up_bias: Float[Array, "l m"]
    down: Float[Array, "l m w"]
    down_bias: Float[Array, "l w"]


class TransformerWeights(NamedTuple):
    """All parameters of a transformer."""

    read: Float[Array, "i w"]
    positions: Float[Array, "c w"]  # c = 0 if positions are not learned
    layers: TransformerLayer
    before_output: Norm
    output: Float[Array, "w k"]


class Memory(NamedTuple):
    """Keys and values of every position that was read."""

    keys: Float[Array, "*layers b c h e"]
    values: Float[Array, "*layers b c h e"]


class Cache(NamedTuple):
    """What a causal transformer remembers, and how many positions it has read."""

    memory: Memory
    length: Int[Array, ""]


@dataclass(frozen=True)
class Transformer:
    """A pre-norm transformer: what it reads, its sizes, and how it encodes positions.

    Args:
        input_size: The number of tokens, or the dimension of the vectors.
        num_outputs: Outputs k at every position.
        context: The largest number of positions.
        width: Channels w between layers.
        depth: Blocks of attention and neurons, with weights of their own.
        num_heads: Heads of every layer; they divide the width.
        num_loops: How many times the stack of blocks is applied.
        num_neurons: Neurons m of every layer; 0 means four times the width.
        causal: Whether a position sees itself and those before it only.
        reads: "tokens" or "vectors".
        positions: "learned", "rotary" or "none".
        activation: "gelu" or "relu".

    Example:
        >>> model = Transformer(input_size=5, num_outputs=5, context=8, width=16)
        >>> params = model.init(jax.random.key(0))
        >>> model.apply(params, jnp.array([[0, 3, 1]])).shape
        (1, 3, 5)
    """

    input_size: int
    num_outputs: int
    context: int
    width: int = 64
    depth: int = 2
    num_heads: int = 4
    num_loops: int = 1
    num_neurons: int = 0
    causal: bool = True
    reads: Reads = "tokens"
    positions: Positions = "learned"
    activation: Nonlinearity = "gelu"

    def __post_init__(self) -> None:
        sizes = ("input_size", "num_outputs", "context", "width")
        for name in (*sizes, "depth", "num_heads", "num_loops"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.num_neurons < 0:
            raise ValueError(f"num_neurons must not be negative, got {self.num_neurons}.")
        if self.width % self.num_heads:
            raise ValueError(f"num_heads must divide the width {self.width}, got {self.num_heads}.")
        choices = {"reads": Reads, "positions": Positions, "activation": Nonlinearity}
        for name, allowed in choices.items():
            if getattr(self, name) not in get_args(allowed):
                raise ValueError(
                    f"{name} must be one of {', '.join(get_args(allowed))}, "
                    f"got {getattr(self, name)!r}."
                )
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(
                f"rotary positions need heads of even width, got width {self.width} / "
                f"{self.num_heads} heads = {self.head_width}."
            )

    @property
    def head_width(self) -> int:
        """Channels e of every head."""
        return self.width // self.num_heads

    @property
    def hidden(self) -> int:
        """Neurons m of every layer."""
        return self.num_neurons or 4 * self.width

    def init(self, key: RandomKey) -> TransformerWeights:
        """Draw weights of variance 1/fan-in; what adds to h is smaller, by √(2 · layers · loops).

        Learned positions have standard deviation 0.02.
        """
        keys = iter(jax.random.split(key, 7))
        layers, width, hidden = self.depth, self.width, self.hidden
        added = 1 / math.sqrt(2 * layers * self.num_loops)

        def drawn(shape: tuple[int, ...], scale: float) -> Array:
            # Drawn flat: a draw of many axes takes long to compile.
            flat = jax.random.normal(next(keys), (math.prod(shape),))
            return scale * flat.reshape(shape)

        def norm(*stack: int) -> Norm:
            return Norm(jnp.ones((*stack, width)), jnp.zeros((*stack, width)))

        # A token is a unit vector, of which one row is read; vectors have entries of size 1.
        fan_in = 1 if self.reads == "tokens" else self.input_size
        num_positions = self.context if self.positions == "learned" else 0
        return TransformerWeights(
            read=drawn((self.input_size, width), fan_in**-0.5),
            positions=drawn((num_positions, width), 0.02),
            layers=TransformerLayer(
                norm(layers),
                drawn((layers, width, 3 * width), width**-0.5),
                drawn((layers, width, width), added * width**-0.5),
                norm(layers),
                drawn((layers, width, hidden), width**-0.5),
                jnp.zeros((layers, hidden)),
                drawn((layers, hidden, width), added * hidden**-0.5),
                jnp.zeros((layers, width)),
            ),
            before_output=norm(),
            output=drawn((width, self.num_outputs), width**-0.5),
        )

    def apply(self, params: TransformerWeights, x: Inputs) -> Float[Array, "b n k"]:
        """The outputs at every position.

        Args:
            params: The weights.
            x: Tokens (b, n), or vectors (b, n, d); n at most the context.
        """
        self._check(x)
        return self._outputs(params, self._run(params, x, None)[0])

    def attention(self, params: TransformerWeights, x: Inputs) -> Float[Array, "l b h n n"]:
        """The attention weights of each position (second last axis) on all others (last), by layer.

        Args:
            params: The weights.
            x: As for `apply`.
        """
        self._check(x)
        maps = self._run(params, x, None, keep_maps=True)[1]
        return maps.reshape(-1, *maps.shape[2:])

    def init_cache(self, batch_size: int) -> Cache:
        """An empty cache for `batch_size` sequences."""
        if not self.causal:
            raise ValueError("only a causal transformer has a cache: causal must be True.")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
        sizes = (batch_size, self.context, self.num_heads, self.head_width)
        empty = jnp.zeros((self.num_loops, self.depth, *sizes))
        return Cache(Memory(empty, empty), jnp.zeros((), int))

    def extend(
        self, params: TransformerWeights, cache: Cache, x: Inputs
    ) -> tuple[Float[Array, "b n k"], Cache]:
        """The outputs at new positions after those of the cache, and the longer cache.

        Inside a compiled function nobody can check that all positions fit into the context.

        Args:
            params: The weights.
            cache: What was read so far, from `init_cache` or `extend`.
            x: What comes next, as for `apply`.
        """
        self._check(x)
        length = cache.length
        if not isinstance(length, Tracer) and int(length) + x.shape[1] > self.context:
            raise ValueError(
                f"the context has {self.context} positions, got {int(length)} + {x.shape[1]}."
            )
        h, _, memory = self._run(params, x, cache)
        return self._outputs(params, h), Cache(memory, length + x.shape[1])

    @partial(jax.jit, static_argnames="self")
    def _outputs(self, params: TransformerWeights, h: Float[Array, "b n w"]) -> Array:
        return _times(_normalized(params.before_output, h), params.output)

    @partial(jax.jit, static_argnames=("self", "keep_maps"))
    def _run(
        self, params: TransformerWeights, x: Inputs, cache: Cache | None, keep_maps: bool = False
    ) -> tuple[Float[Array, "b n w"], Any, Any]:
        """What leaves the last layer; the attention of every pass, and the memory, if wanted."""
        start = jnp.zeros((), int) if cache is None else cache.length
        positions = start + jnp.arange(x.shape[1])
        h = self._read(params, x, positions)

        def layer(h: Array, slot: tuple[TransformerLayer, Memory | None]) -> tuple[Array, tuple]:
            weights, memory = slot
            added, map_, memory = self._attend(weights, h, positions, memory)
            h = h + added
            rows = _normalized(weights.before_neurons, h)
            bend = jax.nn.gelu if self.activation == "gelu" else jax.nn.relu
            neurons = bend(_times(rows, weights.up) + weights.up_bias[None, None])
            h = h + _times(neurons, weights.down) + weights.down_bias[None, None]
            return h, (map_ if keep_maps else None, memory)

        def loop(h: Array, memory: Memory | None) -> tuple[Array, tuple]:
            unroll = self.depth if self.depth <= _UNROLLED else 1
            return jax.lax.scan(layer, h, (params.layers, memory), unroll=unroll)

        memory = None if cache is None else cache.memory
        h, (maps, memory) = jax.lax.scan(loop, h, memory, length=self.num_loops)
        return h, maps, memory

    def _read(self, params: TransformerWeights, x: Inputs, positions: Int[Array, " n"]) -> Array:
        if self.reads == "tokens":
            h = params.read.at[x].get(mode="fill", fill_value=jnp.nan)  # an unknown token is NaN
        else:
            h = _times(x, params.read)
        return h + params.positions[positions][None] if self.positions == "learned" else h

    def _attend(
        self,
        weights: TransformerLayer,
        h: Float[Array, "b n w"],
        positions: Int[Array, " n"],
        memory: Memory | None,
    ) -> tuple[Float[Array, "b n w"], Float[Array, "b h n m"], Memory | None]:
        """What attention adds, its map, and the memory with the new positions in it."""
        mixed = _times(_normalized(weights.before_attention, h), weights.mix)
        split = mixed.reshape(*h.shape[:2], 3, self.num_heads, self.head_width)
        queries, keys, values = split[:, :, 0], split[:, :, 1], split[:, :, 2]
        if self.positions == "rotary":
            queries, keys = rotary(queries, positions), rotary(keys, positions)
        seen = positions
        if memory is not None:
            at = (0, positions[0], 0, 0)
            memory = Memory(
                jax.lax.dynamic_update_slice(memory.keys, keys, at),
                jax.lax.dynamic_update_slice(memory.values, values, at),
            )
            keys, values, seen = memory.keys, memory.values, jnp.arange(self.context)
        scores = jnp.einsum("bnhe,bmhe->bhnm", queries, keys) / math.sqrt(self.head_width)
        if self.causal:
            earlier = seen[None, :] <= positions[:, None]
            scores = jnp.where(earlier[None, None], scores, -jnp.inf)
        map_ = jax.nn.softmax(scores)
        heads = jnp.einsum("bhnm,bmhe->bnhe", map_, values)
        return _times(heads.reshape(h.shape), weights.combine), map_, memory

    def _check(self, x: Inputs) -> None:
        tokens = self.reads == "tokens"
        if x.ndim != (2 if tokens else 3) or jnp.issubdtype(x.dtype, jnp.integer) != tokens:
            wanted = "whole numbers (b, n)" if tokens else f"vectors (b, n, {self.input_size})"
            raise ValueError(f"inputs must be {wanted}, got {x.dtype} of shape {x.shape}.")
        if not tokens and x.shape[-1] != self.input_size:
            raise ValueError(f"vectors must have {self.input_size} entries, got {x.shape[-1]}.")
        if not 1 <= x.shape[1] <= self.context:
            raise ValueError(
                f"inputs must have between 1 and {self.context} positions, the context, "
                f"got {x.shape[1]}."
            )


def rotary(x: Float[Array, "b n h e"], positions: Int[Array, " n"]) -> Float[Array, "b n h e"]:
    """Rotary embedding (RoPE): rotate entries j and j + e/2 by the angle position · 10000^(−2j/e).

    The product of a rotated query and a rotated key depends only on the distance between their
    positions.

    Args:
        x: Queries or keys of every head, with an even number e of channels.
        positions: The position of each of the n rows.

    Example:
        >>> rotated = rotary(jnp.array([[[[1.0, 0.0]]]]), jnp.array([1]))
        >>> [round(float(entry), 4) for entry in rotated.ravel()]  # cos 1 and sin 1
        [0.5403, 0.8415]
    """
    half = x.shape[-1] // 2
    speeds = _ROTARY_BASE ** (-jnp.arange(half) / half)
    angles = (positions[:, None] * speeds[None, :]).astype(x.dtype)[None, :, None, :]
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


def greedy_decode(
    model: Transformer, params: TransformerWeights, prompt: Int[Array, "b n"], num_new: int
) -> Int[Array, "b t"]:
    """Greedy decoding: append the most likely next token, `num_new` times, with the cache.

    Args:
        model: A causal transformer on tokens whose outputs are the scores of tokens.
        params: Its weights.
        prompt: Tokens to continue.
        num_new: How many tokens to add.

    Example:
        >>> model = Transformer(5, 5, context=8, width=8, depth=1)
        >>> params = model.init(jax.random.key(0))
        >>> greedy_decode(model, params, jnp.array([[0, 3, 1]]), num_new=4).shape
        (1, 4)
    """
    if num_new < 1 or prompt.shape[1] + num_new - 1 > model.context:
        raise ValueError(
            f"num_new must be at least 1, and prompt and new tokens must fit into the context "
            f"{model.context}, got {prompt.shape[1]} and {num_new}."
        )
    outputs, cache = model.extend(params, model.init_cache(len(prompt)), prompt)

    def step(state: tuple[Array, Cache], _: None) -> tuple[tuple[Array, Cache], Array]:
        token, cache = state
        outputs, cache = model.extend(params, cache, token[:, None])
        new = outputs[:, -1].argmax(axis=-1).astype(prompt.dtype)
        return (new, cache), new

    first = outputs[:, -1].argmax(axis=-1).astype(prompt.dtype)
    _, rest = jax.lax.scan(step, (first, cache), length=num_new - 1)
    return jnp.concatenate([first[:, None], rest.T], axis=1)


def _times(h: Float[Array, "b n v"], weights: Float[Array, "v w"]) -> Float[Array, "b n w"]:
    """The product of every row. Rows of all sequences lie along one axis for it.

    So the gradient by the weights contracts one axis; with two of them XLA copies its factors into
    an order that takes twice as long.
    """
    return (h.reshape(-1, h.shape[-1]) @ weights).reshape(*h.shape[:-1], weights.shape[-1])


def _normalized(norm: Norm, h: Float[Array, "b n w"]) -> Float[Array, "b n w"]:
    centred = h - h.mean(axis=-1, keepdims=True)
    size = jax.lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + _SMALLEST_VARIANCE)
    return centred * size * norm.scale[None, None] + norm.shift[None, None]
