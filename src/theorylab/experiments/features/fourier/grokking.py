"""Sums that were held out are learned later than those trained on: grokking, by number of terms.

Networks learn half of all pᵏ sums of k numbers modulo p. First they memorise their examples, and
much later they know the rest: they grok. The strength of it is the delay S = log(t_test/t_train),
with t the first recorded step of 99 % accuracy; a test that is not passed until the end counts as
passed then, which is a lower bound, and is marked. The source trains transformers at (k, p) =
(2, 97), (3, 31), (4, 11), (5, 5), says that these sets are about equally large, and finds that
grokking weakens with k. They have 3125 to 29791 sums, so that k goes with the amount of data: for
two terms, fewer sums alone make the delay longer.

The source's claim is of its transformers, of 160 heads and 10⁵ steps, and is judged of nothing
else (`paper`, in 4 GB: 18 networks, each a block; by the count of operations hours of a GPU for
all, more than a day of a core for each). A transformer of 4 heads at the same (k, p) did not learn
its examples of three to five terms in 3000 steps (key 7). By default the networks are polynomial
ones, which grok within a minute.

Source: shi · exp-grokking-k · Fig. 4.4.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure

from theorylab.claims import Finding, Source
from theorylab.claims.judges import at_most, holds, identity
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
from theorylab.fields import (
    Count,
    Increasing,
    NonNegative,
    OpenFraction,
    Positive,
    Seeded,
    Several,
    within,
)
from theorylab.numerics import jonckheere
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._sums import Case, paired

PRECISION = "float32"
FORMULA = r"S = \log(t_{\mathrm{test}} / t_{\mathrm{train}})"

GROKKING = Source("shi", "exp-grokking-k", "Fig. 4.4")
SIZES = Source("shi", "exp-grokking-k", "§4.5, sizes of the data sets")

SOURCE_CASES = [(2, 97), (3, 31), (4, 11), (5, 5)]  # (k, p)
CONTROL_FRACTION = 0.9  # of all sums, for one more case, which should not grok


@dataclass(frozen=True)
class Config(Seeded):
    """Networks that learn a part of all sums, for several numbers of terms."""

    num_terms: Increasing[Count] = (2, 3, 4, 5)  # k
    moduli: Several[Count] = (97, 31, 11, 5)  # p of the source, one for each k
    fewer: Count = 53  # a smaller p for the fewest terms, to have fewer sums
    fraction: OpenFraction = 0.5  # of all sums that are trained on
    network: Literal["polynomial", "transformer"] = "polynomial"
    width: Count = 256  # neurons of the polynomial network, or of a transformer's layer
    channels: Count = 32  # of the transformer
    num_heads: Count = 4  # of the transformer
    head_width: Count = 8  # of the transformer
    depth: Annotated[int, within(1, 100)] = 1  # of the transformer
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
        for case in self.cases:
            if num_sums(*case) > 10**7:
                raise ValueError(f"modulus^num_terms must be at most 10⁷, got {case}.")
            self.transformer(*case)  # refuses the rest

    @property
    def cases(self) -> list[Case]:
        """(k, p) of every number of terms, and of the fewest terms with fewer sums."""
        return [*paired(self.num_terms, self.moduli), (self.num_terms[0], self.fewer)]

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
        fewer=11,
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
    """What was measured: numbers of terms (k), seeds (s), records (t)."""

    delay: Float[Measured, "k s"]  # S
    censored: Bool[Measured, "k s"]  # the test was not passed
    fewer: Float[Measured, " s"]  # S of the fewest terms with fewer sums
    control: Float[Measured, " s"]  # the same with most of the sums to train on
    curves: Float[Measured, "k 2 s t"]  # accuracies: training, test


def memory(config: Config) -> int:
    """Bytes of the layers of two networks on a batch, or on 4096 sums that are tested, and of sums.

    Of a transformer, training keeps every layer, testing the widest one.
    """
    units = max(_units(case, config) for case in config.cases)
    listed = max(num_sums(*case) * (case[0] + 2) for case in config.cases)
    kept = config.num_seeds * len(config.cases) * 2 * len(config.steps)
    return 4 * 2 * (units + 3 * listed + kept)


def _units(case: Case, config: Config) -> int:
    """Numbers that a network of one case holds, with its weights."""
    tested = min(4096, num_sums(*case))
    if config.network == "polynomial":
        return 3 * max(tested, config.batch_size) * (config.width + case[1])
    hidden = 4 * config.num_heads * config.head_width + 2 * config.width + config.channels
    trained = 2 * config.depth * config.batch_size
    weights = 8 * config.depth * config.channels
    return hidden * (case[0] * max(5 * tested // 4, trained) + weights)


def run(config: Config) -> Result:
    """Train all cases, and read off when training and test examples were learned."""
    asked = [(case, config.fraction) for case in config.cases]
    asked.append((config.cases[-1], CONTROL_FRACTION))
    accuracies = []
    for place, (case, fraction) in enumerate(asked):
        report(f"training on sums of {case[0]} terms modulo {case[1]}", place / len(asked))
        found = _trained(case, fraction, config)
        accuracies.append(np.stack([found.train, found.test]))
    curves = np.stack(accuracies)
    train, test = (solved_at(config.steps, curves[:, part]) for part in (0, 1))
    delays = delay(train, test, config.num_steps)
    return Result(
        delay=delays[:-2],
        censored=np.isnan(test)[:-2],
        fewer=delays[-2],
        control=delays[-1],
        curves=curves[:-2],
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

    key = jax.random.fold_in(jax.random.key(config.seed), 1000 * case[0] + case[1])
    found = ensemble(one, jax.random.split(key, config.num_seeds))
    return jax.tree.map(np.asarray, found)


def falls(delays: np.ndarray, censored: np.ndarray) -> list[float]:
    """Jonckheere's p-values of a fall with k, where a test that was not passed counts in two ways.

    As passed at the end, the shortest delay that is possible; and as longer than all others.
    """
    last = np.where(censored, np.max(delays) + 1, delays)
    return [jonckheere(values, "less").p_value for values in (delays, last)]


def _trend(result: Result) -> Finding:
    """P ≤ 5 %, however censored runs count; nothing is said if the two ways disagree."""
    first, second = falls(result.delay, result.censored)
    agree = (first <= 0.05) == (second <= 0.05)
    return at_most(max(first, second) if agree else np.nan, 0.05)


def _passed(result: Result) -> np.ndarray:
    """Delays where the test was passed; NaN if it never was."""
    delays = result.delay[~result.censored]
    return delays if delays.size else np.full(1, np.nan)


def _spread() -> float:
    """The largest of the source's sets over the smallest."""
    sizes = [num_sums(*case) for case in SOURCE_CASES]
    return max(sizes) / min(sizes)


