import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import teacher as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_teachers_that_do_not_agree_and_better_students_are_told(smoke, verdict):
    strangers = smoke._replace(ceiling=0.5 + 0 * smoke.ceiling)
    assert verdict("have an alignment above 0.8", strangers) == Verdict.REFUTED
    nearer = smoke._replace(student=smoke.ceiling[0] + 0.2)
    assert verdict("at most 0.1 better", nearer) == Verdict.REFUTED
    alike = smoke._replace(untrained=smoke.ceiling[0] + 0.1)
    assert verdict("alignment is learned", alike) == Verdict.REFUTED
    assert verdict("start matters", smoke._replace(ceiling=smoke.ceiling[::-1])) == Verdict.REFUTED
    guessing = smoke._replace(accuracy=np.full_like(smoke.accuracy, 0.9))
    assert verdict("teachers are accurate", guessing) == Verdict.REFUTED
    worse = smoke._replace(accuracy=smoke.accuracy - np.array([0.0, 0.1])[:, None, None])
    assert verdict("are as accurate", worse) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="num_train must be from 56 to 1697, got 1797"):
        experiment.Config(images="digits", num_train=1797)
    with pytest.raises(ValueError, match="num_features must be at most the 597"):
        experiment.Config(num_features=1001)
    with pytest.raises(ValueError, match=r"scale must be in \(0, √2\) for a small start, got 2"):
        experiment.Config(scale=2.0)
