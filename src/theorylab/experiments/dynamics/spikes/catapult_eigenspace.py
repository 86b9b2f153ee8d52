"""A catapult of gradient descent lies in the five top directions of the tangent kernel.

Gradient descent with η = 1.5 η_crit spikes: the loss rises several times over, and is back after
some ten steps. Split by the eigenvectors of the tangent kernel K of the present step,

    L = L_≤5 + L_>5,   L_≤5 = (1/n) ‖P_≤5 (f − y)‖²

the spike is in L_≤5 alone, while L_>5 falls at nearly every step: not at all of them, as the
source's Claim 1 has it, but almost, as the source says of its figures. Afterwards ‖K‖ is smaller,
so that η is stable. With k outputs, the five top directions are 5k of the nk × nk kernel.

Networks in the NTK parametrization, without biases, learn a product of two of 100 Gaussian inputs,
images (two kinds, and ten classes; handwritten digits by default), and inputs of unequal contrast,
as photographs are. With `paper` the images are the source's photographs, its networks have five
layers, and there is WRN-10-10 too; `--images svhn --classes 0 2` is its other data.

`paper` keeps every run: 40 of each of seven tasks. It is made for a GPU: of convolutional networks
on photographs a step takes a minute and a half of one core (counted by its operations, as those of
`spike_match` took), and a run five hours. Two cores need 13 GB.

Source: zhu · catapult-gd · Claim 1, Fig. 4.2, 4.3, C.2–C.5; zhu · ntk-decomp · §4.2.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    holds,
    median_at_least,
    median_at_most,
    probability_at_least,
)
from theorylab.data import image_set, low_rank_polynomial
from theorylab.data.downloads import image_shape
from theorylab.dynamics import critical_learning_rate, decompose, projected_losses, top_modes
from theorylab.experiments.drawing import label_axes, panels
from theorylab.fields import AboveOne, Classes, Count, ImageSet, Plural, Seeded, within
from theorylab.models import Architecture, mlp, network
from theorylab.progress import report
from theorylab.training import descend, every, gradient_descent, squared
from theorylab.typing import Measured, Params, RandomKey

from ._runs import NOT_KEPT, Draw, at_every
from ._tasks import MOST_IMAGES, image_network, task_data, watched_bytes

PRECISION = "float32"
FORMULA = r"L = \tfrac1n \|P_{\le s}(f - y)\|^2 + \tfrac1n \|P_{> s}(f - y)\|^2"

CLAIM = Source("zhu", "catapult-gd", "Claim 1")
CATAPULT = Source("zhu", "catapult-gd", "§4.2, Fig. 4.2")
IMAGES = Source("zhu", "catapult-gd", "Fig. 4.3")
SPLIT = Source("zhu", "ntk-decomp", "§4.2")

LOSS = squared("mean_entries")  # the mean, for one output
SIZES = (1, 5)
NAMES = (
    "product of two inputs",
    "images",
    "unequal contrast",
    "images, deep",
    "images, convolutions",
    "ten classes of images",
    "images, wide residual",
)
SHALLOW = slice(3)  # the first tasks, whose network has two layers
DIMENSION = 100  # inputs of the product, of which the first two count
CONTROL_RATIO = 0.5  # η over η_crit in the control


@dataclass(frozen=True)
class Config(Seeded):
    """Gradient descent just above and well below the critical learning rate, seen at every step."""

    images: ImageSet = "digits"  # which images
    classes: Classes = (3, 8)  # two kinds of them, for all tasks but the last
    width: Count = 256  # neurons of the networks with two layers
    deep_width: Count = 256  # neurons of the deep network
    depth: Plural = 4  # its layers
    channels: Count = 32  # of the convolutional network
    conv_depth: Plural = 3  # its layers
    widening: Count = 1  # k of the wide residual network WRN-10-k
    num_samples: Annotated[int, within(5, 300)] = 64  # n: any two digits have 300 images
    num_classified: Annotated[int, within(5, 300)] = 24  # n of the task with ten classes
    ratio: AboveOne = 1.5  # η over η_crit
    num_steps: Count = 40  # of gradient descent
    num_tasks: Annotated[int, within(3, 7)] = (
        6  # how many of the tasks: the first three have networks of two layers
    )
    num_seeds: Count = 12  # draws of data and weights, of which two may be exceptions

    def __post_init__(self) -> None:
        super().__post_init__()
        image_network("mlp", max(4 * self.width, self.deep_width), self.depth)
        image_network("cnn", max(self.channels, self.widening), self.conv_depth)


PRESETS = {
    "smoke": Config(width=128, num_samples=40, num_tasks=3, num_seeds=6),
    "paper": Config(
        images="cifar10",
        classes=(7, 9),
        width=1024,
        deep_width=1024,
        depth=5,
        channels=512,
        conv_depth=5,
        widening=10,
        num_samples=128,
        num_classified=128,
        ratio=1.67,  # 6 over 3.6, as in Fig. 4.3a
        num_tasks=7,
        num_steps=200,
        num_seeds=20,
    ),
}


class Descents(NamedTuple):
    """Runs of gradient descent: axes tasks, seeds, steps."""

    learning_rate: Float[Measured, "*r"]  # in units of 1/λ: η · 2/(nk)
    ends: Float[Measured, "*r 2"]  # ‖K‖ at the start and at the end
    loss: Float[Measured, "*r t"]
    top: Float[Measured, "*r t 2"]  # L_≤1 and L_≤5
    kernel_norm: Float[Measured, "*r t"]
    initial: Float[Measured, "*r t"]  # L_≤5 in the eigenvectors of the start


class Result(NamedTuple):
    """What was seen above the critical learning rate, and below it: there 0 for the last three."""

    high: Descents
    low: Descents


class _Task(NamedTuple):
    data: Draw
    architecture: Architecture
    input_shape: tuple[int, ...]


def memory(config: Config) -> int:
    """Bytes of the largest network and of the ten-class kernel, a few times over."""
    shape, rows = image_shape(config.images), 10 * config.num_classified
    flat, n = (math.prod(shape),), config.num_samples
    needed = [
        watched_bytes("mlp", config.deep_width, config.depth, n, flat),
        watched_bytes("mlp", 4 * config.width, 2, config.num_classified, flat) + 32 * rows**2,
        watched_bytes("cnn", config.channels, config.conv_depth, n, shape),
        watched_bytes("wide_resnet", config.widening, 10, n, shape),
    ]
    return max(needed[:-1] if config.num_tasks < len(NAMES) else needed)


def run(config: Config) -> Result:
    """Descend on every task, at both learning rates."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    ratios = jnp.array([config.ratio, CONTROL_RATIO])
    tasks, seen = _tasks(config)[: config.num_tasks], []
    for number, task in enumerate(tasks):
        report(NAMES[number], number / len(tasks))
        seen.append(at_every(partial(_descend, config, task), ratios, keys))
    joined = jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *seen)
    return Result(*(jax.tree.map(lambda leaf, i=i: leaf[i], joined) for i in range(2)))


