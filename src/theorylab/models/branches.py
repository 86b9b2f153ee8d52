"""Parallel branches, and the same architecture several times in series.

    Parallel("sum")            y = f₁(x) + f₂(x) + ...
    Parallel("product")        y = f₁(x) · f₂(x) · ...               coordinate by coordinate
    Parallel("concatenate")    y = [f₁(x); f₂(x); ...]               along channels, or positions
    repeat(f, n)               y = f(f(... f(x)))                    every f with weights of its own

`Residual`, `Product` and `Concatenate` are the cases of two branches, of which one is given.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from .architecture import Architecture, Serial, Shape

Join = Literal["sum", "product", "concatenate"]


@dataclass(frozen=True, init=False, repr=False)
class Parallel(Architecture):
    """Several branches that see the same input, joined into one output.

    Args:
        branches: Any number of architectures, at least one.
        join: "sum", "product", or "concatenate".
        axis: Where branches are concatenated, as an axis of one output: −1 for the channels, 0 for
            the first position axis.

    Example: two feature maps, one below the other.
        >>> from theorylab.models import Dense
        >>> halves = Parallel(Dense(8), Dense(8), join="concatenate", axis=0)
        >>> halves.output_shape((4, 5, 3))
        (8, 5, 8)
    """

    branches: tuple[Architecture, ...]
    join: Join
    axis: int

    def __init__(self, *branches: Architecture, join: Join = "sum", axis: int = -1) -> None:
        if not branches:
            raise ValueError("Parallel must have at least one branch, got none.")
        if join not in get_args(Join):
            raise ValueError(f"join must be one of {get_args(Join)}, got {join!r}.")
        object.__setattr__(self, "branches", branches)
        object.__setattr__(self, "join", join)
        object.__setattr__(self, "axis", axis)

    def __repr__(self) -> str:
        how = f"join={self.join!r}"
        if self.join == "concatenate":
            how += f", axis={self.axis}"
        return f"Parallel({', '.join(map(repr, self.branches))}, {how})"

    def output_shape(self, input_shape: Shape) -> Shape:
        """Join the shapes of the branches."""
        shapes = [branch.output_shape(input_shape) for branch in self.branches]
        if self.join != "concatenate":
            if len(set(shapes)) > 1:
                raise ValueError(f"a {self.join} needs branches of one shape, got {shapes}.")
            return shapes[0]
        axis = self.joined_axis(shapes[0])
        others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
        if len(others) > 1 or len(set(map(len, shapes))) > 1:
            raise ValueError(
                f"branches must have one shape outside of axis {self.axis} to be concatenated "
                f"there, got {shapes}."
            )
        return (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])

    def joined_axis(self, shape: Shape) -> int:
        """Count the axis of concatenation from the front.

        Example: the last of three axes.
            >>> from theorylab.models import Dense
            >>> Parallel(Dense(8), Dense(8), join="concatenate").joined_axis((4, 5, 3))
            2
        """
        if not -len(shape) <= self.axis < len(shape):
            raise ValueError(
                f"axis must be an axis of one output, of shape {shape} without the axis of "
                f"samples; got {self.axis}."
            )
        return self.axis % len(shape)


def repeat(architecture: Architecture, count: int) -> Serial:
    """Put the same architecture several times in series, every time with weights of its own.

    Args:
        architecture: What is repeated.
        count: How many times, at least 0; 0 times is the identity.

    Example: a network with three hidden layers.
        >>> from theorylab.models import Activation, Dense
        >>> block = Serial(Dense(8), Activation("relu"))
        >>> Serial(repeat(block, 3), Dense(1)).output_shape((5,))
        (1,)
    """
    if count < 0:
        raise ValueError(f"count must be at least 0, got {count}.")
    return Serial(*(architecture,) * count)
