"""The experiment on the bound of mean gradients: verdicts, what is not so, bad configs."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import gradient_bound as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Gradients that are twice too long, and a hundred times too short."""
    longer = smoke._replace(gradient_squares=2 * smoke.gradient_squares)
    for words in ("2L = 6 times", "Eight times"):
        assert verdict(words, longer) == Verdict.REFUTED
    short = smoke._replace(gradient_squares=smoke.gradient_squares / 100)
    for words in ("above its bound in fully", "densely", "half of their edges"):
        assert verdict(words, short) == Verdict.REFUTED
    narrow = smoke._replace(narrow_gradients=smoke.narrow_gradients / 10)
    assert verdict("There the mean", narrow) == Verdict.REFUTED


def test_a_bound_with_halved_exponents_is_seen(smoke, verdict, monkeypatch):
    monkeypatch.setattr(experiment, "BOUND", experiment.BOUND**0.5)
    assert verdict("2L = 6 times", smoke) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match=r"width must be .* at least 2, got 1"):
        experiment.Config(width=1)
    with pytest.raises(ValueError, match=r"num_networks must be .* at least 2"):
        experiment.Config(num_networks=1)
