"""The experiment on the complexity measure: verdicts, claims that can fail, bad configs."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.generalization import tangent_complexity as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Levels turned round, a loss beyond the measure, a measure that is loose, a learned coin."""
    backward = smoke._replace(measure=smoke.measure[:, :, ::-1])
    for words in ("rank alike", "The measure grows"):
        assert verdict(words, backward) == Verdict.REFUTED
    assert verdict("never below", smoke._replace(margin=smoke.margin - 9)) == Verdict.REFUTED
    assert verdict("A quarter", smoke._replace(measure=4 * smoke.measure)) == Verdict.REFUTED
    learned = smoke._replace(test_error=0 * smoke.test_error)
    assert verdict("nothing is learned", learned) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_test": 400}, "num_samples . num_test must be at most 350 for digits, got 600"),
        ({"num_levels": 2}, "num_levels must be a whole number, at least 3, got 2"),
    ],
)
def test_config_outside_its_domain_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
