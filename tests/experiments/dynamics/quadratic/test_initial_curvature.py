import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import initial_curvature as experiment


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("normal_curvatures", lambda r: 2 * r.normal_curvatures, "in 99 of 100"),
    ("curvatures", lambda r: 1.1 * r.curvatures, "Its mean"),
    ("curvatures", lambda r: r.normal_curvatures, "√(2/m)"),
    ("normal_curvatures", lambda r: r.curvatures, "√(3/m)"),
    ("normal_curvatures", lambda r: 1 + 0.01 * r.curvatures, "ten times narrower"),
    ("narrow_curvatures", lambda r: r.curvatures, "Width is needed"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) == Verdict.REFUTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match=r"width must be .* at least 1, got 0"):
        experiment.Config(width=0)
    with pytest.raises(ValueError, match=r"num_networks must be .* at least 30, got 3"):
        experiment.Config(num_networks=3)
