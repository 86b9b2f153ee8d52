import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import catapult as experiment
from theorylab.experiments.dynamics.catapult import CLAIMS, Config


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("map_error", lambda r: r.map_error + 1e-9, "obey a map"),
    ("reduced_error", lambda r: r.reduced_error + 1e-9, "reduced coordinates"),
    ("quadratic_peaks", lambda r: np.sqrt(r.quadratic_peaks), "peak loss of quadratic"),
    ("network_peaks", lambda r: r.network_peaks**1.2, "ReLU networks themselves"),
    ("linear_outputs", lambda r: 1.001 * r.linear_outputs, "closed form"),
    ("linear_threshold", lambda r: 1.02 * r.linear_threshold, "bisection"),
    ("quadratic_peaks", lambda r: r.quadratic_peaks**0.5, "order of m/log m"),
    ("loss", lambda r: r.loss[::-1], "quadratic model increases"),
    ("loss", lambda r: r.linear_loss, "decreases to O(1)"),
    ("linear_loss", lambda r: r.loss[::-1], "decreases monotonically"),
    ("linear_loss", lambda r: r.loss, "The linear model has no catapult"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_refuted(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) == Verdict.REFUTED


@pytest.mark.parametrize("field", ["map_error", "network_peaks", "linear_threshold"])
def test_nothing_is_concluded_from_nan(smoke, verdict, field):
    """A NaN anywhere in a field leaves the claims about it inconclusive."""
    wrong = smoke._replace(**{field: np.full_like(getattr(smoke, field), np.nan)})
    before, after = (
        [verdict(claim.statement, result) for claim in CLAIMS] for result in (smoke, wrong)
    )
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [Verdict.INCONCLUSIVE]


def test_the_figure_is_drawn(smoke):
    figure = experiment.plot(smoke, experiment.PRESETS["smoke"])
    assert [len(axis.lines) > 0 for axis in figure.axes] == [True] * 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 0}, "width must be .* at least 1, got 0"),
        ({"num_seeds": -1}, "num_seeds must be .* at least 1, got -1"),
        ({"ratios": (1.0, 5.0)}, r"ratios must be below 4, one beyond 2, got \(1.0, 5.0\)"),
        ({"ratios": (1.0,)}, "ratios must be below 4, one beyond 2"),
        ({"ratios": ()}, "ratios must be .* one or more"),
        ({"widths": (100,)}, r"widths must be .* two or more and increasing, .* got \(100,\)"),
        ({"widths": (0, 10)}, "widths must be .* each at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Config(**fields)
