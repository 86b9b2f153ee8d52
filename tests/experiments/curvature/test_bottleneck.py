"""The experiment on bottlenecks: verdicts, what is not so, bad configs."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import bottleneck as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """The kinds in another order: the narrow layer where the plain network was."""
    swapped = smoke._replace(norms=smoke.norms[[2, 2, 0, 2]])
    assert verdict("Two neurons", swapped) == Verdict.REFUTED
    assert verdict("A narrow layer does", swapped) == Verdict.REFUTED
    assert verdict("linear again", swapped) == Verdict.REFUTED
    assert verdict("Without any bottleneck", swapped) == Verdict.REFUTED
    plain = smoke._replace(bottlenecks=0 * smoke.bottlenecks)
    assert verdict("bottleneck neurons are there", plain) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(
        ValueError, match="narrow must be at most 4, half of the least width, got 5"
    ):
        experiment.Config(widths=(8, 16), narrow=5)
    with pytest.raises(ValueError, match="two or more and increasing"):
        experiment.Config(widths=(8,))
