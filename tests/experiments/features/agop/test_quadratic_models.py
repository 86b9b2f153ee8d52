import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import quadratic_models as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_the_opposite_is_refuted(smoke, verdict):
    """Corrupted: numbers of raises exchanged, models exchanged, spikes where there are none."""
    wrong = smoke._replace(alignment=smoke.alignment[..., ::-1])
    assert verdict("As it does those of the network", wrong) == Verdict.REFUTED
    assert verdict("of the quadratic model too", wrong) == Verdict.REFUTED
    exchanged = smoke._replace(alignment=smoke.alignment[::-1])
    assert verdict("are better than those", exchanged) == Verdict.REFUTED
    restless = smoke._replace(spikes=np.ones_like(smoke.spikes))
    assert verdict("neither model", restless) == Verdict.REFUTED
    lost = smoke._replace(reached=np.zeros_like(smoke.reached))
    assert verdict("same training loss", lost) == Verdict.REFUTED
    calm = smoke._replace(spikes=np.zeros_like(smoke.spikes))
    assert verdict("The quadratic model catapults", calm) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="numbers must begin with 0"):
        experiment.Config(numbers=(1, 2))
