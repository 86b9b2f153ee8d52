import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import several_examples as experiment


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("map_error", lambda r: r.map_error + 1e-6, "obey it exactly"),
    ("rank_error", lambda r: r.rank_error + 1e-3, "rank two"),
    ("losses", lambda r: r.losses * np.arange(1, 1 + r.losses.shape[2])[:, None], "orthogonal to"),
    ("last", lambda r: r.last[..., ::-1], "if and only if"),
    ("network_last", lambda r: r.last[..., ::-1], "ReLU network shows"),
    ("losses", lambda r: np.ones_like(r.losses), "rises along both"),
    ("losses", lambda r: np.ones_like(r.losses), "rises along the first"),
    ("thresholds", lambda r: 3 * r.thresholds, "Where ‖I − ηK‖ < 1"),
    ("last", lambda r: 3 * r.last, "η is smaller"),
    ("diverged_loss", lambda r: 0 * r.first[:, 0], "diverges"),
    ("scale", lambda r: 2 * r.scale, "three halves"),
    ("thresholds", lambda r: r.half_sum_thresholds, "those of the mean"),
    ("last", lambda r: 0.9 * r.last, "Below both"),
    ("losses", lambda r: r.losses[..., ::-1, :], "does not rise along the second"),
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
