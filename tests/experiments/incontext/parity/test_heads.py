import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.parity import heads as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("Hamming distance", lambda r: {"mismatch": r.mismatch + 1e-6}),
        ("margin of 1 and more", lambda r: {"frequent": 0.9}),
        ("where the last digits agree", lambda r: {"uncovered": 0.1}),
        ("Four heads solve", lambda r: {"least": r.least - 0.1}),
        ("for λ in an interval", lambda r: {"interval": r.interval[::-1]}),
        ("g₁* is not optimal", lambda r: {"trained": r.trained + 1}),
        ("solves the frequent pairs", lambda r: {"solved": r.solved + 1}),
        ("gives up the pairs", lambda r: {"missed": 0 * r.missed}),
        ("better than four heads", lambda r: {"polished": 0 * r.polished}),
        ("With codes mixed up", lambda r: {"shuffled": 1.0}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


def test_printed_statements_could_have_held(smoke, verdict):
    better = smoke._replace(polished=smoke.polished + 1)
    assert verdict("As λ → 0", better) == Verdict.SUPPORTED
    assert verdict("four are too few", smoke._replace(least=0 * smoke.least)) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"frequent_digits": 3}, "frequent_digits must be below digits, got 3 and 3"),
        ({"most_digits": 40}, "most_digits must be a whole number, from 2 to 10, got 40"),
        ({"bias": 0.25}, "bias must be below 1/4"),
        ({"most_digits": 2}, "most_digits must be at least digits, got 2"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
