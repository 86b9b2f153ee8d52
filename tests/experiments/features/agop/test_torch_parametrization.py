import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import torch_parametrization as experiment


def changed(result, **fields):
    return result._replace(runs=result.runs._replace(**fields))


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_a_reversed_order_is_refuted(smoke, verdict):
    """Corrupted: the measurements of both batch sizes exchanged."""
    wrong = changed(
        smoke,
        test=smoke.runs.test[:, ::-1],
        alignment=smoke.runs.alignment[:, ::-1],
        num_supercritical=smoke.runs.num_supercritical[:, ::-1],
    )
    for words in ("loss, seed by seed", "better aligned", "more super-critical"):
        assert verdict(words, wrong) == Verdict.REFUTED


def test_an_order_of_rank_3_is_told(smoke, verdict):
    """Corrupted: larger batches with a larger loss."""
    ordered = smoke._replace(other_test=smoke.other_test + np.array([0.0, 0.5])[:, None])
    assert verdict("has no such gain", ordered) == Verdict.REFUTED
    assert verdict("of rank 3, too", ordered) == Verdict.SUPPORTED
    lost = smoke._replace(other_test=smoke.other_test + np.array([0.5, 0.0])[:, None])
    assert verdict("of rank 3, too", lost) == Verdict.REFUTED


def test_a_control_that_catapults_is_refuted(smoke, verdict):
    """Corrupted: the measurements of both learning rates exchanged."""
    wrong = changed(
        smoke, test=smoke.runs.test[::-1], num_supercritical=smoke.runs.num_supercritical[::-1]
    )
    assert verdict("no step is super-critical", wrong) == Verdict.REFUTED
    assert verdict("a third as much", wrong) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch_sizes": (50, 5)}, "batch_sizes must be whole numbers, two or more and increasing"),
        ({"batch_sizes": (5, 10, 50)}, "batch_sizes must be two and increasing"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number, positive, got 0"),
        ({"dimension": 5}, "dimension must be at least 10 for rank 3, got 5"),
        ({"rank": 1}, "rank must be 2, 3 or 4, got 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
