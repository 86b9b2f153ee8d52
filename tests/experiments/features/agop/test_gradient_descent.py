import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import gradient_descent as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_what_gets_worse_with_catapults_is_refuted(smoke, verdict):
    """Corrupted: the numbers of raises in the opposite order."""
    wrong = smoke._replace(test=smoke.test[:, ::-1], alignment=smoke.alignment[:, ::-1])
    assert verdict("the lower the test loss", wrong) == Verdict.REFUTED
    assert verdict("closer the features", wrong) == Verdict.REFUTED


def test_what_gets_worse_in_pytorchs_parametrization_is_refuted(smoke, verdict):
    """Corrupted: no raises and most of them exchanged; runs that did not fit."""
    wrong = smoke._replace(
        torch_test=smoke.torch_test[:, ::-1], torch_alignment=smoke.torch_alignment[:, ::-1]
    )
    assert verdict("test loss falls with the raises", wrong) == Verdict.REFUTED
    assert verdict("the features come closer", wrong) == Verdict.REFUTED
    unfitted = smoke._replace(torch_reached=np.zeros_like(smoke.torch_reached))
    assert verdict("same training loss", unfitted) == Verdict.REFUTED


def test_the_limits_of_the_source_hold_with_its_schedule(smoke, verdict):
    """Test losses 0.7 ─► 0.2 and alignments 0.5 ─► 0.96 pass; each of the three can fail."""
    test, alignment = (
        np.tile(np.linspace(*ends, smoke.test.shape[1]), (6, 1))
        for ends in ((0.7, 0.2), (0.5, 0.96))
    )
    source = smoke._replace(of_source=True, test=test, alignment=alignment)
    assert verdict("most raises the test loss", source) == Verdict.SUPPORTED
    assert verdict("most raises the alignment", source) == Verdict.SUPPORTED
    for other in (source.test + 0.1, source.test - 0.15):
        wrong = source._replace(test=other)
        assert verdict("most raises the test loss", wrong) == Verdict.REFUTED
    unlike = source._replace(alignment=source.alignment - 0.05)
    assert verdict("most raises the alignment", unlike) == Verdict.REFUTED
    backwards = smoke._replace(test=smoke.test[:, ::-1], alignment=smoke.alignment[:, ::-1])
    assert verdict("most raises the test loss", backwards) == Verdict.REFUTED
    assert verdict("most raises the alignment", backwards) == Verdict.REFUTED
    assert experiment.PRESETS["paper"].of_source
    assert not experiment.Config().of_source


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
