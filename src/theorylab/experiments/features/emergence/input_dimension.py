"""The input dimension changes cosines, and nothing that a network or its tangent kernel learns.

Inputs Mφ lie in the span of D orthonormal patterns, and so do gradients. What initial weights have
outside of it meets no input: the tangent kernel is the same in d dimensions as in the D coordinates
of the patterns, so the source's 81.5, 86.4 and 75.4 % of the tangent model at d = 100, 500 and 2000
are no effect of d. It lengthens the weights, though, and so shortens their cosines,

    c² = s²/(s² + r²),   r² ∝ d − D:      c²/(1 − c²) ∝ 1/d

after a first step that keeps some of the start. The theory's first step forgets the start and
leaves no trace of d, though the source prints cosines after one step that fall with d. Its table of
unequal classes, said to be of d = 500, has the cosine that untouched weights have at d = 100.

Source: shi · exp-vary-d · Table A.3; shi · exp-vary-imbalance · Table A.4.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source
from theorylab.claims.judges import (
    at_least,
    at_most,
    between,
    exponent_between,
    median_at_least,
    median_at_most,
)
from theorylab.data import parity_mixture
from theorylab.data.dictionary import orthonormal_dictionary
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels
from theorylab.features.emergence.meters import cosines, expected_largest_cosine, relevant_direction
from theorylab.features.emergence.network import TruncatedNeurons, first_half, outputs
from theorylab.features.emergence.stages import emerge
from theorylab.fields import Count, Increasing, Odd
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._tasks import DictionaryTask, TaskSizes, Theory, draw_task, theory_of

PRECISION = "float32"
FORMULA = r"\frac{c^2}{1 - c^2} \propto \frac1d"

WIDER = Source("shi", "exp-vary-d", "Table A.3")
COSINES = Source("shi", "exp-vary-imbalance", "Table A.4, cosines of RF")

NUM_KERNEL = 20  # inputs of the tangent kernel that is compared


@dataclass(frozen=True)
class Config(TaskSizes):
    """A first step on a parity of patterns, seen in several dimensions."""

    num_patterns: Count = 100  # D
    num_relevant: Odd = 5  # k
    num_pairs: Count = 100  # m, half the number of neurons
    num_test: Count = 20000  # drawn with the others, and not looked at
    dimensions: Increasing[Count] = (100, 500, 2000)  # d

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check(self.num_patterns, self.num_relevant)
        if self.dimensions[0] < self.num_patterns:
            raise ValueError(
                f"dimensions must be at least num_patterns = {self.num_patterns}, "
                f"got {self.dimensions}."
            )


PRESETS = {
    "smoke": Config(num_patterns=30, num_pairs=40, num_samples=12000, num_test=12000),
    "paper": Config(num_pairs=300, num_test=50000, num_seeds=10),
}


class Result(NamedTuple):
    """What was measured: seeds (s), dimensions (d). Cosines are the largest to Σ_A Mⱼ."""

    start: Float[Measured, "s d"]
    kept: Float[Measured, "s d"]  # after a first step that keeps some of the start
    forgotten: Float[Measured, " s"]  # after one that keeps none, whatever d is
    lifted: Float[Measured, "s d"]  # relative change of the tangent kernel in d dimensions
    reversed: Float[Measured, " s"]  # the same of weights −w


def run(config: Config) -> Result:
    """Take one step, and see it in all dimensions."""
    report("taking a step", 0.0)
    law = parity_mixture(config.num_patterns, config.num_relevant)
    theory, dimensions = theory_of(law, config, weigh=True), config.dimensions

    def one(key: RandomKey) -> Result:
        task = draw_task(key, [law], jnp.array(0), theory, config, dimensions[-1])
        return by_dimension(key, task, theory, law.num_relevant, dimensions)

    return ensemble(one, config.keys)


def by_dimension(
    key: RandomKey,
    task: DictionaryTask,
    theory: Theory,
    num_relevant: int,
    dimensions: tuple[int, ...],
) -> Result:
    """Take a first step on one task, whose start has weights in the largest of the dimensions."""
    patterns = task.train.x.shape[1]
    direction = relevant_direction(patterns, num_relevant)
    first = emerge(task.start, task.train, theory.stages, theory.class_weights).first
    # So much that what is kept is as long as what is learned, midway in the dimensions.
    length = jnp.linalg.norm(first.weights, axis=1).max()
    keep = length / (theory.scales.weights * float(np.sqrt(np.median(dimensions))))
    squares = jnp.tile(task.outside**2, (2, 1))
    mixed = keep * task.start.weights + first.weights
    half, x = first_half(task.start), task.train.x[:NUM_KERNEL]
    start, kept, lifted = [], [], []
    for dimension in dimensions:
        rest = squares[:, : dimension - patterns].sum(axis=1)
        start.append(cosines(task.start.weights, direction, rest).max())
        kept.append(cosines(mixed, direction, keep**2 * rest).max())
        lifted.append(kernel_change(key, half, x, dimension))
    own = _tangent_kernel(half, x)
    opposite = _tangent_kernel(half._replace(weights=-half.weights), x)
    return Result(
        start=jnp.stack(start),
        kept=jnp.stack(kept),
        forgotten=cosines(first.weights, direction).max(),
        lifted=jnp.stack(lifted),
        reversed=jnp.abs(opposite - own).mean() / jnp.abs(own).mean(),
    )


def kernel_change(
    key: RandomKey, neurons: TruncatedNeurons, x: Float[Array, "n patterns"], dimension: int
) -> Float[Array, ""]:
    """Mean |K' − K| over mean |K|, tangent kernels of inputs x and Mx, weights w and Mw + across.

    Args:
        key: Draws the orthonormal dictionary M, and what is across it.
        neurons: In the coordinates of the patterns.
        x: Inputs in the same coordinates.
        dimension: d.
    """
    dictionary_key, across_key = jax.random.split(key)
    dictionary = orthonormal_dictionary(dictionary_key, dimension, x.shape[1])
    drawn = jax.random.normal(across_key, (len(neurons.biases), dimension))
    across = drawn - (drawn @ dictionary) @ dictionary.T
    weights = neurons.weights @ dictionary.T + jnp.std(neurons.weights) * across
    own = _tangent_kernel(neurons, x)
    change = _tangent_kernel(neurons._replace(weights=weights), x @ dictionary.T) - own
    return jnp.abs(change).mean() / jnp.abs(own).mean()


def _tangent_kernel(neurons: TruncatedNeurons, x: Float[Array, "n d"]) -> Float[Array, "n n"]:
    slopes = jax.tree.leaves(jax.jacrev(outputs)(neurons, x))
    flat = jnp.concatenate([jnp.reshape(each, (len(x), -1)) for each in slopes], axis=1)
    return flat @ flat.T


SOURCE_PAIRS = 300  # m of the source
UNTOUCHED = 0.293  # largest cosine of weights that do not move, as printed with unequal classes


def _expected(num_pairs: int, config: Config) -> np.ndarray:
    """The largest cosine of random directions, in every dimension."""
    return np.array([expected_largest_cosine(num_pairs, d) for d in config.dimensions])


def _untouched(result: Result, config: Config, dimension: int) -> float:
    """The largest cosine of untouched weights in d dimensions, of 300 pairs, over the printed."""
    measured = result.start.mean(axis=0) / _expected(config.num_pairs, config)
    measured = measured * _expected(SOURCE_PAIRS, config)
    found = measured[np.array(config.dimensions) == dimension]
    return float(found[0] / UNTOUCHED) if len(found) else np.nan


CLAIMS = (
    WIDER.found(
        "At the start the largest cosine is that of random directions, within 30 %.",
        lambda r, c: at_most(
            np.abs(r.start.mean(axis=0) / _expected(c.num_pairs, c) - 1).max(), 0.3
        ),
        demand="lab: 30 %, because a largest of some hundred varies",
    ),
    *COSINES.erratum(
        printed=(
            "Untouched weights have the cosine printed with unequal classes at d = 500, to 30 %.",
            lambda r, c: between(_untouched(r, c, 500), 0.7, 1.3),
        ),
        corrected=(
            "They have it at d = 100.",
            lambda r, c: between(_untouched(r, c, 100), 0.7, 1.3),
        ),
        quote="Cos Similarity 0.999 NA 0.293 0.950",
    ),
    WIDER.found(
        # Rounding opens or closes a neuron for inputs at its edge, which is a part of 1/m.
        "The tangent kernel, and so its accuracy, is the same in every dimension, to 1 %.",
        lambda r, c: at_most(r.lifted.max(), 0.01),
        demand="derived: inputs and gradients lie in the span of the patterns; 1 % for rounding",
    ),
    WIDER.control(
        "Weights that point the other way in the span of the patterns have another tangent kernel: "
        "it differs by 10 % or more.",
        lambda r, c: at_least(r.reversed.min(), 0.1),
        demand="lab: the smoke preset at seed 0 has 35 %",
    ),
    *WIDER.erratum(
        printed=(
            "After one step, trained as §2.3 says, the largest cosine at d = 2000 is 0.560: below "
            "0.7.",
            lambda r, c: median_at_most(r.forgotten, 0.7),
        ),
        corrected=(
            "A first step that forgets the start has a cosine of 0.99 in every dimension.",
            lambda r, c: median_at_least(r.forgotten, 0.99),
        ),
        quote="Cos Similarity 0.998 NA 0.056 0.560 0.998 0.309",
    ),
    WIDER.found(
        "A first step that keeps some of the start has c²/(1 − c²) ∝ 1/d, as the printed cosines.",
        lambda r, c: exponent_between(
            np.array(c.dimensions, float), r.kept**2 / (1 - r.kept**2), -1.3, -0.7
        ),
        formula=r"c^2/(1-c^2) \propto d^{-1}",
        demand="derived: −1 if what is outside of the span is most of the length; 0.3 for the rest",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Largest cosines by dimension."""
    figure, (axis,) = panels("largest cosine to the relevant patterns")
    named = {
        "start": result.start,
        "step 1, start kept": result.kept,
        "step 1, start forgotten": np.repeat(result.forgotten[:, None], len(config.dimensions), 1),
    }
    curves(axis, config.dimensions, named, "o-")
    axis.plot(config.dimensions, _expected(config.num_pairs, config), **THEORY)
    label_axes(axis, "dimension d", logarithmic="x")
    return figure
