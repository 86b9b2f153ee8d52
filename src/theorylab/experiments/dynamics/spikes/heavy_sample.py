"""The loss of SGD spikes only at steps that use the one example of large norm.

n = d = 100 inputs lie on the unit sphere and all have the target 1; one of them, with its target,
is twice as long. A wide two-layer ReLU network, f(x) = (1/√m) Σ vᵢ σ(uᵢᵀx) with fixed signs v,
learns them by SGD, one example at a step. For one example the critical learning rate is

    η_crit(x) = 1/K(x, x) = 1/(share of open gates · ‖x‖²) ≈ 2, and ≈ ½ for the heavy one

and η lies between. A spike is a rise of the loss on all examples by more than 10 % in one step: the
source gives no rule, and without one SGD raises the loss a little at a fifth of its other steps.

Every spike uses the heavy example. The source calls it an exact match of spikes and steps with
η > η_crit(batch), which is not found: of the steps that are one or the other, 85 % to 92 % are
both. A super-critical step may raise the loss by less than 10 %, and near η_crit one that is not
may raise it by more.

Source: zhu · sgd-heavy-sample · Fig. 4.5, C.6.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_most,
    median_at_least,
    median_between,
    probability_at_least,
)
from theorylab.data import Dataset, sphere
from theorylab.dynamics import critical_learning_rate, spikes
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Plural, Positive, Seeded, Several
from theorylab.progress import report
from theorylab.training import Batches, empirical_risk, gradient_descent, probed_sgd
from theorylab.training.sgd import Batch
from theorylab.typing import Measured, Params, RandomKey, Scalar

from ._runs import LOSS, at_every

PRECISION = "float32"
FORMULA = r"\eta_{\mathrm{crit}}(x) = \frac{1}{K(x, x)} \approx \frac{2}{\|x\|^2}"

FIGURE = Source("zhu", "sgd-heavy-sample", "Fig. 4.5")
SETTING = Source("zhu", "sgd-heavy-sample", "C.6, Fig. 4.5")

HEAVY = 0  # the index of the heavy example
CONTROL = 0.3  # η of the control, below both critical rates
RATIO = 1.1  # a spike is a rise of more than 10 % in one step


@dataclass(frozen=True)
class Config(Seeded):
    """SGD on single examples of which one is twice as long."""

    num_samples: Plural = 100  # n, and the dimension d
    width: Plural = 1000  # neurons m
    weight: Positive = 2.0  # what the heavy example and its target are multiplied by
    learning_rates: Several[Positive] = (0.6, 0.7)  # η between the two critical rates
    num_steps: Plural = 2500  # steps, of one example each
    num_seeds: Plural = 12  # draws of data and weights: some 25 spikes each, at every rate


PRESETS = {
    "smoke": Config(num_samples=50, width=200, learning_rates=(0.6,), num_steps=800, num_seeds=32),
    "paper": Config(width=10_000, num_steps=10_000, num_seeds=20),
}


class Result(NamedTuple):
    """What was seen: axes learning rates (the control last), seeds, steps."""

    loss: Float[Measured, "*e t"]  # on all examples, before the step
    chosen: Int[Measured, "*e t"]  # the example of the step
    critical: Float[Measured, "*e t"]  # its critical learning rate
    heavy_critical: Float[Measured, "*e"]  # at the start, of the heavy example
    other_critical: Float[Measured, "*e"]  # the smallest of all others


def run(config: Config) -> Result:
    """Train with every learning rate."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    rates = _rates(config)
    report(f"{len(rates)} learning rates, {config.num_seeds} seeds each", 0.0)
    return at_every(partial(_train, config), jnp.asarray(rates), keys)


def _train(config: Config, rate: Scalar, key: RandomKey) -> Result:
    """One run: what was seen at every step."""
    n, m = config.num_samples, config.width
    input_key, weight_key, batch_key = jax.random.split(key, 3)
    size = jnp.ones((n, 1)).at[HEAVY].set(config.weight)
    data = Dataset(size * sphere(input_key, n, n), size, "y = 1", "random numbers")
    # Signs alternate, which is as good as at random: the neurons themselves are drawn alike.
    signs = (1.0 - 2.0 * (np.arange(m) % 2)) / np.sqrt(m)

    def apply(hidden: Params, x: Array) -> Array:
        return jax.nn.relu(x @ hidden) @ jnp.asarray(signs[:, None], x.dtype)

    def critical(hidden: Params, x: Array) -> Array:
        one = Batch(x[None], jnp.zeros((1, 1)), jnp.zeros(1, int))
        return critical_learning_rate(apply, hidden, one, LOSS)

    def probe(hidden: Params, batch: Batch, step: Array) -> tuple[Array, ...]:
        everything = LOSS(apply(hidden, data.x), data.y)
        return everything, batch.indices[0], critical(hidden, batch.x[0])

    hidden = jax.random.normal(weight_key, (n * m,)).reshape(n, m)
    run = probed_sgd(
        empirical_risk(LOSS, apply),
        hidden,
        data,
        gradient_descent(rate),
        Batches(1),
        config.num_steps,
        probe,
        batch_key,
    )
    at_start = jax.lax.map(lambda x: critical(hidden, x), data.x)
    loss, chosen, of_steps = run.records
    return Result(
        loss=loss,
        chosen=chosen,
        critical=of_steps,
        heavy_critical=at_start[HEAVY],
        other_critical=jnp.delete(at_start, HEAVY).min(),
    )


