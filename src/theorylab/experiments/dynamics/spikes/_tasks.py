"""What is trained where catapults are watched: data and a network, each by its name.

    mlp            `depth` layers of `width` neurons, on flat inputs
    cnn            `depth` layers, windows of 3×3, `width` channels, flattened before the last layer
    wide_resnet    WRN-10-`width`
    vit            `depth` blocks of `width` channels, patches of 4×4
    myrtle         Myrtle-5 with `width` channels

    contrast       two classes of 64 inputs with the contrast of photographs, for images 8×8
    rank-2, -4     a polynomial of few of 100 Gaussian inputs, for `mlp`
    images         two classes of small images, labels ±1

The source has fully connected and convolutional networks of 5 layers (1024 neurons, 512 channels),
WRN-10-10, a transformer of 4 blocks and Myrtle-5, on 128 photographs (CIFAR-10) or house numbers
(SVHN) of two classes; pre-processing and the sizes of the transformer are not given there.

Source: zhu · catapult-gd · Fig. 4.3, C.2–C.5; zhu · sgd-ntk-drop · Fig. 4.7, C.8–C.11.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import jax

from theorylab.data import Dataset, image_set, low_rank_polynomial
from theorylab.data.contrast import image_like
from theorylab.data.downloads import image_shape
from theorylab.fields import Classes, Count, ImageNetwork, ImageSet, Seeded, TaskData
from theorylab.kernels.finite.blocks import HELD_BYTES
from theorylab.models import Architecture, cnn, mlp, network, vit, wide_resnet
from theorylab.models.vision import myrtle
from theorylab.typing import RandomKey

MOST_NEURONS, MOST_LAYERS = 10**6, 100  # larger networks are a slip of the hand
MOST_IMAGES = 5000  # to draw from: they are part of the compiled program
_CONTRAST = (8, 8, 1)
_POLYNOMIAL = (100,)
FEWEST = 5  # samples: so many top directions of the kernel are looked at


@dataclass(frozen=True)
class SgdTask(Seeded):
    """A network and what it learns by SGD, each by its name."""

    architecture: ImageNetwork = "mlp"  # what is trained
    data: TaskData = "contrast"  # what it learns
    images: ImageSet = "digits"  # if they are learned
    classes: Classes = (0, 2)  # two kinds of images
    width: Count = 128  # neurons, channels, or what multiplies the widths
    num_samples: Count = 64  # n
    batch_size: Count = 24  # b

    def __post_init__(self) -> None:
        super().__post_init__()
        task_shape(self.architecture, self.data, self.images)
        check_samples(self.num_samples, self.batch_size)
        few = 340 if self.images == "digits" else 1000  # images that any two classes have
        if self.data == "images" and self.num_samples > few:
            raise ValueError(f"num_samples must be at most {few} images, got {self.num_samples}.")

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one input, flat for `mlp`."""
        return task_shape(self.architecture, self.data, self.images)

    def drawing(self) -> Callable[[RandomKey], Dataset]:
        """What draws the data."""
        return task_data(self.architecture, self.data, self.num_samples, self.images, self.classes)


def check_samples(num_samples: int, batch_size: int) -> None:
    """Raise unless there are enough samples for the kernel's top directions and for a batch."""
    if num_samples < FEWEST:
        raise ValueError(f"num_samples must be at least {FEWEST}, got {num_samples}.")
    if batch_size > num_samples:
        raise ValueError(
            f"batch_size must be at most num_samples = {num_samples}, got {batch_size}."
        )


def image_network(
    kind: ImageNetwork, width: int, depth: int, num_outputs: int = 1, activation: str = "relu"
) -> Architecture:
    """Build a network for images by its name.

    Args:
        kind: Which; see above for what width and depth are there.
        width: At least 1.
        depth: At least 2 for `mlp` and `cnn`, at least 1 for `vit`; the others have theirs.
        num_outputs: The number of outputs k.
        activation: φ, by name; `vit` always has GELU.

    Example:
        >>> image_network("cnn", 16, depth=5).output_shape((8, 8, 1))
        (1,)
    """
    least = {"mlp": 2, "cnn": 2, "vit": 1}.get(kind, 0)
    if not 1 <= width <= MOST_NEURONS or not least <= depth <= MOST_LAYERS:
        raise ValueError(
            f"{kind} must have a width from 1 to {MOST_NEURONS} and a depth from {least} to"
            f" {MOST_LAYERS}, got {width} and {depth}."
        )
    match kind:
        case "mlp":
            return mlp([width] * (depth - 1), num_outputs, activation)
        case "cnn":
            return cnn([width] * (depth - 1), (3, 3), num_outputs, activation)
        case "wide_resnet":
            return wide_resnet(10, width, num_outputs, activation)
        case "vit":
            return vit(depth, width, math.gcd(width, 4), num_outputs=num_outputs)
        case "myrtle":
            return myrtle([width] * 4, num_outputs, activation)
    raise ValueError(f"kind must be one of {', '.join(get_args(ImageNetwork))}, got {kind!r}.")


