import math

import numpy as np
import pytest

from theorylab.answers.digits import number
from theorylab.claims.claim import Demand, Finding, Verdict
from theorylab.report.numbers import demanded, duration, interval, reading


@pytest.mark.parametrize("mantissa", [1.0, 1.23456789, 9.99949, 9.9996, -3.3333])
def test_a_number_keeps_four_significant_digits(mantissa):
    """Oracle: reading the text back, half a unit of the fourth digit away at most."""
    values = [mantissa * 10.0**exponent for exponent in range(-300, 301)]
    texts = [number(value) for value in values]
    np.testing.assert_allclose([float(text) for text in texts], values, rtol=5.001e-4)
    assert max(len(text.replace("-", "")) for text in texts) <= 9


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (100.0, "100"),
        (123456.0, "123456"),
        (12345.678, "12346"),
        (1e6, "1e6"),
        (0.001, "0.001"),
        (0.00099996, "1e-3"),
        (5.8e-27, "5.8e-27"),
        (5e-324, "4.941e-324"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
        (math.nan, "NaN"),
        (9.99996, "10"),
    ],
)
def test_a_number_is_written_as_people_write_it(value, text):
    assert number(value) == text


def test_an_interval_says_what_it_is():
    assert interval(-1.0, 1.0) == "[-1, 1]"
    assert interval(-math.inf, math.inf) == "(-∞, ∞)"
    assert interval(3.0, math.inf) == "[3, ∞)"
    assert interval(3.0, 3.0) == "exact"
    assert interval(1.0, math.nan) == "no interval"


def test_a_demand_says_what_it_is():
    assert demanded(Demand(low=0.5)) == "≥ 0.5"
    assert demanded(Demand(high=1e-12)) == "≤ 1e-12"
    assert demanded(Demand(0.9, 1.1)) == "in [0.9, 1.1]"
    assert demanded(Demand()) == "any number"


@pytest.mark.parametrize("gap", [1e-4, 1e-7, 1e-12, 2.0**-52])
def test_what_misses_a_bound_by_little_never_looks_like_it(gap):
    above = 1 + gap
    found = reading(Finding(above, above, above, Demand(high=1.0), Verdict.REFUTED, "exact"))
    assert found.demanded == "≤ 1"
    assert float(found.measured) > 1


def test_what_is_not_finite_is_read_too():
    nan = math.nan
    found = reading(Finding(nan, nan, nan, Demand(high=1.0), Verdict.INCONCLUSIVE, "exact"))
    assert found == ("NaN", "no interval", "≤ 1")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s"), (0.0314, "0.031 s"), (9.99, "10 s"), (59.6, "1 min 0 s"), (math.nan, "unknown")],
)
def test_a_duration_is_written_as_people_say_it(seconds, text):
    assert duration(seconds) == text
