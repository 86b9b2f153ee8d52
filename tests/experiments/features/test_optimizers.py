import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features import optimizers as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_alignment_that_grows_with_the_test_loss_is_refuted(smoke, verdict):
    """Corrupted: alignment and misalignment with the opposite order."""
    wrong = smoke._replace(alignment=-smoke.alignment, misalignment=-smoke.misalignment)
    for words in ("ranked oppositely, seed by seed", "Means over seeds", "nearly on a line"):
        assert verdict(words, wrong) == Verdict.REFUTED
    assert verdict("that do not matter", wrong) == Verdict.REFUTED


def test_optimisers_that_do_not_differ_or_do_not_fit_are_refuted(smoke, verdict):
    assert verdict("10 % below", smoke._replace(test=np.ones_like(smoke.test))) == Verdict.REFUTED
    unfitted = smoke._replace(reached=np.zeros_like(smoke.reached))
    assert verdict("Most runs", unfitted) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"learning_rates": (1.0,)}, "learning_rates must be 7 positive numbers"),
        ({"batch_size": 601}, r"batch_size must be in \[1, 600\], got 601"),
        ({"dimension": 5}, "dimension must be at least 10, got 5"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
