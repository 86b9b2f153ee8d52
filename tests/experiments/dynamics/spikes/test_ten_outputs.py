import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.spikes import ten_outputs as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_other_factors_are_told(smoke, verdict):
    same = smoke._replace(ten_outputs=3.6 * smoke.one_output)
    for words in ("fully connected network", "convolutional network, too"):
        assert verdict(words, same) == Verdict.REFUTED
    assert verdict("at most 4 times", same) == Verdict.SUPPORTED
    more = smoke._replace(ten_outputs=20 * smoke.one_output)
    assert verdict("sum over outputs", more) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="channels must be a whole number, at least 1, got 0"):
        experiment.Config(channels=0)
