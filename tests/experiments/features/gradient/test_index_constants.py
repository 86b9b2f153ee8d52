import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.gradient import index_constants as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("With C_l = 1", "largest", lambda v: 0 * v + 1.1),
        ("With C_l = 0.02", "largest", lambda v: 0 * v + 1e-6),
        ("One C_l serves", "largest", lambda v: v * np.array([1.0, 4.0])[:, None]),
        ("O(m)-smooth", "smoothness", lambda v: v * np.array([1.0, 9.0])[:, None]),
        ("proof's bound on L", "smoothness_bound", lambda v: v / 9),
        ("1 for each of the 4m", "smoothness_bound", lambda v: 3 * v),
        ("theorem's first step end above", "loss", lambda v: 0 * v),
        ("to length one", "unit_loss", lambda v: 0 * v + 1),
        ("more than 10²⁰", "least_width", lambda v: 1e19),
        ("last term", "complexity", lambda v: 0 * v + 0.5),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    broken = smoke._replace(**{field: change(np.asarray(getattr(smoke, field)))})
    assert verdict(words, broken) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimensions": (2, 4)}, "dimensions must be at least 4"),
        ({"ratio": 1e9}, "at most 10⁷ samples"),
        ({"accuracy": 1.0}, "accuracy must be a finite number, between 0 and 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
