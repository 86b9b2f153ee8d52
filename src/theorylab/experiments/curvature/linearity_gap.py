"""A network differs most from its linearisation along the Hessian's top eigenvector.

At distance R from its initial weights a network differs from its linearisation f_lin by at most
½ R² sup‖∇²f‖, which falls like one over the root of the width m. The bound is reached along the
top eigenvector of the Hessian. A random direction is nearly orthogonal to that eigenvector: there
the difference is smaller by orders of magnitude, so that random directions alone would make any
network look linear. The quadratic model f_quad has the same slopes as the bound.

Source: zhu · linearity-gap · Eqs 2.9–2.10, Cor. 2.3.7, after Eq. 3.4.
"""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    exponent_between,
    holds,
    median_at_most,
    median_between,
    ordered,
)
from theorylab.curvature import output_hessian
from theorylab.experiments.curvature._dags import input_and_key, lanczos_bytes
from theorylab.experiments.drawing import THEORY, label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Plural, Positive, Seeded, within
from theorylab.models import linearize
from theorylab.models.dag_builders import fully_connected
from theorylab.numerics import eigenpairs
from theorylab.progress import report
from theorylab.training import dag_ensemble
from theorylab.typing import Apply, Measured, RandomKey

PRECISION = "float32"
FORMULA = (
    r"|f(w) - f_{\mathrm{lin}}(w)| \le \tfrac12 R^2 \sup \|\nabla^2 f\| = \tilde O(R^2/\sqrt m)"
)

GAP = Source("zhu", "linearity-gap", "Cor. 2.3.7")
QUADRATIC = Source("zhu", "linearity-gap", "3.1, after Eq. 3.4")

DIRECTIONS = ("top eigenvector", "gradient", "random", "gradient descent")
TOP, GRADIENT, RANDOM, DESCENT = range(4)


@dataclass(frozen=True)
class Config(Seeded):
    """Random fully connected tanh networks, and points at distance R from their weights."""

    widths: Increasing[Count] = (64, 128, 256, 512)  # width m of every hidden layer
    radii: Increasing[Annotated[Positive, within(0, 1)]] = (0.25, 0.5, 1.0)  # distances R
    depth: Plural = 3  # layers with weights L
    dimension: Count = 4  # inputs d
    num_seeds: Count = 16  # random networks at each width
    num_steps: Count = 16  # products with the Hessian for one eigenvector
    num_descent: Count = 20  # steps of gradient descent on one example


PRESETS = {
    "smoke": Config(widths=(48, 240), radii=(0.25, 1.0), num_seeds=24, num_steps=8),
    "paper": Config(widths=(32, 64, 128, 256, 512, 1024, 2048), depth=4, num_steps=40),
}


class Result(NamedTuple):
    """Axes: s seeds, w widths, g directions (`DIRECTIONS`), r radii."""

    gaps: Float[Measured, "s w g r"]  # |f − f_lin|
    quadratic: Float[Measured, "s w"]  # |f_quad − f_lin| at the last radius, top eigenvector
    arrived: Float[Measured, "s w"]  # |f − f_lin| where descent ended, at its own distance
    distance: Float[Measured, "s w"]  # that descent went
    norms: Float[Measured, "s w"]  # ‖∇²f(w₀)‖
    largest: Float[Measured, "s w r"]  # the largest ‖∇²f‖ found on the way


def memory(config: Config) -> int:
    """Bytes of one network's Lanczos basis on each of two cores, and of the wirings."""
    widest, num_networks = max(config.widths), config.num_seeds * len(config.widths)
    weights = widest * (widest * (config.depth - 1) + config.dimension)
    return lanczos_bytes(weights, config.num_steps + 16, num_networks)


def run(config: Config) -> Result:
    """Draw networks, go a distance in every direction, and compare."""
    report("networks and their linearisations", 0.05)
    x, key = input_and_key(config.seed, config.dimension)
    graphs = config.num_seeds * [
        fully_connected(config.dimension, [width] * (config.depth - 1), activation="tanh")
        for width in config.widths
    ]
    found = dag_ensemble(_measured(x, config), graphs, jax.random.split(key, len(graphs)))
    shape = (config.num_seeds, len(config.widths))
    return jax.tree.map(lambda part: part.reshape(*shape, *part.shape[1:]), found)


def _measured(x: Float[Array, " d"], config: Config):
    """Gaps of one network in all directions and at all distances."""
    radii = jnp.asarray(config.radii)

    def one(apply: Apply, weights: Float[Array, " p"], key: RandomKey) -> Result:
        def top(w: Float[Array, " p"]):
            operator = output_hessian(apply, w, x)
            pair = eigenpairs(operator, w, 1, config.num_steps, key, "magnitude")
            return jnp.abs(pair.values[0]), pair.vectors[0]

        def output(w: Float[Array, " p"]) -> Float[Array, ""]:
            return apply(w, x[None])[0, 0]

        linear = linearize(apply, weights)
        norm, vector = top(weights)
        slope = jax.grad(output)(weights)
        # Entries that are no weights are exactly 0, and have no direction.
        random = jnp.where(weights == 0, 0.0, jax.random.normal(key, weights.shape))
        descent = _descended(output, weights, config.num_descent) - weights
        directions = jnp.stack([vector, slope, random, descent])
        units = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)

        def gap(move: Float[Array, " p"]) -> Float[Array, ""]:
            w = weights + move
            return jnp.abs(apply(w, x[None]) - linear(w, x[None]))[0, 0]

        moves = radii[None, :, None] * units[:, None, :]
        gaps = jax.lax.map(gap, moves.reshape(-1, weights.size)).reshape(4, -1)
        on_the_way = jax.lax.map(lambda move: top(weights + move)[0], moves[TOP])
        last = radii[-1] * units[TOP]
        bent = jax.jvp(jax.grad(output), (weights,), (last,))[1]
        return Result(
            gaps=gaps,
            quadratic=jnp.abs(jnp.vdot(last, bent)) / 2,
            arrived=gap(descent),
            distance=jnp.linalg.norm(descent),
            norms=norm,
            largest=jnp.maximum(norm, jax.lax.cummax(on_the_way)),
        )

    return one


