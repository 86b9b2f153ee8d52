"""The experiment on ranks 3 and 4: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features import catapults_by_rank as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Losses and alignments in the wrong order; runs that diverge; spikes without a raise."""
    later = np.arange(2.0)[None, None]
    wrong = smoke._replace(test=smoke.test + later, alignment=smoke.alignment - later)
    for words in ("lower the test loss", "closer to", "do not raise", "hardly move"):
        assert verdict(words, wrong) == Verdict.REFUTED
    thrown = smoke._replace(
        reached=np.zeros_like(smoke.reached),
        listed=np.ones_like(smoke.listed),
        spikes=smoke.spikes + 1,
    )
    assert verdict("nine of ten", thrown) == Verdict.REFUTED
    assert verdict("The source's learning rates", thrown) == Verdict.SUPPORTED
    assert verdict("never spikes", thrown) == Verdict.REFUTED
    assert verdict("lower the test loss", thrown) == Verdict.INCONCLUSIVE


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="dimension must be at least 10"):
        experiment.Config(dimension=5)
    with pytest.raises(ValueError, match="numbers must increase"):
        experiment.Config(numbers=(0, 2, 2))
