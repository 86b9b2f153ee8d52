"""The experiment on classifiers of patches: verdicts, claims that can fail, bad configs."""

import dataclasses

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.local_signal import patch_classifiers as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Sums that are always right, a filter as bad as a sum, a signal that is not needed."""
    right = smoke._replace(linear_wrong=0 * smoke.linear_wrong)
    assert verdict("Without gates the error is Φ", right) == Verdict.REFUTED
    bad = smoke._replace(learned_wrong=smoke.linear_wrong)
    assert verdict("One filter along the signal", bad) == Verdict.REFUTED
    seeing = smoke._replace(blind_wrong=0 * smoke.blind_wrong)
    assert verdict("finds the signal wherever", seeing) == Verdict.SUPPORTED
    assert verdict("Without the signal's patch", seeing) == Verdict.REFUTED
    wrong = smoke._replace(gaps=smoke.gaps + 1, inside_gap=smoke.inside_gap + 1, open_gap=1.0)
    for words in ("at initialisation", "for b < 0 too", "all gates are open"):
        assert verdict(words, wrong) == Verdict.REFUTED
    assert verdict("they differ by 0.1", smoke._replace(gaps=0 * smoke.gaps)) == Verdict.REFUTED


def test_figure_has_one_panel(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 1


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_patches", 299, "num_patches must be a whole number, at least 300, got 299"),
        ("ratio", 1.0, "ratio must be a finite number, between 0 and 1, got 1.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(experiment.Config(), **{field: value})
