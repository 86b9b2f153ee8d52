"""Three blocks of signs: verdicts of the smoke run, and corrupted measurements."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import several_blocks as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("After the first step", "step", lambda v: v - 0.5),
        ("Training keeps a neuron", "cosines", lambda v: v - 0.5),
        ("examples that show a block", "shown", lambda v: v + 0.2),
        ("the blocks mix", "low", lambda v: v + 0.5),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(getattr(smoke, field))})
    assert verdict(words, broken) == Verdict.REFUTED


def test_the_theorem_would_be_believed_if_fair_signs_were_learned(smoke, verdict):
    learned = smoke._replace(fair=0 * smoke.fair)
    assert verdict("ε = 2 %", learned) == Verdict.SUPPORTED
    assert verdict("does not learn the fair signs", learned) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"block_size": 4}, "block_size must be a whole number, odd"),
        (
            {"num_blocks": 1},
            "odd and at least 1, at least 3, got 1",
        ),
        ({"num_steps": 0}, "num_steps must be a whole number, at least"),
        ({"bias": 0.0}, "bias must be a finite number, positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
