import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import online_training as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("has the output 0", "start", lambda v: v + 1e-6),
        ("first step is w", "step", lambda v: v * np.array([1.0, -1.0])[None, :, None]),
        ("wᵢ = −wᵢ₊₂ₘ", "twins", lambda v: v + 0.01),
        ("wᵢ = −wᵢ₊₂ₘ", "mirrored", lambda v: v + 0.01),
        ("half of the start", "kept", lambda v: 0 * v),
        ("falls as n", "distance", lambda v: 0 * v + 1.0),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(np.asarray(getattr(smoke, field)))})
    assert verdict(words, broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("words", "runs", "part", "change"),
    [
        ("Algorithm 5 reaches", "exact", "risk", lambda v: v + 1),
        ("with the most samples reaches", "online", "risk", lambda v: v + 1),
        ("error is at most", "exact", "error", lambda v: v + 1),
        ("error is at most", "reused", "error", lambda v: v + 100),
        ("nearer that of Algorithm 5", "online", "risk", lambda v: v[::-1]),
        ("ends higher than fresh", "reused", "risk", lambda v: 0 * v),
        ("then ends above ε", "reused", "risk", lambda v: 0 * v),
    ],
)
def test_corrupted_courses_are_refuted(smoke, verdict, words, runs, part, change):
    course = getattr(smoke, runs)
    broken = course._replace(**{part: change(np.asarray(getattr(course, part)))})
    assert verdict(words, smoke._replace(**{runs: broken})) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimension": 17}, "dimension must be a whole number, from 3 to 16, got 17"),
        ({"dimension": 3, "num_bits": 4}, "num_bits must be at most dimension, got 4"),
        ({"rate": 0.0}, "rate must be a finite number, positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
