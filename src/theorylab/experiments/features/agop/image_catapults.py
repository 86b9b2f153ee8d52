"""On images, too, catapults of gradient descent lower the test loss, and improve features a little.

The question of `features/agop/gradient_descent` on two classes of images: a network of four layers
learns to tell them apart by gradient descent with k = 0, 1, 2, 3 catapults; whatever k is, training
ends at the same training loss. The truth has no gradients here, so the average gradient outer
product G is compared with that of a teacher: a convolutional network from a small start, trained on
many more images. A second teacher gives the ceiling, the alignment that can be asked for at all.

The test loss falls with k. The alignment rises, but a student stays far below the ceiling, nearer
to where it began. The source has test errors, of which digits have hardly any to lose. The control
takes a smaller learning rate instead: with no catapult in either run, test loss and alignment
change less.

η is raised to 1.5 η_crit(t) when the loss is back from the last raise. (The source raises to fixed
rates, the last 2.5 to 5.5 times the first; its scaling of pixels and its first rate are not given.)

`paper` keeps each of its 20 teachers (a quarter of an hour of one core at most) and each of its 50
students: 0.03 s a step, half an hour for all 50,000. That is a day of one core; two need 8 GB.

Source: zhu · agop-gd · Fig. 4.8, C.13, C.16; zhu · teacher-agop · §4.4.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    median_at_least,
    median_at_most,
    median_between,
    ordered,
    probability_at_least,
)
from theorylab.data import Dataset
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features import agop, agop_alignment
from theorylab.fields import Classes, Count, Increasing, Positive, Several, Whole
from theorylab.progress import report
from theorylab.training import catapults, descend_until, ensemble
from theorylab.typing import Measured, Params, RandomKey

from . import _images as images
from ._catapults import over_raises, require_catapults, spikes_of, training_losses
from ._images import ERRORS, LOSS, ImageConfig
from ._polynomials import NOT_KEPT

PRECISION = "float32"
FORMULA = r"k \uparrow \;\Rightarrow\; L_{test} \downarrow, \; \cos(G, G_{teacher}) \uparrow"

GD = Source("zhu", "agop-gd", "Fig. 4.8, C.13, C.16")
TEACHER = Source("zhu", "teacher-agop", "§4.4")

START = 0.5  # the first learning rate, over η_crit(0)
PATIENCE = 20  # the fewest steps between two raises


@dataclass(frozen=True)
class Config(ImageConfig):
    """Gradient descent on two classes of images with k catapults, to one training loss."""

    num_seeds: Count = 12  # images, students and pairs of teachers; at least 6 to conclude
    classes: Classes = (0, 2)
    num_train: Count = 200  # images for students, n
    widths: Several[Count] = (96, 96, 96)  # of the hidden layers
    raises: Increasing[Whole] = (0, 1, 2, 3)  # how often the learning rate is raised, k
    factor: Positive = 1.5  # η/η_crit at a raise
    calm: Positive = 0.1  # η/η_crit(0) of the control, which is not raised
    max_steps: Count = 6000  # of gradient descent

    def __post_init__(self) -> None:
        super().__post_init__()
        require_catapults(self.factor, self.raises)
        if self.calm >= START:
            raise ValueError(f"calm must be in (0, {START}), got {self.calm}.")


# The source: SVHN, USPS and Fashion-MNIST, classes 0 and 2 (CelebA is not among the images).
PRESETS = {
    "smoke": Config(
        images="digits",
        shrink=1,
        num_train=80,
        num_known=230,
        num_test=120,
        widths=(64, 64),
        raises=(0, 3),
        calm=0.2,
        target=0.005,
        max_steps=1000,
        channels=(24,),
        teacher_steps=100,
        num_seeds=18,  # 36 runs that all reach the loss tell that nine in ten do
    ),
    "paper": Config(
        images="fashion_mnist",
        shrink=1,
        num_train=1000,
        num_known=9000,
        num_test=5000,
        widths=(256, 256, 256),
        max_steps=50_000,
        channels=(64, 128, 256),
        teacher_steps=5000,
        num_seeds=10,
    ),
}


class Student(NamedTuple):
    """Runs of gradient descent that have ended: axes s seeds, k numbers of raises."""

    test: Float[Measured, "*r"]  # loss
    error: Float[Measured, "*r"]  # share of misclassified test images
    alignment: Float[Measured, "*r"]  # cos(G, G*) of student and teacher
    reached: Bool[Measured, "*r"]  # whether the training loss was reached
    losses: Float[Measured, "*r t"]
    rates: Float[Measured, "*r t"]


class Result(NamedTuple):
    """Axes: s seeds, k numbers of raises."""

    test: Float[Measured, "s k"]  # test loss where training ended
    error: Float[Measured, "s k"]  # share of misclassified test images
    alignment: Float[Measured, "s k"]  # cos(G, G*) of student and teacher
    spikes: Int[Measured, "s k"]  # raises that the loss answered with a spike
    reached: Bool[Measured, "s k"]  # whether the training loss was reached
    calm_test: Float[Measured, " s"]  # the same of the control: a smaller rate, not raised
    calm_alignment: Float[Measured, " s"]
    ceiling: Float[Measured, " s"]  # alignment of two teachers
    accuracy: Float[Measured, "s 2"]  # of both teachers, on images they have not seen
    losses: Float[Measured, "k t"]  # training loss over time, first seed


def memory(config: Config) -> int:
    """Bytes of images, activations and tangent kernels, and of the losses of all runs."""
    num_runs = config.num_seeds * (len(config.raises) + 1)
    return images.bytes_of(config) + 16 * num_runs * config.max_steps


def run(config: Config) -> Result:
    """Train teachers, then students with every number of raises."""
    report("reading images", 0.0)
    data = images.read(config)
    keys = jax.random.split(jax.random.key(config.seed), (config.num_seeds, 4))
    report("two teachers for each seed", 0.02)
    teachers = ensemble(
        lambda own: images.teacher(images.parts_of(data, config, own[0]), config, own[1]),
        (jnp.repeat(keys[:, 0], 2), keys[:, 1:3].ravel()),
    )
    features = teachers.features.reshape(config.num_seeds, 2, *teachers.features.shape[1:])
    report("gradient descent with catapults, and without", 0.5)
    # The control comes last: no raise, and a smaller learning rate.
    numbers = jnp.array([*config.raises, 0])
    starts = jnp.array([START] * len(config.raises) + [config.calm])
    shape = (config.num_seeds, len(numbers))
    given = (
        *(jnp.repeat(part, shape[1], axis=0) for part in (keys[:, 0], keys[:, 3], features[:, 0])),
        jnp.tile(numbers, shape[0]),
        jnp.tile(starts, shape[0]),
    )
    found = ensemble(lambda one: _student(*one, data=data, config=config), given)
    students = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(*shape, *leaf.shape[1:]), found)
    raised = jax.tree.map(lambda leaf: leaf[:, :-1], students)
    return Result(
        test=raised.test,
        error=raised.error,
        alignment=raised.alignment,
        spikes=spikes_of(raised.losses, raised.rates),
        reached=raised.reached,
        calm_test=students.test[:, -1],
        calm_alignment=students.alignment[:, -1],
        ceiling=jax.vmap(agop_alignment)(features[:, 0], features[:, 1]),
        accuracy=teachers.accuracy.reshape(-1, 2),
        losses=raised.losses[0],
    )


def _student(
    data_key: RandomKey,
    key: RandomKey,
    reference: Float[Array, "d d"],
    num_raises: Int[Array, ""],
    start: Float[Array, ""],
    data: Dataset,
    config: Config,
) -> Student:
    """Descend to the training loss with so many raises, and measure there."""
    parts = images.parts_of(data, config, data_key)
    train, test = parts.train, parts.test
    model = images.student(parts, config)

    def critical(params: Params) -> Float[Array, ""]:
        return images.critical_rate(model, params, train, key)

    descended = descend_until(
        lambda params: LOSS(model.apply(params, train.x), train.y),
        model.init(key),
        catapults(critical, config.factor, PATIENCE, num_raises, start),
        lambda state: state.learning_rate,
        config.target,
        config.max_steps,
        PATIENCE * (num_raises + 1),
    )
    outputs = model.apply(descended.params, test.x)
    return Student(
        test=LOSS(outputs, test.y),
        error=ERRORS(outputs, test.y),
        alignment=agop_alignment(agop(model.apply, descended.params, train.x), reference),
        reached=descended.reached,
        losses=descended.losses,
        rates=descended.rates,
    )


def _change(values: np.ndarray) -> np.ndarray:
    """From no raise to most, seed by seed."""
    return values[:, -1] - values[:, 0]


def _way(result: Result) -> np.ndarray:
    """Which part of the way to what another teacher has, seed by seed."""
    return _change(result.alignment) / (result.ceiling - result.alignment[:, 0])


def _changes(calm: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How much a smaller learning rate and how much most raises change a measure."""
    return np.abs(calm - values[:, 0]), np.abs(_change(values))


