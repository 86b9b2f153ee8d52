"""The diagonal network's experiment: verdicts of a small run, and that each of them can change."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.bias import diagonal_network
from theorylab.lab.conduct import precision

CLAIMS = {claim.statement: claim for claim in diagonal_network.CLAIMS}

experiment = diagonal_network


@pytest.fixture(scope="module")
def result(smoke):
    return smoke


def verdicts(result):
    return [claim.judge(result, experiment.PRESETS["smoke"]).verdict for claim in CLAIMS.values()]


@pytest.mark.parametrize("statement", CLAIMS)
def test_the_verdict_is_as_expected(result, statement):
    claim = CLAIMS[statement]
    assert claim.judge(result, experiment.PRESETS["smoke"]).verdict == claim.expected


@pytest.mark.parametrize("statement", CLAIMS)
def test_a_run_full_of_nan_supports_nothing(result, statement):
    chosen = ("alphas", "times", "teacher", "step_ratios")  # not measured
    measured = {name: field for name, field in result._asdict().items() if name not in chosen}
    broken = result._replace(**{k: np.full_like(v, np.nan) for k, v in measured.items()})
    assert (
        CLAIMS[statement].judge(broken, experiment.PRESETS["smoke"]).verdict == Verdict.INCONCLUSIVE
    )


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("end", lambda r: r.end + 1e-6),
        ("end", lambda r: r.end[:, ::-1]),  # dense at small scales, sparse at large ones
        ("end", lambda r: np.repeat(r.least_l2[:, None], len(r.alphas), axis=1)),
        ("plus", lambda r: r.plus * (1 + 1e-5)),
        ("mirrored", lambda r: r.mirrored + 1e-4),
        ("opposite_minus", lambda r: -r.opposite_minus),
        ("opposite_plus", lambda r: 2 * r.opposite_plus),
        ("same_weight_speeds", lambda r: np.array([4.0, 4.0])),
        ("step_error", lambda r: 1e-3 * r.step_error),
        ("step_error", lambda r: r.step_error[:, ::-1]),
        ("linear_end", lambda r: r.least_l1),
    ],
)
def test_a_wrong_measurement_changes_a_verdict(result, field, change):
    expected = [claim.expected for claim in CLAIMS.values()]
    assert verdicts(result._replace(**{field: change(result)})) != expected


def test_the_same_config_gives_the_same_numbers(result):
    with precision(diagonal_network.PRECISION):
        again = diagonal_network.run(diagonal_network.PRESETS["smoke"])
    for one, other in zip(result, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_seed_is_another_problem_with_the_same_teacher(result):
    assert len({weights.tobytes() for weights in result.least_l2}) == 6
    assert result.teacher.tolist() == [1.0] + [0.0] * 11


def test_the_figure_draws_everything(result):
    norms, path, steps = diagonal_network.plot(result, experiment.PRESETS["smoke"]).axes
    assert len(norms.get_lines()) == 3
    assert len(path.get_lines()) == 2 * 12  # every weight, by both flows
    assert len(steps.get_lines()) == 6 + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_samples": 30}, r"num_samples must be in \[1, dimension = 30\), got 30"),
        ({"num_samples": 0}, r"num_samples must be in \[1, dimension = 30\), got 0"),
        ({"sparsity": 31}, r"sparsity must be in \[1, dimension = 30\], got 31"),
        ({"alphas": (1.0,)}, "alphas must fall"),
        ({"alphas": (0.1, 1.0)}, "alphas must fall"),
        ({"alphas": (1.0, -1.0)}, "alphas must fall"),
        ({"alphas": (1.0, float("nan"))}, "alphas must fall"),
        ({"step_ratios": (2.0, 1.0)}, "step_ratios must fall, from 1 at most"),
        ({"step_alpha": 0.0}, r"step_alpha must be in \[0.1, 10\], got 0.0"),
        ({"num_seeds": 0}, "num_seeds must be at least 1, got 0"),
    ],
)
def test_a_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        diagonal_network.Config(**change)
