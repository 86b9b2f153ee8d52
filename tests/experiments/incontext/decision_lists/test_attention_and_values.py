import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.incontext.decision_lists import attention_and_values as experiment


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("within the theorem's bound", lambda r: {"bound": 0 * r.bound}),
        ("descent promises", lambda r: {"bound": r.bound / 10}),
        ("The step is at most", lambda r: {"met": 1.1 * r.met}),
        ("V stays within", lambda r: {"distance": 3 * r.distance}),
        ("The loss never grows", lambda r: {"loss": r.loss[:, :, ::-1]}),
        ("In S the gradient", lambda r: {"inside": r.inside - 1}),
        ("In S the gradient", lambda r: {"outside": r.outside - 1}),
        ("A wrong token", lambda r: {"most": r.most - 1}),
        ("In S, p*", lambda r: {"rare": r.rare + 1}),
        ("‖∇loss‖² in W", lambda r: {"gradient": 0 * r.gradient}),
        ("changes no entry", lambda r: {"moved": 100 * r.moved}),
        ("V stays within", lambda r: {"loss": np.where(r.loss == r.loss[..., -1:], 2.0, r.loss)}),
        ("The bounds are loose", lambda r: {"moved": 10 * r.moved}),
        ("The bounds are loose", lambda r: {"bound": r.bound / 100}),
        ("The bounds are loose", lambda r: {"gradient": r.gradient / 100}),
        ("With another permutation", lambda r: {"other": r.other + 1}),
    ],
)
def test_corrupted_measurements_are_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


def test_fields_have_distances_before_instances(smoke):
    assert smoke.first.shape == (1, 6)
    assert smoke.far.shape == (1, 6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"size": 9}, "size and length must be below the number of tokens"),
        ({"epsilons": (100.0,)}, "epsilons must be at most 16 length"),
        ({"radii": ()}, "radii must be finite numbers, one or more, each positive"),
        ({"num_steps": 0}, "num_steps must be a whole number, from 1 to 1000, got 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
