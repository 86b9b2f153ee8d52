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
    full, last, made = smoke.full, smoke.last, smoke.made
    other = smoke.bayes._replace(spread=smoke.tangent_spread[:, None])
    mean, covariance = 1.01 * made.mean, smoke.bayes_covariance
    refuted = {
        "The mean of fully trained": {"full": full._replace(scores=smoke.wrong_scores)},
        "Their variance is predicted": {"full": full._replace(spread=1.33 * full.spread)},
        "alone, the variance": {"last": last._replace(spread=last.spread / 1.33)},
        "covariance of Bayes' posterior": {"last_limit": 1.01 * smoke.last_limit},
        "have the posterior's variance": {"bayes": other},
        "no posterior of the prior K": {"prior_spread": smoke.tangent_spread},
        "Nor of the prior Θ": {"tangent_spread": smoke.bayes.spread[:, 0]},
        "for its posterior": {"made": made.replace(mean=mean)},
        "last-layer training fails": {"wrong_scores": full.scores},
    }
    for words, fields in refuted.items():
        assert verdict(words, smoke._replace(**fields)) == Verdict.REFUTED, words
    another = smoke._replace(made=made.replace(covariance=covariance))
    assert verdict("No prior has", another) == Verdict.SUPPORTED
    one_bad_step = full.spread.copy()
    one_bad_step[:, 1] *= 1.5
    broken = smoke._replace(full=full._replace(spread=one_bad_step))
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
