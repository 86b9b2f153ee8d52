"""Bernstein's bounds: the verdicts of a small run, and that each of them can change."""

import math

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.generalization import bernstein as experiment

STATEMENTS = [claim.statement for claim in experiment.CLAIMS]


def test_all_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_run_full_of_nan_supports_nothing(smoke, verdict, statement):
    broken = smoke._replace(**{k: np.full_like(v, np.nan) for k, v in smoke._asdict().items()})
    assert verdict(statement, broken) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("Bernstein's bound is never below", "bernstein_rare", lambda r: r.bernstein_rare - 3),
        ("There Hoeffding's bound", "hoeffding_fair", lambda r: r.hoeffding_fair - 3),
        ("With an exponent 1.1 times", "hoeffding_fair", lambda r: r.hoeffding_fair / 1.1),
        ("is below Hoeffding's", "bernstein_rare", lambda r: r.hoeffding_rare + 1),
        ("as large as the range", "bernstein_fair", lambda r: r.hoeffding_fair - 1),
        ("The mean norm", "norms", lambda r: 10 * r.norms),
        ("Its tail is below", "norms", lambda r: 10 * r.norms),
        ("Divided by 20", "bernstein_rare", lambda r: r.bernstein_rare + 4),
        ("With an exponent 1.15 times", "bernstein_rare", lambda r: r.bernstein_rare / 2),
        ("two fifths of that distance", "tail_start", lambda r: 1.5 * r.tail_start),
        ("Half of that bound", "norms", lambda r: r.norms / 10),
    ],
)
def test_a_wrong_measurement_is_refuted(smoke, verdict, words, field, change):
    assert verdict(words, smoke._replace(**{field: change(smoke)})) == Verdict.REFUTED


def test_the_tail_starts_where_it_is_promised_to_be_a_tenth(smoke):
    """Oracle: the order of three numbers, one of them simulated."""
    assert smoke.tail_start > smoke.norm_bound > smoke.norms.mean()
    assert math.isfinite(smoke.tail_start)


def test_the_figure_draws_everything(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


def test_a_config_outside_its_domain_is_refused():
    with pytest.raises(ValueError, match="num_draws must be a whole number, at least 30, got 3"):
        experiment.Config(num_draws=3)
    with pytest.raises(ValueError, match="matrix_size must be a whole number, at least 1, got 0"):
        experiment.Config(matrix_size=0)
