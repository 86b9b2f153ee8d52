"""In a ball of fixed radius around the start, the Hessian of a wide network is as small as there.

The norm of the Hessian is Õ(m^(−1/2)) not only at the initial weights w₀ but in the whole ball
‖w − w₀‖ ≤ R, which holds the way that training takes. Here the ball is searched for the largest
norm, in random directions, along the gradient, and uphill; the search gives a lower bound of the
largest. Networks with a narrow layer are the control: in their balls it stays larger. On a cubic
function, where the largest norm is known, the search finds it and stays inside.

Source: zhu · hessian-norm · Thm 2.3.6.
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
    identity,
    median_at_least,
    median_at_most,
    ordered,
)
from theorylab.curvature import hessian_in_ball
from theorylab.experiments.curvature._dags import input_and_key, lanczos_bytes
from theorylab.experiments.drawing import curves, label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Positive, Seeded, within
from theorylab.models.dag_builders import fully_connected
from theorylab.numerics import power_law_exponents
from theorylab.training import dag_ensemble
from theorylab.typing import Apply, Measured, RandomKey

PRECISION = "float32"
FORMULA = r"\sup_{\|w - w_0\| \le R} \|\nabla^2 f(w)\| = O((\log m + R)^{L^2} / \sqrt m)"
THEOREM = Source("zhu", "hessian-norm", "Thm 2.3.6")


@dataclass(frozen=True)
class Config(Seeded):
    """Random fully connected tanh networks of three layers, and balls around their weights."""

    widths: Increasing[Annotated[int, within(8)]] = (64, 128, 256)  # neurons m of a hidden layer
    dimension: Count = 16  # inputs d
    radii: Increasing[Positive] = (1.0, 2.0, 4.0)  # R of the balls
    num_seeds: Count = 12  # random networks of each width
    num_steps: Count = 12  # products with the Hessian for one norm
    num_directions: Count = 2  # random ones in which a ball is searched
    num_ascent: Count = 6  # steps uphill from the best of them


PRESETS = {
    "smoke": Config(widths=(24, 96), dimension=4, radii=(1.0, 2.0), num_seeds=8, num_ascent=3),
    "paper": Config(widths=(32, 64, 128, 256, 512, 1024), num_steps=40, num_ascent=20),
}


class Result(NamedTuple):
    """Axes: s seeds, w widths, r radii."""

    centre: Float[Measured, "s w"]  # ‖∇²f(w₀)‖
    largest: Float[Measured, "s w r"]  # the largest that was found in the ball
    narrow: Float[Measured, "s w"]  # in the smallest ball, with a layer of two neurons
    cubic: Float[Measured, " r"]  # the same of f = Σ wᵢ³/6 around (1, 0), over the exact 1 + R


def memory(config: Config) -> int:
    """Bytes of one network's Lanczos basis on each of two cores, and of the wirings."""
    widest, num_networks = max(config.widths), config.num_seeds * len(config.widths)
    return lanczos_bytes(widest * (widest + config.dimension), config.num_steps, num_networks)


