"""The atlas: complete, safe with whatever is in the store, and swapped as a whole."""

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from theorylab.experiments.coverage import systems
from theorylab.experiments.tree import EXPERIMENTS, Tree
from theorylab.lab.failure import Refused
from theorylab.lab.records import read_record
from theorylab.lab.requests import as_json
from theorylab.lab.writing import WRITING
from theorylab.report.atlas import collect, write_site
from theorylab.report.atlas import site as atlas_site
from theorylab.report.atlas.site import MARK, site_files
from theorylab.report.atlas.views import commands, exhibit_view, rows_of
from theorylab.sources import DOCUMENTS

PAGE, INDEX = 10**6, 200_000  # bytes at most


class Links(HTMLParser):
    """The ids of a page, what it links to, and the scripts that it loads."""

    def __init__(self, text: str):
        super().__init__()
        self.ids, self.links, self.scripts, self.handlers = set(), set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids |= {values["id"]} if values.get("id") else set()
        self.links |= {values[name] for name in ("href", "src") if values.get(name)}
        self.scripts += [values.get("src", "inline")] if tag == "script" else []
        self.handlers += [name for name in values if name.startswith("on")]


def never(text: str) -> None:
    raise AssertionError(f"nothing is to be noticed, got {text}")


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """The atlas of the project's own records, with an empty store."""
    return dict(site_files(collect(EXPERIMENTS, [], never)))


@pytest.fixture
def coin(tree: Tree, make):
    """The toy coin as an outcome of the store."""
    return make("toys/coin", config=as_json(tree.entry("toys/coin").presets["default"]))


def pages(files: dict[str, bytes]) -> dict[str, Links]:
    return {n: Links(text.decode()) for n, text in files.items() if n.endswith(".html")}


def test_every_experiment_has_a_page_with_its_claims_and_their_sources(files):
    """Oracle: the records, read on their own."""
    assert EXPERIMENTS.records is not None
    for entry in EXPERIMENTS.entries():
        text = files[f"experiments/{entry.name}.html"].decode()
        record = read_record(EXPERIMENTS.records, entry.name)
        assert text.count('class="statement"') == (len(record.claims) if record else 0)
        assert f"theorylab run {entry.name}" in text
        assert all(claim.source.key in text for claim in entry.claims)


def test_every_system_of_the_documents_has_its_place(files):
    rows = systems(EXPERIMENTS.entries(), DOCUMENTS)
    known = {key: Links(files[f"sources/{key}.html"].decode()).ids for key in DOCUMENTS}
    five = [row for row in rows if row["source"] in DOCUMENTS]
    assert len(five) == 312
    assert all(row["system"] in known[row["source"]] for row in five)


def test_the_index_counts_what_the_records_say(files):
    """Oracle: the sum over all records of each verdict."""
    assert EXPERIMENTS.records is not None
    records = [read_record(EXPERIMENTS.records, name) for name in EXPERIMENTS.names()]
    found = Counter(str(c.verdict) for record in records if record for c in record.claims)
    text = files["index.html"].decode()
    head = re.findall(r"<li class=\"[\w-]+\"><span>(\d+)</span> ([\w ]+)</li>", text)
    assert {name: int(number) for number, name in head if name != "not run"} == found


def test_every_link_leads_to_a_file_and_an_id_of_the_site(files):
    read = pages(files)
    for name, page in read.items():
        for link in page.links - {"data:,"}:
            path, _, anchor = link.partition("#")
            goal = (Path("/") / name).parent / path if path else Path("/") / name
            target = goal.resolve().relative_to("/").as_posix()
            assert target in files, (name, link)
            assert not anchor or anchor in read[target].ids, (name, link)


def test_pages_are_small_and_only_the_index_has_scripts(files):
    sizes = {name: len(text) for name, text in files.items()}
    assert sizes["index.html"] <= INDEX
    assert all(size <= PAGE for size in sizes.values())
    read = pages(files)
    assert read.pop("index.html").scripts == ["assets/entries.js", "assets/search.js"]
    assert not any(page.scripts for page in read.values())


def test_the_search_has_every_title_and_claim(files):
    text = files["assets/entries.js"].decode()
    entries = json.loads(text.partition("=")[2].strip().rstrip(";"))
    titles = {title for title, _, _ in entries}
    for entry in EXPERIMENTS.entries():
        assert {entry.title, *(claim.statement for claim in entry.claims)} <= titles
    assert all(url.partition("#")[0] in files for _, _, url in entries)


