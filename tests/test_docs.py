"""The docs are true: every Python block of every page runs, page by page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "concepts").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page):
    """Oracle: Python itself. The blocks of a page share one namespace, in their order."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
    assert blocks or page.stem in {"generalization", "lab"}, "a page shows how it is used"


def test_every_room_has_its_page():
    pages = {page.stem for page in PAGES} | {
        "experiments",
        "report",
        "cli",
    }  # told in lab and README
    rooms = {path.name for path in (ROOT / "src" / "theorylab").iterdir() if path.is_dir()}
    assert rooms - {"__pycache__"} <= pages
