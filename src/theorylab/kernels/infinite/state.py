"""What is known between two layers: covariance and tangent kernel at pairs of positions.

A position s of x and a position s′ of x′ have a covariance K(s, s′) of their own. Position axes are
interleaved, (..., H, H′, W, W′), where a later layer needs every pair, and only (..., H, W) where
it needs s = s′ alone: d instead of d² numbers for every pair of inputs. In front stand the pairs of
inputs: (n₁, n₂) for all of two batches, (p,) for a list of pairs, (n,) for x with itself.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float

from theorylab.models import Parametrization
from theorylab.models.architecture import Shape
from theorylab.models.parts import Bias
from theorylab.typing import RandomKey

Covariance = Float[Array, "..."]


class State(NamedTuple):
    """What is known between two layers.

    Args:
        nngp: The covariance K of what comes out, a mean over channels.
        ntk: The tangent kernel Θ; None if it is 0, or not asked for.
        shape: The shape of one input here, (*positions, channels).
        paired: Are there all pairs of positions (s, s′), or s = s′ only?
        gaussian: Are the channels centred Gaussians, independent of one another?
    """

    nngp: Covariance
    ntk: Covariance | None
    shape: Shape
    paired: bool
    gaussian: bool

    @property
    def axes(self) -> list[tuple[int, ...]]:
        """The axes of s and s′ (or of s = s′) of every position axis, counted from the end."""
        step = 2 if self.paired else 1
        num_axes = step * (len(self.shape) - 1)
        return [tuple(range(first, first + step)) for first in range(-num_axes, 0, step)]

    def mapped(
        self, function: Callable[[Covariance], Covariance], shape: Shape | None = None
    ) -> "State":
        """Apply a linear map to both kernels."""
        return self._replace(
            nngp=function(self.nngp),
            ntk=None if self.ntk is None else function(self.ntk),
            shape=self.shape if shape is None else shape,
        )


class Settings(NamedTuple):
    """What holds for the whole network.

    Args:
        parametrization: `NTK(...)` or `Standard(...)`.
        bias: "none", "zero" or "normal".
        training: Do masks of dropout count?
        tangent: Is the tangent kernel asked for?
    """

    parametrization: Parametrization
    bias: Bias
    training: bool
    tangent: bool


class Notes:
    """What the reading of x with itself hands to the reading of x with x′: variances, for one.

    The two readings meet the same layers in the same order. Reading x with itself, every layer that
    needs it notes something about x; reading x with x′, it finds the notes of both.
    """

    def __init__(self, pairs: Sequence[tuple[Array, Array]] | None = None) -> None:
        self.itself = pairs is None
        self.count = 0
        self.made: list[Array] = []
        self._pairs = iter(pairs or ())

    def of(self, make: Callable[[], Array]) -> tuple[Array, Array]:
        """Make a note of x, and give it twice; or find those of x and x′."""
        self.count += 1
        if not self.itself:
            return next(self._pairs)
        self.made.append(make())
        return self.made[-1], self.made[-1]


class Draws(NamedTuple):
    """How what has no closed form is averaged: by this many draws from this key."""

    key: RandomKey
    count: int


class Context(NamedTuple):
    """What a layer is read with.

    Args:
        settings: What holds for the whole network.
        notes: What was noted about x, or about x and x′.
        draws: The draws of random logits, if there are any.
        graphs: The graphs of inputs that have their own.
    """

    settings: Settings
    notes: Notes
    draws: Draws | None = None
    graphs: Float[Array, "n s t"] | None = None


def materialized(arrays: Any) -> Any:
    """The same arrays, each computed once: XLA would compute them anew wherever they are used."""
    return jax.lax.optimization_barrier(arrays)


def total(*terms: tuple[float, Covariance | None]) -> Covariance | None:
    """Σ coefficient · kernel, over the kernels that are there."""
    present = [coefficient * kernel for coefficient, kernel in terms if kernel is not None]
    return sum(present[1:], start=present[0]) if present else None


def product(one: Covariance | None, other: Covariance) -> Covariance | None:
    """One kernel times the other, if it is there."""
    return None if one is None else one * other
