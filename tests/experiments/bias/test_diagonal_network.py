"""The diagonal network's experiment: verdicts of a small run, and that each of them can change."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.bias import diagonal_network as experiment
from theorylab.lab.conduct import precision

SMOKE = experiment.PRESETS["smoke"]
STATEMENTS = [claim.statement for claim in experiment.CLAIMS]


def test_all_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_run_full_of_nan_supports_nothing(smoke, verdict, statement):
    measured = {name: field for name, field in smoke._asdict().items() if name != "teacher"}
    broken = smoke._replace(**{k: np.full_like(v, np.nan) for k, v in measured.items()})
    assert verdict(statement, broken) == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("end", lambda r: r.end + 1e-6),
        ("end", lambda r: r.end[:, ::-1]),  # dense at small scales, sparse at large ones
        ("end", lambda r: np.repeat(r.least_l2[:, None], len(SMOKE.alphas), axis=1)),
        ("plus", lambda r: r.plus * (1 + 1e-5)),
        ("mirrored", lambda r: r.mirrored + 1e-4),
        ("curvatures", lambda r: 1.001 * r.curvatures),
        ("opposite_minus", lambda r: -r.opposite_minus),
        ("opposite_plus", lambda r: 2 * r.opposite_plus),
        ("same_weight_speeds", lambda r: np.array([4.0, 4.0])),
    ],
)
def test_a_wrong_measurement_changes_a_verdict(smoke, verdict, field, change):
    wrong = smoke._replace(**{field: change(smoke)})
    expected = [claim.expected for claim in experiment.CLAIMS]
    assert [verdict(statement, wrong) for statement in STATEMENTS] != expected


def test_the_same_config_gives_the_same_numbers(smoke):
    with precision(experiment.PRECISION):
        again = experiment.run(SMOKE)
    for one, other in zip(smoke, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_seed_is_another_problem_with_the_same_teacher(smoke):
    assert len({np.asarray(weights).tobytes() for weights in smoke.least_l2}) == 6
    assert smoke.teacher.tolist() == [1.0] + [0.0] * 11


def test_the_figure_draws_everything(smoke):
    norms, path = experiment.plot(smoke, SMOKE).axes
    assert len(norms.get_lines()) == 3
    assert len(path.get_lines()) == 2 * 12  # every weight, by both flows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_samples": 30}, "num_samples must be below dimension = 30, got 30"),
        ({"num_samples": 0}, "num_samples must be a whole number, at least 1, got 0"),
        ({"sparsity": 31}, "sparsity must be at most dimension = 30, got 31"),
        ({"alphas": (1.0,)}, "alphas must be two or more and decrease"),
        ({"alphas": (0.1, 1.0)}, "alphas must be two or more and decrease"),
        ({"alphas": (1.0, -1.0)}, "alphas must be finite numbers, one or more, each positive"),
        ({"alphas": (1.0, float("nan"))}, "alphas must be finite numbers"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1, got 0"),
    ],
)
def test_a_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
