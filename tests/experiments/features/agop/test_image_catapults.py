import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import image_catapults as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_what_gets_worse_with_catapults_is_refuted(smoke, verdict):
    """Corrupted: runs with catapults and without exchanged."""
    wrong = smoke._replace(test=smoke.test[:, ::-1], alignment=smoke.alignment[:, ::-1])
    assert verdict("lower the test loss", wrong) == Verdict.REFUTED
    fewer = np.array([0.1, 0.0])[None] + 0 * smoke.error
    assert verdict("lower the test error", smoke._replace(error=fewer)) == Verdict.SUPPORTED
    more = smoke._replace(error=fewer[:, ::-1])
    assert verdict("lower the test error", more) == Verdict.REFUTED
    assert verdict("closer to a teacher's", wrong) == Verdict.REFUTED


def test_students_that_become_teachers_and_controls_that_move_are_refuted(smoke, verdict):
    arrived = np.stack([smoke.alignment[:, 0], smoke.ceiling], axis=1)
    assert verdict("at most half", smoke._replace(alignment=arrived)) == Verdict.REFUTED
    moved = smoke._replace(calm_test=smoke.test[:, 0] + 1, calm_alignment=2 + smoke.calm_alignment)
    assert verdict("changes the test loss less", moved) == Verdict.REFUTED
    assert verdict("changes the features less", moved) == Verdict.REFUTED
    strangers = smoke._replace(ceiling=0 * smoke.ceiling, accuracy=0.5 + 0 * smoke.accuracy)
    assert verdict("nearly the same features", strangers) == Verdict.REFUTED
    assert verdict("teachers are accurate", strangers) == Verdict.REFUTED


def test_raises_without_spikes_and_unequal_losses_are_refuted(smoke, verdict):
    calm = smoke._replace(spikes=0 * smoke.spikes, reached=np.zeros_like(smoke.reached))
    assert verdict("Nearly every raise", calm) == Verdict.REFUTED
    assert verdict("same training loss", calm) == Verdict.REFUTED
    assert verdict("never spikes", smoke._replace(spikes=1 + smoke.spikes)) == Verdict.REFUTED
    worse = smoke._replace(error=smoke.error + np.array([0.0, 0.3])[None])
    assert verdict("tells little", worse) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"classes": (0, 0)}, "classes must be whole numbers, two different classes"),
        ({"num_train": 701}, "num_train must be from 20 to 700, with num_known = 700, got 701"),
        ({"raises": (0, 2, 1)}, "raises must be whole numbers, two or more and increasing"),
        ({"raises": (1, 2)}, "raises must begin with 0"),
        ({"factor": 1.0}, "factor must be above 1 to catapult, got 1.0"),
        ({"calm": 0.5}, r"calm must be in \(0, 0.5\), got 0.5"),
        ({"widths": ()}, "widths must be whole numbers, one or more"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)


def test_too_many_images_are_refused():
    with pytest.raises(ValueError, match="must be at most 355 together"):
        experiment.run(experiment.Config(images="digits", shrink=1))
