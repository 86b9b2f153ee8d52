"""Filters of a residual network gather in two clusters too, if they start small.

A ResNet of four groups of blocks tells two classes of images apart. What the source shows by two
clusters picked by hand is looked for by a rule here: spherical 2-means of the filters of the last
convolution of every group, against the same filters with their numbers shuffled, since clusters are
found in anything. Filters that start small gather in two clusters. From a start of the usual size
they hardly move, and there is nothing to be seen in them; what training added to them, W_T − W_0,
has the two clusters. (The source does not say how large its start is.)

The filters nearest to the two centres are followed: the mean gradients of the first three chunks of
steps point alike, far beyond the deviation 1/√dim of random directions. (The source follows one of
the two; here it is the mean of both.) Descent is plain, so that the way of the weights is the mean
gradient. Biases start at 0; there are no batch statistics.

Source: shi · exp-resnet-filters · Figures A.16, A.17, Table A.7.
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

from theorylab.claims import Claim, Source, median_at_least, median_at_most, ordered
from theorylab.data import Dataset, image_set
from theorylab.data.backgrounds import downsample
from theorylab.data.downloads import image_shape, num_images
from theorylab.experiments.checks import refuse_classes, refuse_negative
from theorylab.experiments.drawing import COLOURS, panels
from theorylab.features import accuracy
from theorylab.features.emergence import (
    block_filters,
    nearest_filters,
    persistence,
    scale_filters,
    scrambled,
    spherical_means,
    stacked,
)
from theorylab.fields import ImageSet
from theorylab.models import Model, Standard, network, resnet
from theorylab.models.unfold import im2col
from theorylab.progress import report
from theorylab.training import Batches, empirical_risk, ensemble, gradient_descent, logistic, sgd
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"\cos(v_c, v_{c'}),\quad v_c = \frac{w(t_{c-1}) - w(t_c)}{\eta (t_c - t_{c-1})}"

FILTERS = Source("shi", "exp-resnet-filters", "Figure A.16")
GRADIENTS = Source("shi", "exp-resnet-filters", "Figure A.17, Table A.7")

NUM_GROUPS, NUM_CHUNKS = 4, 3
SMALL, USUAL = 0, 1
LOOSEST = 0.426  # the least mean cosine that the source prints for a cluster, of its 16


@dataclass(frozen=True)
class Config:
    """Two classes of images, a residual network, two sizes of its filters' start."""

    images: ImageSet = "mnist5k"
    shrink: int = 2  # the side of the square that becomes one pixel
    classes: tuple[int, ...] = (0, 1)  # two of them
    width: int = 8  # m, filters of the first group; 2m, 4m and 8m in the others
    blocks: int = 1  # in every group; ResNet-18 has 2
    normalized: bool = False  # whether there is layer normalisation
    small: float = 0.01  # standard deviation of the start's filters, times √dim
    usual: float = 1.0  # the same of the start to compare with
    num_train: int = 400
    num_test: int = 400
    batch_size: int = 20
    early_epochs: int = 3
    num_epochs: int = 20
    chunk: int = 10  # steps over which gradients are averaged
    learning_rate: float = 0.05
    num_seeds: int = 12  # of which two may be exceptions; at least 6 to conclude
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_negative(self)
        refuse_classes(self.classes)
        counts = ("shrink", "blocks", "num_train", "num_test", "batch_size", "early_epochs")
        for name in (*counts, "num_epochs", "chunk", "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**6:
                raise ValueError(f"{name} must be in [1, 10⁶], got {getattr(self, name)}.")
        if not 2 <= self.width <= 10**4:
            raise ValueError(f"width must be in [2, 10⁴], got {self.width}.")
        if self.batch_size > self.num_train:
            raise ValueError(f"batch_size must be at most num_train, got {self.batch_size}.")
        if self.early_epochs >= self.num_epochs:
            raise ValueError(f"early_epochs must be below num_epochs, got {self.early_epochs}.")
        if NUM_CHUNKS * self.chunk > self.num_steps:
            raise ValueError(
                f"chunk must be at most a third of {self.num_steps} steps, got {self.chunk}."
            )
        if not 0 < self.small < self.usual < 1e6:
            raise ValueError(
                f"small must be positive and below usual, got {self.small} and {self.usual}."
            )
        if not 0 < self.learning_rate < 1e6:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate}.")

    @property
    def num_steps(self) -> int:
        """Of all epochs."""
        return self.num_epochs * self.num_train // self.batch_size

    @property
    def steps(self) -> list[int]:
        """When filters are looked at: after every chunk, after the early epochs, at the end."""
        chunks = [self.chunk * number for number in range(NUM_CHUNKS + 1)]
        early = self.early_epochs * self.num_train // self.batch_size
        return sorted({*chunks, early, self.num_steps})

    @property
    def early(self) -> int:
        """The place of the early epochs' end among the steps."""
        return self.steps.index(self.early_epochs * self.num_train // self.batch_size)


PRESETS = {
    "smoke": Config(
        images="digits",
        shrink=1,
        width=6,
        num_train=104,
        num_test=60,
        batch_size=8,
        num_epochs=8,
        learning_rate=0.08,
        num_seeds=12,
    ),
    "paper": Config(
        images="cifar10",
        shrink=1,
        width=128,
        blocks=2,
        normalized=True,
        num_train=10000,
        num_test=2000,
        batch_size=128,
        learning_rate=0.01,
    ),
}


class Measured(NamedTuple):
    """One network: groups (g); times start, early, end (t); pairs of chunks (p)."""

    within: Float[Array, "g t"]
    between: Float[Array, "g t"]
    chance: Float[Array, "g t"]  # `within` of the same filters, shuffled
    added: Float[Array, "g 2"]  # W_T − W_0: `within` and `between`
    early: Float[Array, " g"]  # ‖W_early − W_0‖, up to a factor that `late` has, too
    late: Float[Array, " g"]  # ‖W_T − W_early‖
    pairs: Float[Array, "g 2 p"]  # cosines of mean gradients of the filters nearest to centres
    to_mean: Float[Array, "g 2 p"]
    accuracy: Float[Array, " t"]


class Result(NamedTuple):
    """What was measured: starts (small, usual) and seeds (s) come first, then as in `Measured`."""

    epochs: Float[np.ndarray, " t"]
    deviation: Float[np.ndarray, " g"]  # of the cosine of two random directions
    within: Float[np.ndarray, "2 s g t"]
    between: Float[np.ndarray, "2 s g t"]
    chance: Float[np.ndarray, "2 s g t"]
    added: Float[np.ndarray, "2 s g 2"]
    early: Float[np.ndarray, "2 s g"]
    late: Float[np.ndarray, "2 s g"]
    pairs: Float[np.ndarray, "2 s g 2 p"]
    to_mean: Float[np.ndarray, "2 s g 2 p"]
    accuracy: Float[np.ndarray, "2 s t"]


def memory(config: Config) -> int:
    """Bytes of images, of the widest windows of a test set, and of filters at all times."""
    shape = image_shape(config.images)
    side, whole = shape[0] // config.shrink, num_images(config.images) * math.prod(shape)
    windows = config.num_test * side**2 * config.width * 9 * 3
    filters = NUM_GROUPS * len(config.steps) * 8 * config.width * 72 * config.width
    return 4 * (3 * whole + 2 * (windows + 4 * filters))


def run(config: Config) -> Result:
    """Train from both starts, and cluster the filters."""
    report("reading images", 0.0)
    images = image_set(config.images, "unit", config.classes, "sign")
    if images.num_samples < config.num_train + config.num_test:
        raise ValueError(
            f"num_train and num_test must be at most {images.num_samples} together, "
            f"got {config.num_train} and {config.num_test}."
        )
    x = downsample(images.x, config.shrink)
    x = x - x.mean(axis=0, keepdims=True)
    data = Dataset(x / jnp.sqrt(jnp.mean(x**2)), images.y, images.law, images.source)
    report("training", 0.1)
    keys = jnp.tile(jax.random.split(jax.random.key(config.seed), config.num_seeds), 2)
    scales = jnp.repeat(jnp.array([config.small, config.usual]), config.num_seeds)
    architecture = resnet(config.width, 1, config.blocks, normalized=config.normalized)
    model = network(im2col(architecture), data.input_shape, Standard(), bias="zero")
    one = partial(_measured, model=model, data=data, config=config)
    measured = ensemble(one, (keys, scales))
    inputs = 9 * config.width * 2 ** np.arange(NUM_GROUPS)
    return Result(
        epochs=np.array([0.0, config.early_epochs, config.num_epochs]),
        deviation=inputs**-0.5,
        **{
            name: np.reshape(np.asarray(values), (2, config.num_seeds, *values.shape[1:]))
            for name, values in measured._asdict().items()
        },
    )


def _measured(
    given: tuple[RandomKey, Array], model: Model, data: Dataset, config: Config
) -> Measured:
    """One network: its filters in training, their clusters and their gradients."""
    key, scale = given
    order, start, batches, shuffle = jax.random.split(key, 4)
    test, rest = data.shuffled(order).split(config.num_test)
    train, _ = rest.split(config.num_train)
    trained = sgd(
        empirical_risk(logistic("mean"), model.apply),
        scale_filters(model.init(start), scale),
        train,
        gradient_descent(config.learning_rate),
        Batches(config.batch_size),
        config.steps,
        lambda params: (
            # Of a group's blocks the last one, which later groups read.
            block_filters(params)[config.blocks - 1 :: config.blocks],
            accuracy(model.apply(params, test.x), test.y),
        ),
        batches,
    )
    filters, accuracies = trained.records
    times = jnp.array([0, config.early, len(config.steps) - 1])
    chunks = jnp.array([config.steps.index(config.chunk * c) for c in range(NUM_CHUNKS + 1)])
    mixed = [jax.vmap(partial(scrambled, shuffle))(rows[times]) for rows in filters]
    every = stacked(filters)
    found = jax.vmap(_of_group)(every[:, times], stacked(mixed), every[:, chunks])
    return Measured(*found, accuracy=accuracies[times])


def _of_group(
    filters: Float[Array, "t m d"], mixed: Float[Array, "t m d"], chunks: Float[Array, "c m d"]
) -> tuple[Array, ...]:
    """Clusters of one group's filters, how far these went, and what their gradients did."""
    first, early, last = filters
    everything = jnp.concatenate([filters, mixed, (last - first)[None]])
    clusters = jax.lax.map(spherical_means, everything)
    at_end = jax.tree.map(lambda leaf: leaf[2], clusters)
    nearest = chunks[:, nearest_filters(last, at_end)]
    kept = jax.vmap(persistence, in_axes=1)(nearest)
    within, between = clusters.within, clusters.between
    return (
        *(within[:3], between[:3], within[3:6], jnp.stack([within[6], between[6]])),
        *(jnp.linalg.norm(early - first), jnp.linalg.norm(last - early)),
        *(kept.pairs, kept.to_mean),
    )


def _above_chance(result: Result, start: int, time: int) -> np.ndarray:
    """What filters have in common beyond those that are shuffled, (s, g)."""
    return (result.within - result.chance)[start, :, :, time]


def _kept(result: Result) -> np.ndarray:
    """The least cosine of two chunks, in the mean of both filters and of all groups, (s,)."""
    return result.pairs[SMALL].min(axis=3).mean(axis=(1, 2))


def _deviations(result: Result) -> np.ndarray:
    """The mean cosine of pairs, in the last group, over the deviation of one random cosine, (s,).

    In the first two groups a filter has so few numbers that ten deviations are more than 1, or
    nearly: no cosine could be as large.
    """
    return result.pairs[SMALL, :, -1].mean(axis=(1, 2)) / result.deviation[-1]


# 0.3 and ten deviations 1/√dim of one cosine are the catalogue's.
CLAIMS = (
    Claim(
        "From a small start filters of every group gather in two clusters, as close as printed.",
        judge=lambda r, c: median_at_least(r.within[SMALL, :, :, -1].min(axis=1), LOOSEST),
        source=FILTERS,
    ),
    Claim(
        "In the last two groups they are closer to their centres than the same filters shuffled.",
        judge=lambda r, c: ordered(
            np.zeros(r.within.shape[1]), _above_chance(r, SMALL, -1)[:, 2:].min(axis=1)
        ),
        source=FILTERS,
    ),
    Claim(
        "In the last group centres are opposite, and filters 0.2 closer to them than shuffled.",
        judge=lambda r, c: median_at_least(
            np.minimum(
                _above_chance(r, SMALL, -1)[:, -1] - 0.2, -0.5 - r.between[SMALL, :, -1, -1]
            ),
            0.0,
        ),
        source=FILTERS,
    ),
    Claim(
        "At this size, without a choice by hand, centres of some group are not: above -0.5.",
        judge=lambda r, c: median_at_least(r.between[SMALL, :, :, -1].max(axis=1), -0.5),
        source=FILTERS,
        kind="control",
    ),
    Claim(
        "Gradients keep their direction: mean gradients of three chunks have cosines above 0.3.",
        judge=lambda r, c: median_at_least(_kept(r), 0.3),
        source=GRADIENTS,
    ),
    Claim(
        "In the last group that is ten deviations 1/√dim of a random cosine, or more.",
        judge=lambda r, c: median_at_least(_deviations(r), 10.0),
        source=GRADIENTS,
    ),
    Claim(
        "Most of the change is early: filters of every group move more before than after.",
        judge=lambda r, c: median_at_least((r.early / r.late)[SMALL].min(axis=1), 1.0),
        source=FILTERS,
    ),
    Claim(
        "The network tells the two apart on 90 % of test images, as the source's do.",
        judge=lambda r, c: median_at_least(r.accuracy[SMALL, :, -1], 0.9),
        source=FILTERS,
    ),
    Claim(
        "Before training 2-means finds no more in filters than in shuffled ones, to 0.05.",
        judge=lambda r, c: median_at_most(_above_chance(r, SMALL, 0)[:, -1], 0.05),
        source=FILTERS,
        kind="control",
    ),
    Claim(
        "From a usual start neither does it after training: a choice by hand would find clusters.",
        judge=lambda r, c: median_at_most(_above_chance(r, USUAL, -1)[:, -1], 0.05),
        source=FILTERS,
        kind="control",
    ),
    Claim(
        "What training adds to a usual start still has two opposite clusters: -0.5 or less.",
        judge=lambda r, c: median_at_most(r.added[USUAL, :, -1, 1], -0.5),
        source=FILTERS,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Cosines within and between clusters, and those of mean gradients, by group."""
    figure, axes = panels("within clusters", "between centres", "mean gradients")
    groups = np.arange(1, NUM_GROUPS + 1)
    for start, name in ((SMALL, "small start"), (USUAL, "usual start")):
        colour = COLOURS[start]
        axes[0].plot(
            groups, result.within[start, :, :, -1].mean(axis=0), "o-", color=colour, label=name
        )
        axes[0].plot(groups, result.chance[start, :, :, -1].mean(axis=0), ":", color=colour)
        for axis, values in zip(
            axes[1:],
            (result.between[start, :, :, -1], result.pairs[start].min(axis=3).mean(axis=2)),
            strict=True,
        ):
            axis.plot(groups, values.T, ".", color=colour, alpha=0.4)
            axis.plot(groups, np.median(values, axis=0), color=colour, label=name)
    axes[2].plot(groups, 10 * result.deviation, "--", color="#222222", label="10 deviations")
    for axis in axes:
        axis.set(xlabel="group (dotted: shuffled)", xticks=groups)
        axis.legend(fontsize=7)
    return figure
