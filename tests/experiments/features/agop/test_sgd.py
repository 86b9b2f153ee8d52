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


def test_other_counts_and_losses_are_refuted(smoke, verdict):
    """Batches that all catapult, and a run that did not fit."""
    restless = changed(smoke, num_supercritical=np.ones_like(smoke.runs.num_supercritical))
    assert verdict("no step is super-critical", restless) == Verdict.REFUTED
    assert verdict("are not rare", restless) == Verdict.REFUTED
    exchanged = changed(smoke, num_supercritical=smoke.runs.num_supercritical[::-1])
    assert verdict("the more steps are super-critical", exchanged) == Verdict.REFUTED
    unfitted = changed(smoke, loss=smoke.runs.loss + 1)
    assert verdict("at one training loss", unfitted) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("name", "table", "words"),
    [
        ("test", experiment.TEST, "the test loss is 0.42"),
        ("alignment", experiment.ALIGNMENT, "the alignment is 0.95"),
    ],
)
def test_every_size_of_which_the_table_speaks_is_judged(smoke, verdict, name, table, words):
    """The table itself, with seeds around it, is supported; one size that is off is not."""
    paper = experiment.PRESETS["paper"]
    means = np.array([table.get(size, 0.75) for size in paper.batch_sizes])
    rows = means[:, None] + 0.04 * np.linspace(-1, 1, 24)[None]
    assert verdict(words, changed(smoke, **{name: rows}), paper) == Verdict.SUPPORTED
    for place, size in enumerate(paper.batch_sizes):
        off = changed(smoke, **{name: rows + 0.1 * (np.arange(5) == place)[:, None]})
        assert (verdict(words, off, paper) == Verdict.REFUTED) == (size in table)


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
