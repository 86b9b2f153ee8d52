import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.dynamics.quadratic import generalization as experiment


def test_every_verdict_is_the_expected_one(surprises):
    assert surprises == []


def other_test_loss(result):
    """Higher beyond the critical rate, and higher for models that are not linear."""
    factor = np.where(np.array(experiment.PRESETS["smoke"].ratios) > 1, 2.0, 1.0)[:, None]
    return result.test * factor * np.array([1.0, 1.2, 1.3])[:, None, None]


def moving(result, first, last):
    """Training losses that go straight from one number to another, in every run."""
    line = np.linspace(first, last, result.train.shape[-1])
    return np.broadcast_to(line, result.train.shape)


# One wrong number in what was measured, and the claim that looks at it.
CORRUPTIONS = (
    ("test", other_test_loss, "Below the critical rate the quadratic"),
    ("test", other_test_loss, "So is the network's"),
    ("train", lambda r: moving(r, 2, 1), "Linear models diverge"),
    ("train", lambda r: moving(r, 2, 1), "Quadratic models diverge"),
    ("train", lambda r: r.train + 1, "Between, networks"),
    ("test", other_test_loss, "Quadratic models: the best test loss"),
    ("test", other_test_loss, "Networks: the best test loss"),
    ("error", other_test_loss, "misclassify"),
    ("train", lambda r: r.train + 1, "trained too little"),
    ("train", lambda r: moving(r, 1, 2), "ever exceeds"),
)


@pytest.mark.parametrize(("field", "corrupt", "words"), CORRUPTIONS)
def test_a_wrong_measurement_is_not_supported(smoke, verdict, field, corrupt, words):
    wrong = smoke._replace(**{field: corrupt(smoke)})
    assert verdict(words, wrong) != Verdict.SUPPORTED


def test_a_fall_below_the_critical_rate_is_no_fall_beyond(smoke):
    """Oracle: a loss that drops at η_crit and rises from there on, and one that falls beyond."""
    config = experiment.Config()
    ratios = np.array(config.ratios)
    rising = np.where(ratios < 1, 2.0, ratios)
    shape = (1, 9, 3, len(ratios), 2)
    train = np.broadcast_to(np.array([1.0, 0.01]), shape)
    claims = [each for each in experiment.CLAIMS if "beyond η_crit it falls" in each.statement]
    assert len(claims) == 2
    for loss, expected in ((rising, Verdict.REFUTED), (3 - rising, Verdict.SUPPORTED)):
        test = np.broadcast_to(loss[:, None], shape)
        result = experiment.Result(train=train, test=test, error=test)
        for claim in claims:
            assert claim.judge(result, config).verdict == expected
            few = experiment.PRESETS["smoke"]
            assert claim.judge(smoke, few).verdict == Verdict.INCONCLUSIVE


def test_no_pair_may_fail(smoke, verdict):
    """With one of the two pairs reversed it is refuted, with one that is equal inconclusive."""
    worse = smoke.test.copy()
    worse[0] = other_test_loss(smoke)[0]
    found = verdict("Networks: the best test loss", smoke._replace(test=worse))
    assert found == Verdict.REFUTED
    worse[0] = 1.0 + 1e-3 * np.random.default_rng(0).random(worse[0].shape)
    found = verdict("Networks: the best test loss", smoke._replace(test=worse))
    assert found == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 0}, "width must be .* at least 1, got 0"),
        ({"pairs": (3,)}, r"pairs must be digits two by two, got \(3,\)"),
        ({"depth": 1}, "depth must be .* at least 2, got 1"),
        ({"ratios": (0.5, 3.0)}, "ratios must have one below 1"),
        ({"pairs": (3, 3)}, "pairs must be .* two different classes"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        experiment.Config(**fields)
