"""Learning a sparse parity after one step: verdicts, and corrupted measurements."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import parity_learning as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("exponent 1 ± 0.3", "needed", lambda v: v**1.5),
        ("exponent 3 ± 0.3", "needed", lambda v: v**1.5),
        ("With η⁽¹⁾ = 2/(k|ξ_{k−1}|) the test", "error", lambda v: v + 0.1),
        ("are ±1/k", "slopes", lambda v: 2 * v),
        ("Gaussian limit", "limit", lambda v: 2 * v),
        ("Without the step", "unmoved", lambda v: 0 * v),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(getattr(smoke, field))})
    assert verdict(words, broken) == Verdict.REFUTED


def test_the_printed_step_size_would_be_believed_if_it_learned(smoke, verdict):
    learned = smoke._replace(printed=smoke.error)
    assert verdict("With η⁽¹⁾ = 1/(k", learned) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pair_dimensions": (33,)}, "two or more and increasing"),
        ({"four_dimensions": (3, 9)}, "dimensions must be above k = 4, got 3"),
        ({"num_steps": 0}, "num_steps must be a whole number, at least 1, got 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
