import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics import edge_of_stability
from theorylab.experiments.dynamics.edge_of_stability import CLAIMS, Config

experiment = edge_of_stability


@pytest.fixture(scope="module")
def result(smoke):
    return smoke


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


def changed(result, part, **fields):
    """Give every claim's verdict after some of the watched numbers were replaced."""
    wrong = result._replace(**{part: getattr(result, part).replace(**fields)})
    return {
        claim.statement: claim.judge(wrong, experiment.PRESETS["smoke"]).verdict for claim in CLAIMS
    }


def refuted(verdicts):
    return sorted(words for words, verdict in verdicts.items() if verdict == Verdict.REFUTED)


@pytest.mark.parametrize("part", ["curve", "images"])
def test_a_network_that_never_reaches_the_edge_is_refuted(result, part):
    """Sharpness at half of what was measured; the fall since the crossing cannot be told."""
    verdicts = changed(result, part, sharpness=getattr(result, part).sharpness / 2)
    words = refuted(verdicts)
    assert "rises to 2/η" in words[-1]
    assert len(words) == (2 if part == "curve" else 1)
    assert Verdict.INCONCLUSIVE in verdicts.values()


@pytest.mark.parametrize(("part", "count"), [("curve", 2), ("images", 2)])
def test_a_network_that_goes_far_beyond_the_edge_is_refuted(result, part, count):
    verdicts = changed(result, part, sharpness=getattr(result, part).sharpness * 3)
    assert len(refuted(verdicts)) >= count


@pytest.mark.parametrize("part", ["curve", "images"])
@pytest.mark.parametrize("rises", [0.0, 0.9])
def test_loss_that_never_or_mostly_rises_is_refuted(result, part, rises):
    watched = getattr(result, part)
    verdicts = changed(result, part, rises=np.full_like(watched.rises, rises))
    assert len(refuted(verdicts)) == 1


@pytest.mark.parametrize("part", ["curve", "images"])
def test_loss_that_does_not_fall_is_refuted(result, part):
    watched = getattr(result, part)
    verdicts = changed(result, part, loss=np.ones_like(watched.loss))
    (words,) = refuted(verdicts)
    assert "falls" in words


def test_the_control_can_fail(result):
    """Negative: the control judged by a run that is at the edge."""
    rises = np.zeros_like(result.control.rises)
    rises[0, -1] = 0.1
    (words,) = refuted(changed(result, "control", rises=rises))
    assert words.startswith("With a small η")
    (words,) = refuted(changed(result, "control", sharpness=3 * result.control.sharpness + 300))
    assert words.startswith("With a small η")


def test_the_lemma_can_fail(result, verdict):
    assert verdict("(η/2)‖∇f‖²", result._replace(slack=-result.slack)) == Verdict.REFUTED
    assert verdict("By twice", result._replace(tight_slack=result.slack)) == Verdict.REFUTED


def test_nothing_is_concluded_from_nan(result):
    watched = result.curve
    for name in ("loss", "sharpness", "rises"):
        broken = np.full_like(getattr(watched, name), np.nan)
        verdicts = set(changed(result, "curve", **{name: broken}).values())
        assert verdicts == {Verdict.SUPPORTED, Verdict.INCONCLUSIVE}


def test_records_see_both_sides_of_the_valley(result):
    """At the edge the loss alternates; records are an odd number of steps apart."""
    gaps = np.diff(result.steps, axis=-1)
    assert np.all(gaps % 2 == 1)
    assert result.steps.shape == result.curve.loss[:, 0].shape


def test_the_figure_is_drawn(result):
    figure = edge_of_stability.plot(result, experiment.PRESETS["smoke"])
    assert [len(axis.lines) > 0 for axis in figure.axes] == [True] * 4


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_records": 2}, "num_records must be .* at least 30, got 2"),
        ({"num_lanczos": 0}, "num_lanczos must be .* at least 1, got 0"),
        ({"learning_rates": ()}, "learning_rates must be .* one or more"),
        ({"learning_rates": (0.1, -1.0)}, "learning_rates must be .* each positive"),
        ({"duration": float("nan")}, "duration must be .* positive, got nan"),
        ({"image_widths": ()}, r"image_widths must be .* one or more, .* got \(\)"),
        ({"num_images": 1798}, "num_images must be at most 1797, got 1798"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Config(**fields)


def test_memory_grows_with_what_is_held():
    small = edge_of_stability.memory(Config())
    assert edge_of_stability.memory(Config(num_seeds=6000)) == 1000 * small
    assert small < 2**30
