from dataclasses import replace

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.fourier import grokking as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("it is learned later", "source", lambda v: 0 * v),
        ("With k the delay", "p_values", lambda v: 0 * v),
        ("fewer sums mean", "matched", lambda v: 0 * v),
        ("With 90 %", "control", lambda v: v + 10),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(getattr(smoke, field))})
    assert verdict(words, broken) == Verdict.REFUTED


def test_matched_sets_of_unequal_size_would_be_reported(smoke, verdict):
    """Oracle: 11² = 121 sums and 7³ = 343."""
    other = replace(experiment.PRESETS["smoke"], matched=(11, 7))
    assert verdict("The matched sets", smoke, other) == Verdict.REFUTED


def test_a_fall_is_claimed_of_transformers_only_and_never_by_censoring_alone(smoke, verdict):
    words, clear = "With k the delay", np.full_like(smoke.p_values, 0.01)
    attention = replace(experiment.PRESETS["smoke"], network="transformer")
    assert verdict(words, smoke._replace(p_values=clear), attention) == Verdict.SUPPORTED
    assert verdict(words, smoke._replace(p_values=clear + 0.5), attention) == Verdict.REFUTED
    mixed = smoke._replace(p_values=np.array([[0.01, 0.9], [0.01, 0.9]]))
    for config in (None, attention):
        assert verdict(words, mixed, config) == Verdict.INCONCLUSIVE


def test_what_was_only_learned_by_heart_is_no_grokking(smoke, verdict):
    never = smoke._replace(censored=np.ones_like(smoke.censored))
    assert verdict("it is learned later", never) == Verdict.INCONCLUSIVE


def test_a_test_that_was_not_passed_ranks_at_the_end_or_last():
    """Oracle: by hand; as passed at the end the delays fall in all nine pairs, as last in none."""
    delays = np.array([[2.0, 2.1, 2.2], [1.0, 1.1, 1.2]])
    never = np.array([[False] * 3, [True] * 3])
    lowest, highest = experiment._falls(delays, never)
    assert lowest == pytest.approx(0.05)
    assert highest > 0.95


def test_a_case_is_trained_once_for_all_pairings():
    config = experiment.Config()
    assert len(config.cases) == len(set(config.cases)) == 9
    assert config.cases[:4] == [(2, 97), (3, 31), (4, 11), (5, 5)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"moduli": (11,)}, "must be as many"),
        ({"num_terms": (3, 2, 4, 5)}, "num_terms must be .* increasing"),
        ({"num_terms": (1, 2), "moduli": (5, 5), "matched": (5, 5)}, "increase to 3 or more"),
        ({"fraction": 1.0}, "fraction must be a finite number, between 0 and 1"),
        ({"moduli": (97, 31, 11, 29)}, "must be at most"),
        ({"depth": 101}, "depth must be at most 100, got 101"),
        ({"num_heads": 0}, "num_heads must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
