import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.looped import learned_weights as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("errs no more than descent", lambda r: {"errors": 9 * r.errors}),
        ("angle of Q", lambda r: {"end": r.start}),
        ("angle of P", lambda r: {"end": r.start}),
        ("In the end Q", lambda r: {"end": r.end._replace(query_key=r.end.query_key + 1)}),
        ("In the end Q", lambda r: {"end": r.end._replace(projection=r.end.projection + 1)}),
        ("at most three quarters", lambda r: {"errors": 9 * r.errors}),
        (
            "learned P is nearer",
            lambda r: {"end": r.end._replace(projection=r.end.projection[::-1])},
        ),
        ("It is training", lambda r: {"end": r.end._replace(projection=r.end.projection[::-1])}),
        ("its error is at least", lambda r: {"untrained": r.errors}),
        ("Before training P", lambda r: {"start": r.end}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


def test_the_error_of_descent_is_that_of_the_spectrum(smoke):
    """Oracle: (1 − ηλ)^{2T} over eigenvalues λ of XᵀX, in NumPy at every rate; four errors."""
    config = experiment.PRESETS["smoke"]
    x = np.random.default_rng(0).normal(size=(4000, config.num_examples, config.dimension))
    values = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x)
    fractions = np.arange(1, experiment.NUM_RATES + 1) / experiment.NUM_RATES
    rates = 2 / config.num_examples * fractions
    left = (1 - rates[:, None, None] * values) ** (2 * config.num_loops)
    assert smoke.descent[0] == pytest.approx(left.mean(axis=(1, 2)).min(), rel=0.3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimension": 0}, "dimension must be a whole number, from 1 to 32, got 0"),
        ({"num_loops": 0}, "num_loops must be a whole number, from 1 to 100, got 0"),
        ({"ratio": 1.0}, "ratio must be a finite number, above 1, got 1.0"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number, positive"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
