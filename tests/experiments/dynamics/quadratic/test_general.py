import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import general as experiment


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


GAMMA = np.array(experiment.PRESETS["smoke"].nonlinearities)

# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("map_error", lambda r: r.map_error + 1e-6, "obey a map"),
    ("observed_phase", lambda r: np.roll(r.observed_phase, 1, axis=1), "ηλ₀ decides"),
    ("loss", lambda r: r.loss[:, ::-1], "The smaller γ"),
    ("loss", lambda r: np.sqrt(r.loss), "proportional to γ⁻²"),
    ("curvature", lambda r: r.curvature * GAMMA[:, None] ** 0.5, "γ has no effect"),
    ("highest_loss", lambda r: 1 / r.highest_loss, "beyond 2/λ₀"),
    ("last_curvature", lambda r: 1 / r.last_curvature, "the more the curvature falls"),
    ("last_curvature", lambda r: 1.1 * r.last_curvature, "the curvature stays"),
    ("linear_rise", lambda r: r.linear_rise**0, "Without nonlinearity"),
    ("corrected_after", lambda r: r.printed_after, "map with γ²"),
    ("cubed_matrix", lambda r: 1.1 * r.cubed_matrix, "which suffices"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_seeds": 0}, "num_seeds must be .* at least 1, got 0"),
        ({"nonlinearities": (1e-2, 1e-3)}, "nonlinearities must be .* increasing, each positive"),
        ({"ratio": 1.0}, "ratio must be between 2 and 4, got 1.0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
