from dataclasses import replace

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.looped import bound as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("No exact error is above e^{−t/κ}", "margin", lambda x: x - 1e-6),
        ("Its constant is sharp", "margin", lambda x: x + np.log(10)),
        ("above (1 − 1/κ)", "tight_margin", lambda x: x - 1e-6),
        ("above (1 − 1/κ)", "tail", lambda x: x / 10),
        ("slopes to 10⁻⁶", "tail", lambda x: 0.95 * x),
        ("smaller condition numbers", "condition", lambda x: x[::-1]),
        ("have steeper slopes", "condition", lambda x: x[::-1]),
        ("steeper slope than the bound", "ratio", lambda x: x / 10),
        ("within 2 %.", "condition", lambda x: 1.1 * x),
        ("ten trials", "condition", lambda x: 2 * x),
        ("The gap widens", "ratio", lambda x: x[::-1]),
        ("ten times as fast", "tail", lambda x: 10 * x),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(getattr(smoke, field))})
    assert verdict(words, broken) == Verdict.REFUTED


def test_tables_are_for_four_dimensions_only(smoke, verdict):
    other = replace(experiment.PRESETS["smoke"], dimension=5)
    assert verdict("ten trials", smoke, other) == Verdict.INCONCLUSIVE
    assert verdict("Mean condition numbers", smoke, other) == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"examples": (4, 16)}, "examples must be more than dimension"),
        ({"examples": (32, 16)}, "examples must be whole numbers, two or more and increasing"),
        ({"num_trials": 150}, "num_trials must be a multiple of 100, got 150"),
        ({"num_loops": 10**9}, "num_loops must be a whole number, from 20 to 100000"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
