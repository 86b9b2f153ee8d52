"""The experiment on spectral bias: verdicts, claims that can fail, bad configs."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.prediction import spectral_bias as experiment

TINY = experiment.Config(num_degrees=16, width=16, num_modes=2, num_seeds=2)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Spectra of the other sphere, odd modes that are there, times that are all the same."""
    exchanged = smoke._replace(circle=smoke.ball, ball=smoke.circle)
    assert verdict("fall as k⁻².", exchanged) == Verdict.REFUTED
    assert verdict("fall as k⁻³.", exchanged) == Verdict.REFUTED
    exchanged = smoke._replace(shallow=smoke.shallow_biased, shallow_biased=smoke.shallow)
    assert verdict("no eigenvalue of odd degree", exchanged) == Verdict.REFUTED
    assert verdict("With biases", exchanged) == Verdict.REFUTED
    even = smoke._replace(half_times=np.ones_like(smoke.half_times))
    assert verdict("proportional to 1/λ", even) == Verdict.REFUTED
    assert verdict("factor is log 2", even) == Verdict.REFUTED
    assert verdict("are mλ", smoke._replace(gram=2 * smoke.gram)) == Verdict.REFUTED
    assert verdict("sums over the arc", smoke._replace(series=smoke.series / 2)) == Verdict.REFUTED
    unmoved = np.roll(smoke.shifted, 1)
    assert verdict("to kb, and leaves no other", smoke._replace(shifted=unmoved)) == Verdict.REFUTED
    assert verdict("does not change", smoke._replace(moved=smoke.moved_plain)) == Verdict.REFUTED
    wrong = smoke._replace(corrected_series=smoke.printed_series)
    assert verdict("series in cos 2πkb", wrong) == Verdict.REFUTED


def test_half_time_of_an_exponential_is_its_own():
    """Oracle: 1 − qᵗ reaches a half at t = log ½/log q; what never gets there has none."""
    steps, q = np.arange(40.0), 0.93
    found = experiment._half_time(jnp.asarray(1 - q**steps))
    assert float(found) == pytest.approx(np.log(0.5) / np.log(q), rel=1e-12)
    assert np.isnan(experiment._half_time(jnp.zeros(5)))


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("width", 0, "width must be a whole number, at least 1, got 0"),
        ("num_degrees", 9, "num_degrees must be a whole number, from 16 to 511, got 9"),
        ("num_modes", 17, "num_modes must be a whole number, from 1 to 16, got 17"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
