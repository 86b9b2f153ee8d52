import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import gradient_descent as experiment


def changed(result, **fields):
    return result._replace(ntk=result.ntk._replace(**fields))


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_what_gets_worse_with_catapults_is_refuted(smoke, verdict):
    """Corrupted: the numbers of raises in the opposite order."""
    wrong = changed(smoke, test=smoke.ntk.test[:, ::-1], alignment=smoke.ntk.alignment[:, ::-1])
    assert verdict("the lower the test loss", wrong) == Verdict.REFUTED
    assert verdict("closer the features", wrong) == Verdict.REFUTED


def test_what_gets_worse_in_pytorchs_parametrization_is_refuted(smoke, verdict):
    """Corrupted: no raises and most of them exchanged; runs that did not fit."""
    test, alignment = smoke.torch.test[:, ::-1], smoke.torch.alignment[:, ::-1]
    wrong = smoke._replace(torch=smoke.torch._replace(test=test, alignment=alignment))
    assert verdict("test loss falls with the raises", wrong) == Verdict.REFUTED
    assert verdict("the features come closer", wrong) == Verdict.REFUTED
    unfitted = smoke._replace(
        torch=smoke.torch._replace(reached=np.zeros_like(smoke.torch.reached))
    )
    assert verdict("same training loss", unfitted) == Verdict.REFUTED


def test_the_limits_of_the_source_hold_with_its_schedule(smoke, verdict):
    """Test losses 0.7 ─► 0.2 and alignments 0.5 ─► 0.96 pass; each of the three can fail."""
    words, paper = "With the source's six raises", experiment.PRESETS["paper"]
    test, alignment = (
        np.tile(np.linspace(*ends, smoke.ntk.test.shape[1]), (6, 1))
        for ends in ((0.7, 0.2), (0.5, 0.96))
    )
    source = changed(smoke, test=test, alignment=alignment)
    assert verdict(words, source, paper) == Verdict.SUPPORTED
    for wrong in ({"test": test + 0.1}, {"test": test - 0.15}, {"alignment": alignment - 0.05}):
        assert verdict(words, changed(source, **wrong), paper) == Verdict.REFUTED


def test_raises_without_spikes_are_no_catapults(smoke, verdict):
    calm = changed(smoke, spikes=np.zeros_like(smoke.ntk.spikes))
    assert verdict("Nearly every raise", calm) == Verdict.REFUTED
    restless = changed(smoke, spikes=np.ones_like(smoke.ntk.spikes))
    assert verdict("never spikes", restless) == Verdict.REFUTED
    unfitted = changed(smoke, reached=np.zeros_like(smoke.ntk.reached))
    assert verdict("same training loss", unfitted) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"raises": (0, 2, 1)}, "raises must be whole numbers, two or more and increasing"),
        ({"raises": (0, 2)}, "raises must be three or more"),
        ({"raises": (1, 2, 3)}, "raises must begin with 0"),
        ({"factor": 1.0}, "factor must be above 1 to catapult, got 1.0"),
        ({"schedule": "source", "raises": (0, 1, 7)}, "the source has 6 raises, got 7"),
        ({"target": 0.0}, "target must be a finite number, positive, got 0"),
        ({"width": 1}, "width must be a whole number, at least 2, got 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
