"""After one step at least mp/4 of m neurons point along each cluster, as the lemma promises.

A neuron is nice for a direction D if after the first step it points along D and its gradient
G(w, b) = E[y x 1[⟨w, x⟩ > b]] is at least B_G long. G lies in the double cone of D with
probability p, and the sign of the neuron's output decides to which side it moves, so about mp/2 of
m neurons are nice. The lemma promises mp/4 in almost every start.

Source: shi · nice-neurons · Lemmas 3.13, B.5.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    holds,
    mean_between,
    probability_at_least,
    probability_at_most,
)
from theorylab.data import GaussianMixture
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.features import gradient
from theorylab.fields import Count
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._clusters import Clusters, drawn_gradients

PRECISION = "float32"
FORMULA = r"|G_{(D, s), \text{Nice}}| \ge mp/4"

NICE = Source("shi", "nice-neurons", "Lemmas 3.13, B.5")


@dataclass(frozen=True)
class Config(Clusters):
    """Clusters along axes, and the neurons along them in many starts."""

    width: Count = 4000  # m
    num_seeds: Count = 1000  # starts


PRESETS = {
    "smoke": Config(dimension=32, num_clusters=4, width=2400, num_seeds=500),
    "paper": Config(num_seeds=10000),
}


class Result(NamedTuple):
    """What was measured: starts (s), clusters (r)."""

    counts: Int[Measured, "s r"]  # nice neurons
    astray: Int[Measured, " s"]  # neurons along a direction that is no feature
    double: Float[Measured, " s"]  # gradients in the double cone of a direction, on average


def memory(config: Config) -> int:
    """Bytes of the neurons of two starts in few dimensions, and of all counts."""
    neurons = 2 * 8 * config.width * (config.num_clusters + 1)
    return 4 * (neurons + config.num_seeds * (config.num_clusters + 8))


def run(config: Config) -> Result:
    """Count nice neurons in every start."""
    report("counting nice neurons", 0.0)
    key = jax.random.fold_in(jax.random.key(config.seed), 3)
    one = partial(_counted, law=gradient.reduced_mixture(config.law), config=config)
    return ensemble(one, jax.random.split(key, config.num_seeds))


def _counted(key: RandomKey, law: GaussianMixture, config: Config) -> Result:
    """The neurons of one start along every cluster, and along the middle of all."""
    weight_key, output_key = jax.random.split(key)
    gradients = drawn_gradients(weight_key, law, config.width, config.dimension, config.bias)
    outputs = jax.random.normal(output_key, (config.width,))
    middle = law.directions.sum(axis=0, keepdims=True) / config.num_clusters**0.5
    cone = (config.opening, config.least_norm)
    nice = gradient.nice_neurons(outputs, gradients, law.directions, *cone)
    astray = gradient.nice_neurons(outputs, gradients, middle, *cone)
    double = gradient.cone_members(gradients, law.directions, *cone)
    return Result(nice.sum(axis=0), astray.sum(), double.sum(axis=0).mean())


def _expected(result: Result) -> float:
    """mp̂, with p̂ over all starts and directions."""
    return float(result.double.mean())


def _reached(result: Result, part: float) -> int:
    """The number of starts in which every direction has this part of mp̂ nice neurons."""
    return int((result.counts.min(axis=1) >= part * _expected(result)).sum())


CLAIMS = (
    NICE.claim(
        "In 99 % of starts every direction has at least mp/4 nice neurons.",
        lambda r, c: probability_at_least(_reached(r, 1 / 4), c.num_seeds, 0.99),
        formula=r"|G_{(D, s), \text{Nice}}| \ge mp/4",
        demand="lab: 99 %; the source has 1 − 2r exp(−cmp) with some c",
    ),
    NICE.control(
        "Twice as many, mp/2, are there in fewer than half of the starts.",
        lambda r, c: probability_at_most(_reached(r, 1 / 2), c.num_seeds, 0.5),
    ),
    NICE.claim(
        "A neuron is nice with half of the probability of the double cone, to 4 %.",
        lambda r, c: mean_between(r.counts.mean(axis=1) / _expected(r), 0.48, 0.52),
        formula=r"\Pr[i \in G_{(D, s), \text{Nice}}] \ge p/2",
        demand="derived: the sign of an output is fair, so that it is exactly half",
    ),
    NICE.control(
        "Along the middle of all directions, which is no feature, there are fewer than mp/4.",
        lambda r, c: holds(_expected(r) / 4 - r.astray),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """The numbers of nice neurons in all starts, beside what the lemma promises."""
    figure, (axis,) = panels("nice neurons")
    axis.hist(result.counts.ravel(), bins=30, label="measured")
    axis.axvline(_expected(result) / 4, label="mp/4", **THEORY)
    axis.legend(fontsize=7)
    label_axes(axis, "neurons along a direction", "starts × directions")
    return figure
