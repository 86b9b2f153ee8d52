"""`record`, and what `run`, `list` and `show` say of records, on experiments that take no time."""

import json

import pytest

from theorylab.report.numbers import duration


@pytest.fixture
def records(tree, tmp_path):
    object.__setattr__(tree, "records", tmp_path / "records")
    return tmp_path / "records"


def test_a_record_is_written_on_a_fresh_seed_and_shown(theorylab, records):
    answer = theorylab("record", "toys/dice", "--repeat", "2")
    assert answer.code == 0
    path = records / "toys/dice.json"
    assert answer.out.strip() == str(path)
    content = json.loads(path.read_text())
    seeds = [content["seed"], *(each["seed"] for each in content["repeats"])]
    assert len(set(seeds)) == 3
    assert min(seeds) >= 10**6

    assert (
        f"recorded {content['date']} on seed {content['seed']}"
        in theorylab("show", "toys/dice").out
    )
    took = f"default  took {duration(content['seconds'])} when recorded"
    assert took in theorylab("show", "toys/dice").out
    assert "1 of 1 claim as expected" in theorylab("list").out
    (dice,) = [e for e in json.loads(theorylab("list", "--json").out) if e["name"] == "toys/dice"]
    assert dice["recorded"]["seed"] == content["seed"]
    assert "as in the record of" in theorylab("run", "toys/dice").err


def test_a_run_says_where_it_differs_from_the_record(theorylab, records):
    theorylab("record", "toys/coin")
    answer = theorylab("run", "toys/coin", "--surprising", "true")
    assert "the record" not in answer.err  # another config
    path = records / "toys/coin.json"
    path.write_text(path.read_text().replace("supported", "refuted"))
    assert "cannot be read: it was changed by hand" in theorylab("run", "toys/coin").err
    assert theorylab("list").code == 0


def test_a_drawn_seed_stays_until_it_is_recorded(theorylab, records, monkeypatch, folders):
    """A run that is stopped is recorded on its seed, so nobody draws until a verdict pleases."""
    seen = []

    def stopped(asked, *rest):
        seen.append([request.values["seed"] for request in asked])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("theorylab.cli.running.obtain", stopped)
        for repeat in ("0", "1"):
            assert theorylab("record", "toys/dice", "--repeat", repeat).code == 130
    (first,), (again, second) = seen
    assert first == again != second
    assert theorylab("record", "toys/dice").code == 0
    assert json.loads((records / "toys/dice.json").read_text())["seed"] == first
    assert theorylab("record", "toys/dice").code == 0
    assert json.loads((records / "toys/dice.json").read_text())["seed"] not in (first, second)


def test_seeds_are_added_to_a_record(theorylab, records):
    """The seeds that are there stay, and their runs are read from the store."""
    path = records / "toys/dice.json"
    theorylab("record", "toys/dice", "--repeat", "1")
    before = json.loads(path.read_text())
    assert theorylab("record", "toys/dice", "--more", "2").err.count("read from the store") == 2
    after = json.loads(path.read_text())
    assert after["findings"] == before["findings"]
    assert after["seed"] == before["seed"]
    assert after["repeats"][:1] == before["repeats"]
    assert len({after["seed"], *(each["seed"] for each in after["repeats"])}) == 4


def test_seeds_are_not_added_to_no_record_or_one_of_other_code(theorylab, records, monkeypatch):
    answer = theorylab("record", "toys/dice", "--more", "2")
    assert (answer.code, answer.out) == (2, "")
    assert "toys/dice has none" in answer.err
    theorylab("record", "toys/dice")
    monkeypatch.setattr("theorylab.lab.key.key", lambda *_: "0")
    answer = theorylab("record", "toys/dice", "--more", "2")
    assert (answer.code, answer.out) == (2, "")
    assert "is of other code" in answer.err


def test_what_cannot_be_recorded_is_refused(theorylab, records):
    for arguments, message in (
        ((), "record needs the name of an experiment"),
        (("toys/dice", "--repeat", "-1"), "--repeat must be a whole number from 0 to 100"),
        (("toys/dice", "--more", "x"), "--more must be a whole number from 0 to 100"),
        (("toys/dice", "--preset", "smoke"), "--preset must be one of default, paper"),
        (("toys/dice", "--seed", "3"), "record has no option --seed"),
    ):
        answer = theorylab("record", *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert message in answer.err
    assert not records.exists()


def test_without_a_checkout_nothing_is_recorded(theorylab, folders):
    answer = theorylab("record", "toys/dice")
    assert answer.code == 2
    assert "needs a checkout" in answer.err
    assert not any((folders / "store").rglob(".drawn"))
