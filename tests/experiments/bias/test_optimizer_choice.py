"""The experiment on optimisers: its verdicts, and that each of them can change."""

import pytest

from theorylab.claims import Verdict
from theorylab.experiments.bias import optimizer_choice as experiment


def test_all_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("Descent and SGD end", "distance", lambda r: r.distance[:, ::-1]),
        ("On their way", "outside", lambda r: r.outside[:, ::-1]),
        ("fit as well", "residual", lambda r: r.residual + 1e-3),
        ("leave the row space", "outside", lambda r: r.outside[:, ::-1]),
        ("Heavy ball", "distance", lambda r: r.distance + 1e-6),
        ("Heavy ball", "outside", lambda r: r.outside + 1e-9),
        ("farther from w₀", "length", lambda r: r.length[:, ::-1]),
        ("AdaGrad and Adam find them", "sign_cosine", lambda r: r.sign_cosine[:, ::-1]),
        ("does not find", "sign_cosine", lambda r: r.sign_cosine[:, ::-1]),
    ],
)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, words, field, change):
    assert verdict(words, smoke._replace(**{field: change(smoke)})) != Verdict.SUPPORTED


def test_the_figure_draws_every_method(smoke):
    distance, outside, signs = experiment.plot(smoke, experiment.PRESETS["smoke"]).axes
    assert len(distance.get_lines()) == len(outside.get_lines()) == 6
    assert len(signs.get_lines()) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_samples": 21}, "num_samples must be at most dimension/2 = 20, got 21"),
        (
            {"num_labels": 4},
            "num_labels must be a whole number, odd and at least 1, at least 3, got 4",
        ),
        ({"num_seeds": 0}, "num_seeds must be a whole number, at least 1, got 0"),
        ({"num_steps": 0}, "num_steps must be a whole number, at least 1, got 0"),
    ],
)
def test_a_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
