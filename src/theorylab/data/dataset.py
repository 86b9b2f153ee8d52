"""A dataset: inputs, outputs, and in words the law that they follow and where they come from."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
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
    law: str = ""
    source: str = ""

    @classmethod
    def from_table(cls, inputs: Any, targets: Any, classes: bool | None = None) -> "Dataset":
        """Take a table as data scientists have it, in float32.

        Two classes become −1 and +1 in one column, in the order of their names; more become one-hot
        rows; numbers stay as they are.

        Args:
            inputs: X, one row of numbers for each sample (or an image): an array, a list, a frame.
            targets: y, one class or number for each sample, or a row of numbers.
            classes: Whether targets are classes. By default words, booleans and whole numbers are,
                if there is one for each sample.

        Example:
            >>> print(Dataset.from_table([[0.5, 1], [2, 3], [4, 5]], ["cat", "dog", "cat"]))
            3 samples (2,) ─► (1,): cat −1, dog +1. Source: a table.
        """
        x, named = _numbers("inputs", inputs), np.asarray(targets)
        if x.ndim < 2 or named.ndim not in (1, 2) or len(x) != len(named) or not x.size:
            raise ValueError(
                "a table needs inputs (n, d) and as many targets (n,), "
                f"got {x.shape} and {named.shape}."
            )
        column = named[:, 0] if named.ndim == 2 and named.shape[1] == 1 else named
        if column.ndim == 1 and (_are_classes(column) if classes is None else classes):
            y, law = _encoded(column)
        elif classes:
            raise ValueError(f"classes must be one for each sample, got {named.shape}.")
        else:
            y, law = np.reshape(_numbers("targets", named), (len(x), -1)), "numbers"
        return cls(jnp.asarray(x), jnp.asarray(y), law, "a table")

    def __post_init__(self) -> None:
        if self.y.ndim != 2 or self.x.ndim < 2 or self.x.shape[0] != self.y.shape[0]:
            raise ValueError(
                "a dataset needs inputs (n, ...) and outputs (n, k), "
                f"got {self.x.shape} and {self.y.shape}."
            )

    def __str__(self) -> str:
        shapes = f"{self.input_shape} ─► ({self.num_outputs},)"
        law = f": {self.law}." if self.law else "."
        source = f" Source: {self.source}." if self.source else ""
        return f"{self.num_samples} samples {shapes}{law}{source}"

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


def _numbers(what: str, table: Any) -> np.ndarray:
    """A table in float32, without gaps."""
    try:
        if np.iscomplexobj(table):
            raise TypeError("got complex ones")
        with np.errstate(over="ignore"):  # what does not fit into float32 is refused below
            numbers = np.asarray(table, dtype=float).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be numbers, in rows of one length: {error}.") from error
    gaps = np.argwhere(~np.isfinite(numbers))
    if len(gaps):
        where = tuple(int(index) for index in gaps[0])
        raise ValueError(
            f"{what} must be finite in float32, got {len(gaps)} that are not, first at {where}."
        )
    return numbers


def _are_classes(column: np.ndarray) -> bool:
    """Whether these are words, booleans or whole numbers."""
    if column.dtype.kind not in "fc":
        return True
    return bool(np.isfinite(column).all() and (column == np.round(column)).all())


def _encoded(column: np.ndarray) -> tuple[np.ndarray, str]:
    """Classes as one column of signs, or as one-hot rows; and which is which."""
    missing = [name is None or name != name for name in column.tolist()]
    if any(missing):
        raise ValueError(f"targets must have no gaps, got one in row {missing.index(True)}.")
    try:
        names, places = np.unique(column, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"classes must be of one kind: {error}.") from error
    if not 2 <= len(names) <= max(2, len(column) // 2):
        raise ValueError(
            "targets must have at least two classes, with two samples each on average (numbers are "
            f"said by classes=False), got {len(names)} classes in {len(column)} samples."
        )
    if len(names) == 2:
        signs = np.where(places == 1, 1, -1)[:, None]
        return signs.astype(np.float32), f"{names[0]} −1, {names[1]} +1"
    return np.eye(len(names), dtype=np.float32)[places], f"{len(names)} classes, one-hot"
