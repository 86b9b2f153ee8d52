"""Trained to add modulo p, attention heads have scores of one pair of frequencies.

A transformer of one layer, attention only, learns sums of k numbers by AdamW on cross-entropy +
λ‖θ‖, the norm of all weights. The scores of a head between the p tokens, Aₕ = E W_Q (E W_K)ᵀ, are
then a matrix with one pair of frequencies, where at the start they had all of them; heads that are
not needed die out. Without the penalty the sums are learned as well, and the heads stay mixed.

By default it learns all sums, so that accuracy says that they were fitted, not more: of one sum in
ten that is held out, at these sizes, it knows less than 99 %. The source trains on half of them, at
p from 17 to 61 and with 160 heads (`paper`: hours on an accelerator). What is said of heads is said
of networks that know 99 % of all sums, if nine in ten do; if not, nothing is said. Heads count as
live if the deviation of their scores from the mean is a tenth of the largest head's or more; the
mean is no frequency, and signs of frequencies do not count.

The default has two terms. For three

    --num-terms 3 --moduli 7 --num-seeds 6 --num-steps 4000

takes three minutes of one core. Six networks of six learn the sums then (seed 101), and live heads
have 42 to 75 % of their power at one pair of frequencies, in the median 2.7 times what they had at
the start: on the way to what the source shows for its larger p, too few to tell ½ and 3 times.

Source: shi · exp-attention-fourier · Figs 4.3, C.5, C.6; shi · fourier-meters · §4.5.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source
from theorylab.claims.judges import median_at_least, median_at_most, ordered, probability_at_least
from theorylab.data.modular import all_sums, num_sums, split_sums
from theorylab.experiments.drawing import image, label_axes, panels
from theorylab.features.fourier.learning import AdditionRecipe, learn_addition, scores
from theorylab.features.fourier.spectra import attention_concentration, attention_power
from theorylab.features.fourier.transformer import AdditionTransformer, token_scores, weight_norm
from theorylab.fields import Count, Fraction, Odd, Positive, Seeded, Several, Whole
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._sums import Case, by_case, paired

PRECISION = "float32"
FORMULA = r"A_h = E W_Q (E W_K)^\top \propto \cos(2\pi j_1 a/p + \varphi)\cos(2\pi j_2 b/p + \psi)"

WAVES = Source("shi", "exp-attention-fourier", "Figs 4.3, C.5, C.6")

LIVE = 0.1  # the least deviation of a live head's scores, as a part of the largest
HELD_OUT = 0.1  # of all sums, for one more run of the first case


@dataclass(frozen=True)
class Config(Seeded):
    """Transformers of one layer that learn sums, with and without a penalty on the norm."""

    num_terms: Several[Count] = (2, 2)  # k, one for each case
    moduli: Several[Odd] = (7, 11)  # p, one for each case
    fraction: Fraction = 1.0  # of all sums that are trained on
    penalty: Positive = 0.01  # λ, in front of the norm
    channels: Count = 32
    num_heads: Count = 8
    head_width: Count = 8
    learning_rate: Positive = 0.005  # of AdamW
    batch_size: Whole = 0  # examples in a step; 0: all
    num_steps: Count = 1500
    num_seeds: Count = 16  # networks of each case; six leave the second claim open

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.moduli) < 5:
            raise ValueError(f"moduli must be at least 5, got {self.moduli}.")
        if self.fraction == 0:
            raise ValueError("fraction must be positive, got 0.")
        _ = [self.model(*case) for case in self.cases]  # they refuse the rest

    @property
    def cases(self) -> list[Case]:
        """(k, p) of every case."""
        return paired(self.num_terms, self.moduli)

    def model(self, num_terms: int, modulus: int) -> AdditionTransformer:
        """The transformer of one case."""
        return AdditionTransformer(
            num_terms, modulus, self.channels, self.num_heads, self.head_width
        )


PRESETS = {
    "smoke": Config(num_terms=(2,), moduli=(7,), num_steps=800, num_seeds=6),
    "paper": Config(
        num_terms=(3, 4, 5),
        moduli=(61, 31, 17),
        fraction=0.5,
        penalty=0.001,
        channels=128,
        num_heads=160,
        head_width=32,
        learning_rate=0.001,
        batch_size=1024,
        num_steps=50000,
        num_seeds=6,
    ),
}


class Heads(NamedTuple):
    """What is measured about trained transformers: seeds (s), heads (h)."""

    before: Float[Array, "*s h"]  # concentration of every head before training
    after: Float[Array, "*s h"]  # and after
    live: Bool[Array, "*s h"]
    accuracy: Float[Array, "*s"]  # on all sums
    test: Float[Array, "*s"]  # on those that were not trained on
    scores: Float[Array, "*s p p"]  # of the largest head
    powers: Float[Array, "*s f f"]  # of the same


class Result(NamedTuple):
    """What was measured: cases (c), seeds (s), heads (h)."""

    accuracy: Float[Measured, "c s"]
    before: Float[Measured, "c s"]  # median concentration of heads before training
    after: Float[Measured, "c s"]  # and of live heads after
    free: Float[Measured, "c s"]  # the same without the penalty
    free_accuracy: Float[Measured, "c s"]
    held_out: Float[Measured, " s"]  # accuracy of the first case on sums that were held out
    num_live: Int[Measured, "c s"]
    heads: Float[Measured, "2 h"]  # of the first case's first seed: before, after (dead: NaN)
    scores: Float[Measured, "p p"]  # of its largest head
    powers: Float[Measured, "f f"]


def memory(config: Config) -> int:
    """Bytes of queries, keys and values of two networks on one batch, with gradients."""
    counts = [(num_sums(*case), case[0]) for case in config.cases]
    places = max(max(config.batch_size or n, min(4096, n)) * k for n, k in counts)
    listed = max(n * (k + 2) for n, k in counts)
    width, largest = config.num_heads * config.head_width, max(config.moduli)
    weights = config.channels * (4 * width + 2 * largest) + config.num_heads * largest**2
    kept = 2 * config.num_seeds * (2 * largest**2 + 3 * config.num_heads)
    return 4 * 2 * (3 * 4 * places * (width + config.channels) + 3 * listed + 6 * weights + kept)


def run(config: Config) -> Result:
    """Train every case with and without the penalty, from the same starts."""
    penalized: list[Heads] = []
    free: list[Heads] = []
    for place, case in enumerate(config.cases):
        report(f"training on sums of {case[0]} terms modulo {case[1]}", place / len(config.cases))
        key = jax.random.fold_in(jax.random.key(config.seed), place)
        both = _trained(key, case, config, config.fraction, (config.penalty, 0.0))
        penalized.append(jax.tree.map(lambda leaf: leaf[: config.num_seeds], both))
        free.append(jax.tree.map(lambda leaf: leaf[config.num_seeds :], both))
    report("training with sums held out", 0.9)
    key = jax.random.fold_in(jax.random.key(config.seed), len(config.cases))
    held = _trained(key, config.cases[0], config, 1 - HELD_OUT, (config.penalty,))
    first = jax.tree.map(lambda leaf: leaf[0], penalized[0])
    return Result(
        accuracy=np.stack([case.accuracy for case in penalized]),
        before=np.stack([np.median(case.before, axis=1) for case in penalized]),
        after=np.stack([_live_median(case) for case in penalized]),
        free=np.stack([_live_median(case) for case in free]),
        free_accuracy=np.stack([case.accuracy for case in free]),
        held_out=held.test,
        num_live=np.stack([case.live.sum(axis=1) for case in penalized]),
        heads=np.stack([first.before, np.where(first.live, first.after, np.nan)]),
        scores=first.scores,
        powers=first.powers,
    )


def _trained(
    key: RandomKey, case: Case, config: Config, fraction: float, penalties: tuple[float, ...]
) -> Heads:
    """Transformers of all seeds, with one penalty after the other, and measured."""
    sums, model = all_sums(*case), config.model(*case)

    def one(given: tuple[RandomKey, Array]) -> Heads:
        key, penalty = given
        start_key, split_key, batch_key = jax.random.split(key, 3)
        start = model.init(start_key)
        parts = (sums, sums) if fraction == 1 else split_sums(split_key, sums, fraction)
        recipe = AdditionRecipe(config.learning_rate, penalty, batch_size=config.batch_size)
        settings = (model.apply, weight_norm, start, parts, recipe, [config.num_steps])
        trajectory = learn_addition(batch_key, *settings)
        heads = token_scores(trajectory.params)
        deviations = jnp.std(heads, axis=(1, 2))
        largest = heads[deviations.argmax()]
        return Heads(
            before=attention_concentration(token_scores(start)),
            after=attention_concentration(heads),
            live=deviations >= LIVE * deviations.max(),
            accuracy=scores(model.apply, trajectory.params, sums)[1],
            test=trajectory.records.test[-1],
            scores=largest,
            powers=attention_power(largest),
        )

    keys = jax.random.split(key, config.num_seeds)
    repeated = jnp.repeat(jnp.array(penalties), config.num_seeds)
    found = ensemble(one, (jnp.tile(keys, len(penalties)), repeated))
    return jax.tree.map(np.asarray, found)


def _live_median(case: Heads) -> np.ndarray:
    """The median concentration of live heads, by seed."""
    return np.nanmedian(np.where(case.live, case.after, np.nan), axis=1)


ENOUGH = 0.99  # the accuracy on all sums without which spectra say nothing
LEARNED = 0.9  # the share of networks that must have it


def _knows(result: Result) -> np.ndarray:
    """Which seeds learned the sums of every case."""
    return np.asarray((result.accuracy >= ENOUGH).all(axis=0))


def _learned(result: Result, values: np.ndarray) -> np.ndarray:
    """Values of the seeds that learned, the worst of all cases; NaN if these are too few."""
    knows, worst = _knows(result), values.min(axis=0)
    return worst[knows] if knows.mean() >= LEARNED else np.full_like(worst, np.nan)


# Thresholds are the catalogue's.
CLAIMS = (
    WAVES.claim(
        "More than half of the networks learn all sums, to 99 %.",
        lambda r, c: probability_at_least(_knows(r).sum(), len(_knows(r)), 0.5),
    ),
    WAVES.claim(
        "The scores of live heads have half of their power or more at one pair of frequencies.",
        lambda r, c: median_at_least(_learned(r, r.after), 0.5),
        formula=r"\max_{j_1, j_2} |\hat A|^2 / \sum |\hat A|^2 \ge \tfrac12",
    ),
    WAVES.claim(
        "Training makes that part three times as large, or more.",
        lambda r, c: median_at_least(_learned(r, r.after / r.before), 3.0),
    ),
    WAVES.control(
        "Without the penalty live heads are less concentrated, seed by seed.",
        lambda r, c: ordered(-_learned(r, -r.free), _learned(r, r.after)),
    ),
    WAVES.control(
        "Of sums that are held out it knows less than 99 %: these sizes are learned by heart.",
        lambda r, c: median_at_most(r.held_out, ENOUGH),
    ),
    WAVES.control(
        "Before training, no network has half of its heads' power at one pair of frequencies.",
        lambda r, c: median_at_most(r.before.max(axis=0), 0.5),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Concentrations of heads, and the scores and powers of the largest one."""
    figure, axes = panels(
        "power at one pair of frequencies", "largest head: scores", "largest head: powers"
    )
    named = {
        "before training": result.before,
        "without the penalty": result.free,
        "with it": result.after,
    }
    by_case(axes[0], config.cases, named)
    axes[0].set_ylim(0.0, 1.05)
    image(axes[1], result.scores)
    label_axes(axes[1], "key", "query")
    image(axes[2], result.powers)
    label_axes(axes[2], "frequency of the key", "frequency of the query")
    return figure