def run(config: Config) -> Result:
    """Draw networks and search the balls around them."""
    x, key = input_and_key(config.seed, config.dimension)
    graphs = config.num_seeds * [
        fully_connected(config.dimension, [m, m], activation="tanh") for m in config.widths
    ]
    narrow = config.num_seeds * [
        fully_connected(config.dimension, [m, 2, m], activation="tanh") for m in config.widths
    ]
    search = (0, config.num_directions, config.num_ascent, config.num_steps)

    def balls(apply: Apply, weights: Float[Array, " p"], x: Float[Array, " d"], key: RandomKey):
        used = (weights != 0).astype(weights.dtype)  # entries that are no weights are exactly 0

        def ball(radius: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
            found = hessian_in_ball(apply, weights, x, radius, key, *search, used)
            return found.centre, found.largest

        return jax.lax.map(ball, jnp.asarray(config.radii))

    def one(apply: Apply, weights: Float[Array, " p"], key: RandomKey):
        centre, largest = balls(apply, weights, x, key)
        return centre[0], largest

    keys = jax.random.split(key, len(graphs))
    found, others = dag_ensemble(one, graphs, keys), dag_ensemble(one, narrow, keys)
    shape = (config.num_seeds, len(config.widths))
    centre, largest = (part.reshape(*shape, *part.shape[1:]) for part in found)
    _, cubic = balls(_cubic, jnp.array([1.0, 1e-6]), jnp.ones(1), key)
    return Result(
        centre=centre,
        largest=largest,
        narrow=others[1][:, 0].reshape(shape),
        cubic=cubic / (1 + jnp.asarray(config.radii)),
    )


def _cubic(w: Float[Array, " p"], x: Float[Array, "n 1"]) -> Float[Array, "n 1"]:
    """Σ wᵢ³/6, whose Hessian has the norm max |wᵢ|."""
    return (w**3).sum() / 6 * x


def _factors(result: Result) -> Float[Measured, "s w r"]:
    return result.largest / result.centre[:, :, None]


def _growth(result: Result, config: Config) -> Float[Measured, " s"]:
    """The largest exponent of the factors in the width, over the radii."""
    by_radius = np.moveaxis(_factors(result), 2, 0)
    return np.max(
        [power_law_exponents(np.array(config.widths), each) for each in by_radius], axis=0
    )


CLAIMS = (
    THEOREM.claim(
        "In a ball of fixed radius the largest Hessian norm is of the order of m^(−1/2) or less.",
        lambda r, c: exponent_between(c.widths, r.largest[:, :, 0], -math.inf, -0.35),
        regime="widths[-1] >= 256 and num_seeds >= 12",
        quote="each output neuron … of a feedforward neural network satisfies",
        demand="lab: −1/2 and 0.15 for logarithms, as at the centre",
    ),
    THEOREM.claim(
        "Over the norm at the centre it does not grow with the width, at any radius.",
        lambda r, c: median_at_most(_growth(r, c), 0.1),
        regime="widths[-1] >= 256 and num_seeds >= 12",
        quote="such that it is no larger than the order of",
        demand="lab: 0, and 0.1 for noise; set with the experiment, on seeds that were not kept",
    ),
    THEOREM.found(
        "At the smallest radius it is less than 5 times the norm at the centre, in every network.",
        lambda r, c: holds(5.0 - _factors(r)[:, :, 0]),
        regime="radii[0] <= 1",
        demand="lab: chosen before the first run",
    ),
    THEOREM.control(
        "With a layer of two neurons it stays larger, at the largest width of the others.",
        lambda r, c: ordered(r.largest[:, -1, 0], r.narrow[:, -1]),
        regime="widths[-1] >= 256 and num_seeds >= 12",
    ),
    THEOREM.check(
        "The search finds something: at the largest radius more than 1.1 times the centre.",
        lambda r, c: median_at_least(_factors(r)[:, :, -1].min(axis=1), 1.1),
        regime="num_seeds >= 12",
        demand="lab: chosen before the first run",
    ),
    THEOREM.check(
        "On a cubic function it finds the largest norm, and nothing outside the ball.",
        lambda r, c: identity(r.cubic, np.ones_like(r.cubic), 1e-3),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """The largest norms over the width, and over the norm at the centre."""
    figure, (norms, factors) = panels("largest Hessian norm in a ball", "over that at the centre")
    pairs = list(zip(config.radii, np.moveaxis(result.largest, 2, 0), strict=True))
    balls = {f"R = {radius:g}": largest for radius, largest in pairs}
    scaling(
        norms,
        config.widths,
        {"centre": result.centre, **balls, "narrow": result.narrow},
        exponent=-0.5,
    )
    over = {name: largest / result.centre for name, largest in balls.items()}
    curves(factors, config.widths, over)
    label_axes(norms, "width m")
    label_axes(factors, "width m", logarithmic="x")
    return figure
