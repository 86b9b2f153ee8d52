"""SGD spikes where its batch makes the step super-critical, and a match rate needs its base rate.

Before every step of SGD the critical learning rate of the batch is measured, η_crit = b/λ_max(K)
with the tangent kernel of the b examples. The source asks at how many of the steps that raise the
loss η was above it, and finds 97 %. But that number says little by itself: where η is above η_crit
at most steps, most of everything matches; and where the loss goes up and down by 10⁻⁴ at every
second step, as on handwritten digits, almost nothing does. So the match rate stands here beside its
base rate P(η > η_crit), with the lift and Fisher's exact test. And for spikes that deserve the
name,

    L′ > 1.5 L  and  L′ − L > 0.1,

the match is all but perfect. The "number of catapults" of the source counts super-critical steps:
many times the number of spikes.

Source: zhu · sgd-match-rate · Table 4.2, Fig. 4.6.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.choices import ImageSet
from theorylab.claims import (
    Claim,
    Source,
    at_least,
    at_most,
    between,
    median_at_least,
)
from theorylab.data import Dataset, image_like, image_set, image_shape
from theorylab.dynamics import (
    Match,
    WatchedSteps,
    critical_learning_rate,
    num_supercritical,
    spike_match,
    spikes,
    watch_sgd,
)
from theorylab.experiments.checks import refuse_below, refuse_classes
from theorylab.experiments.drawing import panels
from theorylab.models import mlp, network
from theorylab.progress import report
from theorylab.training import ensemble, squared
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"P(\eta > \eta_{\mathrm{crit}}(\mathrm{batch}) \mid L' > L)"

TABLE = Source("zhu", "sgd-match-rate", "Table 4.2")
FIGURE = Source("zhu", "sgd-match-rate", "Fig. 4.6")
COUNT = Source("zhu", "agop-sgd", "Table 4.1, number of catapults")

LOSS = squared("mean")
NAMES = ("unequal contrast", "unequal contrast, four layers", "images")
PIXELS = 64
MOST = 5000  # images to draw from: they are part of the compiled program


@dataclass(frozen=True)
class Config:
    """SGD above the critical learning rate of its data, and below it."""

    images: ImageSet = "digits"  # of the last task
    classes: tuple[int, ...] = (3, 8)  # two kinds of them
    width: int = 256  # neurons of the networks with two layers
    deep_width: int = 128  # of those with four
    num_samples: int = 128  # n
    batch_size: int = 32  # b
    ratio: float = 1.2  # η over η_crit of all data at the start
    control_ratio: float = 0.3  # the same in the control
    num_steps: int = 300  # of SGD
    num_seeds: int = 6  # draws of data, weights and batches, at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_classes(self.classes)
        refuse_below(self, 1, "width", "deep_width", "batch_size", "num_seeds")
        if not 5 <= self.num_samples <= 300:
            raise ValueError(f"num_samples must be from 5 to 300, got {self.num_samples}.")
        if self.batch_size > self.num_samples:
            raise ValueError(
                f"batch_size must be at most {self.num_samples} samples, got {self.batch_size}."
            )
        refuse_below(self, 10, "num_steps")
        if not 0 < self.control_ratio < self.ratio < float("inf"):
            raise ValueError(
                "control_ratio and ratio must be positive and increasing,"
                f" got {self.control_ratio} and {self.ratio}."
            )


PRESETS = {
    "smoke": Config(width=128, deep_width=64, num_samples=48, batch_size=24, num_steps=180),
    "paper": Config(width=1024, deep_width=1024, num_steps=2000, num_seeds=10),
}


class Result(NamedTuple):
    """What was seen before every step: axes tasks, seeds, steps."""

    high: WatchedSteps  # above the critical rate
    low: WatchedSteps  # the control


class _Task(NamedTuple):
    data: Callable[[RandomKey], Dataset]
    widths: tuple[int, ...]


def memory(config: Config) -> int:
    """Bytes of the kernel, the activations and the weights, a few times over."""
    n, m = config.num_samples, max(config.width, 2 * config.deep_width)
    return 4 * (8 * n * n + 12 * n * m + 8 * m * max(m, math.prod(image_shape(config.images))))


def run(config: Config) -> Result:
    """Train on every task, at both learning rates."""
    n, pair = config.num_samples, image_set(config.images, "standard", config.classes, "sign")
    pair = pair.subset(slice(MOST)).flat()
    tasks = (
        _Task(lambda key: image_like(key, n, PIXELS), (config.width,)),
        _Task(lambda key: image_like(key, n, PIXELS), (config.deep_width,) * 3),
        _Task(lambda key: pair.shuffled(key).subset(slice(n)), (config.width,)),
    )
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    ratios = jnp.repeat(jnp.array([config.ratio, config.control_ratio]), len(keys))
    seen = []
    for number, task in enumerate(tasks):
        report(NAMES[number], number / len(tasks))
        inputs = (ratios, jnp.tile(keys, 2))
        runs = ensemble(lambda given, task=task: _train(config, task, *given), inputs)
        seen.append(jax.tree.map(lambda x: np.asarray(x).reshape(2, len(keys), *x.shape[1:]), runs))
    joined = jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *seen)
    high, low = (jax.tree.map(lambda leaf, i=i: leaf[i], joined) for i in range(2))
    return Result(high, low)


def _train(config: Config, task: _Task, ratio: Float[Array, ""], key: RandomKey) -> WatchedSteps:
    data_key, init_key, order_key = jax.random.split(key, 3)
    data = task.data(data_key)
    model = network(mlp(task.widths), data.input_shape)
    params = model.init(init_key)
    rate = ratio * critical_learning_rate(model.apply, params, data, LOSS)
    return watch_sgd(
        model.apply, params, data, LOSS, rate, config.batch_size, order_key, config.num_steps
    ).records


def _above(watched: WatchedSteps) -> np.ndarray:
    """Which steps, but the last, are above the critical rate of their batch."""
    return np.asarray(watched.learning_rate > watched.critical)[..., :-1]


def _any_rise(result: Result, task: int) -> Match:
    """The source's statistic, of all seeds together: any step up counts."""
    up = spikes(result.high.loss[task], ratio=1.0, rise=0.0)
    return spike_match(up, _above(result.high)[task])


