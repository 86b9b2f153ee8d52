import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import full_rank as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_features_that_catapults_improve_are_refuted(smoke, verdict):
    """Corrupted: alignments that rise, a test loss that falls, raises without spikes."""
    raises = np.array(experiment.PRESETS["smoke"].raises)
    better = smoke._replace(alignment=smoke.alignment[:, :1] + 0.1 * raises[None])
    assert verdict("bring the features no closer", better) == Verdict.REFUTED
    falling = smoke._replace(best_test=smoke.best_test[:, 1:2] / 2.0 ** raises[None])
    assert verdict("From the first catapult", falling) == Verdict.REFUTED
    same = smoke._replace(best_test=np.ones_like(smoke.best_test))
    assert verdict("do not improve", same) == Verdict.SUPPORTED
    able = smoke._replace(best_test=0.01 + 0 * smoke.best_test)
    assert verdict("best constant", able) == Verdict.REFUTED
    calm = smoke._replace(spikes=np.zeros_like(smoke.spikes))
    assert verdict("raises are catapults", calm) == Verdict.REFUTED
    unfitted = smoke._replace(reached=np.zeros_like(smoke.reached))
    assert verdict("same training loss", unfitted) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="raises must begin with 0"):
        experiment.Config(raises=(1, 2, 3))
    with pytest.raises(ValueError, match="raises must begin with 0, 1 and go on"):
        experiment.Config(raises=(0, 2, 3))
    with pytest.raises(ValueError, match="the source has 4 raises, got 5"):
        experiment.Config(raises=(0, 1, 5))
    with pytest.raises(ValueError, match="factor must be above 1"):
        experiment.Config(factor=0.9)
