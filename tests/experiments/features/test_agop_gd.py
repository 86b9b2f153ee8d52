import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features import agop_gd as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_what_gets_worse_with_catapults_is_refuted(smoke, verdict):
    """Corrupted: the numbers of raises in the opposite order."""
    wrong = smoke._replace(test=smoke.test[:, ::-1], alignment=smoke.alignment[:, ::-1])
    assert verdict("the lower the test loss", wrong) == Verdict.REFUTED
    assert verdict("closer the features", wrong) == Verdict.REFUTED


def test_raises_without_spikes_are_no_catapults(smoke, verdict):
    calm = smoke._replace(spikes=np.zeros_like(smoke.spikes))
    assert verdict("Nearly every raise", calm) == Verdict.REFUTED
    restless = smoke._replace(spikes=np.ones_like(smoke.spikes))
    assert verdict("never spikes", restless) == Verdict.REFUTED
    unfitted = smoke._replace(reached=np.zeros_like(smoke.reached))
    assert verdict("same training loss", unfitted) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"numbers": (0, 2, 1)}, "three that increase from 0"),
        ({"factor": 1.0}, "factor must be above 1 to catapult, got 1.0"),
        ({"schedule": "source", "numbers": (0, 1, 7)}, "the source has 6 raises, got 7"),
        ({"target": 0.0}, "target must be positive, got 0"),
        ({"width": 1}, "width must be at least 2, got 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
