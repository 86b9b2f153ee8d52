"""The experiment on the power method: verdicts, and that each of them can change."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import power_method as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("of a loss", "loss_error", 0.1),
        ("not the sharpness", "negative", 3.0),
        ("residual stays", "pair_residual", 1e-6),
        ("Lanczos finds", "lanczos_error", 1e-3),
        ("found twice", "ghosts", 1.0),
    ],
)
def test_a_wrong_measurement_is_refuted(smoke, verdict, words, field, value):
    wrong = smoke._replace(**{field: np.full(8, value)})
    assert verdict(words, wrong) == Verdict.REFUTED


def test_the_refuted_claim_could_be_supported(smoke, verdict):
    converged = smoke._replace(pair_error=smoke.loss_error)
    assert verdict("Hessian with ± pairs |vᵀHv|", converged) == Verdict.SUPPORTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="num_samples must be a whole number, at least 2"):
        experiment.Config(num_samples=1)
