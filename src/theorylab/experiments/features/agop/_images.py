"""Learning to tell two kinds of images apart: who sees which images, teachers, and students.

    known images    all are for the teacher, and the last tenth of them chooses when it was best;
                    the first n, some labels of them turned, are for students; the others choose
                    when a student was best
    test images     for both, and they choose nothing

The teacher's AGOP on the n images stands for the truth, G*; students are compared with it. Labels
are ±1, and only those that students learn from are turned.

`refuse_image_sizes` and `image_bytes` take a config with the fields of `image_batches`: images,
classes, shrink, num_train, num_known, num_test, widths, channels, teacher_scale, teacher_steps and
num_seeds.

Source: zhu · agop-sgd · §4.4, C.21; zhu · teacher-agop · §4.4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from theorylab.data import Dataset, image_set
from theorylab.data.backgrounds import downsample
from theorylab.data.downloads import image_shape
from theorylab.experiments.checks import refuse_below, refuse_classes, refuse_negative
from theorylab.experiments.features.agop._polynomials import super_critical
from theorylab.features.agop import agop, agop_alignment
from theorylab.features.teachers import FEWEST, Teacher, halving_cnn, teach
from theorylab.kernels import ntk_eigenpairs
from theorylab.models import Flatten, Model, Serial, Standard, mlp, network
from theorylab.models.unfold import im2col
from theorylab.training import Batches, Until, empirical_risk, squared, train_until, zero_one
from theorylab.typing import Params, RandomKey, Scalar

LOSS, ERRORS = squared("mean"), zero_one("mean")
NUM_PRODUCTS = 20  # with the tangent kernel, for its top eigenvalue
_TEACHER_RATE = 3e-3  # of Adam


@dataclass(frozen=True)
class ImageTask:
    """Two kinds of images, and how many are for whom.

    Args:
        data: All images (n, height, width, channels), labels ±1.
        num_train: Images for students.
        num_known: Images for teachers, those of the students among them.
        num_test: Other images.
        turned: The share of the students' labels that are turned.
    """

    data: Dataset
    num_train: int
    num_known: int
    num_test: int
    turned: float = 0.0


class Parts(NamedTuple):
    """The images of one seed: for students, those that choose the best student, all, for tests."""

    train: Dataset
    validation: Dataset
    known: Dataset
    test: Dataset


class Student(NamedTuple):
    """What was measured at the best validation loss, and how training ended.

    Args:
        test: The test loss.
        error: The share of test images that are told wrongly.
        alignment: cos(G, G*).
        num_supercritical: The super-critical steps until then.
        num_steps: The steps until the end.
        loss: The training loss at the end.
        reached: Whether the images were fitted.
    """

    test: Float[Array, ""]
    error: Float[Array, ""]
    alignment: Float[Array, ""]
    num_supercritical: Int[Array, ""]
    num_steps: Int[Array, ""]
    loss: Float[Array, ""]
    reached: Bool[Array, ""]


def image_task(
    images: str,
    classes: tuple[int, ...],
    shrink: int,
    num_train: int,
    num_known: int,
    num_test: int,
    turned: float = 0.0,
) -> ImageTask:
    """Read the images, and refuse numbers that are too large.

    Args:
        images: One of `data.IMAGE_SETS`.
        classes: Two of ten.
        shrink: The side of the square that becomes one pixel.
        num_train: Images for students.
        num_known: Images for teachers, those of the students among them.
        num_test: Other images.
        turned: The share of the students' labels that are turned.
    """
    data = image_set(images, "standard", classes, "sign")
    if data.num_samples < num_known + num_test:
        raise ValueError(
            f"num_known and num_test must be at most {data.num_samples} together, the images of"
            f" these classes, got {num_known + num_test}."
        )
    small = replace(data, x=downsample(data.x, shrink))
    return ImageTask(small, num_train, num_known, num_test, turned)


def parts_of(task: ImageTask, key: RandomKey) -> Parts:
    """Draw the images of one seed, and turn labels: just so many of them, the first in the order.

    Args:
        task: The images.
        key: The randomness of the order.
    """
    known, others = task.data.shuffled(key).split(task.num_known)
    train = known.subset(slice(task.num_train))
    if turned := round(task.turned * task.num_train):
        signs = jnp.where(jnp.arange(task.num_train) < turned, -1, 1)
        train = replace(train, y=train.y * signs[:, None])
    validation = known.subset(slice(task.num_train, None))
    return Parts(train, validation, known, others.subset(slice(task.num_test)))


def image_teacher(
    task: ImageTask,
    parts: Parts,
    channels: Sequence[int],
    scale: float,
    num_steps: int,
    key: RandomKey,
) -> Teacher:
    """Train a convolutional network from a small start on all known images.

    Args:
        task: The images.
        parts: Those of one seed.
        channels: Of its convolutions, each halving the image.
        scale: Of its weights at the start, times √fan-in.
        num_steps: Of Adam, batches of 50.
        key: The randomness of the start and of batches.
    """
    layers, shape = im2col(halving_cnn(channels)), task.data.input_shape
    model = network(layers, shape, Standard(weight_scale=scale), "zero")
    known, test, inputs = parts.known, parts.test, parts.train.x
    return teach(key, model, known, test, inputs, LOSS, _TEACHER_RATE, num_steps)


def image_student(task: ImageTask, widths: Sequence[int]) -> Model:
    """A fully connected ReLU network on images, without biases.

    Args:
        task: The images.
        widths: Of the hidden layers.
    """
    return network(Serial(Flatten(), mlp(widths)), task.data.input_shape)


def critical_rate(model: Model, params: Params, train: Dataset, key: RandomKey) -> Float[Array, ""]:
    """η_crit of all training images, n/λ_max(K).

    Args:
        model: The student.
        params: Its parameters.
        train: The images.
        key: The randomness of the vector that Lanczos begins with.
    """
    top = ntk_eigenpairs(model.apply, params, train.x, 1, key, NUM_PRODUCTS).values[0]
    return jnp.asarray(LOSS.critical_learning_rate(top, train.num_samples))


def learn_images(
    key: RandomKey,
    model: Model,
    params: Params,
    parts: Parts,
    reference: Float[Array, "d d"],
    optimizer: optax.GradientTransformation,
    batch: Batches,
    until: Until,
    learning_rate: Scalar | None = None,
    counted: bool | Bool[Array, ""] = True,
) -> Student:
    """Train until the images are fitted, and measure at the best validation loss.

    Args:
        key: The randomness of the batches.
        model: The student.
        params: Where it begins.
        parts: The images.
        reference: G*, the teacher's AGOP.
        optimizer: Any optax transformation.
        batch: The size of batches.
        until: When training ends.
        learning_rate: η, to count the steps at which it is above η_crit(batch); if it is not
            given, nothing is counted.
        counted: Whether to count them, which may be known only when it runs.
    """

    def above(params: Params, x: Array, y: Array) -> Bool[Array, ""]:
        rate = jnp.asarray(learning_rate)
        return jax.lax.cond(
            counted, lambda: super_critical(model.apply, params, x, rate), lambda: jnp.array(False)
        )

    risk = empirical_risk(LOSS, model.apply)
    event = None if learning_rate is None else above
    fitted = train_until(
        risk, params, parts.train, parts.validation, optimizer, batch, until, key, event
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


def refuse_image_sizes(config: Any, num_others: int = 0) -> None:
    """Raise unless there are images for students, for teachers and for tests, and networks.

    Args:
        config: A dataclass.
        num_others: How many images, at least, only teachers must know.
    """
    refuse_negative(config)
    refuse_classes(config.classes)
    most = config.num_known - num_others
    if not NUM_PRODUCTS <= config.num_train <= most:
        raise ValueError(
            f"num_train must be from {NUM_PRODUCTS} to {most}, with num_known ="
            f" {config.num_known}, got {config.num_train}."
        )
    refuse_below(config, FEWEST, "num_known")
    refuse_below(config, 1, "shrink", "num_test", "teacher_steps", "num_seeds")
    refuse_below(config, 1, "widths", "channels")
    if not 0 < config.teacher_scale < 1e6:
        raise ValueError(f"teacher_scale must be positive, got {config.teacher_scale}.")


def image_bytes(config: Any) -> int:
    """Bytes of all images, and of activations and the tangent kernel on each of two cores.

    Args:
        config: A dataclass.
    """
    height, width, colours = image_shape(config.images)
    pixels = height * width * colours // config.shrink**2
    images = config.num_known + config.num_test
    students = 6 * config.num_known * (pixels + sum(config.widths)) + 4 * config.num_train**2
    teachers = 4 * images * math.ceil(pixels / colours) * max(config.channels)
    return 4 * (4 * 5 * images * pixels + 2 * (students + teachers))
