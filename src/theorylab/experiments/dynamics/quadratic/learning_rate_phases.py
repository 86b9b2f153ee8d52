"""Beyond the critical learning rate weights leave every ball; how far η may go does not shrink.

Below the critical learning rate a wide network hardly moves: its weights stay in a ball whose
radius does not depend on the width m, and its kernel is constant. Just beyond, the kernel must
change by a constant factor, and since its derivative in the weights is O(1/√m), the weights travel
a distance ∝ √m. So the transition is not continuous in the limit of infinite width: the interval
of learning rates with a catapult, from η_crit to η_max, does not shrink. For the quadratic model on
one example η_max is 2η_crit: it diverges at ηλ₀ = 4. For the linear model η_max is η_crit. For ReLU
networks η_max is found by bisection, on one example and on images of two digits.

Source: zhu · lr-phases · Figs 3.1, 3.2a; zhu · nqm-2d-map · Thm B.7.1.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_most,
    exponent_between,
    holds,
    median_at_least,
    median_at_most,
    median_between,
)
from theorylab.data import Dataset, digits
from theorylab.dynamics import threshold
from theorylab.dynamics.quadratic import gated, one_example, phases
from theorylab.dynamics.quadratic.one_example import Travel
from theorylab.experiments.drawing import THEORY, label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Seeded
from theorylab.models import linearize
from theorylab.numerics import power_law_exponents
from theorylab.progress import report
from theorylab.training import descend, ensemble, gradient_descent, squared
from theorylab.typing import Apply, Measured, RandomKey, Scalar

PRECISION = "float64"
FORMULA = r"\|w_T - w_0\| \propto \sqrt m, \quad \eta_{\max} / \eta_{\rm crit} \to 2"

BALL = Source("zhu", "lr-phases", "Fig. 3.1")
JUMP = Source("zhu", "lr-phases", "Fig. 3.2a, discontinuity")
DIVERGENCE = Source("zhu", "nqm-2d-map", "Thm B.7.1")

RATIOS = (1.5, 2.5, 3.0)  # ηλ₀ on one example: below the threshold 2, and twice beyond
TARGET, FIRST_OUTPUT, MAP_STEPS = 1.0, 0.7, 1000
MAP_WIDTHS = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8)
HIGHEST = 12.0  # in units of η_crit; networks that survive this too (dead ones may) count as this
LOSS = squared("half_sum")


@dataclass(frozen=True)
class Config(Seeded):
    """One example at growing width; and networks on images, whose η_max is bisected."""

    widths: Increasing[Count] = (300, 3000, 30000, 100000)  # of the networks on one example
    edge_width: Count = 2000  # width at which η_max on one example is bisected
    dimension: Count = 2  # inputs d of both
    num_steps: Count = 80  # their steps
    image_widths: Increasing[Count] = (128, 512)  # of the networks on images
    num_images: Count = 48  # threes and eights, 8 × 8
    image_steps: Count = 100  # steps after which the loss must be below its first value

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.edge_width < 1000:  # narrower ones are off 2η_crit by chance
            raise ValueError(f"edge_width must be at least 1000, got {self.edge_width}.")


PRESETS = {
    "smoke": Config(
        widths=(300, 3000, 30000),
        edge_width=1000,
        image_widths=(64, 128),
        num_images=16,
        num_seeds=12,
    ),
    "paper": Config(
        widths=(300, 3000, 30000, 300000, 3000000),
        image_widths=(256, 1024, 5000),
        num_images=128,
        image_steps=1000,
        num_seeds=20,
    ),
}


class Result(NamedTuple):
    """Axes: s seeds, w widths, r ratios, v image widths, m widths of the map; 2 models."""

    quadratic: Travel  # r s w, of quadratic models
    network: Travel  # r s w, of the ReLU networks themselves
    map_limit: Float[Measured, " m"]  # η_max/η_crit of the map
    quadratic_limit: Float[Measured, " s"]  # and of quadratic models in their weights
    network_limit: Float[Measured, " s"]  # and of ReLU networks, on one example
    image_limit: Float[Measured, "s v"]  # and on images
    linear_limit: Float[Measured, "s v"]  # and of their linear models


def memory(config: Config) -> int:
    """Bytes of the widest network on one example at all ratios, or of those on images."""
    one = max(config.widths) * (config.dimension + 1) * (2 * len(RATIOS) + 2)
    images = max(config.image_widths) * (64 + 4 * config.num_images)
    return 8 * 2 * 8 * max(one, images)


def run(config: Config) -> Result:
    """Train on one example, bisect; then train on images, bisect."""
    example_key, image_key, data_key = jax.random.split(jax.random.key(config.seed), 3)
    report("the map", 0.0)
    limits = jax.jit(jax.vmap(lambda m: phases.largest_ratio(FIRST_OUTPUT, TARGET, m, MAP_STEPS)))
    map_limit = limits(jnp.asarray(MAP_WIDTHS)) / 2
    keys = jax.random.split(example_key, config.num_seeds)
    sizes, travels = (config.dimension, config.num_steps), []
    for index, width in enumerate(config.widths):
        report(f"one example, width {width}", 0.05 + 0.5 * index / len(config.widths))
        travels.append(ensemble(partial(_travel, width, *sizes), keys))
    travel = jax.tree.map(lambda *parts: np.stack(parts, axis=-1), *travels)  # s model r w
    edge = ensemble(partial(_edge, config.edge_width, *sizes), keys)  # s model
    images = digits("standard", (3, 8), "sign").shuffled(data_key)
    data = images.subset(slice(config.num_images))
    keys = jax.random.split(image_key, config.num_seeds)
    on_images = []
    for index, width in enumerate(config.image_widths):
        report(f"images, width {width}", 0.55 + 0.45 * index / len(config.image_widths))
        on_images.append(ensemble(partial(_images, width, config.image_steps, data), keys))
    network_limits, linear_limits = np.stack(on_images, axis=-1).swapaxes(0, 1)
    by_ratio = jax.tree.map(lambda values: np.moveaxis(values, 0, 2), travel)  # model r s w
    quadratic, networks = (Travel(*(part[index] for part in by_ratio)) for index in (0, 1))
    return Result(
        quadratic=quadratic,
        network=networks,
        map_limit=map_limit,
        quadratic_limit=edge[:, 0],
        network_limit=edge[:, 1],
        image_limit=network_limits,
        linear_limit=linear_limits,
    )


def _drawn(width: int, dimension: int, key: RandomKey) -> tuple[gated.GatedWeights, Array, Array]:
    """Weights, an input with ‖x‖² = d, and a target at distance 1 from the first output."""
    weights, x = gated.init(key, width, dimension), jnp.ones(dimension)
    return weights, x, gated.network(weights, x[None])[0, 0] + 1


def _travel(width: int, dimension: int, num_steps: int, key: RandomKey) -> Travel:
    """How far weights travel at every ratio: quadratic model first, then the network."""
    drawn = _drawn(width, dimension, key)

    def one(frozen: Bool[Array, ""]) -> Travel:
        return jax.lax.map(
            lambda ratio: one_example.travel(*drawn, ratio, num_steps, frozen), jnp.asarray(RATIOS)
        )

    return jax.lax.map(one, jnp.array([True, False]))


def _edge(width: int, dimension: int, num_steps: int, key: RandomKey) -> Float[Array, " 2"]:
    """η_max/η_crit on one example: quadratic model first, then the network."""
    drawn = _drawn(width, dimension, key)

    def one(frozen: Bool[Array, ""]) -> Float[Array, ""]:
        return one_example.largest_ratio(*drawn, num_steps, frozen, 2 * HIGHEST) / 2

    return jax.lax.map(one, jnp.array([True, False]))


def _images(width: int, num_steps: int, data: Dataset, key: RandomKey) -> Float[Array, " 2"]:
    """η_max/η_crit of a ReLU network on images, and of its linear model."""
    weights = gated.init(key, width, data.x.shape[1])
    kernel = gated.tangent_kernel(weights, gated.gates(weights, data.x), data.x)
    critical = LOSS.critical_learning_rate(jnp.linalg.eigvalsh(kernel)[-1], data.num_samples)

    def edge(apply: Apply, share: float) -> Float[Array, ""]:
        # Neurons may die, and the loss is then hardly below its first value: that is no training.
        def objective(w: gated.GatedWeights) -> Float[Array, ""]:
            return LOSS(apply(w, data.x), data.y)

        def converges(ratio: Scalar) -> Bool[Array, ""]:
            optimizer, steps = gradient_descent(ratio * critical), np.array([0, num_steps])
            loss = descend(objective, weights, optimizer, steps, objective).records
            return loss[1] < share * loss[0]

        limit = threshold(converges, 0.8, HIGHEST, num_halvings=8)
        survives = jnp.isnan(limit) & converges(jnp.asarray(HIGHEST))
        return jnp.where(survives, HIGHEST, limit)

    linear = linearize(gated.network, weights)
    return jnp.stack([edge(gated.network, 0.5), edge(linear, 1.0)])


def _beyond(travel: Travel) -> Travel:
    """Runs beyond the threshold: axes ratios, seeds, widths."""
    return jax.tree.map(lambda values: values[1:], travel)


# The intervals are the catalogue's acceptance numbers.
CLAIMS = (
    BALL.claim(
        "Below the threshold the distance that weights travel does not depend on the width.",
        lambda r, c: exponent_between(np.array(c.widths), r.quadratic.distance[0], -0.1, 0.1),
        formula=r"\|w_T - w_0\| \propto m^0",
    ),
    BALL.claim(
        "Nor does it for the ReLU network.",
        lambda r, c: exponent_between(np.array(c.widths), r.network.distance[0], -0.1, 0.1),
    ),
    JUMP.claim(
        "Beyond it, at ηλ₀ = 2.5, quadratic models travel a distance ∝ √m.",
        lambda r, c: exponent_between(np.array(c.widths), r.quadratic.distance[1], 0.44, 0.56),
        formula=r"\|w_T - w_0\| \propto \sqrt m",
    ),
    JUMP.claim(
        "So they do at ηλ₀ = 3.",
        lambda r, c: exponent_between(np.array(c.widths), r.quadratic.distance[2], 0.44, 0.56),
    ),
    JUMP.claim(
        "The length of their path grows as √m too.",
        lambda r, c: exponent_between(np.array(c.widths), r.quadratic.length[2], 0.44, 0.56),
    ),
    JUMP.claim(
        "ReLU networks travel a distance ∝ √m at ηλ₀ = 3.",
        lambda r, c: exponent_between(np.array(c.widths), r.network.distance[2], 0.44, 0.56),
    ),
    JUMP.claim(
        "Beyond the threshold the curvature falls to less than two thirds, at every width.",
        lambda r, c: median_at_most(_beyond(r.quadratic).curvature.max(axis=(0, 2)), 0.667),
    ),
    DIVERGENCE.claim(
        "The map converges up to η_max = 2η_crit, at every width from 10³ to 10⁸.",
        lambda r, c: holds(np.minimum(r.map_limit - 1.95, 2.02 - r.map_limit)),
        formula=r"1.95 \le \eta_{\max} / \eta_{\rm crit} \le 2.02",
    ),
    DIVERGENCE.claim(
        "Quadratic models in their weights diverge there too, at ηλ₀ = 4.",
        lambda r, c: median_between(r.quadratic_limit, 1.95, 2.02),
    ),
    JUMP.claim(
        "The interval of catapults does not shrink with the width.",
        lambda r, c: at_most(
            np.abs(power_law_exponents(np.asarray(MAP_WIDTHS), r.map_limit[None])).max(), 0.005
        ),
    ),
    JUMP.claim(
        "ReLU networks on images survive more than quadratic models: beyond 2η_crit.",
        lambda r, c: median_at_least(r.image_limit.min(axis=1), 2.0),
    ),
    JUMP.control(
        "Linear models have no such interval: η_max is η_crit to 5 %.",
        lambda r, c: median_between(r.linear_limit.max(axis=1), 0.95, 1.05),
    ),
    BALL.control(
        "Below the threshold the widest quadratic model keeps its curvature to one in a hundred.",
        lambda r, c: median_at_most(np.abs(r.quadratic.curvature[0, :, -1] - 1), 0.01),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw distances over width, of both models, and how far the learning rate may go."""
    figure, (quadratic, network, limit) = panels(
        "quadratic model: ‖w − w₀‖", "ReLU network: ‖w − w₀‖", "η_max / η_crit"
    )
    names = [f"ηλ₀ = {ratio:g}" for ratio in RATIOS]
    for axis, travel in ((quadratic, result.quadratic), (network, result.network)):
        scaling(axis, config.widths, dict(zip(names, travel.distance, strict=True)))
        label_axes(axis, "width m")
    limit.semilogx(MAP_WIDTHS, result.map_limit, "o", label="map")
    for name, widths, values in (
        ("quadratic model", (config.edge_width,), result.quadratic_limit[:, None]),
        ("ReLU, one example", (config.edge_width,), result.network_limit[:, None]),
        ("ReLU, images", config.image_widths, result.image_limit),
        ("linear, images", config.image_widths, result.linear_limit),
    ):
        limit.semilogx(widths, np.median(values, axis=0), "s-", markersize=4, label=name)
    limit.axhline(2.0, **THEORY)
    limit.set(xlabel="width m", ylim=(0, None))
    limit.legend(fontsize=7)
    return figure
