"""The experiment on discrete steps: its verdicts, and that each of them can change."""

import pytest

from theorylab.bias import least_l1
from theorylab.claims import Verdict
from theorylab.experiments.bias import discrete_steps as experiment
from theorylab.experiments.bias._equations import draw_equations, pairs


def test_all_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("in proportion", "step_error", lambda r: r.step_error[:, ::-1]),
        ("visibly elsewhere", "step_error", lambda r: 1e-3 * r.step_error),
        ("within 2 %", "step_error", lambda r: r.step_error + 0.1),
        ("visibly elsewhere", "step_residual", lambda r: r.step_error),
        ("Without the network", "linear_end", lambda r: 1.1 * r.linear_end),
    ],
)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, words, field, change):
    wrong = smoke._replace(**{field: change(smoke)})
    assert verdict(words, wrong) != Verdict.SUPPORTED


def test_descent_on_the_weights_does_not_find_the_sparse_solution(smoke, verdict):
    _, data = draw_equations(experiment.PRESETS["smoke"])
    (x, y), *_ = pairs(data)
    sparse = smoke.linear_end.copy()
    sparse[0] = least_l1(x, y)
    assert verdict("Without the network", smoke._replace(linear_end=sparse)) == Verdict.REFUTED


def test_the_figure_draws_every_seed(smoke):
    (axis,) = experiment.plot(smoke, experiment.PRESETS["smoke"]).axes
    assert len(axis.get_lines()) == 6 + 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step_ratios": (2.0, 1.0)}, "step_ratios must be two or more and decrease, from 1"),
        ({"scale": 0.05}, r"scale must be a finite number, from 0.1 to 10, got 0.05"),
        ({"num_steps": 0}, "num_steps must be a whole number, at least 1, got 0"),
    ],
)
def test_a_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
