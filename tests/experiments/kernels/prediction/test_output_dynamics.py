"""The experiment on moving outputs: verdicts, results that are not so, bad configs."""

import dataclasses

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.prediction import output_dynamics as experiment

TINY = experiment.Config(width=3, num_samples=2, num_steps=2, num_seeds=1)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """A kernel of old weights, an implementation off by a little, a control that holds."""
    stale = smoke._replace(error=smoke.stale_error)
    assert verdict("Outputs move by", stale) == Verdict.REFUTED
    assert verdict("within 0.1 %", stale) == Verdict.REFUTED
    for name, words in (
        ("products", "Products with vectors"),
        ("layerwise", "sum over layers"),
        ("structured", "this package is"),
    ):
        wrong = smoke._replace(**{name: getattr(smoke, name) * (1 + 1e-9)})
        assert verdict(words, wrong) == Verdict.REFUTED
    right = smoke._replace(stale_error=smoke.error, other_error=smoke.error)
    assert verdict("where training began", right) == Verdict.REFUTED
    assert verdict("of another network", right) == Verdict.REFUTED


def test_figure_has_two_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("width", 0, "width must be a whole number, at least 1, got 0"),
        ("learning_rate", 0.0, "learning_rate must be a finite number, positive, got 0.0"),
        ("probes", (0.1,), r"probes must be two or more different ones, got \(0.1,\)"),
        ("probes", (0.1, -0.1), "probes must be finite numbers, one or more"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
