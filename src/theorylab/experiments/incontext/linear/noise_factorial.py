"""A large model is less robust than a small one only if pre-training and the prompt are both noisy.

Three noises, each on or off: directions of pre-training that the task does not need (variance in
them, or none); inputs at inference (random examples, or a design whose second moment is exactly Λ);
labels at inference (σ, or 0). The risk of the large model minus that of the small one is measured
on the same prompts. Without the first noise, or without both of the others, the two models predict
the same, so that the difference is 0 to rounding.

Source: shi · noise-matrix · §5.7; shi · rank-behaviour · Theorem 5.4.3.
"""

from dataclasses import dataclass
from itertools import product
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Checked, Count, Increasing, Positive, Seed, within
from theorylab.incontext import Prompts
from theorylab.incontext.linear_attention import summaries
from theorylab.incontext.linear_risk import shrinkage
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = r"\Delta R = \frac{[X]\,\|s\|_D^2 + \sigma^2}{M} \sum_{i=r+1}^{r'} (\lambda_i v_i)^2"

MATRIX = Source("shi", "noise-matrix", "§5.7")
GAP = Source("shi", "rank-behaviour", "Theorem 5.4.3")
REST = 0.5  # variance in the directions beyond r where pre-training is noisy
CELLS = np.array(list(product([False, True], repeat=3)))  # noise of pre-training, inputs, labels
PRETRAINING, INPUTS, LABELS = CELLS.T


@dataclass(frozen=True)
class Config(Checked):
    """Two ranks, and three noises on or off."""

    ranks: Increasing[Annotated[int, within(1, 64)]] = (2, 6)  # r and r′
    pretraining_examples: Count = 40  # N
    num_examples: Count = 16  # M
    noise: Positive = 1.0  # σ where it is on
    num_prompts: Annotated[int, within(100)] = 40000  # in each of the eight cells
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.ranks) != 2:
            raise ValueError(f"ranks must be two, got {self.ranks}.")
        if self.num_examples < self.ranks[1]:
            least = f"at least the larger rank {self.ranks[1]}, for a design without noise"
            raise ValueError(f"num_examples must be {least}, got {self.num_examples}.")


PRESETS = {
    "smoke": Config(ranks=(1, 3), num_examples=8, num_prompts=4000),
    "paper": Config(ranks=(8, 32), num_examples=64, num_prompts=200000),
}


class Result(NamedTuple):
    """What was measured in the eight cells (c), in the order of CELLS."""

    gap: Float[Measured, " c"]  # risk of the large model minus the small one's, sampled
    error: Float[Measured, " c"]  # its standard error
    theory: Float[Measured, " c"]
    risk: Float[Measured, "c 2"]  # of the two models


def run(config: Config) -> Result:
    """Measure the eight cells."""
    keys = jax.random.split(jax.random.key(config.seed), len(CELLS))
    measure = jax.jit(lambda key, cell: _cell(key, cell, config))
    measured = []
    for place, cell in enumerate(CELLS):
        report("comparing two ranks", place / len(CELLS))
        measured.append(measure(keys[place], cell))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *measured)


def _cell(key: RandomKey, cell: Bool[Array, "3"], config: Config) -> Result:
    """What is measured in one cell."""
    (small, d), m, b = config.ranks, config.num_examples, config.num_prompts
    pretraining, inputs, labels = cell
    places = jnp.arange(d)
    spectrum = jnp.where(places < small, 1.0, jnp.where(pretraining, REST, 0.0))
    task = jnp.where(places < small, 1.0, 0.0)
    noise = jnp.where(labels, config.noise, 0.0)
    x_key, query_key, noise_key = jax.random.split(key, 3)
    white = jax.random.normal(x_key, (b * m, d)).reshape(b, m, d)
    white = jnp.where(inputs, white, _design(white))
    x = white * jnp.sqrt(spectrum)[None, None, :]
    query = jax.random.normal(query_key, (b, d)) * jnp.sqrt(spectrum)[None, :]
    y = x @ task + noise * jax.random.normal(noise_key, (b, m))
    prompts = Prompts(x, y, query, query @ task)
    matrices = shrinkage(spectrum, config.pretraining_examples)
    matrices = jnp.stack([jnp.where(places < rank, matrices, 0.0) for rank in (small, d)])
    predicted = jnp.einsum("bd,rd,bd->rb", summaries(prompts), matrices, query)
    losses = (predicted - prompts.target[None, :]) ** 2
    gaps = losses[1] - losses[0]
    power = jnp.where(inputs, (task**2 * spectrum).sum(), 0.0) + noise**2
    return Result(
        gap=gaps.mean(),
        error=gaps.std(ddof=1) / jnp.sqrt(b),
        theory=power * ((spectrum * matrices[1])[small:] ** 2).sum() / m,
        risk=losses.mean(axis=1),
    )


