"""The phases of the quadratic model: what the ratio of learning rate and curvature decides.

A run of the map `plane.step` at width m that begins with ηλ₀ is, up to a band of width
O(log m / √m),

    ηλ₀ < 2        subcritical: the loss falls monotonically, λ moves by O(1/m)
    2 < ηλ₀ < 4    a catapult: the loss rises to the order of mδ², where δ = ηλ₀ − 2, and falls
                   again, because λ falls until ηλ < 2
    4 < ηλ₀        divergent

Source: zhu · nqm-2d-map · Thms 3.3.1, B.3.1, B.7.1.
"""

from operator import itemgetter, methodcaller
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theorylab.typing import RandomKey, Scalar

from ..thresholds import threshold
from .plane import PlaneProblem, PlaneState, loss, step

SUBCRITICAL, CATAPULT, DIVERGENT = 0, 1, 2  # the phases, in the order of the learning rate


class PhaseCourse(NamedTuple):
    """What a run went through, without the run itself."""

    last: PlaneState
    first_loss: Float[Array, "*shape"]
    highest_loss: Float[Array, "*shape"]
    drift: Float[Array, "*shape"]  # sup |λ(t) − λ₀|
    largest_rise: Float[Array, "*shape"]  # the largest loss(t + 1)/loss(t): at most 1 if it falls


def course(initial: PlaneState, problem: PlaneProblem, num_steps: int) -> PhaseCourse:
    """Run the map and keep its extremes only, so that many runs need little memory.

    Example:
        >>> problem = PlaneProblem(target=0.0, learning_rate=1.0, coupling=1e-4)
        >>> past = course(PlaneState(output=1.0, curvature=3.0), problem, num_steps=100)
        >>> bool(past.highest_loss > 100 * past.first_loss)  # a catapult
        True
        >>> bool(past.last.curvature < 2)  # that ends below 2/η
        True
    """
    initial = PlaneState(*(jnp.asarray(value, dtype=float) for value in initial))
    first_loss = jnp.asarray(loss(initial, problem))

    def advance(_, past: PhaseCourse) -> PhaseCourse:
        state = step(past.last, problem)
        before, after = loss(past.last, problem), loss(state, problem)
        rise = jnp.where(after > 0, after / before, 0.0)  # 0/0, at rest, is no rise
        return PhaseCourse(
            last=state,
            first_loss=first_loss,
            highest_loss=jnp.maximum(past.highest_loss, after),
            drift=jnp.maximum(past.drift, jnp.abs(state.curvature - initial.curvature)),
            largest_rise=jnp.maximum(past.largest_rise, rise),
        )

    zero = jnp.zeros_like(first_loss)
    start = PhaseCourse(initial, first_loss, first_loss, zero, zero)
    return jax.lax.fori_loop(0, num_steps, advance, start)


def courses(
    output: Scalar,
    target: Scalar,
    settings: list[tuple[Float[Array, "..."], Float[Array, "..."]]],
    num_steps: int,
) -> list[PhaseCourse]:
    """Run the map from λ₀ = 1 and ‖x‖² = d for arrays of ratios ηλ₀ and widths m, all at once.

    Args:
        output: The first output g.
        target: The target y.
        settings: Pairs of arrays (ηλ₀, m), of one shape each; every pair gives one `PhaseCourse`.
        num_steps: The number of steps.

    Example:
        >>> ratios, widths = jnp.array([1.0, 3.0, 5.0]), jnp.full(3, 1e4)
        >>> (past,) = courses(1.0, 0.0, [(ratios, widths)], num_steps=200)
        >>> observed_phase(past).tolist()
        [0, 1, 2]
    """

    def one(ratio: Scalar, width: Scalar) -> PhaseCourse:
        return course(PlaneState(output, 1.0), PlaneProblem(target, ratio, 1 / width), num_steps)

    ratios, widths = (
        jnp.concatenate([jnp.ravel(part) for part in parts])
        for parts in zip(*settings, strict=True)
    )
    runs = jax.vmap(one)(ratios, widths)

    found, begin = [], 0
    for ratios, _ in settings:
        part = jax.tree.map(itemgetter(slice(begin, begin + ratios.size)), runs)
        found.append(jax.tree.map(methodcaller("reshape", ratios.shape), part))
        begin += ratios.size
    return found


