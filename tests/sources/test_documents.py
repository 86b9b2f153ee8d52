import importlib
import tomllib
from pathlib import Path

import pytest

from theorylab import sources
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.sources import DOCUMENTS, document

SYSTEMS = [(key, system) for key in DOCUMENTS for system in document(key).systems]


def test_all_systems_are_there():
    """Oracle: the number of headings of the five lists that the systems come from."""
    numbers = {key: len(document(key).systems) for key in DOCUMENTS}
    assert numbers == {"arora": 98, "golikov": 59, "karp": 30, "shi": 88, "zhu": 37}


def test_every_claim_is_about_a_system_that_is_listed():
    unknown = {
        str(claim.source)
        for entry in EXPERIMENTS.entries()
        for claim in entry.claims
        if document(claim.source.key).system(claim.source.system) is None
    }
    assert unknown == set()


@pytest.mark.parametrize("key", DOCUMENTS)
def test_ids_are_unique_and_every_system_says_what_and_where(key):
    systems = document(key).systems
    ids = [name for each in systems for name in (each.id, *each.also)]
    assert len(set(ids)) == len(ids)
    assert all(each.title and each.place and each.chapter for each in systems)


@pytest.mark.parametrize("tool", sorted({each.tool for _, each in SYSTEMS if each.tool}))
def test_a_tool_is_a_module_of_the_library(tool):
    assert importlib.import_module(f"theorylab.{tool}").__doc__


def test_an_erratum_is_judged_by_experiments_that_exist_or_says_why_not():
    names = EXPERIMENTS.names()
    for key in DOCUMENTS:
        for erratum in document(key).errata:
            assert erratum.judged or erratum.why, erratum
            assert set(erratum.judged) <= set(names), erratum


def test_every_experiment_that_judges_a_misprint_is_named_by_an_erratum():
    named = {name for key in DOCUMENTS for each in document(key).errata for name in each.judged}
    judging = {
        entry.name
        for entry in EXPERIMENTS.entries()
        if any(claim.kind == "printed" and claim.source.key in DOCUMENTS for claim in entry.claims)
    }
    assert judging - named == set()


def test_a_system_is_found_by_each_of_its_ids():
    shi = document("shi")
    assert shi.system("exp-vary-n") is shi.system("exp-vary-d")
    assert shi.system("no-such-system") is None


def test_another_document_is_refused():
    with pytest.raises(KeyError, match="must be one of arora, golikov, karp, shi, zhu, got 'x'"):
        document("x")


def test_citations_come_from_the_files():
    """Oracle: the files, parsed whole."""
    for path in Path(sources.__file__).parent.glob("*.toml"):
        head = tomllib.loads(path.read_text(encoding="utf-8"))
        assert DOCUMENTS[path.stem] == f"{head['author']}, {head['title']}, {head['published']}"
