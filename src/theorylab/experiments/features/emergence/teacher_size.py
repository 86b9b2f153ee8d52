"""The best size of a student depends on its teacher and on its number of examples.

The source takes the teacher of the first, classical minimum of the test loss over sizes, before the
second descent, and tests its method by students: on as many Gaussian inputs with that teacher's
labels the loss over sizes falls and rises, too, with its minimum at about the same size, and larger
teachers move it to larger students. Both are so; but a teacher of 50 neurons moves it from 5 to 7
only, since few Gaussians allow no larger student. With many of them it moves further, and the best
student of the same teacher is several times as large as it. Curves are smoothed over neighbouring
sizes.

Beside it, the weight α of Gaussians in a mixture with images is swept: at every α the student of
both is better on images than on Gaussians, as the source says.

Source: shi · input-structure-ts · A.7.5, Algorithm 3, Figures A.18–A.22.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source
from theorylab.claims.judges import median_at_least, median_at_most, median_between, trend
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.fields import Count, Increasing, OpenFraction, Positive, Several
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey, Scalar

from ._relabelling import (
    Part,
    Quadratic,
    Relabelling,
    Roles,
    first_minimum,
    label_entropy,
    learn,
    matched_gaussians,
    quadratic_start,
    read_images,
    relabelled,
    smoothed,
)

PRECISION = "float32"
FORMULA = r"i_t = \text{the first local minimum of the test loss over sizes } i"

PROTOCOL = Source("shi", "input-structure-ts", "A.7.5, Algorithm 3")
SIZES = Source("shi", "input-structure-ts", "A.7.5, the method verified")
SHARES = Source("shi", "input-structure-ts", "A.7.5, the sweep over α")


@dataclass(frozen=True)
class Config(Relabelling):
    """Teachers of several sizes on images, students of many sizes on Gaussians."""

    shrink: Count = 4  # the side of the square that becomes one pixel
    num_images: Count = 1000  # to train on
    num_gaussians: Increasing[Count] = (1000, 8000)  # to train students on
    num_test: Count = 1000  # of each part
    sizes: Increasing[Count] = (3, 4, 5, 7, 10, 14, 20, 30, 45, 64, 90)
    teachers: Several[Count] = (14, 50)  # sizes beside the one of the first minimum, increasing
    shares: Several[OpenFraction] = (0.25, 0.5, 0.75)  # α, of Gaussians in the mixture
    batch_size: Count = 32  # of each part
    learning_rate: Positive = 0.02  # of Adam, falling to 0
    num_seeds: Count = 9  # at least 6 to conclude

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.sizes) < 3:
            raise ValueError(f"sizes must be three or more, got {self.sizes}.")
        if list(self.teachers) != sorted(set(self.teachers)):
            raise ValueError(f"teachers must be increasing, got {self.teachers}.")
        if self.teachers[-1] > self.sizes[-1]:
            raise ValueError(f"teachers must be at most {self.sizes[-1]}, got {self.teachers}.")
        if self.num_gaussians[-1] < self.num_images:
            raise ValueError(
                f"num_gaussians must reach num_images, {self.num_images}, got {self.num_gaussians}."
            )


PRESETS = {
    "smoke": Config(
        num_images=400,
        num_gaussians=(400, 1600),
        num_test=400,
        sizes=(2, 3, 4, 6, 9, 30),
        teachers=(30,),
        shares=(0.5,),
        num_steps=300,
        learning_rate=0.05,
    ),
    "paper": Config(
        images="mnist",
        shrink=1,
        num_images=20000,
        num_gaussians=(20000, 60000),
        num_test=5000,
        sizes=(1, 2, 3, 5, 7, 9, 12, 16, 24, 36, 50, 75, 100, 200, 350, 500, 750, 1000),
        teachers=(50, 500),
        shares=(0.1, 0.25, 0.5, 0.75, 0.9),
        num_steps=20000,
        batch_size=100,
        learning_rate=0.001,
    ),
}


class Result(NamedTuple):
    """What was measured: seeds (s), sizes (m), teachers (t), numbers of Gaussians (n), α (a)."""

    teachers: Float[Measured, " t"]  # their sizes; the first is of the first minimum
    images: Float[Measured, "s m"]  # test loss on images with their own labels
    accuracy: Float[Measured, "s t"]  # of teachers
    entropy: Float[Measured, "s t"]  # of their labels on Gaussians, over the largest
    students: Float[Measured, "s t n m"]  # test loss on Gaussians with the teacher's labels
    minimum: Float[Measured, "s t n"]  # the size of the best student
    mixture: Float[Measured, "s a 2"]  # accuracy on images and on Gaussians, of mixtures


def memory(config: Config) -> int:
    """Bytes of all images, of the parts of two seeds, their hidden neurons, and teachers."""
    num_samples = 2 * (config.num_gaussians[-1] + config.num_test)
    return config.bytes_of(num_samples, len(config.teachers) + 1)


def run(config: Config) -> Result:
    """Read images, then teach and learn for every seed."""
    report("reading images", 0.0)
    images = read_images(config.images, config.shrink)
    if config.num_images + config.num_test > len(images.x):
        raise ValueError(
            f"num_images and num_test must be at most {len(images.x)} together, "
            f"got {config.num_images} and {config.num_test}."
        )
    training = partial(_training, images=images, config=config)
    report("teachers of all sizes", 0.1)
    losses = ensemble(partial(training, tasks=_by_size(config)), config.keys).loss
    place = int(first_minimum(losses.mean(axis=0)))
    report("students", 0.3)
    teachers = (config.sizes[place], *config.teachers)
    found = ensemble(partial(training, tasks=_by_teacher(config, teachers)), config.keys)
    t, counts, m = len(teachers), len(config.num_gaussians), len(config.sizes)
    end = t + t * counts * m
    students = jnp.reshape(found.loss[:, t:end], (-1, t, counts, m))
    return Result(
        teachers=np.array(teachers, float),
        images=losses,
        accuracy=found.accuracy[:, :t, 0],
        entropy=found.entropy[:, t : end : counts * m],
        students=students,
        minimum=np.array(config.sizes, float)[np.asarray(smoothed(students)).argmin(axis=-1)],
        mixture=found.accuracy[:, end:],
    )


class Task(NamedTuple):
    """One training. Its two parts are images or Gaussians, and may be the same."""

    size: Scalar
    teacher: Scalar  # whose labels, which task; −1 for the true ones
    teacher_size: Scalar
    first: Scalar  # 0: images, 1: Gaussians
    second: Scalar
    count: Scalar  # how many Gaussians to train on
    imitation: Scalar  # ω, the weight of the labels of the second part
    strength: Scalar = 0.0  # ρ, of the regulariser


def _by_size(config: Config) -> list[Task]:
    """Teachers of all sizes, without a regulariser."""
    alone = partial(Task, teacher=-1, teacher_size=1.0, first=0, second=0, imitation=1.0)
    return [alone(size=float(size), count=config.num_gaussians[-1]) for size in config.sizes]


def _by_teacher(config: Config, teachers: tuple[int, ...]) -> list[Task]:
    """Regularised teachers, their students of all sizes, and students of mixtures."""
    most, last = config.num_gaussians[-1], len(teachers) - 1
    teacher = partial(Task, teacher=-1, teacher_size=1.0, first=0, second=1, imitation=0.0)
    tasks = [teacher(size=float(size), count=most, strength=1.0) for size in teachers]
    student = partial(Task, first=1, second=1, imitation=1.0)
    tasks += [
        student(size=float(size), teacher=place, teacher_size=float(of), count=count)
        for place, of in enumerate(teachers)
        for count in config.num_gaussians
        for size in config.sizes
    ]
    # Mixtures of equal parts, for students as large as the largest teacher.
    largest = float(teachers[last])
    mixed = partial(Task, size=largest, teacher=last, teacher_size=largest, first=0, second=1)
    weights = [share / (1 - share) for share in config.shares]
    return tasks + [mixed(count=config.num_images, imitation=weight) for weight in weights]


class Training(NamedTuple):
    """What every task (k) ends with."""

    loss: Float[Array, "*k"]  # on the first test part
    accuracy: Float[Array, "*k 2"]  # on both
    entropy: Float[Array, "*k"]  # of the teacher's labels on Gaussians, over the largest


def _training(key: RandomKey, tasks: list[Task], images: Part, config: Config) -> Training:
    """Do all tasks on the images and Gaussians of one seed."""
    of_order, of_noise, of_teachers, of_students, of_batches = jax.random.split(key, 5)
    n, most = config.num_images, config.num_gaussians[-1]
    order = jax.random.permutation(of_order, len(images.x))[: n + config.num_test]
    noise = matched_gaussians(of_noise, images.x[order[:n]], most + config.num_test)
    shape = (images.x.shape[1], config.sizes[-1], images.y.shape[1])
    starts = [quadratic_start(part, *shape) for part in (of_teachers, of_students)]
    rows = jnp.arange(most)  # every part has as many rows, if need be again and again

    # One task after another, so that there is one training to compile.
    def perform(networks: Quadratic, given: tuple[Array, Task]) -> tuple[Quadratic, Training]:
        number, task = given
        taught = task.teacher >= 0
        teacher = jax.tree.map(lambda leaf: leaf[task.teacher], networks)
        label = partial(relabelled, teacher, size=task.teacher_size)
        pairs = []
        drawn = (order[rows % n], noise[rows % task.count]), (order[n:], noise[most:])
        for chosen, gaussians in drawn:
            seen = label(images.x[chosen])
            known = seen._replace(y=jnp.where(taught, seen.y, images.y[chosen]))
            pairs.append((known, label(gaussians)))
        train, test = ((_either(task.first, *pair), _either(task.second, *pair)) for pair in pairs)
        course = learn(
            of_batches,
            jax.tree.map(lambda one, other: jnp.where(taught, one, other), starts[1], starts[0]),
            *(train, test, Roles(task.size, task.imitation, task.strength)),
            *(1, config.num_steps, config.batch_size, config.learning_rate),
        )
        # Teachers come first, and there is no room for what comes after them.
        ended = course.network
        networks = jax.tree.map(lambda kept, new: kept.at[number].set(new), networks, ended)
        accuracy = jnp.concatenate([course.labelled, course.unlabelled])
        return networks, Training(course.loss, accuracy, label_entropy(pairs[1][1].y))

    room = len(config.teachers) + 1
    empty = jax.tree.map(lambda leaf: jnp.zeros((room, *leaf.shape)), starts[0])
    columns = Task(*(jnp.array(column) for column in zip(*tasks, strict=True)))
    return jax.lax.scan(perform, empty, (jnp.arange(len(tasks)), columns))[1]


def _either(which: Scalar | Int[Array, ""], images: Part, gaussians: Part) -> Part:
    return jax.tree.map(lambda one, other: jnp.where(which == 0, one, other), images, gaussians)


def _ratio(result: Result, number: int) -> Float[np.ndarray, " s"]:
    """The best student of so many Gaussians over the best teacher, which it learns from."""
    return result.minimum[:, 0, number] / result.teachers[0]


def _rise(curves: Float[np.ndarray, "s m"]) -> Float[np.ndarray, " s"]:
    """How much the loss rises again, over its least before."""
    return (curves / np.minimum.accumulate(curves, axis=1)).max(axis=1)


LAB = "lab: chosen for this experiment; the runs it was set on were not kept"

CLAIMS = (
    SIZES.claim(
        "Teachers on images have a U-shape: the loss rises again over sizes, by 5 % or more.",
        lambda r, c: median_at_least(_rise(r.images), 1.05),
        quote="The local minimums of the two U-shapes",
        demand=LAB,
    ),
    SIZES.claim(
        "So have students of as many Gaussians: the loss rises again, by 5 % or more.",
        lambda r, c: median_at_least(_rise(r.students[:, 0, 0]), 1.05),
        quote="The local minimums of the two U-shapes",
        demand=LAB,
    ),
    SIZES.claim(
        "With as many Gaussians as images the best student is as large as the best teacher, within "
        "a factor of 1.5.",
        lambda r, c: median_between(_ratio(r, 0), 1 / 1.5, 1.5),
        quote="The local minimums of the two U-shapes are roughly the same",
        demand=LAB,
    ),
    SIZES.claim(
        "With as many Gaussians as images the best student grows with its teacher.",
        lambda r, c: trend(r.minimum[:, :, 0].T),
        quote="becomes larger when the teacher gets larger",
        regime="num_images >= 1000 and len(teachers) >= 2",
    ),
    SIZES.found(
        "With as many Gaussians as images the largest teacher less than triples the best student.",
        lambda r, c: median_at_most(r.minimum[:, -1, 0] / r.minimum[:, 0, 0], 3.0),
        demand=LAB,
    ),
    SIZES.found(
        "With many Gaussians the best student grows with its teacher.",
        lambda r, c: trend(r.minimum[:, :, -1].T),
    ),
    SIZES.control(
        "With many Gaussians it is at least 1.5 times as large as the best teacher.",
        lambda r, c: median_at_least(_ratio(r, -1), 1.5),
        demand=LAB,
    ),
    SHARES.found(
        "Images are learned better than Gaussians at every share α of them, by 5 points or more.",
        lambda r, c: median_at_least((r.mixture[..., 0] - r.mixture[..., 1]).min(axis=1), 0.05),
        demand=LAB,
    ),
    PROTOCOL.claim(
        "Labels of Gaussians have at least 90 % of the largest entropy, for every teacher.",
        lambda r, c: median_at_least(r.entropy.min(axis=1), 0.9),
        quote="guarantees that each kind of label has the same average probability",
        demand=LAB,
    ),
    PROTOCOL.check(
        "Teachers know the images: each is right on 50 % or more, five times chance.",
        lambda r, c: median_at_least(r.accuracy.min(axis=1), 0.5),
        demand=LAB,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Losses over sizes, of teachers and of students; accuracies over shares."""
    figure, axes = panels("teachers on images", "students on Gaussians", "mixtures")
    curves(axes[0], config.sizes, {"their own labels": result.images}, "o-")
    for place, size in enumerate(result.teachers):
        for number, style in ((0, ":"), (-1, "-")):
            name = f"teacher of {size:.0f}, {config.num_gaussians[number]} inputs"
            curves(axes[1], config.sizes, {name: result.students[:, place, number]}, style, place)
    images, gaussians = np.moveaxis(result.mixture, 2, 0)
    curves(axes[2], config.shares, {"images": images, "Gaussians": gaussians}, "o-")
    label_axes(axes[0], "neurons", "test loss", logarithmic="x")
    label_axes(axes[1], "neurons", "test loss", logarithmic="xy")
    label_axes(axes[2], "share α of Gaussians", "test accuracy")
    return figure