def _tasks(config: Config) -> list[_Task]:
    """The tasks, in the order of their names."""
    n, pixels = config.num_samples, image_shape(config.images)
    size = math.prod(pixels)
    flat, square = (
        task_data(kind, "images", n, config.images, config.classes) for kind in ("mlp", "cnn")
    )
    ten = image_set(config.images, "standard").subset(slice(MOST_IMAGES)).flat()

    return [
        _Task(
            lambda key: low_rank_polynomial(key, n, DIMENSION),
            mlp([config.width]),
            (DIMENSION,),
        ),
        _Task(flat, mlp([config.width]), (size,)),
        _Task(task_data("mlp", "contrast", n), mlp([config.width]), (64,)),
        _Task(flat, image_network("mlp", config.deep_width, config.depth), (size,)),
        _Task(square, image_network("cnn", config.channels, config.conv_depth), pixels),
        _Task(
            lambda key: ten.shuffled(key).subset(slice(config.num_classified)),
            mlp([4 * config.width], 10),
            (size,),
        ),
        _Task(square, image_network("wide_resnet", config.widening, 10), pixels),
    ]


def _descend(config: Config, task: _Task, ratio: Float[Array, ""], key: RandomKey) -> Descents:
    """One run; the parts of the loss are left 0 below the critical rate, where nobody asks."""
    data_key, init_key = jax.random.split(key)
    data = task.data(data_key)
    model = network(task.architecture, task.input_shape)
    params = model.init(init_key)
    rate = ratio * critical_learning_rate(model.apply, params, data, LOSS)
    norms, first = top_modes(model.apply, params, data.x, SIZES[-1])

    def parts(params: Params) -> tuple[Array, ...]:
        residual = model.apply(params, data.x) - data.y
        _, top, norm = decompose(model.apply, params, data, LOSS, SIZES)
        return top, norm, projected_losses(first, residual, LOSS, SIZES[-1:])[0]

    def objective(params: Params) -> Float[Array, ""]:
        return LOSS(model.apply(params, data.x), data.y)

    def measure(params: Params) -> tuple[Array, ...]:
        shapes = jax.eval_shape(parts, params)
        none = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), shapes)
        return objective(params), *jax.lax.cond(ratio > 1, parts, lambda _: none, params)

    steps = every(1, config.num_steps)
    run = descend(objective, params, gradient_descent(rate), steps, measure)
    last = top_modes(model.apply, run.params, data.x, 1)[0]
    loss, top, norm, initial = run.records
    return Descents(
        learning_rate=rate * LOSS.curvature(data.num_samples, data.num_outputs),
        ends=jnp.stack([norms[0], last[0]]),
        loss=loss,
        top=top,
        kernel_norm=norm,
        initial=initial,
    )


