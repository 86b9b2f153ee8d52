"""The experiment on where the theorem begins: verdicts, claims that can fail, bad configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.local_signal import threshold_learns as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Sizes turned round, runs exchanged, SGD that is off, times that grow."""
    turned = smoke._replace(best_accuracies=smoke.best_accuracies[::-1])
    for words in ("k₀ may be 1000", "k₀ is above 300"):
        assert verdict(words, turned) == Verdict.REFUTED
    exchanged = smoke._replace(
        accuracy=smoke.failing, failing=smoke.accuracy, dying=smoke.failing, failing_gradient=1.0
    )
    for words in ("descent on the true risk errs", "comes to rest", "its gradient", "overtakes"):
        assert verdict(words, exchanged) == Verdict.REFUTED
    slower = smoke._replace(times=smoke.times[::-1], sgd=smoke.sgd - 0.02)
    for words in ("comes sooner", "falls at least as", "SGD stays with"):
        assert verdict(words, slower) == Verdict.REFUTED
    better = smoke._replace(linear_accuracies=smoke.linear_accuracies + 0.1)
    assert verdict("Without a threshold", better) == Verdict.REFUTED
    learned = smoke._replace(learned=0 * smoke.learned + 0.989)
    assert verdict("SGD on fresh batches errs", learned) == Verdict.REFUTED
    learned = learned._replace(learned=0 * smoke.learned + 0.991)
    assert verdict("SGD on fresh batches errs", learned) == Verdict.SUPPORTED


def test_a_goal_that_is_lost_again_does_not_count():
    """By hand: above 0.95 at once, below at step 2, above for good from step 3 on."""
    steps = np.arange(5)
    assert experiment._reached(steps, np.array([0.5, 0.99, 0.6, 0.96, 0.97])) == 3
    assert np.isnan(experiment._reached(steps, np.full(5, 0.9)))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_patches", 1, "num_patches must be a whole number, at least 2, got 1"),
        (
            "timed_patches",
            (100,),
            "timed_patches must be whole numbers, two or more",
        ),
        ("num_steps", 9, "num_steps must be a whole number, at least 120, got 9"),
        ("sgd_steps", 99999, "sgd_steps must be at most 12000, got 99999"),
        ("learned_steps", 9, "learned_steps must be a whole number, at least 120, got 9"),
        ("timed_rate", 0.0, r"timed_rate must be a finite number, positive, got 0\.0"),
        ("num_seeds", 0, "num_seeds must be a whole number, at least 1, got 0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(experiment.Config(), **{field: value})
