"""The experiment on attention: verdicts, what is not so, bad configs."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import attention_heads as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Both kinds taken for each other."""
    swapped = smoke._replace(norms=smoke.norms[::-1])
    for words in ("With m heads of", "With one head"):
        assert verdict(words, swapped) == Verdict.REFUTED
    fast = smoke._replace(norms=smoke.norms**3)
    assert verdict("order is attained", fast) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="num_positions must be a whole number, at least 2"):
        experiment.Config(num_positions=1)
    with pytest.raises(ValueError, match="two or more and increasing"):
        experiment.Config(widths=(8,))
