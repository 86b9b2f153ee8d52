import dataclasses

import jax
import numpy as np
import pytest

from theorylab.claims import Verdict
from theorylab.experiments.kernels.prediction import trainability as experiment

TINY = experiment.Config(
    num_cells=10, num_seeds=2, num_samples=4, width=4, max_depth=2, num_steps=2
)


def test_smoke_run_has_the_expected_verdicts(surprises):
    assert surprises == []


def test_what_is_not_so_is_not_supported(smoke, verdict):
    by_chance = smoke._replace(rank_correlation=smoke.shuffled_correlation)
    assert verdict("is above 0.4", by_chance) == Verdict.REFUTED
    assert verdict("Trainability correlates", by_chance) != Verdict.SUPPORTED
    for sign, expected in ((1, Verdict.SUPPORTED), (-1, Verdict.REFUTED)):
        strong = np.full(14, 0.5 * sign)
        either = smoke._replace(performance_correlation=strong, proxy_correlation=strong)
        assert verdict("Performance correlates", either) == expected
        assert verdict("implies low performance", either) == expected

    kept = smoke._replace(worst_dropped=smoke.num_worst - smoke.worst_dropped)
    assert verdict("drops more than half", kept) == Verdict.REFUTED
    leaking = smoke._replace(shuffled_correlation=smoke.rank_correlation)
    assert verdict("tells nothing", leaking) == Verdict.REFUTED


def test_layers_beyond_the_depth_do_not_matter():
    """Oracle: the network of that depth, written out."""
    config = dataclasses.replace(TINY, max_depth=5)
    params = experiment._init(jax.random.key(0), config, 3)
    x = jax.random.normal(jax.random.key(1), (4, 3))
    cell = experiment.Cell(*map(jax.numpy.asarray, (2, 1, 1.0, 1.3)))
    h = 1.3 / np.sqrt(3) * x @ params["first"]
    h = 1.3 / 2 * np.tanh(h) @ params["hidden"][0] + h
    expected = 1.3 / 2 * np.tanh(h) @ params["last"]
    np.testing.assert_allclose(experiment._apply(cell, params, x), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_cells", 9, "num_cells must be a whole number, at least 10, got 9"),
        ("num_seeds", 1, "num_seeds must be a whole number, at least 2, got 1"),
        ("width", 0, "width must be a whole number, at least 1, got 0"),
        ("num_samples", 2000, "num_samples must be a whole number, from 1 to 1597, got 2000"),
        ("learning_rate", 1.0, "learning_rate must be a finite number, between 0 and 1, got 1.0"),
    ],
)
def test_config_outside_its_domain_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **{field: value})
