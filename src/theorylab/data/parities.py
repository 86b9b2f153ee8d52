"""Parities: labels that are products of a few signs, with their exact moments.

    sparse parity    x uniform on {−1, 1}ᵈ,   y = ∏_{l ∈ A} x_l,   |A| = k
    block parity     y = sign(Σⱼ ∏_{l ∈ Aⱼ} x_l),   blocks A₁, …, A_r of k coordinates, k and r odd

In a block parity the kr relevant coordinates x_A are, with probability

    1 − 2rp_A    fair signs: X_U, on which only the products say something
    p_A          all +1 in block j and 0 in the other blocks: X_{j,+}, of label +1
    p_A          all −1 in block j and 0 in the other blocks: X_{j,−}, of label −1

and each of the others is +1 or −1 with probability p_o, or 0. So every block has the direction
Dⱼ = Σ_{Aⱼ} e_l/√k, which X_{j,±} show, and

    E[y] = 0,   E[yx_l] = 2p_A in A, 0 outside,
    E[x_l x_l'] = 1 − 2(r − 1)p_A if l = l', 2p_A in one block, 0 in two;   2p_o δ_ll' outside.

(The source says that E[yx] = 0 because the law is symmetric; but y and x are both odd, and their
product is even.) Relevant coordinates come first. A rotation x ↦ Mx, as the source has it, changes
nothing for networks whose start has no preferred axes.

Source: shi · case-parity · §3.4.2, B.5.4; shi · case-uniform-parity · B.5.5.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.typing import RandomKey

from .dataset import Dataset
from .inputs import check_at_least
from .targets import SYNTHETIC, parity

_MOST_BITS = 20  # of an enumeration: a million points


@dataclass(frozen=True)
class SparseParity:
    """y = x₁⋯x_k on the d fair signs of a hypercube.

    Args:
        dimension: d.
        num_bits: k.

    Example:
        >>> x, y = SparseParity(dimension=3, num_bits=2).points()
        >>> x[1].tolist(), y[1].tolist()
        ([1.0, 1.0, -1.0], 1.0)
    """

    dimension: int
    num_bits: int

    def __post_init__(self) -> None:
        check_at_least("num_bits", self.num_bits, 1)
        check_at_least("dimension", self.dimension, self.num_bits)

    @property
    def direction(self) -> Float[Array, " d"]:
        """D = Σ_A e_l/√k."""
        return _indicator(self.dimension, 0, self.num_bits)

    @property
    def label_mean(self) -> Float[Array, " d"]:
        """E[yx], which is 0 unless k = 1."""
        return self.direction * (self.num_bits == 1)

    @property
    def second_moment(self) -> Float[Array, "d d"]:
        """E[xxᵀ] = I."""
        return jnp.eye(self.dimension)

    def sample(self, key: RandomKey, num_samples: int) -> Dataset:
        """Draw signs, and answer the product of the first k."""
        return parity(key, num_samples, self.dimension, self.num_bits)

    def points(self) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """All 2ᵈ inputs, which are equally likely, and their labels."""
        x = _all_signs(self.dimension)
        return x, x[:, : self.num_bits].prod(axis=1)


@dataclass(frozen=True)
class BlockParity:
    """The majority of r parities of k signs, with examples that show one block alone.

    Args:
        dimension: d.
        block_size: k, odd and at least 3.
        num_blocks: r, odd.
        block_probability: p_A, of X_{j,+} and of X_{j,−} for each block.
        background: p_o, of +1 and of −1 for coordinates outside the blocks.

    Example:
        >>> law = BlockParity(dimension=48, block_size=5, num_blocks=3, block_probability=1 / 12)
        >>> round(law.mean_square, 12)
        23.2
    """

    dimension: int
    block_size: int
    num_blocks: int = 1
    block_probability: float = 0.25
    background: float = 0.2

    def __post_init__(self) -> None:
        check_at_least("block_size", self.block_size, 3)
        check_at_least("num_blocks", self.num_blocks, 1)
        if self.block_size % 2 == 0 or self.num_blocks % 2 == 0:
            raise ValueError(
                "block_size and num_blocks must be odd, "
                f"got {self.block_size} and {self.num_blocks}."
            )
        check_at_least("dimension", self.dimension, self.num_relevant)
        if not 0 <= 2 * self.num_blocks * self.block_probability <= 1:
            raise ValueError(
                f"block_probability must be in [0, 1/(2 num_blocks)], got {self.block_probability}."
            )
        if not 0 <= self.background <= 0.5:
            raise ValueError(f"background must be in [0, 1/2], got {self.background}.")

    @property
    def num_relevant(self) -> int:
        """|A| = kr."""
        return self.block_size * self.num_blocks

    @property
    def directions(self) -> Float[Array, "r d"]:
        """Dⱼ = Σ_{Aⱼ} e_l/√k."""
        k = self.block_size
        rows = [_indicator(self.dimension, k * j, k) for j in range(self.num_blocks)]
        return jnp.stack(rows)

    @property
    def label_mean(self) -> Float[Array, " d"]:
        """E[yx] = 2p_A in A, 0 outside."""
        relevant = jnp.arange(self.dimension) < self.num_relevant
        return 2 * self.block_probability * relevant.astype(float)

    @property
    def second_moment(self) -> Float[Array, "d d"]:
        """E[xxᵀ]; E[x] = 0."""
        k, r, p = self.block_size, self.num_blocks, self.block_probability
        block = 2 * p * np.ones((k, k)) + (1 - 2 * r * p) * np.eye(k)
        moments = 2 * self.background * np.eye(self.dimension)
        moments[: k * r, : k * r] = np.kron(np.eye(r), block)
        return jnp.asarray(moments)

    @property
    def mean_square(self) -> float:
        """E‖x‖² = kr(1 − 2(r − 1)p_A) + 2p_o(d − kr)."""
        rest = self.dimension - self.num_relevant
        shown = 1 - 2 * (self.num_blocks - 1) * self.block_probability
        return self.num_relevant * shown + 2 * self.background * rest

    def labels(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """Y = sign(Σⱼ ∏_{l ∈ Aⱼ} x_l), of inputs of this law."""
        shape = (-1, self.num_blocks, self.block_size)
        blocks = x[:, : self.num_relevant].reshape(shape)
        return jnp.sign(blocks.prod(axis=2).sum(axis=1))

    def sample(self, key: RandomKey, num_samples: int) -> Dataset:
        """Draw which component, then signs."""
        check_at_least("num_samples", num_samples, 1)
        component_key, sign_key, rest_key = jax.random.split(key, 3)
        r, k = self.num_blocks, self.block_size
        signs = jax.random.rademacher(sign_key, (num_samples, self.num_relevant)).astype(float)
        # A part of (0, 1) of length p_A for every X_{j,±}; above them all is X_U.
        place = jax.random.uniform(component_key, (num_samples,))
        width = max(self.block_probability, 1e-30)  # of no length: none below
        shown = jnp.floor(place / width)
        block = jnp.where(place < 2 * r * self.block_probability, shown // 2, -1)
        sign = 1 - 2 * (shown % 2)
        here = block[:, None] == jnp.repeat(jnp.arange(r), k)[None, :]
        alone = jnp.where(here, sign[:, None], 0.0)
        relevant = jnp.where((block < 0)[:, None], signs, alone)
        x = jnp.concatenate([relevant, self._rest(rest_key, num_samples)], axis=1)
        return self._dataset(x, "")

    def sample_uniform(self, key: RandomKey, num_samples: int) -> Dataset:
        """Draw from X_U alone, where nothing but the products helps."""
        check_at_least("num_samples", num_samples, 1)
        sign_key, rest_key = jax.random.split(key)
        signs = jax.random.rademacher(sign_key, (num_samples, self.num_relevant)).astype(float)
        x = jnp.concatenate([signs, self._rest(rest_key, num_samples)], axis=1)
        return self._dataset(x, ", fair signs only")

    def patterns(self) -> tuple[Float[Array, "n a"], Float[Array, " n"]]:
        """All values of the kr relevant coordinates, and their probabilities."""
        k, r = self.block_size, self.num_blocks
        uniform = _all_signs(self.num_relevant)
        shown = jnp.repeat(jnp.eye(r), k, axis=1)
        share = (1 - 2 * r * self.block_probability) / len(uniform)
        chances = [jnp.full(len(uniform), share), jnp.full(2 * r, self.block_probability)]
        return jnp.concatenate([uniform, shown, -shown]), jnp.concatenate(chances)

    def _rest(self, key: RandomKey, num_samples: int) -> Float[Array, "n rest"]:
        """The coordinates outside the blocks."""
        draws = jax.random.uniform(key, (num_samples, self.dimension - self.num_relevant))
        p = self.background
        return (draws < p).astype(float) - (draws > 1 - p).astype(float)

    def _dataset(self, x: Float[Array, "n d"], words: str) -> Dataset:
        law = (
            f"majority of {self.num_blocks} parities of {self.block_size} signs, "
            f"p_A = {self.block_probability:.3g}, p_o = {self.background:.3g}{words}"
        )
        return Dataset(x, self.labels(x)[:, None], law, SYNTHETIC)


def _indicator(dimension: int, first: int, count: int) -> Float[Array, " d"]:
    """1/√count on some coordinates that follow each other, 0 on the others."""
    places = np.arange(dimension)
    return jnp.asarray(((places >= first) & (places < first + count)) / math.sqrt(count))


def _all_signs(count: int) -> Float[Array, "n d"]:
    """All 2ᵈ corners of a hypercube, the last coordinate changing fastest; the first is all +1."""
    if count > _MOST_BITS:
        raise ValueError(f"there must be at most {_MOST_BITS} signs to list, got {count}.")
    places = np.arange(count)[::-1]
    bits = np.arange(2**count)[:, None] >> places[None, :] & 1
    return jnp.asarray(1.0 - 2.0 * bits)
