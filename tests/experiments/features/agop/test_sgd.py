from dataclasses import replace

import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import sgd as experiment


def changed(result, **fields):
    return result._replace(runs=result.runs._replace(**fields))


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


@pytest.mark.parametrize(
    ("words", "name"),
    [("smaller the test loss", "test"), ("better G is aligned", "alignment")],
)
def test_a_reversed_order_is_refuted(smoke, verdict, words, name):
    values = getattr(smoke.runs, name)[::-1]
    assert verdict(words, changed(smoke, **{name: values})) == Verdict.REFUTED


def test_other_values_and_counts_are_refuted(smoke, verdict):
    """Test losses of a constant, batches that all catapult, and a run that did not fit."""
    constant = changed(smoke, test=np.ones_like(smoke.runs.test))
    assert verdict("Test losses of all batch sizes", constant) == Verdict.REFUTED
    unlike = changed(smoke, alignment=np.full_like(smoke.runs.alignment, 0.5))
    assert verdict("Alignments of all batch sizes", unlike) == Verdict.REFUTED
    restless = changed(smoke, num_supercritical=np.ones_like(smoke.runs.num_supercritical))
    assert verdict("no step is super-critical", restless) == Verdict.REFUTED
    assert verdict("are not rare", restless) == Verdict.REFUTED
    unfitted = changed(smoke, loss=smoke.runs.loss + 1)
    assert verdict("at one training loss", unfitted) == Verdict.REFUTED


def test_every_size_of_which_the_table_speaks_is_judged(smoke, verdict):
    """The last of five sizes is off; at a size without a table nothing is said."""
    paper = experiment.PRESETS["paper"]
    middle = [
        np.mean(paper.pilots[b].test) if b in paper.pilots else 0.75 for b in paper.batch_sizes
    ]
    table = changed(smoke, test=np.repeat(np.array(middle)[:, None], 6, axis=1))
    words = "Test losses of all batch sizes"
    assert verdict(words, table, paper) == Verdict.SUPPORTED
    off = changed(table, test=table.runs.test + np.array([0, 0, 0, 0, 0.3])[:, None])
    assert verdict(words, off, paper) == Verdict.REFUTED
    elsewhere = replace(paper, num_train=2001)
    assert verdict(words, table, elsewhere) == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch_sizes": (10, 5)}, "batch_sizes must be whole numbers, two or more and increasing"),
        ({"batch_sizes": (5, 3000)}, "batch_sizes must be at most 2000, got 3000"),
        ({"rank": 5}, "rank must be 2, 3 or 4, got 5"),
        ({"rank": 3, "dimension": 9}, "dimension must be at least 10 for rank 3, got 9"),
        ({"fraction": 0.0}, r"fraction must be in \(0, 2\), got 0"),
        ({"target": 0.0}, "target must be a finite number, positive, got 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
