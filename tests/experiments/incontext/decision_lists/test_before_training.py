import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.decision_lists import before_training as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("The first loss is at most", lambda r: {"loss": 2 * r.loss}),
        ("The first loss is log", lambda r: {"closed_form": 1.1 * r.closed_form}),
        ("The first loss is log", lambda r: {"mild_loss": 0 * r.mild_loss + r.loss[:, None]}),
        ("Noise of ε/2", lambda r: {"noisy_loss": r.noisy_loss + 11}),
        ("c is above", lambda r: {"scale": 0 * r.scale}),
        ("At the start", lambda r: {"classified": r.classified + 0.1}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": 12}, "size and length must be below the number of tokens"),
        ({"epsilons": (100.0,)}, "epsilons must be at most 16 length"),
        ({"num_tokens": 39, "size": 9}, "at most 20000 sets"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
