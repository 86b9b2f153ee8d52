import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import recursive_features as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_machines_that_learn_nothing_are_refuted(smoke, verdict):
    """Corrupted: every round is the first; or the full target is learned like the others."""
    idle = smoke._replace(
        errors=np.repeat(smoke.errors[..., :1], smoke.errors.shape[-1], axis=-1),
        alignments=smoke.alignments[..., ::-1],
        gains=np.ones_like(smoke.gains),
    )
    assert verdict("two directions of many matter", idle) == Verdict.REFUTED
    worse = smoke._replace(errors=smoke.errors[..., ::-1] + np.arange(smoke.errors.shape[-1]))
    assert verdict("in a staircase", worse) == Verdict.REFUTED
    assert verdict("captures the two directions", idle) == Verdict.REFUTED
    assert verdict("One update of the metric is", idle) == Verdict.REFUTED
    greedy = smoke._replace(gains=smoke.gains[[0, 1, 0]])
    assert verdict("all directions matter alike", greedy) == Verdict.REFUTED
    centred = smoke._replace(linear=np.zeros_like(smoke.linear))
    assert verdict("not centred", centred) == Verdict.REFUTED
    other = smoke._replace(likeness=smoke.likeness / 2)
    assert verdict("has the same features", other) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="dimension must be at least 10, got 5"):
        experiment.Config(dimension=5)
    with pytest.raises(ValueError, match="ridge must be a finite number, positive, got 0"):
        experiment.Config(ridge=0.0)
