"""Before training, a one-layer transformer classifies no sequence, and its loss is known exactly.

At W = 0 attention is uniform, so with V = cP all tokens of a sequence tie, and the loss is
log(n + (L − n)e^{−c/n}), between log n and log L. With noise of up to ε/2 in V it is at most
log L + ε, from which the c of the theorem on training both matrices is chosen.

Source: karp · dl-former · §4.2.1; karp · dl-thm43 · proof of Theorem 4.3; karp · dl-thm44 ·
Theorems 4.2, 4.4.
"""

from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, at_most, holds, identity
from theorylab.experiments.drawing import label_axes, paired_bars, panels
from theorylab.incontext import DecisionLists, ListTransformer, list_labels, random_lists
from theorylab.incontext.decision_lists import all_sets, triple_delta
from theorylab.incontext.list_theorems import attention_scale, initial_loss
from theorylab.incontext.list_transformer import Sets, aligned_values, list_loss, list_margins
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey, Scalar

from ._sequences import Lists, table

PRECISION = "float64"
FORMULA = r"\log\left(n + (L - n)e^{-c/n}\right)"

MODEL = Source("karp", "dl-former", "§4.2.1")
THEOREM = Source("karp", "dl-thm44", "Theorems 4.2, 4.4")
PROOF = Source("karp", "dl-thm43", "proof of Theorem 4.3")

RATIOS = (0.0, 0.5, 1.0, 2.0)  # c/n at which both terms of the formula count


@dataclass(frozen=True)
class Config(Lists):
    """Random lists, with V = cP and with V near it."""


PRESETS = {
    "smoke": Config(num_tokens=6),
    "paper": Config(num_tokens=24, num_seeds=50),
}


class Result(NamedTuple):
    """Axes: instances (i), distances of V from cP (e)."""

    loss: Float[Measured, " i"]  # at V = cP
    closed_form: Float[Measured, " i"]
    mild_loss: Float[Measured, "i k"]  # at the c of `RATIOS`
    mild_closed_form: Float[Measured, "i k"]
    classified: Float[Measured, " i"]  # part of all tokens that is classified there
    noisy_loss: Float[Measured, "i e"]
    scale: Float[Measured, " e"]  # c
    least_scale: Float[Measured, "i e"]  # what c must exceed, with the loss that was measured


def memory(config: Config) -> int:
    """Bytes of the logits of all sets."""
    return 8 * 20 * comb(config.num_tokens, config.size) * config.size * config.num_tokens


def run(config: Config) -> Result:
    """Evaluate the loss at every start."""
    num_tokens, n, length = config.num_tokens, config.size, config.length
    tokens = all_sets(num_tokens, n)
    scales = [config.scale(epsilon) for epsilon in config.epsilons]
    rows = []
    for place, key in enumerate(jax.random.split(jax.random.key(config.seed), config.num_seeds)):
        report("evaluating starts", place / config.num_seeds)
        lists = random_lists(key, num_tokens, length, shortest=2)
        scale = attention_scale(n, num_tokens, triple_delta(lists, tokens))
        loss, classified = _start(key, lists, jnp.asarray(tokens), scale, 0.0)
        mild = [_start(key, lists, jnp.asarray(tokens), n * ratio, 0.0)[0] for ratio in RATIOS]
        noisy = [
            float(_start(key, lists, jnp.asarray(tokens), c, epsilon)[0])
            for c, epsilon in zip(scales, config.epsilons, strict=True)
        ]
        row = {
            "loss": loss,
            "closed_form": initial_loss(n, num_tokens, scale),
            "mild_loss": [float(each) for each in mild],
            "mild_closed_form": [float(initial_loss(n, num_tokens, n * each)) for each in RATIOS],
            "classified": classified,
            "noisy_loss": noisy,
            "least_scale": list(map(config.least_scale, config.epsilons, noisy)),
        }
        rows.append(row)
    return Result(**table(rows, config.num_seeds), scale=np.array(scales))


@jax.jit
def _start(
    key: RandomKey, lists: DecisionLists, tokens: Int[Array, "b n"], scale: Scalar, epsilon: Scalar
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The loss and the part of tokens that is classified, at W = 0 and V within ε/2 of cP."""
    sets = Sets(tokens, list_labels(lists, tokens))
    aligned = aligned_values(lists.permutation, scale)
    noise = epsilon / 2 * jax.random.uniform(key, aligned.shape, minval=-1.0)
    start = ListTransformer(jnp.zeros_like(aligned), aligned + noise)
    return list_loss(start, sets), (list_margins(start, sets) > 0).mean()


CLAIMS = (
    PROOF.claim(
        "The first loss is at most log L, with V = cP.",
        lambda r, c: at_most(r.loss.max(), np.log(c.num_tokens)),
    ),
    MODEL.found(
        "The first loss is log(n + (L − n)e^{−c/n}): so at c of 0 to 2n, and log n for the c of the"
        " theorems.",
        lambda r, c: identity(
            np.column_stack([r.loss, r.mild_loss]),
            np.column_stack([r.closed_form, r.mild_closed_form]),
            1e-12,
        ),
        formula=FORMULA,
    ),
    THEOREM.found(
        "Noise of ε/2 in V raises the first loss to log L + ε at most.",
        lambda r, c: holds(np.log(c.num_tokens) + np.array(c.epsilons) - r.noisy_loss),
    ),
    THEOREM.check(
        "c is above what the theorem asks for, with the loss that was measured.",
        lambda r, c: holds(r.scale[None, :] - r.least_scale),
    ),
    MODEL.control(
        "At the start, where all tokens of a sequence tie, nothing counts as classified.",
        lambda r, c: at_most(r.classified.max(), 0),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """How far noise in V raises the first loss above that of V = cP."""
    figure, (axis,) = panels("first loss with noise in V, less that of V = cP")
    gaps = (result.noisy_loss - result.loss[:, None]).T
    paired_bars(axis, {f"ε = {e:g}": gap for e, gap in zip(config.epsilons, gaps, strict=True)})
    label_axes(axis, "noise of up to ε/2 in every entry")
    return figure
