"""Detectors of clusters: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import cluster_detectors as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("for samples of longer means", "losses", 1.0),
        ("the loss exceeds it", "losses", 0.0),
        ("It is at most (1 + r", "least_losses", 0.0),
        ("With d^(−0.65τ)", "least_losses", -1000.0),
        ("σ_j²I they respond", "responses", 0.0),
        ("by a certificate", "detectors", -1.0),
        ("by a certificate", "certificate", -1.0),
        ("by a certificate", "entries", 1.1),
        ("a thirtieth of B_a1", "bounded", 0.0),
        ("says nothing", "violated", 0),
        ("has the √d of B_x1", "terms", 1.0 + np.arange(9.0).reshape(3, 3)),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    old = getattr(smoke, field)
    new = np.full_like(old, value) if isinstance(old, np.ndarray) else value
    assert verdict(words, smoke._replace(**{field: new})) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("words", "field"),
    [("With τ = 8", "least_losses"), ("of covariance σ_jI", "responses")],
)
def test_what_is_printed_could_be_right(smoke, verdict, words, field):
    right = smoke._replace(**{field: np.full_like(getattr(smoke, field), -1000.0)})
    assert verdict(words, right) == Verdict.SUPPORTED


def test_the_loss_at_the_least_length_is_that_of_samples():
    """Oracle: a million samples of one cluster at τ = ½, where the tail is not rare."""
    kappa = 1.5
    z = np.random.default_rng(0).normal(size=10**6)
    sampled = np.maximum(1 - np.maximum(2 + z / kappa, 0), 0)
    expected = experiment._excess(1.0, kappa) / kappa
    # The two differ where the detector is silent, z < −2κ: there the loss is 1 and not more.
    silent = experiment._excess(1.0, 2 * kappa) / kappa
    error = sampled.std() / 1000
    assert abs(sampled.mean() - (expected - silent)) < 4 * error


def test_at_least_one_sample_is_drawn():
    with pytest.raises(ValueError, match="num_samples must be a whole number, at least 1, got 0"):
        experiment.Config(num_samples=0)
