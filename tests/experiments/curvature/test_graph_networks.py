"""The experiment on architectures as graphs: verdicts, and what is not so."""

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.curvature import graph_networks as experiment


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    "words",
    ["A random graph", "A fully connected", "DenseNet.", "skip", "CNN", "edges that remain"],
)
def test_another_output_is_not_supported(smoke, verdict, words):
    other = smoke._replace(on_graph=smoke.on_graph * (1 + 1e-6))
    assert verdict(words, other) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("longest path", lambda r: {"layers": r.shortest}),
        ("shortest path", lambda r: {"layers": r.shortest}),
        ("smallest hidden layer", lambda r: {"widths": r.widths + 1}),
        ("number of all neurons", lambda r: {"dense_degrees": r.dense_degrees - 4}),
        ("of order 1", lambda r: {"sizes": np.sqrt(r.degrees) * np.ones_like(r.sizes)}),
    ],
)
def test_a_wrong_measurement_is_refuted(smoke, verdict, words, change):
    assert verdict(words, smoke._replace(**change(smoke))) == Verdict.REFUTED


def test_bad_configs_are_told():
    with pytest.raises(ValueError, match="width must be a whole number, at least 4"):
        experiment.Config(width=3)
