import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import multi_index as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("80 % of the neurons", "shares", lambda v: v / 2),
        ("n/d² alone", "shares", lambda v: v * np.array([0.5, 1.0])[:, None, None]),
        ("E[S/(S + c)]", "limit", lambda v: v / 2),
        ("for a single direction", "single", lambda v: v / 2),
        ("part of degree three", "mixed", lambda v: v / 2),
        ("that is regressed out", "lifted", lambda v: v / 2),
        ("not regressed out", "forgotten", lambda v: 0 * v + 0.9),
        ("five times this loss", "loss", lambda v: 200 * v),
        ("ε = 0.1", "loss", lambda v: 200 * v),
        ("not added", "forgetful", lambda v: 0 * v),
        ("Before the step", "before", lambda v: 5 * v),
        ("For He₃", "flat", lambda v: 0 * v + 0.9),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(getattr(smoke, field))})
    assert verdict(words, broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimensions": (32,)}, "dimensions must be whole numbers, two or more and increasing"),
        ({"ratios": (2.0, 1.0)}, "ratios must be finite numbers, two or more and increasing"),
        ({"ratios": (1.0, 1e9)}, "at most 10⁸ samples"),
        ({"width": 0}, "width must be a whole number, at least 1, got 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
