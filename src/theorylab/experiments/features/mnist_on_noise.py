"""Digits on noise: a small network against its tangent kernel, at finite and at infinite width.

Digits stand in a corner (or anywhere) of a Gaussian background half as large again, σ from 0 to 2.
The network, conv 3×3/2 – conv 3×3/2 – flatten – dense, learns from as many images as its kernels
get. Its linearisation is solved for several width factors; at infinite width the tangent kernel has
a closed form, made in double precision and solved with a ridge of 10⁻⁵ of its mean diagonal. On
black, width brings the finite kernel up towards the infinite one (to within 2 points, the source's
width factors of 50 and 100 are needed: `paper`). In the noise the network keeps more of its
accuracy than its own kernel, and the infinite kernel drops as well. Whether the network also keeps
more than the infinite kernel depends on the task: it does with many images and places (`default`),
and does not with a few hundred images in a fixed corner (`smoke`), where a kernel can look away.

Training images are drawn without replacement; the published code draws them with replacement.

Source: karp · cnn-vs-ntk-mnist · the published code, and the abstract of the article of 2021.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, holds, median_at_least, median_at_most, ordered, trend
from theorylab.data import Dataset, image_set, on_background, shrunk
from theorylab.experiments.checks import refuse_negative
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features import accuracy
from theorylab.features.own_kernel import (
    Compared,
    Recipe,
    compare,
    strided_cnn,
    tangent_regression,
)
from theorylab.kernels import cholesky_solve, infinite_kernels
from theorylab.models import NTK, Standard, network, unfolded
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"\Theta(x, x') = \langle \nabla f(x), \nabla f(x') \rangle"

NOISY = Source("karp", "cnn-vs-ntk-mnist", "abstract of the article")
WIDTH = Source("karp", "cnn-vs-ntk-mnist", "the published code, width factors")

CHANNELS = 8  # of the first convolution at width factor 1; the second has twice as many


@dataclass(frozen=True)
class Config:
    """A small network and its kernels on digits in noise."""

    images: Literal["digits", "mnist5k", "mnist"] = "mnist5k"
    classes: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)  # the digits to tell apart
    shrink: int = 2  # the side of the square that becomes one pixel
    placement: Literal["anywhere", "random_corner", "fixed_corner"] = "random_corner"
    levels: tuple[float, ...] = (2.0,)  # deviations σ of the background; 0 comes first
    num_train: int = 1500
    num_test: int = 500
    batch_size: int = 50
    num_epochs: int = 20
    learning_rate: float = 0.005  # of the network
    weight_decay: float = 1.0  # of the network, in units of the learning rate
    weight_scale: float = 0.4  # σ_w of the network's start
    width_factors: tuple[int, ...] = (1, 2)  # of the finite kernels on black
    num_width_train: int = 300  # images that these learn from
    num_iterations: int = 30  # of the finite kernels' regression
    ridge: float = 1e-5  # of the infinite kernel, in units of its mean diagonal
    num_kernel_seeds: int = 1  # draws of images for the infinite kernel in noise
    num_seeds: int = 6  # networks and draws of images, at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_negative(self)
        sizes = ("num_train", "num_test", "batch_size", "num_epochs", "num_width_train")
        for name in ("shrink", *sizes, "num_iterations", "num_kernel_seeds", "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**6:
                raise ValueError(f"{name} must be in [1, 1000000], got {getattr(self, name)}.")
        if max(self.batch_size, self.num_width_train) > self.num_train:
            raise ValueError(
                f"batch_size and num_width_train must be at most {self.num_train}, "
                f"got {self.batch_size} and {self.num_width_train}."
            )
        if self.num_kernel_seeds > self.num_seeds:
            raise ValueError(
                f"num_kernel_seeds must be at most {self.num_seeds}, got {self.num_kernel_seeds}."
            )
        for name, values in (("levels", self.levels), ("width_factors", self.width_factors)):
            rising = (0.0, *values)
            if not values or any(b <= a for a, b in zip(rising, values, strict=False)):
                raise ValueError(f"{name} must be positive and increasing, got {values}.")
        if len(self.width_factors) < 2 or self.width_factors[-1] > 1000:
            raise ValueError(
                f"width_factors must be two or more, up to 1000, got {self.width_factors}."
            )
        for name in ("learning_rate", "weight_scale", "ridge"):
            if not 0 < getattr(self, name) < 1e6:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}.")
        if not 0 <= self.weight_decay < 1e6:
            raise ValueError(f"weight_decay must be in [0, 1000000), got {self.weight_decay}.")


# The source: 20,000 digits of 28×28 anywhere in 42×42, and width factors of 50 and 100.
PRESETS = {
    "smoke": Config(
        images="digits",
        shrink=1,
        placement="fixed_corner",
        levels=(2.0,),
        num_train=400,
        num_test=300,
        num_epochs=12,
        learning_rate=0.01,
        weight_scale=1.0,
        width_factors=(1, 4),
        num_width_train=200,
        num_iterations=20,
    ),
    "paper": Config(
        images="mnist",
        shrink=1,
        placement="anywhere",
        levels=(0.5, 1.0, 1.5, 2.0),
        num_train=20000,
        num_test=10000,
        num_epochs=50,
        learning_rate=0.001,
        width_factors=(1, 10, 50, 100),
        num_width_train=20000,
        num_iterations=200,
        num_kernel_seeds=6,
    ),
}


class Result(NamedTuple):
    """Test accuracies: axes levels with 0 first (l), seeds (s), seeds of infinite kernels (i)."""

    levels: Float[np.ndarray, " l"]
    network: Float[np.ndarray, "l s"]
    finite: Float[np.ndarray, "l s"]  # the network's own kernel, at its width
    infinite: Float[np.ndarray, "l i"]
    width_factors: Float[np.ndarray, " w"]
    by_width: Float[np.ndarray, "w s"]  # finite kernels on black
    limit: Float[np.ndarray, " s"]  # infinite kernel on black, on the same images
    residual: Float[np.ndarray, "l i"]  # ‖(K + λ)α − y‖/‖y‖ of the infinite kernel


def memory(config: Config) -> int:
    """Bytes of the infinite kernel and of patches of the widest network, on two cores."""
    side = (8 if config.images == "digits" else 28) // config.shrink * 3 // 2
    widest = config.num_width_train + config.num_test
    patches = 4 * 2 * 3 * widest * (side // 2) ** 2 * CHANNELS * config.width_factors[-1] * 4
    own = 4 * 2 * 3 * (config.num_train + config.num_test) * (side // 2) ** 2 * CHANNELS * 4
    kernel = 8 * 3 * config.num_train * (config.num_train + config.num_test)
    return max(patches, own) + kernel


def run(config: Config) -> Result:
    """Train, solve at finite widths, solve at infinite width."""
    report("reading images", 0.0)
    images = image_set(config.images, classes=config.classes)
    total = config.num_train + config.num_test
    if images.num_samples < total:
        raise ValueError(
            f"num_train and num_test must be at most {images.num_samples} together, got {total}."
        )
    small = shrunk(images.x, config.shrink).astype(jnp.float32)
    objects = Dataset(small, images.y.astype(jnp.float32), images.law, images.source)
    levels = np.array([0.0, *config.levels])
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    report("training networks, solving their own kernels", 0.05)
    own = _own(config, objects, levels, keys)
    report("solving wider finite kernels", 0.4)
    by_width = np.stack([_finite(config, objects, keys, w) for w in config.width_factors])
    report("solving infinite kernels", 0.7)
    noisy = [
        [_infinite(config, objects, key, level) for key in keys[: config.num_kernel_seeds]]
        for level in levels
    ]
    limits = [_infinite(config, objects, key, 0.0, config.num_width_train)[0] for key in keys]
    infinite = np.array(noisy)
    return Result(
        levels=levels,
        network=np.asarray(own.network[:, 1]).reshape(len(levels), -1),
        finite=np.asarray(own.regression[:, 1]).reshape(len(levels), -1),
        infinite=infinite[..., 0],
        width_factors=np.array(config.width_factors, float),
        by_width=by_width,
        limit=np.array(limits),
        residual=infinite[..., 1],
    )


def _split(
    config: Config, objects: Dataset, key: RandomKey, level: Array | float, num_train: int
) -> tuple[Dataset, Dataset]:
    """The images of a seed on their backgrounds, to learn from and to be judged by."""
    order_key, noise_key = jax.random.split(key)
    order = jax.random.permutation(order_key, objects.num_samples)
    chosen = order[: num_train + config.num_test]
    canvas = _canvas(objects)[:2]
    x = on_background(noise_key, objects.x[chosen], canvas, "gaussian", level, config.placement)
    return Dataset(x, objects.y[chosen], objects.law, objects.source).split(num_train)


def _canvas(objects: Dataset) -> tuple[int, int, int]:
    height, width, channels = objects.input_shape
    return (height * 3 // 2, width * 3 // 2, channels)


def _own(
    config: Config, objects: Dataset, levels: Float[np.ndarray, " l"], keys: Array
) -> Compared:
    """Networks of width factor 1 and their own kernels, for every level and seed."""
    start = Standard(weight_scale=config.weight_scale)
    layers = unfolded(strided_cnn(CHANNELS, objects.num_outputs))
    model = network(layers, _canvas(objects), start, bias="zero")
    recipe = Recipe(
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        batch_size=config.batch_size,
        num_steps=config.num_epochs * config.num_train // config.batch_size,
    )

    def one(cell: tuple[RandomKey, Array]) -> Compared:
        key, level = cell
        train, test = _split(config, objects, key, level, config.num_train)
        learn_key = jax.random.fold_in(key, 1)
        return compare(
            learn_key, model, train, test, recipe, (), num_iterations=config.num_iterations
        )

    grid = jnp.asarray(np.repeat(levels, config.num_seeds), jnp.float32)
    return ensemble(one, (jnp.tile(keys, len(levels)), grid))


def _finite(
    config: Config, objects: Dataset, keys: Array, width_factor: int
) -> Float[np.ndarray, " s"]:
    """Accuracies of the finite kernel on black, in the parametrization of the infinite one."""
    layers = unfolded(strided_cnn(CHANNELS * width_factor, objects.num_outputs))
    model = network(layers, _canvas(objects), NTK(weight_scale=2**0.5), bias="zero")

    def one(key: RandomKey) -> Float32[Array, ""]:
        train, test = _split(config, objects, key, 0.0, config.num_width_train)
        start = model.init(jax.random.fold_in(key, 2))
        start = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), start)
        outputs = tangent_regression(model.apply, start, train, test.x, config.num_iterations)
        return accuracy(outputs[1], test.y).astype(jnp.float32)

    return np.asarray(ensemble(one, keys), float)


def _infinite(
    config: Config,
    objects: Dataset,
    key: RandomKey,
    level: float,
    num_train: int | None = None,
) -> tuple[float, float]:
    """Accuracy of the infinite kernel's regression, and the residual of its solution."""
    train, test = _split(config, objects, key, level, num_train or config.num_train)
    layers, law = strided_cnn(CHANNELS, objects.num_outputs), NTK(weight_scale=2**0.5)
    # One kernel of all images: a second program for the rectangle would cost more than its corner.
    both = jnp.concatenate([train.x, test.x]).astype(float)
    whole = np.array(infinite_kernels(layers, both, parametrization=law, bias="zero").ntk)
    n = train.num_samples
    kernel, cross = whole[:n, :n].copy(), whole[n:, :n]
    y = np.array(train.y, float)
    ridge = config.ridge * float(kernel.diagonal().mean())
    solution = cholesky_solve(kernel, y - y.mean(axis=1, keepdims=True), ridge)
    outputs = jnp.asarray(cross @ solution.coefficients)
    return float(accuracy(outputs, test.y.astype(float))), solution.residual


