"""Layers that mix positions, or leave some out: graphs, attention, upsampling, dropout.

    Aggregate        y(s) = Σₜ A(s, t) x(t)                         A: the edges of a graph
    SelfAttention    y = [softmax(Qₕ Kₕᵀ · scale) Vₕ]ₕ W_O          h: the heads
    Upsample         y(s) = x(⌊s/factor⌋), or linear in between
    Resize           the same for any number of positions
    Dropout          y = x · mask/keep while training, y = x else

Source: golikov · ntk-attention · 2.4.4; arora · ntk-practice · §9.5 (graphs).
"""

from dataclasses import dataclass
from typing import Literal, get_args

from theorylab.typing import Scalar

from .architecture import Architecture, Shape, check_sizes
from .positional import PositionalEmbedding
from .scales import check_scale

Mechanism = Literal["softmax", "identity", "abs", "relu"]
Adjacency = tuple[tuple[float, ...], ...]  # A, row by row: hashable


@dataclass(frozen=True)
class Aggregate(Architecture):
    """A weighted sum over neighbours in a graph whose nodes are the positions, (nodes, channels).

    Args:
        graph: A, a row for every node. None: every input has a graph of its own, which is given
            beside the inputs: `apply(params, x, graphs)`, graphs (n, nodes, nodes).

    Example:
        >>> Aggregate(graph=((0.0, 1.0), (1.0, 0.0))).output_shape((2, 3))
        (2, 3)
    """

    graph: Adjacency | None = None

    def __post_init__(self) -> None:
        if self.graph is None:
            return
        if not self.graph or any(len(row) != len(self.graph) for row in self.graph):
            lengths = [len(row) for row in self.graph]
            raise ValueError(f"graph must be a square matrix, got rows of lengths {lengths}.")

    def output_shape(self, input_shape: Shape) -> Shape:
        """Keep it."""
        if len(input_shape) != 2:
            raise ValueError(
                f"Aggregate needs inputs of shape (nodes, channels), got {input_shape}."
            )
        if self.graph is not None and len(self.graph) != input_shape[0]:
            raise ValueError(
                f"Aggregate with a graph of {len(self.graph)} nodes needs inputs with as many, "
                f"got shape {input_shape}."
            )
        return input_shape


