"""The gallery of the documentation, which is made by docs/generate.py."""

import dataclasses
import importlib
import re
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def gallery(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    return importlib.import_module("generate")


def html(text):
    """What the parser of the documentation makes of a page, below its front matter."""
    return (
        MarkdownIt("commonmark")
        .enable("table")
        .render(re.sub(r"^---.*?---\n", "", text, flags=re.S))
    )


def test_every_outcome_gets_a_page_and_a_figure_at_any_depth(gallery, tmp_path, make):
    names = [
        "bias/diagonal_network",
        "dynamics/catapult",
        "features/agop/sgd",
        "features/agop/rank",
    ]
    folder = tmp_path / "gallery"
    folder.mkdir()
    (folder / "gone.md").write_text("of an experiment that is no more")
    gallery.write_gallery([make(name) for name in names], {}, folder)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
    pages = {f"{name}.{end}" for name in names for end in ("md", "svg")}
    folders = ("", "bias/", "dynamics/", "features/", "features/agop/")
    assert files == pages | {f"{each}index.md" for each in folders}


def test_every_link_of_an_index_leads_somewhere_and_every_page_is_in_one(gallery, tmp_path, make):
    names = ["dynamics/catapult", "features/agop/sgd", "features/lone"]
    others = {"systems": "# Systems"}
    gallery.write_gallery([make(name) for name in names], {}, tmp_path / "gallery", others)
    reached = set()
    for index in (tmp_path / "gallery").rglob("index.md"):
        text = index.read_text(encoding="utf-8")
        for path in re.findall(r"\]\(([^)]+)\)", text):
            assert (index.parent / path).is_file()
        (block,) = re.findall(r"```\{toctree\}\n:hidden:\n\n(.*?)\n```", text, flags=re.S)
        for path in re.findall(r"<(.*)>", block):
            assert (index.parent / f"{path}.md").is_file()
            reached.add((index.parent / f"{path}.md").resolve())
    assert reached == set((tmp_path / "gallery").rglob("*.md")) - {tmp_path / "gallery/index.md"}


def test_a_theme_counts_its_own_claims_only(gallery, make, judge):
    """Oracle: counting by hand, one claim and two."""
    agop = make("features/agop/sgd", judged=[judge()])
    other = make("features/lone", judged=[judge(), judge()])
    assert "1 claim:" in gallery.index_page([agop, other], "features/agop")
    assert "3 claims in 2 experiments" in gallery.index_page([agop, other], "features")


def test_a_page_shows_the_claims_the_formula_and_the_command(gallery, outcome):
    text = html(
        gallery.experiment_page(outcome, "About `x_1`.\n\n    f ← (1 - ηλ) f_0\n\nSource: zhu.")
    )
    assert "<math" in text
    assert "theorylab run dynamics/catapult\n" in text
    assert "<code>x_1</code>" in text
    assert '<pre><code class="language-text">f ← (1 - ηλ) f_0' in text
    assert text.count("<tr role=") == 1 + len(outcome.judged)
    assert "1.0,3.0,5.0" in text


def test_no_figure_leaves_no_broken_picture(gallery, make):
    failed = make("dynamics/catapult", figure="")
    assert ".svg" not in gallery.experiment_page(failed, "") + gallery.index_page([failed])


def test_hostile_text_is_only_text(gallery, hostile):
    """Oracle: the Markdown that the documentation is built with."""
    hostile = dataclasses.replace(hostile, experiment="dynamics/catapult")  # names are file names
    page = gallery.experiment_page(hostile, "<script>alert(1)</script> *a* _b_ [c](http://d) $e$")
    for text in (page, gallery.index_page([hostile], "dynamics")):
        assert not re.search(r"<(script|img src=http|em>[ab]|a href=.http)", html(text))
    assert r"\$e\$" in page, "no dollar begins a formula"


def test_no_outcome_gives_an_index_only(gallery, tmp_path):
    gallery.write_gallery([], {}, tmp_path / "gallery")
    assert [path.name for path in tmp_path.rglob("*.*")] == ["index.md"]


def test_columns_of_claims_share_the_width_that_there_is(gallery, outcome):
    """A fixed layout cannot push the verdict out of the page; the page must carry its class."""
    style = (DOCS / "_static" / "theorylab.css").read_text(encoding="utf-8")
    assert re.search(r"\.claims table \{[^}]*table-layout: fixed;[^}]*width: 100%", style)
    widths = [int(w) for w in re.findall(r"\.claims th:nth-child\(\d\) \{ width: (\d+)%", style)]
    assert len(widths) == 4
    assert sum(widths) == 100
    page = gallery.experiment_page(outcome, "")
    assert page.count("<div class='claims'>") == 1
    assert page.startswith("---\nhtml_theme.sidebar_secondary.remove: true\n")
