import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import equilibria as experiment


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("inside", lambda r: r.outside, "is stable"),
    ("inside", lambda r: r.outside + 1, "goes to 0"),
    ("outside", lambda r: r.inside, "it is not stable"),
    ("after_two", lambda r: r.rest, "moves v by 8w"),
    ("rest", lambda r: r.rest / 2, "It is 4C²/m"),
    ("jacobians", lambda r: r.jacobians[:, ::-1] + 0 * r.jacobians, "the square of their modulus"),
    ("jacobians", lambda r: 0.9 * r.jacobians, "would be unstable"),
    ("idle_jacobians", lambda r: 0.9 * r.idle_jacobians, "So is the point with v = u + w"),
    ("idle_jacobians", lambda r: (1 + 1e-6) * r.idle_jacobians, "That point is g = λ = 0"),
    ("idle", lambda r: 1.01 * r.idle, "That point is g = λ = 0"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) == Verdict.REFUTED


def test_the_printed_interval_could_be_supported(smoke, verdict):
    right = smoke._replace(rest=0.4 * smoke.rest)
    assert verdict("between 4/3 and 2", right) == Verdict.SUPPORTED


def test_the_iterated_point_solves_both_equations(smoke):
    """Oracle: the equations themselves."""
    u, v, w = smoke.rest.T
    np.testing.assert_allclose(v, 2 + u + w, rtol=1e-12)
    np.testing.assert_allclose(u * (4 - v), -4 * w, rtol=1e-9)


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match="num_steps must be a whole number, at least 1, got 0"):
        experiment.Config(num_steps=0)
