import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.looped import bound_comparison as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("below e^{−T/2κ}", "error", lambda x: x + 1),
        ("Half of", "bound", lambda x: 10 * x),
        ("With every loop", "bound", lambda x: x[:, :, ::-1]),
        ("With every loop", "earlier", lambda x: x[:, ::-1]),
        ("grow 16 times", "needed", lambda x: x**0.5),
        ("At the fewest examples", "long_error", lambda x: x + 1),
        ("At the fewest examples", "long_earlier", lambda x: 10 * x),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(getattr(smoke, field))})
    assert verdict(words, broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"examples": (4,)}, "examples must be more than dimension"),
        ({"num_loops": 1000}, "num_loops must be a whole number, from 2 to 30, got 1000"),
        ({"dimension": 65}, "dimension must be a whole number, from 2 to 64, got 65"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
