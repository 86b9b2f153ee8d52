"""Parities of blocks of signs: the settings, the schedule and the measurements that are shared.

The label is the majority of r parities, each of a block of k signs. In half of the examples one
block is shown alone, all +1 or all −1; in the others all signs are fair.

Source: shi · case-parity · §3.4.2, B.5.4.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.data import BlockParity
from theorylab.features import gradient
from theorylab.fields import Count, Odd, Plural, Positive, Seeded

BACKGROUND = 0.2  # p_o
FIRST_RATE = 0.1  # η⁽¹⁾, small: outputs are drawn large instead
LEARNING_RATE = 0.006  # η after the first step, falling to 0


def block_law(dimension: int, block_size: int, num_blocks: int) -> BlockParity:
    """So many blocks, one of which is shown in half of the samples."""
    return BlockParity(dimension, block_size, num_blocks, 1 / (4 * num_blocks), BACKGROUND)


@dataclass(frozen=True)
class Blocks(Seeded):
    """A parity of blocks, and a network that learns it online."""

    dimension: Count = 48  # d
    block_size: Odd = 5  # k
    width: Count = 64  # m; the networks have 4m neurons
    bias: Positive = 4.0  # b̃, with weights of variance 1
    batch_size: Count = 512  # fresh samples in each step
    num_steps: Plural = 1600
    num_test: Count = 4096
    num_seeds: Count = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.law(1)  # refuses what does not fit together

    def law(self, num_blocks: int) -> BlockParity:
        """The law with so many blocks."""
        return block_law(self.dimension, self.block_size, num_blocks)


def falling(num_steps: int) -> Float[Array, " t"]:
    """Factors of learning rates, from 1 to 0, so that the noise of samples dies out."""
    return 1 - jnp.arange(num_steps) / num_steps


def best_cosines(weights: Float[Array, "m d"], law: BlockParity) -> Float[Array, " r"]:
    """For every block, the largest cosine of a neuron with its direction."""
    lengths = jnp.linalg.norm(weights, axis=1, keepdims=True)
    return (jnp.abs(weights @ law.directions.T) / (lengths + 1e-12)).max(axis=0)


def shown_error(network: gradient.ReluNetwork, x: Float[Array, "n d"], law: BlockParity) -> Array:
    """The error on those inputs that show one block, where all other blocks are 0."""
    shows = (x[:, : law.num_relevant] == 0).any(axis=1)
    wrong = law.labels(x) * network(x) <= 0
    return (wrong & shows).sum() / jnp.maximum(shows.sum(), 1)
