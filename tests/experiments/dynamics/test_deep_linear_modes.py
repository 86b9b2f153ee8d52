"""The experiment on deep linear modes: its verdicts, and that each of them can change."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import deep_linear_modes as experiment


def test_all_verdicts_are_as_expected(surprises):
    assert surprises == []


SCALES = np.array(experiment.PRESETS["smoke"].scales)


@pytest.mark.parametrize(
    ("words", "field", "change"),
    [
        ("From an aligned start", "time", lambda r: 1.05 * r.time),
        ("by the simpler formula", "early", lambda r: 1.05 * r.early),
        ("equation is u²", "norms", lambda r: 1.01 * r.norms),
        ("good precision", "time", lambda r: 1.2 * r.time),
        ("falls with β", "time", lambda r: r.predicted * np.array([1.1, 1.2])),
        ("At the largest β", "time", lambda r: r.predicted),
        ("along the mode for β", "effective", lambda r: 1.05 * r.effective),
        ("power of β", "time", lambda r: r.time * SCALES),
        ("what time remains", "rest", lambda r: 1.1 * r.rest),
    ],
)
def test_a_wrong_measurement_is_refuted(smoke, verdict, words, field, change):
    assert verdict(words, smoke._replace(**{field: change(smoke)})) == Verdict.REFUTED


def test_what_is_refuted_could_be_supported(smoke, verdict):
    assert verdict("equation is u.", smoke._replace(norms=smoke.formula)) == Verdict.SUPPORTED
    right = smoke._replace(time=1.01 * smoke.predicted)
    assert verdict("more than two layers: to a", right) == Verdict.SUPPORTED


def test_the_figure_draws_every_scale_and_depth(smoke):
    mode, jump, ratios = experiment.plot(smoke, experiment.PRESETS["smoke"]).axes
    assert len(mode.get_lines()) == 2 * 2
    assert len(jump.get_lines()) == 2
    assert len(ratios.get_lines()) == 2 + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depths": (3, 4)}, "depths must increase from 2 on"),
        ({"depths": (2,)}, "depths must be .* two or more"),
        ({"scales": (0.01, 0.1)}, "scales must be two or more and decrease"),
        ({"scales": (0.5, 0.001)}, "scales must be .* 0.2"),
        ({"num_samples": 19}, "num_samples must be at least 2 dimension, got 19"),
        ({"width": 0}, "width must be .* at least 1, got 0"),
        ({"scales": (0.1, 0.0)}, "scales must be .* from 1e-09"),
    ],
)
def test_a_config_outside_its_domain_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**change)
