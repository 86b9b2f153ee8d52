"""The experiment on the distance to the linear model: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import linearity_gap as experiment

SMOKE = experiment.PRESETS["smoke"]


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Gaps that grow linearly in R, that exceed the bound, that are alike in all directions."""
    linear = smoke._replace(gaps=smoke.gaps / np.array(SMOKE.radii))
    assert verdict("square of the distance", linear) == Verdict.REFUTED
    larger = smoke._replace(gaps=3 * smoke.gaps)
    assert verdict("In no direction", larger) == Verdict.REFUTED
    assert verdict("a short step", larger) == Verdict.REFUTED
    stays = smoke._replace(quadratic=np.ones_like(smoke.quadratic))
    assert verdict("quadratic model leaves", stays) == Verdict.REFUTED
    assert verdict("Where descent ends", smoke._replace(arrived=smoke.arrived + 9)) == (
        Verdict.REFUTED
    )
    alike = smoke._replace(gaps=np.repeat(smoke.gaps[:, :, :1], 4, axis=2))
    for words in ("A random direction", "that training takes"):
        assert verdict(words, alike) != Verdict.SUPPORTED
    assert verdict("order is attained", smoke._replace(gaps=smoke.gaps**3)) == Verdict.REFUTED
    assert verdict("Half of the bound", smoke._replace(gaps=smoke.gaps / 4)) == Verdict.REFUTED
    flat = smoke._replace(gaps=smoke.gaps * np.array(SMOKE.widths)[:, None, None] ** 0.5)
    assert verdict("where it is largest", flat) == Verdict.REFUTED


def test_bad_configs_are_told():
    for radii in ((0.5, 2.0), (0.0, 1.0), (1.0,)):
        with pytest.raises(
            ValueError, match="two or more and increasing, each positive, each from 0"
        ):
            experiment.Config(radii=radii)