FALLS = "the test loss/error decreases as the number of catapults increases while AGOP alignment"

CLAIMS = (
    GD.claim(
        "Catapults lower the test loss, seed by seed.",
        lambda r, c: ordered(r.test[:, -1], r.test[:, 0]),
        formula=r"L_{test}(k) < L_{test}(0)",
        quote=FALLS,
    ),
    GD.claim(
        "Catapults bring the features closer to a teacher's, seed by seed.",
        lambda r, c: ordered(r.alignment[:, 0], r.alignment[:, -1]),
        formula=r"\cos(G_k, G^*) > \cos(G_0, G^*)",
        quote=FALLS,
    ),
    GD.claim(
        "Catapults lower the test error, seed by seed.",
        lambda r, c: ordered(r.error[:, -1], r.error[:, 0]),
        quote=FALLS,
        regime="images in ('fashion_mnist', 'svhn', 'usps')",
    ),
    GD.found(
        "The test error of digits tells little: it changes by less than 2 %.",
        lambda r, c: median_between(_change(r.error), -0.02, 0.02),
        regime="images in ('digits', 'mnist5k', 'mnist')",
        demand=NOT_KEPT,
    ),
    TEACHER.found(
        "They do not bring them there: at most half of the way to what another teacher has.",
        lambda r, c: median_at_most(_way(r), 0.5),
        demand="lab: on seeds 101 and 102 three catapults went a tenth of the way",
    ),
    TEACHER.found(
        "Two teachers from small starts have nearly the same features: their alignment is above"
        " 0.8.",
        lambda r, c: median_at_least(r.ceiling, 0.8),
        demand="lab: the teachers of seed 101 had 0.79 to 0.86, from larger starts down to 0.37",
    ),
    GD.check(
        "Nearly every raise of the learning rate is a catapult: the loss spikes.",
        lambda r, c: median_at_least(r.spikes[:, -1] / c.raises[-1], 0.7),
        demand=NOT_KEPT,
    ),
    GD.control(
        "A smaller learning rate, also without catapults, changes the test loss less.",
        lambda r, c: ordered(*_changes(r.calm_test, r.test)),
    ),
    GD.control(
        "A smaller learning rate, also without catapults, changes the features less.",
        lambda r, c: ordered(*_changes(r.calm_alignment, r.alignment)),
    ),
    GD.control(
        "Without a raise the loss never spikes.",
        lambda r, c: median_at_most(r.spikes[:, 0].astype(float), 0.0),
    ),
    GD.check(
        "Runs are compared at the same training loss: nine in ten, at least, reach it.",
        lambda r, c: probability_at_least(r.reached.sum(), r.reached.size, 0.9),
    ),
    TEACHER.check(
        "The teachers are accurate: 97 % of the images that they have not seen.",
        lambda r, c: median_at_least(r.accuracy.min(axis=1), 0.97),
        demand=NOT_KEPT,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """The training loss, and test loss and alignment over the number of raises."""
    figure, (loss, *axes) = panels("training loss", "test loss", "alignment with a teacher")
    training_losses(loss, result.losses, [f"k = {number}" for number in config.raises])
    pairs = ((result.test, result.calm_test), (result.alignment, result.calm_alignment))
    for axis, (values, calm) in zip(axes, pairs, strict=True):
        axis.plot([0], [np.median(calm)], "s", color="C1", label="smaller rate")
        over_raises(axis, config.raises, {"catapults": values})
    axes[1].axhline(np.median(result.ceiling), **THEORY, label="another teacher")
    axes[1].legend(fontsize=7)
    return figure
