"""Records are written by the command alone, and tell what the module claims."""

import json
from pathlib import Path

import pytest

from theorylab.claims.claim import Verdict
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.lab.records import (
    FIRST_SEED,
    LAST_SEED,
    RecordedClaim,
    fresh_seed,
    read_record,
    record_path,
    write_record,
)

RECORDS = EXPERIMENTS.records or Path()
RECORDED = sorted(path.relative_to(RECORDS) for path in RECORDS.rglob("*.json"))


def outcome(seed: int, *verdicts: str) -> dict:
    """An outcome as JSON, with as many claims as verdicts."""
    findings = [
        {
            "statement": f"Claim {place}.",
            "kind": "claim",
            "expected": "supported",
            "verdict": verdict,
            "measured": "nan" if verdict == "inconclusive" else 1.5,
            "interval": [1.0, "inf"],
        }
        for place, verdict in enumerate(verdicts)
    ]
    return {
        "experiment": "toys/coin",
        "preset": "default",
        "config": {"seed": seed},
        "seconds": 1.25,
        "environment": {"jax": "1"},
        "key": "abc",
        "findings": findings,
    }


@pytest.mark.parametrize("path", RECORDED, ids=Path.as_posix)
def test_a_record_has_the_claims_of_its_module(path):
    """A record of other claims must be made again."""
    preset = "paper" if path.parts[0] == "paper" else "default"
    name = path.with_suffix("").as_posix().removeprefix("paper/")
    record = read_record(RECORDS, name, preset)
    assert record is not None
    claims = [(claim.statement, claim.kind) for claim in EXPERIMENTS.entry(name).claims]
    assert [(claim.statement, claim.kind) for claim in record.claims] == claims
    assert record.seed is None or FIRST_SEED <= record.seed <= LAST_SEED


def test_a_record_is_read_as_it_was_written(tmp_path):
    write_record(tmp_path, [outcome(7, "supported", "inconclusive")])
    record = read_record(tmp_path, "toys/coin")
    assert record is not None
    assert (record.seed, record.seconds, record.key) == (7, 1.2, "abc")
    assert [claim.verdict for claim in record.claims] == [Verdict.SUPPORTED, Verdict.INCONCLUSIVE]
    assert record.claims[0].high == float("inf")
    assert record.claims[1].measured != record.claims[1].measured
    assert "1 supported, 1 inconclusive, 1 not as expected" in record.sentence
    assert read_record(tmp_path, "toys/dice") is None
    assert read_record(tmp_path, "toys/coin", "paper") is None


def test_a_claim_is_unstable_if_another_seed_gives_another_verdict(tmp_path):
    seeds = [outcome(1, "supported", "supported"), outcome(2, "supported", "refuted")]
    write_record(tmp_path, seeds)
    record = read_record(tmp_path, "toys/coin")
    assert record is not None
    assert [claim.unstable for claim in record.claims] == [False, True]
    assert "1 unstable" in record.sentence


def test_what_was_edited_by_hand_is_refused(tmp_path):
    path = write_record(tmp_path, [outcome(7, "refuted")])
    content = json.loads(path.read_text())
    content["findings"][0]["verdict"] = "supported"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="of toys/coin cannot be read: it was changed by hand"):
        read_record(tmp_path, "toys/coin")
    path.write_text("[]")
    with pytest.raises(ValueError, match="cannot be read"):
        read_record(tmp_path, "toys/coin")


def test_seeds_are_fresh_and_never_those_of_calibrations():
    seeds = {fresh_seed() for _ in range(50)}
    assert len(seeds) == 50
    assert min(seeds) >= FIRST_SEED
    assert max(seeds) <= LAST_SEED


def test_what_is_not_judged_surprises_nobody():
    claim = RecordedClaim("S.", "claim", Verdict.SUPPORTED, Verdict.NOT_JUDGED, 0.0, 0.0, 0.0, ())
    assert claim.as_expected


def test_paper_records_stand_apart():
    assert record_path(Path("r"), "toys/coin", "default") == Path("r/toys/coin.json")
    assert record_path(Path("r"), "toys/coin", "paper") == Path("r/paper/toys/coin.json")
