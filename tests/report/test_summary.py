from theorylab.claims.claim import Verdict
from theorylab.report.summary import expectation, summarise
from theorylab.sources import DOCUMENTS, documents


def test_a_summary_counts_every_verdict_and_surprise(outcome):
    summary = summarise([outcome, outcome])
    assert summary.num_claims == 12
    assert sum(summary.verdicts.values()) == 12
    assert summary.verdicts[Verdict.REFUTED] == 2
    assert summary.num_surprises == 2
    assert summary.sentence == (
        "12 claims in 2 experiments: 8 supported, 2 refuted, 2 inconclusive."
        " 2 verdicts are not as expected."
    )


def test_a_summary_of_one_claim_speaks_in_the_singular(make, judge):
    summary = summarise([make(judged=[judge(measured=1.0)])])
    assert summary.sentence == (
        "1 claim: 0 supported, 1 refuted, 0 inconclusive. 1 verdict is not as expected."
    )


def test_a_refuted_printed_statement_is_as_expected(judge):
    assert expectation(judge(measured=1.0, kind="printed")) == "as expected"
    assert expectation(judge(measured=0.0, kind="printed")) == "expected refuted"


def test_every_document_is_known_and_an_unknown_one_goes_by_its_key():
    assert set(DOCUMENTS) == {"arora", "golikov", "karp", "shi", "zhu"}
    assert documents(["nobody"]) == {"nobody": "nobody"}
