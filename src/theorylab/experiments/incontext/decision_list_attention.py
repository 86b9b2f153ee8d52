"""A one-layer transformer learns every decision list by its attention, and each step of the proof.

V = cP is fixed, W = 0 at first, and gradient descent on the exact loss of all sequences takes steps
of 1/λ_max. After a few of them every token of every sequence is classified: far sooner than the
bound 32Mλ_max/log L says. At every iterate before, all inequalities of the proof are checked on all
sequences. With another permutation in V than in the labels, nothing is ever learned.

λ_max is the largest eigenvalue on the whole way, in closed form from the blocks of the Hessian; the
source speaks of "the" largest eigenvalue, but it changes on the way, and not only downwards.

Source: karp · dl-thm43 · Theorems 4.1, 4.3; karp · dl-task · §4.2.3; karp · dl-former · §4.2.1.
"""

from dataclasses import dataclass
from functools import partial
from math import comb
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_least, at_most, holds, identity
from theorylab.experiments.checks import refuse_negative
from theorylab.experiments.drawing import panels
from theorylab.incontext import (
    Audit,
    DecisionLists,
    ListFormer,
    Sets,
    aligned_values,
    all_sets,
    attention_scale,
    attention_sharpness,
    attention_steps,
    audit,
    descend_at_sharpness,
    initial_loss,
    list_labels,
    perfect,
    random_lists,
    triple_delta,
)
from theorylab.progress import report

PRECISION = "float64"
FORMULA = r"c = \frac{4n^2 \log L}{\delta}, \quad t \le \frac{32 M \lambda_{\max}}{\log L}"

THEOREM = Source("karp", "dl-thm43", "Theorems 4.1, 4.3")
PROOF = Source("karp", "dl-thm43", "proof of Theorem 4.3")
MODEL = Source("karp", "dl-former", "§4.2.1")
TASK = Source("karp", "dl-task", "Assumption 4.3")


@dataclass(frozen=True)
class Config:
    """Random lists of several sizes, with lists of all lengths up to M."""

    tokens: tuple[int, ...] = (6, 8, 12, 16)  # L of each case
    sizes: tuple[int, ...] = (3, 4, 3, 3)  # n of each case
    lengths: tuple[int, ...] = (2, 3, 3, 4)  # M of each case
    num_instances: int = 6  # random lists of each case
    num_steps: int = 12  # of descent
    factors: tuple[float, ...] = (1.0, 0.01, 0.001)  # c over the theorem's; the first must be 1
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_negative(self)
        if not len(self.tokens) == len(self.sizes) == len(self.lengths) > 0:
            raise ValueError("tokens, sizes and lengths must be as many and not none.")
        for tokens, size, length in self.cases:
            if not (2 <= size < tokens <= 40 and 2 <= length < tokens):
                raise ValueError(
                    "sizes and lengths must be between 2 and the tokens, which are at most 40, "
                    f"got {tokens} tokens, size {size}, length {length}."
                )
            if comb(tokens, size) > 20000:
                raise ValueError(f"at most 20000 sets, got {comb(tokens, size)}.")
        if not 1 <= self.num_instances <= 1000:
            raise ValueError(f"num_instances must be between 1 and 1000, got {self.num_instances}.")
        if not 1 <= self.num_steps <= 1000:
            raise ValueError(f"num_steps must be between 1 and 1000, got {self.num_steps}.")
        if not self.factors or self.factors[0] != 1 or min(self.factors) <= 0:
            raise ValueError(f"factors must be positive and begin with 1, got {self.factors}.")

    @property
    def cases(self) -> list[tuple[int, int, int]]:
        """(L, n, M) of every case."""
        return list(zip(self.tokens, self.sizes, self.lengths, strict=True))


PRESETS = {
    "smoke": Config(
        tokens=(7,), sizes=(3,), lengths=(3,), num_instances=6, num_steps=5, factors=(1.0,)
    ),
    "paper": Config(
        tokens=(6, 8, 12, 16, 20, 24), sizes=(3, 4, 3, 3, 3, 3), lengths=(2, 3, 3, 4, 5, 6),
        num_instances=50, num_steps=50,
    ),
}  # fmt: skip


