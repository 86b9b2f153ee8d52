"""Structure that is needed: verdicts of the smoke run, and corrupted measurements."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.emergence import structure_needed as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("at chance in every large case", "fair", 0.53),
        ("at chance in every large case", "fair", 0.47),
        ("solves every one", "structured", 0.98),
        ("some neuron points", "structured_cosines", 0.9),
        ("none does", "fair_cosines", 0.7),
        ("parities are few", "few", 0.6),
        ("every label to 1e-4", "good_error", 0.1),
        ("at most 32k", "good_outer", 64.0),
        ("at most 32k", "good_biases", 0.9 / 32),
        ("at most 32k", "good_biases", 0.51),
        ("at most 32k", "good_sums", 1.1),
        ("With 31k", "good_outer", 16.0),
        ("With 31k", "good_biases", 1 / 8),
        ("128k for a parity", "good_outer", 64.0),
    ],
)
def test_corrupted_measurements_are_not_supported(smoke, verdict, words, field, value):
    broken = smoke._replace(**{field: np.full_like(getattr(smoke, field), value)})
    assert verdict(words, broken) != Verdict.SUPPORTED


def test_a_bound_that_the_network_hardly_exceeds_would_be_reported(smoke, verdict):
    """Oracle: one step of one pair of neurons asks 24 to 104 times; the bound is 1.8 and more."""
    frugal = experiment.Config(num_pairs=1, num_steps=3)
    assert verdict("allows what fails", smoke, frugal) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"few_patterns": (10,)}, "few_patterns and few_relevant must be as many"),
        ({"many_patterns": (), "many_relevant": ()}, "many_patterns must be .* one or more"),
        ({"many_relevant": (3, 4)}, "many_relevant must be .* odd"),
        ({"few_relevant": (2, 10)}, "relevant patterns must be fewer than all, got 10"),
        ({"batch_size": 20001}, "batch_size must be at most num_samples"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
