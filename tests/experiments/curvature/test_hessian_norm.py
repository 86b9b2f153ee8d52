"""The experiment on Hessian norms over widths: verdicts, controls that can fail, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import hessian_norm as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Norms that stay, that fall too fast, a control that falls, a closed form without its root."""
    flat = smoke._replace(norms=np.ones_like(smoke.norms))
    for words in ("of fully", "connected networks.", "half of their", "skip", "shared", "m^1.5"):
        assert verdict(words, flat) == Verdict.REFUTED
    fast = smoke._replace(norms=1 / smoke.widths)
    assert verdict("order is attained", fast) == Verdict.REFUTED
    falling = smoke._replace(norms=np.stack([smoke.norms[0]] * 7))
    assert verdict("read only 4", falling) != Verdict.SUPPORTED
    early = smoke._replace(residuals=smoke.residuals + 0.1)
    assert verdict("has converged", early) == Verdict.REFUTED
    wrong = smoke._replace(closed_form=smoke.closed_form * np.sqrt(2))
    assert verdict("closed form", wrong) == Verdict.REFUTED
    curved = smoke._replace(layer_norms=smoke.layer_norms * 0 + 1)
    for words in ("in the first layer", "in the second layer"):
        assert verdict(words, curved) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"widths": (4, 8)}, "increasing, each at least 8"),
        ({"widths": (64, 32)}, "two or more and increasing"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1, got 0"),
    ],
)
def test_bad_configs_are_told(fields, words):
    with pytest.raises(ValueError, match=words):
        experiment.Config(**fields)