def _rates(config: Config) -> np.ndarray:
    """All learning rates, that of the control last."""
    return np.array([*config.learning_rates, CONTROL])


def _spikes(result: Result) -> np.ndarray:
    return spikes(result.loss, ratio=RATIO, rise=0.0)


def _at_heavy(result: Result) -> np.ndarray:
    return result.chosen[..., :-1] == HEAVY


def _above(result: Result, config: Config, part: float = 1.0) -> np.ndarray:
    """The steps with η above this part of the critical rate of their example."""
    return (_rates(config)[:, None, None] > part * result.critical)[..., :-1]


def _share(which: np.ndarray, of: np.ndarray) -> tuple[int, int]:
    """How many of some steps, over rates and seeds, are such, and how many there are."""
    return int((which & of).sum()), int(of.sum())


def _times_smaller(result: Result) -> np.ndarray:
    """How many times smaller η_crit of the heavy example is than the others', in the control."""
    heavy, critical = result.chosen[-1] == HEAVY, result.critical[-1]
    return np.array(
        [np.median(c[~at]) / np.median(c[at]) for at, c in zip(heavy, critical, strict=True)]
    )


def _room(result: Result, config: Config) -> np.ndarray:
    """By how much the learning rates lie between the two critical ones of the start."""
    above_heavy = min(config.learning_rates) - result.heavy_critical[0]
    return np.minimum(above_heavy, result.other_critical[0] - max(config.learning_rates))


def _rises_elsewhere(result: Result) -> np.ndarray:
    """The share of all ordinary steps that raise the loss by anything, seed by seed."""
    ordinary = ~_at_heavy(result)[:-1]
    rising = spikes(result.loss[:-1], ratio=1.0, rise=0.0) & ordinary
    return rising.sum(axis=(0, 2)) / ordinary.sum(axis=(0, 2))


CLAIMS = (
    SETTING.claim(
        "The critical learning rate of the heavy example is four times smaller than the others'.",
        lambda r, c: median_between(_times_smaller(r), 3.6, 4.4),
        formula=r"\eta_{\mathrm{crit}}(x) \propto 1 / \|x\|^2",
        quote="makes the critical learning rate corresponding to the sample … four times smaller",
        regime="weight == 2",
        demand="lab: 4 within a tenth; with seed 0 single seeds lie between 3.1 and 4.7",
    ),
    SETTING.check(
        "Learning rates lie between the critical ones of the heavy example and of all others.",
        lambda r, c: median_at_least(_room(r, c), 0.0),
    ),
    SETTING.check(
        "There are at least 5 spikes in a run, at every learning rate.",
        lambda r, c: median_at_least(_spikes(r)[:-1].sum(axis=-1).min(axis=0), 5.0),
    ),
    FIGURE.claim(
        "The loss spikes, by more than 10 %, only at steps that use the heavy example.",
        lambda r, c: probability_at_least(*_share(_at_heavy(r), _spikes(r)), 0.99),
        quote="the loss spike only occurs when the gradient is computed based on that particular",
        demand="lab: 99 % stand for all; to tell that takes 370 spikes without an exception",
    ),
    FIGURE.claim(
        "Spikes and steps above the critical rate of their example match exactly: of the steps"
        " that are one or the other, 99 % are both.",
        lambda r, c: probability_at_least(
            *_share(_spikes(r) & _above(r, c), _spikes(r) | _above(r, c)), 0.99
        ),
        quote="Exact match between the occasion when",
        expected="refuted",
        why="the source has no rule for a spike. With any rule some super-critical steps, of an"
        " example that is nearly fitted or hardly above its rate, raise the loss by less.",
        demand="lab: 99 % stand for all",
    ),
    FIGURE.found(
        "98 % of the spikes come with η above 0.9 of the critical rate of the example in use.",
        lambda r, c: probability_at_least(*_share(_above(r, c, 0.9), _spikes(r)), 0.98),
        formula=r"\eta > 0.9\, \eta_{\mathrm{crit}}(x_t)",
        demand="lab: a tenth below, 1 − 2η/η_crit ≈ −0.8, a step all but mirrors the residual",
    ),
    FIGURE.found(
        "Small rises are everywhere: a tenth of all other steps or more raise the loss a little.",
        lambda r, c: median_at_least(_rises_elsewhere(r), 0.1),
        demand="lab: with seed 0, at smoke's size, 16 % to 19 % of them do",
    ),
    FIGURE.control(
        "Below both critical rates nothing spikes.",
        lambda r, c: at_most(_spikes(r)[-1].sum(), 0.0),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the loss of the first seed at every rate, with the steps of the heavy example."""
    titles = [f"loss, η = {rate:g}" for rate in _rates(config)]
    figure, axes = panels(*titles, "η_crit of the example")
    for number, axis in enumerate(axes[:-1]):
        loss, drawn = result.loss[number, 0], result.chosen[number, 0] == HEAVY
        axis.semilogy(loss, linewidth=0.6)
        axis.semilogy(np.flatnonzero(drawn), loss[drawn], ".", markersize=3, label="heavy drawn")
        label_axes(axis, "step", logarithmic="y")
        axis.legend(fontsize=7)
    axes[-1].plot(result.critical[0, 0], ".", markersize=1)
    axes[-1].axhline(config.learning_rates[0], **THEORY)
    label_axes(axes[-1], "step")
    return figure
