"""A learning rate that goes up and down throws the network at its ups: a catapult in each cycle.

SGD with a triangular learning rate: where the rate rises above the critical one the loss spikes, in
the top direction of the tangent kernel, and ‖K‖ drops. The source shows a spike at every rise of
the rate, for a wide residual network, and gives neither bounds nor period.

With bounds that are fixed, 0.3 and 1.5 times the critical rate of the start, that is not so: the
first cycles make the kernel so small that the highest rate is stable, and many later cycles are
quiet. With bounds that move, 0.3 and 1.5 times the critical rate where the cycle begins, every
cycle is a catapult. A constant rate at the lower bound is the control.

Source: zhu · cyclic-lr · Remark 4.3.3, Fig. C.12.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_least, at_most
from theorylab.data import image_like
from theorylab.dynamics import WatchedSteps, critical_learning_rate, decompose, spikes
from theorylab.experiments.checks import refuse_below
from theorylab.experiments.drawing import panels
from theorylab.models import mlp, network
from theorylab.progress import report
from theorylab.training import (
    Batch,
    Batches,
    empirical_risk,
    ensemble,
    follow_critical,
    probed_sgd,
    squared,
    triangular,
)
from theorylab.typing import Params, RandomKey

PRECISION = "float32"
FORMULA = r"\eta(t) = \eta_+ - (\eta_+ - \eta_-)\,|2t/T - 1|"

FIGURE = Source("zhu", "cyclic-lr", "Fig. C.12")
REMARK = Source("zhu", "cyclic-lr", "Remark 4.3.3")

LOSS = squared("mean")


@dataclass(frozen=True)
class Config:
    """SGD with a triangular learning rate."""

    low: float = 0.3  # η over η_crit of the start, where a cycle begins
    high: float = 1.5  # the same in the middle of a cycle
    period: int = 80  # steps of a cycle
    num_cycles: int = 4  # cycles
    width: int = 128  # neurons
    depth: int = 4  # layers
    num_samples: int = 96  # n
    batch_size: int = 24  # b
    num_seeds: int = 6  # draws of data, weights and batches, at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_below(self, 1, "num_cycles", "width", "batch_size", "num_seeds")
        refuse_below(self, 2, "depth")
        if self.period < 8 or self.period % 4:
            raise ValueError(f"period must be a multiple of 4, at least 8, got {self.period}.")
        if self.num_samples < 5 or self.batch_size > self.num_samples:
            raise ValueError(
                "num_samples must be at least 5 and at least the batch size,"
                f" got {self.num_samples} and {self.batch_size}."
            )
        if not 0 < self.low < self.high < float("inf"):
            raise ValueError(f"low and high must increase from 0, got {self.low} and {self.high}.")


PRESETS = {
    "smoke": Config(width=64, num_samples=48, batch_size=24, period=60),
    "paper": Config(width=1024, depth=5, num_samples=128, batch_size=32, period=400),
}


class Result(NamedTuple):
    """What was seen before every step: axes seeds, steps."""

    period: int
    fixed: WatchedSteps  # bounds relative to η_crit of the start
    moving: WatchedSteps  # bounds relative to η_crit where the cycle begins
    constant: WatchedSteps  # the control, at the lower rate


def memory(config: Config) -> int:
    """Bytes of the kernel, of activations and weights, a few times over."""
    n, m = config.num_samples, config.width
    return 4 * (8 * n * n + 24 * n * m * config.depth + 24 * config.depth * m * m)


def run(config: Config) -> Result:
    """Train with the three schedules."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    runs = []
    # The rate at the top of a cycle, and after how many steps η_crit is measured again.
    plans = [(config.high, False), (config.high, True), (config.low, False)]
    for number, (top, moves) in enumerate(plans):
        report(f"{config.num_cycles} cycles of {config.period} steps", number / len(plans))
        seen = ensemble(lambda key, top=top, moves=moves: _train(config, key, top, moves), keys)
        runs.append(jax.tree.map(np.asarray, seen))
    return Result(config.period, *runs)


