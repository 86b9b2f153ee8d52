import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import uniform_parity as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("and ½ξ_{k+1} elsewhere", "formula", lambda v: 2 * v),
        ("C((d−1)/2, (k−1)/2)", "majority", lambda v: v * np.array([[1.0], [1.01], [1.0]])),
        ("has the cosine", "cosines", lambda v: v * np.array([[1.0], [1.01]])),
        ("No coordinate of an aligned", "distances", lambda v: v[::-1]),
        ("half of this bound", "distances", lambda v: v * np.array([[0.5], [1.0]])),
        ("for one in 2^{k−1}", "aligned", lambda v: v / 2),
        ("falls like √(k/2π)", "lengths", lambda v: 2 * v),
        ("falls like √(k/2π)", "lengths", lambda v: v**1.5),
        ("At a bias of 1.5", "tilted", lambda v: 0 * v),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(getattr(smoke, field))})
    assert verdict(words, broken) == Verdict.REFUTED


def test_the_printed_gradient_would_be_believed_if_it_were_right(smoke, verdict):
    assert verdict("without a ½", smoke._replace(listed=smoke.printed)) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"listed": (8,)}, "each odd and at least 1"),
        ({"listed": (21,)}, "each odd and at least 1, each from 5 to 15"),
        ({"pair_dimensions": (33,)}, "pair_dimensions must be whole numbers, two or more"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