AS_IN_SOURCE = 'network == "transformer" and num_heads >= 160 and num_steps >= 100000'

CLAIMS = (
    GROKKING.claim(
        "There is grokking in all four cases: in every run the test takes ½ longer, or more.",
        lambda r, c: holds(r.delay - np.log(1.5)),
        quote="There is a grokking phenomenon in all figures",
        regime=AS_IN_SOURCE,
        demand="lab: ½ longer; the source has pictures",
    ),
    GROKKING.claim(
        "As k increases, grokking weakens: the delay falls (P ≤ 5 %).",
        lambda r, c: _trend(r),
        quote="as k increases, the grokking phenomenon becomes weak",
        regime=AS_IN_SOURCE,
        demand="lab: Jonckheere's test at 5 %; the source has pictures",
    ),
    GROKKING.found(
        "Polynomial networks grok: where the other half is learned, the test takes ½ longer.",
        lambda r, c: holds(_passed(r) - np.log(1.5)),
        regime='network == "polynomial"',
        demand="lab: ½ longer, tried on seeds 100 and 7",
    ),
    SIZES.found(
        "For as many terms, fewer sums mean a longer delay: k is not all.",
        lambda r, c: holds(r.fewer - r.delay[0]),
        regime='network == "polynomial"',
    ),
    SIZES.printed(
        "The source's sets are about equally large: at most 1.5 times as large as another.",
        lambda r, c: at_most(_spread(), 1.5),
        quote="guarantee the dataset sizes are roughly equal to each other",
        demand="lab: 1.5 times for roughly",
    ),
    SIZES.corrected(
        "The largest of the source's sets is 9.53 times as large as the smallest.",
        lambda r, c: identity(_spread(), 29791 / 3125, 1e-12),
        formula=r"31^3 / 5^5 = 9.53",
    ),
    GROKKING.control(
        "With 90 % of the sums to train on, the delay is shorter than with 50 %.",
        lambda r, c: holds(r.fewer - r.control),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Accuracies in training, and delays."""
    figure, (course, delays) = panels("training (–), test (··)", "delay log(t_test/t_train)")
    for place, k in enumerate(config.num_terms):
        train, test = result.curves[place]
        curves(course, config.steps, {f"k = {k}": train}, "-", place)
        curves(course, config.steps, {"_": test}, ":", place)
    label_axes(course, "steps", "accuracy", logarithmic="x")
    terms = np.array(config.num_terms)[:, None] + 0 * result.delay
    missed = np.asarray(result.censored)
    delays.plot(terms[~missed], result.delay[~missed], "o", label="all sums")
    delays.plot(terms[missed], result.delay[missed], "^", color=COLOURS[0])
    delays.plot(0.1 + terms[0], result.fewer, "s", color=COLOURS[1], label="fewer sums")
    label_axes(delays, "terms k (triangles: at least)")
    delays.legend(fontsize=7)
    return figure
