import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import bias_conventions as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_other_critical_rates_are_refuted(smoke, verdict):
    """Corrupted: rates in another normalisation of the loss, and in the opposite order."""
    twice = smoke._replace(critical_rates=2 * smoke.critical_rates, diagonals=2 * smoke.diagonals)
    words = ("no critical rate exceeds 1", "about 0.5", "about 2.4", "about 6", "η = 8", "K(x, x)")
    assert {verdict(each, twice) for each in words} == {Verdict.REFUTED}
    opposite = smoke._replace(critical_rates=smoke.critical_rates[::-1])
    assert verdict("further bias", opposite) == Verdict.REFUTED
    assert verdict("1 is no bound", opposite) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="width must be a whole number, at least 1, got 0"):
        experiment.Config(width=0)
