"""A wide residual network sees through noise around an image; its own linearisation does not.

Images stand on a canvas twice as large, the rest of which is noise that grows. A wide residual
network loses little: its neurons learn to be silent on noise. Its linearisation at the same start,
the finite-width tangent kernel, has features that were fixed before, and noise fills them all. On a
black background both are about as good, so it is not that the kernel cannot read images.

The linearisation is solved by regression, with no learning rate at all, and can be trained too,
with several of them; the best of all of these by test accuracy, the regression at half of its steps
included, is what the network is held to. That the regression is solved is a claim of its own: half
of its steps must give the same accuracy. The network decays its weights as in the source, the
linearisation does not. As in the source, too, the network has batch statistics, in testing as well
(100 images), and is linearised through them; then an output depends on its batch, and it is the
linear model that is solved, for there is no kernel of two images. `--norm layer` has one: noise of
any strength then harms it about as much.

The default is WRN-10-1 with half of its channels on five digits, two or three minutes on two cores.
Others, by flags:

    --base 16                     all channels                                        10 minutes
    --architecture cnn --width 16 --classes 0,1,2,3,4,5,6,7,8,9 --levels 0.5,1 --num-train 1400
        --num-test 397 --num-epochs 30 --regression-steps 320 --placement-seeds 1       2 minutes
    and of these with --background all --classes 0,1,2,3,4 --levels 1 --num-train 650
        --num-test 250                                                                2 minutes
    --preset paper: WRN-10-10, vehicles among animals       7 hours on a GPU for each of 82 cells

The last is counted by its operations, 240 · 10¹⁵ for a cell, at 10 TFLOP/s; it was not run, and is
out of reach of a CPU. A cell (background, level, seed) that is finished is kept. The regression
takes 100 images at a time, a batch, so that two cells at once need 10 GB.

Source: karp · wrn-vs-ntk · 3.6, B.3, B.4; karp · noise-bg-data · 3.6, B.3, B.4.
"""

from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, median_at_least, median_at_most, ordered
from theorylab.data import Dataset, image_set
from theorylab.data.backgrounds import Background, Placement, downsample, on_backgrounds_apart
from theorylab.data.downloads import image_shape, num_images
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.experiments.features.local_signal._own_kernel import (
    KernelComparison,
    Recipe,
    best_kernel,
    compare,
    retention,
    strided_cnn,
)
from theorylab.fields import (
    Count,
    ImageSet,
    NonNegative,
    Positive,
    Seeded,
    Several,
    SeveralClasses,
    Whole,
)
from theorylab.models import Architecture, Standard, in_batches, network, wide_resnet
from theorylab.models.unfold import im2col
from theorylab.progress import report
from theorylab.training import ensemble

PRECISION = "float32"
FORMULA = r"f_{lin}(w, x) = f(w_0, x) + \langle \nabla f(w_0, x), w - w_0 \rangle"

TABLE = Source("karp", "wrn-vs-ntk", "Tables 3.1, B.1")
PROTOCOL = Source("karp", "wrn-vs-ntk", "B.3")

# The source's; pixels are in [0, 1].
STRONGEST: dict[Background, float] = {"gaussian": 2.0, "texture": 1.0, "tiles": 1.0}
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
TESTED_AT_ONCE = 100  # images, with batch statistics, as in the source
MOST_PATCHES = 2**28  # numbers in the patches of images that are taken at a time, but one batch
KEPT, KEPT_OF_DIGITS = 0.93, 0.85  # of its accuracy, by the network


