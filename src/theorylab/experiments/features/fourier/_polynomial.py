"""Training of polynomial networks on sums, for `neurons` and `margin_limit`."""

from collections.abc import Sequence
from dataclasses import dataclass

from theorylab.data.modular import Sums, all_sums, num_sums, split_sums
from theorylab.features.fourier.learning import AdditionRecipe, learn_addition
from theorylab.features.fourier.maximum_margin import num_cosine_neurons
from theorylab.features.fourier.polynomial import (
    PolynomialNeurons,
    group_norm,
    initial_neurons,
    polynomial_network,
)
from theorylab.fields import Count, Positive, Seeded, Whole
from theorylab.training.trajectory import Trajectory
from theorylab.typing import RandomKey, Scalar

from ._sums import Case


@dataclass(frozen=True)
class Polynomials(Seeded):
    """How polynomial networks are trained."""

    penalty: Positive = 0.05  # λ, in front of the norm
    learning_rate: Positive = 0.005  # of AdamW
    batch_size: Whole = 0  # examples in a step; 0: all
    num_steps: Count = 1500
    num_seeds: Count = 6  # networks of each case, at least 6 to conclude


def bytes_of(config: Polynomials, cases: Sequence[Case]) -> int:
    """Memory of hidden and output layers on one batch, of two networks at once, with gradients."""
    units = [num_cosine_neurons(*case) + case[1] for case in cases]
    counts = [num_sums(*case) for case in cases]
    batches = max((config.batch_size or n) * m for n, m in zip(counts, units, strict=True))
    listed = max(n * (case[0] + 2) for n, case in zip(counts, cases, strict=True))
    kept = config.num_seeds * max(m * case[0] for m, case in zip(units, cases, strict=True))
    return 4 * 2 * (6 * batches + 2 * 4096 * max(units) + 3 * listed + kept)


def start_of(key: RandomKey, case: Case) -> PolynomialNeurons:
    """Random weights of as many neurons as the network of maximum margin has."""
    return initial_neurons(key, *case, num_cosine_neurons(*case))


def parts_of(key: RandomKey, case: Case, fraction: float) -> tuple[Sums, Sums]:
    """Sums to train on and the others; both are all of them if the fraction is 1."""
    sums = all_sums(*case)
    return (sums, sums) if fraction == 1 else split_sums(key, sums, fraction)


def train(
    key: RandomKey,
    start: PolynomialNeurons,
    parts: tuple[Sums, Sums],
    config: Polynomials,
    penalty: Scalar = 0.0,
    weight_decay: float = 0.0,
) -> Trajectory:
    """Train a network on sums.

    Args:
        key: Draws batches.
        start: Where to begin.
        parts: What to train on, and what to test on.
        config: How.
        penalty: λ.
        weight_decay: Of AdamW.
    """
    recipe = AdditionRecipe(
        config.learning_rate, penalty, weight_decay, batch_size=config.batch_size
    )
    network = (polynomial_network, group_norm)
    return learn_addition(key, *network, start, parts, recipe, [config.num_steps])
