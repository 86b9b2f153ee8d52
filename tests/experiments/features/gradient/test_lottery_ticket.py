"""Lottery tickets: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import lottery_ticket as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("end within a point", "whole", 0.0),
        ("drawn anew ends", "redrawn_outputs", 0.0),
        ("neurons drawn anew learn it too", "redrawn", 0.5),
        ("within 2 points of the ticket", "early", 0.5),
        ("chosen at random are less than 5", "random", 0.5),
        ("chosen before the step has a higher", "early_outputs", 0.0),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


def test_a_large_part_is_no_ticket_and_an_empty_one_neither(smoke, verdict):
    for size in (2 * experiment.PRESETS["smoke"].width, 0):
        wrong = smoke._replace(found=np.full_like(smoke.found, size))
        assert verdict("a tenth", wrong) == Verdict.REFUTED


def test_a_slow_ticket_would_be_seen(smoke, verdict):
    steps = experiment.PRESETS["smoke"].steps
    slow = np.where(steps[None, :] < steps[-1], 0.5, smoke.ticket)
    assert verdict("1.2 times", smoke._replace(ticket=slow)) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"opening": 0.5}, "opening must be a finite number, between 0 and 1, from 0 to 0.29"),
        ({"noise": 0.0}, "noise must be a finite number, positive, got 0"),
        ({"width": 9}, "width must be a whole number, at least 10, got 9"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