def _spike(runs: Descents) -> tuple[np.ndarray, np.ndarray]:
    """The steps where the highest rise begins and where it ends, for every task and seed."""
    lowest = np.minimum.accumulate(runs.loss, axis=-1)
    end = (runs.loss - lowest).argmax(axis=-1)[..., None]
    before = np.arange(runs.loss.shape[-1]) <= end
    begin = np.where(before, runs.loss, np.inf).argmin(axis=-1)[..., None]
    return begin, end


def _at(values: np.ndarray, step: np.ndarray) -> np.ndarray:
    return np.take_along_axis(values, step, -1)[..., 0]


def _spiking(runs: Descents) -> tuple[int, int]:
    """In how many runs the loss at the end of its rise is twice what it was, and of how many."""
    begin, end = (_at(runs.loss, step) for step in _spike(runs))
    return int((end > 2 * begin).sum()), begin.size


def _share(runs: Descents, part: np.ndarray) -> np.ndarray:
    """The share of the rise that lies in a part of the loss; NaN where nothing rises."""
    begin, end = _spike(runs)
    rise = _at(runs.loss, end) - _at(runs.loss, begin)
    inside = _at(part, end) - _at(part, begin)
    return np.where(rise > 0, inside / np.where(rise > 0, rise, 1.0), np.nan)


def _rest(runs: Descents) -> np.ndarray:
    return runs.loss - runs.top[..., 1]


def _falling(runs: Descents) -> np.ndarray:
    """The share of steps at which L_>5 falls, or stays within rounding: the least over tasks."""
    rounding = 1e-6 * runs.loss.max(axis=-1, keepdims=True)
    return (np.diff(_rest(runs)) <= rounding).mean(axis=-1).min(axis=0)


def _change(norm: np.ndarray) -> np.ndarray:
    return norm[..., -1] / norm[..., 0]


