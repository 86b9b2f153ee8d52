import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import several_examples as experiment


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("losses", lambda r: np.ones_like(r.losses), "in the first direction"),
    ("losses", lambda r: r.losses[..., ::-1, :], "does not rise along the second"),
    ("losses", lambda r: np.ones_like(r.losses), "in both directions"),
    ("losses", lambda r: r.losses[..., ::-1, :] + 1e-30, "decrease to O(1)"),
    ("diverged_loss", lambda r: 0 * r.first[:, 0], "diverges"),
    ("last", lambda r: r.last[..., ::-1], "if and only if"),
    ("network_last", lambda r: r.last[..., ::-1], "ReLU network shows"),
    ("last", lambda r: 0.9 * r.last, "Below both"),
    ("thresholds", lambda r: r.half_sum_thresholds, "those of the mean"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match=r"num_samples must be .* at least 2, got 1"):
        experiment.Config(num_samples=1)
    with pytest.raises(ValueError, match=r"width must be .* at least 1, got 0"):
        experiment.Config(width=0)
