"""What `fixed_feature_bound` and `statistical_queries` share: all inputs, features, a drawn set."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
from jaxtyping import Array, Float, Int, Key

from theorylab.data import SparseParity
from theorylab.features.emergence.lower_bounds import drawn_features
from theorylab.fields import Count, Odd, Seeded, within
from theorylab.typing import RandomKey


@dataclass(frozen=True)
class ListedInputs(Seeded):
    """Fixed features on all inputs, and parities of k signs."""

    dimension: Annotated[int, within(4, 16)] = 14  # D; all 2ᴰ inputs are listed
    num_bits: Odd = 5  # k
    num_neurons: Count = 6  # h of the tangent features, even; N = h(D + 2) features of each kind
    num_seeds: Annotated[int, within(1, 10**5)] = 20  # features and sets, at least 6 to conclude

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 3 <= self.num_bits <= self.dimension:
            raise ValueError(f"num_bits must be from 3 to dimension, got {self.num_bits}.")
        if self.num_neurons % 2 or self.num_neurons > 100:
            raise ValueError(f"num_neurons must be even and at most 100, got {self.num_neurons}.")

    @property
    def num_features(self) -> int:
        """N = h(D + 2), the parameters of h neurons."""
        return self.num_neurons * (self.dimension + 2)

    @property
    def inputs(self) -> Float[Array, "n d"]:
        """All 2ᴰ vectors of signs."""
        return SparseParity(self.dimension, self.num_bits).points()[0]

    @property
    def keys(self) -> Key[Array, " seeds"]:
        """One for every seed."""
        return jax.random.split(jax.random.key(self.seed), self.num_seeds)


class Draw(NamedTuple):
    """Features, and a set of signs that was drawn after them."""

    features: Float[Array, "3 n m"]  # random, tangent and Fourier features
    relevant: Int[Array, " k"]
    labels: Float[Array, " n"]  # the parity of the set
    query_key: RandomKey
    descent_key: RandomKey


def draw(key: RandomKey, x: Float[Array, "n d"], config: ListedInputs) -> Draw:
    """Draw features, then a set."""
    feature_key, set_key, query_key, descent_key = jax.random.split(key, 4)
    features = drawn_features(feature_key, x, config.num_neurons)
    relevant = jax.random.permutation(set_key, config.dimension)[: config.num_bits]
    return Draw(features, relevant, x[:, relevant].prod(axis=1), query_key, descent_key)
