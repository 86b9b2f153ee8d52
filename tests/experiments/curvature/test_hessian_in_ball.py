"""The experiment on Hessians in a ball: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import hessian_in_ball as experiment

SMOKE = experiment.PRESETS["smoke"]


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Norms that grow with the width, one that is large, balls in which nothing is found."""
    growing = smoke._replace(largest=smoke.largest * np.array(SMOKE.widths)[:, None])
    for words in ("order of m", "does not grow"):
        assert verdict(words, growing) == Verdict.REFUTED
    one = smoke.largest.copy()
    one[0, -1, 0] = 5.1 * smoke.centre[0, -1]
    assert verdict("less than 5 times", smoke._replace(largest=one)) == Verdict.REFUTED
    outside = smoke._replace(cubic=1.2 * smoke.cubic)
    assert verdict("cubic function", outside) == Verdict.REFUTED
    falling = smoke._replace(narrow=smoke.largest[..., 0] / 2)
    assert verdict("two neurons", falling) == Verdict.REFUTED
    nothing = smoke._replace(largest=np.stack([smoke.centre] * 2, axis=2))
    assert verdict("finds something", nothing) == Verdict.REFUTED


def test_the_centre_is_in_every_ball(smoke):
    assert (smoke.largest >= smoke.centre[..., None]).all()


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="two or more and increasing"):
        experiment.Config(radii=(2.0, 1.0))
