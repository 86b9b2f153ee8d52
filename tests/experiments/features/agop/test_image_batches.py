import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import image_batches as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_small_batches_that_are_worse_are_refuted(smoke, verdict):
    """Corrupted: batch sizes exchanged."""
    wrong = smoke._replace(test=smoke.test[:, ::-1], alignment=smoke.alignment[:, ::-1])
    assert verdict("have the smaller test loss", wrong) == Verdict.REFUTED
    assert verdict("closer to the teacher's", wrong) == Verdict.REFUTED
    assert verdict("It is not small", wrong) == Verdict.REFUTED
    mistaken = smoke._replace(error=smoke.error + np.array([0.3, 0.0])[None, :, None])
    assert verdict("fewer test images wrongly", mistaken) == Verdict.REFUTED
    clothes = smoke._replace(clothes=True, error=smoke.error * 0 + np.array([0.1, 0.2])[:, None])
    assert verdict("fewer test images wrongly", clothes) == Verdict.SUPPORTED
    turned = clothes._replace(error=clothes.error[:, ::-1])
    assert verdict("fewer test images wrongly", turned) == Verdict.REFUTED


def test_controls_can_fail(smoke, verdict):
    """Corrupted: learning rates exchanged, a run that did not end, teachers that guess."""
    wrong = smoke._replace(test=smoke.test[::-1], alignment=smoke.alignment[::-1])
    assert verdict("At a small learning rate", wrong) == Verdict.REFUTED
    assert verdict("change the alignment less", wrong) == Verdict.REFUTED
    reached = smoke.reached.copy()
    reached[0, 0, 0] = False
    assert verdict("one training loss", smoke._replace(reached=reached)) == Verdict.REFUTED
    guessing = smoke._replace(accuracy=0.5 + 0 * smoke.accuracy)
    assert verdict("know their task", guessing) == Verdict.REFUTED


def test_small_rates_take_longer_and_only_large_ones_are_counted(smoke):
    assert (smoke.num_steps[1] > 2 * smoke.num_steps[0]).all()
    assert smoke.num_supercritical.shape == smoke.num_steps.shape[1:]
    assert (smoke.num_supercritical <= smoke.num_steps[0]).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"classes": (4,)}, "classes must be two"),
        ({"num_train": 700}, "num_train must be from 20 to 699, with num_known = 700, got 700"),
        ({"turned": 0.5}, r"turned must be in \[0, 0.5\), got 0.5"),
        ({"batch_sizes": (50, 5)}, "batch_sizes must be two or more and increasing"),
        ({"batch_sizes": (5, 401)}, "batch_sizes must be at most 400, got 401"),
        ({"small_fraction": 0.5}, "increasing and below 2, got 0.5 and 0.5"),
        ({"channels": ()}, "channels must be at least 1 each"),
        ({"target": 0.0}, "loss to reach must be positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
