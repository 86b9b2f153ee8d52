"""What the dimension changes: cosines by Pythagoras, and no tangent kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.data import parity_mixture
from theorylab.experiments.features.emergence import input_dimension as experiment
from theorylab.experiments.features.emergence._tasks import TaskSizes, draw_task, theory_of

LAW = parity_mixture(8, 3)
SIZES = TaskSizes(num_pairs=5, num_samples=200, num_test=50)


@pytest.fixture(scope="module")
def task():
    theory = theory_of(LAW, SIZES)
    return draw_task(jax.random.key(0), [LAW], jnp.array(0), theory, SIZES, dimension=400)


def test_the_tangent_kernel_is_the_same_in_every_dimension(task):
    """An identity, so equal to rounding."""
    for dimension in (8, 50):
        change = experiment.kernel_change(
            jax.random.key(1), task.start, task.train.x[:6], dimension
        )
        assert change < 1e-12


def test_cosines_are_those_of_the_whole_vectors(task):
    """Oracle: vectors with all their coordinates written out, and the sum of relevant patterns."""
    seen = experiment.by_dimension(jax.random.key(1), task, theory_of(LAW, SIZES), 3, (8, 100, 400))
    inside = np.asarray(task.start.weights[:5])
    for place, dimension in enumerate((8, 100, 400)):
        whole = np.concatenate([inside, np.asarray(task.outside)[:, : dimension - 8]], axis=1)
        cosines = whole[:, :3].sum(axis=1) / np.linalg.norm(whole, axis=1) / np.sqrt(3)
        assert seen.start[place] == pytest.approx(cosines.max(), rel=1e-10)
    assert seen.kept[0] > seen.kept[1] > seen.kept[2]
    assert seen.lifted.max() < 1e-12


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("at d = 100", "start", 0.9),
        ("is the same in every dimension", "lifted", 0.1),
        ("At the start", "start", 0.9),
        ("forgets the start", "forgotten", 0.9),
        ("keeps some of the start", "kept", 0.9),
        ("another tangent kernel", "reversed", 0.01),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


def test_printed_statements_could_be_right(smoke, verdict):
    """Oracle: weights of 300 pairs that are all at the printed cosine; a small one after a step."""
    sources = experiment.Config(num_pairs=300)
    right = smoke._replace(start=np.full_like(smoke.start, 0.293))
    assert verdict("at d = 500", right, sources) == Verdict.SUPPORTED
    small = smoke._replace(forgotten=np.full_like(smoke.forgotten, 0.5))
    assert verdict("After one step", small) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimensions": (500, 100)}, "dimensions must be .* two or more and increasing"),
        ({"dimensions": (50, 100)}, "dimensions must be at least num_patterns = 100"),
        ({"num_relevant": 4}, "num_relevant must be a whole number, odd"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
