"""A dataset: inputs, outputs, and in words the law that they follow and where they come from."""

from dataclasses import dataclass, replace
from math import prod

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from theorylab.typing import RandomKey


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class Dataset:
    """n samples (x, y). A pytree of two arrays, so it goes through `jit` and `vmap`.

    Args:
        x: Inputs; the first axis counts the samples.
        y: Outputs, one row for each sample.
        law: What the samples are, in words or as a formula.
        source: Where they come from.

    Example:
        >>> line = Dataset(jnp.ones((5, 3)), jnp.zeros((5, 1)), law="y = 0", source="made up")
        >>> print(line)
        5 samples (3,) ─► (1,): y = 0. Source: made up.
    """

    x: Float[Array, "n ..."]
    y: Float[Array, "n k"]
    law: str
    source: str

    def __post_init__(self) -> None:
        if self.y.ndim != 2 or self.x.ndim < 2 or self.x.shape[0] != self.y.shape[0]:
            raise ValueError(
                "a dataset needs inputs (n, ...) and outputs (n, k), "
                f"got {self.x.shape} and {self.y.shape}."
            )

    def __str__(self) -> str:
        shapes = f"{self.input_shape} ─► ({self.num_outputs},)"
        return f"{self.num_samples} samples {shapes}: {self.law}. Source: {self.source}."

    @property
    def num_samples(self) -> int:
        """The number of samples n."""
        return self.y.shape[0]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input: (d,), or (height, width, channels) of an image."""
        return self.x.shape[1:]

    @property
    def num_outputs(self) -> int:
        """The number of outputs k."""
        return self.y.shape[1]

    def subset(self, indices: Int[Array, " m"] | slice) -> "Dataset":
        """Keep the samples with these indices."""
        return replace(self, x=self.x[indices], y=self.y[indices])

    def shuffled(self, key: RandomKey) -> "Dataset":
        """Bring the samples into a random order."""
        return self.subset(jax.random.permutation(key, self.num_samples))

    def split(self, num_first: int) -> tuple["Dataset", "Dataset"]:
        """Cut into the first samples and the rest; shuffle before if the order means something.

        Example:
            >>> line = Dataset(jnp.ones((5, 3)), jnp.zeros((5, 1)), "y = 0", "made up")
            >>> [part.num_samples for part in line.split(3)]
            [3, 2]
        """
        if not 0 < num_first < self.num_samples:
            raise ValueError(f"num_first must be in (0, {self.num_samples}), got {num_first}.")
        return self.subset(slice(num_first)), self.subset(slice(num_first, None))

    def reshaped(self, *input_shape: int) -> "Dataset":
        """Give every input another shape, `mnist5k().reshaped(28, 28, 1)` for convolutions."""
        if prod(input_shape) != prod(self.input_shape):
            raise ValueError(f"inputs {self.input_shape} cannot be reshaped to {input_shape}.")
        return replace(self, x=jnp.reshape(self.x, (self.num_samples, *input_shape)))

    def flat(self) -> "Dataset":
        """Give every input one axis, as fully connected networks want them."""
        return self.reshaped(prod(self.input_shape))

    def centred(self) -> "Dataset":
        """Subtract the mean of flat inputs, then bring each to length 1: no common direction."""
        if len(self.input_shape) != 1:
            raise ValueError(f"inputs must be flat to be centred, got {self.input_shape}.")
        x = self.x - jnp.mean(self.x, axis=0, keepdims=True)
        x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
        return replace(self, x=x, law=f"{self.law}, inputs centred and of length 1")

    def tree_flatten(self) -> tuple[tuple, tuple]:
        """Take apart into arrays and words, for JAX."""
        return (self.x, self.y), (self.law, self.source)

    @classmethod
    def tree_unflatten(cls, words: tuple, arrays: tuple) -> "Dataset":
        """Put together again, for JAX; unchecked, because leaves need not be arrays there."""
        dataset = object.__new__(cls)
        for name, value in zip(("x", "y", "law", "source"), arrays + words, strict=True):
            object.__setattr__(dataset, name, value)
        return dataset
