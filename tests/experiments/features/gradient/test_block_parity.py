import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import block_parity as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("a neuron with the block", "cosine", lambda v: 0 * v),
        ("ε = 2 %", "errors", lambda v: v + 0.1),
        ("err on 10 %", "fair", lambda v: 0 * v),
        ("A linear model", "fair", lambda v: 0 * v),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(getattr(smoke, field))})
    assert verdict(words, broken) == Verdict.REFUTED


def test_the_sign_of_a_sum_misses_five_in_sixteen():
    """Oracle: all 32 patterns; the source's linear ceiling 27/32 is 1 − ½ · 5/16."""
    signs = 1 - 2 * (np.arange(32)[:, None] >> np.arange(5)[None, :] & 1)
    wrong = (signs.prod(axis=1) != np.sign(signs.sum(axis=1))).mean()
    assert experiment._sum_error(5) == wrong == 5 / 16


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"block_size": 4}, "block_size must be a whole number, odd"),
        ({"dimension": 4}, "dimension must be at least"),
        ({"num_steps": 1}, "num_steps must be a whole number, at least 2, got 1"),
        ({"bias": 0.0}, "bias must be a finite number, positive"),
        ({"fixed_rates": (0.0,)}, "each positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
