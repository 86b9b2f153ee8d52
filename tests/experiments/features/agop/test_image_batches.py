import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import image_batches as experiment


def changed(result, **fields):
    return result._replace(students=result.students._replace(**fields))


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_small_batches_that_are_worse_are_refuted(smoke, verdict):
    """Corrupted: batch sizes exchanged."""
    wrong = changed(
        smoke, test=smoke.students.test[:, ::-1], alignment=smoke.students.alignment[:, ::-1]
    )
    assert verdict("have the smaller test loss", wrong) == Verdict.REFUTED
    assert verdict("closer to the teacher's", wrong) == Verdict.REFUTED
    assert verdict("effect is not small", wrong) == Verdict.REFUTED
    error, counts = smoke.students.error, smoke.students.num_supercritical
    mistaken = changed(smoke, error=error + np.array([0.3, 0.0])[None, :, None])
    assert verdict("hardly an error to lose", mistaken) == Verdict.REFUTED
    assert verdict("smaller test error", mistaken) == Verdict.REFUTED
    better = changed(smoke, error=0 * error + np.array([0.1, 0.2])[:, None])
    assert verdict("smaller test error", better) == Verdict.SUPPORTED
    for sign, expected in ((1, Verdict.SUPPORTED), (-1, Verdict.REFUTED)):
        told = changed(smoke, num_supercritical=0 * counts + sign * np.array([9, 0])[:, None])
        assert verdict("more super-critical steps", told) == expected


def test_controls_can_fail(smoke, verdict):
    """Corrupted: learning rates exchanged, a run that did not end, teachers that guess."""
    wrong = changed(smoke, test=smoke.students.test[::-1], alignment=smoke.students.alignment[::-1])
    assert verdict("changes the test loss less", wrong) == Verdict.REFUTED
    assert verdict("it changes the alignment less", wrong) == Verdict.REFUTED
    reached = smoke.students.reached.copy()
    reached[0, 0, 0] = False
    assert verdict("one training loss", changed(smoke, reached=reached)) == Verdict.REFUTED
    guessing = smoke._replace(accuracy=0.5 + 0 * smoke.accuracy)
    assert verdict("teachers are accurate", guessing) == Verdict.REFUTED


def test_small_rates_take_longer_and_only_large_ones_are_counted(smoke):
    assert (smoke.students.num_steps[1] > 2 * smoke.students.num_steps[0]).all()
    large, small = smoke.students.num_supercritical
    assert not small.any()
    assert (large <= smoke.students.num_steps[0]).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"classes": (4,)}, "classes must be whole numbers, two different classes"),
        ({"num_train": 700}, "num_train must be from 20 to 699, with num_known = 700, got 700"),
        ({"flipped": 0.5}, r"flipped must be in \[0, 0.5\), got 0.5"),
        ({"batch_sizes": (50, 5)}, "batch_sizes must be whole numbers, two or more and increasing"),
        ({"batch_sizes": (5, 401)}, "batch_sizes must be at most 400, got 401"),
        ({"small_fraction": 0.5}, "increasing and below 2, got 0.5 and 0.5"),
        ({"channels": ()}, "channels must be whole numbers, one or more"),
        ({"target": 0.0}, "target must be a finite number, positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
