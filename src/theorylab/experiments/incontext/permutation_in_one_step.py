"""One large step, and the values of a transformer show the permutation behind all labels.

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
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_least, at_most, between, holds
from theorylab.experiments.checks import refuse_negative
from theorylab.experiments.drawing import panels
from theorylab.incontext import (
    DecisionLists,
    ListFormer,
    Sets,
    circulant_lists,
    list_gradient,
    list_labels,
    one_step_values,
    random_lists,
    random_sets,
)
from theorylab.progress import report
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"V_1[l, i] = \frac{\eta}{n^2} \left(E[N_l 1\{i \in s\}] - \frac{n^2}{L^2}\right)"

STEP = Source("karp", "dl-v-onestep", "§4.3.4, Fig. 4.1")
BLOCK = 500  # sequences whose gradient is taken at once


@dataclass(frozen=True)
class Config:
    """One step on lists that are shifts of one another, and on random ones."""

    num_tokens: int = 200  # L
    size: int = 25  # n
    shifts: tuple[int, ...] = (10, 20, 30)  # the list of i: i plus these, then i
    label_shift: int = 20  # π(i) = i + this
    num_sequences: int = 20000  # in the large step, a multiple of 500
    few: tuple[int, ...] = (10, 100, 1000)  # in smaller steps, growing
    noise: float = 1e-4  # standard deviation of V₀
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_negative(self)
        if not 4 <= self.num_tokens <= 5000:
            raise ValueError(f"num_tokens must be between 4 and 5000, got {self.num_tokens}.")
        if not 2 <= self.size < self.num_tokens:
            raise ValueError(f"size must be between 2 and num_tokens, got {self.size}.")
        steps = {shift % self.num_tokens for shift in self.shifts}
        if not self.shifts or 0 in steps or len(steps) < len(self.shifts):
            raise ValueError(
                f"shifts must differ, also from 0, modulo num_tokens, got {self.shifts}."
            )
        if self.num_sequences < BLOCK or self.num_sequences % BLOCK:
            raise ValueError(f"num_sequences must be a multiple of 500, got {self.num_sequences}.")
        if not self.few or list(self.few) != sorted(set(self.few)) or self.few[0] < 1:
            raise ValueError(f"few must grow from at least 1, got {self.few}.")
        if not 0 <= self.noise < 1:
            raise ValueError(f"noise must be at least 0 and below 1, got {self.noise}.")


PRESETS = {
    "smoke": Config(
        num_tokens=40, size=8, shifts=(3, 6, 9), label_shift=5, num_sequences=4000, few=(4, 40, 500)
    ),
    "paper": Config(num_sequences=200000),
}


class Result(NamedTuple):
    """What was measured; the first of two is circulant lists, the second random ones."""

    size: int
    learning_rate: float
    values: Float[np.ndarray, "2 l l"]  # V after the large step
    exact: Float[np.ndarray, "2 l l"]  # what it tends to
    permutation: Int[np.ndarray, "2 l"]
    few: Int[np.ndarray, " f"]
    recovered: Float[np.ndarray, "2 f"]  # share of columns that say π after a small step
    own: Bool[np.ndarray, "l l"]  # circulant: where label and token belong together
    later: Bool[np.ndarray, "l l"]  # where the token is in the list of the label's own
    earlier: Bool[np.ndarray, "l l"]  # where the label's own is in the list of the token
    expected: float  # η/nL · (1 − n/L)
    printed: Int[np.ndarray, " l"]  # π as the source prints it, for tokens 1 … L


def memory(config: Config) -> int:
    """Bytes of a block's logits, gradients and reads."""
    return 4 * 8 * BLOCK * config.num_tokens * config.size


def run(config: Config) -> Result:
    """Take the step with both kinds of lists."""
    key = jax.random.key(config.seed)
    length = len(config.shifts) + 1
    kinds = [
        circulant_lists(config.num_tokens, config.shifts, config.label_shift),
        random_lists(key, config.num_tokens, length),
    ]
    rate = float(config.num_tokens) ** 2
    values, recovered = [], []
    for place, lists in enumerate(kinds):
        report("taking a step", place / 2)
        key = jax.random.fold_in(key, place)
        values.append(_stepped(key, lists, config, config.num_sequences))
        small = [_stepped(jax.random.fold_in(key, few), lists, config, few) for few in config.few]
        recovered.append([_share(found, np.asarray(lists.permutation)) for found in small])
    tokens = np.arange(config.num_tokens)
    gaps = (tokens[None, :] + config.label_shift - tokens[:, None]) % config.num_tokens
    forward = {shift % config.num_tokens for shift in config.shifts}
    backward = {-shift % config.num_tokens for shift in config.shifts}
    n, num_tokens = config.size, config.num_tokens
    return Result(
        size=n,
        learning_rate=rate,
        values=np.stack(values),
        exact=np.stack([one_step_values(lists, n, rate) for lists in kinds]),
        permutation=np.stack([np.asarray(lists.permutation) for lists in kinds]),
        few=np.array(config.few),
        recovered=np.array(recovered),
        own=gaps == 0,
        later=np.isin(gaps, list(forward - backward)),
        earlier=np.isin(gaps, list(backward - forward)),
        expected=rate / (n * num_tokens) * (1 - n / num_tokens),
        printed=(1 + tokens + config.label_shift) % (num_tokens + 1),
    )


