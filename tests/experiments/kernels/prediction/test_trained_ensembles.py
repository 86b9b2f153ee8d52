"""The experiment on trained ensembles: verdicts, claims that can fail, bad configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.prediction import trained_ensembles as experiment

TINY = experiment.Config(
    width=8, num_networks=3, num_samples=2, num_test=2, num_outputs=1, num_steps=(1, 2)
)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Networks of the other way of training, and a variance that is off by a third."""
    refuted = {
        "The mean of fully trained": smoke._replace(full_scores=smoke.wrong_scores),
        "Their variance is predicted": smoke._replace(full_spread=1.33 * smoke.full_spread),
        "alone, the variance": smoke._replace(last_spread=smoke.last_spread / 1.33),
        "covariance of Bayes' posterior": smoke._replace(last_limit=1.01 * smoke.last_limit),
        "have the posterior's variance": smoke._replace(bayes_spread=smoke.tangent_spread),
        "no posterior of the prior K": smoke._replace(prior_spread=smoke.tangent_spread),
        "Nor of the prior Θ": smoke._replace(tangent_spread=smoke.bayes_spread),
        "for its posterior": smoke._replace(made_mean=1.01 * smoke.made_mean),
        "last-layer training fails": smoke._replace(wrong_scores=smoke.full_scores),
    }
    for words, result in refuted.items():
        assert verdict(words, result) == Verdict.REFUTED, words
    other = smoke._replace(made_covariance=smoke.bayes_covariance)
    assert verdict("No prior has", other) == Verdict.SUPPORTED
    one_bad_step = smoke.full_spread.copy()
    one_bad_step[:, 1] *= 1.5
    broken = smoke._replace(full_spread=one_bad_step)
    assert verdict("Their variance is predicted", broken) == Verdict.REFUTED


def test_scores_and_spreads_are_one_on_gaussian_samples():
    """Oracle: samples of the very Gaussian they are compared with."""
    random = np.random.default_rng(0)
    mean, variance = random.normal(size=(1, 5, 4)), np.array([[0.5, 1.0, 2.0, 3.0, 4.0]])
    samples = mean + np.sqrt(variance)[..., None] * random.normal(size=(4000, 1, 5, 4))
    scores = experiment._scores(samples, mean)
    assert 0.5 < np.std(scores) < 1.5
    assert experiment._spread(samples, mean, variance).mean() == pytest.approx(1.0, abs=0.03)


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("width", 0, "width must be a whole number, at least 1, got 0"),
        ("num_networks", 1, "num_networks must be a whole number, at least 2, got 1"),
        ("num_steps", (5, 3), r"num_steps must grow, got \(5, 3\)"),
        ("num_steps", (), "num_steps must be whole numbers, one or more"),
        ("learning_rate", 1.0, "learning_rate must be a finite number, between 0 and 1, got 1.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
