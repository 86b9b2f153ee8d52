"""Beyond the critical learning rate weights leave every ball, at every width.

Below the critical learning rate a wide network hardly moves: its weights stay in a ball whose
radius, |y − f|/√λ₀ on one example, does not depend on the width m, and its kernel is constant. Just
beyond, the kernel must change by a constant factor, and since its derivative in the weights is
O(1/√m), the weights travel a distance ∝ √m. So the transition is not continuous in the limit of
infinite width: the interval of learning rates with a catapult, from η_crit to η_max, does not
shrink. For the quadratic model on one example η_max is 2η_crit: it diverges at ηλ₀ = 4. For the
linear model η_max is η_crit. For ReLU networks η_max is found by bisection, on one example and on
images of two digits.

Source: zhu · lr-phases · 3.1, Fig. 3.2a; zhu · nqm-2d-map · Thms 3.3.1, B.7.1; zhu ·
linear-dynamics · Eq. 3.8.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
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
from theorylab.fields import Count, Increasing, Seeded, within
from theorylab.models import linearize
from theorylab.progress import report
from theorylab.training import descend, ensemble, gradient_descent, squared
from theorylab.typing import Apply, Measured, RandomKey, Scalar

PRECISION = "float64"
FORMULA = r"\|w_T - w_0\| \propto \sqrt m, \quad \eta_{\max} / \eta_{\rm crit} \to 2"

BALL = Source("zhu", "lr-phases", "Fig. 3.2a")
JUMP = Source("zhu", "lr-phases", "3.1, discontinuity in dynamics transition")
DIVERGENCE = Source("zhu", "nqm-2d-map", "Thms 3.3.1, B.7.1")
LINEAR = Source("zhu", "linear-dynamics", "Eq. 3.8")

RATIOS = (1.5, 2.5, 3.0)  # ηλ₀ on one example: below the threshold 2, and twice beyond
TARGET, FIRST_OUTPUT, MAP_STEPS = 1.0, 0.7, 1000
PIXELS = 64  # of a digit
MAP_WIDTHS = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8)
HIGHEST = 12.0  # in units of η_crit; networks that survive this too (dead ones may) count as this
LOSS = squared("half_sum")


@dataclass(frozen=True)
class Config(Seeded):
    """One example at growing width; and networks on images, whose η_max is bisected."""

    widths: Increasing[Count] = (300, 3000, 30000, 100000)  # of the networks on one example
    edge_width: Annotated[int, within(1000)] = 2000  # where η_max on one example is bisected
    dimension: Count = 2  # inputs d of both
    num_steps: Count = 80  # their steps
    image_widths: Increasing[Count] = (128, 512)  # of the networks on images
    num_images: Count = 48  # threes and eights, 8 × 8
    image_steps: Count = 100  # steps after which the loss must be below its first value


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
    radius: Float[Measured, " s"]  # |y − f|/√λ₀ of the widest networks
    map_limit: Float[Measured, " m"]  # η_max/η_crit of the map
    quadratic_limit: Float[Measured, " s"]  # and of quadratic models in their weights
    network_limit: Float[Measured, " s"]  # and of ReLU networks, on one example
    image_limit: Float[Measured, "s v"]  # and on images
    linear_limit: Float[Measured, "s v"]  # and of their linear models


def memory(config: Config) -> int:
    """Bytes of the widest networks on one example, or of those on images, on two cores."""
    example = 10 * (config.dimension + 1) * max(config.widths[-1], config.edge_width)
    images = config.image_widths[-1] * (10 * (PIXELS + 1) + 8 * config.num_images)
    records = (
        config.num_steps + config.image_steps + config.num_images * (PIXELS + config.num_images)
    )
    return 8 * 2 * (max(example, images) + 4 * records)


def run(config: Config) -> Result:
    """Train on one example, bisect; then train on images, bisect."""
    example_key, image_key, data_key = jax.random.split(jax.random.key(config.seed), 3)
    report("the map", 0.0)
    limit = jax.jit(jax.vmap(lambda m: phases.largest_ratio(FIRST_OUTPUT, TARGET, m, MAP_STEPS)))
    map_limit = limit(jnp.asarray(MAP_WIDTHS)) / 2
    keys = jax.random.split(example_key, config.num_seeds)
    sizes, travels = (config.dimension, config.num_steps), []
    for index, width in enumerate(config.widths):
        report(f"one example, width {width}", 0.05 + 0.5 * index / len(config.widths))
        travels.append(ensemble(partial(_travel, width, *sizes), keys))  # s model r
    by_ratio = jax.tree.map(lambda *parts: jnp.moveaxis(jnp.stack(parts, -1), 0, 2), *travels)
    quadratic, networks = (Travel(*(part[index] for part in by_ratio)) for index in (0, 1))
    edge = ensemble(partial(_edge, config.edge_width, *sizes), keys)  # s model
    radius = ensemble(partial(_radius, config.widths[-1], config.dimension), keys)
    images = digits("standard", (3, 8), "sign").shuffled(data_key)
    data = images.subset(slice(config.num_images))
    keys, limits = jax.random.split(image_key, config.num_seeds), []
    for index, width in enumerate(config.image_widths):
        report(f"images, width {width}", 0.55 + 0.45 * index / len(config.image_widths))
        limits.append(ensemble(partial(_images, width, config.image_steps, data), keys))
    return Result(
        quadratic=quadratic,
        network=networks,
        radius=radius,
        map_limit=map_limit,
        quadratic_limit=edge[:, 0],
        network_limit=edge[:, 1],
        image_limit=jnp.stack([found[:, 0] for found in limits], axis=1),
        linear_limit=jnp.stack([found[:, 1] for found in limits], axis=1),
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


def _radius(width: int, dimension: int, key: RandomKey) -> Float[Array, ""]:
    """|y − f|/‖∇f‖ at the start, by autodiff."""
    weights, x, target = _drawn(width, dimension, key)
    value, slope = jax.value_and_grad(lambda w: gated.network(w, x[None])[0, 0])(weights)
    return jnp.abs(target - value) / jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in slope))


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


def _last_ratios(travel: Travel) -> Float[np.ndarray, " s"]:
    """The largest ηλ at the end, of runs beyond the threshold."""
    return np.asarray(travel.curvature * np.array(RATIOS)[:, None, None])[1:].max(axis=(0, 2))


SLOPE = (
    "lab: set on another run at widths 10² to 10⁵, where slopes were 0.04 below 2 and 0.46 to 0.5"
)
CLAIMS = (
    BALL.claim(
        "Below the critical rate quadratic models stay in a ball of finite radius: the distance"
        " that weights travel does not depend on the width.",
        lambda r, c: exponent_between(c.widths, r.quadratic.distance[0], -0.1, 0.1),
        formula=r"\|w_T - w_0\| \propto m^0",
        quote="The whole optimization path is contained in the ball",
        demand=SLOPE,
    ),
    BALL.claim(
        "So do ReLU networks.",
        lambda r, c: exponent_between(c.widths, r.network.distance[0], -0.1, 0.1),
        quote="The whole optimization path is contained in the ball",
        demand=SLOPE,
    ),
    BALL.found(
        "The radius of the ball is that of the linear model: the widest networks travel"
        " |y − f|/√λ₀, to one in a hundred.",
        lambda r, c: median_at_most(np.abs(r.network.distance[0, :, -1] / r.radius - 1), 0.01),
        formula=r"\|w_T - w_0\| \to |y - f(w_0)| / \sqrt{\lambda_0}",
        demand="derived: gradients are constant in the limit; 0.01 is for widths of 30000 or more",
        regime="widths[-1] >= 30000",
    ),
    BALL.claim(
        "There the curvature of the widest ReLU networks is nearly constant, to one in a hundred.",
        lambda r, c: median_at_most(np.abs(r.network.curvature[0, :, -1] - 1), 0.01),
        quote="the tangent kernel of wide neural networks is nearly constant during training",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    BALL.claim(
        "Beyond the critical rate the curvature falls, to below 2/η at every width.",
        lambda r, c: median_at_most(_last_ratios(r.quadratic), 2.0),
        quote="along with a decrease of the norm of the tangent kernel",
        demand="derived: a run converges only where ηλ < 2",
    ),
    JUMP.claim(
        "Beyond it the path of ReLU networks is the longer, the wider they are.",
        lambda r, c: exponent_between(c.widths, r.network.length[2], 0.0, np.inf),
        quote="in catapult dynamics grows with m since otherwise",
        demand="source",
    ),
    JUMP.found(
        "Quadratic models travel a distance ∝ √m, at ηλ₀ = 2.5 and 3 together.",
        lambda r, c: exponent_between(
            c.widths, np.sqrt(r.quadratic.distance[1] * r.quadratic.distance[2]), 0.44, 0.56
        ),
        formula=r"\|w_T - w_0\| \propto \sqrt m",
        demand=SLOPE,
    ),
    JUMP.found(
        "ReLU networks travel a distance ∝ √m at ηλ₀ = 3.",
        lambda r, c: exponent_between(c.widths, r.network.distance[2], 0.44, 0.56),
        demand=SLOPE,
    ),
    JUMP.claim(
        "The interval of catapults does not shrink: the map converges up to η_max = 2η_crit, at"
        " every width from 10³ to 10⁸.",
        lambda r, c: holds(np.minimum(r.map_limit - 1.95, 2.02 - r.map_limit)),
        formula=r"\eta_{\max} / \eta_{\rm crit} = 2 \pm \Theta(\log m / \sqrt m)",
        quote="the domain of the catapult dynamics can be independent of the width m",
        demand="lab: on a grid the largest ηλ₀ was 3.995 from m = 10³ on; log m/√m is 0.2 there",
    ),
    DIVERGENCE.claim(
        "Quadratic models in their weights converge up to 2η_crit too.",
        lambda r, c: median_between(r.quadratic_limit, 1.95, 2.02),
        demand="lab: on a grid the largest ηλ₀ was 3.995 from m = 10³ on; log m/√m is 0.2 there",
    ),
    JUMP.found(
        "ReLU networks on images survive more than quadratic models: beyond 2η_crit.",
        lambda r, c: median_at_least(r.image_limit.min(axis=1), 2.0),
        demand="derived: 2η_crit is where quadratic models end",
    ),
    LINEAR.control(
        "Linear models have no such interval: η_max is η_crit to 5 %.",
        lambda r, c: median_between(r.linear_limit.max(axis=1), 0.95, 1.05),
        quote="the critical and maximum learning rates are equal in this setting",
        demand="lab: for a bisection that sees 100 steps",
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