# Claims about all tasks take, seed by seed, the worst of them; only the first counts runs.
CLAIMS = (
    CATAPULT.claim(
        "Above the critical rate the loss rises drastically, to more than twice what it was, and"
        " falls again: in 3 of 4 runs.",
        lambda r, c: probability_at_least(*_spiking(r.high), 0.75),
        quote="the loss decreases after a drastic increase at the beginning stage of training",
        demand="lab: of deep and convolutional networks about one in four rises less (seed 101)",
    ),
    IMAGES.claim(
        "L_≤5 corresponds to the spike: it has 99 % of it or more, on every task.",
        lambda r, c: median_at_least(_share(r.high, r.high.top[..., 1]).min(axis=0), 0.99),
        formula=r"\frac{\Delta L_{\le 5}}{\Delta L} \ge 0.99",
        quote="corresponds to the spike in the training loss",
        demand=NOT_KEPT,
    ),
    CLAIM.claim(
        "The rest of the loss decreases monotonically: at every step, on every task.",
        lambda r, c: median_at_least(_falling(r.high), 1.0),
        quote="component in the complementary eigenspace … decreases monotonically",
        expected="refuted",
        why="it rises at some of the steps of the spike. Claim 1 supposes constant eigenvectors;"
        " of its figures the source says almost monotonically, which is the next claim.",
        demand="source",
    ),
    IMAGES.claim(
        "It decreases almost monotonically: at nine of ten steps or more, on every task.",
        lambda r, c: median_at_least(_falling(r.high), 0.9),
        quote="decreases almost monotonically",
        demand=NOT_KEPT,
    ),
    CLAIM.found(
        "The rest of the loss never doubles.",
        lambda r, c: median_at_most(
            (_rest(r.high).max(axis=-1) / _rest(r.high)[..., 0]).max(axis=0), 2.0
        ),
        formula=r"\max_t L_{>5}(t) \le 2 L_{>5}(0)",
        demand=NOT_KEPT,
    ),
    CATAPULT.claim(
        "Afterwards the kernel is smaller: ‖K‖ has lost a tenth or more.",
        lambda r, c: median_at_most(_change(r.high.kernel_norm).max(axis=0), 0.9),
        quote="is observed to be smaller at the end of the spike",
        demand=NOT_KEPT,
    ),
    CATAPULT.claim(
        "The smaller kernel raises the threshold so that the step is stable: at the end η is at"
        " most 1.05 times the critical rate.",
        lambda r, c: median_at_most(
            (r.high.learning_rate * r.high.kernel_norm[..., -1] / 2).max(axis=0), 1.05
        ),
        formula=r"\eta\,\|K\| / n \le 1.05",
        quote="raises the divergence threshold … which allows a final convergence",
        demand="derived: at most 1; 0.05 is for runs that end at the edge of stability",
    ),
    SPLIT.check(
        "The two parts of the loss are both positive: L_≤5 is never more than L.",
        lambda r, c: holds(_rest(r.high) / r.high.loss.max(axis=-1, keepdims=True), rounding=1e-5),
    ),
    CLAIM.control(
        "At half the critical rate the loss falls at every step.",
        lambda r, c: holds(-np.diff(r.low.loss) / r.low.loss[..., :1], rounding=1e-6),
    ),
    CLAIM.control(
        "There the kernel of networks with two layers stays within 10 %, on every task.",
        lambda r, c: median_at_most(np.abs(_change(r.low.ends)[SHALLOW] - 1).max(axis=0), 0.1),
        demand=NOT_KEPT,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the two parts of the loss of the first seed, for every task."""
    runs = result.high
    figure, axes = panels(*NAMES[: len(runs.loss)])
    for number, axis in enumerate(axes):
        loss, top = runs.loss[number, 0], runs.top[number, 0, :, 1]
        axis.plot(loss, label="L")
        axis.plot(top, label="L in the top 5")
        axis.plot(loss - top, label="the rest")
        axis.plot(runs.initial[number, 0], ":", label="in the first 5 of the start")
        label_axes(axis, "step", logarithmic="y")
    axes[0].legend(fontsize=7)
    return figure
