from dataclasses import replace

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import phase_diagram as experiment
from theorylab.experiments.dynamics.quadratic.phase_diagram import CLAIMS, Config


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("observed_phase", lambda r: np.roll(r.observed_phase, 1), "decides"),
    ("last_ratio", lambda r: r.last_ratio + 2, "ends with η < 2/λ"),
    ("peak_rise", lambda r: np.sqrt(r.peak_rise), "at least, for every δ"),
    ("last_loss", lambda r: 2 + r.last_loss, "decreases to O(1)"),
    ("slowest", lambda r: 0.01 + r.slowest, "falls at every step"),
    ("peak_rise", lambda r: r.peak_rise / np.log(experiment.WIDTHS), "peak loss of the map"),
    ("peak_height", lambda r: 2 * r.peak_height, "At its peak u"),
    ("mirror", lambda r: 1.5 * r.mirror, "mirrors"),
    ("drift", lambda r: np.sqrt(r.drift), "curvature drifts"),
    ("slowest", lambda r: 0 * r.slowest, "A tenth of the constant"),
    ("peak_rise", lambda r: r.peak_rise**0, "first rises tenfold"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_refuted(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) == Verdict.REFUTED


def test_a_printed_statement_can_come_true(smoke, verdict):
    """Without a rise of the loss, the printed claim would be supported."""
    wrong = smoke._replace(peak_rise=smoke.peak_rise**0)
    assert verdict("decreases monotonically", wrong) == Verdict.SUPPORTED


def test_nothing_is_concluded_from_nan(smoke, verdict):
    """A NaN in a field leaves the claim about it inconclusive."""
    wrong = smoke._replace(mirror=np.full_like(smoke.mirror, np.nan))
    before, after = (
        [verdict(claim.statement, result) for claim in CLAIMS] for result in (smoke, wrong)
    )
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [Verdict.INCONCLUSIVE]


def test_the_figure_is_drawn(smoke):
    figure = experiment.plot(smoke, experiment.PRESETS["smoke"])
    assert [len(axis.lines) > 0 for axis in figure.axes[:2]] == [True] * 2


def test_same_config_same_numbers():
    """Byte by byte."""
    config = replace(experiment.PRESETS["smoke"], num_settings=20, resolution=2)
    for one, other in zip(experiment.run(config), experiment.run(config), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_settings": 0}, "num_settings must be .* at least 1, got 0"),
        ({"resolution": 1}, "resolution must be .* at least 2, got 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Config(**fields)
