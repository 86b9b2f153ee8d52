"""Raising the learning rate gradually reaches rates that diverge when used from the start.

After a catapult the kernel is smaller and the critical learning rate larger. So η can be raised
above it again, and again: whenever the loss is back where it was at the last raise, and 40 steps
have passed, η becomes 1.2 η_crit(t). Each catapult lowers ‖K‖ further. In the end the network
trains with a learning rate several times the largest constant one with which training from the
start converges.

The source's own lists of rates do not transfer to other data, and two of its figures disagree on
the final rate (60 and 40 in Fig. C.7, 15 and 20 in Fig. 4.4), so the rates here follow η_crit
itself. By default two layers learn a product of two inputs; `paper` has the source's five layers on
two classes of CIFAR-10, and `--architecture cnn --width 512` its convolutional network.

Source: zhu · multi-catapult · §4.3, Fig. 4.4, C.6, C.7.
"""

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_least,
    median_at_least,
    median_at_most,
    probability_at_least,
    trend,
)
from theorylab.data import low_rank_polynomial
from theorylab.dynamics import critical_learning_rate, decompose, threshold
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import (
    Classes,
    Count,
    ImageNetwork,
    ImageSet,
    Increasing,
    Plural,
    Seeded,
    Whole,
)
from theorylab.models import Architecture
from theorylab.progress import report
from theorylab.training import catapults, descend, ensemble, every, gradient_descent
from theorylab.training.descent import updated
from theorylab.training.trajectory import run_and_record
from theorylab.typing import Measured, Params, RandomKey, Scalar

from ._runs import LOSS, NOT_KEPT, Draw, at_every, begin
from ._tasks import image_network, task_data, task_shape, watched_bytes

PRECISION = "float32"
FORMULA = r"\eta \leftarrow c\,\eta_{\mathrm{crit}}(t)"

RAISES = Source("zhu", "multi-catapult", "§4.3")
FIGURE = Source("zhu", "multi-catapult", "Fig. 4.4")
DIVERGES = Source("zhu", "multi-catapult", "Fig. C.7")
SPACE = Source("zhu", "multi-catapult", "Fig. C.6")


SIZE = 10  # top directions of Fig. C.6
DIMENSION = 50  # inputs of the product, of which the first two count
START, FACTOR = 0.5, 1.2  # η over η_crit: before the first raise, and after each
PATIENCE = 40  # steps between two raises, at least


@dataclass(frozen=True)
class Config(Seeded):
    """Gradient descent whose learning rate is raised above η_crit several times."""

    raises: Increasing[Whole] = (0, 1, 2, 4, 6)  # how often η is raised; 0 is the control
    num_steps: Count = 400  # of gradient descent
    architecture: ImageNetwork = "mlp"  # what is trained
    width: Count = 256  # neurons or channels
    depth: Plural = 2  # layers
    data: Literal["product", "images"] = "product"  # what is learned
    images: ImageSet = "digits"  # if they are learned
    classes: Classes = (7, 9)  # two kinds of them
    num_samples: Count = 96  # n
    num_halvings: Count = 8  # of the bisection for the largest constant rate
    num_seeds: Count = 6  # draws of data and weights, at least 6 to conclude

    def __post_init__(self) -> None:
        super().__post_init__()
        image_network(self.architecture, self.width, self.depth)
        if self.data == "product" and self.architecture != "mlp":
            raise ValueError(f"a product must be learned by mlp, got {self.architecture}.")
        if self.raises[0] != 0:
            raise ValueError(f"raises must increase from 0, got {self.raises}.")
        if self.num_steps <= PATIENCE * (1 + self.raises[-1]):
            raise ValueError(
                f"num_steps must leave {PATIENCE} steps for every raise, got {self.num_steps}."
            )
        if self.num_samples < SIZE:
            raise ValueError(f"num_samples must be at least {SIZE}, got {self.num_samples}.")


PRESETS = {
    "smoke": Config(width=128, num_samples=48, raises=(0, 1, 6), num_steps=340, num_halvings=6),
    "paper": Config(
        width=1024,
        depth=5,
        data="images",
        images="cifar10",
        num_samples=128,
        num_steps=700,
        num_seeds=10,
    ),
}


