"""The experiment on features of kernels: its verdicts, and that each of them can change."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.solvers import feature_maps as experiment


def test_all_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("Explicit quadratic features", "features", lambda r: 1.01 * r.features),
        ("eleven features", "power_rank", lambda r: r.power_rank + 1),
        ("full rank", "laplace_rank", lambda r: r.power_rank),
        ("positive semi-definite", "lowest", lambda r: r.lowest - 1e-6),
        ("have negative eigenvalues", "wrong_lowest", lambda r: r.lowest[:, 3]),
    ],
)
def test_a_wrong_gram_matrix_is_not_supported(smoke, verdict, words, field, change):
    wrong = smoke._replace(grams=smoke.grams._replace(**{field: change(smoke.grams)}))
    assert verdict(words, wrong) != Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("the rest of the series", "truncation_error", lambda r: 1.1 * r.truncation_error),
        ("Every further order", "truncation_error", lambda _: np.ones((8, 1)) / np.arange(1, 8)),
        ("are not negative", "coefficients", lambda r: -r.coefficients),
        ("e^(−√(2 − 2xᵀx′))", "laplace", lambda r: 1 / r.laplace),
        ("Taylor coefficient is negative", "wrong_coefficients", lambda r: r.coefficients[1]),
    ],
)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, words, field, change):
    assert verdict(words, smoke._replace(**{field: change(smoke)})) != Verdict.SUPPORTED


def test_what_is_printed_could_be_supported(smoke, verdict):
    printed = smoke._replace(laplace=np.exp(np.sqrt(1 - 2 * smoke.cosines)))
    assert verdict("e^√(1 − 2xᵀx′)", printed) == Verdict.SUPPORTED


def test_the_figure_draws_every_order_and_kernel(smoke):
    truncation, taylor, profiles = experiment.plot(smoke, experiment.PRESETS["smoke"]).axes
    assert len(truncation.get_lines()) == 8 + 1
    assert len(taylor.get_lines()) == len(profiles.get_lines()) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_order": 11}, "max_order must be a whole number, from 2 to 10, got 11"),
        ({"num_points": 21}, "num_points must be a whole number, at least 22, got 21"),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1, got 0"),
    ],
)
def test_a_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
