"""What experiments on dictionary data share: sizes, data and a start scaled by theory.

Inputs are in the coordinates of an orthonormal dictionary. Gradients lie in its span, so that a
dimension d above the number of patterns D changes only cosines, through initial weights outside.

Source: shi · exp-parity-six · Table A.1; shi · dict-data · A.7.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Key

from theorylab.data import CountLaw, Dataset, parity_mixture
from theorylab.data.dictionary import (
    PatternLaw,
    dictionary_data,
    independent_patterns,
    parity_counts,
)
from theorylab.features.emergence.network import (
    Scales,
    TruncatedNeurons,
    start_scales,
    unbiased_start,
)
from theorylab.features.emergence.stages import Printed, Stage, classifier_rates, emergence_stages
from theorylab.fields import Count, Odd, Seeded, within
from theorylab.typing import RandomKey, Scalar

# In units of 1/E‖ψ‖²: at the stated size the tangent model of a parity is best at 3 or 10.
TANGENT_RATES = (1.0, 3.0, 10.0, 30.0)
MOST_RELEVANT = 1000  # more make the law's table of counts too long


@dataclass(frozen=True)
class TaskSizes(Seeded):
    """Sizes of network and data."""

    num_pairs: Count = 300  # m, half the number of neurons
    num_samples: Count = 50_000  # n, to train on
    num_test: Count = 5000
    num_seeds: Count = 6  # at least 6 to conclude

    dimension = 0  # of the inputs, d; 0: the number of patterns

    @property
    def keys(self) -> Key[Array, " seeds"]:
        """One for every seed."""
        return jax.random.split(jax.random.key(self.seed), self.num_seeds)

    def check(self, num_patterns: int, num_relevant: int) -> None:
        """Refuse a law that does not fit."""
        if not num_relevant <= min(num_patterns, MOST_RELEVANT):
            raise ValueError(
                f"num_relevant must be at most num_patterns = {num_patterns} and {MOST_RELEVANT}, "
                f"got {num_relevant}."
            )
        if self.dimension and self.dimension < num_patterns:
            raise ValueError(
                f"dimension must be at least num_patterns = {num_patterns}, got {self.dimension}."
            )


@dataclass(frozen=True)
class Setting(TaskSizes):
    """Sizes that all methods share."""

    num_steps: Annotated[int, within(3)] = 600  # T, of every method
    batch_size: Count = 1000  # samples in a step; the network's first two take all

    num_records = 8  # how often methods are scored
    tangent_rates = TANGENT_RATES  # that the tangent model tries, in units of 1/E‖ψ‖²

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size > self.num_samples:
            raise ValueError(
                f"batch_size must be at most num_samples = {self.num_samples}, "
                f"got {self.batch_size}."
            )

    @property
    def steps(self) -> Int[np.ndarray, " t"]:
        """When methods are scored."""
        grid = np.linspace(0, self.num_steps, self.num_records + 1)[1:].round().astype(int)
        return np.unique(np.maximum(grid, 3))


@dataclass(frozen=True)
class ParitySetting(Setting):
    """Sizes of a comparison on the parity of k of D patterns."""

    num_patterns: Count = 100  # D
    num_relevant: Odd = 5  # k

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check(self.num_patterns, self.num_relevant)

    @property
    def mixture(self) -> CountLaw:
        """Inputs with structure: half of them have all or none of the relevant patterns."""
        return parity_mixture(self.num_patterns, self.num_relevant)

    @property
    def coins(self) -> CountLaw:
        """Inputs without structure: every pattern is a fair coin."""
        return independent_patterns(
            self.num_patterns, self.num_relevant, parity_counts(self.num_relevant)
        )


def bytes_of(sizes: TaskSizes, num_patterns: int, num_laws: int = 1, batch_size: int = 0) -> int:
    """Memory of two seeds at once (data, hidden layers, batches), and of weights kept of all."""
    pairs = sizes.num_pairs
    data = (sizes.num_samples + sizes.num_test) * (num_patterns + pairs + 1)
    hidden = (batch_size + sizes.num_test) * 2 * pairs
    weights = 2 * pairs * (max(sizes.dimension, num_patterns) + 2)
    return 4 * 2 * (2 * data + 4 * hidden + (20 + 4 * num_laws * sizes.num_seeds) * weights)


class DictionaryTask(NamedTuple):
    """Data and start of one seed."""

    train: Dataset
    test: Dataset
    start: TruncatedNeurons
    outside: Float[Array, "pairs rest"]  # the start's weights outside of the dictionary


class Theory(NamedTuple):
    """What the start and the first two steps take from the data's law."""

    structure: Scalar  # γ
    other: Scalar  # p_o
    scales: Scales
    stages: tuple[Stage, Stage]
    class_weights: tuple[float, float]
    scale: Scalar  # σ̃
    rates: tuple[float, float, float]  # of w, b and a in the third stage


def theory_of(
    law: CountLaw,
    setting: TaskSizes,
    weigh: bool = False,
    noise: float = 0.0,
    printed: Printed = "lemmas",
) -> Theory:
    """Scales and stages with γ and σ̃ of a law.

    Args:
        law: The law of the patterns.
        setting: Sizes.
        weigh: Whether classes are weighted by 1/(2 Pr[y]) in every loss.
        noise: The standard deviation σ_ζ of noise in each of d coordinates, which is part of σ̃.
        printed: Whose values the first two steps have, see `emergence_stages`.
    """
    structure = law.balanced_structure if weigh else law.structure
    k, scale = law.num_relevant, law.scale(setting.dimension, noise)
    minus, plus = law.class_probabilities
    # Classes of unequal size shrink the first step by the smaller one's probability.
    least = min(minus, plus) if weigh else 1.0
    pairs = setting.num_pairs
    first, second = emergence_stages(k, structure, scale, pairs, printed=printed)
    first = first._replace(learning_rate=first.learning_rate * least)
    return Theory(
        structure=law.structure,
        other=float(law.mean[-1]),
        scales=start_scales(k, structure, scale),
        stages=(first, second),
        class_weights=(0.5 / minus, 0.5 / plus) if weigh else (1.0, 1.0),
        scale=scale,
        rates=classifier_rates(pairs),
    )


def draw_task(
    key: RandomKey,
    laws: Sequence[PatternLaw],
    which: Int[Array, ""],
    theory: Theory,
    sizes: TaskSizes,
    dimension: int = 0,
) -> DictionaryTask:
    """Draw samples of one of some laws, and a start in d dimensions (0: those of the patterns)."""
    of_data, of_start, of_outside = jax.random.split(key, 3)
    patterns, pairs = laws[0].num_patterns, sizes.num_pairs

    def draw(law: PatternLaw) -> Dataset:
        both = dictionary_data(of_data, law, sizes.num_samples + sizes.num_test)
        return replace(both, law="dictionary data")  # one description for every branch

    both = jax.lax.switch(which, [partial(draw, law) for law in laws])
    rest = max(dimension - patterns, 0)
    train, test = both.split(sizes.num_samples)
    return DictionaryTask(
        train,
        test,
        unbiased_start(of_start, pairs, patterns, theory.scales),
        theory.scales.weights * jax.random.normal(of_outside, (pairs, rest)),
    )
