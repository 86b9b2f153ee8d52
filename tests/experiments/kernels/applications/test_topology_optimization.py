"""The experiment on topology optimisation: verdicts, results that are not so, bad configs."""

import dataclasses

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.applications import topology_optimization as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """More material, weak beams, detail that gets lost, designs of another kernel."""
    limits, networks = smoke.kernels, smoke.networks
    last = float(limits.compliance[-1])
    wrong = smoke._replace(
        networks=networks._replace(
            density=1.01 * networks.density[:, ::-1], compliance=2 * networks.compliance
        ),
        detail=smoke.detail[:, ::-1],
        energy=smoke.energy / 2,
        odd=smoke.odd._replace(density=limits.density[-1], compliance=last),
        uniform_compliance=last,
    )
    for words in (
        "has the volume",
        "half as much again",
        "the finer is what",
        "networks build what their kernel",
        "UᵀKU = UᵀF",
        "left out on the other",
        "the design is bad",
        "equally distributed",
    ):
        assert verdict(words, wrong) != Verdict.SUPPORTED, words


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_rows", 0, "num_rows must be a whole number, at least 1, got 0"),
        ("volume", 1.0, "volume must be a finite number, between 0 and 1, got 1.0"),
        (
            "frequencies",
            (4.0, 2.0),
            "frequencies must be finite numbers, two or more and increasing",
        ),
        ("bias_scale", 0.0, "bias_scale must be a finite number, positive, got 0.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(experiment.Config(), **{field: value})
