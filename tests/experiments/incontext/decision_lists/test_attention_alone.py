import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.decision_lists import attention_alone as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("within the theorem's bound", lambda r: {"bound": 0 * r.bound}),
        ("descent promises", lambda r: {"bound": r.bound / 10}),
        ("less than a thousandth", lambda r: {"bound": r.bound / 1e6}),
        ("The step is at most", lambda r: {"met": 1.1 * r.met}),
        ("The loss never grows", lambda r: {"loss": r.loss[:, :, ::-1]}),
        ("In S the gradient", lambda r: {"inside": r.inside - 1}),
        ("Outside of S", lambda r: {"outside": r.outside - 1}),
        ("S has at least", lambda r: {"chance": 0 * r.chance}),
        ("of at most δ/2", lambda r: {"rare": r.rare + 1}),
        ("While a token is wrong", lambda r: {"inner": np.zeros_like(r.inner)}),
        ("While a token is wrong", lambda r: {"gradient": 0 * r.gradient}),
        ("These bounds are loose", lambda r: {"rare": r.rare + 0.1}),
        ("These bounds are loose", lambda r: {"gradient": r.gradient / 1e6}),
        ("With another permutation", lambda r: {"other": r.other + 1}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


def test_an_instance_that_is_never_perfect_is_not_supported(smoke, verdict):
    never = smoke._replace(first=np.full_like(smoke.first, np.nan))
    assert verdict("within the theorem's bound", never) == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tokens": (6,)}, "must be as many"),
        ({"tokens": (6, 8, 12, 4)}, "size and length must be below the number of tokens"),
        (
            {"tokens": (6, 8, 12, 41)},
            "tokens must be whole numbers, one or more, each from 3 to 40",
        ),
        ({"tokens": (39,), "sizes": (9,), "lengths": (2,)}, "at most 20000 sets"),
        ({"factors": (0.1,)}, "factors must begin with 1"),
        ({"num_steps": 0}, "num_steps must be a whole number, from 1 to 1000, got 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
