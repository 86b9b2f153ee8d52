import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import network_widths as experiment


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


WIDTHS = np.array(experiment.PRESETS["smoke"].widths)

# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("peaks", lambda r: 1 / r.peaks, "The wider the network"),
    ("peaks", lambda r: 1 / r.peaks, "the higher the peak, at every width"),
    ("ends", lambda r: 1 / r.ends, "top eigenvalue falls"),
    ("ends", lambda r: r.ends * WIDTHS[:, None] ** -0.5, "Width has no effect"),
    ("peaks", lambda r: 1.1 * r.peaks, "never exceeds"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match=r"widths must be .* increasing"):
        experiment.Config(widths=(300, 100))
    with pytest.raises(ValueError, match="ratios must be above 1 but for the first"):
        experiment.Config(ratios=(1.1, 1.2))
