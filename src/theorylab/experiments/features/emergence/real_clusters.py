"""Features of real images: weights of a two-layer network gather in two clusters, and early.

Two digits are told apart by a ReLU network that starts small; spherical 2-means, started by a rule,
finds the clusters of its first layer's weights. The two are nearly opposite: what speaks for one
digit, and what speaks for the other. From a start of the usual size the network is as good, but the
start's noise stays in the weights, and there is little to be seen (the source does not say how
large its start is).

Images are without their mean. With it, 8×8 digits give weaker clusters, since neurons that see one
digit alone point elsewhere. Four clusters, as the source has for SVHN, are not looked for.

Source: shi · exp-real-clusters · §2.6, A.7.4, Figures 2.3, A.13–A.15.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, median_at_least, median_at_most
from theorylab.data import Dataset, image_set
from theorylab.data.downloads import image_shape, num_images
from theorylab.experiments.checks import refuse_classes, refuse_negative
from theorylab.experiments.drawing import COLOURS, panels
from theorylab.features import accuracy
from theorylab.features.emergence import scrambled, spherical_means
from theorylab.fields import ImageSet
from theorylab.progress import report
from theorylab.training import Batches, ensemble, heavy_ball, logistic, sgd
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"c_u \propto \sum_{i \in u} w_i / \|w_i\|"

CLUSTERS = Source("shi", "exp-real-clusters", "§2.6, Figures 2.3, A.13")
MOMENTUM = 0.95
SMALL, USUAL = 0, 1


@dataclass(frozen=True)
class Config:
    """Two digits, a two-layer network, two sizes of its start."""

    images: ImageSet = "mnist5k"
    classes: tuple[int, ...] = (0, 1)  # two of them
    centred: bool = True  # images without their mean, of length 1; else of variance 1
    width: int = 50  # m
    small: float = 0.01  # standard deviation of the start's weights, times √d
    usual: float = 1.0  # the same of the start to compare with
    num_test: int = 200
    num_steps: int = 300
    batch_size: int = 64
    learning_rate: float = 0.1
    num_seeds: int = 8  # at least 6 to conclude
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_negative(self)
        refuse_classes(self.classes)
        for name in ("width", "num_test", "num_steps", "batch_size", "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**6:
                raise ValueError(f"{name} must be in [1, 10⁶], got {getattr(self, name)}.")
        if self.width < 2 or self.num_steps < 10:
            raise ValueError(
                "width must be at least 2 and num_steps at least 10, "
                f"got {self.width} and {self.num_steps}."
            )
        if not 0 < self.small < self.usual < 1e6:
            raise ValueError(
                f"small must be positive and below usual, got {self.small} and {self.usual}."
            )
        if not 0 < self.learning_rate < 1e6:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate}.")

    @property
    def steps(self) -> tuple[int, ...]:
        """When weights are looked at: at the start, after a tenth, and at the end."""
        return 0, self.num_steps // 10, self.num_steps


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
    """What was measured: starts (small, usual), seeds (s), steps (t)."""

    steps: Float[np.ndarray, " t"]
    within: Float[np.ndarray, "2 s t"]
    between: Float[np.ndarray, "2 s t"]
    chance: Float[np.ndarray, "2 s t"]  # `within` of the same weights, scrambled
    moved: Float[np.ndarray, "2 s t"]  # ‖W_t − W_0‖/‖W_T − W_0‖
    accuracy: Float[np.ndarray, "2 s t"]


def memory(config: Config) -> int:
    """Bytes of all images, and of the images and weights of two seeds."""
    pixels = math.prod(image_shape(config.images))
    return 4 * pixels * (3 * num_images(config.images) + 2 * 20 * config.width)


def run(config: Config) -> Result:
    """Train from both starts, and cluster the weights."""
    report("reading images", 0.0)
    scaling = "unit" if config.centred else "standard"
    images = image_set(config.images, scaling, config.classes, "sign")
    data = images.flat()
    data = data.centred() if config.centred else data
    if data.num_samples < config.num_test + config.batch_size:
        raise ValueError(
            f"num_test and batch_size must be at most {data.num_samples} together, "
            f"got {config.num_test} and {config.batch_size}."
        )
    report("training", 0.1)
    keys = jnp.tile(jax.random.split(jax.random.key(config.seed), config.num_seeds), 2)
    scales = jnp.repeat(jnp.array([config.small, config.usual]), config.num_seeds)
    measured = ensemble(partial(_measured, data=data, config=config), (keys, scales))
    shape = (2, config.num_seeds, len(config.steps))
    return Result(np.array(config.steps, float), *(np.reshape(part, shape) for part in measured))


def _apply(params: tuple[Array, Array, Array], x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
    """Σᵢ aᵢ ReLU(⟨wᵢ, x⟩ + bᵢ)."""
    weights, biases, outer = params
    return jax.nn.relu(x @ weights.T + biases[None, :]) @ outer[:, None]


def _measured(given: tuple[RandomKey, Array], data: Dataset, config: Config) -> tuple[Array, ...]:
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
        _descent(config),
        Batches(config.batch_size),
        config.steps,
        lambda params: (params[0], accuracy(_apply(params, test.x), test.y)),
        batches,
    )
    weights, accuracies = trained.records
    found = jax.vmap(spherical_means)(weights)
    by_chance = jax.vmap(lambda each: spherical_means(scrambled(shuffle, each)).within)(weights)
    change = jnp.linalg.norm(weights - weights[:1], axis=(1, 2))
    return found.within, found.between, by_chance, change / change[-1], accuracies


def _descent(config: Config) -> optax.GradientTransformation:
    return heavy_ball(config.learning_rate, MOMENTUM)


CLAIMS = (
    Claim(
        "From a small start weights gather in two clusters: their mean cosine is 0.8 or more.",
        judge=lambda r, c: median_at_least(r.within[SMALL, :, -1], 0.8),
        source=CLUSTERS,
    ),
    Claim(
        "The two clusters are nearly opposite: the cosine of their centres is -0.5 or less.",
        judge=lambda r, c: median_at_most(r.between[SMALL, :, -1], -0.5),
        source=CLUSTERS,
    ),
    Claim(
        "Most of the change is early: half of it in the first tenth of training.",
        judge=lambda r, c: median_at_least(r.moved[SMALL, :, 1], 0.5),
        source=CLUSTERS,
    ),
    Claim(
        "The network tells the two apart on 97 % of test images.",
        judge=lambda r, c: median_at_least(r.accuracy[SMALL, :, -1], 0.97),
        source=CLUSTERS,
    ),
    Claim(
        "At the start there are no clusters: what 2-means finds has a cosine below 0.5.",
        judge=lambda r, c: median_at_most(r.within[SMALL, :, 0], 0.5),
        source=CLUSTERS,
        kind="control",
    ),
    Claim(
        "The same weights, scrambled, have no clusters.",
        judge=lambda r, c: median_at_most(r.chance[SMALL, :, -1], 0.5),
        source=CLUSTERS,
        kind="control",
    ),
    Claim(
        "From a start of the usual size the start's noise hides them, below a cosine of 0.6.",
        judge=lambda r, c: median_at_most(r.within[USUAL, :, -1], 0.6),
        source=CLUSTERS,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Cosines within and between clusters, and how far weights moved."""
    figure, axes = panels("within clusters", "between centres", "moved")
    for place, name in ((SMALL, "small start"), (USUAL, "usual start")):
        for axis, values in zip(axes, (result.within, result.between, result.moved), strict=True):
            axis.plot(result.steps, values[place].T, "o-", color=COLOURS[place], alpha=0.3)
            axis.plot(result.steps, values[place].mean(axis=0), color=COLOURS[place], label=name)
            axis.set_xlabel("step")
    chance = result.chance[SMALL].mean(axis=0)
    axes[0].plot(result.steps, chance, ":", color="#222222", label="scrambled")
    axes[0].legend(fontsize=7)
    return figure