class Result(NamedTuple):
    """What was measured: axes cases (c), instances (i), factors of c (f), iterates (t)."""

    tokens: Int[np.ndarray, " c"]
    sizes: Int[np.ndarray, " c"]
    lengths: Int[np.ndarray, " c"]
    factors: Float[np.ndarray, " f"]
    scale: Float[np.ndarray, "c i"]  # the theorem's c
    delta: Float[np.ndarray, "c i"]
    first: Float[np.ndarray, "c i f"]  # the first perfect iterate; NaN if none is
    bound: Float[np.ndarray, "c i"]  # the theorem's
    sharpness: Float[np.ndarray, "c i"]  # λ_max, of the step
    met: Float[np.ndarray, "c i"]  # the largest eigenvalue on the way
    at_start: Float[np.ndarray, "c i"]  # the eigenvalue at W = 0
    loss: Float[np.ndarray, "c i t"]
    start_loss: Float[np.ndarray, "c i"]  # the closed form of the first loss
    gradient: Float[np.ndarray, "c i t"]  # ‖∇loss‖² over log²L/16M
    inside: Float[np.ndarray, "c i t"]  # margins of the proof, 0 and above where it holds
    outside: Float[np.ndarray, "c i t"]
    chance: Float[np.ndarray, "c i t"]  # least P[S]/δ
    rare: Float[np.ndarray, "c i t"]  # largest P[s ∈ S, p* ≤ 1/2n]/δ
    inner: Float[np.ndarray, "c i t"]  # largest ⟨∇loss, v⟩ over log L/4; −∞ where all is right
    solved: Float[np.ndarray, "c i t"]  # whether everything is classified
    other: Float[np.ndarray, "c i"]  # iterates that are perfect with another permutation in V


class _Run(NamedTuple):
    audit: Audit
    sharpness: jax.Array
    met: jax.Array
    other: jax.Array


def memory(config: Config) -> int:
    """Bytes of one directional derivative of all logits, and of all iterates."""
    sizes = [comb(tokens, size) * size * tokens for tokens, size, _ in config.cases]
    return 8 * (20 * max(sizes) + 3 * config.num_steps * max(config.tokens) ** 2)


def run(config: Config) -> Result:
    """Descend on every instance, and check the proof on the way."""
    cases = []
    for place, case in enumerate(config.cases):
        report("{} tokens, sets of {}, lists of {}".format(*case), place / len(config.cases))
        cases.append(_case(jax.random.fold_in(jax.random.key(config.seed), place), case, config))
    return Result(
        np.array(config.tokens),
        np.array(config.sizes),
        np.array(config.lengths),
        np.array(config.factors),
        *(np.stack(part) for part in zip(*cases, strict=True)),
    )


def _case(key: jax.Array, case: tuple[int, int, int], config: Config) -> list[np.ndarray]:
    """All fields of the result but the first, for the instances of one case."""
    num_tokens, size, length = case
    sets = all_sets(num_tokens, size)
    learn = jax.jit(partial(_learned, num_steps=config.num_steps))
    rows = []
    for instance in jax.random.split(key, config.num_instances):
        lists = random_lists(instance, num_tokens, length, shortest=2)
        delta = triple_delta(lists, sets)
        scale = attention_scale(size, num_tokens, delta)
        runs = [learn(lists, jnp.asarray(sets), scale * factor) for factor in config.factors]
        rows.append(_row(runs, case, scale, delta))
    return [np.stack(part) for part in zip(*rows, strict=True)]


def _learned(lists: DecisionLists, tokens: jax.Array, scale: jax.Array, num_steps: int) -> _Run:
    """Descent with V = cP, audited; and the same with another permutation in V."""
    sets = Sets(tokens, list_labels(lists, tokens))
    nothing = jnp.zeros((len(lists.order), len(lists.order)))
    permutations = jnp.stack([lists.permutation, jnp.roll(lists.permutation, 1)])

    def descend(permutation: jax.Array) -> tuple[Audit, jax.Array, jax.Array, jax.Array]:
        start = ListFormer(nothing, aligned_values(permutation, scale))
        way = descend_at_sharpness(start, sets, attention_sharpness, (True, False), num_steps)
        checks = jax.lax.map(lambda at: audit(at, sets, lists, scale), way.path)
        right = jax.lax.map(lambda at: perfect(at, sets), way.path)
        return checks, way.sharpness, way.met, right.sum()

    checks, sharpness, met, right = jax.lax.map(descend, permutations)
    return _Run(jax.tree.map(lambda leaf: leaf[0], checks), sharpness[0], met[0], right[1])


