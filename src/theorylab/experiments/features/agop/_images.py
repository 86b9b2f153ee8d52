"""Students and teachers on two classes of images: settings, data and the protocol.

    known images    all are for the teacher, and the last tenth of them chooses when it was best;
                    the first n, some with flipped labels, are for students; the others choose when
                    a student was best
    test images     for both, and they choose nothing

The teacher's AGOP on the n images stands for the truth, G*; students are compared with it. Labels
are ±1, and only those that students learn from are flipped.

Source: zhu · agop-sgd · §4.4, C.21; zhu · teacher-agop · §4.4.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from theorylab.data import Dataset, image_set
from theorylab.data.backgrounds import downsample
from theorylab.data.downloads import image_shape
from theorylab.features.agop import agop, agop_alignment
from theorylab.features.teachers import FEWEST, Teacher, halving_cnn, teach
from theorylab.fields import Classes, Count, ImageSet, Positive, Seeded, Several
from theorylab.kernels import ntk_eigenpairs
from theorylab.models import Flatten, Model, Serial, Standard, mlp, network
from theorylab.models.unfold import im2col
from theorylab.training import (
    Batches,
    Until,
    empirical_risk,
    gradient_descent,
    squared,
    train_until,
    zero_one,
)
from theorylab.typing import Measured, Params, RandomKey, Scalar

from ._polynomials import super_critical

LOSS, ERRORS = squared("mean"), zero_one("mean")
NUM_PRODUCTS = 20  # with the tangent kernel, for its top eigenvalue
_TEACHER_RATE = 3e-3  # of Adam
_TEACHER_SCALE = 0.03  # of the teacher's weights at the start, times √fan-in


@dataclass(frozen=True)
class ImageConfig(Seeded):
    """Students that learn to tell two classes of images apart, and their teachers."""

    images: ImageSet = "mnist5k"
    classes: Classes = (4, 9)
    shrink: Count = 2  # the side of the square that becomes one pixel
    num_train: Count = 400  # images for students, n
    num_known: Count = 700  # images for teachers, those of the students among them
    num_test: Count = 300  # other images
    widths: Several[Count] = (128, 128, 128)  # of the hidden layers
    target: Positive = 1e-3  # the training loss to reach
    max_steps: Count = 60_000  # after which a run ends anyway
    channels: Several[Count] = (64,)  # of the teacher's convolutions, each halving the image
    teacher_steps: Count = 200  # of Adam, batches of 50

    def __post_init__(self) -> None:
        super().__post_init__()
        require_sizes(self)


def require_sizes(config: ImageConfig, num_others: int = 0) -> None:
    """Raise unless there are images enough for students, and so many others for teachers."""
    most = config.num_known - num_others
    if not NUM_PRODUCTS <= config.num_train <= most:
        raise ValueError(
            f"num_train must be from {NUM_PRODUCTS} to {most}, with num_known ="
            f" {config.num_known}, got {config.num_train}."
        )
    if config.num_known < FEWEST:
        raise ValueError(f"num_known must be at least {FEWEST}, got {config.num_known}.")


def bytes_of(config: ImageConfig) -> int:
    """Bytes of all images, and of activations and the tangent kernel on each of two cores.

    A teacher's loss is looked at on all images that it knows, which takes more than a batch.
    """
    height, width, colours = image_shape(config.images)
    pixels = height * width * colours // config.shrink**2
    images = config.num_known + config.num_test
    students = 6 * config.num_known * (pixels + sum(config.widths)) + 4 * config.num_train**2
    weights = 10 * sum(a * b for a, b in pairwise((pixels, *config.widths, 1)))
    teachers = max(config.num_known, config.num_test) * _of_teacher(config)
    features = 2 * config.num_seeds * pixels**2
    return 4 * (4 * 5 * images * pixels + 2 * (students + weights + teachers) + features)


def _of_teacher(config: ImageConfig) -> int:
    """Numbers of one image at the widest place of a teacher: around one of its convolutions."""
    height, width, before = image_shape(config.images)
    height, width, widest = height // config.shrink, width // config.shrink, 0
    for channels in config.channels:
        seen = height * width * before
        height, width = math.ceil(height / 2), math.ceil(width / 2)
        # The windows and their nine parts, what they see, what is computed and what follows.
        widest = max(widest, height * width * (2 * 9 * before + 2 * channels) + seen)
        before = channels
    return widest


def read(config: ImageConfig) -> Dataset:
    """All images of both classes, or an error if there are fewer than asked for."""
    data = image_set(config.images, "standard", config.classes, "sign")
    asked = config.num_known + config.num_test
    if data.num_samples < asked:
        raise ValueError(
            f"num_known and num_test must be at most {data.num_samples} together, the images of"
            f" these classes, got {asked}."
        )
    return replace(data, x=downsample(data.x, config.shrink))


class Parts(NamedTuple):
    """The images of one seed."""

    train: Dataset  # for students
    validation: Dataset  # to choose when a student was best
    known: Dataset  # both of these with their true labels, for the teacher
    test: Dataset


def parts_of(data: Dataset, config: ImageConfig, key: RandomKey, flipped: float = 0.0) -> Parts:
    """Draw the images of one seed, and flip this share of labels, the first in the order."""
    known, others = data.shuffled(key).split(config.num_known)
    train = known.subset(slice(config.num_train))
    if num_flipped := round(flipped * config.num_train):
        signs = jnp.where(jnp.arange(config.num_train) < num_flipped, -1, 1)
        train = replace(train, y=train.y * signs[:, None])
    return Parts(
        train=train,
        validation=known.subset(slice(config.num_train, None)),
        known=known,
        test=others.subset(slice(config.num_test)),
    )


def teacher(parts: Parts, config: ImageConfig, key: RandomKey) -> Teacher:
    """Train a convolutional network from a small start on all known images."""
    layers, shape = im2col(halving_cnn(config.channels)), parts.known.input_shape
    model = network(layers, shape, Standard(weight_scale=_TEACHER_SCALE), "zero")
    images = (parts.known, parts.test, parts.train.x)
    return teach(key, model, *images, LOSS, _TEACHER_RATE, config.teacher_steps)


def student(parts: Parts, config: ImageConfig) -> Model:
    """A fully connected ReLU network on images, without biases."""
    return network(Serial(Flatten(), mlp(config.widths)), parts.train.input_shape)


def critical_rate(model: Model, params: Params, train: Dataset, key: RandomKey) -> Float[Array, ""]:
    """η_crit of all training images, n/λ_max(K); `key` draws the first vector of Lanczos."""
    found = ntk_eigenpairs(model.apply, params, train.x, 1, key, NUM_PRODUCTS, kernel="full")
    return jnp.asarray(LOSS.critical_learning_rate(found.values[0], train.num_samples))


class Student(NamedTuple):
    """What runs have at their best validation loss, and how they ended."""

    test: Float[Measured, "*r"]  # loss
    error: Float[Measured, "*r"]  # the share of misclassified test images
    alignment: Float[Measured, "*r"]  # cos(G, G*)
    num_supercritical: Int[Measured, "*r"]  # super-critical steps until then
    num_steps: Int[Measured, "*r"]  # until the end
    loss: Float[Measured, "*r"]  # of training, at the end
    reached: Bool[Measured, "*r"]  # whether the images were fitted


def learn(
    key: RandomKey,
    model: Model,
    params: Params,
    parts: Parts,
    reference: Float[Array, "d d"],
    learning_rate: Scalar,
    batch: Batches,
    until: Until,
    counted: bool | Bool[Array, ""] = True,
) -> Student:
    """Train by SGD until the images are fitted, and measure at the best validation loss.

    Steps at which η is above η_crit(batch) are counted if `counted` says so, which may be known
    only when it runs.
    """

    def above(params: Params, x: Array, y: Array) -> Bool[Array, ""]:
        rate = jnp.asarray(learning_rate)
        return jax.lax.cond(
            counted, lambda: super_critical(model.apply, params, x, rate), lambda: jnp.array(False)
        )

    risk, optimizer = empirical_risk(LOSS, model.apply), gradient_descent(learning_rate)
    fitted = train_until(
        risk, params, parts.train, parts.validation, optimizer, batch, until, key, above
    )
    outputs = model.apply(fitted.params, parts.test.x)
    return Student(
        test=LOSS(outputs, parts.test.y),
        error=ERRORS(outputs, parts.test.y),
        alignment=agop_alignment(agop(model.apply, fitted.params, parts.train.x), reference),
        num_supercritical=fitted.num_events,
        num_steps=fitted.num_steps,
        loss=fitted.loss,
        reached=fitted.reached,
    )
