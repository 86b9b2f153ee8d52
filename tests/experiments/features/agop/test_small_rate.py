import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.features.agop import small_rate as experiment


def changed(result, **fields):
    return result._replace(runs=result.runs._replace(**fields))


def test_verdicts_are_as_expected(surprises):
    assert surprises == []


def test_an_effect_at_the_small_rate_is_refuted(smoke, verdict):
    """Corrupted: the measurements of the large rate in the place of the small one's."""
    wrong = changed(
        smoke,
        test=smoke.runs.test[::-1],
        alignment=smoke.runs.alignment[::-1],
        num_supercritical=smoke.runs.num_supercritical[::-1],
    )
    assert verdict("the test loss changes by less", wrong) == Verdict.REFUTED
    assert verdict("changes the alignment by less", wrong) == Verdict.REFUTED
    assert verdict("no step is super-critical", wrong) == Verdict.REFUTED
    assert verdict("smaller batches improve", wrong) == Verdict.REFUTED
    assert verdict("have super-critical steps", wrong) == Verdict.REFUTED


def test_another_critical_rate_is_told(smoke, verdict):
    other = smoke._replace(critical_rates=np.full_like(smoke.critical_rates, 4.0))
    assert verdict("is about 0.15", other) == Verdict.REFUTED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch_sizes": (5, 10, 50)}, "batch_sizes must be two and increasing"),
        ({"small_fraction": 0.6}, "small_fraction and large_fraction must be increasing"),
        ({"widths": ()}, "widths must be whole numbers, one or more"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
