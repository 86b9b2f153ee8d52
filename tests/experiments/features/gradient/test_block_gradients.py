"""First gradients on blocks of signs: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import block_gradients as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("no hinge loss", "exact", lambda v: v + 0.1),
        ("2p_A on all blocks", "moments", lambda v: 0 * v),
        ("is p_A on it", "inside", lambda v: 2 * v),
        ("0 elsewhere", "outside", lambda v: v + 0.5),
        ("Without the bias", "unbiased", lambda v: 0 * v),
        ("1/√(4r − 3)", "mirrored", lambda v: v + 0.1),
        ("in place of r", "term", lambda v: 10 * v),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(getattr(smoke, field))})
    assert verdict(words, broken) == Verdict.REFUTED


def test_symmetry_would_be_believed_if_the_moment_were_zero(smoke, verdict):
    broken = smoke._replace(moments=0 * smoke.moments)
    assert verdict("because the law is symmetric", broken) == Verdict.SUPPORTED


def test_a_symmetric_law_would_have_features_with_a_negative_bias(smoke, verdict):
    right = smoke._replace(mirrored=np.ones_like(smoke.mirrored))
    assert verdict("also points to its block", right) == Verdict.SUPPORTED


def test_the_printed_bound_would_be_believed_for_a_network_of_r_neurons(smoke, verdict):
    few = smoke._replace(term=smoke.term / 18)
    assert verdict("covers what turned directions", few) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"block_size": 4}, "block_size must be a whole number, odd"),
        ({"block_size": 17, "num_blocks": 1}, "dimension must be at least"),
        ({"num_blocks": 5}, "must be at most 20"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**{"dimension": 16, **fields})
