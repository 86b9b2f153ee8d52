"""The bounds and their errata: the verdicts of a small run, and that each of them can change."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.generalization import concentration

CLAIMS = {claim.statement: claim for claim in concentration.CLAIMS}

experiment = concentration


@pytest.fixture(scope="module")
def result(smoke):
    return smoke


@pytest.mark.parametrize("statement", CLAIMS)
def test_the_verdict_is_as_expected(result, statement):
    claim = CLAIMS[statement]
    assert claim.judge(result, experiment.PRESETS["smoke"]).verdict == claim.expected


@pytest.mark.parametrize("statement", CLAIMS)
def test_a_run_full_of_nan_supports_nothing(result, statement):
    chosen = ("delta", "fraction", "t", "sigmas")  # not measured
    measured = {name: field for name, field in result._asdict().items() if name not in chosen}
    broken = result._replace(**{k: np.full_like(v, np.nan) for k, v in measured.items()})
    assert CLAIMS[statement].judge(broken, experiment.PRESETS["smoke"]).verdict != Verdict.SUPPORTED


@pytest.mark.parametrize(
    "field",
    ["markov", "chebyshev", "chernoff_far", "chernoff_below", "hoeffding"],
)
def test_a_bound_that_is_too_low_is_refuted(result, field):
    """Oracle: a bound lowered by a factor e³ is below the exact tail somewhere."""
    lowered = result._replace(**{field: getattr(result, field) - 3})
    before = [claim.judge(result, experiment.PRESETS["smoke"]).verdict for claim in CLAIMS.values()]
    after = [claim.judge(lowered, experiment.PRESETS["smoke"]).verdict for claim in CLAIMS.values()]
    assert (Verdict.SUPPORTED, Verdict.REFUTED) in set(zip(before, after, strict=True))


def test_loose_bounds_fail_the_control(smoke, verdict):
    loose = smoke._replace(hoeffding=smoke.hoeffding + 3.5)
    assert verdict("divided by e³", loose) == Verdict.REFUTED
    # Half of an exponent is loose, too, though the bound is near the tail where both are near 1.
    for name in ("chernoff", "chernoff_far", "chernoff_below"):
        weak = smoke._replace(**{name: getattr(smoke, name) / 2})
        assert verdict("divided by e³", weak) == Verdict.REFUTED
    far = smoke._replace(clt_distance=1.1 * smoke.clt_distance)
    assert verdict("half an atom", far) == Verdict.REFUTED


def test_the_printed_numbers_of_the_errata(result):
    """Oracle: numbers computed by hand for δ = 5, t = 1.5σ and ε = 0.1."""
    last = result.delta == 5.0
    np.testing.assert_allclose(np.exp(result.above[last]), 5.8e-27, rtol=0.02)
    np.testing.assert_allclose(np.exp(result.chernoff[last]), 6.4e-37, rtol=0.02)
    half = np.isclose(result.sigmas, 1.5)
    np.testing.assert_allclose(result.within[half], 0.866, atol=5e-4)
    np.testing.assert_allclose(result.anti_low[half], 1.0)
    ten = result.t == 10.0
    np.testing.assert_allclose(np.exp(result.signs[ten]), 0.3682, atol=5e-5)
    np.testing.assert_allclose(np.exp(result.shorthand[ten]), 0.3679, atol=5e-5)


def test_the_figure_draws_everything(result):
    assert len(concentration.plot(result, experiment.PRESETS["smoke"]).axes) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_signs": 0}, "num_signs must be a whole number, at least 1, got 0"),
        ({"probability": 0.7}, r"probability must be .*from 0 to 0\.5, got 0\.7"),
        ({"largest_delta": 0.5}, "largest_delta must be between 1 and 1/probability"),
        ({"probability": 0.0}, "probability must be a finite number, positive"),
    ],
)
def test_a_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        concentration.Config(**change)