def _train(config: Config, key: RandomKey, top: float, moves: bool) -> WatchedSteps:
    data_key, init_key, order_key = jax.random.split(key, 3)
    data = image_like(data_key, config.num_samples)
    model = network(mlp([config.width] * (config.depth - 1)), data.input_shape)
    params = model.init(init_key)
    num_steps = config.num_cycles * config.period + 1
    factor = triangular(config.low, top, config.period)

    def critical(params: Params, batch: Batch) -> Array:
        return critical_learning_rate(model.apply, params, data, LOSS)  # of all data, not the batch

    def probe(params: Params, batch: Batch, step: Array) -> WatchedSteps:
        parts = decompose(model.apply, params, data, LOSS)
        of_batch = critical_learning_rate(model.apply, params, batch, LOSS)
        return WatchedSteps(*parts, of_batch, jnp.asarray(factor(step), parts.loss.dtype))

    seen = probed_sgd(
        empirical_risk(LOSS, model.apply),
        params,
        data,
        optax.chain(
            optax.scale_by_schedule(factor),
            follow_critical(critical, every=config.period if moves else num_steps),
        ),
        Batches(config.batch_size),
        order_key,
        num_steps,
        probe,
    ).records
    # The rate is the factor times η_crit = n/‖K‖ where it was measured last.
    steps = jnp.arange(num_steps)
    measured = steps - steps % config.period if moves else 0 * steps
    rate = seen.learning_rate * config.num_samples / seen.kernel_norm[measured]
    return seen._replace(learning_rate=rate)


def _by_cycle(result: Result, values: np.ndarray) -> np.ndarray:
    """Values of steps (seeds, steps) ─► (seeds, cycles, steps of a cycle)."""
    return values.reshape(len(values), -1, result.period)


def _spiking_cycles(result: Result, watched: WatchedSteps) -> np.ndarray:
    """Which cycles have a step that raises the loss by more than half: (seeds, cycles)."""
    spiking = _by_cycle(result, spikes(watched.loss, ratio=1.5, rise=0.0))
    return np.asarray(spiking.any(axis=-1))


def _norm_falls(result: Result) -> np.ndarray:
    """Whether ‖K‖ is smaller three quarters through a cycle of moving bounds than before."""
    norm = _by_cycle(result, np.asarray(result.moving.kernel_norm)[:, :-1])
    return norm[..., 3 * result.period // 4] < norm[..., 0]


def _top_share(result: Result) -> float:
    """The share of L_≤1 in the rise of a spike, the median over all spikes."""
    watched = result.moving
    at = spikes(watched.loss, ratio=1.5, rise=0.0)
    rise, part = (np.diff(a)[at] for a in (watched.loss, watched.top[..., 0]))
    return float(np.median(part / rise)) if at.any() else np.nan


def _early(result: Result) -> float:
    """The share of all spikes that come while the rate is in the lower half of its bounds."""
    at = _by_cycle(result, spikes(result.moving.loss, ratio=1.5, rise=0.0))
    quarter = result.period // 4
    low = at[..., :quarter].sum() + at[..., 3 * quarter :].sum()
    return float(low / at.sum()) if at.any() else np.nan


# Thresholds are the catalogue's.
CLAIMS = (
    Claim(
        "As printed: every rise of the rate is a catapult, 95 % of all cycles of fixed bounds.",
        judge=lambda r: at_least(_spiking_cycles(r, r.fixed).mean(), 0.95),
        source=FIGURE,
        kind="printed",
    ),
    Claim(
        "With bounds that follow the critical rate, four of five cycles are catapults.",
        judge=lambda r: at_least(_spiking_cycles(r, r.moving).mean(), 0.8),
        source=FIGURE,
        kind="corrected",
    ),
    Claim(
        "In four of five cycles the kernel is smaller after the high rates than before.",
        judge=lambda r: at_least(_norm_falls(r).mean(), 0.8),
        source=REMARK,
    ),
    Claim(
        "A spike lies in the first direction of the kernel: half of it or more, in the median.",
        judge=lambda r: at_least(_top_share(r), 0.5),
        source=FIGURE,
    ),
    Claim(
        "Spikes come while the rate is high: at most one in ten in the lower half of the bounds.",
        judge=lambda r: at_most(_early(r), 0.1),
        source=REMARK,
    ),
    Claim(
        "At a constant low rate nothing spikes.",
        judge=lambda r: at_most(spikes(r.constant.loss, ratio=1.5, rise=0.0).sum(), 0.0),
        source=FIGURE,
        kind="control",
    ),
)


def plot(result: Result) -> Figure:
    """Draw loss, kernel and rates of the first seed."""
    figure, (loss, norm, rate) = panels("loss", "‖K‖ / ‖K₀‖", "η / η_crit of the batch")
    for name in ("fixed", "moving", "constant"):
        watched = getattr(result, name)
        loss.semilogy(watched.loss[0], linewidth=0.8, label=name)
        norm.semilogy(watched.kernel_norm[0] / watched.kernel_norm[0, 0])
        rate.plot(watched.learning_rate[0] / watched.critical[0], linewidth=0.8)
    for axis in (loss, norm, rate):
        axis.set_xlabel("step")
    loss.legend(fontsize=7)
    return figure
