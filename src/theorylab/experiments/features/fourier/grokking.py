"""Sums that were held out are learned later than those trained on: grokking, by number of terms.

Networks learn half of all pᵏ sums of k numbers modulo p. First they know their examples by heart,
and much later the rest: they grok. The strength of it is the delay S = log(t_test/t_train), with t
the first recorded step of 99 % accuracy; a test that is not passed until the end counts as passed
then, which is a lower bound, and is marked. The source trains transformers at (k, p) = (2, 97),
(3, 31), (4, 11), (5, 5), says that these sets are about equally large, and finds that S falls with
k. They are not: they have 3125 to 29791 sums, so that k goes with the amount of data. So the delay
is measured also at sizes that agree (`matched`), and at one p (`fixed`); what comes out there is
shown and not judged, because the source claims nothing about it.

By default the networks are polynomial ones, which grok within a minute, and their delay does not
fall: from two terms to three it does, but four and five do not learn the other half in time. Small
transformers do as the source says. At (2, 31) they know their examples by heart long before the
rest, at (5, 5) both rise together:

    --network transformer --num-terms 2,5 --moduli 31,5 --matched 53,5 --width 64 --weight-decay 1
    --penalty 0 --learning-rate 0.003 --batch-size 256 --num-steps 1500

takes some five minutes. But at (2, 97), with ten times as many examples, the two came almost
together as well: a trend in this pairing is one of the amount of data as much as of k.
`paper` is the source's own transformer, of 160 heads and 10⁵ steps: hours on an accelerator, and
days on a laptop.

Source: shi · exp-grokking-k · Fig. 4.4.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure

from theorylab.claims import Finding, Source
from theorylab.claims.judges import at_least, at_most, holds
from theorylab.data.modular import all_sums, num_sums, split_sums
from theorylab.experiments.drawing import COLOURS, curves, label_axes, panels
from theorylab.features.fourier.learning import (
    AdditionRecipe,
    Curves,
    delay,
    learn_addition,
    solved_at,
)
from theorylab.features.fourier.polynomial import group_norm, initial_neurons, polynomial_network
from theorylab.features.fourier.transformer import AdditionTransformer, weight_norm
from theorylab.fields import Count, Increasing, NonNegative, OpenFraction, Positive, Seeded, Several
from theorylab.numerics import jonckheere
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._sums import Case, paired

PRECISION = "float32"
FORMULA = r"S = \log(t_{\mathrm{test}} / t_{\mathrm{train}})"

GROKKING = Source("shi", "exp-grokking-k", "Fig. 4.4")
SIZES = Source("shi", "exp-grokking-k", "§4.5, sizes of the data sets")

FIXED = 5  # one p, for all k of three or more
CONTROL_FRACTION = 0.9  # of all sums, for one more case, which should not grok


@dataclass(frozen=True)
class Config(Seeded):
    """Networks that learn a part of all sums, for several numbers of terms."""

    num_terms: Increasing[Count] = (2, 3, 4, 5)  # k
    moduli: Several[Count] = (97, 31, 11, 5)  # p of the source, one for each k
    matched: Several[Count] = (53, 13, 7, 5)  # p for which the sets are about equally large
    fraction: OpenFraction = 0.5  # of all sums that are trained on
    network: Literal["polynomial", "transformer"] = "polynomial"
    width: Count = 256  # neurons of the polynomial network, or of a transformer's layer
    channels: Count = 32  # of the transformer
    num_heads: Count = 4  # of the transformer
    head_width: Count = 8  # of the transformer
    depth: Count = 1  # of the transformer
    penalty: NonNegative = 0.005  # λ, in front of the norm
    weight_decay: NonNegative = 0.0  # of AdamW
    learning_rate: Positive = 0.005  # of AdamW
    batch_size: Count = 512  # examples in a step, or all if they are fewer
    num_steps: Count = 2000
    num_seeds: Count = 3  # networks of each case, as the source has them

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_terms[-1] < 3:
            raise ValueError(f"num_terms must increase to 3 or more, got {self.num_terms}.")
        if self.depth > 100:
            raise ValueError(f"depth must be at most 100, got {self.depth}.")
        for case in self.cases:
            if num_sums(*case) > 10**7:
                raise ValueError(f"modulus^num_terms must be at most 10⁷, got {case}.")
            self.transformer(*case)  # refuses the rest

    @property
    def pairings(self) -> tuple[list[Case], list[Case], list[Case]]:
        """(k, p) as the source has them, with sets that are equally large, and with one p."""
        fixed = [(k, FIXED) for k in self.num_terms if k >= 3]
        return paired(self.num_terms, self.moduli), paired(self.num_terms, self.matched), fixed

    @property
    def cases(self) -> list[Case]:
        """All different (k, p), those of the source first."""
        return list(dict.fromkeys(case for pairing in self.pairings for case in pairing))

    @property
    def steps(self) -> np.ndarray:
        """When accuracies are recorded."""
        return np.unique(np.round(np.geomspace(1, self.num_steps, 40)).astype(int))

    def transformer(self, num_terms: int, modulus: int) -> AdditionTransformer:
        """The transformer of one case."""
        shape = (self.channels, self.num_heads, self.head_width, self.depth, self.width)
        return AdditionTransformer(num_terms, modulus, *shape, normalize=True)


PRESETS = {
    "smoke": Config(
        num_terms=(2, 3),
        moduli=(37, 5),
        matched=(11, 5),
        width=64,
        penalty=0.05,
        batch_size=1000,
        num_steps=500,
    ),
    "paper": Config(
        network="transformer",
        width=512,
        channels=128,
        num_heads=160,
        head_width=32,
        depth=2,
        penalty=0.0,
        weight_decay=0.001,
        learning_rate=0.001,
        batch_size=1024,
        num_steps=100000,
    ),
}


class Result(NamedTuple):
    """What was measured: terms (k), those of three or more (h), seeds (s), records (t)."""

    source: Float[Measured, "k s"]  # delays S
    matched: Float[Measured, "k s"]
    fixed: Float[Measured, "h s"]
    censored: Bool[Measured, "2 k s"]  # of the source, matched: the test was not passed
    fixed_censored: Bool[Measured, "h s"]
    control: Float[Measured, " s"]  # delays with most of the sums to train on, matched first k
    p_values: Float[Measured, "2 2"]  # of a fall: source, matched; never is the end, or last
    curves: Float[Measured, "k 2 s t"]  # accuracies of the source's cases: training, test


def memory(config: Config) -> int:
    """Bytes of the hidden and output layers of two networks on a batch, or on 4096 sums."""
    together = max(4096, config.batch_size)
    if config.network == "polynomial":
        units = max(together * (config.width + case[1]) for case in config.cases)
    else:
        hidden = 4 * config.num_heads * config.head_width + 2 * config.width + config.channels
        places = max(together * case[0] for case in config.cases)
        units = config.depth * hidden * (places + 6 * config.channels)
    listed = max(num_sums(*case) * (case[0] + 2) for case in config.cases)
    kept = config.num_seeds * len(config.cases) * 2 * len(config.steps)
    return 4 * 2 * (3 * (units + listed) + kept)


def run(config: Config) -> Result:
    """Train all cases, and read off when training and test examples were learned."""
    asked = [(case, config.fraction) for case in config.cases]
    asked.append(((config.num_terms[0], config.matched[0]), CONTROL_FRACTION))
    accuracies, delays, missed = [], [], []
    for place, (case, fraction) in enumerate(asked):
        report(f"training on sums of {case[0]} terms modulo {case[1]}", place / len(asked))
        found = _trained(case, fraction, config)
        train, test = (solved_at(config.steps, part) for part in (found.train, found.test))
        accuracies.append(np.stack([found.train, found.test]))
        delays.append(delay(train, test, config.num_steps))
        missed.append(np.isnan(test))

    def chosen(values: list[np.ndarray], pairing: list[Case]) -> np.ndarray:
        return np.stack([values[config.cases.index(case)] for case in pairing])

    *both, fixed = config.pairings
    source, matched = (chosen(delays, pairing) for pairing in both)
    censored = np.stack([chosen(missed, pairing) for pairing in both])
    return Result(
        source=source,
        matched=matched,
        fixed=chosen(delays, fixed),
        censored=censored,
        fixed_censored=chosen(missed, fixed),
        control=delays[-1],
        p_values=np.array([_falls(source, censored[0]), _falls(matched, censored[1])]),
        curves=chosen(accuracies, both[0]),
    )


def _trained(case: Case, fraction: float, config: Config) -> Curves:
    """Accuracies of all seeds at the recorded steps."""
    sums, model = all_sums(*case), config.transformer(*case)
    seen = round(fraction * num_sums(*case))
    recipe = AdditionRecipe(
        learning_rate=config.learning_rate,
        penalty=config.penalty,
        weight_decay=config.weight_decay,
        batch_size=config.batch_size if config.batch_size < seen else 0,
    )

    def one(key: RandomKey) -> Curves:
        start_key, split_key, batch_key = jax.random.split(key, 3)
        parts = split_sums(split_key, sums, fraction)
        if config.network == "polynomial":
            start = initial_neurons(start_key, *case, config.width)
            network = (polynomial_network, group_norm)
        else:
            start, network = model.init(start_key), (model.apply, weight_norm)
        steps = config.steps.tolist()
        return learn_addition(batch_key, *network, start, parts, recipe, steps).records

    # By the case and not by its place, so that a case is the same in every pairing.
    key = jax.random.fold_in(jax.random.key(config.seed), 1000 * case[0] + case[1])
    found = ensemble(one, jax.random.split(key, config.num_seeds))
    return jax.tree.map(np.asarray, found)


def _falls(delays: np.ndarray, censored: np.ndarray) -> list[float]:
    """Jonckheere's p-values of a fall with k, where a test that was not passed counts in two ways.

    As passed at the end, the shortest delay that is possible; and as longer than all others.
    """
    last = np.where(censored, np.max(delays) + 1, delays)
    return [jonckheere(values, "less").p_value for values in (delays, last)]


def _trend(result: Result, config: Config) -> Finding:
    """P ≤ 5 % for transformers and P > 5 % for polynomial networks, however censored runs count."""
    first, second = result.p_values[0]
    agree = (first <= 0.05) == (second <= 0.05)
    p_value = max(first, second) if agree else np.nan
    is_transformer = config.network == "transformer"
    return at_most(p_value, 0.05) if is_transformer else at_least(p_value, 0.05)


def _spread(num_terms: tuple[int, ...], moduli: tuple[int, ...]) -> float:
    """The largest number of sums over the smallest."""
    sizes = [num_sums(*case) for case in paired(num_terms, moduli)]
    return max(sizes) / min(sizes)


def _passed(result: Result) -> np.ndarray:
    """Delays in the source's pairing where the test was passed; NaN if it never was."""
    delays = result.source[~result.censored[0]]
    return delays if delays.size else np.full(1, np.nan)


