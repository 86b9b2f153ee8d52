import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.fourier import grokking as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("Polynomial networks grok", "delay", lambda v: 0 * v),
        ("grokking in all four", "delay", lambda v: 0 * v),
        ("fewer sums mean", "fewer", lambda v: 0 * v),
        ("With 90 %", "control", lambda v: v + 10),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(getattr(smoke, field))})
    assert verdict(words, broken) == Verdict.REFUTED


def test_a_fall_is_never_claimed_by_censoring_alone(smoke, verdict):
    """Oracle: six of six pairs of levels in order have P = 1/20; the same, censored, may not be."""
    falling = np.array([[2.0, 2.1, 2.2], [1.0, 1.1, 1.2]])
    none = np.zeros((2, 3), bool)
    for delays, censored, expected in [
        (falling, none, Verdict.SUPPORTED),
        (falling[::-1], none, Verdict.REFUTED),
        (falling, np.array([[False] * 3, [True] * 3]), Verdict.INCONCLUSIVE),
    ]:
        changed = smoke._replace(delay=delays, censored=censored)
        assert verdict("As k increases", changed) == expected


def test_what_was_only_memorised_is_no_grokking(smoke, verdict):
    never = smoke._replace(censored=np.ones_like(smoke.censored))
    assert verdict("Polynomial networks grok", never) == Verdict.INCONCLUSIVE


def test_a_test_that_was_not_passed_ranks_at_the_end_or_last():
    """Oracle: by hand; as passed at the end the delays fall in all nine pairs, as last in none."""
    delays = np.array([[2.0, 2.1, 2.2], [1.0, 1.1, 1.2]])
    never = np.array([[False] * 3, [True] * 3])
    lowest, highest = experiment.falls(delays, never)
    assert lowest == pytest.approx(0.05)
    assert highest > 0.95


def test_the_default_has_the_sources_cases():
    assert experiment.Config().cases[:4] == experiment.SOURCE_CASES


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"moduli": (11,)}, "must be as many"),
        ({"num_terms": (3, 2, 4, 5)}, "num_terms must be .* increasing"),
        ({"num_terms": (1, 2), "moduli": (5, 5)}, "increase to 3 or more"),
        ({"fraction": 1.0}, "fraction must be a finite number, between 0 and 1"),
        ({"moduli": (97, 31, 11, 29)}, "must be at most"),
        ({"depth": 101}, "depth must be a whole number, from 1 to 100, got 101"),
        ({"num_heads": 0}, "num_heads must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
