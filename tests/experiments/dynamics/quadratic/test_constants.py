import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import constants as experiment


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("path", lambda r: r.path * np.array([-1.0, 1.0, 1.0])[None, None], "positive throughout"),
    ("divergent", lambda r: r.divergent[:, ::-1], "It changes by the factor"),
    ("divergent", lambda r: r.divergent / 2, "so that the curvature rises"),
    ("corrected_falls", lambda r: r.printed_falls, "it does"),
    ("lower_falls", lambda r: -r.lower_falls, "sharp"),
    ("first_pulls", lambda r: r.first_pulls**1.5, "of order 1/m"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="num_points must be a whole number, at least 1, got 0"):
        experiment.Config(num_points=0)
