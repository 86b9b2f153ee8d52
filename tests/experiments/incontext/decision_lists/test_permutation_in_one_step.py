import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.decision_lists import permutation_in_one_step as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("at its own label", lambda r: {"values": 1.05 * r.values}),
        ("negative (5 %)", lambda r: {"values": r.values * (1 - 2 * r.later)[None]}),
        ("positive (5 %)", lambda r: {"values": r.values * (1 - 2 * r.earlier)[None]}),
        ("All entries together", lambda r: {"values": 1.3 * r.values}),
        ("With the source's lists", lambda r: {"values": r.values[:, ::-1]}),
        ("With random lists", lambda r: {"values": r.values[:, ::-1]}),
        ("all columns say π", lambda r: {"recovered": 0.9 * r.recovered}),
        ("is a permutation", lambda r: {"permutation": np.zeros_like(r.permutation)}),
        ("With very few sequences", lambda r: {"recovered": np.ones_like(r.recovered)}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": 200}, "size must be below num_tokens, got 200"),
        ({"shifts": (10, 210)}, "shifts must differ"),
        ({"num_sequences": 10}, "num_sequences must be a multiple of 500, got 10"),
        ({"few": (100, 10)}, "few must be whole numbers, two or more and increasing"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
