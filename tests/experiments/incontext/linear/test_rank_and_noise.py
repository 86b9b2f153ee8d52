import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.linear import rank_and_noise as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("within 4 standard errors", "sampled", lambda r: r.sampled + 5 * r.error),
        ("gap formula", "gap", lambda r: 1.001 * r.gap),
        ("After long pre-training", "approximate", lambda r: 1.01 * r.approximate),
        ("every larger rank is worse", "narrow", lambda r: -r.narrow),
        ("More label noise widens", "narrow", lambda r: r.narrow[::-1]),
        ("never grows with the noise", "best", lambda r: r.best[::-1]),
        ("never falls with the number", "best", lambda r: r.best + np.array([[1, 0]])),
        ("There is a trade-off", "best", lambda r: 0 * r.best),
        ("keep the order", "trained", lambda r: r.trained[::-1]),
        ("the large trained model", "quiet", lambda r: r.quiet[::-1]),
        ("With the scale N", "wrong_scale", lambda r: r.sampled),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, field, change):
    assert verdict(words, smoke._replace(**{field: change(smoke)})) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ranks": (1, 9)}, "ranks must be at most the dimension"),
        ({"examples": (16, 8)}, "examples must be whole numbers, two or more and increasing"),
        ({"noises": (0.0,)}, "noises must be finite numbers, two or more and increasing"),
        ({"ratio": 1.0}, "ratio must be a finite number, above 1"),
        ({"pretraining_examples": 0}, "pretraining_examples must be a whole number, at least 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
