import dataclasses

import jax
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import catapult
from theorylab.experiments.dynamics.catapult import CLAIMS, PRESETS, Config

experiment = catapult


@pytest.fixture(scope="module")
def result(smoke):
    return smoke


def claim(words):
    (found,) = (claim for claim in CLAIMS if words in claim.statement)
    return found


@pytest.mark.parametrize("found", CLAIMS, ids=lambda claim: claim.statement)
def test_every_verdict_is_the_expected_one(result, found):
    assert found.judge(result, experiment.PRESETS["smoke"]).verdict == found.expected


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("map_error", lambda r: r.map_error + 1e-9, "obey a map"),
    ("reduced_error", lambda r: r.reduced_error + 1e-9, "reduced coordinates"),
    ("observed_phase", lambda r: np.roll(r.observed_phase, 1), "decides"),
    ("last_ratio", lambda r: r.last_ratio + 2, "ends where the equilibrium"),
    ("peak_rise", lambda r: r.peak_rise / np.log(catapult.MAP_WIDTHS), "peak loss of the map"),
    ("peak_height", lambda r: 2 * r.peak_height, "At its peak u"),
    ("mirror", lambda r: 1.5 * r.mirror, "mirrors"),
    ("quadratic_peaks", lambda r: np.sqrt(r.quadratic_peaks), "peak loss of quadratic"),
    ("network_peaks", lambda r: r.network_peaks**1.2, "ReLU networks themselves"),
    ("drift", lambda r: np.sqrt(r.drift), "curvature drifts"),
    ("linear_outputs", lambda r: 1.001 * r.linear_outputs, "closed form"),
    ("linear_threshold", lambda r: 1.02 * r.linear_threshold, "bisection"),
    ("loss", lambda r: np.ones_like(r.loss), "catapults, and converges"),
    ("linear_loss", lambda r: r.loss, "diverges there"),
    ("linear_loss", lambda r: r.loss, "The linear model has no catapult"),
    ("largest_rise", lambda r: 1.2 + r.largest_rise, "Below the threshold there is no"),
    ("peak_rise", lambda r: r.peak_rise**0, "first rises tenfold"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_refuted(result, field, corrupt, words):
    wrong = result._replace(**{field: corrupt(result)})
    assert claim(words).judge(wrong, experiment.PRESETS["smoke"]).verdict == Verdict.REFUTED


def test_a_printed_statement_can_come_true(result):
    """Without a rise of the loss, the printed claim would be supported."""
    wrong = result._replace(peak_rise=result.peak_rise**0)
    assert (
        claim("decreases monotonically").judge(wrong, experiment.PRESETS["smoke"]).verdict
        == Verdict.SUPPORTED
    )


@pytest.mark.parametrize("field", ["map_error", "network_peaks", "linear_threshold", "mirror"])
def test_nothing_is_concluded_from_nan(result, field):
    """A NaN anywhere in a field leaves the claims about it inconclusive."""
    broken = np.full_like(getattr(result, field), np.nan)
    wrong = result._replace(**{field: broken})
    changed = [
        c
        for c in CLAIMS
        if c.judge(wrong, experiment.PRESETS["smoke"]).verdict
        != c.judge(result, experiment.PRESETS["smoke"]).verdict
    ]
    assert [c.judge(wrong, experiment.PRESETS["smoke"]).verdict for c in changed] == [
        Verdict.INCONCLUSIVE
    ]


def test_the_figure_is_drawn(result):
    figure = catapult.plot(result, experiment.PRESETS["smoke"])
    assert [len(axis.lines) > 0 for axis in figure.axes[:4]] == [True] * 4


def test_same_config_same_numbers():
    """Byte by byte, for the parts that are cheap to run again."""
    config = dataclasses.replace(PRESETS["smoke"], num_settings=20, resolution=2)
    key = jax.random.key(3)
    first, second = (catapult._maps(key, config.num_settings, config.resolution) for _ in "ab")
    for name in first:
        assert np.asarray(first[name]).tobytes() == np.asarray(second[name]).tobytes()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"num_seeds": -1}, "num_seeds must be at least 1, got -1"),
        ({"ratios": (1.0, 5.0)}, r"ratios must be in \(0, 4\), one beyond 2, got \(1.0, 5.0\)"),
        ({"ratios": (1.0,)}, "ratios must be in"),
        ({"ratios": ()}, "ratios must be in"),
        ({"widths": (100,)}, r"widths must be two or more different counts, got \(100,\)"),
        ({"widths": (0, 10)}, "widths must be two or more different counts"),
        ({"resolution": 1}, "resolution must be at least 2, got 1"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Config(**fields)


def test_memory_grows_with_what_is_held():
    small = catapult.memory(Config())
    assert catapult.memory(Config(num_seeds=2000)) > 50 * small
    assert small < 2**30
