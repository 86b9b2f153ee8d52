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
from theorylab.models.masks import Mask
from theorylab.models.parts import Bias
from theorylab.typing import RandomKey

Covariance = Float[Array, "..."]


class LayerState(NamedTuple):
    """What is known between two layers.

    Args:
        nngp: The covariance K of what comes out, a mean over channels.
        ntk: The tangent kernel Θ; None if it is 0, or not asked for.
        shape: The shape of one input here, (*positions, channels).
        paired: Are there all pairs of positions (s, s′), or s = s′ only?
        gaussian: Are the channels centred Gaussians, independent of one another?
        masks: What is missing of x and of x′, (n₁, *positions, 1) and (n₂, *positions, 1); None:
            nothing.

    Example: images with 3 × 4 positions, between which all pairs are known.
        >>> import jax.numpy as jnp
        >>> kernel = jnp.ones((1, 3, 3, 4, 4))
        >>> state = LayerState(kernel, None, (3, 4, 8), paired=True, gaussian=True)
        >>> state.axes, float(state.mapped(lambda kernel: 2 * kernel).nngp.max())
        ([(-4, -3), (-2, -1)], 2.0)
    """

    nngp: Covariance
    ntk: Covariance | None
    shape: Shape
    paired: bool
    gaussian: bool
    masks: tuple[Mask, Mask] | None = None

    @property
    def axes(self) -> list[tuple[int, ...]]:
        """The axes of s and s′ (or of s = s′) of every position axis, counted from the end."""
        step = 2 if self.paired else 1
        num_axes = step * (len(self.shape) - 1)
        return [tuple(range(first, first + step)) for first in range(-num_axes, 0, step)]

    def mapped(
        self, function: Callable[[Covariance], Covariance], shape: Shape | None = None
    ) -> "LayerState":
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

    Example:
        >>> from theorylab.models import NTK
        >>> Settings(NTK(weight_scale=2.0), bias="none", training=False, tangent=True).bias
        'none'
    """

    parametrization: Parametrization
    bias: Bias
    training: bool
    tangent: bool


class Notes:
    """What the reading of x with itself hands to the reading of x with x′: variances, for one.

    The two readings meet the same layers in the same order. Reading x with itself, every layer that
    needs it notes something about x; reading x with x′, it finds the notes of both.

    Example: a layer notes the variance of x, and finds those of x and x′.
        >>> import jax.numpy as jnp
        >>> alone = Notes()
        >>> first, second = alone.of(lambda: jnp.array(3.0))
        >>> float(first), float(second), len(alone.made)
        (3.0, 3.0, 1)
        >>> together = Notes([(jnp.array(3.0), jnp.array(4.0))])
        >>> [float(note) for note in together.of(lambda: jnp.array(0.0))]
        [3.0, 4.0]
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
    """How what has no closed form is averaged: by this many draws from this key.

    Example:
        >>> Draws(key=jax.random.key(0), count=8).count
        8
    """

    key: RandomKey
    count: int


class Context(NamedTuple):
    """What a layer is read with.

    Args:
        settings: What holds for the whole network.
        notes: What was noted about x, or about x and x′.
        draws: The draws of random logits, if there are any.
        graphs: The graphs of inputs that have their own.

    Example:
        >>> from theorylab.models import NTK
        >>> Context(Settings(NTK(), "none", False, tangent=True), Notes()).draws is None
        True
    """

    settings: Settings
    notes: Notes
    draws: Draws | None = None
    graphs: Float[Array, "n s t"] | None = None


def materialized(arrays: Any) -> Any:
    """The same arrays, each computed once: XLA would compute them anew wherever they are used.

    Example:
        >>> import jax.numpy as jnp
        >>> materialized(jnp.array([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """
    return jax.lax.optimization_barrier(arrays)


def total(*terms: tuple[float, Covariance | None]) -> Covariance | None:
    """Σ coefficient · kernel, over the kernels that are there.

    Example: 2 · 1 + 3 · 1, and a kernel that is not there.
        >>> import jax.numpy as jnp
        >>> total((2.0, jnp.ones(1)), (5.0, None), (3.0, jnp.ones(1))).tolist()
        [5.0]
    """
    present = [coefficient * kernel for coefficient, kernel in terms if kernel is not None]
    return sum(present[1:], start=present[0]) if present else None


def product(one: Covariance | None, other: Covariance) -> Covariance | None:
    """One kernel times the other, if it is there.

    Example:
        >>> import jax.numpy as jnp
        >>> product(jnp.array([2.0]), jnp.array([3.0])).tolist(), product(None, jnp.array([3.0]))
        ([6.0], None)
    """
    return None if one is None else one * other
