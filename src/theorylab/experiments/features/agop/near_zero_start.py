"""A network that starts near zero learns features without any catapult.

With weights from N(0, σ²), σ = 0.1 in place of 1, the tangent kernel starts small and the weights
must travel far: features are learned from the beginning. That makes small initialisation the
reference for what catapults do to a network of ordinary scale. Both learn y = x₁x₂ + noise by
gradient descent, to the same training loss. The tangent kernel's critical rate n/λ_max(K) of the
small start is about 1/σ² times as large; but there the residuals' share of the Hessian, which does
not shrink with σ, decides how fast one may go. So without catapults η = 0.3 η_crit(t) by the exact
Hessian.

Source: zhu · near-zero-init · Fig. C.14; zhu · agop · Eqs 4.5–4.6.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    identity,
    median_at_least,
    median_at_most,
    ordered,
    probability_at_least,
)
from theorylab.dynamics import exact_critical_learning_rate
from theorylab.experiments.drawing import panels
from theorylab.fields import Count, OpenFraction, Plural
from theorylab.progress import report
from theorylab.training import ensemble, follow_critical
from theorylab.typing import Measured, Params, RandomKey, Scalar

from . import _catapults as catapults
from ._catapults import LOSS, PATIENCE, DescentConfig, Measurement, Problem

PRECISION = "float32"
FORMULA = r"w \sim N(0, \sigma^2), \quad \sigma = 0.1"

SMALL_START = Source("zhu", "near-zero-init", "Fig. C.14")
AGOP = Source("zhu", "agop", "Eq. 4.6")
CALM = 0.3  # η/η_crit without catapults
MEASURE_EVERY = 4  # steps from one measurement of η_crit to the next
NUM_PRODUCTS = 12  # with the Hessian, for one critical rate
NAMES = ("small start", "ordinary", "catapults")
SMALL, ORDINARY, CATAPULTS = range(3)  # along the axis of the three ways


@dataclass(frozen=True)
class Config(DescentConfig):
    """A small start, an ordinary start, and an ordinary start with catapults, on x₁x₂."""

    num_seeds: Plural = 24  # data and networks
    dimension: Plural = 30  # of the inputs, d
    num_train: Plural = 300  # training samples, n
    weight_scale: OpenFraction = 0.1  # σ of the small start
    num_raises: Count = 6  # raises of the learning rate, for the ordinary start
    max_steps: Plural = 12_000  # of gradient descent


PRESETS = {
    "smoke": Config(
        dimension=12,
        num_train=120,
        num_test=300,
        width=64,
        num_raises=2,
        max_steps=1500,
        num_seeds=6,
    ),
    "paper": Config(
        dimension=100,
        num_train=2000,
        num_test=5000,
        width=1024,
        target=1e-3,
        max_steps=20_000,
        num_seeds=6,
    ),
}


class Result(NamedTuple):
    """Axes: small start, ordinary start, ordinary start with catapults; s seeds."""

    test: Float[Measured, "3 s"]
    alignment: Float[Measured, "3 s"]
    reached: Bool[Measured, "3 s"]
    rate_ratio: Float[Measured, " s"]  # η_crit(0) of the small start over that of the other
    rises: Float[Measured, " s"]  # largest loss of the small start over its first
    losses: Float[Measured, "3 t"]  # training loss over time, first seed


def run(config: Config) -> Result:
    """Descend in the three ways."""
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    scales = jnp.array([config.weight_scale, 1.0])
    report("small and ordinary start", 0.0)
    pairs = (jnp.concatenate([keys, keys]), jnp.repeat(scales, len(keys)))
    calm = ensemble(lambda pair: _calm_descent(*pair, config=config), pairs)
    report("ordinary start with catapults", 0.6)
    thrown = ensemble(
        lambda key: catapults.catapulted(_pose(key, 1.0, config), config.num_raises, config), keys
    )
    every = jax.tree.map(
        lambda one, other: jnp.concatenate([one, other]).reshape(3, len(keys), *one.shape[1:]),
        calm,
        thrown,
    )
    rates = ensemble(lambda pair: _critical_rate(*pair, config=config), pairs)
    small = every.losses[SMALL]
    return Result(
        test=every.test,
        alignment=every.alignment,
        reached=every.reached,
        rate_ratio=rates[: len(keys)] / rates[len(keys) :],
        rises=jnp.nanmax(small, axis=1) / small[:, 0],
        losses=every.losses[:, 0],
    )


def _pose(key: RandomKey, scale: Scalar, config: Config) -> Problem:
    """Data, and a network with small weights, but ordinary factors 1/√fan-in beside them."""
    problem = catapults.pose(key, config)
    return problem._replace(params=jax.tree.map(lambda w: scale * w, problem.params))


def _critical_rate(key: RandomKey, scale: Scalar, config: Config) -> Array:
    """The critical rate at the start, by the tangent kernel."""
    problem = _pose(key, scale, config)
    return catapults.critical_rate(problem, problem.params)


def _calm_descent(key: RandomKey, scale: Scalar, config: Config) -> Measurement:
    """Descend below the critical rate of the exact Hessian, which is followed."""
    problem = _pose(key, scale, config)

    def exact(w: Params) -> Array:
        given = (problem.apply, w, problem.train, LOSS)
        return exact_critical_learning_rate(*given, key, NUM_PRODUCTS)

    calm = follow_critical(exact, CALM, MEASURE_EVERY)
    return catapults.measured_descent(problem, calm, config, PATIENCE)


def _kept(values: np.ndarray, result: Result) -> np.ndarray:
    """A measure in the seeds in which all three reached the training loss."""
    return values[:, result.reached.all(axis=0)]


def _gain(result: Result) -> np.ndarray:
    """How much better aligned a small start is than catapults, seed by seed."""
    small, _, thrown = _kept(result.alignment, result)
    return small - thrown


BEST = "small initialization achieves the smallest test loss/error as well as the best AGOP"

CLAIMS = (
    SMALL_START.claim(
        "A small start has the best features: at least as well aligned as with catapults.",
        lambda r, c: median_at_least(_gain(r), 0.0),
        formula=r"\cos_\sigma \ge \cos_k",
        quote=BEST,
        regime="num_seeds >= 24",
    ),
    SMALL_START.claim(
        "It has the smallest test loss: smaller than with catapults.",
        lambda r, c: ordered(*_kept(r.test, r)[[SMALL, CATAPULTS]]),
        quote=BEST,
    ),
    SMALL_START.found(
        "Both have better features than an ordinary start without catapults.",
        lambda r, c: ordered(
            _kept(r.alignment, r)[ORDINARY], _kept(r.alignment, r)[[SMALL, CATAPULTS]].min(axis=0)
        ),
    ),
    SMALL_START.check(
        "The critical learning rate of the small start is 1/σ² times as large.",
        lambda r, c: identity(r.rate_ratio * c.weight_scale**2, np.ones_like(r.rate_ratio), 1e-3),
        formula=r"\eta_{crit}(\sigma) = \sigma^{-2} \eta_{crit}(1)",
    ),
    SMALL_START.control(
        "The small start needs no catapult: its loss never rises by half.",
        lambda r, c: median_at_most(r.rises, 1.5),
        demand="derived: a rise by half is what counts as a spike elsewhere",
    ),
    AGOP.check(
        "Runs are compared at the same training loss: four in five, at least, reach it.",
        lambda r, c: probability_at_least(r.reached.sum(), r.reached.size, 0.8),
        demand="lab: on seed 0 one of 72 runs did not; 18 runs of 18 tell four in five",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Training losses, test losses and alignments of the three."""
    figure, (loss, test, alignment) = panels("training loss", "test loss", "alignment cos(G, G*)")
    catapults.training_losses(loss, result.losses, NAMES)
    loss.set_xscale("log")
    for axis, values in ((test, result.test), (alignment, result.alignment)):
        axis.plot(NAMES, values, "o", color="C0")
    return figure
