"""One heavy example throws SGD: the loss spikes when it is drawn, and at no other step.

n = d = 100 inputs lie on the unit sphere and all have the target 1; one of them, with its target,
is twice as long. A wide two-layer ReLU network, f(x) = (1/√m) Σ vᵢ σ(uᵢᵀx) with fixed signs v,
learns them by SGD, one example at a step. For one example the critical learning rate is

    η_crit(x) = 1/K(x, x) = 1/(share of open gates · ‖x‖²) ≈ 2, and ≈ ½ for the heavy one

so with η in between a step is super-critical exactly where it uses the heavy example. The source
says that the loss increases only there. It does not: SGD raises the loss a little at a quarter of
its ordinary steps. What happens only there is a *spike*, a rise of more than 10 % in one step.

Source: zhu · sgd-heavy-sample · Fig. 4.5.
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
    median_at_most,
    median_between,
    probability_at_least,
)
from theorylab.data import Dataset, sphere
from theorylab.dynamics import critical_learning_rate, spikes
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Plural, Positive, Seeded, Several
from theorylab.progress import report
from theorylab.training import Batches, empirical_risk, gradient_descent, probed_sgd
from theorylab.training.sgd import Batch
from theorylab.typing import Measured, Params, RandomKey, Scalar

from ._runs import LOSS, at_every

PRECISION = "float32"
FORMULA = r"\eta_{\mathrm{crit}}(x) = \frac{1}{K(x, x)} \approx \frac{2}{\|x\|^2}"

FIGURE = Source("zhu", "sgd-heavy-sample", "Fig. 4.5")

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

    loss: Float[Measured, "e s t"]  # on all examples, before the step
    chosen: Int[Measured, "e s t"]  # the example of the step
    critical: Float[Measured, "e s t"]  # its critical learning rate
    heavy_critical: Float[Measured, " s"]  # at the start, of the heavy example
    other_critical: Float[Measured, " s"]  # the smallest of all others


def memory(config: Config) -> int:
    """Bytes of the activations of all examples, and of two networks."""
    return 4 * (8 * config.num_samples * config.width + 4 * config.num_samples * config.width)


def run(config: Config) -> Result:
    """Train with every learning rate."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    rates = _rates(config)
    report(f"{len(rates)} learning rates, {config.num_seeds} seeds each", 0.0)
    found = at_every(partial(_train, config), jnp.asarray(rates), keys)
    loss, chosen, critical, heavy, other = found
    return Result(
        loss=loss,
        chosen=chosen,
        critical=critical,
        heavy_critical=heavy[0],
        other_critical=other[0],
    )


def _train(config: Config, rate: Scalar, key: RandomKey) -> tuple[Array, ...]:
    """One run: loss, example and critical rate of every step; critical rates at the start."""
    n, m = config.num_samples, config.width
    input_key, weight_key, batch_key = jax.random.split(key, 3)
    size = jnp.ones((n, 1)).at[HEAVY].set(config.weight)
    data = Dataset(size * sphere(input_key, n, n), size, "y = 1", "random numbers")
    # In turn, which is as good as at random: the neurons themselves are drawn alike.
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
    return (*run.records, at_start[HEAVY], jnp.delete(at_start, HEAVY).min())


def _rates(config: Config) -> np.ndarray:
    """All learning rates, that of the control last."""
    return np.array([*config.learning_rates, CONTROL])


def _spikes(result: Result) -> np.ndarray:
    return spikes(result.loss, ratio=RATIO, rise=0.0)


def _at_heavy(result: Result) -> np.ndarray:
    return result.chosen[..., :-1] == HEAVY


def _at_heavy_spikes(result: Result) -> tuple[int, int]:
    """At how many spikes, over rates and seeds, the heavy example was drawn, and of how many."""
    found = _at_heavy(result)[:-1][_spikes(result)[:-1]]
    return int(found.sum()), found.size


def _above_spikes(result: Result, config: Config) -> tuple[int, int]:
    """At how many spikes η was above nine tenths of the example's critical rate, of how many."""
    above = (_rates(config)[:, None, None] > 0.9 * result.critical)[..., :-1]
    found = above[_spikes(result)]
    return int(found.sum()), found.size


def _rises_elsewhere(result: Result) -> np.ndarray:
    """The share of all ordinary steps that raise the loss by anything, seed by seed."""
    ordinary = ~_at_heavy(result)[:-1]
    rising = spikes(result.loss[:-1], ratio=1.0, rise=0.0) & ordinary
    return rising.sum(axis=(0, 2)) / ordinary.sum(axis=(0, 2))


# To tell a share of all spikes from 99 % takes 370 spikes without an exception.
CLAIMS = (
    FIGURE.claim(
        "The critical learning rate of the heavy example is a quarter of the others', about ½.",
        lambda r, c: median_between(r.heavy_critical, 0.4, 0.6),
        formula=r"\eta_{\mathrm{crit}}(x_*) \approx \tfrac12",
    ),
    FIGURE.claim(
        "All learning rates are below the critical ones of all other examples.",
        lambda r, c: median_at_least(r.other_critical - max(c.learning_rates), 0.0),
    ),
    FIGURE.printed(
        "As printed: the loss increases only at steps that use the heavy example.",
        lambda r, c: median_at_most(_rises_elsewhere(r), 0.01),
    ),
    FIGURE.corrected(
        "It spikes, by more than 10 %, only at steps that use the heavy example: 99 % of all.",
        lambda r, c: probability_at_least(*_at_heavy_spikes(r), 0.99),
    ),
    FIGURE.claim(
        "There are at least 5 spikes in a run, at every learning rate.",
        lambda r, c: median_at_least(_spikes(r)[:-1].sum(axis=-1).min(axis=0), 5.0),
    ),
    # A tenth below: there 1 − 2η/η_crit ≈ −0.8, and a step all but mirrors the residual.
    FIGURE.claim(
        "98 % of the spikes come with η above 0.9 of the critical rate of the example in use.",
        lambda r, c: probability_at_least(*_above_spikes(r, c), 0.98),
        formula=r"\eta > 0.9\, \eta_{\mathrm{crit}}(x_t)",
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
        axis.set_xlabel("step")
        axis.legend(fontsize=7)
    axes[-1].plot(result.critical[0, 0], ".", markersize=1)
    axes[-1].axhline(config.learning_rates[0], **THEORY)
    axes[-1].set_xlabel("step")
    return figure
