"""The tables of the docs are made of the measures and rules that are there."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from theorylab.checkup.rows import MEASURES
from theorylab.checkup.rules import RULES
from theorylab.checkup.subject import Known
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.sources import DOCUMENTS, document

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    monkeypatch.delitem(sys.modules, "checkup", raising=False)
    return importlib.import_module("checkup")


def test_every_row_and_every_rule_is_told(tables, tmp_path):
    tables.write_checkup(tmp_path)
    rows = (tmp_path / "checkup-rows.txt").read_text(encoding="utf-8")
    told = [line for line in rows.splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in told] == list(MEASURES)
    assert all(line.count(" | ") == 4 for line in told)
    rules = (tmp_path / "checkup-rules.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split("*")[1] for line in rules] == list(RULES)
    assert all(re.match(r"\d+\. \*[^*]+\*: \S", line) for line in rules)


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_names_what_there_is(name):
    """Its experiment, its source's system, what it needs; and its title fits."""
    measure = MEASURES[name]
    assert measure.name == name
    assert measure.experiment in EXPERIMENTS.names()
    assert len(measure.title) <= 50
    assert set(measure.needs) <= Known.__annotations__.keys()
    if measure.source.key in DOCUMENTS:
        assert document(measure.source.key).system(measure.source.system) is not None


def test_the_page_includes_what_is_generated(tables):
    page = (DOCS / "concepts" / "checkup.md").read_text(encoding="utf-8")
    included = re.findall(r"```\{include\} \.\./gallery/(\S+)", page)
    assert included == [tables.ROWS, tables.RULES_FILE]