def _row(runs: list[_Run], case: tuple[int, int, int], scale: float, delta: float) -> list:
    """The fields of the result for one instance, in order."""
    num_tokens, size, length = case
    main, log = runs[0], np.log(num_tokens)
    checks = jax.tree.map(lambda part: np.asarray(part, float), main.audit)
    firsts = [np.asarray(run.audit.perfect) for run in runs]
    return [
        np.array(scale),
        np.array(delta),
        np.array([row.argmax() if row.any() else np.nan for row in firsts], float),
        np.array(attention_steps(length, float(main.sharpness), num_tokens)),
        np.asarray(main.sharpness),
        np.asarray(main.met.max()),
        np.asarray(main.met[0]),
        checks.loss,
        np.asarray(initial_loss(size, num_tokens, scale)),
        checks.gradient / (log**2 / (16 * length)),
        checks.inside,
        checks.outside,
        checks.chance / delta,
        checks.rare / delta,
        checks.inner / (log / 4),
        checks.perfect,
        np.asarray(main.other, float),
    ]


def _before(result: Result, values: np.ndarray) -> np.ndarray:
    """Values at iterates where something is still wrong; elsewhere nothing is claimed."""
    return values[result.solved == 0]


CLAIMS = (
    Claim(
        "Every instance is classified perfectly, on all sequences, within the theorem's bound.",
        judge=lambda r, c: holds(r.bound - r.first[:, :, 0]),
        source=THEOREM,
    ),
    Claim(
        "It takes less than a thousandth of the bound.",
        judge=lambda r, c: at_most((r.first[:, :, 0] / r.bound).max(), 1e-3),
        source=THEOREM,
    ),
    Claim(
        "The step is at most 1/λ_max of the whole way, to a hundredth.",
        # The way depends on the step, and the step on what earlier ways have met.
        judge=lambda r, c: at_most((r.met / r.sharpness).max(), 1.01),
        source=THEOREM,
    ),
    Claim(
        "The first loss is log(n + (L − n)e^{−c/n}).",
        judge=lambda r, c: identity(r.loss[:, :, 0], r.start_loss, 1e-12),
        source=MODEL,
    ),
    Claim(
        "The loss never grows.",
        judge=lambda r, c: holds(-np.diff(r.loss, axis=2), rounding=1e-12),
        source=PROOF,
    ),
    Claim(
        "In S the gradient along v is at most −(c/2n) p*(1 − p*), for every sequence and token.",
        judge=lambda r, c: holds(_before(r, r.inside), rounding=1e-9),
        source=PROOF,
    ),
    Claim(
        "Outside of S it is at most 0.",
        judge=lambda r, c: holds(_before(r, r.outside), rounding=1e-9),
        source=PROOF,
    ),
    Claim(
        "S has at least the probability δ.",
        judge=lambda r, c: holds(_before(r, r.chance) - 1, rounding=1e-9),
        source=TASK,
    ),
    Claim(
        "In S, p* ≤ 1/2n has a probability of at most δ/2.",
        judge=lambda r, c: holds(0.5 - _before(r, r.rare), rounding=1e-9),
        source=PROOF,
    ),
    Claim(
        "While a token is wrong, the gradient along v is below −log(L)/4.",
        judge=lambda r, c: holds(-1 - _before(r, r.inner)),
        source=PROOF,
    ),
    Claim(
        "While a token is wrong, ‖∇loss‖² is above log²(L)/16M.",
        judge=lambda r, c: holds(_before(r, r.gradient) - 1),
        source=PROOF,
    ),
    Claim(
        "At the start, where all tokens of a sequence tie, nothing counts as classified.",
        judge=lambda r, c: at_least(r.first[:, :, 0].min(), 1),
        source=MODEL,
        kind="control",
    ),
    Claim(
        "With another permutation in V, no iterate is perfect.",
        judge=lambda r, c: at_most(r.other.max(), 0),
        source=THEOREM,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Losses, steps until perfect by size and by c, the slack of the gradient's bound."""
    figure, axes = panels("loss", "steps until perfect", "gradient over its lower bound")
    names = [
        f"{tokens}, {size}, {length}"
        for tokens, size, length in zip(result.tokens, result.sizes, result.lengths, strict=True)
    ]
    places = np.arange(len(names))
    for place, name in enumerate(names):
        axes[0].plot(result.loss[place, 0], "o-", label=name)
        shown = np.where(result.solved[place, 0] == 0, result.gradient[place, 0], np.nan)
        axes[2].semilogy(shown, "o", label=name)
    for place, factor in enumerate(result.factors):
        axes[1].plot(places, result.first[:, :, place].mean(axis=1), "o", label=f"{factor:g} c")
    axes[1].set_xticks(places, names)
    axes[1].set_xlabel("tokens L, sequence n, list M")
    for axis in (axes[0], axes[2]):
        axis.set_xlabel("steps")
    for axis in axes:
        axis.legend(frameon=False, fontsize=7)
    return figure
