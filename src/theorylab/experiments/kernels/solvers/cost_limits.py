"""Why kernels of pooled convolutional networks stop at some ten thousand images.

The kernel of m images of side a has m(m + 1)/2 different entries, and with pooling each needs all
pairs of pixels: a⁴ operations, against a² where pixels are flattened. Integrating the gradient flow
takes m² operations for every step, solving exactly m³/3; the kernel itself costs far more. At the
time that the source measured for an entry, a million images would take 160 years.

Operations are counted, in the programs that run; times follow from a rate of operations.

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
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Checked, Count, Increasing, Plural, Positive
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
YEAR = 365.25 * 24 * 3600  # seconds


@dataclass(frozen=True)
class Config(Checked):
    """A Myrtle-like network on colour images: convolutions, pooling twice, pooling over all."""

    sides: Increasing[Plural] = (8, 12, 16, 20, 24, 28)  # sides a of the images, multiples of 4
    sample_counts: Increasing[Plural] = (32, 64, 128, 256, 512)  # numbers of images m
    num_outputs: Count = 10  # outputs, each of which the flow integrates
    num_steps: Count = 10_000  # steps T of the integration
    many: Count = 10_000  # images at which the parts are compared
    operations_per_second: Positive = 1e11  # rate at which times are told
    entry_seconds: Positive = 0.005  # of an entry of the source's Myrtle network, on its GPU

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
    gram_hours: float  # at the rate of operations
    million_years: float  # 10¹² entries at the source's time for one


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
    side, many = max(config.sides), config.many
    largest = pooled[config.sides.index(side)]
    gram = largest * computed_pairs(_myrtle(), (side, side, 3), many)
    return Result(
        pooled=np.asarray(pooled),
        nngp=np.asarray(nngp),
        flat=np.asarray(flat),
        pairs=np.array(
            [float(computed_pairs(_myrtle(), (side, side, 3), m)) for m in config.sample_counts]
        ),
        step=np.array([_step_operations(m, config.num_outputs) for m in config.sample_counts]),
        gram_at_many=gram,
        integration_at_many=_step_operations(many, config.num_outputs) * config.num_steps,
        solution_at_many=many**3 / 3,
        gram_hours=gram / config.operations_per_second / 3600,
        million_years=1e12 * config.entry_seconds / YEAR,
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


# Ranges are the catalogue's; counts have no noise, but edges of images and of tiles.
CLAIMS = (
    COST.claim(
        "With pooling, the operations for an entry grow as the fourth power of the side.",
        lambda r, c: between(_exponent(np.asarray(c.sides), r.pooled), 3.7, 4.3),
        formula=r"O(m^2 a^4)",
    ),
    COST.claim(
        "The entries that are computed grow as the square of the number of images.",
        lambda r, c: between(_exponent(np.asarray(c.sample_counts), r.pairs), 1.9, 2.1),
    ),
    COST.claim(
        "A step of integration grows as the square of the number of images.",
        lambda r, c: between(_exponent(np.asarray(c.sample_counts), r.step), 1.8, 2.2),
        formula=r"O(m^2 T)",
    ),
    COST.claim(
        "The NNGP alone costs 0.4 to 1 times both kernels.",
        lambda r, c: between(np.median(r.nngp / r.pooled), 0.4, 1.0),
    ),
    COST.claim(
        "At ten thousand images the kernel costs ten times all steps of integration.",
        lambda r, c: at_least(r.gram_at_many / r.integration_at_many, 10.0),
    ),
    COST.claim(
        "It costs ten times an exact solution, too.",
        lambda r, c: at_least(r.gram_at_many / r.solution_at_many, 10.0),
        formula=r"O(m^3)",
    ),
    COST.claim(
        "At the time of the source's entries, a million images take 160 years.",
        lambda r, c: between(r.million_years, 155.0, 165.0),
        formula=r"10^{12} \cdot 5\,\mathrm{ms} = 5 \cdot 10^9\,\mathrm{s}",
    ),
    COST.control(
        "Without pooling, the operations for an entry grow as the square of the side only.",
        lambda r, c: between(_exponent(np.asarray(c.sides), r.flat), 1.7, 2.3),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the operations of an entry over the side, and of a kernel over the images."""
    sides = np.asarray(config.sides)
    samples = np.asarray(config.sample_counts)
    figure, (entry, whole) = panels("operations for an entry", "operations over images")
    for values, label in (
        (result.pooled, "both kernels, pooled"),
        (result.nngp, "NNGP, pooled"),
        (result.flat, "both kernels, flattened"),
    ):
        entry.plot(sides, values, "o-", markersize=3, label=label)
    for values, power in ((result.pooled, 4), (result.flat, 2)):
        law = values[0] * (sides / sides[0]) ** power
        entry.plot(sides, law, label=f"a^{power}", **THEORY)
    entry.set(xlabel="side a")
    gram = result.pairs * result.pooled[-1]
    whole.plot(samples, gram, "o-", markersize=3, label=f"kernel, side {sides[-1]}")
    whole.plot(samples, result.step, "o-", markersize=3, label="a step of integration")
    whole.set(xlabel="images m")
    for axis in (entry, whole):
        axis.set(xscale="log", yscale="log")
        axis.legend(fontsize=7)
    return figure
