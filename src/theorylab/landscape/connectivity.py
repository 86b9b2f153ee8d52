"""Linear mode connectivity: is there a barrier on the straight segment between two networks?

    L(s) = L((1 − s)w + s w′)                           s from 0 to 1
    barrier of the loss    max_s L(s) − [(1 − s)L(0) + s L(1)]
    barrier of the error   max_s err(s) − max(err(0), err(1))

Two networks are linearly connected if the error rises by at most about 2 % in between (Frankle et
al. 2020, arXiv:1912.05671). A network with its hidden units in another order is the same function
elsewhere in parameter space, so a barrier may vanish when units are matched first (Entezari et al.
2022, arXiv:2110.06296). What is not among the parameters, such as running statistics, stays as it
is. A barrier is at least what is found at the points; it needs many of them: 26, a step of 0.04.

Source: karp · lmc · 2.4.2.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from theorylab.answers import Answer
from theorylab.models.fast_convolutions import fast_convolutions
from theorylab.training import Loss, zero_one
from theorylab.typing import Apply, Inputs, Params

POINTS = 26


class Segment(Answer, labels={"losses": "loss"}, axes=("point",)):
    """Losses and errors on the segment between two networks.

    Args:
        losses: L(s), the mean of the parts of the inputs.
        points: s.
        errors: The share of inputs misclassified; means nothing in regression.
        parts: What each input adds: L(s) is the mean of them.

    Example:
        >>> parts = jnp.array([[0.0, 0.0], [1.0, 3.0], [2.0, 0.0]])
        >>> path = Segment(parts.mean(1), jnp.array([0.0, 0.5, 1.0]), jnp.zeros(3), parts)
        >>> float(path.barrier), int(path.top)
        (1.5, 1)
    """

    losses: Float[Array, " points"]
    points: Float[Array, " points"]
    errors: Float[Array, " points"]
    parts: Float[Array, "points n"]

    @property
    def rises(self) -> Float[Array, "points n"]:
        """What each input adds to L(s) − [(1 − s)L(0) + s L(1)]."""
        s = self.points[:, None].astype(self.parts.dtype)
        return self.parts - ((1 - s) * self.parts[:1] + s * self.parts[-1:])

    @property
    def top(self) -> Array:
        """The number of the point where the loss is farthest above the straight line."""
        return self.rises.mean(axis=1).argmax()

    @property
    def barrier(self) -> Float[Array, ""]:
        """max_s L(s) − [(1 − s)L(0) + s L(1)]; at least 0, as it is at the ends."""
        return self.rises.mean(axis=1).max()

    @property
    def error_barrier(self) -> Float[Array, ""]:
        """max_s err(s) − max(err(0), err(1))."""
        return self.errors.max() - jnp.maximum(self.errors[0], self.errors[-1])


def segment(
    apply: Apply,
    loss: Loss,
    params: Params,
    other: Params,
    x: Inputs,
    y: Float[Array, "n k"],
    num_points: int = POINTS,
) -> Segment:
    """Follow the loss from one network to another, along the straight line in parameter space.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        loss: The loss.
        params: w, at s = 0.
        other: w′, at s = 1, of the same shapes.
        x: Inputs.
        y: Targets.
        num_points: How many s, with both ends.

    Example: L = (w² − 1)² has a barrier of 1 between its minima.
        >>> from theorylab.training import squared
        >>> x, y = jnp.ones((1, 1)), jnp.ones((1, 1))
        >>> path = segment(lambda w, x: w**2 * x, squared("mean"), -1.0, 1.0, x, y, num_points=5)
        >>> path.losses.tolist(), float(path.barrier)
        ([0.0, 0.5625, 1.0, 0.5625, 0.0], 1.0)
    """
    if num_points < 3:
        raise ValueError(f"num_points must be at least 3, got {num_points}.")
    points = jnp.linspace(0.0, 1.0, num_points)
    parts, wrong = _along(apply, loss, params, other, points, x, y)
    errors = wrong.mean(axis=1, dtype=parts.dtype)
    return Segment(parts.mean(axis=1), points, errors, parts)


@partial(jax.jit, static_argnums=(0, 1))
def _along(
    apply: Apply, loss: Loss, params: Params, other: Params, points: Array, x: Inputs, y: Array
) -> tuple[Float[Array, "points n"], Bool[Array, "points n"]]:
    """What each input adds to the loss, and whether it is misclassified, at every point."""
    n, k = y.shape
    weight = n * loss.scale(n, k) / loss.scale(1, k)  # so that L is the mean

    def between(w: Array, end: Array, s: Array) -> Array:
        w, end = jnp.asarray(w), jnp.asarray(end)
        s = s.astype(w.dtype)
        return (1 - s) * w + s * end

    def at(s: Array) -> tuple[Array, Array]:
        outputs = apply(jax.tree.map(lambda w, end: between(w, end, s), params, other), x)
        each = lambda measure: jax.vmap(lambda f, t: measure(f[None], t[None]))(outputs, y)  # noqa: E731
        return weight * each(loss), each(zero_one("mean")) > 0

    return jax.lax.map(fast_convolutions(at), points)
