"""The experiment on the cost of kernels: verdicts, and corrupted counts that fail."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.solvers import cost_limits as experiment

TINY = experiment.Config(sides=(4, 8), sample_counts=(4, 8), many=10)


def test_smoke_run_has_no_surprises(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    exchanged = smoke._replace(pooled=smoke.flat, flat=smoke.pooled)
    assert verdict("With pooling", exchanged) == Verdict.REFUTED
    assert verdict("Without pooling", exchanged) == Verdict.REFUTED
    linear = np.asarray(experiment.PRESETS["smoke"].sample_counts, float)
    assert verdict("entries that", smoke._replace(pairs=linear)) == Verdict.REFUTED
    assert verdict("A step of", smoke._replace(step=linear)) == Verdict.REFUTED
    assert verdict("The NNGP kernel", smoke._replace(nngp=0.1 * smoke.nngp)) == Verdict.REFUTED
    cheap = smoke._replace(gram_at_many=0.1 * smoke.solution_at_many)
    assert verdict("all steps", cheap) == Verdict.REFUTED
    assert verdict("an exact solution", cheap) == Verdict.REFUTED


def test_same_config_same_bytes():
    for one, other in zip(experiment.run(TINY), experiment.run(TINY), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="num_steps must be a whole number, at least 1, got 0"):
        experiment.Config(num_steps=0)
    with pytest.raises(ValueError, match="sides must be whole numbers, two or more"):
        experiment.Config(sides=(8,))
    with pytest.raises(ValueError, match="sides must be multiples of 4"):
        experiment.Config(sides=(8, 10))


def test_the_figure_draws(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2
