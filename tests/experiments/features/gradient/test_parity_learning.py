"""Learning a sparse parity after one step: verdicts, and corrupted measurements."""

import math

import pytest

from theorylab.claims import Verdict, fulfils
from theorylab.experiments.features.gradient import parity_learning as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("exponent 1 ± 0.3", "needed", lambda v: v**1.5),
        ("exponent 3 ± 0.3", "needed", lambda v: v**1.5),
        ("With twice this step", "error", lambda v: v + 0.1),
        ("Below the theorem's dimension", "printed", lambda v: v - 1),
        ("are ±1/k", "slopes", lambda v: 2 * v),
        ("Gaussian limit", "limit", lambda v: 2 * v),
        ("Without the step", "unmoved", lambda v: 0 * v),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(getattr(smoke, field))})
    assert verdict(words, broken) == Verdict.REFUTED


@pytest.mark.parametrize(("change", "expected"), [(0, Verdict.SUPPORTED), (1, Verdict.REFUTED)])
def test_the_theorem_is_judged_in_its_regime(smoke, change, expected):
    config = experiment.Config()
    claim = next(claim for claim in experiment.CLAIMS if claim.regime.startswith("theorem_pair"))
    assert fulfils(vars(config), claim.regime)
    assert not fulfils(vars(experiment.PRESETS["smoke"]), claim.regime)
    learned = smoke._replace(theorem=0 * smoke.theorem + change)
    assert claim.judge(learned, config).verdict == expected


def test_the_dimensions_are_the_least_that_the_theorem_asks_for():
    """Oracle: d ≥ k⁴ log(kd/ε) itself, at ε = 2 %."""
    for bits, d in experiment.Config().theorem_cases:
        assert d >= bits**4 * math.log(bits * d / 0.02)
        assert d - 2 < bits**4 * math.log(bits * (d - 2) / 0.02)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pair_dimensions": (33,)}, "two or more and increasing"),
        ({"four_dimensions": (3, 9)}, "dimensions must be above k = 4, got 3"),
        ({"num_steps": 0}, "num_steps must be a whole number, at least 1, got 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
