"""Embeddings of positions, which attention adds to its inputs or sets beside them.

    e(s) = σ_p Σₜ L(s, t) p(t)        p: trained, normal        R = L Lᵀ
    R(s, s′) = decay(Σₐ |sₐ − s′ₐ|^norm), or 1 where s = s′ and 0 elsewhere

Every channel of e is an independent draw, with covariance σ_p² R between positions.

Source: Hron et al. (2020), arXiv:2006.10540, Section 4.3.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.typing import Scalar

from .scales import check_scale


@dataclass(frozen=True)
class PositionalEmbedding:
    """Trained embeddings of positions, for queries and keys.

    Args:
        join: "sum": added to the inputs; "concatenate": beside them on the channel axis.
        scale: σ_p.
        decay: The covariance of two positions as a function of their distance, an elementwise
            function of arrays; None: positions are independent.
        norm: The distance is Σₐ |sₐ − s′ₐ|^norm over the position axes a.
        channels: How many channels the embeddings have if they are concatenated; None: as many as
            the inputs.
        in_values: True: values see the embeddings too.

    Example: two positions next to each other have the covariance 1/2.
        >>> embedding = PositionalEmbedding(decay=lambda distance: 0.5**distance)
        >>> embedding.covariance((3,)).tolist()
        [[1.0, 0.5, 0.0625], [0.5, 1.0, 0.5], [0.0625, 0.5, 1.0]]
    """

    join: Literal["sum", "concatenate"] = "sum"
    scale: Scalar = 1.0
    decay: Callable[[Array], Array] | None = None
    norm: float = 2.0
    channels: int | None = None
    in_values: bool = False

    def __post_init__(self) -> None:
        if self.join not in ("sum", "concatenate"):
            raise ValueError(f"join must be sum or concatenate, got {self.join!r}.")
        check_scale("scale", self.scale)
        if self.channels is not None and self.join == "sum":
            raise ValueError(
                "channels must not be given where embeddings are added to inputs: they are as "
                f"many as the inputs', got {self.channels}."
            )
        if self.channels is not None and self.channels < 1:
            raise ValueError(f"channels must be at least 1, got {self.channels}.")

    def channels_at(self, channels: int) -> int:
        """How many channels the embeddings have beside inputs with this many."""
        return channels if self.channels is None else self.channels

    def embedded_channels(self, channels: int) -> int:
        """How many channels there are after inputs and embeddings are joined."""
        return channels + (self.channels_at(channels) if self.join == "concatenate" else 0)

    def covariance(self, positions: tuple[int, ...]) -> Float[Array, "s s"]:
        """R between all positions as one axis."""
        if self.decay is None:
            return jnp.eye(math.prod(positions))
        places = np.indices(positions).reshape(len(positions), -1)
        steps = np.abs(places[:, :, None] - places[:, None, :]).astype(float)
        distances = jnp.asarray(np.sum(steps**self.norm, axis=0))
        return jnp.broadcast_to(self.decay(distances), distances.shape)

    def root(self, positions: tuple[int, ...]) -> Float[np.ndarray, "s s"]:
        """L with L Lᵀ = R, lower triangular; an error if R is no covariance."""
        with jax.ensure_compile_time_eval():
            covariance = np.asarray(self.covariance(positions), float)
        try:
            return np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError as error:
            smallest = np.linalg.eigvalsh(covariance)[0]
            raise ValueError(
                "decay must make a positive definite matrix of the distances of positions "
                f"{positions}, got one with the eigenvalue {smallest:.3g}."
            ) from error


def joined(x: Array, embeddings: Array, embedding: Any) -> Array:
    """Inputs (n, s, c) with their embeddings (n or 1, s, p), added or beside one another.

    Example:
        >>> x, e = jnp.ones((2, 3, 4)), jnp.ones((1, 3, 4))
        >>> joined(x, e, PositionalEmbedding()).shape
        (2, 3, 4)
        >>> joined(x, e, PositionalEmbedding("concatenate")).shape
        (2, 3, 8)
    """
    embeddings = jnp.broadcast_to(embeddings, (x.shape[0], *embeddings.shape[1:]))
    if embedding.join == "sum":
        return x + embeddings
    return jnp.concatenate([x, embeddings], axis=-1)
