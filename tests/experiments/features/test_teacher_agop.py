import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features import teacher_agop as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_teachers_that_agree_and_better_students_are_told(smoke, verdict):
    agreeing = smoke._replace(ceiling=0.9 + 0 * smoke.ceiling)
    assert verdict("As proposed", agreeing) == Verdict.SUPPORTED
    assert verdict("far less", agreeing) == Verdict.REFUTED
    assert verdict("no nearer", smoke._replace(student=smoke.ceiling + 0.2)) == Verdict.REFUTED
    assert verdict("Agreement is learned", smoke._replace(untrained=smoke.ceiling + 0.1)) == (
        Verdict.REFUTED
    )
    guessing = smoke._replace(accuracy=np.full_like(smoke.accuracy, 0.1))
    assert verdict("know their task", guessing) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="num_train must be from 50 to 1697, got 1797"):
        experiment.Config(images="digits", num_train=1797)
    with pytest.raises(ValueError, match="num_features must be from 1 to the 1000"):
        experiment.Config(num_features=1001)
