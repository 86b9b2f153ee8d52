"""The figure of an outcome is drawn again from its arrays; its claims are a table."""

import dataclasses
import io
from typing import NamedTuple

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from jaxtyping import Array

from theorylab.answers import Answer
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.lab import Outcome
from theorylab.lab.conduct import arrays_of, as_numpy, conduct
from theorylab.lab.redraw import restored


class Fit(Answer):
    """A record of arrays."""

    slope: Array
    points: Array


class Result(NamedTuple):
    """Records in records, and in a dict."""

    loss: Array
    fit: Fit
    named: dict[str, Fit]


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """A quick run."""
    module = EXPERIMENTS.load("dynamics/quadratic/phase_diagram")
    return conduct(module, module.PRESETS["smoke"], "smoke")


def test_the_figure_that_is_drawn_again_is_the_same(outcome):
    """Oracle: the figure that the run has drawn, byte for byte."""
    file = io.StringIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.hashsalt"] = "theorylab"
        outcome.plot().savefig(file, format="svg", metadata={"Date": None})
    assert file.getvalue() == outcome.figure


def test_an_outcome_without_its_arrays_says_so(outcome):
    """Oracle: the messages, written out."""
    with pytest.raises(ValueError, match="must have its arrays to be drawn"):
        dataclasses.replace(outcome, arrays={}).plot()
    with pytest.raises(ValueError, match="needs an experiment of theorylab, got own/mine"):
        dataclasses.replace(outcome, experiment="own/mine").plot()


def test_arrays_by_name_become_the_records_that_they_were():
    """Oracle: the record whose arrays they are."""
    fit = Fit(jnp.array(0.5), jnp.arange(3.0))
    result = as_numpy(Result(jnp.ones(2), fit, {"first": fit, "second": fit.replace(slope=1)}))
    found = restored(Result, arrays_of(result))
    assert isinstance(found, Result)
    assert isinstance(found.named["second"], Fit)
    assert arrays_of(found).keys() == arrays_of(result).keys()
    assert {"fit.slope", "named.second.points"} < arrays_of(result).keys()
    for name, array in arrays_of(found).items():
        np.testing.assert_array_equal(array, arrays_of(result)[name])


def test_the_claims_are_a_table(outcome):
    """Oracle: the findings, one by one."""
    frame = outcome.to_pandas()
    assert frame["claim"].tolist() == list(range(len(outcome.judged)))
    assert frame["verdict"].tolist() == [str(each.finding.verdict) for each in outcome.judged]
    np.testing.assert_array_equal(
        frame["measured"], [each.finding.measured for each in outcome.judged]
    )
