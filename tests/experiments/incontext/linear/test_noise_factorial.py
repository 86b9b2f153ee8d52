import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.linear import noise_factorial as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("Without noise in pre-training", lambda r: {"gap": r.gap + 1e-6}),
        ("Without noise in inputs", lambda r: {"gap": r.gap + 1e-6}),
        ("has the larger risk", lambda r: {"gap": 0 * r.gap}),
        ("With random inputs", lambda r: {"theory": 2 * r.theory}),
        ("With a design", lambda r: {"theory": 2 * r.theory}),
        ("is wrong for random inputs", lambda r: {"gap": r.gap * 0 + r.theory[5]}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


def test_the_eight_cells_are_all_there(smoke):
    assert len(np.unique(experiment.CELLS, axis=0)) == len(smoke.gap) == 8


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ranks": (3, 2)}, "ranks must be whole numbers, two or more and increasing"),
        ({"ranks": (1, 2, 3)}, "ranks must be two, got"),
        ({"num_examples": 4}, "num_examples must be at least the larger rank 6"),
        ({"noise": 0.0}, "noise must be a finite number, positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
