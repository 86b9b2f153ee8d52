import math

import pytest

from theorylab.claims import Demand, Finding, Source, Verdict, verdict


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


SOURCE = Source("zhu", "nqm-2d-map", "Eqs 3.11–3.14")


def judge(_result, _config):
    return Finding(1.0, 1.0, 1.0, Demand(0.0, 2.0), Verdict.SUPPORTED, "exact")


def test_only_a_statement_as_printed_is_expected_to_be_refuted():
    assert str(SOURCE) == "zhu · nqm-2d-map · Eqs 3.11–3.14"
    for make in (SOURCE.claim, SOURCE.control, SOURCE.corrected, SOURCE.found, SOURCE.check):
        claim = make("It holds.", judge)
        assert (claim.kind, claim.expected) == (make.__name__, Verdict.SUPPORTED)
        assert (claim.source, claim.judge) == (SOURCE, judge)
    assert SOURCE.printed("It holds.", judge).expected == Verdict.REFUTED


def test_an_erratum_quotes_what_is_printed():
    wrong, right = SOURCE.erratum(
        ("A.", judge, "a"), ("B.", judge), formula="b", quote="it is a", regime="width > 1"
    )
    assert (wrong.kind, wrong.formula, wrong.quote, wrong.regime) == (
        "printed",
        "a",
        "it is a",
        "width > 1",
    )
    assert (right.kind, right.formula, right.quote, right.regime) == (
        "corrected",
        "b",
        "",
        "width > 1",
    )


def test_what_is_not_reproduced_says_why():
    claim = SOURCE.claim("It grows.", judge, expected="refuted", why="Two layers, not four.")
    assert claim.expected == Verdict.REFUTED
    with pytest.raises(ValueError, match="expected refuted needs a reason in `why`, got ''"):
        SOURCE.claim("It grows.", judge, expected="refuted")
    with pytest.raises(ValueError, match=r"expected supported needs no `why`, got 'No reason\.'"):
        SOURCE.claim("It grows.", judge, why="No reason.")


@pytest.mark.parametrize("demand", ["", "source", "derived: 2/λ", "lab: seeds 100 to 119"])
def test_a_demand_says_whose_it_is(demand):
    assert SOURCE.claim("It grows.", judge, demand=demand).demand == demand


@pytest.mark.parametrize("demand", ["mine", "lab", "derived:", "lab: ", "source: Thm 1"])
def test_a_demand_of_the_lab_says_where_it_was_set(demand):
    with pytest.raises(ValueError, match="demand must be"):
        SOURCE.claim("It grows.", judge, demand=demand)