def _stepped(key: RandomKey, lists: DecisionLists, config: Config, count: int) -> np.ndarray:
    """V after one step on so many sequences, from W = 0 and V of small noise."""
    size = min(count, BLOCK)
    take = jax.jit(partial(_gradient, shape=(size, config.num_tokens, config.size)))
    start_key, key = jax.random.split(key)
    start = config.noise * jax.random.normal(start_key, (config.num_tokens, config.num_tokens))
    slope = np.zeros(start.shape)
    for block in range(count // size):
        slope += np.asarray(take(jax.random.fold_in(key, block), lists, start), float)
    rate = float(config.num_tokens) ** 2
    return np.asarray(start, float) - rate * slope / (count // size)


def _gradient(
    key: RandomKey, lists: DecisionLists, start: jax.Array, shape: tuple[int, int, int]
) -> jax.Array:
    """The gradient by V on a block of random sequences, at W = 0."""
    tokens = random_sets(key, *shape)
    sets = Sets(tokens, list_labels(lists, tokens))
    return list_gradient(ListFormer(jnp.zeros_like(start), start), sets).values


def _share(values: np.ndarray, permutation: np.ndarray) -> float:
    """How many columns have their largest entry at π."""
    return float((values.argmax(axis=0) == permutation).mean())


def _margins(values: np.ndarray, permutation: np.ndarray) -> np.ndarray:
    """The entry at π minus the largest other one, of every column."""
    columns = np.arange(values.shape[1])
    others = values.copy()
    others[permutation, columns] = -np.inf
    return values[permutation, columns] - others.max(axis=0)


def _error(result: Result, where: np.ndarray) -> float:
    """Relative error of the mean of these entries, for circulant lists."""
    return float(abs(result.values[0][where].mean() / result.exact[0][where].mean() - 1))


CLAIMS = (
    Claim(
        "The entry of a token at its own label is η/nL · (1 − n/L), within 2 %.",
        judge=lambda r, c: at_most(abs(r.values[0][r.own].mean() / r.expected - 1), 0.02),
        source=STEP,
    ),
    Claim(
        "Entries of tokens that stand in the own one's list are the negative exact value, to 5 %.",
        judge=lambda r, c: at_most(_error(r, r.later), 0.05),
        source=STEP,
    ),
    Claim(
        "Entries of tokens in whose list the own one stands are the positive exact value, to 5 %.",
        judge=lambda r, c: at_most(_error(r, r.earlier), 0.05),
        source=STEP,
    ),
    Claim(
        "All entries together are the exact ones: their difference is a tenth of the largest.",
        judge=lambda r, c: at_most(np.abs(r.values - r.exact).max() / r.exact.max(), 0.1),
        source=STEP,
    ),
    Claim(
        "The largest entry of every column says π, with circulant and with random lists.",
        judge=lambda r, c: holds(
            np.array([_share(*pair) - 1 for pair in zip(r.values, r.permutation, strict=True)])
        ),
        source=STEP,
    ),
    Claim(
        "It does so in every column by at least three quarters of the exact margin.",
        judge=lambda r, c: at_least(
            (
                _margins(r.values[0], r.permutation[0]) / _margins(r.exact[0], r.permutation[0])
            ).min(),
            0.75,
        ),
        source=STEP,
    ),
    Claim(
        "With many sequences, the last of the small steps, all columns say π already.",
        judge=lambda r, c: at_least(r.recovered[:, -1].min(), 1.0),
        source=STEP,
    ),
    Claim(
        "Tokens 1 … L modulo L + 1 stay tokens.",
        judge=lambda r, c: holds(r.printed - 1),
        source=STEP,
        kind="printed",
    ),
    Claim(
        "Tokens 0 … L − 1 modulo L do: π is a permutation.",
        judge=lambda r, c: holds(
            -np.abs(np.sort(r.permutation, axis=1) - np.arange(len(r.own))[None])
        ),
        source=STEP,
        kind="corrected",
    ),
    Claim(
        "With very few sequences, the first of the small steps, most columns do not say π.",
        judge=lambda r, c: between(r.recovered[:, 0].max(), 0.0, 0.6),
        source=STEP,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """The source's heat-map, one with random lists, and columns recovered by few sequences."""
    figure, axes = panels("V, circulant lists", "V, random lists, by π", "columns that say π")
    largest = float(np.abs(result.exact).max())
    random = result.values[1][result.permutation[1]]
    for axis, image in zip(axes, (result.values[0], random), strict=False):
        axis.imshow(image, vmin=-largest, vmax=largest, cmap="RdBu_r", interpolation="nearest")
        axis.set_xlabel("token")
        axis.set_ylabel("label")
        axis.grid(visible=False)
    axes[2].semilogx(result.few, result.recovered.T, "o-")
    axes[2].legend(["circulant lists", "random lists"], frameon=False, fontsize=8)
    axes[2].set_xlabel("sequences in the step")
    return figure
