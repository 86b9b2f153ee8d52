"""The experiment on eigendirections: verdicts, claims that can fail, bad configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.prediction import eigen_convergence as experiment

TINY = experiment.Config(width=8, num_samples=12, num_steps=5, num_directions=2, num_seeds=1)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Labels exchanged, rates and losses that are off by a tenth, the expansion as printed."""
    exchanged = smoke._replace(
        fit_time=smoke.fit_time[:, [2, 1, 0]], projections=smoke.projections[:, [2, 1, 0]]
    )
    assert verdict("True labels are fitted sooner", exchanged) == Verdict.REFUTED
    assert verdict("Random labels are fitted sooner", exchanged) == Verdict.REFUTED
    assert verdict("Labels along the least", exchanged) == Verdict.REFUTED
    assert verdict("a larger part lies", exchanged) != Verdict.SUPPORTED
    assert verdict("at the rate of", smoke._replace(rates=1.1 * smoke.rates)) == Verdict.REFUTED
    slow = smoke._replace(loss=smoke.loss**0.7)
    assert verdict("The loss is the predicted one", slow) == Verdict.REFUTED
    printed = smoke._replace(residual_error=smoke.printed_error)
    assert verdict("is the vector", printed) == Verdict.REFUTED
    lazy = smoke._replace(loss=smoke.predicted_loss)
    assert verdict("leaves its kernel", lazy) == Verdict.REFUTED
    aligned = smoke._replace(projections=smoke.projections[:, [0, 0, 0, 0]])
    assert verdict("do not prefer", aligned) == Verdict.REFUTED


def test_projections_are_shares(smoke):
    """Eigenvectors are a basis: the shares sum to 1; the worst labels lie in the last one."""
    np.testing.assert_allclose(smoke.projections.sum(axis=2), 1, rtol=1e-5)
    np.testing.assert_allclose(smoke.projections[:, 2, -1], 1, rtol=1e-5)
    assert (np.diff(smoke.eigenvalues, axis=1) <= 0).all()


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("width", 0, "width must be a whole number, at least 1, got 0"),
        ("num_samples", 10, "num_samples must be a whole number, from 11 to 300, got 10"),
        ("num_steps", 7, "num_steps must be a multiple of 5, got 7"),
        ("label_scale", 0.0, "label_scale must be a finite number, between 0 and 1, got 0.0"),
        ("learning_rate", 1.0, "learning_rate must be a finite number, between 0 and 1, got 1.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