def _retention(accuracies: np.ndarray) -> np.ndarray:
    """Accuracy in the strongest noise over that on black, for every seed."""
    return accuracies[-1] / accuracies[0]


CLAIMS = (
    Claim(
        "The network keeps at least 5 points more of its accuracy in noise than its own kernel.",
        judge=lambda r: median_at_least(_retention(r.network) - _retention(r.finite), 0.05),
        source=NOISY,
    ),
    Claim(
        "Infinite width is no cure: in noise that kernel loses 5 points, in every draw.",
        judge=lambda r: holds(r.infinite[0] - r.infinite[-1] - 0.05),
        source=NOISY,
    ),
    Claim(
        "The finite kernel gets better with its width, on black.",
        judge=lambda r: trend(r.by_width),
        source=WIDTH,
    ),
    Claim(
        "The widest finite kernel is nearer to the infinite one than the narrowest, on black.",
        judge=lambda r: ordered(np.abs(r.by_width[-1] - r.limit), np.abs(r.by_width[0] - r.limit)),
        source=WIDTH,
    ),
    Claim(
        "On black the infinite kernel is no worse than the network by more than 5 points.",
        judge=lambda r: median_at_most(r.network[0] - r.infinite[0].mean(), 0.05),
        source=NOISY,
        kind="control",
    ),
)


def plot(result: Result) -> Figure:
    """Accuracies against noise, and against width."""
    figure, axes = panels("test accuracy in noise", "finite kernels on black")
    curves = (
        ("network", result.network),
        ("its own kernel, solved", result.finite),
        ("infinite width", result.infinite),
    )
    for label, values in curves:
        axes[0].plot(result.levels, values.mean(axis=1), "o-", label=label)
        axes[0].plot(result.levels, values, ".", color="#999999", markersize=2)
    axes[0].set_xlabel("deviation σ of the background")
    axes[0].set_ylim(0, 1)
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].semilogx(result.width_factors, result.by_width, "o-", color="C1", alpha=0.5)
    axes[1].axhline(float(result.limit.mean()), **THEORY)
    axes[1].set_xlabel("width factor (dashed: infinite width)")
    return figure
