"""The gallery of the documentation, which is made by docs/generate.py."""

import dataclasses
import importlib
import re
import sys
from pathlib import Path

import markdown as python_markdown
import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def gallery(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    return importlib.import_module("generate")


def html(text):
    return python_markdown.markdown(text, extensions=["tables", "admonition"])


def test_every_outcome_gets_a_page_and_a_figure(gallery, tmp_path, make):
    outcomes = [make("bias/diagonal_network"), make("dynamics/catapult"), make("dynamics/edge")]
    (tmp_path / "gallery").mkdir()
    (tmp_path / "gallery" / "gone.md").write_text("of an experiment that is no more")
    gallery.write_gallery(outcomes, {}, tmp_path / "gallery")
    files = {path.name for path in tmp_path.rglob("*.*")}
    pages = {
        f"{name}.{end}"
        for name in ("diagonal_network", "catapult", "edge")
        for end in ("md", "svg")
    }
    assert files == {"index.md", *pages}
    index = (tmp_path / "gallery" / "index.md").read_text(encoding="utf-8")
    for path in re.findall(r"\]\(([^)]+)\)", index):
        assert (tmp_path / "gallery" / path).is_file()
    assert index.count("## dynamics") == 1


def test_a_page_shows_the_claims_the_formula_and_the_command(gallery, outcome):
    text = html(
        gallery.experiment_page(outcome, "About `x_1`.\n\n    f ← (1 - ηλ) f_0\n\nSource: zhu.")
    )
    assert "<math" in text
    assert "theorylab run dynamics/catapult\n" in text
    assert "<code>x_1</code>" in text
    assert "<pre><code>f ← (1 - ηλ) f_0" in text
    assert text.count("<tr role=") == 1 + len(outcome.judged)
    assert "1.0,3.0,5.0" in text


def test_hostile_text_is_only_text(gallery, hostile):
    """Oracle: the Markdown that the documentation is built with."""
    hostile = dataclasses.replace(hostile, experiment="dynamics/catapult")  # names are file names
    page = gallery.experiment_page(hostile, "<script>alert(1)</script> *a* _b_ [c](http://d)")
    for text in (html(page), html(gallery.index_page([hostile]))):
        assert not re.search(r"<(script|img src=http|em>[ab]|a href=.http)", text)


def test_no_outcome_gives_an_index_only(gallery, tmp_path):
    gallery.write_gallery([], {}, tmp_path / "gallery")
    assert [path.name for path in tmp_path.rglob("*.*")] == ["index.md"]
