"""The experiment on many outputs: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import many_outputs as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Norms above all bounds, below an output's, that stay and that fall."""
    large = smoke._replace(norms=smoke.norms * 10)
    for words in ("at most d_L times", "That is loose"):
        assert verdict(words, large) == Verdict.REFUTED
    assert verdict("no less than", smoke._replace(norms=smoke.norms / 2)) == Verdict.REFUTED
    flat = smoke._replace(norms=np.ones_like(smoke.norms), as_many=smoke.norms)
    assert verdict("It is of the order", flat) == Verdict.REFUTED
    assert verdict("as many outputs", flat) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="num_outputs must be a whole number, at least 2"):
        experiment.Config(num_outputs=1)
    with pytest.raises(ValueError, match="two or more and increasing"):
        experiment.Config(widths=(64, 32))
