"""SGD with smaller batches aligns features better with the target and has a lower test loss.

A wide network with one hidden layer learns y = x₁x₂ + noise from inputs of 100 dimensions, of which
two matter. All runs have one learning rate, half the critical one of the whole training set, and
all go on until the training loss is below 10⁻³; only the batch sizes differ. A small batch has a
smaller critical rate, η_crit(batch) = b/λ_max(K(batch)), so that many steps are super-critical.
At the best validation loss, the smaller the batch was, the smaller the test loss is, and the better
the average gradient outer product G is aligned with that of the target, G*.

Batches come from shuffled epochs, without replacement. The networks have no biases: with biases of
N(0, 1) nothing of this is seen. Test losses include the noise and are drawn over Var f*, the loss
of the best constant. At the source's size its table is reproduced. `rank` chooses other
polynomials.

Source: zhu · agop-sgd · Table 4.1, Fig. 4.9, C.15, C.19, C.21.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_most, median_at_least
from theorylab.data import polynomial_agop
from theorylab.experiments.drawing import THEORY, image, panels
from theorylab.fields import Count
from theorylab.typing import Measured

from . import _polynomials as polynomials
from ._polynomials import CORNER, NOT_KEPT, BatchConfig, PolynomialTraining

PRECISION = "float32"
FORMULA = r"\eta > \eta_{\rm crit}(\text{batch}) = b / \lambda_{\max}(K(X_{\rm batch}))"

TABLE = Source("zhu", "agop-sgd", "Table 4.1")
FIGURE = Source("zhu", "agop-sgd", "Fig. 4.9")
COUNT = Source("zhu", "agop-sgd", "§4.4, the number of catapults")

CALM = 50  # with batches of this size or larger, no step is super-critical

# Table 4.1, by batch size: means of three runs.
TEST = {5: 0.42, 10: 0.59, 50: 0.71, 2000: 0.74}
ALIGNMENT = {5: 0.95, 10: 0.89, 50: 0.84, 2000: 0.81}
RUNS = 3
OF_TABLE = "rank == 2 and dimension == 100 and num_train == 2000 and widths == (1024,)"
THREE_ERRORS = (
    "derived: three standard errors of the difference between a mean of three runs and ours"
)


@dataclass(frozen=True)
class Config(BatchConfig):
    """SGD on a polynomial of low rank, with several batch sizes and one learning rate."""

    num_seeds: Count = 24  # data and networks; an interval over 6 is wider than the bands
    fraction: float = 0.5  # the learning rate, as a part of η_crit of the training set

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.fraction < 2:
            raise ValueError(f"fraction must be in (0, 2), got {self.fraction}.")


PRESETS = {
    "smoke": Config(
        dimension=30,
        num_train=300,
        num_test=500,
        widths=(256,),
        batch_sizes=(5, 50),
        check_every=60,
        num_seeds=6,
    ),
    "paper": Config(batch_sizes=(5, 10, 50, 100, 2000)),
}


class Result(NamedTuple):
    """Axes: s seeds; of runs: batch sizes, seeds."""

    critical_rates: Float[Measured, " s"]  # of the whole training set, at the start
    runs: PolynomialTraining  # super-critical steps are NaN where they are not counted


def memory(config: Config) -> int:
    """Bytes of the data and networks of all seeds, and of two runs at once."""
    return polynomials.bytes_of(config, config.num_seeds)


def run(config: Config) -> Result:
    """Train with every batch size, from the same starts."""
    critical_rates, learned = polynomials.learn_by_batch_size(
        config, lambda critical: config.fraction * critical[None]
    )
    runs = jax.tree.map(lambda leaf: np.asarray(leaf[0]), learned)
    counts = np.where(runs.num_supercritical < 0, np.nan, runs.num_supercritical)
    return Result(critical_rates, runs._replace(num_supercritical=counts))


def _least_rise(values: np.ndarray) -> np.ndarray:
    """Seed by seed, the least rise from one batch size to the next."""
    return np.diff(values, axis=0).min(axis=0)


def _furthest(table: dict[int, float], values: np.ndarray, config: Config) -> float:
    """How far the means are from the table at most, in standard errors of the difference."""
    rows = [(values[place], size) for place, size in enumerate(config.batch_sizes) if size in table]
    return max(
        abs(row.mean() - table[size]) / (row.std(ddof=1) * np.sqrt(1 / RUNS + 1 / len(row)))
        for row, size in rows
    )


def _counted(result: Result) -> np.ndarray:
    """Super-critical steps, where they were counted."""
    return result.runs.num_supercritical[np.isfinite(result.runs.num_supercritical).all(axis=1)]


def _share(result: Result) -> np.ndarray:
    """The share of super-critical steps with the smallest batches, seed by seed."""
    return result.runs.num_supercritical[0] / np.maximum(result.runs.step[0], 1)


def _calm(result: Result, config: Config) -> float:
    """The most super-critical steps of any run with large batches."""
    return float(np.nanmax(result.runs.num_supercritical[np.array(config.batch_sizes) >= CALM]))


CLAIMS = (
    FIGURE.claim(
        "The smaller the batch, the smaller the test loss: from each size to the next, by seed.",
        lambda r, c: median_at_least(_least_rise(r.runs.test), 0.0),
        formula=r"L_{\rm test}(5) < L_{\rm test}(10) < L_{\rm test}(50)",
        quote="the test loss/error decreases and (3) the AGOP alignment improves",
    ),
    FIGURE.claim(
        "The smaller the batch, the better G is aligned: from each size to the next, by seed.",
        lambda r, c: median_at_least(_least_rise(-r.runs.alignment), 0.0),
        formula=r"\cos(G, G^*)(5) > \cos(G, G^*)(10) > \cos(G, G^*)(50)",
        quote="the test loss/error decreases and (3) the AGOP alignment improves",
    ),
    FIGURE.claim(
        "The smaller the batch, the more steps are super-critical: from each size to the next.",
        lambda r, c: median_at_least(_least_rise(-_counted(r)), 0.0),
        quote="as the batch size decreases, (1) the number of catapults increases",
    ),
    TABLE.claim(
        "With batches of 5, 10, 50 and 2000 the test loss is 0.42, 0.59, 0.71 and 0.74.",
        lambda r, c: at_most(_furthest(TEST, r.runs.test, c), 3.0),
        regime=OF_TABLE,
        demand=THREE_ERRORS,
    ),
    TABLE.claim(
        "With batches of 5, 10, 50 and 2000 the alignment is 0.95, 0.89, 0.84 and 0.81.",
        lambda r, c: at_most(_furthest(ALIGNMENT, r.runs.alignment, c), 3.0),
        regime=OF_TABLE,
        demand=THREE_ERRORS,
    ),
    COUNT.found(
        "Super-critical steps, which the source counts as catapults, are not rare: with the"
        " smallest batches they are at least a third of all steps.",
        lambda r, c: median_at_least(_share(r), 1 / 3),
        formula=r"\#\{t : \eta > \eta_{\rm crit}(\text{batch}_t)\} / t \ge 1/3",
        demand=NOT_KEPT,
    ),
    FIGURE.control(
        "With batches of 50 or more no step is super-critical, in any run.",
        lambda r, c: at_most(_calm(r, c), 0.0),
    ),
    TABLE.check(
        "All runs are compared at one training loss: each has fallen below it.",
        lambda r, c: at_most(r.runs.loss.max(), c.target),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Test loss, alignment, super-critical steps, and corners of G beside that of G*."""
    sizes = config.batch_sizes
    corners = {
        f"G, batches of {sizes[0]}": result.runs.corner[0, 0],
        f"G, batches of {sizes[-1]}": result.runs.corner[-1, 0],
        "G*": polynomial_agop(config.law, config.dimension)[:CORNER, :CORNER],
    }
    measures = {
        "test loss / Var f*": result.runs.relative,
        "alignment cos(G, G*)": result.runs.alignment,
        "super-critical steps": result.runs.num_supercritical,
    }
    figure, axes = panels(*measures, *corners)
    values = [measure[None] for measure in measures.values()]
    polynomials.over_batch_sizes(axes[:3], sizes, values, ["SGD"])
    axes[0].axhline(1.0, **THEORY)
    for axis, corner in zip(axes[3:], corners.values(), strict=True):
        image(axis, np.asarray(corner))
    return figure
