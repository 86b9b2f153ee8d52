import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import kernel_update as experiment


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("predicted_residual", lambda r: 1.1 * r.residual, "Residuals of a quadratic"),
    ("linear_residual", lambda r: r.residual, "Without ½η²GJᵀ"),
    ("predicted_kernel", lambda r: r.printed_kernel, "−η(GJᵀ + JGᵀ)"),
    ("first_order", lambda r: r.second_order, "square of the distance"),
    ("bend", lambda r: r.bend / 2, "the quadratic term"),
    ("second_order", lambda r: r.first_order, "cube of the distance"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) == Verdict.REFUTED


def test_the_printed_kernel_could_be_supported(smoke, verdict):
    right = smoke._replace(kernel=smoke.printed_kernel)
    assert verdict("−¼η(4GJᵀ − ηGGᵀ)", right) == Verdict.SUPPORTED


def test_bad_configs_are_refused():
    with pytest.raises(ValueError, match=r"num_seeds must be .* at least 1, got 0"):
        experiment.Config(num_seeds=0)
