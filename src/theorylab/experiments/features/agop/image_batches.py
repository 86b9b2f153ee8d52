"""On images, too, SGD with small batches has better features and a lower test loss.

A fully connected network learns to tell two classes of images apart; a tenth of the labels are
flipped. All runs have one learning rate, half the critical one of the whole training set, and go on
until the images are fitted, flipped labels and all; only the batch sizes differ. At the best
validation loss, the smallest batches have the smaller test loss, and their average gradient outer
product G is closer to that of a teacher, a convolutional network that saw more images with their
true labels.

As in the source, little of this is left at a small learning rate, where all batch sizes lead to
nearly the same network. That the number of catapults (super-critical steps, η > η_crit(batch)) is
larger with small batches is not reproduced: the network is deep and its kernel grows while it
learns, so that with batches of 50, which are at their best later, as many steps may have been
super-critical.

Handwritten digits that are hard to tell apart stand in for the source's images by default; `paper`
has Fashion-MNIST, classes 0 and 2, and `--images svhn` or `usps` the others (CelebA is not there).
The source does not say whose labels are flipped: here those that students learn from.

`paper` keeps every teacher (10 minutes of one core at most, of 24) and every student, of 240. Their
steps take a hundredth of a second with batches of 5 and a quarter of one with all 2000; students
that need all 10⁶ steps would take 3 to 70 hours, those that reach the loss before, less. Two cores
need 6 GB.

Source: zhu · agop-sgd · Fig. 4.9, C.21; zhu · small-lr-control · Fig. 4.10; zhu · teacher-agop.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_least,
    median_at_least,
    median_at_most,
    ordered,
)
from theorylab.data import Dataset
from theorylab.experiments.drawing import panels
from theorylab.fields import Count, Increasing, NonNegative, Positive
from theorylab.progress import report
from theorylab.training import Batches, Until, ensemble
from theorylab.typing import Measured

from . import _images as images
from ._images import ImageConfig, Student
from ._polynomials import NOT_KEPT, over_batch_sizes, require_batch_sizes

PRECISION = "float32"
FORMULA = r"b \downarrow \;\Rightarrow\; L_{test} \downarrow, \; \cos(G, G_{teacher}) \uparrow"

BATCHES = Source("zhu", "agop-sgd", "Fig. 4.9, C.21")
SMALL = Source("zhu", "small-lr-control", "Fig. 4.10")
TEACHER = Source("zhu", "teacher-agop", "§4.4")

LARGE_RATE, SMALL_RATE = 0, 1  # along the axis of learning rates


@dataclass(frozen=True)
class Config(ImageConfig):
    """SGD on two classes of images, with several batch sizes and one learning rate."""

    num_seeds: Count = 24  # images, teachers and students; with 12, two exceptions leave it open
    flipped: NonNegative = 0.1  # the share of the students' labels that are wrong
    batch_sizes: Increasing[Count] = (2, 50)
    fraction: Positive = 0.5  # the learning rate, as a part of η_crit of the training set
    small_fraction: Positive = 0.05  # the same in the control
    check_every: Count = 100  # steps from one look at the losses to the next

    def __post_init__(self) -> None:
        super().__post_init__()
        images.require_sizes(self, num_others=1)
        require_batch_sizes(self.batch_sizes, self.num_train)
        if self.flipped >= 0.5:
            raise ValueError(f"flipped must be in [0, 0.5), got {self.flipped}.")
        if not self.small_fraction < self.fraction < 2:
            raise ValueError(
                "small_fraction and fraction must be increasing and below 2,"
                f" got {self.small_fraction} and {self.fraction}."
            )


PRESETS = {
    "smoke": Config(
        images="digits",
        shrink=1,
        num_train=100,
        num_known=230,
        num_test=120,
        widths=(64, 64, 64),
        small_fraction=0.02,
        target=0.004,
        max_steps=20_000,
        check_every=50,
        channels=(24,),
        teacher_steps=100,
        num_seeds=12,
    ),
    "paper": Config(
        images="fashion_mnist",
        classes=(0, 2),
        shrink=1,
        num_train=2000,
        num_known=7000,
        num_test=5000,
        widths=(256, 256, 256),
        batch_sizes=(5, 10, 50, 100, 2000),
        small_fraction=0.0125,
        max_steps=10**6,
        check_every=400,
        channels=(64, 128, 256),
        teacher_steps=5000,
    ),
}


class Result(NamedTuple):
    """Axes of students: learning rates (large and small), batch sizes, seeds."""

    students: Student  # super-critical steps are counted at the large rate only
    accuracy: Float[Measured, " s"]  # of the teachers, on images that they have not seen


def memory(config: Config) -> int:
    """Bytes of images, activations and tangent kernels."""
    return images.bytes_of(config)


def run(config: Config) -> Result:
    """Train teachers, then students with every batch size and both learning rates."""
    report("reading images", 0.0)
    data = images.read(config)
    keys = jax.random.split(jax.random.key(config.seed), (config.num_seeds, 4))
    report("teachers", 0.02)
    teachers = ensemble(
        lambda own: images.teacher(
            images.parts_of(data, config, own[0], config.flipped), config, own[1]
        ),
        keys,
    )
    # All seeds at the large rate, then at the small one.
    fractions = jnp.repeat(jnp.array([config.fraction, config.small_fraction]), config.num_seeds)
    given = (jnp.tile(keys, (2, 1)), jnp.tile(teachers.features, (2, 1, 1)), fractions)
    runs = []
    for index, size in enumerate(config.batch_sizes):
        report(f"batches of {size}", 0.1 + 0.9 * index / len(config.batch_sizes))
        runs.append(ensemble(partial(_student, size=size, data=data, config=config), given))
    students = jax.tree.map(
        lambda *parts: np.stack([np.reshape(part, (2, -1)) for part in parts], axis=1), *runs
    )
    return Result(students, teachers.accuracy)


def _student(
    given: tuple[Key[Array, " 4"], Float[Array, "d d"], Float[Array, ""]],
    size: int,
    data: Dataset,
    config: Config,
) -> Student:
    """One student: images, start and batches have keys of their own, whatever the batch size."""
    keys, reference, fraction = given
    parts = images.parts_of(data, config, keys[0], config.flipped)
    model = images.student(parts, config)
    params = model.init(keys[2])
    rate = fraction * images.critical_rate(model, params, parts.train, keys[3])
    until = Until(config.target, config.max_steps, config.check_every)
    large = fraction > config.small_fraction
    rest = (model, params, parts, reference, rate, Batches(size), until)
    return images.learn(keys[3], *rest, counted=large)


def _changes(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From the smallest batches to the largest, by seed: at the small and at the large rate."""
    large, small = np.abs(values[:, -1] - values[:, 0])
    return small, large


