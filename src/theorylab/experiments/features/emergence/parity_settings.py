"""A parity of patterns with unequal classes, with fewer samples, and in more dimensions.

The comparison of `parity_six` in other settings. Unequal classes: 80 or 90 % of the samples have
y = −1; every method weighs the classes by 1/(2 Pr[y]), and accuracy counts both equally, because
saying −1 to everything would be right on 90 %. Fewer samples: a smaller network, as in the source.

The dimension d matters to nothing but cosines: what gradients see lies in the span of the patterns.
So the tangent kernel is the same in all dimensions, and the source's 81.5, 86.4 and 75.4 % of the
tangent model at d = 100, 500 and 2000 are no effect of d. It prints cosines after one step that
fall with d, though the theory's first step forgets the start and leaves no trace of d. They fall as
c²/(1 − c²) ∝ 1/d where a step keeps some of it. Its table of unequal classes, said to be of
d = 500, has the cosine that untouched weights have at d = 100.

Source: shi · exp-vary-imbalance · Table A.4; shi · exp-vary-n · Table A.5; shi · exp-vary-d ·
Table A.3.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    at_most,
    between,
    exponent_between,
    median_at_least,
    median_at_most,
    median_between,
    ordered,
)
from theorylab.data import CountLaw, independent_patterns, parity_mixture
from theorylab.data.dictionary import parity_counts
from theorylab.experiments.checks import refuse_below, refuse_negative
from theorylab.experiments.drawing import THEORY, panels
from theorylab.experiments.features.emergence._comparison import Methods, compare_laws
from theorylab.experiments.features.emergence._dimensions import Dimensions, by_dimension
from theorylab.experiments.features.emergence._tasks import Setting, draw_task, theory_of
from theorylab.features.emergence import expected_largest_cosine, threshold_ceiling
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"\frac{c^2}{1 - c^2} \propto \frac1d, \quad \alpha_y = \frac{1}{2 \Pr[y]}"

UNEQUAL = Source("shi", "exp-vary-imbalance", "Table A.4")
FEWER = Source("shi", "exp-vary-n", "Table A.5")
WIDER = Source("shi", "exp-vary-d", "Table A.3")
COSINES = Source("shi", "exp-vary-imbalance", "Table A.4, cosines of RF")
WEIGHED = Source("shi", "general-dict", "A.8, Lemma A.33")
SOURCE_PAIRS = 300  # m of the source
UNTOUCHED = 0.293  # largest cosine of weights that do not move, as printed with unequal classes
SOURCE_DIMENSION, TRUE_DIMENSION = 500, 100  # d that the source says, and that the cosine fits


@dataclass(frozen=True)
class Config:
    """The parity of patterns in other settings."""

    num_patterns: int = 100  # D
    num_relevant: int = 5  # k, odd
    fractions: tuple[float, ...] = (0.5, 0.8, 0.9)  # of the class −1, the first one equal
    num_pairs: int = 100  # m, half the number of neurons
    num_samples: int = 50000  # n
    fewer_samples: tuple[int, ...] = (25000, 10000)  # n of other runs, with equal classes
    fewer_pairs: tuple[int, ...] = (100, 50)  # m of these
    num_test: int = 20000  # of which a tenth is in the smaller class
    num_steps: int = 600  # T, of every method
    batch_size: int = 1000  # samples in a step
    dimensions: tuple[int, ...] = (100, 500, 2000)  # d, of cosines
    num_seeds: int = 6  # at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_negative(self)
        parity_mixture(self.num_patterns, self.num_relevant)  # refuses what does not fit
        if len(self.fractions) < 2 or not all(0 < value < 1 for value in self.fractions):
            raise ValueError(f"fractions must be two or more in (0, 1), got {self.fractions}.")
        if self.fractions[0] != 0.5:
            raise ValueError(f"the first of fractions must be 0.5, got {self.fractions[0]}.")
        if len(self.dimensions) < 2 or sorted(set(self.dimensions)) != list(self.dimensions):
            raise ValueError(f"dimensions must be two or more, growing, got {self.dimensions}.")
        if len(self.fewer_samples) != len(self.fewer_pairs) or not self.fewer_pairs:
            raise ValueError(
                "fewer_samples and fewer_pairs must be as many, and not none, "
                f"got {self.fewer_samples} and {self.fewer_pairs}."
            )
        for setting in (self.setting, *self.fewer):
            setting.check(self.num_patterns)
            replace(setting, dimension=self.dimensions[0]).check(self.num_patterns)
        refuse_below(self, 1, "num_seeds")

    @property
    def setting(self) -> Setting:
        """Sizes of the runs with unequal classes."""
        return Setting(
            self.num_pairs,
            self.num_samples,
            self.num_test,
            self.num_steps,
            self.batch_size,
            dimension=self.dimensions[-1],
            weigh=True,
            num_records=1,  # the end alone is judged, and tests are many
        )

    @property
    def fewer(self) -> list[Setting]:
        """Sizes of the runs with fewer samples."""
        pairs = zip(self.fewer_pairs, self.fewer_samples, strict=True)
        return [replace(self.setting, num_pairs=m, num_samples=n) for m, n in pairs]


PRESETS = {
    "smoke": Config(
        num_patterns=30,
        num_pairs=40,
        num_samples=12000,
        fewer_samples=(8000,),
        fewer_pairs=(40,),
        num_test=12000,
        num_steps=300,
        batch_size=250,
        fractions=(0.5, 0.8),
    ),
    "paper": Config(num_pairs=300, num_test=50000, num_seeds=10),
}


class Result(NamedTuple):
    """What was measured: fractions (f), settings with fewer samples (c), seeds (s), dimensions (d).

    Accuracies are of tests, with both classes counting equally if not said else.
    """

    fractions: Float[np.ndarray, " f"]
    network: Float[np.ndarray, "f s"]
    tangent: Float[np.ndarray, "f s"]
    random: Float[np.ndarray, "f s"]
    plain: Float[np.ndarray, "f s"]  # the network's accuracy as it is
    majority: Float[np.ndarray, " f"]  # accuracy of saying −1 to everything
    second: Float[np.ndarray, "f s"]  # largest cosine after the second step
    probes: Float[np.ndarray, "f s 3"]  # of the first step as it is, scaled, and of the second
    fair: Float[np.ndarray, " s"]  # network without structure, classes least equal
    fewer_network: Float[np.ndarray, "c s"]
    fewer_tangent: Float[np.ndarray, "c s"]
    fewer_random: Float[np.ndarray, "c s"]
    fewer_second: Float[np.ndarray, "c s"]  # largest cosine after the second step
    fewer_probes: Float[np.ndarray, "c s 3"]
    dimensions: Float[np.ndarray, " d"]
    start: Float[np.ndarray, "s d"]  # largest cosine at the start
    kept: Float[np.ndarray, "s d"]  # after a first step that keeps some of the start
    forgotten: Float[np.ndarray, " s"]  # after one that keeps none, whatever d is
    expected: Float[np.ndarray, " d"]  # largest cosine of random directions
    sources: Float[np.ndarray, " d"]  # the same with the source's 300 pairs
    lifted: Float[np.ndarray, "s d"]  # relative change of the tangent kernel in d dimensions
    ceiling: float  # of one threshold of the count, classes counting equally


def memory(config: Config) -> int:
    """Bytes of data, weights and hidden layers of two seeds at once."""
    return config.setting.bytes_of(config.num_patterns)


def run(config: Config) -> Result:
    """Train all methods in all settings, and measure cosines in all dimensions."""
    patterns, k = config.num_patterns, config.num_relevant
    mixture = parity_mixture(patterns, k)
    coins = independent_patterns(patterns, k, parity_counts(k))
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    report("training with unequal classes", 0.0)
    laws = [mixture.resampled(fraction) for fraction in config.fractions]
    theories = [theory_of(law, config.setting) for law in laws]
    laws_and_coins = [*laws, coins.resampled(config.fractions[-1])]  # coins have no theory
    methods: list[Methods] = ["probes" for _ in laws]
    both = [*theories, theories[-1]]
    found = compare_laws(keys, laws_and_coins, both, config.setting, [*methods, "network"])
    fewer = []
    for place, setting in enumerate(config.fewer):
        report(f"training with {setting.num_samples} samples", 0.5 + 0.2 * place)
        theory = theory_of(mixture, setting)
        fewer.append(compare_laws(keys, [mixture], [theory], setting, ["probes"]))
    report("looking at directions", 0.9)
    seen = _directions(keys, mixture, config)

    def balanced(scored: jax.Array) -> np.ndarray:
        return np.asarray(scored)[..., -1, 1]

    return Result(
        fractions=np.array(config.fractions),
        network=balanced(found.network.test)[:-1],
        tangent=balanced(found.tangent.test)[:-1],
        random=balanced(found.random.test)[:-1],
        plain=np.asarray(found.network.test)[:-1, :, -1, 0],
        majority=np.array([law.class_probabilities[0] for law in laws]),
        second=np.asarray(found.cosines)[:-1, :, 2],
        probes=balanced(found.probes.test)[:-1],
        fair=balanced(found.network.test)[-1],
        fewer_network=np.stack([balanced(each.network.test)[0] for each in fewer]),
        fewer_tangent=np.stack([balanced(each.tangent.test)[0] for each in fewer]),
        fewer_random=np.stack([balanced(each.random.test)[0] for each in fewer]),
        fewer_second=np.stack([np.asarray(each.cosines)[0, :, 2] for each in fewer]),
        fewer_probes=np.stack([balanced(each.probes.test)[0] for each in fewer]),
        dimensions=np.array(config.dimensions, float),
        start=np.asarray(seen.start),
        kept=np.asarray(seen.kept),
        forgotten=np.asarray(seen.forgotten),
        expected=_largest(config.num_pairs, config),
        sources=_largest(SOURCE_PAIRS, config),
        lifted=np.asarray(seen.change),
        ceiling=threshold_ceiling(mixture, 1, balanced=True),
    )


def _largest(num_pairs: int, config: Config) -> np.ndarray:
    return np.array([expected_largest_cosine(num_pairs, d) for d in config.dimensions])


def _directions(keys: jax.Array, law: CountLaw, config: Config) -> Dimensions:
    """One step in all dimensions."""
    setting, theory = config.setting, theory_of(law, config.setting)

    def one(key: RandomKey) -> Dimensions:
        task = draw_task(key, [law], jnp.array(0), theory, setting)
        return by_dimension(key, task, theory, law.num_relevant, config.dimensions)

    return ensemble(one, keys)


def _untouched(result: Result, dimension: int) -> float:
    """The largest cosine of untouched weights in d dimensions, of 300 pairs, over the printed."""
    measured = result.start.mean(axis=0) / result.expected * result.sources
    found = measured[result.dimensions == dimension]
    return float(found[0] / UNTOUCHED) if len(found) else np.nan


def _worst(values: Float[np.ndarray, "c s"]) -> Float[np.ndarray, " s"]:
    """The least over settings."""
    return values.min(axis=0)


def _probed(result: Result, place: int) -> Float[np.ndarray, "c s"]:
    """One probe in all settings."""
    return np.concatenate([result.probes, result.fewer_probes])[..., place]


# 99 %, 12 points, 88 % and cos ≥ 0.99, within 30 %, are the catalogue's, from `parity_six` and the
# general setting, with its orderings in every cell. Chance is [48, 53] % as there; 75 % is midway.
CLAIMS = (
    Claim(
        "With unequal classes the network still learns: at least 99 % of both classes.",
        judge=lambda r, c: median_at_least(r.network.min(axis=0), 0.99),
        source=UNEQUAL,
    ),
    Claim(
        "With unequal classes the network beats the tangent model by 12 points in every seed.",
        judge=lambda r, c: ordered(r.tangent.max(axis=0) + 0.12, r.network.min(axis=0)),
        source=UNEQUAL,
    ),
    Claim(
        "Weighed classes leave the tangent model below 88 %, both counting equally.",
        judge=lambda r, c: median_at_most(r.tangent.max(axis=0), 0.88),
        source=WEIGHED,
    ),
    Claim(
        "Random features stay below the tangent model plus 3 points.",
        judge=lambda r, c: ordered(r.random.max(axis=0), r.tangent.max(axis=0) + 0.03),
        source=UNEQUAL,
    ),
    # The source calls it less stable than with equal ones: in training it prints 84, 63 and 84 %.
    Claim(
        "Weighed so, the tangent model is stable: seeds are within 5 points of their median.",
        judge=lambda r, c: median_at_most(
            np.abs(r.tangent - np.median(r.tangent, axis=1, keepdims=True)).max(axis=0), 0.05
        ),
        source=UNEQUAL,
    ),
    Claim(
        "In every setting a probe of the first step's weights, as they are, is at chance.",
        judge=lambda r, c: median_at_most(np.abs(_probed(r, 0) - 0.505).max(axis=0), 0.025),
        source=UNEQUAL,
    ),
    Claim(
        "Multiplied by one constant, and after the second step, they are not: 75 % or more.",
        judge=lambda r, c: median_at_least(
            np.minimum(_worst(_probed(r, 1)), _worst(_probed(r, 2))), 0.75
        ),
        source=UNEQUAL,
    ),
    Claim(
        "With unequal classes some neuron still points to the relevant patterns: cos ≥ 0.99.",
        judge=lambda r, c: median_at_least(r.second.min(axis=0), 0.99),
        source=UNEQUAL,
    ),
    Claim(
        "The network is not the majority's guess: it is at least 5 points better than saying −1.",
        judge=lambda r, c: ordered(r.majority.max() + 0.05 + 0 * r.plain[-1], r.plain[-1]),
        source=UNEQUAL,
        kind="control",
    ),
    Claim(
        "With unequal classes and without structure the network is at chance.",
        judge=lambda r, c: median_between(r.fair, 0.48, 0.53),
        source=UNEQUAL,
        kind="control",
    ),
    Claim(
        "With fewer samples the network still learns: at least 99 %.",
        judge=lambda r, c: median_at_least(_worst(r.fewer_network), 0.99),
        source=FEWER,
    ),
    Claim(
        "With fewer samples fixed features stay 12 points behind.",
        judge=lambda r, c: median_at_least(
            _worst(r.fewer_network - np.maximum(r.fewer_tangent, r.fewer_random)), 0.12
        ),
        source=FEWER,
    ),
    Claim(
        "With fewer samples some neuron points to the relevant patterns: cos ≥ 0.99.",
        judge=lambda r, c: median_at_least(_worst(r.fewer_second), 0.99),
        source=FEWER,
    ),
    Claim(
        "At the start the largest cosine is that of random directions, within 30 %.",
        judge=lambda r, c: between(np.abs(r.start.mean(axis=0) / r.expected - 1).max(), 0.0, 0.3),
        source=WIDER,
    ),
    Claim(
        "Untouched weights at d = 500 have the cosine printed with unequal classes, within 30 %.",
        judge=lambda r, c: between(_untouched(r, SOURCE_DIMENSION), 0.7, 1.3),
        source=COSINES,
        kind="printed",
    ),
    Claim(
        "They have it at d = 100.",
        judge=lambda r, c: between(_untouched(r, TRUE_DIMENSION), 0.7, 1.3),
        source=COSINES,
        kind="corrected",
    ),
    Claim(
        # Rounding opens or closes a neuron for inputs at its edge, which is a part of 1/m.
        "The tangent kernel, and so its accuracy, is the same in every dimension, to 1 %.",
        judge=lambda r, c: at_most(r.lifted.max(), 0.01),
        source=WIDER,
    ),
    Claim(
        "After one step the largest cosine is small in many dimensions: below 0.7.",
        judge=lambda r, c: median_at_most(r.forgotten, 0.7),
        source=WIDER,
        kind="printed",
    ),
    Claim(
        "A first step that forgets the start has a cosine of 0.99 in every dimension.",
        judge=lambda r, c: median_at_least(r.forgotten, 0.99),
        source=WIDER,
        kind="corrected",
    ),
    Claim(
        "A first step that keeps some of the start has c²/(1 − c²) ∝ 1/d, as the printed cosines.",
        judge=lambda r, c: exponent_between(r.dimensions, r.kept**2 / (1 - r.kept**2), -1.3, -0.7),
        source=WIDER,
        formula=r"c^2/(1-c^2) \propto d^{-1}",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Accuracy by class fraction, and cosines by dimension."""
    figure, (left, right) = panels("balanced accuracy", "largest cosine")
    named = {
        "network": result.network,
        "tangent model": result.tangent,
        "random features": result.random,
    }
    for name, values in named.items():
        left.plot(result.fractions, np.median(values, axis=1), "o-", label=name)
    left.axhline(result.ceiling, **THEORY)
    left.set_xlabel("part of class −1")
    left.legend(fontsize=7)
    right.semilogx(result.dimensions, result.start.mean(axis=0), "o", label="start")
    right.semilogx(result.dimensions, result.kept.mean(axis=0), "o", label="step 1, start kept")
    right.semilogx(result.dimensions, result.expected, **THEORY)
    right.axhline(result.forgotten.mean(), color="gray", label="step 1, start forgotten")
    right.set_xlabel("dimension d")
    right.legend(fontsize=7)
    return figure
