import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.parity import noise as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("Both networks solve", lambda r: {"clean": r.clean - 0.5}),
        ("the pseudo-inverse", lambda r: {"ranks": r.ranks + 1}),
        ("ratio of sampled noise", lambda r: {"noise": r.noise[::-1]}),
        ("falls as fast as", lambda r: {"remainder": r.remainder**0.5}),
        ("small network is more accurate.", lambda r: {"accuracy": r.accuracy[:, ::-1]}),
        ("by 5 points", lambda r: {"accuracy": r.accuracy[:, ::-1]}),
        ("smaller hinge loss", lambda r: {"hinge": r.hinge[:, ::-1]}),
        ("fluctuates by more", lambda r: {"fluctuation": 0 * r.fluctuation}),
        ("changes no prediction", lambda r: {"changed": r.changed + 0.1}),
        ("both are at chance", lambda r: {"half": np.ones_like(r.half)}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


def test_statements_that_are_refuted_could_have_held(smoke, verdict):
    other = smoke._replace(inverted=1 - smoke.inverted, singular=smoke.singular + 1)
    assert verdict("worse than random guessing", other) == Verdict.SUPPORTED
    assert verdict("can be inverted", other) == Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"frequent_digits": 4}, "frequent_digits must be below digits, got 4 and 4"),
        (
            {"examples": (0, 4)},
            "examples must be whole numbers, two or more and increasing, each from 1 to",
        ),
        ({"examples": (64, 16)}, "examples must be whole numbers, two or more and increasing"),
        ({"bias": 0.0}, "bias must be a finite number, between 0 and 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
