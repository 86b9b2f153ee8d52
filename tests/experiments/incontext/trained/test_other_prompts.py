import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.trained import other_prompts as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def changed(result, change, factor):
    """The errors of one change of the prompt, as if they were another."""
    errors = result.errors.copy()
    errors[:, experiment.CHANGES.index(change)] *= factor
    return {"errors": errors}


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("On prompts as in training", lambda r: changed(r, "none", 5)),
        ("signs are all flipped", lambda r: changed(r, "all flipped", 2)),
        ("Skewed inputs", lambda r: changed(r, "skewed", 3)),
        ("quarter of the labels flipped", lambda r: changed(r, "some flipped", 5)),
        ("Four times as many", lambda r: changed(r, "longer", 0.1)),
        ("Stretched inputs", lambda r: changed(r, "stretched", 0.01)),
        ("Both help", lambda r: {"ridge": r.nothing}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


def test_ridge_regression_is_better_than_least_squares_where_it_is_bayes_rule(smoke):
    """Oracle: no rule beats Bayes' on average; flipped signs are as likely."""
    places = [experiment.CHANGES.index(change) for change in ("none", "shrunk", "shorter")]
    assert (smoke.ridge[places] < smoke.least_squares[places]).all()
    usual, flipped = (experiment.CHANGES.index(change) for change in ("none", "all flipped"))
    assert smoke.ridge[usual] == pytest.approx(smoke.ridge[flipped], rel=1e-12)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimension": 1}, "dimension must be a whole number, from 2 to 64, got 1"),
        ({"num_test": 99}, "num_test must be a whole number, at least 100, got 99"),
        ({"noise": 0.0}, "noise must be a finite number, positive"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
        ({"num_heads": 3}, "num_heads must divide the width 32, got 3"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
