import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features import mnist_on_noise as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_the_infinite_kernel_is_solved_in_double_precision(smoke):
    assert smoke.residual.max() < 1e-3


@pytest.mark.parametrize(
    ("words", "field"),
    [("than its own kernel", "network"), ("Infinite width is no cure", "infinite")],
)
def test_what_happens_in_the_noise_decides(smoke, verdict, words, field):
    """A network that keeps nothing, a kernel that keeps all."""
    broken = getattr(smoke, field).copy()
    broken[-1] = 0.1 if field == "network" else broken[0]
    assert verdict(words, smoke._replace(**{field: broken})) == Verdict.REFUTED


def test_widths_and_the_control_can_fail(smoke, verdict):
    fallen = smoke._replace(by_width=smoke.by_width[::-1])
    for words in ("gets better with its width", "nearer to the infinite one"):
        assert verdict(words, fallen) == Verdict.REFUTED
    blind = smoke._replace(infinite=np.full_like(smoke.infinite, 0.5))
    assert verdict("On black", blind) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"levels": ()}, "levels must be positive and increasing"),
        ({"width_factors": (4, 2)}, "width_factors must be positive and increasing"),
        ({"width_factors": (1, 10**9)}, "width_factors must be two or more, up to 1000"),
        ({"num_width_train": 5000}, "num_width_train must be at most 1500"),
        ({"num_kernel_seeds": 7}, "num_kernel_seeds must be at most 6"),
        ({"ridge": 0.0}, "ridge must be positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
