"""Spikes and match rates against counts by hand and the hypergeometric law."""

from math import comb

import numpy as np
import pytest

from theorylab.dynamics import num_catapults, num_supercritical, spike_match, spikes


def test_a_spike_is_both_relative_and_absolute():
    """By hand: 1 → 1.6 spikes; 1 → 1.4 is too little, 0.001 → 0.01 too small, 10 → 10.5 flat."""
    loss = np.array([[1.0, 1.6], [1.0, 1.4], [0.001, 0.01], [10.0, 10.5], [1.0, np.inf]])
    assert spikes(loss)[:, 0].tolist() == [True, False, False, False, False]
    assert spikes(loss, ratio=1.0, rise=0.0)[:, 0].tolist() == [True, True, True, True, False]
    assert spikes(loss, ratio=1.1, rise=0.0)[:, 0].tolist() == [True, True, True, False, False]


def test_rates_are_those_of_the_table():
    """By hand: 6 up of which 5 above; 14 not up of which 3 above. Fisher: hypergeometric sum."""
    up = np.array([True] * 6 + [False] * 14)
    above = np.array([True] * 5 + [False] + [True] * 3 + [False] * 11)
    found = spike_match(up, above)
    assert (found.num_up, found.num_steps) == (6, 20)
    np.testing.assert_allclose(
        [found.match_rate, found.base_rate, found.lift, found.up_above, found.up_below],
        [5 / 6, 8 / 20, (5 / 6) / (8 / 20), 5 / 8, 1 / 12],
    )
    tail = sum(comb(8, k) * comb(12, 6 - k) for k in (5, 6)) / comb(20, 6)
    np.testing.assert_allclose(found.p_value, tail, rtol=1e-10)


def test_a_match_rate_without_association_is_its_base_rate():
    """Limit: independent flags have lift 1, whatever the base rate is."""
    random = np.random.default_rng(0)
    up, above = random.random(20000) < 0.3, random.random(20000) < 0.7
    found = spike_match(up, above)
    assert abs(found.match_rate - 0.7) < 0.02  # 3 standard errors are 0.018
    assert abs(found.lift - 1) < 0.02
    assert found.p_value > 1e-3
    assert spike_match(up, up).p_value < 1e-10


def test_without_spikes_there_is_no_match_rate():
    assert np.isnan(spike_match(np.zeros(3, bool), np.ones(3, bool)).match_rate)
    assert np.isnan(spike_match(np.ones(3, bool), np.zeros(3, bool)).lift)


def test_catapults_are_counted_in_two_ways():
    """By hand: one spike of two steps and one of one step; three steps above η_crit."""
    assert num_catapults(np.array([False, True, True, False, True])).tolist() == 2
    assert num_catapults(np.array([[True, False, True], [True, True, True]])).tolist() == [2, 1]
    critical = np.array([[1.0, 3.0, 2.0, 1.5], [4.0, 4.0, 4.0, 4.0]])
    assert num_supercritical(2.0, critical).tolist() == [2, 0]
    assert num_supercritical(np.array([2.0, 2.0, 3.0, 9.0]), critical).tolist() == [3, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spikes(np.ones(3), ratio=0.5), "ratio must be at least 1, got 0.5"),
        (lambda: spikes(np.ones(3), rise=-1.0), "rise must be at least 0, got -1.0"),
        (lambda: spike_match(np.ones(3, bool), np.ones(2, bool)), r"got \(3,\) and \(2,\)"),
        (lambda: spike_match(np.ones(0, bool), np.ones(0, bool)), "at least one step, got none"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
