"""Grokking of sums: how long after the training examples the others are learned, for more terms.

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
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Finding, Source, at_least, at_most, holds
from theorylab.data import all_sums, split_sums
from theorylab.data.modular import num_sums
from theorylab.experiments.checks import refuse_below, refuse_negative, refuse_nonpositive
from theorylab.experiments.drawing import COLOURS, panels
from theorylab.features.fourier import (
    AdditionRecipe,
    Curves,
    Transformer,
    delay,
    group_norm,
    initial_neurons,
    learn_addition,
    polynomial_network,
    solved_at,
    weight_norm,
)
from theorylab.numerics import jonckheere
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"S = \log(t_{\mathrm{test}} / t_{\mathrm{train}})"

GROKKING = Source("shi", "exp-grokking-k", "Fig. 4.4")
SIZES = Source("shi", "exp-grokking-k", "§4.5, sizes of the data sets")


@dataclass(frozen=True)
class Config:
    """Networks that learn a part of all sums, for several numbers of terms."""

    num_terms: tuple[int, ...] = (2, 3, 4, 5)  # k, increasing
    moduli: tuple[int, ...] = (97, 31, 11, 5)  # p of the source, one for each k
    matched: tuple[int, ...] = (53, 13, 7, 5)  # p for which the sets are about equally large
    fixed: int = 5  # one p, for all k of three or more
    fraction: float = 0.5  # of all sums that are trained on
    control_fraction: float = 0.9  # the same for one more case, which should not grok
    network: Literal["polynomial", "transformer"] = "polynomial"
    width: int = 256  # neurons of the polynomial network, or of a transformer's layer
    channels: int = 32  # of the transformer
    num_heads: int = 4  # of the transformer
    head_width: int = 8  # of the transformer
    num_layers: int = 1  # of the transformer
    penalty: float = 0.005  # λ, in front of the norm
    weight_decay: float = 0.0  # of AdamW
    learning_rate: float = 0.005  # of AdamW
    batch_size: int = 512  # examples in a step, or all if they are fewer
    num_steps: int = 2000
    num_seeds: int = 3  # networks of each case, as the source has them
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_negative(self)
        if not len(self.num_terms) == len(self.moduli) == len(self.matched) or not self.num_terms:
            raise ValueError(
                "num_terms, moduli and matched must be as many and not none, "
                f"got {self.num_terms}, {self.moduli} and {self.matched}."
            )
        if sorted(set(self.num_terms)) != list(self.num_terms) or max(self.num_terms) < 3:
            raise ValueError(f"num_terms must increase, to 3 or more, got {self.num_terms}.")
        refuse_below(self, 1, "width", "batch_size", "num_steps", "num_seeds")
        for name in ("fraction", "control_fraction"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be in (0, 1), got {getattr(self, name)}.")
        for name in ("penalty", "weight_decay"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}.")
        refuse_nonpositive(self, "learning_rate")
        for case in self.cases:
            if num_sums(*case) > 10**7:
                raise ValueError(f"modulus^num_terms must be at most 10⁷, got {case}.")
            self.transformer(*case)  # refuses the rest

    @property
    def cases(self) -> list[tuple[int, int]]:
        """All different (k, p), those of the source first."""
        fixed = [(k, self.fixed) for k in self.num_terms if k >= 3]
        chosen = [*zip(self.num_terms, self.moduli, strict=True)]
        chosen += [*zip(self.num_terms, self.matched, strict=True), *fixed]
        return list(dict.fromkeys(chosen))

    def transformer(self, num_terms: int, modulus: int) -> Transformer:
        """The transformer of one case."""
        shape = (self.channels, self.num_heads, self.head_width, self.num_layers, self.width)
        return Transformer(num_terms, modulus, *shape, normalize=True)


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
        num_layers=2,
        penalty=0.0,
        weight_decay=0.001,
        learning_rate=0.001,
        batch_size=1024,
        num_steps=100000,
    ),
}


class Result(NamedTuple):
    """What was measured: axes terms (k), those of three or more (h), seeds (s), records (t)."""

    transformer: bool
    num_terms: Int[np.ndarray, " k"]
    sizes: Int[np.ndarray, "2 k"]  # pᵏ: of the source, matched
    source: Float[np.ndarray, "k s"]  # delays S
    matched: Float[np.ndarray, "k s"]
    fixed: Float[np.ndarray, "h s"]
    censored: Bool[np.ndarray, "2 k s"]  # of the source, matched: the test was not passed
    fixed_censored: Bool[np.ndarray, "h s"]
    control: Float[np.ndarray, " s"]  # delays with most of the sums to train on, matched first k
    p_values: Float[np.ndarray, "2 2"]  # of a fall: source, matched; never is the end, or last
    steps: Int[np.ndarray, " t"]
    curves: Float[np.ndarray, "k 2 s t"]  # accuracies of the source's cases: training, test


def memory(config: Config) -> int:
    """Bytes of the hidden and output layers of two networks on a batch, or on 4096 sums."""
    together = max(4096, config.batch_size)
    if config.network == "polynomial":
        units = max(together * (config.width + case[1]) for case in config.cases)
    else:
        hidden = 4 * config.num_heads * config.head_width + config.width
        units = max(together * case[0] * hidden for case in config.cases)
    return 4 * 2 * 3 * (units + max(num_sums(*case) * (case[0] + 2) for case in config.cases))


def run(config: Config) -> Result:
    """Train all cases, and read off when training and test examples were learned."""
    steps = np.unique(np.round(np.geomspace(1, config.num_steps, 40)).astype(int))
    key = jax.random.key(config.seed)
    control = (config.num_terms[0], config.matched[0])
    asked = [(case, config.fraction) for case in config.cases]
    asked.append((control, config.control_fraction))
    runs = []
    for place, (case, fraction) in enumerate(asked):
        report(f"training on sums of {case[0]} terms modulo {case[1]}", place / len(asked))
        # By the case and not by its place, so that a case is the same in every pairing.
        case_key = jax.random.fold_in(key, 1000 * case[0] + case[1])
        curves = _trained(case_key, case, fraction, config, steps.tolist())
        runs.append(np.stack([curves.train, curves.test]))
    solved = [[solved_at(steps, part) for part in curves] for curves in runs]
    delays = [delay(train, test, config.num_steps) for train, test in solved]
    missed = [np.isnan(test) for _, test in solved]
    place_of = {case: place for place, case in enumerate(config.cases)}

    def chosen(values: list[np.ndarray], moduli: tuple[int, ...], terms: list[int]) -> np.ndarray:
        pairs = zip(terms, moduli, strict=True)
        return np.stack([values[place_of[pair]] for pair in pairs])

    terms = list(config.num_terms)
    many = [k for k in terms if k >= 3]
    same = (config.fixed,) * len(many)
    source, matched = (chosen(delays, p, terms) for p in (config.moduli, config.matched))
    censored = np.stack([chosen(missed, p, terms) for p in (config.moduli, config.matched)])
    both = [
        [num_sums(*case) for case in zip(terms, p, strict=True)]
        for p in (config.moduli, config.matched)
    ]
    return Result(
        transformer=config.network == "transformer",
        num_terms=np.array(terms),
        sizes=np.array(both),
        source=source,
        matched=matched,
        fixed=chosen(delays, same, many),
        censored=censored,
        fixed_censored=chosen(missed, same, many),
        control=delays[-1],
        p_values=np.array([_falls(source, censored[0]), _falls(matched, censored[1])]),
        steps=steps,
        curves=chosen(runs, config.moduli, terms),
    )


def _trained(
    key: RandomKey, case: tuple[int, int], fraction: float, config: Config, steps: list[int]
) -> Curves:
    """Accuracies of all seeds at the steps."""
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
        return learn_addition(batch_key, *network, start, parts, recipe, steps).records

    return jax.tree.map(np.asarray, ensemble(one, jax.random.split(key, config.num_seeds)))


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
    return at_most(p_value, 0.05) if result.transformer else at_least(p_value, 0.05)


def _passed(result: Result) -> np.ndarray:
    """Delays in the source's pairing where the test was passed; NaN if it never was."""
    delays = result.source[~result.censored[0]]
    return delays if delays.size else np.full(1, np.nan)


