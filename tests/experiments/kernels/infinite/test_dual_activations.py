"""The experiment on dual activations: verdicts, claims that can fail, bad configs."""

import dataclasses

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.infinite import dual_activations as experiment

TINY = experiment.Config(
    num_correlations=3, variances=(1.0,), node_counts=(4, 6, 8), term_counts=(3, 4, 5)
)


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """A wrong closed form, a series that lies about its error, a gradient that breaks."""
    wrong = smoke._replace(
        relu_error=smoke.wrong_error,
        closed=1.001 * smoke.closed,
        smooth_error=smoke.smooth_error + 1e-6,
        series_error=2 * smoke.series_error,
        slope=-smoke.slope,
        num_broken=1,
        num_broken_plainly=0,
    )
    for words in (
        "For smooth activations, erf among them, closed forms are the integrals",
        "over one variable",
        "goes to the arc-cosine kernel",
        "inverse root or faster",
        "never a larger error",
        "just that error",
        "is E σ′σ′",
        "Gradients are finite",
        "Differentiated as printed",
    ):
        assert verdict(words, wrong) == Verdict.REFUTED, words
    right = smoke._replace(wrong_error=smoke.wrong_error / np.array([1.0, 5.0, 25.0]))
    assert verdict("closed form of |u|", right) == Verdict.REFUTED
    broken = smoke._replace(relu_error=smoke.relu_error * np.nan)
    assert verdict("goes to the arc-cosine kernel", broken) == Verdict.INCONCLUSIVE


def test_printed_formula_is_the_closed_form(smoke):
    """Oracle: the formula once more, by NumPy."""
    rho = smoke.correlations
    angle = np.pi - np.arccos(rho)
    value = (rho * angle + np.sqrt(1 - rho**2)) / (2 * np.pi)
    np.testing.assert_allclose(smoke.relu, [value, angle / (2 * np.pi)], atol=1e-12)


def test_same_config_same_bytes():
    first, second = experiment.run(TINY), experiment.run(TINY)
    for one, other in zip(first, second, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


def test_memory_grows_with_the_nodes():
    large = dataclasses.replace(TINY, node_counts=(16, 32, 4096))
    assert experiment.memory(large) > 1e9 > experiment.memory(TINY)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "num_correlations",
            10,
            "num_correlations must be a whole number, odd and at least 1, got 10",
        ),
        ("variances", (), "variances must be finite numbers, one or more"),
        ("variances", (0.0,), r"one of variances must be positive, got \(0.0,\)"),
        ("variances", (-1.0, 1.0), "variances must be finite numbers, one or more"),
        ("node_counts", (16, 32), r"node_counts must be three or more, got \(16, 32\)"),
        (
            "term_counts",
            (8, 8, 16),
            "term_counts must be whole numbers, two or more and increasing",
        ),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
