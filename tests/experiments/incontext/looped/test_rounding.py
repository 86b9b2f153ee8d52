import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.looped import rounding as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("agrees with the eigenvalues", "literal", lambda x: x + 0.1),
        ("The error of the product", "lemma", lambda x: x - 1e-3),
        ("Half of", "share", lambda x: x / 10),
        ("are below the bound", "bound", lambda x: 2 * x - 1),
        ("end above the bound", "literal", lambda x: x - 1000),
        ("They have stopped", "exact", lambda x: x + 1000),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(getattr(smoke, field))})
    assert verdict(words, broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"examples": (4, 16)}, "examples must be more than dimension"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, from 1 to 100000, got 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
