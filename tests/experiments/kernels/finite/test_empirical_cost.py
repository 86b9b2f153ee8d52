"""The experiment on the cost of finite kernels: verdicts, claims that can fail, bad configs."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.finite import empirical_cost as experiment
from theorylab.kernels import ntk_full

TINY = experiment.Config(
    widths=(2, 3), outputs=(1, 2), depth=2, num_positions=4, num_samples=2, num_seeds=2
)


def test_smoke_run_has_the_expected_verdicts(smoke, surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    """Kernels that differ, a model that is off, a bad choice, positions that do not matter."""
    assert verdict("same kernel", smoke._replace(difference=smoke.difference + 1e-3)) == (
        Verdict.REFUTED
    )
    off = smoke._replace(modelled_crossover=4 * smoke.counted_crossover)
    assert verdict("within a factor of 3", off) == Verdict.REFUTED
    alike = smoke._replace(counted_crossover=np.repeat(smoke.counted_crossover[:1], 2, axis=0))
    assert verdict("with one C", alike) == Verdict.REFUTED
    assert verdict("need more outputs to pay", alike) == Verdict.REFUTED
    dearest = smoke._replace(chosen=smoke.counted.max(axis=-1))
    assert verdict("at most 1.5 times the cheapest", dearest) == Verdict.REFUTED
    none = smoke._replace(counted_crossover=np.full_like(smoke.counted_crossover, np.nan))
    assert verdict("within a factor of 3", none) == Verdict.INCONCLUSIVE
    swapped = smoke._replace(counted=smoke.counted[..., ::-1])
    assert verdict("always cost less than Jacobians", swapped) == Verdict.REFUTED


def test_crossovers_are_where_two_power_laws_meet():
    """Oracle: k² = 6k at k = 6; where one method always wins there is none."""
    k = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    counts = np.stack([k**2, 6 * k, k], axis=-1)
    assert experiment._crossover((1, 2, 4, 8, 16), counts) == pytest.approx(6.0)
    assert np.isnan(experiment._crossover((1, 2, 4, 8, 16), counts[:, [1, 0, 2]]))


def test_the_program_has_the_operations_that_are_compiled():
    """Oracle: the count after all of the compiler's work, at one point of the grid."""
    counted, _, _, _ = experiment._counts(experiment.PRESETS["smoke"], False, 16, 8)
    model = experiment._network(experiment.PRESETS["smoke"], False, 16, 8)
    params = jax.eval_shape(model.init, jax.random.key(0))
    x = jax.ShapeDtypeStruct((4, 8), jnp.result_type(float))
    for method, count in zip(experiment.METHODS, counted, strict=True):
        kernel = partial(ntk_full, model.apply, method=method, block_size=4)
        analysis = jax.jit(kernel).lower(params, x, x).compile().cost_analysis()
        assert analysis is not None
        assert count == pytest.approx(analysis["flops"] / 2, rel=0.1)


def test_figure_has_three_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 3
    assert experiment.memory(TINY) < experiment.memory(experiment.Config())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("widths", (8,), "widths must be whole numbers, two or more and increasing"),
        ("outputs", (4, 1), "outputs must be whole numbers, two or more and increasing"),
        ("outputs", (1, 256), "must be at most 256, so that nothing is done in blocks"),
        ("num_positions", 3, "num_positions must be a whole number, at least 4, got 3"),
        ("num_seeds", 0, "num_seeds must be a whole number, at least 1, got 0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
