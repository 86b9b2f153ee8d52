import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.trained import regression as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("has the error of Bayes", lambda r: {"deviation": r.deviation + 9}),
        ("errs at most 20 % more", lambda r: {"errors": r.untrained}),
        ("with them its error is halved", lambda r: {"errors": r.untrained}),
        ("With as many examples", lambda r: {"least_squares": 0 * r.bayes}),
        ("signs are all flipped", lambda r: {"flipped": r.untrained}),
        ("Before training", lambda r: {"untrained": 0.5 * r.errors}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimension": 0}, "dimension must be a whole number, from 1 to 256, got 0"),
        ({"num_examples": 3}, "num_examples must be above the dimension 3, got 3"),
        ({"num_heads": 3}, "num_heads must divide the width 64, got 3"),
        ({"noise": 0.0}, "noise must be a finite number, positive"),
        ({"num_steps": 1}, "num_steps must be a whole number, at least 2, got 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
