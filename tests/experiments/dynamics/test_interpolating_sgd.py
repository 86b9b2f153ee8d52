"""The experiment on SGD where all data can be fitted: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import interpolating_sgd as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_batches_of_all_examples_are_all_alike(smoke):
    """Oracle: gradient descent has no order. Single examples have one."""
    one, every = smoke.loss[:, 0], smoke.loss[:, -1]
    config = experiment.PRESETS["smoke"]
    assert config.batch_sizes == (1, config.num_samples)
    np.testing.assert_allclose(every, every[:, :1] + 0 * every, rtol=1e-9)
    assert (one[:, 0, -1] != one[:, 1, -1]).all()


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """A loss that stays, one that falls at once, weights that leave, a kernel that collapses."""
    slow = smoke._replace(loss=smoke.loss * 0 + smoke.loss[..., :1])
    for words in ("Convergence is exponential", "exponential rate", "Every run fits"):
        assert verdict(words, slow) == Verdict.REFUTED
    steps = experiment.PRESETS["smoke"].steps
    decay = steps * smoke.learning_rate.max() * smoke.largest.max()
    fast = smoke._replace(loss=smoke.loss[..., :1] * np.exp(-2 * decay)[None, None, None])
    assert verdict("With the largest eigenvalue", fast) == Verdict.REFUTED
    far = smoke._replace(distance=1e4 * smoke.distance)
    for words in ("A ball of radius", "enough for SGD too"):
        assert verdict(words, far) == Verdict.REFUTED
    near = smoke._replace(distance=smoke.distance / 10)
    assert verdict("A quarter of that", near) == Verdict.REFUTED
    gone = smoke._replace(curvature=1e-6 * smoke.curvature)
    for words in ("the curvature times the distance", "steadier than its bound"):
        assert verdict(words, gone) == Verdict.REFUTED
    done = smoke._replace(loss=np.maximum(smoke.loss, 1e-30))
    done.loss[..., 12:] = 1e-30  # of rounding: no rate is read there
    assert verdict("exponential rate", done) == Verdict.SUPPORTED
    quiet = smoke._replace(unfitted=smoke.unfitted * 0 + experiment.LEAST)
    assert verdict("noise of single examples remains", quiet) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimension": 1}, "dimension must be .* at least 2, got 1"),
        ({"batch_sizes": (5, 1)}, "batch_sizes must be .* two or more and increasing"),
        ({"batch_sizes": (1, 9)}, "batch_sizes must be at most 5, got 9"),
        ({"num_orders": 1}, "num_orders must be .* at least 2, got 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
