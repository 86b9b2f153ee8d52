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
        ("Heads see noise", lambda r: {"ranks": r.ranks + 1}),
        ("ratio of their noise", lambda r: {"noise": r.noise[::-1]}),
        ("by 5 points", lambda r: {"accuracy": r.accuracy[:, ::-1]}),
        ("nowhere less accurate", lambda r: {"accuracy": r.accuracy[:, ::-1]}),
        ("smaller hinge loss", lambda r: {"hinge": r.hinge[:, ::-1]}),
        ("changes no prediction", lambda r: {"changed": r.changed + 0.1}),
        ("both are at chance", lambda r: {"half": np.ones_like(r.half)}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


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
