import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.looped import descent as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("steps of gradient descent", "difference", 1e-9),
        ("is the gradient", "lemma", 1e-9),
        ("All other rows", "elsewhere", 1e-30),
        ("Examples and α", "moved", 1e-9),
        ("converge to θ*", "solution", 1e-3),
        ("Without the mask", "unmasked", 1e-9),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"examples": (5, 32)}, "dimensions and examples must be as many"),
        ({"examples": (1, 32, 64)}, "examples must be whole numbers, one or more, each from 2 to"),
        ({"examples": (5, 4, 64)}, "examples must be more than dimensions"),
        ({"num_loops": 0}, "num_loops must be a whole number, from 1 to 1000000, got 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
