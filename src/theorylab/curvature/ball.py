"""How curved a network gets near its start: the largest ‖H_f(w)‖ in a ball.

    max ‖∇²f_k(w; x)‖  over  ‖w − w₀‖ ≤ R

is sought in three ways, and the largest counts: random directions and the two along the gradient,
all at distance R; and projected ascent from the best of those. With v the top eigenvector of
H_f(w), the gradient of |vᵀH_f(w)v| leads uphill; a step of length R/2 goes along it and back into
the ball. (Longer ones find less, as eigenvalues cross on the way.) What is found is a lower bound
of the maximum.

Source: zhu · hessian-norm · Thm 2.3.6, Measure.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.numerics import eigenpairs
from theorylab.typing import Apply, Params, RandomKey, Scalar

from .operators import output_hessian


class Ball(Answer, labels={"centre": "Hessian norm ‖H_f‖"}):
    """‖H_f‖ at the centre, and the largest found on the way of each of the three searches.

    Example:
        >>> found = Ball(*map(jnp.array, (1.0, 1.5, 2.0, 3.0)))
        >>> float(found.largest)
        3.0
    """

    centre: Float[Array, ""]
    random: Float[Array, ""]
    gradient: Float[Array, ""]
    ascent: Float[Array, ""]  # at least as large as the two others

    @property
    def largest(self) -> Float[Array, ""]:
        """The largest norm in the ball that is known."""
        return jnp.maximum(self.centre, self.ascent)


def hessian_in_ball(
    apply: Apply,
    params: Params,
    x: Float[Array, "..."],
    radius: Scalar,
    key: RandomKey,
    output: int = 0,
    num_directions: int = 4,
    num_ascent: int = 4,
    num_steps: int = 20,
    used: Params | None = None,
) -> Ball:
    """Search the ball around the parameters for the largest ‖H_f‖; can be jitted and mapped.

    Args:
        apply: The network: (params, inputs (n, ...)) ─► outputs (n, k).
        params: w₀, the centre.
        x: One input.
        radius: R.
        key: Draws directions and the starts of Lanczos.
        output: k, which of the outputs.
        num_directions: How many random directions, at least 1.
        num_ascent: How many steps of ascent, each of half the radius.
        num_steps: How many products with the Hessian one norm takes.
        used: A tree like the parameters: 1 at entries that are parameters, 0 at padding (which
            `dag_ensemble` adds); random directions are 0 at padding.

    Example:
        >>> cubic = lambda w, x: (w**3).sum()[None, None] * x / 6  # ‖H_f‖ = max |w|
        >>> centre, x, radius = jnp.array([1.0, 0.0]), jnp.ones(1), 0.5
        >>> found = hessian_in_ball(cubic, centre, x, radius, jax.random.key(0))
        >>> round(float(found.centre), 4), round(float(found.largest), 4)
        (1.0, 1.5)
    """
    _check(radius, num_directions, num_ascent)
    centre, unravel = ravel_pytree(params)
    weights = jnp.ones_like(centre) if used is None else ravel_pytree(used)[0]
    direction_key, lanczos_key = jax.random.split(key)
    top = _top_and_slope(apply, params, x, output, num_steps, lanczos_key)

    def climb(state, _):
        point, best = state
        norm, uphill = top(point)
        moved = point + radius / 2 * _unit(uphill) - centre
        inside = jnp.minimum(jnp.linalg.norm(moved), radius) * _unit(moved)
        return (centre + inside, jnp.maximum(best, norm)), None

    slope = jax.grad(lambda flat: apply(unravel(flat), x[None]).ravel()[output])(centre)
    drawn = jax.random.normal(direction_key, (num_directions, centre.size), centre.dtype)
    drawn = drawn * weights[None, :]
    directions = jnp.concatenate([jnp.zeros_like(drawn[:1]), slope[None], -slope[None], drawn])
    points = centre[None, :] + radius * jax.vmap(_unit)(directions)
    norms = jax.lax.map(lambda point: top(point)[0], points)
    start = points[jnp.argmax(norms)]
    (_, climbed), _ = jax.lax.scan(climb, (start, norms.max()), length=num_ascent + 1)
    return Ball(norms[0], norms[3:].max(), norms[1:3].max(), climbed)


def _top_and_slope(
    apply: Apply,
    params: Params,
    x: Float[Array, "..."],
    output: int,
    num_steps: int,
    key: RandomKey,
) -> Callable[[Float[Array, " p"]], tuple[Float[Array, ""], Float[Array, " p"]]]:
    """‖H_f‖ at a point, and its gradient: that of |vᵀH_f v| with v held."""
    unravel = ravel_pytree(params)[1]

    def top(flat: Float[Array, " p"]) -> tuple[Float[Array, ""], Float[Array, " p"]]:
        operator = output_hessian(apply, unravel(flat), x, output)
        pair = eigenpairs(operator, params, 1, num_steps, key, "magnitude")
        v = jax.tree.map(lambda leaf: leaf[0], pair.vectors)

        def quotient(flat: Float[Array, " p"]) -> Float[Array, ""]:
            image = output_hessian(apply, unravel(flat), x, output)(v)
            return jnp.vdot(ravel_pytree(v)[0], ravel_pytree(image)[0])

        return jnp.abs(pair.values[0]), jnp.sign(pair.values[0]) * jax.grad(quotient)(flat)

    return top


def _check(radius: Scalar, num_directions: int, num_ascent: int) -> None:
    if num_directions < 1 or num_ascent < 0:
        raise ValueError(
            "num_directions must be at least 1 and num_ascent at least 0, "
            f"got {num_directions} and {num_ascent}."
        )
    if not isinstance(radius, Tracer) and not radius > 0:
        raise ValueError(f"radius must be positive, got {radius}.")


def _unit(vector: Float[Array, " p"]) -> Float[Array, " p"]:
    """The direction of a vector; 0 where there is none."""
    length = jnp.linalg.norm(vector)
    return jnp.where(length > 0, vector / jnp.where(length > 0, length, 1.0), 0.0)
