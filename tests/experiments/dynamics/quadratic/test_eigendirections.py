import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import eigendirections as experiment


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("map_error", lambda r: r.map_error + 1e-6, "obey the map of one example"),
    ("reduced_error", lambda r: r.reduced_error + 1e-6, "It does with w"),
    ("rank_error", lambda r: r.rank_error + 1e-3, "rank two"),
    ("losses", lambda r: r.losses * np.arange(1, 1 + r.losses.shape[2])[:, None], "orthogonal to"),
    ("scale", lambda r: 2 * r.scale, "three halves"),
    ("scale", lambda r: 1.2 * r.scale, "three times narrower"),
    ("scale", lambda r: r.scale**0, "a hundred times narrower"),
    ("ratios", lambda r: r.ratios / 3, "Where ‖I − ηK‖ < 1"),
    ("changes", lambda r: 3 * r.changes, "η is smaller"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match=r"num_rates must be .* at least 2, got 1"):
        experiment.Config(num_rates=1)
