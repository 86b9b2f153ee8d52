"""A wider network catapults higher, but its top kernel eigenvalue ends at the same value.

Two-layer ReLU networks on twenty images of two digits, trained by gradient descent beyond the
critical learning rate, catapult as the general quadratic model does (`quadratic/general`), with the
width in the role of 1/γ². The wider the network, the higher the peak of the loss; but where the top
eigenvalue λ of the tangent kernel ends depends on η/η_crit and not on the width.

Source: zhu · gqm · Fig. B.4.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_most, median_at_least, median_at_most, trend
from theorylab.data import Dataset, image_set
from theorylab.data.downloads import image_shape
from theorylab.dynamics.quadratic import gated
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.fields import Count, ImageSet, Increasing, Positive, Seeded
from theorylab.progress import report
from theorylab.training import descend, ensemble, gradient_descent, squared
from theorylab.typing import Measured, RandomKey, Scalar

from ._spread import relative_spread

PRECISION = "float64"
FORMULA = r"\lambda_\infty / \lambda_0 \text{ depends on } \eta / \eta_{\rm crit} \text{ alone}"

FIGURE = Source("zhu", "gqm", "Fig. B.4")

LOSS = squared("half_sum")


@dataclass(frozen=True)
class Config(Seeded):
    """ReLU networks on images at several widths and learning rates."""

    images: ImageSet = "digits"  # their classes 3 and 8
    num_samples: Count = 20  # images
    widths: Increasing[Count] = (500, 1500, 5000)
    ratios: Increasing[Positive] = (0.75, 1.2, 1.4)  # η/η_crit: the first below 1
    num_steps: Count = 60  # of gradient descent

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.ratios[0] < 1 < self.ratios[1]:
            raise ValueError(f"ratios must be above 1 but for the first, got {self.ratios}.")


PRESETS = {
    "smoke": Config(widths=(400, 1200), num_steps=50, num_seeds=8),
    "paper": Config(
        images="mnist5k", widths=(1000, 3000, 10000, 30000), num_steps=200, num_seeds=20
    ),
}


class Result(NamedTuple):
    """Axes: s seeds, w widths, f ratios."""

    peaks: Float[Measured, "..."]  # highest over first loss
    ends: Float[Measured, "..."]  # last over first top eigenvalue


def memory(config: Config) -> int:
    """Bytes of weights, and of neurons on all images, of the widest networks on two cores."""
    n, pixels = config.num_samples, math.prod(image_shape(config.images))
    weights = config.widths[-1] * (pixels + 1)
    hidden = 6 * n * config.widths[-1]
    losses = config.num_seeds * len(config.widths) * len(config.ratios) * config.num_steps
    return 8 * (2 * (6 * weights + hidden + 2 * n * (n + pixels)) + losses)


def run(config: Config) -> Result:
    """Train at every width and learning rate."""
    report("networks", 0.0)
    _, network_key, data_key = jax.random.split(jax.random.key(config.seed), 3)
    images = image_set(config.images, "standard", (3, 8), "sign").flat().shuffled(data_key)
    data = images.subset(slice(config.num_samples))
    shape = (config.num_seeds, len(config.widths), len(config.ratios))
    seeds, widths, ratios = (part.ravel() for part in np.indices(shape))
    settings = (
        jax.random.split(network_key, config.num_seeds)[seeds],
        jnp.asarray(config.widths, float)[widths],
        jnp.asarray(config.ratios)[ratios],
    )
    train = partial(_network, data, max(config.widths), config.num_steps)
    return jax.tree.map(lambda values: values.reshape(shape), ensemble(train, settings))


def _network(
    data: Dataset, widest: int, num_steps: int, setting: tuple[RandomKey, Scalar, Scalar]
) -> Result:
    """Highest over first loss, and last over first top eigenvalue, of a ReLU network.

    All widths m are one program: neurons beyond m are 0 and stay so; inputs are scaled by √(M/m),
    where M is the widest, because the network divides by √M.
    """
    key, width, ratio = setting
    x = data.x * jnp.sqrt(widest / width)
    drawn = gated.init(key, widest, x.shape[1])
    own = (jnp.arange(widest) < width).astype(x.dtype)
    weights = gated.GatedWeights(drawn.first * own[:, None], drawn.second * own)

    def top(weights: gated.GatedWeights) -> Float[Array, ""]:
        kernel = gated.tangent_kernel(weights, gated.gates(weights, x), x)
        return jnp.linalg.eigvalsh(kernel)[-1]

    def objective(weights: gated.GatedWeights) -> Float[Array, ""]:
        return LOSS(gated.network(weights, x), data.y)

    first = top(weights)
    rate = ratio * LOSS.critical_learning_rate(first, data.num_samples)
    steps, optimizer = np.arange(num_steps + 1), gradient_descent(rate)
    path = descend(objective, weights, optimizer, steps, objective)
    return Result(peaks=path.records.max() / path.records[0], ends=top(path.params) / first)


EFFECT = "and larger learning rates have similar effect on the training loss at the peak"
CLAIMS = (
    FIGURE.claim(
        "The wider the network, the higher the peak.",
        lambda r, c: trend(r.peaks[:, :, -1].T),
        quote=EFFECT,
        regime="num_seeds >= 10 and len(widths) >= 3",
        demand="source",
    ),
    FIGURE.claim(
        "The larger η, the higher the peak, at every width.",
        lambda r, c: median_at_least(np.diff(np.log(r.peaks)).min(axis=(1, 2)), 0.0),
        quote=EFFECT,
        demand="source",
    ),
    FIGURE.claim(
        "The larger η, the more the top eigenvalue falls, at every width.",
        lambda r, c: median_at_most(np.diff(r.ends).max(axis=(1, 2)), 0.0),
        quote="and decrease of tangent kernel norm with quadratic models",
        demand="source",
    ),
    FIGURE.claim(
        "Width has no effect on where the top eigenvalue ends; it varies by less than a fifth.",
        lambda r, c: median_at_most(relative_spread(r.ends[:, :, -1]), 0.2),
        quote="seems to have no effect on the tangent kernel norm at convergence",
        demand="lab: as for quadratic models, whose spread over γ was 0.15 on one run",
    ),
    FIGURE.control(
        "Below the critical learning rate the loss never exceeds its first value.",
        lambda r, c: at_most(r.peaks[:, :, 0].max(), 1.0),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the peaks of the loss and the end of the top eigenvalue over the width."""
    figure, (peak, end) = panels("highest loss / first loss", "end of λ / λ₀")
    names = [f"η = {ratio:g} η_crit" for ratio in config.ratios]
    for axis, values in ((peak, result.peaks), (end, result.ends)):
        curves(axis, config.widths, dict(zip(names, np.moveaxis(values, 2, 0), strict=True)), "o-")
    label_axes(peak, "width m", logarithmic="xy")
    label_axes(end, "width m", logarithmic="x")
    return figure
