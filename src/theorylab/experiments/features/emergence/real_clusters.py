"""Weights of a network that learns real images form two clusters, early in training.

A ReLU network tells two digits apart; spherical 2-means, started by a rule, finds the clusters of
its first layer's weights. There are two that are nearly opposite: what speaks for one digit, and
what speaks for the other. From a start of the usual size, as the source has it, they are as loose
as those that the source prints for ResNets, since the start's noise stays in the weights (of this
network it shows pictures, and no numbers). From a small start they are close.

Images are without their mean. With it, 8×8 digits give weaker clusters, since neurons that see one
digit alone point elsewhere. Four clusters, as the source has for SVHN, are not looked for.

Source: shi · exp-real-clusters · §2.6, A.7.4, Figures 2.3, A.13–A.15.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source
from theorylab.claims.judges import median_at_least, median_at_most
from theorylab.data import Dataset, image_set
from theorylab.data.downloads import image_shape, num_images
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.features import accuracy
from theorylab.features.emergence.clusters import scrambled, spherical_means
from theorylab.fields import Count, Plural, within
from theorylab.progress import report
from theorylab.training import Batches, heavy_ball, logistic, sgd
from theorylab.typing import Measured, RandomKey

from ._two_starts import SMALL, USUAL, TwoClasses, draw_starts, from_both_starts

PRECISION = "float32"
FORMULA = r"c_u \propto \sum_{i \in u} w_i / \|w_i\|"

CLUSTERS = Source("shi", "exp-real-clusters", "§2.6, Figures 2.3, A.13")
MOMENTUM = 0.95


@dataclass(frozen=True)
class Config(TwoClasses):
    """Two digits, a two-layer network, two sizes of its start."""

    centred: bool = True  # images without their mean, of length 1; else of variance 1
    width: Plural = 50  # m
    num_steps: Annotated[int, within(10)] = 300
    num_seeds: Count = 8  # at least 6 to conclude

    @property
    def steps(self) -> list[int]:
        """When weights are looked at: at the start, after a tenth, and at the end."""
        return [0, self.num_steps // 10, self.num_steps]


PRESETS = {
    "smoke": Config(images="digits", num_test=80, batch_size=32, num_seeds=6),
    "paper": Config(
        images="mnist",
        centred=False,
        num_test=2000,
        num_steps=2000,
        batch_size=128,
        learning_rate=0.01,
        num_seeds=20,
    ),
}


class Result(NamedTuple):
    """What was measured: starts (small, usual) and seeds (s) come first, then steps (t)."""

    within: Float[Measured, "*runs t"]  # mean cosine of weights to their cluster's centre
    between: Float[Measured, "*runs t"]  # cosine of the two centres
    chance: Float[Measured, "*runs t"]  # `within` of the same weights, scrambled
    moved: Float[Measured, "*runs t"]  # ‖W_t − W_0‖/‖W_T − W_0‖
    accuracy: Float[Measured, "*runs t"]


def memory(config: Config) -> int:
    """Bytes of all images, of images and weights of two seeds, and of what is kept of each."""
    pixels = math.prod(image_shape(config.images))
    images = pixels * (3 * num_images(config.images) + 2 * 20 * config.width)
    hidden = 2 * 4 * config.num_test * config.width
    return 4 * (images + hidden + 4 * config.num_seeds * 15)


def run(config: Config) -> Result:
    """Train from both starts, and cluster the weights."""
    report("reading images", 0.0)
    scaling = "unit" if config.centred else "standard"
    data = image_set(config.images, scaling, config.classes, "sign").flat()
    data = data.centred() if config.centred else data
    if data.num_samples < config.num_test + config.batch_size:
        raise ValueError(
            f"num_test and batch_size must be at most {data.num_samples} together, "
            f"got {config.num_test} and {config.batch_size}."
        )
    report("training", 0.1)
    return from_both_starts(config, partial(_measured, data=data, config=config))


def _apply(params: tuple[Array, Array, Array], x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
    """Σᵢ aᵢ ReLU(⟨wᵢ, x⟩ + bᵢ)."""
    weights, biases, outer = params
    return jax.nn.relu(x @ weights.T + biases[None, :]) @ outer[:, None]


def _measured(given: tuple[RandomKey, Float[Array, ""]], data: Dataset, config: Config) -> Result:
    """One network: clusters, chance, movement and accuracy at every step."""
    key, scale = given
    order, inner, outer, batches, shuffle = jax.random.split(key, 5)
    test, train = data.shuffled(order).split(config.num_test)
    d, m = data.input_shape[0], config.width
    start = (
        scale * jax.random.normal(inner, (m, d)) / d**0.5,
        jnp.zeros(m),
        jax.random.normal(outer, (m,)) / m**0.5,
    )
    loss = logistic("mean")
    trained = sgd(
        lambda params, x, y: loss(_apply(params, x), y),
        start,
        train,
        heavy_ball(config.learning_rate, MOMENTUM),
        Batches(config.batch_size),
        config.steps,
        lambda params: (params[0], accuracy(_apply(params, test.x), test.y)),
        batches,
    )
    weights, accuracies = trained.records
    found = jax.vmap(spherical_means)(weights)
    change = jnp.linalg.norm(weights - weights[:1], axis=(1, 2))
    return Result(
        within=found.within,
        between=found.between,
        chance=jax.vmap(lambda each: spherical_means(scrambled(shuffle, each)).within)(weights),
        moved=change / change[-1],
        accuracy=accuracies,
    )


LAB = "lab: chosen for this experiment; the source shows pictures, and has no number"

CLAIMS = (
    CLUSTERS.claim(
        "From a usual start weights form two clusters: mean cosines are 0.426 or more, and those "
        "of the centres -0.51 or less.",
        lambda r, c: median_at_least(
            np.minimum(r.within[USUAL, :, -1] - 0.426, -0.51 - r.between[USUAL, :, -1]), 0.0
        ),
        quote="The weights gradually form two clusters",
        demand="derived: the loosest clusters for which the source prints numbers (Fig. A.16)",
    ),
    CLUSTERS.found(
        "They are loose, because the start's noise stays: their mean cosine is below 0.6.",
        lambda r, c: median_at_most(r.within[USUAL, :, -1], 0.6),
        demand=LAB,
    ),
    CLUSTERS.found(
        "From a small start the two clusters are close: their mean cosine is 0.8 or more.",
        lambda r, c: median_at_least(r.within[SMALL, :, -1], 0.8),
        demand=LAB,
    ),
    CLUSTERS.found(
        "From a small start they are nearly opposite: the cosine of their centres is -0.5 or less.",
        lambda r, c: median_at_most(r.between[SMALL, :, -1], -0.5),
        demand=LAB,
    ),
    CLUSTERS.claim(
        "Features emerge early: from either start half of the change is in the first tenth.",
        lambda r, c: median_at_least(r.moved[:, :, 1].min(axis=0), 0.5),
        quote="effective features emerge after a few steps",
        demand=LAB,
    ),
    CLUSTERS.check(
        "From either start the network tells the two apart on 97 % of test images.",
        lambda r, c: median_at_least(r.accuracy[:, :, -1].min(axis=0), 0.97),
        demand=LAB,
    ),
    CLUSTERS.control(
        "At the start there are no clusters: what 2-means finds in random weights has a cosine "
        "below 0.426, that of the first claim.",
        lambda r, c: median_at_most(r.within[:, :, 0].max(axis=0), 0.426),
        demand="derived: what the first claim asks for must not be there at the start",
    ),
    CLUSTERS.control(
        "The weights of the end, scrambled, have no clusters: from either start their cosine is "
        "below 0.426 too.",
        lambda r, c: median_at_most(r.chance[:, :, -1].max(axis=0), 0.426),
        demand="derived: what the first claim asks for must not be there by chance",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Cosines within and between clusters, and how far weights moved."""
    figure, axes = panels("cosines within clusters", "between centres", "moved")
    for axis, values in zip(axes, (result.within, result.between, result.moved), strict=True):
        draw_starts(axis, config.steps, values)
        label_axes(axis, "step")
    curves(axes[0], config.steps, {"small start, scrambled": result.chance[SMALL]}, ":", 2)
    return figure
