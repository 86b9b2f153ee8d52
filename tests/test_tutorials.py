"""The tutorials' pages show what their code gives."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
from tutorials import SOURCES, as_notebook, as_page, cells_of, run_cells

PAGE = """# Title

```python
print("seen")
x = 20
```

Then:

```python
x + 1
```
"""


def test_the_blocks_of_a_page_share_one_namespace():
    """Oracle: Python."""
    first, second = (cell.output for cell in run_cells(PAGE) if cell.is_code)
    assert (first.printed, first.text, second.text) == ("seen\n", "", "21")


def test_a_page_shows_results_below_its_code(tmp_path):
    page = as_page(list(run_cells(PAGE)), tmp_path, "example")
    assert page.index("x + 1") < page.index("```text\n21\n```")


def test_a_figure_becomes_a_file_beside_the_page(tmp_path):
    source = "```python\nimport matplotlib.pyplot as plt\nplt.figure()\n```\n"
    as_page(list(run_cells(source)), tmp_path, "example")
    assert "<svg" in (tmp_path / "example-0.svg").read_text(encoding="utf-8")


def test_a_notebook_holds_the_same_cells():
    notebook = json.loads(json.dumps(as_notebook(list(run_cells(PAGE)))))
    kinds = [cell["cell_type"] for cell in notebook["cells"]]
    assert kinds == ["markdown", "code", "markdown", "code"]
    assert notebook["cells"][3]["outputs"][0]["data"]["text/plain"] == "21"


@pytest.mark.parametrize("path", sorted(SOURCES.glob("*.md")), ids=lambda path: path.stem)
def test_a_tutorial_has_a_title_and_ends_with_a_picture(path):
    cells = list(cells_of(path.read_text(encoding="utf-8")))
    last = [cell for cell in cells if cell.is_code][-1]
    assert cells[0].source.startswith("# ")
    assert ".plot(" in last.source or "figure" in last.source