def task_shape(kind: ImageNetwork, data: TaskData, images: ImageSet) -> tuple[int, ...]:
    """Say the shape of one input, without reading any: flat for `mlp`.

    Args:
        kind: The network.
        data: What it learns.
        images: Which images, if these are learned.

    Example:
        >>> task_shape("cnn", "images", "cifar10"), task_shape("mlp", "contrast", "digits")
        ((32, 32, 3), (64,))
    """
    if data.startswith("rank"):
        if kind != "mlp":
            raise ValueError(f"a polynomial must be learned by mlp, got {kind}.")
        return _POLYNOMIAL
    shape = image_shape(images) if data == "images" else _CONTRAST
    return (math.prod(shape),) if kind == "mlp" else shape


def task_data(
    kind: ImageNetwork,
    data: TaskData,
    num_samples: int,
    images: ImageSet = "digits",
    classes: tuple[int, ...] = (0, 2),
) -> Callable[[RandomKey], Dataset]:
    """Give a function that draws data, in the shape that the network takes.

    Args:
        kind: The network.
        data: What it learns.
        num_samples: n.
        images: Which images, if these are learned; they are read now, and drawn later.
        classes: Two kinds of them.

    Example:
        >>> draw = task_data("cnn", "contrast", 5)
        >>> draw(jax.random.key(0)).x.shape
        (5, 8, 8, 1)
    """
    shape = task_shape(kind, data, images)
    if data == "contrast":
        return lambda key: image_like(key, num_samples, math.prod(shape)).reshaped(*shape)
    if data.startswith("rank"):
        rank = 2 if data == "rank-2" else 4
        return lambda key: low_rank_polynomial(key, num_samples, *shape, rank=rank)
    pair = image_set(images, "standard", classes, "sign").subset(slice(MOST_IMAGES))
    if num_samples > pair.num_samples:
        raise ValueError(
            f"num_samples must be at most {pair.num_samples} images, got {num_samples}."
        )
    pair = pair.reshaped(*shape)
    return lambda key: pair.shuffled(key).subset(slice(num_samples))


def watched_bytes(
    kind: ImageNetwork, width: int, depth: int, num_samples: int, input_shape: tuple[int, ...]
) -> int:
    """Estimate the bytes of watched runs on two cores: weights, activations, Jacobians, kernel.

    All inputs go through the network at once, forward and back. Of their Jacobians `ntk` holds
    1 GiB, with as much again for what it makes of each side.

    Args:
        kind: The network.
        width: Its width.
        depth: Its depth.
        num_samples: n.
        input_shape: Of one input.
    """
    model = network(image_network(kind, width, depth), input_shape)
    leaves = jax.tree.leaves(jax.eval_shape(model.init, jax.random.key(0)))
    weights = sum(math.prod(leaf.shape) for leaf in leaves)
    places = math.prod(input_shape[:-1])
    activations = {
        "mlp": depth * width,
        "cnn": depth * width * places,
        "wide_resnet": 16 * places * (1 + 7 * width),  # four of 16k, and half of it twice
        "vit": depth * 16 * width * -(-places // 16),
        "myrtle": 3 * width * places,
    }[kind]
    # A convolution's Jacobian is held as its windows of 3×3 with what comes back to them.
    windows = 1 if kind in ("mlp", "vit") else 9
    n = num_samples
    jacobians = min(4 * n * (1 + windows) * activations, HELD_BYTES)
    return 2 * (3 * jacobians + 4 * (12 * weights + 2 * n * activations + 8 * n * n))
