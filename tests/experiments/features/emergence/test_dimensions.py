"""What the dimension changes: cosines by Pythagoras, and no tangent kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.data import parity_mixture
from theorylab.experiments.features.emergence._dimensions import by_dimension, kernel_change
from theorylab.experiments.features.emergence._tasks import Setting, draw_task, theory_of

LAW = parity_mixture(8, 3)
SETTING = Setting(5, 200, 50, 10, 20, dimension=400)


@pytest.fixture(scope="module")
def task():
    theory = theory_of(LAW, SETTING)
    return draw_task(jax.random.key(0), [LAW], jnp.array(0), theory, SETTING)


def test_the_tangent_kernel_is_the_same_in_every_dimension(task):
    """An identity, so equal to rounding."""
    for dimension in (8, 50):
        change = kernel_change(jax.random.key(1), task.start, task.train.x[:6], dimension)
        assert change < 1e-12


def test_cosines_are_those_of_the_whole_vectors(task):
    """Oracle: vectors with all their coordinates written out, and the sum of relevant patterns."""
    seen = by_dimension(jax.random.key(1), task, theory_of(LAW, SETTING), 3, (8, 100, 400))
    inside = np.asarray(task.start.weights[:5])
    for place, dimension in enumerate((8, 100, 400)):
        whole = np.concatenate([inside, np.asarray(task.outside)[:, : dimension - 8]], axis=1)
        cosines = whole[:, :3].sum(axis=1) / np.linalg.norm(whole, axis=1) / np.sqrt(3)
        assert seen.start[place] == pytest.approx(cosines.max(), rel=1e-10)
    assert seen.kept[0] > seen.kept[1] > seen.kept[2]
    assert seen.change.max() < 1e-12
