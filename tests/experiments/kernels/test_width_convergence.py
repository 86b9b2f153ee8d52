"""The experiment on tangent kernels and width: verdicts, controls that can fail, bad configs."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels import width_convergence as experiment
from theorylab.kernels import infinite_kernels
from theorylab.lab.conduct import as_numpy
from theorylab.progress import listening

TINY = experiment.Config(
    widths=(8, 16), depth=3, num_samples=3, num_steps=2, num_seeds=2, num_draws=2
)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_same_config_same_bytes():
    stages = []
    with listening(lambda what, done: stages.append(done)):
        first = experiment.run(TINY)
    second = experiment.run(TINY)
    for one, other in zip(*map(jax.tree.leaves, (first, second)), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert stages == sorted(stages)
    other = experiment.run(dataclasses.replace(TINY, seed=1))
    assert not np.array_equal(first.errors.relu, other.errors.relu)


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """A network that is lazy in both parametrizations, errors that stay, a run that broke."""
    errors, training = smoke.errors, smoke.training
    lazy = smoke._replace(training=training._replace(mup_movement=training.ntk_movement))
    assert verdict("in μP it moves", lazy) == Verdict.REFUTED
    assert verdict("in the mean-field parametrization it moves", lazy) == Verdict.REFUTED
    assert verdict("five times as much", lazy) == Verdict.REFUTED
    rich = smoke._replace(training=training._replace(ntk_movement=training.mup_movement))
    assert verdict("moves the kernel by O(1/m)", rich) == Verdict.REFUTED
    stays = smoke._replace(errors=errors._replace(erf=errors.wrong))
    assert verdict("error of erf networks", stays) == Verdict.REFUTED
    falls = smoke._replace(errors=errors._replace(wrong=errors.erf))
    assert verdict("Against the limit of another activation", falls) == Verdict.REFUTED
    broken = errors.erf.copy()
    broken[0, 0] = np.nan
    unknown = smoke._replace(errors=errors._replace(erf=broken))
    assert verdict("error of erf networks", unknown) == Verdict.INCONCLUSIVE


@pytest.mark.parametrize("place", [0, -1])
def test_a_limit_that_is_wrong_at_one_depth_is_refuted(smoke, verdict, place):
    """The slope hides a limit that is a few percent off; the projection at the end does not."""
    errors = smoke.errors
    off = errors.relu_projection.copy()
    off[..., place] *= 1.05
    wrong = smoke._replace(errors=errors._replace(relu_projection=off, erf_projection=off))
    assert verdict("random ReLU networks of every depth", wrong) == Verdict.REFUTED
    assert verdict("random erf networks of every depth", wrong) == Verdict.REFUTED


def test_a_wrong_arc_cosine_is_seen(monkeypatch):
    """Planted: 10 % too much of every entry off the diagonal, as of a wrong √(1 − λ²)."""
    true = infinite_kernels

    def wrong(*given, **options):
        kernels = true(*given, **options)
        diagonal = jnp.diag(jnp.diagonal(kernels.ntk))
        return kernels.replace(ntk=1.1 * kernels.ntk - 0.1 * diagonal)

    config = dataclasses.replace(TINY, widths=(64, 500), num_seeds=30, num_draws=8)
    monkeypatch.setattr(experiment, "infinite_kernels", wrong)
    errors = as_numpy(experiment.run(config)).errors
    assert experiment._limit_means(errors.relu_projection).verdict is Verdict.REFUTED


def test_figure_has_two_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("depth", 2, "depth must be a whole number, at least 3, got 2"),
        ("num_draws", 0, "num_draws must be a whole number, at least 1, got 0"),
        ("num_samples", 1, "num_samples must be a whole number, at least 2, got 1"),
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