def test_an_outcome_of_the_store_gives_figure_claims_and_how_to_run_it(tree, coin):
    (exhibit, _) = collect(tree, [replace(coin, config=coin.config | {"bias": 0.75})], never)
    assert exhibit.shown is not None
    assert commands(exhibit) == (
        "theorylab run toys/coin --bias 0.75",
        'theorylab.run("toys/coin", bias=0.75)',
    )
    text = dict(site_files([exhibit]))["experiments/toys/coin.html"].decode()
    assert 'role="img"' in text
    assert text.count('class="statement"') == len(coin.judged)
    (row,) = rows_of([exhibit])
    assert row.counts == {"supported": 4, "refuted": 1, "inconclusive": 1}


def test_further_runs_are_told_by_what_differs(tree, coin):
    smoke = replace(coin, preset="smoke", key="ab", config=coin.config | {"num_throws": 7})
    exhibit = collect(tree, [smoke, coin], never)[0]
    assert exhibit.shown is coin
    shown = exhibit_view(exhibit, "../../")
    assert [other.key for other in shown.others] == ["ab"]


def test_a_large_figure_stands_beside_its_page(tree, coin):
    path = "M 0 0 " * 80_000
    figure = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path d="{path}"/></svg>'
    )
    files = dict(site_files(collect(tree, [replace(coin, figure=figure)], never)))
    text = files["experiments/toys/coin.html"].decode()
    assert len(text) < PAGE / 10
    assert '<img src="coin.svg" alt="Figure: ' in text
    assert b"M 0 0" in files["experiments/toys/coin.svg"]


def test_hostile_outcomes_stay_text(tree, coin, hostile):
    """Text in every field; and names that would lead out of the folder are left out, in words."""
    told: list[str] = []
    outcomes = [
        hostile,
        replace(hostile, experiment="../../x"),
        replace(hostile, experiment="toys/coin"),
        replace(hostile, experiment="own/mine"),
    ]
    files = dict(site_files(collect(tree, outcomes, told.append)))
    assert len(told) == 2
    assert all(".." not in name and not name.startswith("/") for name in files)
    assert "experiments/own/mine.html" in files
    read = pages(files)
    scripts = [script for page in read.values() for script in page.scripts]
    assert sorted(scripts) == ["assets/entries.js", "assets/search.js"]
    assert not any(page.handlers for page in read.values())
    for text in files.values():
        assert b"http://evil.example/a.png" not in text


def test_a_damaged_record_is_told_and_the_store_shown(tree, coin, tmp_path):
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys/coin.json").write_text('{"digest": "0"}')
    told: list[str] = []
    exhibit = collect(replace(tree, records=tmp_path), [coin], told.append)[0]
    assert exhibit.shown is coin
    assert len(told) == 1
    assert "cannot be read" in told[0]


def test_an_atlas_takes_the_place_of_the_one_before_and_of_nothing_else(tree, coin, tmp_path):
    goal = tmp_path / "atlas"
    first = write_site(collect(tree, [coin, replace(coin, experiment="own/mine")], never), goal)
    assert first == goal / "index.html"
    assert (goal / "experiments/own/mine.html").is_file()
    write_site(collect(tree, [coin], never), goal)
    assert not (goal / "experiments/own/mine.html").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["atlas"]
    (goal / MARK).unlink()
    with pytest.raises(Refused, match="a folder of its own"):
        write_site(collect(tree, [], never), goal)
    assert (goal / "index.html").is_file()


def test_the_same_findings_give_the_same_bytes(tree, coin):
    assert dict(site_files(collect(tree, [coin], never))) == dict(
        site_files(collect(tree, [coin], never))
    )


def test_a_writer_that_fails_leaves_the_old_atlas(tree, coin, tmp_path, monkeypatch):
    goal = tmp_path / "atlas"
    write_site(collect(tree, [coin], never), goal)
    kept = (goal / "index.html").read_bytes()

    def broken(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atlas_site, "write_durably", broken)
    with pytest.raises(OSError, match="No space"):
        write_site(collect(tree, [], never), goal)
    assert (goal / "index.html").read_bytes() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["atlas"]


def test_what_a_killed_writer_moved_away_comes_back(tree, coin, tmp_path, monkeypatch):
    """A writer that ended between its two renames has left the old atlas in its folder."""
    goal = tmp_path / "atlas"
    write_site(collect(tree, [coin], never), goal)
    draft = tmp_path / f".atlas{WRITING}gone-1-x"
    draft.mkdir()
    goal.rename(draft / "old")
    monkeypatch.setattr(atlas_site, "is_abandoned", lambda path: True)
    atlas_site._sweep(goal)
    assert (goal / "index.html").is_file()
    assert not draft.exists()