def _design(white: Float[Array, "b m d"]) -> Float[Array, "b m d"]:
    """Examples whitened so that XᵀX/M is exactly the identity, by Cholesky."""
    factor = jnp.linalg.cholesky(jnp.einsum("bmd,bme->bde", white, white) / white.shape[1])
    columns = white.swapaxes(1, 2)
    whitened = jax.lax.linalg.triangular_solve(factor, columns, left_side=True, lower=True)
    return whitened.swapaxes(1, 2)


def _relative(result: Result, where: np.ndarray) -> float:
    """The largest gap of these cells over the risk of the small model."""
    return float((np.abs(result.gap) / result.risk[:, 0])[where].max())


def _deviations(result: Result, theory: np.ndarray) -> np.ndarray:
    """How far the gaps are from a theory, in standard errors."""
    return np.abs(result.gap - theory) / (result.error + 1e-12)


MANY = "derived: a Gaussian deviate exceeds 5 standard errors with probability 3e-7"
FEW = "derived: eight Gaussian deviates exceed 4 standard errors with probability 5e-4"

CLAIMS = (
    MATRIX.claim(
        "Without noise in pre-training there is no gap, whatever the noise in the prompt.",
        lambda r, c: at_most(_relative(r, ~PRETRAINING), 1e-12),
        quote="If there is no pretraining noise, then the larger model will have as good",
    ),
    MATRIX.claim(
        "Without noise in inputs and labels there is no gap, whatever pre-training was.",
        lambda r, c: at_most(_relative(r, ~(INPUTS | LABELS)), 1e-12),
        quote="if there is no input and label noise, the larger model will have as good robustness",
    ),
    GAP.claim(
        "With noise in pre-training and in inputs or labels the larger model has the larger risk.",
        lambda r, c: at_least((r.gap / r.error)[PRETRAINING & (INPUTS | LABELS)].min(), 5.0),
        quote="larger language models may be easily affected by the label noise and input noise",
        demand=MANY,
    ),
    GAP.claim(
        "With random inputs the gap is the theorem's, within 4 standard errors.",
        lambda r, c: at_most(_deviations(r, r.theory)[INPUTS].max(), 4.0),
        formula=FORMULA,
        demand=FEW,
    ),
    GAP.found(
        "With a design whose second moment is Λ, the gap is the theorem's without ‖s‖².",
        lambda r, c: at_most(_deviations(r, r.theory)[~INPUTS].max(), 4.0),
        demand=FEW,
    ),
    GAP.control(
        "The theorem without ‖s‖² is wrong for random inputs, by 5 standard errors.",
        lambda r, c: at_least(_deviations(r, r.theory[~INPUTS & PRETRAINING & LABELS])[-1], 5.0),
        demand=MANY,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Measured and predicted gaps of the eight cells."""
    figure, (axis,) = panels("risk of the large model minus the small one's")
    names = ["".join("+" if on else "−" for on in cell) for cell in CELLS]
    axis.bar(names, result.gap, yerr=3 * result.error, alpha=0.7)
    axis.plot(names, result.theory, "_", markersize=18, color=THEORY["color"])
    label_axes(axis, "noise of pre-training, inputs, labels")
    return figure
