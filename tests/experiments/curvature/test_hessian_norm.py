"""The experiment on Hessian norms over widths: verdicts, controls that can fail, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import hessian_norm as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Norms that stay, a control that falls, a wild ball, a closed form without its root."""
    flat = smoke._replace(norms=np.ones_like(smoke.norms))
    for words in ("of fully connected", "densely connected ones", "a part of their edges", "skip"):
        assert verdict(words, flat) == Verdict.REFUTED
    assert verdict("shared weights", flat) == Verdict.REFUTED
    assert verdict("m is the width", flat) == Verdict.REFUTED
    falling = smoke._replace(norms=np.stack([smoke.norms[0]] * 7))
    assert verdict("read only 4", falling) != Verdict.SUPPORTED
    assert verdict("5 times", smoke._replace(ball_ratio=smoke.ball_ratio + 9)) == Verdict.REFUTED
    one = smoke.ball_ratio.copy()
    one[0, -1, 0] = 5.1
    assert verdict("5 times", smoke._replace(ball_ratio=one)) == Verdict.REFUTED
    growing = smoke._replace(ball_ratio=smoke.ball_ratio * smoke.widths[0, 0][None, :, None])
    assert verdict("does not grow", growing) == Verdict.REFUTED
    early = smoke._replace(residuals=smoke.residuals + 0.1)
    assert verdict("far enough", early) == Verdict.REFUTED
    wrong = smoke._replace(closed_form=smoke.closed_form * np.sqrt(2))
    assert verdict("closed form: ReLU", wrong) == Verdict.REFUTED
    curved = smoke._replace(layer_norms=smoke.layer_norms + 1)
    assert verdict("first layer is linear", curved) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"widths": (4, 8)}, "increasing, each at least 8"),
        ({"widths": (64, 32)}, "two or more and increasing"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1, got 0"),
        ({"radii": (0.5, 1.0)}, "radii must be finite numbers, one or more, each at least 1"),
        ({"radii": (2.0, 4.0)}, "radii must begin with 1"),
        ({"radii": (1.0, 1.0)}, "radii must begin with 1, of which a claim speaks, and increase"),
    ],
)
def test_bad_configs_are_told(fields, words):
    with pytest.raises(ValueError, match=words):
        experiment.Config(**fields)
