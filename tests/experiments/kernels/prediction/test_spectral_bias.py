"""The experiment on spectral bias: verdicts, claims that can fail, bad configs."""

import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.prediction import spectral_bias as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Times that are all the same, or all twice as long; odd waves that are learned."""
    even = smoke._replace(half_times=np.ones_like(smoke.half_times))
    assert verdict("proportional to 1/λ", even) == Verdict.REFUTED
    assert verdict("Strong components", even) != Verdict.SUPPORTED
    slow = smoke._replace(half_times=2 * smoke.half_times)
    assert verdict("factor is log 2", slow) == Verdict.REFUTED
    fitted = smoke._replace(unbiased=np.ones_like(smoke.unbiased))
    assert verdict("Without biases", fitted) == Verdict.REFUTED


def test_half_time_of_an_exponential_is_its_own():
    """Oracle: 1 − qᵗ reaches a half at t = log ½/log q; what never gets there has none."""
    steps, q = np.arange(40.0), 0.93
    found = experiment._half_time(jnp.asarray(1 - q**steps))
    assert float(found) == pytest.approx(np.log(0.5) / np.log(q), rel=1e-12)
    assert np.isnan(experiment._half_time(jnp.zeros(5)))


def test_figure_has_two_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "width must be a whole number, at least 1, got 0"),
        ({"num_modes": 17}, "num_modes must be a whole number, from 3 to 16, got 17"),
    ],
)
def test_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