def _descended(output, weights: Float[Array, " p"], num_steps: int) -> Float[Array, " p"]:
    """Weights after gradient descent on ½(f − 1)² at one example, with half the critical rate."""
    slope = jax.grad(output)(weights)
    rate = 0.5 / jnp.vdot(slope, slope)
    gradient = jax.grad(lambda w: (output(w) - 1) ** 2 / 2)
    return jax.lax.fori_loop(0, num_steps, lambda _, w: w - rate * gradient(w), weights)


def _bound(result: Result, config: Config) -> Float[Measured, "s w r"]:
    """½ R² times the largest norm on the way."""
    return result.largest * np.square(config.radii)[None, None, :] / 2


SLOPE = "lab: −1/2 and 0.15 for noise; set with the experiment, on seeds that were not kept"
LANCZOS = "derived: the inequality; 1 % is left to Lanczos, which finds norms from below"
CLAIMS = (
    GAP.claim(
        "Along the top eigenvector, where it is largest, the gap is of the order of m^(−1/2) or"
        " less.",
        lambda r, c: exponent_between(c.widths, r.gaps[:, :, TOP, -1], -math.inf, -0.35),
        formula=r"|f - f_{\mathrm{lin}}| = \tilde O(m^{-1/2})",
        demand=SLOPE,
    ),
    GAP.found(
        "The order is attained: it falls no faster than m^(−0.65).",
        lambda r, c: exponent_between(c.widths, r.gaps[:, :, TOP, -1], -0.65, math.inf),
        demand=SLOPE,
    ),
    GAP.claim(
        "In no direction the gap exceeds half the squared distance times the largest Hessian norm.",
        lambda r, c: holds(1.01 * _bound(r, c)[:, :, None, :] - r.gaps, 1e-5),
        formula=r"|f - f_{\mathrm{lin}}| \le \tfrac12 R^2 \sup \|\nabla^2 f\|",
        demand=LANCZOS,
    ),
    GAP.control(
        "Half of the bound would be exceeded along the top eigenvector.",
        lambda r, c: median_at_most(
            (0.5 * _bound(r, c)[:, :, -1] - r.gaps[:, :, TOP, -1]).min(axis=1), 0.0
        ),
    ),
    GAP.claim(
        "Where descent ends, at its distance D, the gap is at most ½ D² times the largest norm.",
        # D may exceed the largest radius by little; the norm is that found at that radius.
        lambda r, c: holds(1.01 * r.largest[:, :, -1] * r.distance**2 / 2 - r.arrived, 1e-5),
        demand=LANCZOS,
    ),
    GAP.found(
        "Along the top eigenvector the gap grows with the square of the distance.",
        lambda r, c: exponent_between(c.radii, r.gaps[:, -1, TOP], 1.8, 2.2),
        formula=r"|f - f_{\mathrm{lin}}| \propto R^2",
        demand="lab: 2 and 0.2 for the third order; set with the experiment, on seeds not kept",
    ),
    GAP.found(
        "Along the top eigenvector a short step leaves a gap of ½ R² ‖∇²f‖, within a tenth.",
        lambda r, c: median_between(
            r.gaps[:, -1, TOP, 0] / (r.norms[:, -1] * c.radii[0] ** 2 / 2), 0.9, 1.1
        ),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    GAP.found(
        "A random direction shows less than a tenth of that gap.",
        lambda r, c: median_at_most(r.gaps[:, -1, RANDOM, -1] / r.gaps[:, -1, TOP, -1], 0.1),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    GAP.found(
        "The direction that training takes shows a smaller gap than the top eigenvector.",
        lambda r, c: ordered(r.gaps[:, -1, DESCENT, -1], r.gaps[:, -1, TOP, -1]),
    ),
    QUADRATIC.claim(
        "The quadratic model leaves the linear one by the order of m^(−1/2) or less.",
        lambda r, c: exponent_between(c.widths, r.quadratic, -math.inf, -0.35),
        formula=r"\|f_{\mathrm{quad}} - f_{\mathrm{lin}}\| = \tilde O(1/\sqrt m)",
        quote="transitions to linearity continuously as well",
        demand=SLOPE,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Gaps over widths at the largest distance, and over distances at the largest width."""
    figure, (widths, radii) = panels("gap over width", "gap over distance")
    named = dict(zip(DIRECTIONS, np.moveaxis(result.gaps, 2, 0), strict=True))
    bound = np.median(_bound(result, config), axis=0)
    widths.loglog(config.widths, bound[:, -1], **THEORY, label="bound")
    radii.loglog(config.radii, bound[-1], **THEORY, label="bound")
    scaling(widths, config.widths, {name: gaps[:, :, -1] for name, gaps in named.items()})
    scaling(radii, config.radii, {name: gaps[:, -1] for name, gaps in named.items()})
    label_axes(widths, "width m")
    label_axes(radii, "distance R")
    return figure
