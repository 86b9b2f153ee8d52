"""Tasks of the comparison: sizes, data in dictionary coordinates, and a start scaled by theory.

Inputs are in the coordinates of an orthonormal dictionary. What gradients see lies in its span, so
a dimension d above the number of patterns D changes nothing but cosines, through what the start's
weights have outside of the dictionary.

Source: shi · exp-parity-six · Table A.1; shi · dict-data · A.7.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from theorylab.data import CountLaw, Dataset, dictionary_data
from theorylab.data.dictionary import PatternLaw
from theorylab.features.emergence.network import Neurons, Scales, start_scales, unbiased_start
from theorylab.features.emergence.stages import Printed, Stage, classifier_rates, emergence_stages
from theorylab.typing import RandomKey, Scalar

# In units of 1/E‖ψ‖²: at the stated size the tangent model of a parity is best at 3 or 10.
TANGENT_RATES = (1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class Setting:
    """Sizes that all methods share.

    Args:
        num_pairs: m, half the number of neurons.
        num_samples: To train on, n.
        num_test: To test on.
        num_steps: T, of which the network's first two are on all samples.
        batch_size: Samples in each of the others.
        dimension: Of the inputs, d; at least the number of patterns.
        keep: κ_w, what the first step keeps of the start.
        weigh: Whether classes are weighted by 1/(2 Pr[y]) in every loss.
        num_records: How often methods are scored.
        tangent_rates: Learning rates that the tangent model tries, in units of 1/E‖ψ‖².
    """

    num_pairs: int = 300
    num_samples: int = 50_000
    num_test: int = 5000
    num_steps: int = 600
    batch_size: int = 1000
    dimension: int = 500
    keep: float = 0.0
    weigh: bool = False
    num_records: int = 8
    tangent_rates: tuple[float, ...] = TANGENT_RATES

    def check(self, num_patterns: int) -> None:
        """Refuse sizes that do not fit."""
        for name in ("num_pairs", "num_samples", "num_test", "batch_size"):
            if not 1 <= getattr(self, name) <= 10**8:
                raise ValueError(f"{name} must be in [1, 10⁸], got {getattr(self, name)}.")
        if not 3 <= self.num_steps <= 10**8:
            raise ValueError(f"num_steps must be in [3, 10⁸], got {self.num_steps}.")
        if self.batch_size > self.num_samples:
            raise ValueError(
                f"batch_size must be at most num_samples = {self.num_samples}, "
                f"got {self.batch_size}."
            )
        if not num_patterns <= self.dimension <= 10**6:
            raise ValueError(
                f"dimension must be in [num_patterns = {num_patterns}, 10⁶], got {self.dimension}."
            )

    @property
    def steps(self) -> Int[np.ndarray, " t"]:
        """When methods are scored."""
        grid = np.linspace(0, self.num_steps, self.num_records + 1)[1:].round().astype(int)
        return np.unique(np.maximum(grid, 3))

    def bytes_of(self, num_patterns: int) -> int:
        """Memory of data, their hidden layer, and a batch with all rates, of two seeds at once."""
        data = (self.num_samples + self.num_test) * (num_patterns + self.num_pairs + 1)
        hidden = (self.batch_size + self.num_test) * 2 * self.num_pairs
        weights = 2 * self.num_pairs * (self.dimension + 2)
        return 4 * 2 * (2 * data + 4 * hidden + 20 * weights)


class DictionaryTask(NamedTuple):
    """Data and start of one seed."""

    train: Dataset
    test: Dataset
    start: Neurons
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
    law: CountLaw, setting: Setting, noise: float = 0.0, printed: Printed = "lemmas"
) -> Theory:
    """Scales and stages with γ and σ̃ of a law, and 1/(2 Pr[y]) if the setting weighs classes.

    Args:
        law: The law of the patterns.
        setting: Sizes.
        noise: The standard deviation σ_ζ of noise in each of d coordinates, which is part of σ̃.
        printed: Whose values the first two steps have, see `emergence_stages`.
    """
    structure = law.balanced_structure if setting.weigh else law.structure
    k, scale = law.num_relevant, law.scale(setting.dimension, noise)
    minus, plus = law.class_probabilities
    # Classes of unequal size shrink the first step by the smaller one's probability.
    least = min(minus, plus) if setting.weigh else 1.0
    pairs = setting.num_pairs
    first, second = emergence_stages(k, structure, scale, pairs, setting.keep, printed)
    first = first._replace(learning_rate=first.learning_rate * least)
    weights = (0.5 / minus, 0.5 / plus) if setting.weigh else (1.0, 1.0)
    return Theory(
        law.structure,
        float(law.mean[-1]),
        start_scales(k, structure, scale),
        (first, second),
        weights,
        scale,
        classifier_rates(pairs),
    )


def draw_task(
    key: RandomKey,
    laws: Sequence[PatternLaw],
    which: Int[Array, ""],
    theory: Theory,
    setting: Setting,
) -> DictionaryTask:
    """Draw samples of one of some laws, and a start."""
    of_data, of_start, of_outside = jax.random.split(key, 3)
    patterns = laws[0].num_patterns

    def draw(law: PatternLaw) -> Dataset:
        both = dictionary_data(of_data, law, setting.num_samples + setting.num_test)
        return replace(both, law="dictionary data")  # one description for every branch

    both = jax.lax.switch(which, [partial(draw, law) for law in laws])
    outside = jax.random.normal(of_outside, (setting.num_pairs, setting.dimension - patterns))
    train, test = both.split(setting.num_samples)
    return DictionaryTask(
        train,
        test,
        unbiased_start(of_start, setting.num_pairs, patterns, theory.scales),
        theory.scales.weights * outside,
    )
