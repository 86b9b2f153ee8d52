"""The experiment on the Polyak–Łojasiewicz condition: verdicts, what is not so, bad configs."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import polyak_lojasiewicz as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """A ratio outside of the spectrum, a loss that stays, weights that travel far."""
    outside = smoke._replace(ratio=smoke.least / 2)
    assert verdict("at least the kernel's least", outside) == Verdict.REFUTED
    assert (
        verdict("at most its largest", smoke._replace(ratio=3 * smoke.largest)) == Verdict.REFUTED
    )
    slow = smoke._replace(loss=smoke.loss * 0 + smoke.loss[:, :, :1])
    assert verdict("stays below", slow) == Verdict.REFUTED
    assert verdict("exponential rate", slow) == Verdict.REFUTED
    far = smoke._replace(distance=100 * smoke.distance)
    assert verdict("a ball is enough", far) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match=r"ratio must be .* between 0 and 1"):
        experiment.Config(ratio=1.5)
    with pytest.raises(ValueError, match=r"num_seeds must be .* at least 2"):
        experiment.Config(num_seeds=1)
