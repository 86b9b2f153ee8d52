import dataclasses

import jax
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.applications import matrix_completion as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    errors = smoke.errors

    def judged(words, **fields):
        return verdict(words, smoke._replace(errors=errors._replace(**fields)))

    assert judged("than soft-impute alone", joint=errors.blind) == Verdict.REFUTED
    assert judged("at most 0.97", joint=errors.blind) == Verdict.REFUTED
    assert judged("smaller still", ideal=errors.blind) == Verdict.REFUTED
    assert judged("say nothing", blind=errors.joint) == Verdict.REFUTED
    coupled = smoke._replace(by_rows=smoke.by_rows + 1e-6)
    assert verdict("Rows on their own", coupled) == Verdict.REFUTED


def test_figure_has_two_panels(smoke):
    assert len(experiment.plot(smoke, experiment.PRESETS["smoke"]).axes) == 2


def test_every_part_of_the_matrix_is_what_it_says():
    matrix = experiment._matrix(jax.random.key(0), experiment.Config(noise=0.0))
    assert np.linalg.matrix_rank(matrix.truth) == 3
    np.testing.assert_array_equal(matrix.seen, matrix.truth)
    assert not np.any(matrix.kept & ~matrix.observed)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("rank", 31, "rank must be at most rows and columns, got 31"),
        ("share", 1.0, "share must be a finite number, between 0 and 1, got 1.0"),
        ("noise", -1.0, "noise must be a finite number, at least 0, got -1.0"),
        ("ridge", 0.0, "ridge must be a finite number, positive, got 0.0"),
        ("num_trials", 0, "num_trials must be a whole number, at least 1, got 0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(experiment.Config(), **{field: value})