def predicted_phase(ratio: Float[Array, "*shape"]) -> Int[Array, "*shape"]:
    """Predict the phase from ηλ₀: 0 below 2, 1 between 2 and 4, 2 beyond 4.

    Example:
        >>> predicted_phase(jnp.array([1.0, 3.0, 5.0])).tolist()
        [0, 1, 2]
    """
    return jnp.where(ratio > 4, DIVERGENT, jnp.where(ratio > 2, CATAPULT, SUBCRITICAL))


def observed_phase(past: PhaseCourse) -> Int[Array, "..."]:
    """Name the phase that a run showed: did the loss explode, rise above its start, or neither?

    Example:
        >>> problem = PlaneProblem(target=0.0, learning_rate=1.0, coupling=1e-4)
        >>> past = course(PlaneState(output=1.0, curvature=3.0), problem, num_steps=100)
        >>> int(observed_phase(past)) == CATAPULT
        True
    """
    exploded = ~jnp.isfinite(past.highest_loss)
    rose = past.highest_loss > past.first_loss
    return jnp.where(exploded, DIVERGENT, jnp.where(rose, CATAPULT, SUBCRITICAL))


def largest_ratio(output: Scalar, target: Scalar, width: Scalar, num_steps: int) -> Array:
    """Bisect in [2, 6] for the largest ηλ₀ at which the map does not diverge, from λ₀ = 1.

    Args:
        output: The first output g.
        target: The target y.
        width: The width m; ‖x‖² = d.
        num_steps: After how many steps divergence must have shown.

    Example:
        >>> round(float(largest_ratio(1.0, 0.0, width=1e6, num_steps=300)), 1)
        4.0
    """

    def stays(ratio: Scalar) -> Bool[Array, ""]:
        problem = PlaneProblem(target, ratio, 1 / width)
        return jnp.isfinite(course(PlaneState(output, 1.0), problem, num_steps).highest_loss)

    return threshold(stays, 2.0, 6.0, num_halvings=12)


def band(width: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Give 2 log m / √m: that near to ηλ₀ = 0, 2 and 4 the theorems say nothing.

    Example:
        >>> round(float(band(jnp.array(1e8))), 4)  # 16 ln 10 · 10⁻⁴
        0.0037
    """
    return 2 * jnp.log(width) / jnp.sqrt(width)


def draw_settings(
    key: RandomKey, num_settings: int
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Draw a phase, a width m from 10³ to 10⁸, and a ratio ηλ₀ < 6 in that phase, off its bands.

    Returns:
        Ratios and widths.

    Example:
        >>> ratios, widths = draw_settings(jax.random.key(0), 100)
        >>> off = jnp.abs(ratios[:, None] - jnp.array([0.0, 2.0, 4.0])[None, :]).min(axis=1)
        >>> bool((off >= band(widths) - 1e-6).all())
        True
    """
    phase, place, power = jax.random.uniform(key, (3, num_settings))
    widths = 10 ** (3 + 5 * power)
    margin = band(widths)
    return 2 * jnp.floor(3 * phase) + margin + place * (2 - 2 * margin), widths


def diagram(resolution: int) -> tuple[Float[Array, "h h"], Float[Array, "h h"]]:
    """Give a grid for the phase diagram: ratios up to 5 along rows, widths 10² to 10⁸ down.

    Example:
        >>> ratios, widths = diagram(3)
        >>> [round(float(ratio), 3) for ratio in ratios[0]]
        [1.667, 3.333, 5.0]
        >>> [round(float(width)) for width in widths[:, 0]]
        [100, 100000, 100000000]
    """
    check_resolution(resolution)
    ratios, widths = (
        jnp.linspace(5 / resolution, 5, resolution),
        jnp.geomspace(1e2, 1e8, resolution),
    )
    grid = jnp.meshgrid(ratios, widths)
    return grid[0], grid[1]


def check_resolution(resolution: int) -> None:
    """Refuse a diagram without extent.

    Example:
        >>> check_resolution(1)
        Traceback (most recent call last):
            ...
        ValueError: resolution must be at least 2, got 1.
    """
    if resolution < 2:
        raise ValueError(f"resolution must be at least 2, got {resolution}.")
