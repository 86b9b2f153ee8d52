"""One large gradient step writes the permutation behind all labels into the value matrix.

From W = 0 and V ≈ 0, one step of gradient descent with η = L² on random sequences gives V a large
entry for every token at its own label, V[π(i), i] = η/nL · (1 − n/L) for the source's lists, and
small ones elsewhere. So the largest entry of every column says π. All entries are known exactly,
for any lists; the step is taken with sampled sequences, with the source's circulant lists and with
random ones, and with few sequences too. (The source's tokens 1 … L modulo L + 1 are no permutation;
here they are 0 … L − 1 modulo L.)

Source: karp · dl-v-onestep · §4.3.4, Fig. 4.1.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, holds
from theorylab.experiments.drawing import image, label_axes, panels
from theorylab.fields import Checked, Count, Increasing, Plural, Seed, Several, Whole, within
from theorylab.incontext import DecisionLists, ListTransformer, list_labels, random_lists
from theorylab.incontext.decision_lists import circulant_lists, one_step_values, random_sets
from theorylab.incontext.list_transformer import Sets, list_gradient
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey

PRECISION = "float32"
FORMULA = r"V_1[l, i] = \frac{\eta}{n^2} \left(E[N_l 1\{i \in s\}] - \frac{n^2}{L^2}\right)"

STEP = Source("karp", "dl-v-onestep", "§4.3.4, Fig. 4.1")
BLOCK = 500  # sequences whose gradient is taken at once
START = 1e-4  # standard deviation of V₀


@dataclass(frozen=True)
class Config(Checked):
    """One step on lists that are shifts of one another, and on random ones."""

    num_tokens: Annotated[int, within(4, 5000)] = 200  # L
    size: Plural = 25  # n
    shifts: Several[Count] = (10, 20, 30)  # the list of i: i plus these, then i
    label_shift: Whole = 20  # π(i) = i + this
    num_sequences: Count = 20000  # in the large step, a multiple of 500
    few: Increasing[Count] = (10, 100, 1000)  # in smaller steps
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size >= self.num_tokens:
            raise ValueError(f"size must be below num_tokens, got {self.size}.")
        if len({0, *(shift % self.num_tokens for shift in self.shifts)}) <= len(self.shifts):
            must = "shifts must differ, also from 0, modulo num_tokens"
            raise ValueError(f"{must}, got {self.shifts}.")
        if self.num_sequences % BLOCK:
            raise ValueError(f"num_sequences must be a multiple of 500, got {self.num_sequences}.")

    @property
    def learning_rate(self) -> float:
        """η = L²."""
        return float(self.num_tokens) ** 2


PRESETS = {
    "smoke": Config(
        num_tokens=40, size=8, shifts=(3, 6, 9), label_shift=5, num_sequences=4000, few=(4, 40, 500)
    ),
    "paper": Config(num_sequences=200000),
}


class Result(NamedTuple):
    """Axes: lists (2: circulant, random), labels and tokens (l), small steps (f)."""

    values: Float[Measured, "2 l l"]  # V after the large step
    exact: Float[Measured, "2 l l"]  # what it tends to
    permutation: Int[Measured, "2 l"]
    recovered: Float[Measured, "2 f"]  # share of columns that say π after a small step
    own: Bool[Measured, "l l"]  # circulant: where label and token belong together
    later: Bool[Measured, "l l"]  # where the token is in the list of the label's own
    earlier: Bool[Measured, "l l"]  # where the label's own is in the list of the token
    printed: Int[Measured, " l"]  # π as the source prints it, for tokens 1 … L


def memory(config: Config) -> int:
    """Bytes of a block's logits, gradients and reads, and of the matrices that are kept."""
    block = 4 * 8 * BLOCK * config.num_tokens * config.size
    return block + 8 * 16 * config.num_tokens**2


def run(config: Config) -> Result:
    """Take the step with both kinds of lists."""
    key, tokens = jax.random.key(config.seed), np.arange(config.num_tokens)
    kinds = [
        circulant_lists(config.num_tokens, config.shifts, config.label_shift),
        random_lists(key, config.num_tokens, len(config.shifts) + 1),
    ]
    values, recovered = [], []
    for place, lists in enumerate(kinds):
        report("taking a step", place / 2)
        key = jax.random.fold_in(key, place)
        values.append(_stepped(key, lists, config, config.num_sequences))
        small = [_stepped(jax.random.fold_in(key, few), lists, config, few) for few in config.few]
        recovered.append([_share(found, np.asarray(lists.permutation)) for found in small])
    gaps = (tokens[None, :] + config.label_shift - tokens[:, None]) % config.num_tokens
    forward = {shift % config.num_tokens for shift in config.shifts}
    backward = {-shift % config.num_tokens for shift in config.shifts}
    rate = config.learning_rate
    return Result(
        values=np.stack(values),
        exact=np.stack([one_step_values(lists, config.size, rate) for lists in kinds]),
        permutation=np.stack([np.asarray(lists.permutation) for lists in kinds]),
        recovered=np.array(recovered),
        own=gaps == 0,
        later=np.isin(gaps, list(forward - backward)),
        earlier=np.isin(gaps, list(backward - forward)),
        printed=(1 + tokens + config.label_shift) % (config.num_tokens + 1),
    )


