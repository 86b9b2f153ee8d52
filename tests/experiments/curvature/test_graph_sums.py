"""The experiment on sums over neurons: verdicts, what is not so, bad configs."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import graph_sums as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("no more weights", lambda r: {"margins": r.margins - 1}),
        ("The bound is sharp", lambda r: {"margins": r.margins + 2}),
        ("does not grow", lambda r: {"counts": r.totals}),
        ("number of all weights", lambda r: {"totals": r.counts}),
        ("stays bounded", lambda r: {"series": r.knowing}),
        ("know the signs", lambda r: {"knowing": np.ones_like(r.knowing)}),
        ("UᵢUᵢᵀ", lambda r: {"corrected_variance": 100}),
    ],
)
def test_a_wrong_measurement_is_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="increasing, each at least 8"):
        experiment.Config(widths=(4, 8))
