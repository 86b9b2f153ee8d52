"""docs/check.py, which holds the built documentation to loading nothing from a network."""

import importlib
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def check(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    return importlib.import_module("check")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://cdn.example/m.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/f.css">'),
        ("a.html", '<img alt="" src="HTTP://b.example/c.png">'),
        ("a.html", '<iframe src="https://b.example/"></iframe>'),
        ("a.html", "<style>@import 'https://b.example/c.css';</style>"),
        ("a.html", '<p style="background: url(https://b.example/c.png)">'),
        ("a.css", "@font-face { src: url(https://b.example/f.woff2); }"),
        ("a.svg", '<svg><image xlink:href="https://b.example/c.png"/></svg>'),
    ],
)
def test_what_a_browser_would_load_is_told(check, tmp_path, name, text):
    (tmp_path / "index.html").write_text("<p>calm</p>")
    (tmp_path / name).write_text(text)
    assert check.main([str(tmp_path)]) == 1


def test_links_and_files_of_the_site_are_fine(check, tmp_path):
    page = (
        '<a href="https://b.example/">b</a> <script src="_static/a.js"></script> <img src="c.svg">'
    )
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "a.css").write_text("@font-face { src: url(fonts/f.woff2); }")
    assert check.main([str(tmp_path)]) == 0


def test_no_page_at_all_is_a_complaint(check, tmp_path):
    assert check.main([str(tmp_path)]) == 1