@dataclass(frozen=True)
class Config(Seeded):
    """A network and its linearisation on images with a growing background."""

    images: ImageSet = "digits"
    shrink: Count = 1  # the side of the square that becomes one pixel
    classes: SeveralClasses = (0, 1, 2, 3, 4)  # the others may be tiles
    background: Literal["gaussian", "texture", "tiles", "all"] = "gaussian"
    levels: Several[Positive] = (0.25, 1.0)  # of noise, in units of the strongest; 0 comes first
    placement: Literal["anywhere", "random_corner", "fixed_corner"] = "fixed_corner"
    placement_seeds: Whole = 0  # seeds that try the other placements too, with the first background
    architecture: Literal["cnn", "wide_resnet"] = "wide_resnet"
    norm: Literal["layer", "batch"] = "batch"  # of a wide_resnet
    width: Count = 1  # the widening factor of a wide_resnet; channels of a CNN's first convolution
    base: Count = 8  # channels of a wide_resnet's first convolution; 16 in the source
    weight_scale: Positive = 1.0  # σ_w; Glorot's rule has 0.5, 0.8 and 1.4 in the three layers
    num_train: Count = 500
    num_test: Count = 400
    batch_size: Count = 50
    num_epochs: Count = 30
    learning_rate: Positive = 0.005  # of the network
    weight_decay: NonNegative = 1.0  # of the network, in units of the learning rate
    tangent_rates: Several[Positive] = (0.005, 0.02)  # learning rates of the linearisation
    train_tangent: bool = False  # whether it is trained too; it is solved in any case
    regression_steps: Count = 40  # of the regression
    num_seeds: Count = 6  # images, noise and networks, at least 6 to conclude

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("placement_seeds", "num_seeds"), ("batch_size", "num_train")):
            if (value := getattr(self, name)) > getattr(self, most):
                raise ValueError(f"{name} must be at most {most}, got {value}.")
        if list(self.levels) != sorted(set(self.levels)):
            raise ValueError(f"levels must be increasing, got {self.levels}.")
        if "tiles" in self.backgrounds and len(self.classes) > 9:
            raise ValueError("classes must leave out some for a background of tiles, got all ten.")

    @property
    def backgrounds(self) -> tuple[Background, ...]:
        """One, or all three."""
        return tuple(STRONGEST) if self.background == "all" else (self.background,)


# The source: WRN-10-10 on 16×16 images anywhere in 32×32, 200 epochs.
PRESETS = {
    "smoke": Config(
        classes=(0, 1, 2, 3),
        levels=(0.5,),
        architecture="cnn",
        width=8,
        num_train=400,
        num_test=300,
        num_epochs=12,
        learning_rate=0.01,
        regression_steps=80,
    ),
    "paper": Config(
        images="cifar10",
        shrink=2,
        classes=(0, 1, 8, 9),
        background="all",
        levels=(0.25, 0.5, 0.75, 1.0),
        placement="anywhere",
        placement_seeds=1,
        width=10,
        base=16,
        weight_scale=1.4,
        num_train=20000,
        num_test=4000,
        num_epochs=200,
        learning_rate=0.001,
        tangent_rates=(0.0003, 0.001, 0.003),
        train_tangent=True,
        regression_steps=400,
    ),
}


class Result(NamedTuple):
    """What was measured: axes backgrounds (b), levels with 0 first (l), seeds (s)."""

    backgrounds: tuple[str, ...]
    levels: Float[np.ndarray, " l"]
    network: Float[np.ndarray, "b l s"]  # test accuracy
    kernel: Float[np.ndarray, "b l s"]  # test accuracy of the linearisation at its best
    kernel_train: Float[np.ndarray, "b l s"]  # its training accuracy then
    regression: Float[np.ndarray, "b l s"]  # test accuracy of the solution
    halfway: Float[np.ndarray, "b l s"]  # and after half of the iterations
    slope: Float[np.ndarray, "b l s"]  # ‖Jᵀr‖ at the end of the regression, over the start's
    placements: Float[np.ndarray, "places 2 2"]  # the others, means: black, noise; network, kernel