# The source has no number; the catalogue asks for Jonckheere's test at 5 %. A delay by half of the
# time counts as grokking. Seeds on which these were tried: 100 and 7.
CLAIMS = (
    Claim(
        "Where the other half is learned, it is learned later: the test takes ½ longer.",
        judge=lambda r, c: holds(_passed(r) - np.log(1.5)),
        source=GROKKING,
    ),
    Claim(
        "With k the delay falls for transformers, and not for polynomial networks (P = 5 %).",
        judge=_trend,
        source=GROKKING,
    ),
    Claim(
        "For as many terms, fewer sums mean a longer delay: k is not all.",
        judge=lambda r, c: holds(r.matched[0] - r.source[0]),
        source=SIZES,
        kind="corrected",
    ),
    Claim(
        "The source's sets are about equally large, the largest at most 1.5 times the smallest.",
        judge=lambda r, c: at_most(r.sizes[0].max() / r.sizes[0].min(), 1.5),
        source=SIZES,
        kind="printed",
    ),
    Claim(
        "The matched sets are: the largest is at most 1.5 times the smallest.",
        judge=lambda r, c: at_most(r.sizes[1].max() / r.sizes[1].min(), 1.5),
        source=SIZES,
        kind="corrected",
    ),
    Claim(
        "With 90 % of the sums to train on, the delay is shorter than with 50 %.",
        judge=lambda r, c: holds(r.matched[0] - r.control),
        source=GROKKING,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Accuracies of the source's cases, and delays in all three pairings."""
    figure, axes = panels(
        "the source's pairing: training (–), test (··)", "delay log(t_test/t_train)"
    )
    for place, k in enumerate(result.num_terms):
        for part, line in enumerate("-:"):
            colour = COLOURS[place % len(COLOURS)]
            accuracies = result.curves[place, part].T
            curves = axes[0].semilogx(result.steps, accuracies, line, color=colour)
            curves[0].set_label(f"k = {k}" if part == 0 else "_")
    axes[0].set_xlabel("steps")
    axes[0].set_ylabel("accuracy")
    axes[0].legend(frameon=False, fontsize=8)
    pairings = (
        ("the source's sizes", result.num_terms, result.source, result.censored[0]),
        ("equal sizes", result.num_terms, result.matched, result.censored[1]),
        ("one p", result.num_terms[result.num_terms >= 3], result.fixed, result.fixed_censored),
    )
    for place, (label, terms, delays, censored) in enumerate(pairings):
        where = np.broadcast_to(terms[:, None] + 0.1 * (place - 1), delays.shape)
        colour = COLOURS[place]
        axes[1].plot(where[~censored], delays[~censored], "o", color=colour, label=label)
        axes[1].plot(where[censored], delays[censored], "^", color=colour)
    axes[1].set_xlabel("terms k (triangles: at least)")
    axes[1].legend(frameon=False, fontsize=8)
    return figure
