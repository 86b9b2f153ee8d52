import math

import pytest

from theorylab.claims import Claim, Demand, Finding, Source, Verdict, verdict


def test_a_verdict_compares_an_interval_with_a_closed_region():
    demand = Demand(1.0, 2.0)
    assert verdict(1.0, 2.0, demand) == Verdict.SUPPORTED
    assert verdict(0.0, 0.9, demand) == Verdict.REFUTED
    assert verdict(2.1, 3.0, demand) == Verdict.REFUTED
    for low, high in [(0.0, 1.0), (0.9, 1.5), (1.5, 2.1), (0.0, 3.0), (2.0, 3.0)]:
        assert verdict(low, high, demand) == Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("low", "high"), [(math.nan, 1.0), (1.0, math.nan), (math.nan, math.nan)])
def test_nan_is_inconclusive(low, high):
    assert verdict(low, high, Demand(0.0, 2.0)) == Verdict.INCONCLUSIVE
    assert verdict(low, high, Demand(5.0, 6.0)) == Verdict.INCONCLUSIVE


def test_demands_are_written_as_one_reads_them():
    assert str(Demand(high=2.0)) == "≤ 2"
    assert str(Demand(low=0.5)) == "≥ 0.5"
    assert str(Demand(0.5, 2.0)) == "in [0.5, 2]"


@pytest.mark.parametrize(("low", "high"), [(2.0, 1.0), (math.nan, 1.0), (0.0, math.nan)])
def test_a_demand_is_a_region(low, high):
    with pytest.raises(ValueError, match="a demand needs low <= high"):
        Demand(low, high)


def test_only_a_statement_as_printed_is_expected_to_be_refuted():
    def judge(_result, _config):
        return Finding(1.0, 1.0, 1.0, Demand(0.0, 2.0), Verdict.SUPPORTED, "exact")

    source = Source("zhu", "nqm-2d-map", "Eqs 3.11–3.14")
    assert str(source) == "zhu · nqm-2d-map · Eqs 3.11–3.14"
    for kind in ("claim", "control", "corrected"):
        assert Claim("It holds.", judge, source, kind).expected == Verdict.SUPPORTED
    assert Claim("It holds.", judge, source, "printed").expected == Verdict.REFUTED
