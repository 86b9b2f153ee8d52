"""The experiment on tangent kernels and width: verdicts, controls that can fail, bad configs."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels import width_convergence as experiment
from theorylab.kernels import relative_frobenius
from theorylab.progress import listening

TINY = experiment.Config(widths=(8, 16), num_samples=3, num_steps=2, num_seeds=2, num_draws=2)


def test_smoke_run_has_the_expected_verdicts(smoke):
    verdicts = {
        claim.statement: claim.judge(smoke, experiment.PRESETS["smoke"]).verdict
        for claim in experiment.CLAIMS
    }
    assert verdicts == {claim.statement: claim.expected for claim in experiment.CLAIMS}


def test_every_field_of_the_result_is_finite(smoke):
    for name, values in smoke._asdict().items():
        assert np.isfinite(values).all(), name


def test_same_config_same_bytes():
    stages = []
    with listening(lambda what, done: stages.append(done)):
        first = experiment.run(TINY)
    second = experiment.run(TINY)
    for one, other in zip(first, second, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert stages == sorted(stages)
    other = experiment.run(dataclasses.replace(TINY, seed=1))
    assert not np.array_equal(first.relu_error, other.relu_error)


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """A network that is lazy in both parametrizations, errors that stay, a run that broke."""
    lazy = smoke._replace(mup_movement=smoke.ntk_movement)
    assert verdict("In μP the kernel moves", lazy) == Verdict.REFUTED
    rich = smoke._replace(ntk_movement=smoke.mup_movement)
    assert verdict("in inverse proportion to the width", rich) == Verdict.REFUTED
    stays = smoke._replace(erf_error=smoke.wrong_error)
    assert verdict("So does that of erf networks", stays) == Verdict.REFUTED
    falls = smoke._replace(wrong_error=smoke.erf_error)
    assert verdict("Against the limit of another activation", falls) == Verdict.REFUTED
    broken = smoke.erf_error.copy()
    broken[0, 0] = np.nan
    inconclusive = verdict("So does that of erf networks", smoke._replace(erf_error=broken))
    assert inconclusive == Verdict.INCONCLUSIVE


def test_first_layer_errors_are_those_of_the_explicit_sum():
    """Oracle: H = xᵀx′ (1/m) Σᵣ 1[wᵣᵀx > 0] 1[wᵣᵀx′ > 0], summed by NumPy from the same draws."""
    x = jax.random.normal(jax.random.key(0), (4, 3))
    key = jax.random.key(1)
    _, corrected = experiment._first_layers(x, key[None], (5, 9), 3)

    units = np.asarray(x / jnp.linalg.norm(x, axis=1, keepdims=True))
    cosines = units @ units.T
    limit = cosines * (np.pi - np.arccos(np.clip(cosines, -1, 1))) / (2 * np.pi)
    squares = []
    for draw in jax.random.split(key, 3):
        weights = np.asarray(jax.random.normal(jax.random.split(draw)[0], (9, 3), x.dtype))
        active = (units @ weights[:5].T > 0).astype(float)
        kernel = jnp.asarray(cosines * (active @ active.T) / 5)
        squares.append(float(relative_frobenius(kernel, jnp.asarray(limit))) ** 2)
    assert corrected[0, 0] == pytest.approx(math.sqrt(np.mean(squares)), rel=1e-6)


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3


def test_memory_grows_with_the_square_of_the_width():
    small, large = (
        experiment.memory(dataclasses.replace(TINY, widths=(8, width))) for width in (2000, 4000)
    )
    assert 3.5 < large / small < 4.1


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("depth", 1, "depth must be a whole number, at least 2, got 1"),
        ("num_draws", 0, "num_draws must be a whole number, at least 1, got 0"),
        ("num_samples", -1, "num_samples must be a whole number, at least 1, got -1"),
        ("widths", (64,), "widths must be whole numbers, two or more and increasing"),
        ("widths", (), "widths must be whole numbers, two or more and increasing"),
        ("widths", (0, 64), "widths must be whole numbers, two or more and increasing"),
        ("widths", (128, 64), "widths must be whole numbers, two or more and increasing"),
        ("learning_rate", 1.5, "learning_rate must be a finite number, between 0 and 1, got 1.5"),
        (
            "learning_rate",
            math.nan,
            "learning_rate must be a finite number, between 0 and 1, got nan",
        ),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