IMPROVES = "the test loss/error decreases and (3) the AGOP alignment improves"

CLAIMS = (
    BATCHES.claim(
        "The smallest batches have the smaller test loss, seed by seed.",
        lambda r, c: ordered(*r.students.test[LARGE_RATE][[0, -1]]),
        quote=IMPROVES,
    ),
    BATCHES.claim(
        "Their features are closer to the teacher's, seed by seed.",
        lambda r, c: ordered(*r.students.alignment[LARGE_RATE][[-1, 0]]),
        quote=IMPROVES,
    ),
    BATCHES.claim(
        "They have the smaller test error, seed by seed.",
        lambda r, c: ordered(*r.students.error[LARGE_RATE][[0, -1]]),
        quote=IMPROVES,
        regime="images in ('fashion_mnist', 'svhn', 'usps')",
    ),
    BATCHES.found(
        "Digits have hardly an error to lose: at most two images in a hundred more.",
        lambda r, c: median_at_most(
            -np.diff(r.students.error[LARGE_RATE][[0, -1]], axis=0)[0], 0.02
        ),
        regime="images in ('digits', 'mnist5k', 'mnist')",
        demand=NOT_KEPT,
    ),
    BATCHES.claim(
        "They have more super-critical steps, seed by seed.",
        lambda r, c: ordered(*r.students.num_supercritical[LARGE_RATE][[-1, 0]]),
        quote="as the batch size decreases, (1) the number of catapults increases",
        expected="inconclusive",
        why="the kernel of deep networks grows while they learn, and batches of 50 are at their"
        " best later. The source trains on all of SVHN and CelebA.",
    ),
    BATCHES.found(
        "The effect is not small: the test loss of the smallest batches is at least 5 % smaller.",
        lambda r, c: median_at_most(
            r.students.test[LARGE_RATE, 0] / r.students.test[LARGE_RATE, -1], 0.95
        ),
        demand="lab: on seeds 101 to 103 it is a third smaller, where digits are small",
    ),
    SMALL.claim(
        "At a small learning rate the batch size changes the test loss less, seed by seed.",
        lambda r, c: ordered(*_changes(r.students.test)),
        quote="it has little effect on generalization for small learning rates",
    ),
    SMALL.control(
        "At a small learning rate it changes the alignment less, too.",
        lambda r, c: ordered(*_changes(r.students.alignment)),
    ),
    BATCHES.check(
        "All runs are compared at one training loss: each has fallen below it.",
        lambda r, c: at_least(np.mean(r.students.reached), 1.0),
    ),
    TEACHER.check(
        "The teachers are accurate: 97 % of the images that they have not seen (clothes: 88 %).",
        lambda r, c: median_at_least(r.accuracy, 0.88 if c.images == "fashion_mnist" else 0.97),
        demand=NOT_KEPT,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Test loss, alignment and super-critical steps over batch sizes."""
    figure, axes = panels("test loss", "alignment with the teacher", "super-critical steps")
    students, sizes = result.students, config.batch_sizes
    over_batch_sizes(axes[:2], sizes, (students.test, students.alignment), ("large η", "small η"))
    over_batch_sizes(axes[2:], sizes, (students.num_supercritical[:1],), ("large η",))
    return figure
