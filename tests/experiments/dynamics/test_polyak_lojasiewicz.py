"""The experiment on the Polyak–Łojasiewicz condition: verdicts, what is not so, bad configs."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import polyak_lojasiewicz as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """A ratio outside of the spectrum, a loss that stays, gradients that are twice too long."""
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
    longer = smoke._replace(gradient_squares=2 * smoke.gradient_squares)
    assert verdict("is 3/4", longer) == Verdict.REFUTED
    short = smoke._replace(gradient_squares=smoke.gradient_squares / 100)
    assert verdict("above its bound in fully", short) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match=r"learning_rate must be in \(0, 1\)"):
        experiment.Config(learning_rate=1.5)
    with pytest.raises(ValueError, match="num_seeds must be at least 2"):
        experiment.Config(num_seeds=1)
