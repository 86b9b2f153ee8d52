"""A convolutional network sees through noise around an image; its own linearisation does not.

Images stand on a canvas twice as large, the rest of which is noise that grows. A convolutional
network loses little: its neurons learn to be silent on noise. Its linearisation at the same start,
the finite-width tangent kernel, has features that were fixed before, and noise fills them all. On a
black background both are about as good, so it is not that the kernel cannot read images.

The linearisation is trained with several learning rates and is also solved by regression, with no
learning rate at all; the best of all of these by test accuracy is what the network is held to. The
network decays its weights as in the source, the linearisation does not. The source's networks have
batch statistics, in testing too, and it linearises through them: `norm="batch"`. Then an output
depends on its batch and there is no kernel of two images; by default there is layer normalisation.

Source: karp · wrn-vs-ntk · 3.6, B.3, B.4; karp · noise-bg-data · 3.6, B.3, B.4.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.choices import ImageSet
from theorylab.claims import Claim, Source, holds, identity, median_at_least, median_at_most
from theorylab.data import Dataset, Placement, image_set, image_shape, on_background, shrunk
from theorylab.experiments.checks import refuse_classes, refuse_negative, refuse_nonpositive
from theorylab.experiments.drawing import panels
from theorylab.features.own_kernel import Compared, Recipe, compare, strided_cnn
from theorylab.models import Architecture, Standard, in_batches, network, unfolded, wide_resnet
from theorylab.progress import report
from theorylab.training import ensemble

PRECISION = "float32"
FORMULA = r"f_{lin}(w, x) = f(w_0, x) + \langle \nabla f(w_0, x), w - w_0 \rangle"

TABLE = Source("karp", "wrn-vs-ntk", "Tables 3.1, B.1")
PROTOCOL = Source("karp", "wrn-vs-ntk", "B.3")
NOISE = Source("karp", "noise-bg-data", "the published code")

STRONGEST = {"gaussian": 2.0, "texture": 1.0, "tiles": 1.0}  # the source's; pixels are in [0, 1]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
PRINTED_LEVELS = (0.5, 2.0)  # σ on the source's axis


@dataclass(frozen=True)
class Config:
    """A network and its linearisation on images with a growing background."""

    images: ImageSet = "mnist5k"
    shrink: int = 2  # the side of the square that becomes one pixel
    classes: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)  # the others may be tiles
    background: Literal["gaussian", "texture", "tiles"] = "gaussian"
    other_background: Literal["none", "gaussian", "texture", "tiles"] = "none"
    levels: tuple[float, ...] = (0.5, 1.0)  # of noise, in units of the strongest; 0 comes first
    placement: Literal["anywhere", "random_corner", "fixed_corner"] = "fixed_corner"
    placement_seeds: int = 1  # seeds that try the other placements too, with the first background
    architecture: Literal["cnn", "wide_resnet"] = "cnn"
    norm: Literal["layer", "batch"] = "layer"  # of a wide_resnet
    width: int = 8  # channels of the first convolution; the widening factor of a wide_resnet
    weight_scale: float = 0.4  # σ_w: about that of Glorot's rule for these layers
    num_train: int = 2000
    num_test: int = 1000
    batch_size: int = 50
    num_epochs: int = 8
    learning_rate: float = 0.005  # of the network
    weight_decay: float = 1.0  # of the network, in units of the learning rate
    tangent_rates: tuple[float, ...] = (0.005, 0.02)  # learning rates of the linearisation
    train_tangent: bool = True  # whether it is trained too; it is solved in any case
    num_iterations: int = 40  # of the regression
    num_seeds: int = 6  # images, noise and networks, at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_negative(self)
        refuse_classes(self.classes, 10)
        sizes = ("width", "num_train", "num_test", "batch_size", "num_epochs", "num_iterations")
        for name in ("shrink", *sizes, "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**6:
                raise ValueError(f"{name} must be in [1, 1000000], got {getattr(self, name)}.")
        if not 0 <= self.placement_seeds <= self.num_seeds:
            raise ValueError(
                f"placement_seeds must be in [0, {self.num_seeds}], got {self.placement_seeds}."
            )
        if self.batch_size > self.num_train:
            raise ValueError(f"batch_size must be at most num_train, got {self.batch_size}.")
        rising = (0.0, *self.levels)
        if not self.levels or any(b <= a for a, b in zip(rising, self.levels, strict=False)):
            raise ValueError(f"levels must be positive and increasing, got {self.levels}.")
        refuse_nonpositive(self, "learning_rate", "weight_scale", "tangent_rates")
        if not 0 <= self.weight_decay < 1e6:
            raise ValueError(f"weight_decay must be in [0, 1000000), got {self.weight_decay}.")
        if "tiles" in self.backgrounds and len(self.classes) > 9:
            raise ValueError("classes must leave out some for a background of tiles, got all ten.")

    @property
    def backgrounds(self) -> tuple[Literal["gaussian", "texture", "tiles"], ...]:
        """One or two."""
        other = self.other_background
        return (self.background,) if other == "none" else (self.background, other)


# The source: WRN-10-10 on 16×16 images anywhere in 32×32, 200 epochs, hours on a GPU for each cell.
PRESETS = {
    "smoke": Config(
        images="digits",
        shrink=1,
        classes=(0, 1, 2, 3),
        levels=(0.5,),
        placement_seeds=0,
        weight_scale=1.0,
        num_train=400,
        num_test=300,
        num_epochs=12,
        learning_rate=0.01,
        train_tangent=False,
        num_iterations=20,
    ),
    "paper": Config(
        images="cifar10",
        other_background="texture",
        levels=(0.25, 0.5, 0.75, 1.0),
        placement="anywhere",
        architecture="wide_resnet",
        norm="batch",
        width=10,
        weight_scale=1.4,
        num_train=50000,
        num_test=10000,
        num_epochs=200,
        learning_rate=0.001,
        tangent_rates=(0.0003, 0.001, 0.003),
        num_iterations=200,
    ),
}


class Result(NamedTuple):
    """What was measured: axes backgrounds (b), levels with 0 first (l), seeds (s)."""

    backgrounds: tuple[str, ...]
    levels: Float[np.ndarray, " l"]
    network: Float[np.ndarray, "b l s"]  # test accuracy
    network_train: Float[np.ndarray, "b l s"]
    kernel: Float[np.ndarray, "b l s"]  # test accuracy of the linearisation at its best
    kernel_train: Float[np.ndarray, "b l s"]  # its training accuracy then
    regression: Float[np.ndarray, "b l s"]  # test accuracy of the solution
    placements: Float[np.ndarray, "places 2 2"]  # means: black and noise, network and kernel
    printed: Float[np.ndarray, " p"]  # deviation of pixels at the levels of the published code


def memory(config: Config) -> int:
    """Bytes of all patches of the first layer on the training set, with tangents, on two cores."""
    height, _, channels = image_shape(config.images)
    neurons = 16 * config.width * 6 if config.architecture == "wide_resnet" else 2 * config.width
    side = height // config.shrink * 2
    return 4 * 2 * 2 * config.num_train * side**2 * (9 * channels + 3 * neurons)


def run(config: Config) -> Result:
    """Compare at every background, level and seed, then at the other placements."""
    report("reading images", 0.0)
    objects, tiles = _images(config)
    settings = [(kind, config.placement) for kind in config.backgrounds]
    settings += [(config.background, place) for place in PLACEMENTS if place != config.placement]
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    first, *others = range(len(config.backgrounds))
    cells = [(first, 0.0, seed) for seed in range(config.num_seeds)]
    cells += [
        (kind, level, seed)
        for kind in (first, *others)
        for level in config.levels
        for seed in range(config.num_seeds)
    ]
    main = len(cells)
    cells += [
        (place, level, seed)
        for place in range(len(config.backgrounds), len(settings))
        for level in (0.0, config.levels[-1])
        for seed in range(config.placement_seeds)
    ]
    report(f"training {len(cells)} networks and their linearisations", 0.05)
    found = _compared(config, settings, cells, objects, tiles, keys)
    rows = jax.tree.map(lambda leaf: np.asarray(leaf)[:main], found)
    # On black the backgrounds do not differ: one measurement serves all.
    shape = (len(config.backgrounds), len(config.levels), config.num_seeds)

    def table(values: np.ndarray) -> np.ndarray:
        black, noisy = values[: config.num_seeds], values[config.num_seeds :].reshape(shape)
        start = np.broadcast_to(black, (shape[0], 1, shape[2]))
        return np.concatenate([start, noisy], axis=1)

    kernel = _best_kernel(rows)
    result = Result(
        backgrounds=config.backgrounds,
        levels=np.array([0.0, *config.levels]),
        network=table(rows.network[:, 1]),
        network_train=table(rows.network[:, 0]),
        kernel=table(kernel[:, 1]),
        kernel_train=table(kernel[:, 0]),
        regression=table(rows.regression[:, 1]),
        placements=np.zeros((0, 2, 2)),
        printed=_printed_deviations(),
    )
    return result._replace(placements=_placements(config, result, found, main))


def _images(config: Config) -> tuple[Dataset, Float[Array, "t h w c"] | None]:
    """The objects, and images of the other classes for tiles."""
    objects = image_set(config.images, classes=config.classes)
    if objects.num_samples < config.num_train + config.num_test:
        raise ValueError(
            f"num_train and num_test must be at most {objects.num_samples} together, "
            f"got {config.num_train} and {config.num_test}."
        )
    small = Dataset(shrunk(objects.x, config.shrink), objects.y, objects.law, objects.source)
    if "tiles" not in config.backgrounds:
        return small, None
    left = tuple(digit for digit in range(10) if digit not in config.classes)
    return small, shrunk(image_set(config.images, classes=left).x, config.shrink)


def _architecture(config: Config, num_outputs: int) -> Architecture:
    if config.architecture == "cnn":
        return unfolded(strided_cnn(config.width, num_outputs))
    return unfolded(wide_resnet(10, config.width, num_outputs, "relu", 16, True, config.norm))


def _compared(
    config: Config,
    settings: list,
    cells: list[tuple[int, float, int]],
    objects: Dataset,
    tiles: Float[Array, "t h w c"] | None,
    keys: Array,
) -> Compared:
    """Every cell: setting, level and seed; the seed draws images, noise, start and batches."""
    height, width, channels = objects.input_shape
    canvas = (2 * height, 2 * width)
    model = network(
        _architecture(config, objects.num_outputs),
        (*canvas, channels),
        Standard(weight_scale=config.weight_scale),
        bias="zero",
    )
    if config.norm == "batch":  # tested as in the source
        model = model._replace(apply=in_batches(model.apply, 100))
    recipe = Recipe(
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        batch_size=config.batch_size,
        num_steps=config.num_epochs * config.num_train // config.batch_size,
    )
    total = config.num_train + config.num_test

    def one(cell: tuple[Array, Array, Array]) -> Compared:
        key, setting, level = cell
        order_key, noise_key, learn_key = jax.random.split(key, 3)
        order = jax.random.permutation(order_key, objects.num_samples)[:total]
        makers = [
            lambda x, k=kind, p=place: on_background(
                noise_key, x, canvas, k, level * STRONGEST[k], p, tiles
            )
            for kind, place in settings
        ]
        x = jax.lax.switch(setting, makers, objects.x[order])
        data = Dataset(x, objects.y[order], objects.law, objects.source)
        train, test = data.split(config.num_train)
        rates = config.tangent_rates if config.train_tangent else ()
        return compare(
            *(learn_key, model, train, test, recipe, rates),
            num_iterations=config.num_iterations,
        )

    setting, level, seed = (np.array(column) for column in zip(*cells, strict=True))
    return ensemble(one, (keys[seed], jnp.asarray(setting), jnp.asarray(level, float)))


def _placements(
    config: Config, result: Result, found: Compared, main: int
) -> Float[np.ndarray, "places 2 2"]:
    """Mean accuracies at every placement, the main one from the main table."""
    own = [[result.network[0, end].mean(), result.kernel[0, end].mean()] for end in (0, -1)]
    if config.placement_seeds == 0:
        return np.array([own])
    others = jax.tree.map(lambda leaf: np.asarray(leaf)[main:], found)
    shape = (2, 2, config.placement_seeds)
    pair = (others.network[:, 1], _best_kernel(others)[:, 1])
    both = [values.reshape(shape).mean(axis=2) for values in pair]
    place = PLACEMENTS.index(config.placement)
    return np.insert(np.stack(both, axis=-1), place, np.array(own), axis=0)


def _printed_deviations() -> Float[np.ndarray, " p"]:
    """What pixels deviate by if the level multiplies twice; one dot on a canvas of 64 × 64."""
    dot, key = jnp.zeros((1, 1, 1, 1)), jax.random.key(1)

    def deviation(level: float) -> float:
        settings = (key, dot, (64, 64), "gaussian", level, "fixed_corner")
        return float(on_background(*settings, squared_level=True).std())

    return np.array([deviation(level) for level in PRINTED_LEVELS])


def _best_kernel(found: Compared) -> Float[np.ndarray, "cells 2"]:
    """The linearisation at its best by test accuracy: any learning rate, or the regression."""
    tried = np.concatenate([found.tangent, found.regression[:, None]], axis=1)
    best = tried[..., 1].argmax(axis=1)
    return np.take_along_axis(tried, best[:, None, None], axis=1)[:, 0]


def _gap(result: Result) -> np.ndarray:
    return result.network - result.kernel


def _retention(accuracy: np.ndarray) -> np.ndarray:
    """Accuracy in the strongest noise over that on black, (b, s)."""
    return accuracy[:, -1] / accuracy[:, 0]


CLAIMS = (
    Claim(
        "The network keeps 85 % of its accuracy in the strongest noise, on every background.",
        judge=lambda r: median_at_least(_retention(r.network).min(axis=0), 0.85),
        source=TABLE,
    ),
    Claim(
        "It keeps at least 5 points more than its linearisation at its best, on every background.",
        judge=lambda r: median_at_least(
            (_retention(r.network) - _retention(r.kernel)).min(axis=0), 0.05
        ),
        source=TABLE,
    ),
    Claim(
        "The gap grows from black to the strongest noise in every seed, on every background.",
        judge=lambda r: holds(_gap(r)[:, -1] - _gap(r)[:, 0]),
        source=TABLE,
    ),
    Claim(
        "Without noise the network is at most 5 points better than its linearisation.",
        judge=lambda r: median_at_most(_gap(r)[0, 0], 0.05),
        source=TABLE,
        kind="control",
    ),
    Claim(
        "It is not that the linearisation learned too little: it fits 90 % of its noisy examples.",
        judge=lambda r: median_at_least(r.kernel_train[:, -1].min(axis=0), 0.9),
        source=PROTOCOL,
    ),
    Claim(
        "Solved without any learning rate, it is still 5 points worse than the network in noise.",
        judge=lambda r: median_at_least((r.network - r.regression)[:, -1].min(axis=0), 0.05),
        source=PROTOCOL,
    ),
    Claim(
        "What the source's axis calls σ is the deviation of the background.",
        judge=lambda r: identity(r.printed, np.array(PRINTED_LEVELS), 0.05),
        source=NOISE,
        kind="printed",
    ),
    Claim(
        "The source's code multiplies by σ twice: the deviation of its background is σ².",
        judge=lambda r: identity(r.printed, np.array(PRINTED_LEVELS) ** 2, 0.05),
        source=NOISE,
        kind="corrected",
        formula=r"\sigma \cdot (\sigma z),\ z \sim N(0, 1)",
    ),
)


def plot(result: Result) -> Figure:
    """Accuracies against noise, retentions, placements."""
    titles = [f"test accuracy, {kind} background" for kind in result.backgrounds]
    figure, axes = panels(*titles, "placement: accuracy, black ─► strongest noise")
    curves = (
        ("network", result.network),
        ("linearisation at its best", result.kernel),
        ("linearisation, solved", result.regression),
    )
    for place, axis in enumerate(axes[:-1]):
        for label, values in curves:
            axis.plot(result.levels, values[place].mean(axis=1), "o-", label=label)
            axis.plot(result.levels, values[place], ".", color="#999999", markersize=2)
        axis.set(xlabel="noise, in units of the strongest", ylim=(0, 1))
        axis.legend(frameon=False, fontsize=8)
    for row, ends in enumerate(result.placements):
        for column, label in enumerate(("network", "linearisation")):
            axes[-1].plot(
                [row - 0.15, row + 0.15],
                ends[:, column],
                "o-",
                color=f"C{column}",
                label=label if row == 0 else None,
            )
    axes[-1].set(xticks=range(len(result.placements)), ylim=(0, 1))
    axes[-1].legend(frameon=False, fontsize=8)
    return figure