def memory(config: Config) -> int:
    """Bytes of all patches of a block of images, with tangents, and of the images, on two cores."""
    height, width, channels = image_shape(config.images)
    total = config.num_train + config.num_test
    canvases = 4 * (height // config.shrink) * (width // config.shrink) * channels * total
    read = 3 * num_images(config.images) * height * width * channels
    largest = min(max(config.num_train, config.num_test), _at_once(config))
    return 4 * (2 * (2 * largest * _patches(config) + 4 * canvases) + read)


def _patches(config: Config) -> int:
    """Numbers in the patches of all layers, of one image."""
    height, _, channels = image_shape(config.images)
    neurons = (
        config.base * config.width * 6 if config.architecture == "wide_resnet" else 2 * config.width
    )
    side = 2 * max(1, height // config.shrink)  # a run refuses images without pixels
    return side**2 * (9 * channels + 3 * neurons)


def _at_once(config: Config) -> int:
    """How many images are taken at a time where there is no batch: whole batches of a test."""
    return TESTED_AT_ONCE * max(1, MOST_PATCHES // (TESTED_AT_ONCE * _patches(config)))


def run(config: Config) -> Result:
    """Compare at every background, level and seed, then at the other placements."""
    report("reading images", 0.0)
    objects, tiles = _images(config)
    settings = [(kind, config.placement) for kind in config.backgrounds]
    main_kind = config.backgrounds[0]
    settings += [(main_kind, place) for place in PLACEMENTS if place != config.placement]
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    kinds, seeds = range(len(config.backgrounds)), range(config.num_seeds)
    cells = [*product((0,), (0.0,), seeds), *product(kinds, config.levels, seeds)]
    main = len(cells)
    others = range(len(kinds), len(settings))
    cells += product(others, (0.0, config.levels[-1]), range(config.placement_seeds))
    report(f"training {len(cells)} networks and their linearisations", 0.05)
    found = _compared(config, settings, cells, objects, tiles, keys)
    rows = jax.tree.map(lambda leaf: np.asarray(leaf)[:main], found)
    # On black the backgrounds do not differ: one measurement serves all.
    shape = (len(config.backgrounds), len(config.levels), config.num_seeds)

    def table(values: np.ndarray) -> np.ndarray:
        black, noisy = values[: config.num_seeds], values[config.num_seeds :].reshape(shape)
        start = np.broadcast_to(black, (shape[0], 1, shape[2]))
        return np.concatenate([start, noisy], axis=1)

    kernel = best_kernel(rows)
    return Result(
        backgrounds=config.backgrounds,
        levels=np.array([0.0, *config.levels]),
        network=table(rows.network[:, 1]),
        kernel=table(kernel[:, 1]),
        kernel_train=table(kernel[:, 0]),
        regression=table(rows.regression[:, 1]),
        halfway=table(rows.halfway),
        slope=table(rows.slope),
        placements=_ends(config, jax.tree.map(lambda leaf: np.asarray(leaf)[main:], found)),
    )


def _images(config: Config) -> tuple[Dataset, Float[Array, "t h w c"] | None]:
    """The objects, and images of the other classes for tiles."""
    objects = image_set(config.images, classes=config.classes)
    if objects.num_samples < config.num_train + config.num_test:
        raise ValueError(
            f"num_train and num_test must be at most {objects.num_samples} together, "
            f"got {config.num_train} and {config.num_test}."
        )
    small = Dataset(downsample(objects.x, config.shrink), objects.y, objects.law, objects.source)
    if "tiles" not in config.backgrounds:
        return small, None
    left = tuple(digit for digit in range(10) if digit not in config.classes)
    return small, downsample(image_set(config.images, classes=left).x, config.shrink)


def _architecture(config: Config, num_outputs: int) -> Architecture:
    if config.architecture == "cnn":
        return im2col(strided_cnn(config.width, num_outputs))
    wide = wide_resnet(10, config.width, num_outputs, "relu", config.base, True, config.norm)
    return im2col(wide)


def _compared(
    config: Config,
    settings: list,
    cells: list[tuple[int, float, int]],
    objects: Dataset,
    tiles: Float[Array, "t h w c"] | None,
    keys: Array,
) -> KernelComparison:
    """Every cell: setting, level and seed; the seed draws images, noise, start and batches."""
    height, width, channels = objects.input_shape
    canvas = (2 * height, 2 * width)
    model = network(
        _architecture(config, objects.num_outputs),
        (*canvas, channels),
        Standard(weight_scale=config.weight_scale),
        bias="zero",
    )
    if config.architecture == "wide_resnet" and config.norm == "batch":  # tested as in the source
        model = model._replace(apply=in_batches(model.apply, TESTED_AT_ONCE))
    else:
        model = model._replace(apply=in_batches(model.apply, _at_once(config)))
    recipe = Recipe(
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        batch_size=config.batch_size,
        num_steps=config.num_epochs * config.num_train // config.batch_size,
    )
    total = config.num_train + config.num_test

    def one(cell: tuple[Array, Array, Array]) -> KernelComparison:
        key, setting, level = cell
        order_key, noise_key, learn_key = jax.random.split(key, 3)
        order = jax.random.permutation(order_key, objects.num_samples)[:total]
        makers = [
            lambda x, k=kind, p=place: on_backgrounds_apart(
                noise_key, x, config.num_train, canvas, k, level * STRONGEST[k], p, tiles
            )
            for kind, place in settings
        ]
        x = jax.lax.switch(setting, makers, objects.x[order])
        data = Dataset(x, objects.y[order], objects.law, objects.source)
        train, test = data.split(config.num_train)
        rates = config.tangent_rates if config.train_tangent else ()
        return compare(
            *(learn_key, model, train, test, recipe, rates),
            regression_steps=config.regression_steps,
            block_size=_at_once(config),
        )

    setting, level, seed = (np.array(column) for column in zip(*cells, strict=True))
    return ensemble(one, (keys[seed], jnp.asarray(setting), jnp.asarray(level, float)))


def _ends(config: Config, others: KernelComparison) -> Float[np.ndarray, "places 2 2"]:
    """Mean accuracies on black and in the strongest noise, of network and kernel."""
    if config.placement_seeds == 0:
        return np.zeros((0, 2, 2))
    shape = (len(PLACEMENTS) - 1, 2, config.placement_seeds)
    pair = (others.network[:, 1], best_kernel(others)[:, 1])
    return np.stack([values.reshape(shape).mean(axis=2) for values in pair], axis=-1)


def _gap(result: Result) -> np.ndarray:
    return result.network - result.kernel


def _growth(result: Result) -> np.ndarray:
    """The least growth of the gap from one level of noise to the next, of all backgrounds."""
    return np.diff(_gap(result), axis=1).min(axis=(0, 1))


def _unsolved(result: Result) -> np.ndarray:
    """What the second half of the regression gained in noise, less half of what it lacks."""
    gained, lacks = result.regression - result.halfway, result.network - result.regression
    return (gained - lacks / 2)[:, -1]


CLAIMS = (
    TABLE.claim(
        "The network always keeps over 96 % of its zero-noise accuracy.",
        lambda r, c: median_at_least(retention(r.network).min(axis=0), 0.96),
        quote="The WRN always retains over 96% of its zero-noise performance",
        regime="images == 'cifar10' and architecture == 'wide_resnet' and num_train >= 20000",
        demand="source",
    ),
    TABLE.found(
        "On digits it keeps 85 % of its accuracy in the strongest noise, on larger images 93 %.",
        lambda r, c: median_at_least(
            retention(r.network).min(axis=0), KEPT_OF_DIGITS if c.images == "digits" else KEPT
        ),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    TABLE.claim(
        "It keeps at least 5 points more than its linearisation at its best, on every background.",
        lambda r, c: median_at_least(
            (retention(r.network) - retention(r.kernel)).min(axis=0), 0.05
        ),
        quote="NTK performance decreases significantly while WRN performance is relatively",
        demand="lab: the source's least difference is 7 points, on CIFAR-2",
    ),
    TABLE.claim(
        "The gap grows with every level of noise, seed by seed, on every background.",
        lambda r, c: ordered(np.zeros(r.network.shape[2]), _growth(r)),
        quote="as the scale of the noise increases, NTK performance decreases significantly",
    ),
    TABLE.control(
        "Without noise the network is at most 5 points better than its linearisation.",
        lambda r, c: median_at_most(_gap(r)[0, 0], 0.05),
        quote="the NTK performs nearly as well as the CNN in the zero-noise setting",
        demand="lab: the source's Table B.1 has 2.4 to 5 points",
    ),
    PROTOCOL.check(
        "It is not that the linearisation learned too little: it fits 90 % of its noisy examples.",
        lambda r, c: median_at_least(r.kernel_train[:, -1].min(axis=0), 0.9),
    ),
    PROTOCOL.found(
        "Solved without any learning rate, it is still 5 points worse than the network in noise.",
        lambda r, c: median_at_least((r.network - r.regression)[:, -1].min(axis=0), 0.05),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    # Each doubling of the steps gains about half of the one before, or less: what is still to come
    # is no more than what the last one gained.
    PROTOCOL.check(
        "It is solved: the second half of its steps gains at most half of what it lacks there.",
        lambda r, c: median_at_most(_unsolved(r).max(axis=0), 0.0),
    ),
    # ‖Jᵀr‖ does not fall steadily, so this is a weaker sign than a gain that ends.
    PROTOCOL.check(
        "The gradient of its squares has fallen to 5 % of what it was, at every level of noise.",
        lambda r, c: median_at_most(r.slope.max(axis=(0, 1)), 0.05),
        formula=r"\|J^\top r\| / \|J^\top r_0\|",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Accuracies against noise, and at the other placements."""
    titles = [f"test accuracy, {kind} background" for kind in result.backgrounds]
    figure, axes = panels(*titles, "placement: accuracy, black ─► strongest noise")
    named = {
        "network": result.network,
        "linearisation at its best": result.kernel,
        "linearisation, solved": result.regression,
    }
    for place, axis in enumerate(axes[:-1]):
        curves(axis, result.levels, {name: v[place].T for name, v in named.items()}, "o-")
        label_axes(axis, "noise, in units of the strongest")
        axis.set(ylim=(0, 1))
    pair = (result.network, result.kernel)
    own = np.stack([values[0, [0, -1]].mean(axis=1) for values in pair], axis=-1)
    for place, ends in enumerate([own, *result.placements]):
        for column, colour in enumerate(("C0", "C1")):
            where = [place - 0.15, place + 0.15]
            axes[-1].plot(where, ends[:, column], "o-", color=colour)
    axes[-1].set(xticks=range(1 + len(result.placements)), ylim=(0, 1), xlabel="0: as above")
    return figure
