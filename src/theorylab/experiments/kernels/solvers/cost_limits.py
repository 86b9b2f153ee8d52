"""Computing the kernel of a pooled convolutional network costs far more than regression with it.

The kernel of m images of side a has m(m + 1)/2 different entries, and with pooling each needs all
pairs of pixels: a⁴ operations, against a² where pixels are flattened. Integrating the gradient flow
takes m² operations for every step, solving exactly m³/3.

Operations are counted, in the programs that run. The source measured times, on a GPU, and scales
them up to 160 years for a million images.

Source: golikov · ntk-cost-limits · 2.9, Figs 2.4–2.8.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, between
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Checked, Count, Increasing, Plural
from theorylab.kernels.infinite.cost import computed_pairs, pair_operations
from theorylab.models import (
    Activation,
    Architecture,
    AvgPool,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    Serial,
)
from theorylab.numerics import power_law
from theorylab.progress import report

PRECISION = "float32"
FORMULA = r"\text{operations} \propto m^2 a^4, \quad m^2 T, \quad m^3 / 3"

COST = Source("golikov", "ntk-cost-limits", "2.9, Figs 2.4–2.8")
PIXELS = Source("golikov", "ntk-cost-limits", "2.5.1")


@dataclass(frozen=True)
class Config(Checked):
    """A Myrtle-like network on colour images: convolutions, pooling twice, pooling over all."""

    sides: Increasing[Plural] = (8, 12, 16, 20, 24, 28)  # sides a of the images, multiples of 4
    sample_counts: Increasing[Plural] = (32, 64, 128, 256, 512)  # numbers of images m
    num_outputs: Count = 10  # outputs, each of which the flow integrates
    num_steps: Count = 10_000  # steps T of the integration
    many: Count = 10_000  # images at which the parts are compared

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(side % 4 for side in self.sides):
            raise ValueError(f"sides must be multiples of 4, got {self.sides}.")


PRESETS = {
    "smoke": Config(sides=(8, 16, 28), sample_counts=(32, 128, 512)),
    "paper": Config(sides=(8, 16, 32, 64, 96), sample_counts=(100, 1000, 10_000, 100_000)),
}


class Result(NamedTuple):
    """Axes: a sides, m numbers of images. Operations of one pair of images, but for steps."""

    pooled: Float[np.ndarray, " a"]  # for both kernels, with pooling
    nngp: Float[np.ndarray, " a"]  # for the NNGP alone
    flat: Float[np.ndarray, " a"]  # without pooling
    pairs: Float[np.ndarray, " m"]  # of images that are computed, filled-up tiles included
    step: Float[np.ndarray, " m"]  # operations for one step of integration
    gram_at_many: float  # operations of the kernel of many images of the largest side
    integration_at_many: float  # of all steps for as many
    solution_at_many: float  # of an exact solution for as many, m³/3


def memory(config: Config) -> int:
    """Bytes of the arrays that a count is made for; no kernel is computed."""
    return 8 * max(config.sides) ** 2 * 64


def run(config: Config) -> Result:
    """Count the operations of kernels, and of what is done with them."""
    pooled, nngp, flat = [], [], []
    for index, side in enumerate(config.sides):
        report(f"images of side {side}", 0.9 * index / len(config.sides))
        shape = (side, side, 3)
        pooled.append(pair_operations(_myrtle(), shape))
        nngp.append(pair_operations(_myrtle(), shape, tangent=False))
        flat.append(pair_operations(_flat(), shape))
    report("steps of integration", 0.9)
    many, largest = config.many, (config.sides[-1], config.sides[-1], 3)
    pairs = [float(computed_pairs(_myrtle(), largest, m)) for m in (*config.sample_counts, many)]
    steps = [_step_operations(m, config.num_outputs) for m in (*config.sample_counts, many)]
    return Result(
        pooled=np.asarray(pooled),
        nngp=np.asarray(nngp),
        flat=np.asarray(flat),
        pairs=np.asarray(pairs[:-1]),
        step=np.asarray(steps[:-1]),
        gram_at_many=pooled[-1] * pairs[-1],
        integration_at_many=steps[-1] * config.num_steps,
        solution_at_many=many**3 / 3,
    )


def _convolutions(count: int) -> tuple[Architecture, ...]:
    return (Conv(1, (3, 3), padding="same"), Activation("relu")) * count


def _myrtle() -> Serial:
    pool = AvgPool((2, 2))
    blocks = (*_convolutions(2), pool, *_convolutions(1), pool, *_convolutions(1))
    return Serial(*blocks, GlobalPool(), Dense(1))


def _flat() -> Serial:
    return Serial(*_convolutions(4), Flatten(), Dense(1))


def _step_operations(num_samples: int, num_outputs: int) -> float:
    """Operations of f ← f − ηΘ(f − y)."""
    kernel = jax.ShapeDtypeStruct((num_samples, num_samples), jnp.float32)
    outputs = jax.ShapeDtypeStruct((num_samples, num_outputs), jnp.float32)
    step = jax.jit(lambda kernel, f, y: f - 0.1 * (kernel @ (f - y)))
    return float((step.lower(kernel, outputs, outputs).cost_analysis() or {})["flops"])


def _exponent(x: np.ndarray, y: np.ndarray) -> float:
    return power_law(x, y).exponent


CLAIMS = (
    COST.claim(
        "With pooling, the operations for an entry grow as the fourth power of the side.",
        lambda r, c: between(_exponent(np.asarray(c.sides), r.pooled), 3.7, 4.3),
        formula=r"O(m^2 a^4)",
        quote="where d is image resolution; see Section 2.4",
        demand="lab: 4 ± 0.3 for the edges of small images, chosen before the first run",
    ),
    PIXELS.control(
        "Without pooling, the operations for an entry grow as the square of the side only.",
        lambda r, c: between(_exponent(np.asarray(c.sides), r.flat), 1.7, 2.3),
        quote="if no pooling is used in the network, it suffices to compute and store",
        demand="lab: 2 ± 0.3 for the edges of small images, chosen before the first run",
    ),
    COST.claim(
        "The entries that are computed grow as the square of the number of images.",
        lambda r, c: between(_exponent(np.asarray(c.sample_counts), r.pairs), 1.9, 2.1),
        quote="We observe the same quadratic time growth issue",
        demand="lab: 2 ± 0.1, for the symmetric half and filled-up tiles",
    ),
    COST.claim(
        "A step of integration grows as the square of the number of images.",
        lambda r, c: between(_exponent(np.asarray(c.sample_counts), r.step), 1.8, 2.2),
        formula=r"O(m^2 T)",
        quote="which is also takes time quadratic to size of the dataset",
        demand="lab: 2 ± 0.2, for the terms of first order",
    ),
    COST.claim(
        "The NNGP kernel costs almost as much as the tangent kernel: at least four fifths.",
        lambda r, c: between(np.median(r.nngp / r.pooled), 0.8, 1.0),
        quote="the time to compute the NNGP kernel is almost the same as the one for NTK",
        demand="lab: how 'almost the same' is read",
    ),
    COST.claim(
        "At ten thousand images the kernel costs more than all steps of integration.",
        lambda r, c: at_least(r.gram_at_many / r.integration_at_many, 1.0),
        quote="the most time-demanding stage is construction of the Gram matrix",
        regime="many == 10000 and num_steps == 10000",
        demand="source",
    ),
    PIXELS.claim(
        "The kernel costs more than an exact solution where a⁴ is larger than m.",
        lambda r, c: at_least(r.gram_at_many / r.solution_at_many, 1.0),
        quote="even surpassing the time required for Gram matrix inversion",
        regime="max(sides) ** 4 > many",
        demand="source",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the operations of an entry over the side, and of a kernel over the images."""
    sides = np.asarray(config.sides)
    samples = np.asarray(config.sample_counts)
    figure, (entry, whole) = panels("operations for an entry", "operations over images")
    for values, label, power in (
        (result.pooled, "both kernels, pooled", 4),
        (result.nngp, "NNGP, pooled", 4),
        (result.flat, "both kernels, flattened", 2),
    ):
        entry.plot(sides, values, "o-", markersize=3, label=label)
        entry.plot(sides, values[0] * (sides / sides[0]) ** power, **THEORY)
    label_axes(entry, "side a", logarithmic="xy")
    gram = result.pairs * result.pooled[-1]
    whole.plot(samples, gram, "o-", markersize=3, label=f"kernel, side {sides[-1]}")
    whole.plot(samples, result.step, "o-", markersize=3, label="a step of integration")
    label_axes(whole, "images m", logarithmic="xy")
    for axis in (entry, whole):
        axis.legend(fontsize=7)
    return figure
