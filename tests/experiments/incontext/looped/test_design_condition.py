import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.looped import design_condition as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("that of the edges", lambda r: {"condition": 1 + 0.95 * (r.condition - 1)}),
        ("that of the edges", lambda r: {"condition": 1 + 1.05 * (r.condition - 1)}),
        ("falls as", lambda r: {"condition": 1 + (r.condition - 1) ** 2}),
        ("n = d/ε² examples", lambda r: {"condition": 1 + 2 * (r.condition - 1)}),
        ("half of the constant", lambda r: {"condition": 1 + 0.5 * (r.condition - 1)}),
        ("With unequal variances", lambda r: {"unequal": r.condition}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ratios": (16, 64)}, "ratios must be at least three"),
        (
            {"ratios": (1, 64, 256)},
            "ratios must be whole numbers, two or more and increasing, each from 2 to",
        ),
        ({"dimension": 10**6}, "dimension must be a whole number, from 2 to 1024"),
        ({"ratios": (64, 16, 256)}, "ratios must be whole numbers, two or more and increasing"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
