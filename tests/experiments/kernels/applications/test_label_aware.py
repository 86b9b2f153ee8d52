"""The experiment on label-aware kernels: verdicts, results that are not so, bad configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.applications import label_aware as experiment

TINY = experiment.Config(num_samples=4, num_test=3, num_folds=2, num_seeds=1)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Labels that do not help, or harm; a kernel that serves both; labels that are no chance."""
    useless = smoke._replace(
        aware_error=smoke.plain_error,
        aware_alignment=smoke.plain_alignment,
        weight=0 * smoke.weight,
    )
    assert verdict("With labels the kernel", useless) != Verdict.SUPPORTED
    assert verdict("alignment with the parity", useless) != Verdict.SUPPORTED
    assert verdict("Cross-validation", useless) == Verdict.REFUTED
    swapped = smoke._replace(
        plain_error=smoke.plain_error[:, ::-1, ::-1], aware_error=smoke.aware_error[:, :, ::-1]
    )
    assert verdict("fails at the parity", swapped) != Verdict.SUPPORTED
    assert verdict("From random labels", swapped) == Verdict.REFUTED
    blind = smoke._replace(plain_error=np.full_like(smoke.plain_error, 0.5))
    assert verdict("cannot generalise well", blind) == Verdict.SUPPORTED
    perfect = smoke._replace(weight=np.ones_like(smoke.weight))
    assert verdict("less than one", perfect) == Verdict.REFUTED
    harmed = smoke._replace(aware_error=smoke.aware_error + 0.1)
    assert verdict("at most one error in 50", harmed) == Verdict.REFUTED
    helped = smoke._replace(aware_error=smoke.aware_error - 0.1)
    assert verdict("gains nothing", helped) == Verdict.REFUTED


def test_folds_part_the_samples():
    """Oracle: in every fold each sample is on one side; each is tested once."""
    train, test = (np.asarray(part) for part in experiment._folds(6, 3))
    assert sorted(test.ravel()) == list(range(6))
    for inside, outside in zip(train, test, strict=True):
        assert sorted([*inside, *outside]) == list(range(6))


def test_figure_has_two_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_test", 0, "num_test must be a whole number, at least 1, got 0"),
        ("dimension", 1, "dimension must be a whole number, at least 2, got 1"),
        ("noise", 0.0, "noise must be a finite number, positive, got 0.0"),
        ("num_samples", 5, "num_samples must be a multiple of num_folds >= 2, got 5 and 2"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
