"""The experiment on nonlinear outputs: verdicts, what is not so, bad configs."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import output_nonlinearity as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """With and without ψ exchanged; a formula without its square; a loss that stays."""
    exchanged = smoke._replace(linear_norm=smoke.curved_norm, curved_norm=smoke.linear_norm)
    assert verdict("as large at every width", exchanged) == Verdict.REFUTED
    assert verdict("With the identity", exchanged) == Verdict.REFUTED
    wrong = smoke._replace(formula=smoke.formula**0.5)
    assert verdict("within a tenth", wrong) != Verdict.SUPPORTED
    one = smoke.last_loss.copy()
    one[0, 1] = 0.002
    assert verdict("below 0.001", smoke._replace(last_loss=one)) == Verdict.REFUTED
    assert verdict("at least the least", smoke._replace(margins=smoke.margins - 1)) == (
        Verdict.REFUTED
    )
    assert verdict("positive all the way", smoke._replace(least=-smoke.least)) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="where tanh is curved"):
        experiment.Config(output=0.0)
    with pytest.raises(ValueError, match="num_steps must be a whole number, at least 1"):
        experiment.Config(num_steps=0)