def _stepped(
    key: RandomKey, lists: DecisionLists, config: Config, count: int
) -> Float[np.ndarray, "l l"]:
    """V after one step on so many sequences, from W = 0 and V of small noise."""
    size = min(count, BLOCK)
    take = jax.jit(partial(_gradient, shape=(size, config.num_tokens, config.size)))
    start_key, key = jax.random.split(key)
    start = START * jax.random.normal(start_key, (config.num_tokens, config.num_tokens))
    slope = np.zeros(start.shape)
    for block in range(count // size):
        slope += np.asarray(take(jax.random.fold_in(key, block), lists, start), float)
    return np.asarray(start, float) - config.learning_rate * slope / (count // size)


def _gradient(
    key: RandomKey, lists: DecisionLists, start: Float[Array, "l l"], shape: tuple[int, int, int]
) -> Float[Array, "l l"]:
    """The gradient by V on a block of random sequences, at W = 0."""
    tokens = random_sets(key, *shape)
    sets = Sets(tokens, list_labels(lists, tokens))
    return list_gradient(ListTransformer(jnp.zeros_like(start), start), sets).values


def _share(values: np.ndarray, permutation: np.ndarray) -> float:
    """How many columns have their largest entry at π."""
    return float((values.argmax(axis=0) == permutation).mean())


def _errors(result: Result, where: np.ndarray) -> float:
    """Relative error of the mean of these entries, for circulant lists."""
    return float(abs(result.values[0][where].mean() / result.exact[0][where].mean() - 1))


def _own_error(result: Result, config: Config) -> float:
    """Relative error of the entries at own labels, from η/nL · (1 − n/L)."""
    n, num_tokens = config.size, config.num_tokens
    expected = config.learning_rate / (n * num_tokens) * (1 - n / num_tokens)
    return abs(result.values[0][result.own].mean() / expected - 1)


CHOSEN = "lab: chosen for this experiment; the runs it was set on were not kept"

CLAIMS = (
    STEP.claim(
        "With the source's lists, the largest entry of every column of V says π.",
        lambda r, c: at_least(_share(r.values[0], r.permutation[0]), 1.0),
        quote="the structure we want in V can be picked up under uniform attention",
    ),
    *STEP.erratum(
        printed=(
            "Tokens 1 … L modulo L + 1 stay tokens.",
            lambda r, c: holds(r.printed - 1),
        ),
        corrected=(
            "Tokens 0 … L − 1 modulo L do: π is a permutation.",
            lambda r, c: holds(
                -np.abs(np.sort(r.permutation, axis=1) - np.arange(c.num_tokens)[None])
            ),
        ),
        quote="for notational convenience. The mapping π is then chosen to be f(i + 20)",
    ),
    STEP.found(
        "With random lists, too, the largest entry of every column says π.",
        lambda r, c: at_least(_share(r.values[1], r.permutation[1]), 1.0),
    ),
    STEP.found(
        "The entry of a token at its own label is η/nL · (1 − n/L), within 2 %.",
        lambda r, c: at_most(_own_error(r, c), 0.02),
        demand=CHOSEN,
    ),
    STEP.found(
        "Entries of tokens in the list of the label's own are the exact ones, negative (5 %).",
        lambda r, c: at_most(_errors(r, r.later), 0.05),
        demand=CHOSEN,
    ),
    STEP.found(
        "Entries of tokens whose list has the label's own are the exact ones, positive (5 %).",
        lambda r, c: at_most(_errors(r, r.earlier), 0.05),
        demand=CHOSEN,
    ),
    STEP.found(
        "All entries together are the exact ones: their difference is a tenth of the largest.",
        lambda r, c: at_most(np.abs(r.values - r.exact).max() / r.exact.max(), 0.1),
        formula=FORMULA,
        demand=CHOSEN,
    ),
    STEP.found(
        "With many sequences, the last of the small steps, all columns say π already.",
        lambda r, c: at_least(r.recovered[:, -1].min(), 1.0),
    ),
    STEP.control(
        "With very few sequences, the first of the small steps, most columns do not say π.",
        lambda r, c: at_most(r.recovered[:, 0].max(), 0.5),
        demand="derived: most columns are more than half",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """The source's heat-map, one with random lists, and columns recovered by few sequences."""
    figure, axes = panels("V, circulant lists", "V, random lists, by π", "columns that say π")
    tables = result.values[0], result.values[1][result.permutation[1]]
    for axis, matrix in zip(axes, tables, strict=False):
        image(axis, matrix)
        label_axes(axis, "token", "label")
    axes[2].plot(config.few, result.recovered.T, "o-", label=["circulant lists", "random lists"])
    axes[2].legend(fontsize=7)
    label_axes(axes[2], "sequences in the step", logarithmic="x")
    return figure