class Result(NamedTuple):
    """What was seen: axes numbers of raises, seeds, steps."""

    loss: Float[Measured, "k s t"]
    top: Float[Measured, "k s t"]  # L_≤10
    kernel_norm: Float[Measured, "k s t"]
    learning_rate: Float[Measured, "k s t"]  # of the step before
    num_raises: Int[Measured, "k s t"]
    largest_constant: Float[Measured, " s"]  # the largest constant rate that converges
    restarted_loss: Float[Measured, " s"]  # after training from the start at the final rate


def memory(config: Config) -> int:
    """Bytes of the kernel, the activations and the weights, a few times over."""
    return watched_bytes(
        config.architecture, config.width, config.depth, config.num_samples, _input_shape(config)
    )


def _input_shape(config: Config) -> tuple[int, ...]:
    if config.data == "product":
        return (DIMENSION,)
    return task_shape(config.architecture, "images", config.images)


def _drawing(config: Config) -> Draw:
    """What draws the data."""
    n = config.num_samples
    if config.data == "product":
        return lambda key: low_rank_polynomial(key, n, DIMENSION)
    return task_data(config.architecture, "images", n, config.images, config.classes)


def run(config: Config) -> Result:
    """Train with every number of raises, and find the largest constant rate."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    report(f"{len(config.raises)} numbers of raises", 0.0)
    draw = _drawing(config)
    seen = at_every(partial(_raise, config, draw), jnp.array(config.raises), keys)
    report("largest constant learning rate", 0.7)
    final = (seen["learning_rate"][-1, :, -1], keys)
    largest, restarted = ensemble(lambda given: _constant(config, draw, *given), final)
    return Result(**seen, largest_constant=largest, restarted_loss=restarted)


def _architecture(config: Config) -> Architecture:
    return image_network(config.architecture, config.width, config.depth)


def _raise(config: Config, draw: Draw, most: Int[Array, ""], key: RandomKey) -> dict[str, Array]:
    """What is seen with so many raises, before the first step and after every step."""
    model, params, data = begin(_architecture(config), draw, key)

    def objective(params: Params) -> Array:
        return LOSS(model.apply(params, data.x), data.y)

    optimizer = catapults(
        lambda params: critical_learning_rate(model.apply, params, data, LOSS),
        FACTOR,
        PATIENCE,
        most,
        START,
    )

    def measure(state) -> dict[str, Array]:
        params, schedule = state
        parts = decompose(model.apply, params, data, LOSS, (SIZE,))
        return {
            "loss": parts.loss,
            "top": parts.top[0],
            "kernel_norm": parts.kernel_norm,
            "learning_rate": schedule.learning_rate,
            "num_raises": schedule.num_raises,
        }

    return run_and_record(
        lambda state, step: updated(objective, state, optimizer),
        (params, optimizer.init(params)),
        every(1, config.num_steps),
        measure,
        params_of=lambda state: state,
    ).records


def _constant(config: Config, draw: Draw, final: Scalar, key: RandomKey) -> tuple[Array, Array]:
    """The largest constant rate that converges, and the loss after training at the final one."""
    model, params, data = begin(_architecture(config), draw, key)

    def objective(params: Params) -> Array:
        return LOSS(model.apply(params, data.x), data.y)

    def last_loss(rate: Scalar) -> Array:
        steps = [config.num_steps]
        return descend(objective, params, gradient_descent(rate), steps, objective).records[0]

    critical = critical_learning_rate(model.apply, params, data, LOSS)
    before = objective(params)
    largest = threshold(
        lambda rate: last_loss(rate) < before, critical / 2, 20 * critical, config.num_halvings
    )
    return largest, last_loss(final)


class _Catapults(NamedTuple):
    """The longest run of one seed, and the steps at which η was raised, with the last step."""

    loss: np.ndarray
    top: np.ndarray
    norm: np.ndarray
    steps: np.ndarray


def _longest(result: Result) -> list[_Catapults]:
    """The longest run of every seed."""
    raised = [np.flatnonzero(np.diff(counts)) for counts in result.num_raises[-1]]
    steps = [np.append(each, result.loss.shape[-1] - 1) for each in raised]
    runs = (result.loss[-1], result.top[-1], result.kernel_norm[-1], steps)
    return [_Catapults(*seed) for seed in zip(*runs, strict=True)]


def _drops(result: Result) -> tuple[int, int]:
    """After how many raises of the longest run ‖K‖ is smaller before the next, of how many."""
    falls = np.concatenate([np.diff(run.norm[run.steps]) < 0 for run in _longest(result)])
    return int(falls.sum()), falls.size


def _spiking_raises(result: Result) -> tuple[int, int]:
    """After how many raises the loss is 1.5 times as large before the next, and of how many."""
    high = [
        run.loss[first : last + 1].max() > 1.5 * run.loss[first]
        for run in _longest(result)
        for first, last in itertools.pairwise(run.steps)
    ]
    return sum(map(int, high)), len(high)


def _top_share(result: Result) -> np.ndarray:
    """The share of L_≤10 in the rise from the first raise to the peak, of the longest run."""
    ends = [(run, [run.steps[0], run.loss.argmax()]) for run in _longest(result)]
    return np.array([np.diff(run.top[at])[0] / np.diff(run.loss[at])[0] for run, at in ends])


def _critical_growth(result: Result) -> np.ndarray:
    """η_crit at the end over η_crit at the start, for every number of raises and seed."""
    return result.kernel_norm[..., 0] / result.kernel_norm[..., -1]


CLAIMS = (
    RAISES.check(
        "Every number of raises is reached: the loss comes back after each.",
        lambda r, c: at_least((r.num_raises[..., -1].min(axis=1) - c.raises).min(), 0.0),
    ),
    FIGURE.claim(
        "Each raise above the current critical rate triggers another catapult: before the next"
        " raise the loss is larger by half.",
        lambda r, c: probability_at_least(*_spiking_raises(r), 0.9),
        quote="a sequence of catapults can be triggered by repeating the above procedure",
        demand="lab: nine of ten stand for each, which 36 raises without an exception tell",
    ),
    RAISES.claim(
        "The kernel is smaller after each catapult than before it.",
        lambda r, c: probability_at_least(*_drops(r), 0.9),
        formula=r"\|K(t_{i+1})\| < \|K(t_i)\|",
        quote="showing that the norm decreases after each catapult",
        demand="lab: nine of ten stand for each, which 36 raises without an exception tell",
    ),
    SPACE.claim(
        "The catapults occur in the top eigenspace: 95 % of the highest spike lies in the 10 top"
        " directions.",
        lambda r, c: median_at_least(_top_share(r), 0.95),
        quote="the catapults occur in the top eigenspace of NTK",
        demand=NOT_KEPT,
    ),
    RAISES.claim(
        "More catapults reach a smaller kernel: η_crit at the end grows with their number.",
        lambda r, c: trend(_critical_growth(r)),
        quote="which can not be obtained in the scenario of a single catapult",
    ),
    RAISES.claim(
        "Descent converges with a much larger rate: three times the largest constant one that"
        " converges from the start.",
        lambda r, c: median_at_least(
            np.where(
                r.loss[-1, :, -1] < r.loss[-1, :, 0],
                r.learning_rate[-1, :, -1] / r.largest_constant,
                0.0,
            ),
            3.0,
        ),
        quote="can ultimately converge with a much larger learning rate",
        demand=NOT_KEPT,
    ),
    DIVERGES.claim(
        "Training from the start at the final rate diverges, for most seeds.",
        lambda r, c: probability_at_least(
            int((~(r.restarted_loss < r.loss[-1, :, 0])).sum()), len(r.restarted_loss), 0.5
        ),
        quote="GD diverges when trained with the learning rate after multiple catapults",
        demand="lab: a half is what six seeds of six can be told from",
    ),
    RAISES.control(
        "Without a raise the kernel hardly changes, and η_crit with it.",
        lambda r, c: median_at_most(np.abs(_critical_growth(r)[0] - 1), 0.15),
        demand=NOT_KEPT,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw loss, kernel and learning rate of the first seed, for every number of raises."""
    figure, axes = panels("loss", "‖K‖ / ‖K₀‖", "η and η_crit of the longest run")
    loss, norm, rate = axes
    for number, count in enumerate(config.raises):
        loss.plot(result.loss[number, 0], label=f"{count} raises")
        norm.plot(result.kernel_norm[number, 0] / result.kernel_norm[number, 0, 0])
    rate.plot(result.learning_rate[-1, 0, 1:], label="η")
    rate.plot(config.num_samples / result.kernel_norm[-1, 0], label="η_crit")
    rate.axhline(result.largest_constant[0], **THEORY)
    for axis in axes:
        label_axes(axis, "step", logarithmic="y")
    loss.legend(fontsize=7)
    rate.legend(fontsize=7)
    return figure