@dataclass(frozen=True)
class SelfAttention(Architecture):
    """Attention of every position to all positions.

    With head width m and input channels c, head h has queries Q = xW_Q, keys K = xW_K and values
    V = xW_V, (positions, m), all weights scaled as the parametrization says, and gives
    softmax(QKᵀ · scale) V; the heads, one beside the other, are multiplied by W_O.

    Args:
        channels: The number of channels that come out.
        num_heads: The number of heads.
        head_width: m, the channels of the queries and keys of every head.
        scaling: "root": scale = 1/√m; "linear": 1/m.
        tied: True: W_Q = W_K in every head.
        bias: False: no bias after W_O, even if the network has biases.
        mechanism: "softmax" over the keys, or a function of every logit: "identity", "abs" or
            "relu".
        query_scale: σ of W_Q, in place of the parametrization's.
        key_scale: σ of W_K.
        value_scale: σ of W_V.
        output_scale: σ of W_O.
        bias_scale: σ_b, in place of the parametrization's.
        embedding: Embeddings of positions, trained, which queries and keys see; None: there are
            none.
        value_width: The channels of the values of every head; 0: m.

    Example:
        >>> SelfAttention(channels=8, num_heads=2, head_width=4).output_shape((5, 3))
        (5, 8)
    """

    channels: int
    num_heads: int
    head_width: int
    scaling: Literal["root", "linear"] = "root"
    tied: bool = False
    bias: bool = True
    mechanism: Mechanism = "softmax"
    query_scale: Scalar | None = None
    key_scale: Scalar | None = None
    value_scale: Scalar | None = None
    output_scale: Scalar | None = None
    bias_scale: Scalar | None = None
    embedding: PositionalEmbedding | None = None
    value_width: int = 0

    def __post_init__(self) -> None:
        for name in ("channels", "num_heads", "head_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        for name in ("query", "key", "value", "output", "bias"):
            scale = getattr(self, f"{name}_scale")
            if scale is not None:
                check_scale(f"{name}_scale", scale)
        if self.scaling not in ("root", "linear"):
            raise ValueError(f"scaling must be root or linear, got {self.scaling!r}.")
        if self.mechanism not in get_args(Mechanism):
            must = f"mechanism must be one of {get_args(Mechanism)}"
            raise ValueError(f"{must}, got {self.mechanism!r}.")
        if self.value_width < 0:
            raise ValueError(f"value_width must be at least 0, got {self.value_width}.")
        object.__setattr__(self, "value_width", self.value_width or self.head_width)

    def output_shape(self, input_shape: Shape) -> Shape:
        """Keep the positions, replace the channels."""
        if len(input_shape) < 2:
            raise ValueError(
                f"SelfAttention needs inputs with positions and channels, got shape {input_shape}."
            )
        return (*input_shape[:-1], self.channels)


@dataclass(frozen=True)
class Upsample(Architecture):
    """More positions: each one repeated, or linear in between.

    Args:
        factors: By how much, along every position axis.
        method: "nearest" or "linear".

    Example:
        >>> Upsample((2, 2)).output_shape((4, 4, 3))
        (8, 8, 3)
    """

    factors: tuple[int, ...]
    method: Literal["nearest", "linear"] = "nearest"

    def __post_init__(self) -> None:
        if not self.factors or min(self.factors) < 1:
            raise ValueError(f"factors must be at least 1 along every axis, got {self.factors}.")
        if self.method not in ("nearest", "linear"):
            raise ValueError(f"method must be nearest or linear, got {self.method!r}.")

    def output_shape(self, input_shape: Shape) -> Shape:
        """Multiply the positions."""
        if len(input_shape) != len(self.factors) + 1:
            raise ValueError(
                f"Upsample by {self.factors} needs inputs with {len(self.factors)} position axes "
                f"and a channel axis, got shape {input_shape}."
            )
        return (*(s * f for s, f in zip(input_shape, self.factors, strict=False)), input_shape[-1])


@dataclass(frozen=True)
class Resize(Architecture):
    """As many positions as asked for, more or fewer: the nearest ones, or linear in between.

    Args:
        positions: How many, along every position axis.
        method: "nearest" or "linear".
        antialias: Whether fewer positions are means over the cells they stand for, weighted by a
            triangle, rather than values between two neighbours.

    Example:
        >>> Resize((6, 2)).output_shape((4, 4, 3))
        (6, 2, 3)
    """

    positions: tuple[int, ...]
    method: Literal["nearest", "linear"] = "linear"
    antialias: bool = True

    def __post_init__(self) -> None:
        check_sizes("positions", self.positions)
        if self.method not in ("nearest", "linear"):
            raise ValueError(f"method must be nearest or linear, got {self.method!r}.")

    def output_shape(self, input_shape: Shape) -> Shape:
        """Replace the positions."""
        if len(input_shape) != len(self.positions) + 1:
            raise ValueError(
                f"Resize to {self.positions} needs inputs with {len(self.positions)} position axes "
                f"and a channel axis, got shape {input_shape}."
            )
        return (*self.positions, input_shape[-1])


@dataclass(frozen=True)
class Dropout(Architecture):
    """Keep every coordinate with some probability and divide it by that; keep all in evaluation.

    Args:
        keep: The probability.

    Example:
        >>> Dropout(keep=0.9).output_shape((4,))
        (4,)
    """

    keep: float

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ValueError(f"keep must be in (0, 1], got {self.keep}.")

    def output_shape(self, input_shape: Shape) -> Shape:
        """Keep it."""
        return input_shape
