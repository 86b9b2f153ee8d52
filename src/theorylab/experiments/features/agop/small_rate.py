"""At a small learning rate the batch size has no effect on test loss and features.

The networks of `features/agop/sgd` once more, with batches of two sizes. At half the critical
learning rate of the training set the smaller batches have many super-critical steps, and a much
smaller test loss. At a fortieth of it no step is super-critical, and both sizes end with the same
test loss and the same features: the noise of small batches alone does nothing here.

The source has the rate η_crit/40 in one figure and 0.1 in another. Networks without biases, which
reproduce its table, have η_crit ≈ 6, and η_crit/40 ≈ 0.15.

Source: zhu · small-lr-control · Fig. 4.10, C.23.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_most,
    median_at_least,
    median_at_most,
    median_between,
)
from theorylab.fields import Count, Increasing, Positive, Several
from theorylab.typing import Measured

from . import _polynomials as polynomials
from ._polynomials import NOT_KEPT, BatchConfig, PolynomialTraining

PRECISION = "float32"
FORMULA = r"\eta = \eta_{\rm crit} / 40"

CONTROL = Source("zhu", "small-lr-control", "Fig. 4.10")

SMALL_BATCH = 0  # along the axis of batch sizes
SMALL_RATE, LARGE_RATE = 0, 1  # along the axis of learning rates


@dataclass(frozen=True)
class Config(BatchConfig):
    """SGD on x₁x₂ with two batch sizes, each at a small and at a large learning rate."""

    dimension: Count = 50  # of the inputs, d
    num_train: Count = 600  # training samples, n
    num_test: Count = 2000  # test samples, and as many validation samples
    widths: Several[Count] = (512,)  # of the hidden layers
    batch_sizes: Increasing[Count] = (5, 10)  # two
    small_fraction: Positive = 0.025  # the small learning rate, as a part of η_crit
    large_fraction: Positive = 0.5  # the large one
    max_steps: Count = 200000  # after which a run ends anyway

    def __post_init__(self) -> None:
        super().__post_init__()
        polynomials.require_batch_sizes(self.batch_sizes, self.num_train, exactly_two=True)
        if not self.small_fraction < self.large_fraction < 2:
            raise ValueError(
                "small_fraction and large_fraction must be increasing and below 2, "
                f"got {self.small_fraction} and {self.large_fraction}."
            )


PRESETS = {
    "smoke": Config(
        dimension=30,
        num_train=300,
        num_test=500,
        widths=(256,),
        batch_sizes=(5, 20),
        small_fraction=0.05,
        target=0.003,
        check_every=100,
    ),
    "paper": Config(dimension=100, num_train=2000, num_test=5000, widths=(1024,)),
}


class Result(NamedTuple):
    """Axes: s seeds; of runs: learning rates (small, large), batch sizes, seeds."""

    critical_rates: Float[Measured, " s"]  # of the whole training set, at the start
    runs: PolynomialTraining


def run(config: Config) -> Result:
    """Train with both batch sizes at both rates, from the same starts."""
    fractions = np.array([config.small_fraction, config.large_fraction])
    critical_rates, runs = polynomials.learn_by_batch_size(
        config, lambda critical: jnp.asarray(fractions, critical.dtype)[:, None] * critical[None]
    )
    return Result(critical_rates, runs)


CLAIMS = (
    CONTROL.claim(
        "At the small rate the batch size has little effect: the test loss changes by less than"
        " 3 %.",
        lambda r, c: median_at_most(np.abs(polynomials.gap(r.runs.test[SMALL_RATE])), 0.03),
        quote="it has little effect on generalization for small learning rates",
        demand=NOT_KEPT,
    ),
    CONTROL.claim(
        "At the small rate no step is super-critical, in any run.",
        lambda r, c: at_most(r.runs.num_supercritical[SMALL_RATE].max(), 0),
        quote="sufficiently small learning rates will result in no catapults for any batch size",
    ),
    CONTROL.control(
        "At the small rate the batch size changes the alignment by less than 3 %.",
        lambda r, c: median_at_most(np.abs(polynomials.gap(r.runs.alignment[SMALL_RATE])), 0.03),
        demand=NOT_KEPT,
    ),
    CONTROL.claim(
        "At half the critical rate the smaller batches improve the test loss: the larger ones have"
        " a fifth more.",
        lambda r, c: median_at_least(polynomials.gap(r.runs.test[LARGE_RATE]), 0.2),
        quote="decreasing batch size consistently improves generalization for large learning rates",
        demand="lab: in Table 4.1 batches of 10 have 40 % more than batches of 5; half of that",
    ),
    CONTROL.found(
        "At half the critical rate the small batches have super-critical steps.",
        lambda r, c: median_at_least(r.runs.num_supercritical[LARGE_RATE, SMALL_BATCH], 1),
    ),
    CONTROL.found(
        "A fortieth of the critical rate is about 0.15, for networks without biases.",
        lambda r, c: median_between(r.critical_rates / 40, 0.135, 0.165),
        formula=r"\eta_{\rm crit} / 40 \approx 0.15",
        demand="lab: a tenth around 6/40",
    ),
    CONTROL.check(
        "All runs are compared at one training loss: each has fallen below it.",
        lambda r, c: at_most(r.runs.loss.max(), c.target),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Test loss, alignment and super-critical steps of both sizes, at both rates."""
    labels = [f"η = {part:g} η_crit" for part in (config.small_fraction, config.large_fraction)]
    return polynomials.figure_by_rate(result.runs, config.batch_sizes, labels)
