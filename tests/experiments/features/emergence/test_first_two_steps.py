import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import first_two_steps as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("second step's weights has", "two_step", 0.92),
        ("as they are, is at chance", "one_step", 0.9),
        ("multiplied by one constant", "one_step_scaled", 0.9),
        ("less noisy", "improved", 0.5),
        ("what n samples allow", "noise", 1.0),
        ("about half", "dead", 0.0),
        ("With the constant 1", "sizes", 0.5),
        ("no sample is beyond", "beyond", 0.01),
        ("many samples are", "beyond", 0.1),
        ("ten times the lemma", "sizes", 11.0),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) == Verdict.REFUTED


def test_the_printed_statement_could_be_right(smoke, verdict):
    right = smoke._replace(one_step_scaled=np.full_like(smoke.one_step_scaled, 0.6))
    assert verdict("must improve them", right) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_relevant": 4}, "num_relevant must be a whole number, odd"),
        ({"num_relevant": 101}, "num_relevant must be at most num_patterns = 100"),
        ({"batch_size": 60000}, "batch_size must be at most num_samples = 50000"),
        ({"num_steps": 2}, "num_steps must be a whole number, at least 3"),
        ({"num_pairs": 0}, "num_pairs must be a whole number, at least 1"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
