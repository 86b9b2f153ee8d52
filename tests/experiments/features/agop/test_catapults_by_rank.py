"""The experiment on ranks 3 and 4: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import catapults_by_rank as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def changed(result, convention, **fields):
    runs = getattr(result, convention)._replace(**fields)
    return result._replace(**{convention: runs})


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Losses and alignments in the wrong order; runs that diverge; spikes without a raise."""
    later, runs = np.arange(2.0)[None, None], smoke.ntk
    wrong = changed(smoke, "ntk", test=runs.test + later, alignment=runs.alignment - later)
    for words in ("rank 4, catapults lower", "closer to", "rank 3, too", "raise the alignment"):
        assert verdict(words, wrong) == Verdict.REFUTED
    thrown = changed(
        smoke, "ntk", reached=np.zeros_like(runs.reached), spikes=runs.spikes + 1
    )._replace(listed=np.ones_like(smoke.listed))
    assert verdict("nine of ten", thrown) == Verdict.REFUTED
    assert verdict("The source's learning rates", thrown) == Verdict.SUPPORTED
    assert verdict("never spikes", thrown) == Verdict.REFUTED
    assert verdict("rank 4, catapults lower", thrown) == Verdict.INCONCLUSIVE


def test_what_is_not_so_in_pytorchs_parametrization_is_not_supported(smoke, verdict):
    """Losses that fall by a half; runs that diverge."""
    later, runs = 0.5 * np.arange(2.0)[None, None], smoke.torch
    fallen, all_reached = np.ones_like(runs.test) - later, np.ones_like(runs.reached)
    gained = changed(smoke, "torch", test=fallen, reached=all_reached)
    for words in ("of rank 4 little", "that of rank 3 as little"):
        assert verdict(words, gained) == Verdict.REFUTED
    thrown = changed(smoke, "torch", reached=np.zeros_like(runs.reached))
    assert verdict("most runs come back", thrown) == Verdict.REFUTED
    assert verdict("of rank 4 little", thrown) == Verdict.INCONCLUSIVE


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="dimension must be at least 10"):
        experiment.Config(dimension=5)
    with pytest.raises(
        ValueError, match="raises must be whole numbers, two or more and increasing"
    ):
        experiment.Config(raises=(0, 2, 2))
