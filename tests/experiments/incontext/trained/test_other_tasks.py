import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.trained import other_tasks as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("Trees: at most", lambda r: {"errors": 2 * r.errors}),
        ("Two-layer functions: no more", lambda r: {"errors": 2 * r.errors}),
        ("less error than least squares", lambda r: {"baselines": 0.5 * r.baselines}),
        ("learned in part", lambda r: {"errors": 2 * r.errors}),
        ("least squares is better", lambda r: {"errors": 0.1 * r.errors}),
        ("the lasso is twice", lambda r: {"errors": 0.1 * r.errors}),
        ("networks trained on sparse", lambda r: {"transferred": 0.5 * r.errors[2]}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


def test_least_squares_of_least_norm_misses_what_it_has_not_seen(smoke):
    """Oracle: it finds a random projection of w, of N of d dimensions: (1 − N/d) is left of 1."""
    config = experiment.PRESETS["smoke"]
    left = 1 - config.num_examples / config.dimension
    assert smoke.baselines[0, 0] == pytest.approx(left, rel=0.5)
    assert np.all(smoke.baselines[:, 1] <= smoke.nothing * 1.05)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimension": 1}, "dimension must be a whole number, from 2 to 64, got 1"),
        ({"num_examples": 8}, "num_examples must be below the dimension 8, got 8"),
        ({"sparsity": 9}, "sparsity must be at most the dimension 8, got 9"),
        ({"tree_depth": 21}, "tree_depth must be a whole number, from 1 to 20, got 21"),
        ({"num_test": 1}, "num_test must be a whole number, at least 100"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