def _of_spikes(result: Result) -> Match:
    """The match rate of spikes, of all tasks and seeds together."""
    return spike_match(spikes(result.high.loss), _above(result.high))


def _top_share(result: Result) -> float:
    """The share of L_≤5 in the rise of a spike, the median over the spikes of the first task."""
    at = spikes(result.high.loss[0])
    rise, part = (np.diff(a)[at] for a in (result.high.loss[0], result.high.top[0, ..., 1]))
    return float(np.median(part / rise)) if at.any() else np.nan


# Thresholds are the catalogue's.
CLAIMS = (
    Claim(
        "There are at least 30 spikes to judge by.",
        judge=lambda r: at_least(spikes(r.high.loss).sum(), 30.0),
        source=FIGURE,
    ),
    Claim(
        "At least 98 % of the spikes come at steps above the critical rate of their batch.",
        judge=lambda r: at_least(_of_spikes(r).match_rate, 0.98),
        source=TABLE,
        kind="corrected",
        formula=r"P(\eta > \eta_{\mathrm{crit}} \mid L' > 1.5 L,\ L' - L > 0.1) \ge 0.98",
    ),
    Claim(
        "As printed: 96 % to 98 % of all steps that raise the loss, on digits too.",
        judge=lambda r: between(_any_rise(r, 2).match_rate, 0.9642, 0.9822),
        source=TABLE,
        kind="printed",
    ),
    Claim(
        "With unequal contrast three of four steps that raise the loss are above the critical one.",
        judge=lambda r: at_least(min(_any_rise(r, task).match_rate for task in (0, 1)), 0.75),
        source=TABLE,
    ),
    Claim(
        "But that has a base rate: a quarter of all steps or more are above the critical rate.",
        judge=lambda r: at_least(min(_any_rise(r, task).base_rate for task in (0, 1)), 0.25),
        source=TABLE,
        kind="corrected",
    ),
    Claim(
        "It is more than its base rate: steps up and steps above go together, by Fisher's test.",
        judge=lambda r: at_most(max(_any_rise(r, task).p_value for task in (0, 1)), 1e-3),
        source=TABLE,
    ),
    Claim(
        "A spike lies in the 5 top directions of the kernel, in the median.",
        judge=lambda r: at_least(_top_share(r), 0.9),
        source=FIGURE,
    ),
    Claim(
        "Steps above the critical rate are more than twice as many as spikes.",
        judge=lambda r: median_at_least(
            num_supercritical(r.high.learning_rate[0], r.high.critical[0])
            / np.maximum(spikes(r.high.loss[0]).sum(axis=-1), 1),
            2.0,
        ),
        source=COUNT,
    ),
    Claim(
        "Far below the critical rate of all data nothing spikes.",
        judge=lambda r: at_most(spikes(r.low.loss).sum(), 0.0),
        source=FIGURE,
        kind="control",
    ),
)


def plot(result: Result) -> Figure:
    """Draw the loss of the first seed with its super-critical steps, and the rates of batches."""
    figure, axes = panels(*NAMES, "η / η_crit of the batch")
    watched = result.high
    for number, axis in enumerate(axes[:-1]):
        loss, above = watched.loss[number, 0, :-1], _above(watched)[number, 0]
        axis.semilogy(loss, linewidth=0.8)
        axis.semilogy(np.flatnonzero(above), loss[above], ".", markersize=2, label="η > η_crit")
        axis.semilogy(result.low.loss[number, 0], linewidth=0.8, label="control")
        axis.set_xlabel("step")
        axis.legend(fontsize=7)
        axes[-1].plot(watched.learning_rate[number, 0] / watched.critical[number, 0])
    axes[-1].set_xlabel("step")
    return figure
