"""What experiments on the size of batches share: their runs and their figure.

    learn_by_batch_size   SGD with every size and learning rate, from the same starts
    by_batch_size         a measure over the sizes, one colour for every learning rate

Source: zhu · agop-sgd · Table 4.1; zhu · small-lr-control · Fig. 4.10; zhu · torch-param · C.20.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Real
from matplotlib.axes import Axes

from theorylab.experiments.features.agop._polynomials import (
    PolynomialTask,
    begin_each,
    learn_with_batches,
)
from theorylab.models import Model
from theorylab.progress import report
from theorylab.training import Until


def learn_by_batch_size(
    seed: int,
    num_seeds: int,
    task: PolynomialTask,
    model: Model,
    batch_sizes: Sequence[int],
    until: Until,
    rates_of: Callable[[Float[Array, " s"]], Float[Array, "r s"]],
) -> tuple[Float[np.ndarray, " s"], Any]:
    """Give η_crit of all training samples, and a `Learned` of arrays: axes rates, sizes, seeds.

    Args:
        seed: Of all randomness.
        num_seeds: How many data sets and networks.
        task: What is to be learned.
        model: The network.
        batch_sizes: The sizes.
        until: When training ends.
        rates_of: η_crit of every seed ─► its learning rates.
    """
    report("data, networks and their critical learning rates", 0.0)
    start_key, batch_key = jax.random.split(jax.random.key(seed))
    starts = begin_each(start_key, num_seeds, task, model)
    rates = rates_of(starts.critical_rate)
    learned = learn_with_batches(batch_key, starts, rates, task, model, batch_sizes, until)
    return np.asarray(starts.critical_rate), jax.tree.map(np.asarray, learned)


def by_batch_size(
    axes: Sequence[Axes],
    sizes: Int[np.ndarray, " b"],
    measures: Sequence[Real[np.ndarray, "r b s"]],
    labels: Sequence[str] = ("",),
) -> None:
    """Draw every measure over the sizes, seed by seed and in the mean.

    Args:
        axes: One for each measure.
        sizes: Of batches.
        measures: Axes rates, sizes, seeds.
        labels: Of the rates.
    """
    for axis, values in zip(axes, measures, strict=True):
        for place, label in enumerate(labels):
            colour = f"C{place}"
            axis.semilogx(sizes, values[place], "o", color=colour, alpha=0.5)
            axis.semilogx(sizes, values[place].mean(axis=1), color=colour, label=label)
        axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.minorticks_off()  # their labels would stand upon those of the sizes
        axis.set_xlabel("batch size")
    if any(labels):
        axes[0].legend(fontsize=7)
