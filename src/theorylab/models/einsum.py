"""The product of every input with a fixed array, over any of its axes, in Einstein's notation.

    Einsum("sc,ts->tc", A)      y(t) = Σₛ A(t, s) x(s)              positions mixed by a matrix
    Einsum("hwc,h->wc", a)      y(w) = Σₕ a(h) x(h, w)              an axis summed away
    Einsum("hwc,hw->hwc", m)    y(h, w) = m(h, w) x(h, w)           positions with factors
    Einsum("sc,ck->sk", B)      y(s)ₖ = Σ꜀ B(c, k) x(s)꜀            channels mixed
    Einsum("hwc->whc")          y(w, h) = x(h, w)                   axes exchanged

Before the arrow stand the letters of one input, the channels' last, and those of the array; after
it those of the output. The array is not trained. Samples have no letter: sums over samples are
taken of a kernel, A K Aᵀ, not inside a network, which treats every sample alike.
"""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .architecture import Architecture, Shape


class FixedArray(NamedTuple):
    """An array that can be hashed: its numbers, row by row, and its shape.

    Example:
        >>> fixed_array([[1.0, 2.0]])
        FixedArray(numbers=(1.0, 2.0), shape=(1, 2))
        >>> fixed_array([[1.0, 2.0]]).array.tolist()
        [[1.0, 2.0]]
    """

    numbers: tuple[float, ...]
    shape: Shape

    @property
    def array(self) -> np.ndarray:
        """The array."""
        return np.array(self.numbers).reshape(self.shape)


def fixed_array(array: Any) -> FixedArray:
    """Keep the numbers of an array.

    Example:
        >>> fixed_array(2.0)
        FixedArray(numbers=(2.0,), shape=())
    """
    numbers = np.asarray(array, float)
    return FixedArray(tuple(numbers.ravel().tolist()), numbers.shape)


class Letters(NamedTuple):
    """What a formula says: the letters of input, array and output."""

    input: str
    array: str
    output: str


@dataclass(frozen=True, repr=False)
class Einsum(Architecture):
    """The product with a fixed array, summed over the letters that the output does not have.

    Args:
        formula: Letters of one input, of the array, and of the output: "hwc,h->wc".
        array: The array, kept as numbers; 1 if the formula names none.

    Example: the difference of two time series.
        >>> Einsum("stc,s->tc", [1.0, -1.0]).output_shape((2, 30, 8))
        (30, 8)
    """

    formula: str
    array: Any = 1.0

    def __post_init__(self) -> None:
        kept = self.array if isinstance(self.array, FixedArray) else fixed_array(self.array)
        object.__setattr__(self, "array", kept)
        inputs, of_array, outputs = self.letters
        for letters in (inputs, outputs):
            if not letters or len(set(letters)) < len(letters):
                raise ValueError(
                    f"formula must have letters of input and output once, got {self.formula!r}."
                )
        if not set(outputs) <= set(inputs + of_array):
            raise ValueError(f"formula must say what its output is made of, got {self.formula!r}.")
        if len(of_array) != len(kept.shape) or len(set(of_array)) < len(of_array):
            raise ValueError(
                f"formula must have one letter for every axis of the array, of shape {kept.shape}; "
                f"got {self.formula!r}."
            )

    def __repr__(self) -> str:
        return f"Einsum({self.formula!r}, array of shape {self.array.shape})"

    @property
    def letters(self) -> Letters:
        """The letters of input, array and output.

        Example:
            >>> Einsum("hwc,h->wc", [1.0, -1.0]).letters
            Letters(input='hwc', array='h', output='wc')
        """
        found = re.fullmatch(r"([a-zA-Z]*)(?:,([a-zA-Z]*))?->([a-zA-Z]*)", self.formula)
        if found is None:
            raise ValueError(f"formula must look like 'hwc,h->wc', got {self.formula!r}.")
        return Letters(found[1], found[2] or "", found[3])

    @property
    def keeps_channels(self) -> bool:
        """Whether the channels go through, every one treated alike."""
        letters = self.letters
        return letters.output[-1] == letters.input[-1] and letters.input[-1] not in letters.array

    def sizes(self, input_shape: Shape) -> dict[str, int]:
        """Give the size of the axis of every letter.

        Example:
            >>> Einsum("sc,ts->tc", [[1.0, 0.0]]).sizes((2, 3))
            {'s': 2, 'c': 3, 't': 1}
        """
        inputs, of_array, _ = self.letters
        if len(input_shape) != len(inputs):
            raise ValueError(
                f"Einsum({self.formula!r}) needs inputs with axes {inputs}, got shape "
                f"{input_shape}."
            )
        sizes = dict(zip(inputs, input_shape, strict=True))
        for letter, size in zip(of_array, self.array.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ValueError(
                    f"Einsum({self.formula!r}) needs one size of axis {letter!r}, got "
                    f"{sizes[letter]} of inputs of shape {input_shape} and {size} of the array."
                )
        return sizes

    def output_shape(self, input_shape: Shape) -> Shape:
        """Look up the letters of the output."""
        sizes = self.sizes(input_shape)
        return tuple(sizes[letter] for letter in self.letters.output)


def einsum_of_inputs(layer: Einsum, x: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    """Multiply every input by the array.

    Example: the difference of two positions.
        >>> x = jnp.array([[[5.0], [3.0]]])
        >>> einsum_of_inputs(Einsum("sc,s->c", [1.0, -1.0]), x).tolist()
        [[2.0]]
    """
    inputs, of_array, outputs = layer.letters
    layer.sizes(x.shape[1:])
    array = jnp.asarray(layer.array.array, x.dtype)
    return jnp.einsum(f"...{inputs},{of_array}->...{outputs}", x, array)
