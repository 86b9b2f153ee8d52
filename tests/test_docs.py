"""The docs are true: every Python block of every page runs, page by page."""

import re
from pathlib import Path

import pytest

from theorylab.cli import main
from theorylab.experiments.tree import Tree
from theorylab.sources import DOCUMENTS

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "from-neural-tangents.md",
    ROOT / "docs" / "your-own-network.md",
    ROOT / "docs" / "watching.md",
    ROOT / "docs" / "store.md",
    *sorted((ROOT / "docs" / "concepts").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page):
    """Oracle: Python itself. The blocks of a page share one namespace, in their order."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
    assert blocks or page.stem in {"index", "generalization", "lab"}, "a page shows how it is used"


def test_every_room_has_its_page():
    pages = {page.stem for page in PAGES} | {
        "experiments",
        "report",
        "cli",
    }  # told in lab and README
    rooms = {path.name for path in (ROOT / "src" / "theorylab").iterdir() if path.is_dir()}
    assert rooms - {"__pycache__"} <= pages


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_sources_are_named_where_a_newcomer_looks(page):
    text = (ROOT / page).read_text(encoding="utf-8").replace("*", "")
    for key, document in DOCUMENTS.items():
        assert f"| `{key}` | {document} |" in text


def test_the_experiment_of_the_ten_minutes_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    """Oracle: the command line, on a tree with nothing but the page's own block."""
    page = ROOT / "docs" / "add-an-experiment.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    folder = tmp_path / "guests" / "experiments" / "kernels"
    folder.mkdir(parents=True)
    for package in (tmp_path / "guests", folder.parent, folder):
        (package / "__init__.py").write_text("")
    assert block.count("\n") <= 70, "a new experiment is short"
    (folder / "my_law.py").write_text(block, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("THEORYLAB_CACHE", str(tmp_path / "cache"))

    tree = Tree(tmp_path / "guests" / "experiments", "guests.experiments")
    asked = ["run", "kernels/my_law", "--preset", "smoke", "--out", str(tmp_path / "store")]
    assert main(asked, tree) == 0
    assert "supported" in capsys.readouterr().out
