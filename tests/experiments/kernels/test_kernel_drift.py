"""The experiment on the drift of tangent kernels: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels import kernel_drift as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """A drift that is the same at all widths, one with slope −1/2, a loss that stays."""
    flat = smoke._replace(drift=np.repeat(smoke.drift[:, :1], len(smoke.widths), axis=1))
    assert verdict("moves at most like", flat) == Verdict.REFUTED
    assert verdict("the wider the network", flat) != Verdict.SUPPORTED
    root = smoke._replace(drift=flat.drift * smoke.widths[None, :, None] ** -0.5)
    assert verdict("moves exactly like", root) == Verdict.SUPPORTED
    assert verdict("converges", smoke._replace(last_loss=smoke.last_loss + 1)) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match=r"drop must be in \[0, 1\)"):
        experiment.Config(drop=1.0)
    with pytest.raises(ValueError, match="three or more and grow"):
        experiment.Config(widths=(8, 16))
