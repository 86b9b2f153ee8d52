import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import near_zero_start as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_a_start_without_features_is_refuted(smoke, verdict):
    """Corrupted: the small start is given what the ordinary one has; rates that do not scale."""
    swapped = smoke._replace(test=smoke.test[[1, 0, 2]] + np.array([[1], [0], [0]]))
    assert verdict("smallest test loss", swapped) == Verdict.REFUTED
    poor = smoke._replace(alignment=smoke.alignment - np.array([[0.5], [0], [0]]))
    assert verdict("has the best features", poor) == Verdict.REFUTED
    assert verdict("Both have better features", poor) == Verdict.REFUTED
    same = smoke._replace(rate_ratio=np.ones_like(smoke.rate_ratio))
    assert verdict("1/σ² times", same) == Verdict.REFUTED
    unfitted = smoke._replace(reached=np.zeros_like(smoke.reached))
    assert verdict("same training loss", unfitted) == Verdict.REFUTED
    assert verdict("smallest test loss", unfitted) == Verdict.INCONCLUSIVE
    thrown = smoke._replace(rises=smoke.rises + 10)
    assert verdict("needs no catapult", thrown) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="weight_scale must be a finite number, between 0 and 1"):
        experiment.Config(weight_scale=1.0)
    with pytest.raises(ValueError, match="num_raises must be a whole number, at least 1, got 0"):
        experiment.Config(num_raises=0)
