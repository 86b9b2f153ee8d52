"""The experiment on the proof's bounds: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import graph_bounds as experiment

SMOKE = experiment.PRESETS["smoke"]


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Bounds that fail twice as often as stated, or never; variances that stay."""
    often = int(2 * SMOKE.failure * SMOKE.num_draws)
    exceeded = np.sort(smoke.norms, axis=1)[:, -often - 1]
    too_often = np.where(np.arange(SMOKE.num_draws) < often, 1.1, 0.9)
    failing = smoke._replace(
        bounds=exceeded, form=often, image=too_often, columns=too_often, unmoved=0
    )
    for words in ("exceeds t + R√ν as seldom as stated, on", "A Gaussian form", "Without ‖b‖R"):
        assert verdict(words, failing) == Verdict.REFUTED
    for words in ("The image of a Gaussian", "Columns"):
        assert verdict(words, failing) == Verdict.REFUTED
    loose = smoke._replace(bounds=4 * smoke.norms.max(axis=1), image=0.25 * too_often)
    for words in ("more often than stated, on every", "Half of the image's bound"):
        assert verdict(words, loose) == Verdict.REFUTED
    flat = smoke._replace(variances=smoke.variances * 0 + 1)
    assert verdict("variance ν", flat) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match=r"failure must be .*from 0 to 0\.49, got 0\.7"):
        experiment.Config(failure=0.7)
    with pytest.raises(ValueError, match="radius must be a finite number, positive"):
        experiment.Config(radius=-1.0)
