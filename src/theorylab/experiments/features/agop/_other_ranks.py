"""The same inputs and networks with the targets of other polynomials, in the same program.

    with_ranks      starts with the targets of every rank: f*(x) and the same noise, over √Var f*
    aligned_with    cos(G, M) with any matrix M of the first ten inputs, from what was measured

A program that learns one polynomial learns every other without being compiled again: only targets
differ, and G* of all of them lies in the corner of G that is kept.

Source: zhu · synthetic-tasks · C.6; zhu · agop · Eq. 4.6.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Real

from theorylab.data import Dataset, polynomial_agop
from theorylab.data.polynomials import Rank, polynomial_moments, polynomial_teacher
from theorylab.experiments.features.agop._polynomials import (
    CORNER,
    PolynomialTask,
    PolynomialTraining,
    Start,
)


def with_ranks(starts: Start, task: PolynomialTask, ranks: Sequence[Rank]) -> Start:
    """What `begin_each` gives for each rank with scaled targets, all on one axis of seeds.

    In words the data remain what they were, so that all starts can be joined.

    Args:
        starts: Many starts, from `begin_each`.
        task: Their task.
        ranks: Which polynomials instead; the first one's starts come first.
    """
    own = polynomial_teacher(task.rank)
    unit = math.sqrt(task.variance) if task.scaled else 1.0

    def relabelled(data: Dataset, rank: Rank) -> Dataset:
        noise = unit * data.y - own(data.x)
        scale = math.sqrt(polynomial_moments(rank, task.dimension).variance)
        return replace(data, y=(polynomial_teacher(rank)(data.x) + noise) / scale)

    def one(rank: Rank, start: Start) -> Start:
        return start._replace(
            train=relabelled(start.train, rank),
            validation=relabelled(start.validation, rank),
            test=relabelled(start.test, rank),
        )

    every = [jax.vmap(partial(one, rank))(starts) for rank in ranks]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *every)


def aligned_with(
    matrix: Real[np.ndarray, "c c"], learned: PolynomialTraining | Any, task: PolynomialTask
) -> Float[np.ndarray, "..."]:
    """cos(G, M) of all runs; their norms ‖G‖ follow from the alignment that was measured.

    Args:
        matrix: M, of the first ten inputs; all others have 0.
        learned: What was measured, as arrays.
        task: With whose G* the alignment was measured.
    """
    truth, corner = np.asarray(polynomial_agop(task.rank, CORNER)), np.asarray(learned.corner)
    own, other = (np.sum(corner * part, axis=(-2, -1)) for part in (truth, matrix))
    norm = own / (np.linalg.norm(truth) * np.asarray(learned.alignment))
    return np.asarray(other / (np.linalg.norm(matrix) * norm), float)
