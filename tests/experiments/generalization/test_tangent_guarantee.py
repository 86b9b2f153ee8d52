"""The experiment on the bound from the distance: verdicts, claims that can fail, bad configs."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.generalization import tangent_guarantee as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("For labels ± 1 the zero", {"risk": 9.0}),
        ("the bound says nothing", {"risk_bound": 0.5}),
        ("whose slope is bounded", {"loss": 9.0}),
        ("A tenth of that bound", {"loss": 0.0}),
        ("width that is demanded", {"needed_width": 1e3}),
    ],
)
def test_another_bound_is_not_supported(smoke, verdict, words, change):
    parts = {name: 0 * getattr(smoke.gaps, name) + value for name, value in change.items()}
    assert verdict(words, smoke._replace(gaps=smoke.gaps._replace(**parts))) == Verdict.REFUTED


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Networks that err or move further, traces that are too large or do not vary."""
    networks = smoke.networks
    astray = smoke._replace(networks=networks._replace(error=networks.kernel_error + 0.1))
    assert verdict("to 1.5 points", astray) == Verdict.REFUTED
    far = smoke._replace(networks=networks._replace(movement=1.2 * networks.movement))
    assert verdict("travels B = √", far) == Verdict.REFUTED
    large = smoke._replace(traces=2 * smoke.traces)
    assert verdict("With probability 1 − δ", large) == Verdict.REFUTED
    assert verdict("A fifth of that", smoke._replace(traces=0 * smoke.traces)) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_fitted": 300}, "num_fitted must be at most num_samples, got 300"),
        ({"delta": 1.0}, "delta must be a finite number, between 0 and 1, got 1.0"),
    ],
)
def test_config_outside_its_domain_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