# The source has no number; the catalogue asks for Jonckheere's test at 5 %. A delay by half of the
# time counts as grokking. Seeds on which these were tried: 100 and 7.
CLAIMS = (
    GROKKING.claim(
        "Where the other half is learned, it is learned later: the test takes ½ longer.",
        lambda r, c: holds(_passed(r) - np.log(1.5)),
    ),
    GROKKING.claim(
        "With k the delay falls for transformers, and not for polynomial networks (P = 5 %).",
        _trend,
    ),
    SIZES.corrected(
        "For as many terms, fewer sums mean a longer delay: k is not all.",
        lambda r, c: holds(r.matched[0] - r.source[0]),
    ),
    *SIZES.erratum(
        printed=(
            "The source's sets are about equally large: at most 1.5 times as large as another.",
            lambda r, c: at_most(_spread(c.num_terms, c.moduli), 1.5),
        ),
        corrected=(
            "The matched sets are: the largest is at most 1.5 times the smallest.",
            lambda r, c: at_most(_spread(c.num_terms, c.matched), 1.5),
        ),
    ),
    GROKKING.control(
        "With 90 % of the sums to train on, the delay is shorter than with 50 %.",
        lambda r, c: holds(r.matched[0] - r.control),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Accuracies of the source's cases, and delays in all three pairings."""
    figure, (course, delays) = panels(
        "the source's pairing: training (–), test (··)", "delay log(t_test/t_train)"
    )
    for place, k in enumerate(config.num_terms):
        train, test = result.curves[place]
        curves(course, config.steps, {f"k = {k}": train}, "-", place)
        curves(course, config.steps, {"_": test}, ":", place)
    label_axes(course, "steps", "accuracy", logarithmic="x")
    measured = (result.source, result.matched, result.fixed)
    never = (*result.censored, result.fixed_censored)
    names = ("the source's sizes", "equal sizes", "one p")
    for place, pairing in enumerate(config.pairings):
        values, missed = measured[place], never[place]
        terms = np.array([[k] for k, _ in pairing]) + 0.1 * (place - 1) + 0 * values
        colour = COLOURS[place]
        delays.plot(terms[~missed], values[~missed], "o", color=colour, label=names[place])
        delays.plot(terms[missed], values[missed], "^", color=colour)
    label_axes(delays, "terms k (triangles: at least)")
    delays.legend(fontsize=7)
    return figure
