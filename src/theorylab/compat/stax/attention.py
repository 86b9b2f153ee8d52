"""`GlobalSelfAttention` by Neural Tangents' arguments.

With `linear_scaling=True`, the default, logits are divided by the channels of a key and queries are
keys; with False by their root, and only the mechanism "IDENTITY" has a kernel in closed form.
"""

from collections.abc import Callable
from typing import Any, Literal

import jax

from theorylab.models import Architecture, SelfAttention
from theorylab.models.architecture import Shape
from theorylab.models.positional import PositionalEmbedding
from theorylab.typing import Params, Scalar

from ..layer import Layer, layer_of
from ..nodes import Leaf, Reading
from .weights import check_axes, number


def GlobalSelfAttention(
    n_chan_out: int,
    n_chan_key: int,
    n_chan_val: int,
    n_heads: int,
    linear_scaling: bool = True,
    W_key_std: Scalar = 1.0,
    W_value_std: Scalar = 1.0,
    W_query_std: Scalar = 1.0,
    W_out_std: Scalar = 1.0,
    b_std: Scalar | None = None,
    attention_mechanism: str = "SOFTMAX",
    pos_emb_type: str = "NONE",
    pos_emb_p_norm: float | int = 2,
    pos_emb_decay_fn: Callable | None = None,
    n_chan_pos_emb: int | None = None,
    W_pos_emb_std: Scalar = 1.0,
    val_pos_emb: bool = False,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> Layer:
    """Attention of every position to all positions.

    Args:
        n_chan_out: The channels that come out.
        n_chan_key: The channels of the keys of a head.
        n_chan_val: The channels of the values of a head.
        n_heads: The number of heads.
        linear_scaling: Whether logits are divided by the channels of a key, with queries as keys.
        W_key_std: σ of the keys' matrix.
        W_value_std: σ of the values' matrix.
        W_query_std: σ of the queries' matrix.
        W_out_std: σ of the matrix after the heads.
        b_std: σ_b; None: no bias.
        attention_mechanism: "SOFTMAX", "IDENTITY", "ABS" or "RELU" of the logits.
        pos_emb_type: "NONE", "SUM" or "CONCAT": how embeddings of positions join the inputs.
        pos_emb_p_norm: The distance of two positions is Σ |s − s′|ᵖ.
        pos_emb_decay_fn: The covariance of embeddings by distance; None: independent.
        n_chan_pos_emb: The channels of embeddings that stand beside the inputs.
        W_pos_emb_std: σ of the embeddings.
        val_pos_emb: Whether values see the embeddings.
        batch_axis: 0.
        channel_axis: −1.

    Example:
        >>> layer = GlobalSelfAttention(3, n_chan_key=4, n_chan_val=2, n_heads=2)
        >>> layer.init_fn(jax.random.key(0), (-1, 5, 6))[0]
        (-1, 5, 3)
    """
    check_axes(batch_axis, channel_axis)
    of_positions = (W_pos_emb_std, pos_emb_decay_fn, float(pos_emb_p_norm), n_chan_pos_emb)
    embedding = _embedding(pos_emb_type, *of_positions, val_pos_emb)
    sizes = (n_chan_out, n_heads, n_chan_key, n_chan_val)
    scales = (W_query_std, W_key_std, W_value_std, W_out_std, b_std)
    return _attention(sizes, scales, linear_scaling, attention_mechanism, embedding)


def _embedding(
    kind: str, scale: Scalar, decay: Any, norm: float, channels: int | None, in_values: bool
) -> PositionalEmbedding | None:
    joins: dict[str, Literal["sum", "concatenate"]] = {"SUM": "sum", "CONCAT": "concatenate"}
    if kind == "NONE":
        return None
    if kind not in joins:
        raise ValueError(f"pos_emb_type must be NONE, SUM or CONCAT, got {kind!r}.")
    return PositionalEmbedding(joins[kind], number(scale), decay, norm, channels, in_values)


def _attention(
    sizes: tuple[int, int, int, int],
    given: tuple[Scalar | None, ...],
    tied: bool,
    mechanism: str,
    embedding: PositionalEmbedding | None,
) -> Layer:
    channels, num_heads, head_width, value_width = sizes
    names = ("query", "key", "value", "output", "bias")
    scales = {name: number(scale) for name, scale in zip(names, given, strict=True)}
    attention = SelfAttention(
        channels,
        num_heads,
        head_width,
        scaling="linear" if tied else "root",
        tied=tied,
        bias=scales["bias"] is not None,
        mechanism=mechanism.lower(),  # type: ignore[arg-type]
        embedding=embedding,
        value_width=value_width,
        **{f"{name}_scale": scale for name, scale in scales.items()},
    )
    return _of(attention, scales)


def _of(attention: SelfAttention, scales: dict[str, Any]) -> Layer:
    embedding, heads = attention.embedding, attention.num_heads

    def layer(shape: Shape, reading: Reading) -> Architecture:
        return attention

    def channels(shape: Shape) -> tuple[int, int]:
        """Those that keys see, and those that values see."""
        if embedding is None:
            return shape[-1], shape[-1]
        seen = embedding.embedded_channels(shape[-1])
        return seen, seen if embedding.in_values else shape[-1]

    def draw(key: Any, shape: Shape) -> tuple:
        normal, keys = jax.random.normal, jax.random.split(key, 6)
        seen, valued = channels(shape)
        queries = normal(keys[0], (heads, seen, attention.head_width))
        rows = None
        if embedding is not None:
            rows = normal(keys[5], (1, *shape[:-1], embedding.channels_at(shape[-1])))
        ones = (1,) * len(shape)
        return (
            None if attention.tied else queries,
            normal(keys[1], (heads, seen, attention.head_width)),
            normal(keys[2], (heads, valued, attention.value_width)),
            normal(keys[3], (attention.value_width * heads, attention.channels)),
            normal(keys[4], (*ones, attention.channels)) if attention.bias else None,
            rows,
        )

    def convert(params: tuple, shape: Shape) -> Params:
        queries, keys, values, output, bias, rows = params
        seen, valued = channels(shape)

        def beside(matrices: jax.Array, scale: Any) -> jax.Array:
            """The matrices of all heads side by side."""
            return scale * matrices.transpose(1, 0, 2).reshape(matrices.shape[1], -1)

        # There, the output's rows go through the heads first, then through their channels.
        rows_out = output.reshape(attention.value_width, heads, -1).transpose(1, 0, 2)
        found = {
            "value": beside(values, scales["value"] * valued**-0.5),
            "output": scales["output"] * len(output) ** -0.5 * rows_out.reshape(output.shape),
        }
        if attention.tied:
            both = (scales["query"] * scales["key"] / seen) ** 0.5
            found["query"] = beside(keys, both)
        else:
            found["query"] = beside(queries, scales["query"] * seen**-0.5)
            found["key"] = beside(keys, scales["key"] * seen**-0.5)
        if embedding is not None:
            found["embedding"] = embedding.scale * rows.reshape(-1, rows.shape[-1])
        return found if bias is None else found | {"bias": scales["bias"] * bias.reshape(-1)}

    return layer_of(Leaf("GlobalSelfAttention", layer, draw, convert, "ntk"))
