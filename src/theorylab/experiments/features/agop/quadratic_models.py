"""Catapults improve the features of a quadratic model, too.

The quadratic model f_quad of a network is its Taylor expansion to second order in the weights,
around the weights where training begins. It is the simplest model that catapults. Whether it also
learns features when it does the source leaves open; here it is measured: a two-layer network
and its quadratic model learn y = x₁x₂ + noise by gradient descent, from the same weights and on
the same data, with k = 0, 1, 2 raises of the learning rate, to the same training loss. The answer
is yes: the alignment of the quadratic model rises with every catapult, as that of the network does,
from a lower level.

Source: zhu · ext-* · Ch. 5; zhu · taylor-models · Eqs 3.1–3.2; zhu · agop-gd ·
Fig. 4.8.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Int
from matplotlib.figure import Figure

from theorylab.claims import Finding, Source, at_least, at_most, median_at_least, ordered
from theorylab.experiments.drawing import panels
from theorylab.fields import Increasing, Plural, Positive, Whole
from theorylab.models import quadratize
from theorylab.progress import report
from theorylab.typing import RandomKey

from . import _catapults as catapults
from ._catapults import CatapultConfig, Descents, Measurement

PRECISION = "float32"
FORMULA = r"f_{quad} = f + \Delta^\top \nabla f + \tfrac12 \Delta^\top H_f \Delta"

OPEN = Source("zhu", "ext-*", "Ch. 5")
GD = Source("zhu", "agop-gd", "Fig. 4.8")


@dataclass(frozen=True)
class Config(CatapultConfig):
    """A network and its quadratic model on x₁x₂, with and without catapults."""

    raises: Increasing[Whole] = (0, 1, 2)  # how often the learning rate is raised, k
    target: Positive = 0.05  # the training loss to reach
    max_steps: Plural = 2000  # of gradient descent


PRESETS = {
    "smoke": Config(dimension=15, num_train=150, num_test=100, width=128, raises=(0, 1)),
    "paper": Config(dimension=100, num_train=2000, num_test=5000, width=1024, max_steps=10_000),
}


class Result(NamedTuple):
    """Runs with every number of raises."""

    network: Descents
    quadratic: Descents


def memory(config: Config) -> int:
    """Bytes of two runs at once, with the derivatives of activations, and of all losses."""
    return catapults.bytes_of(config, 2 * config.num_seeds * len(config.raises), copies=16)


def run(config: Config) -> Result:
    """Descend with both models and every number of raises."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    report("network", 0.0)
    network = catapults.descend_each(partial(_descent, False, config), (keys,), config.raises)
    report("quadratic model", 0.5)
    return Result(
        network, catapults.descend_each(partial(_descent, True, config), (keys,), config.raises)
    )


def _descent(
    quadratic: bool, config: Config, key: RandomKey, num_raises: Int[Array, ""]
) -> Measurement:
    problem = catapults.pose(key, config)
    if quadratic:
        problem = problem._replace(apply=quadratize(problem.apply, problem.params))
    return catapults.catapulted(problem, num_raises, config)


def _every_catapult_improves(runs: Descents) -> Finding:
    """Does the alignment rise from each number of raises to the next, seed by seed?"""
    rises = np.diff(runs.alignment, axis=1).min(axis=1)
    return ordered(np.zeros_like(rises), rises)


CLAIMS = (
    OPEN.claim(
        "The quadratic model catapults: its loss spikes at the first raise, and comes back.",
        lambda r, c: median_at_least(
            (r.quadratic.spikes[:, 1] * r.quadratic.reached[:, 1]).astype(float), 1
        ),
        quote="they similarly exhibit catapult dynamics when the learning rate is large",
    ),
    OPEN.found(
        "Every catapult improves the features of the quadratic model: their alignment rises.",
        lambda r, c: _every_catapult_improves(r.quadratic),
    ),
    GD.claim(
        "Every catapult improves the features of the network.",
        lambda r, c: _every_catapult_improves(r.network),
        quote="as the number of catapults increases while AGOP alignment increases",
    ),
    OPEN.found(
        "Without a catapult the network's features are better than those of its quadratic model.",
        lambda r, c: ordered(r.quadratic.alignment[:, 0], r.network.alignment[:, 0]),
    ),
    OPEN.control(
        "Below the critical learning rate neither model's loss spikes.",
        lambda r, c: at_most(max(runs.spikes[:, 0].max() for runs in r), 0),
    ),
    OPEN.check(
        "All runs are compared at the same training loss, which they all reach.",
        lambda r, c: at_least(min(runs.reached.mean() for runs in r), 1.0),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Alignment and test loss over the number of raises, of network and quadratic model."""
    figure, (alignment, test) = panels("alignment cos(G, G*)", "test loss")
    models = {"network": result.network, "quadratic model": result.quadratic}
    catapults.over_raises(
        alignment, config.raises, {name: runs.alignment for name, runs in models.items()}
    )
    catapults.over_raises(test, config.raises, {name: runs.test for name, runs in models.items()})
    return figure
