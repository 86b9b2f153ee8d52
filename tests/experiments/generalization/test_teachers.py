"""The experiment on teachers: verdicts, claims that can fail, bad configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.generalization import teachers as experiment

TINY = experiment.Config(samples=(5, 8), num_independent=4, num_terms=10, num_seeds=2)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Powers exchanged, an order turned round, a measure and a kernel that are too large."""
    exchanged = smoke._replace(power_roots=smoke.power_roots[:, [2, 2, 1, 2]])
    assert verdict("The third power", exchanged) == Verdict.REFUTED
    assert verdict("does not grow", exchanged) == Verdict.REFUTED
    short = smoke._replace(linear_measure=smoke.linear_measure / np.sqrt(2))
    assert verdict("come within", short) == Verdict.REFUTED
    assert verdict("Squares and fourth", smoke._replace(power_roots=10 * smoke.power_roots)) == (
        Verdict.REFUTED
    )
    assert verdict("order of quadratic", smoke._replace(order=-smoke.order)) == Verdict.REFUTED
    assert verdict("its power series", smoke._replace(series=1.001 * smoke.series)) == (
        Verdict.REFUTED
    )
    large = smoke._replace(linear_measure=1.6 * smoke.linear_measure, traces=3 * smoke.traces)
    for words in ("Linear teachers", "come within", "is at most n", "It is n/2"):
        assert verdict(words, large) == Verdict.REFUTED
    small = smoke._replace(power_roots=smoke.power_roots / 9)
    assert verdict("A quarter of the bounds", small) == Verdict.REFUTED
    cosines = smoke._replace(cosine_roots=10 * smoke.cosine_roots)
    assert verdict("never exceed ‖β‖ sinh ‖β‖", cosines) == Verdict.REFUTED
    tiny = smoke._replace(cosine_roots=smoke.cosine_roots / 2)
    assert verdict("A quarter of the bounds", tiny) == Verdict.REFUTED
    cubic = smoke.cosine_roots * np.asarray(experiment.LENGTHS)[None, :, None]
    assert verdict("One constant", smoke._replace(cosine_roots=cubic)) == Verdict.SUPPORTED


def test_same_config_same_bytes():
    first, second = experiment.run(TINY), experiment.run(TINY)
    for one, other in zip(first, second, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_terms", 0, "num_terms must be a whole number, at least 1, got 0"),
        ("samples", (8, 5), "samples must be whole numbers, two or more and increasing"),
        ("samples", (0, 5), "increasing, each at least 1"),
        ("largest_cosine", 1.0, "largest_cosine must be a finite number, between 0 and 1, got 1.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
