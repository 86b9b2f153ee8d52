"""The experiment on ranks 3 and 4: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import catapults_by_rank as experiment


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


def test_what_is_not_so_in_pytorchs_parametrization_is_not_supported(smoke, verdict):
    """Losses that fall by a half; runs that diverge."""
    later = 0.5 * np.arange(2.0)[None, None]
    gained = smoke._replace(
        torch_test=np.ones_like(smoke.torch_test) - later,
        torch_reached=np.ones_like(smoke.torch_reached),
    )
    for words in ("of rank 4 little", "that of rank 3 as little"):
        assert verdict(words, gained) == Verdict.REFUTED
    thrown = smoke._replace(torch_reached=np.zeros_like(smoke.torch_reached))
    assert verdict("most runs come back", thrown) == Verdict.REFUTED
    assert verdict("of rank 4 little", thrown) == Verdict.INCONCLUSIVE


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="dimension must be at least 10"):
        experiment.Config(dimension=5)
    with pytest.raises(ValueError, match="numbers must increase"):
        experiment.Config(numbers=(0, 2, 2))
