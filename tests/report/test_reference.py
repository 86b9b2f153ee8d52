"""The API reference of the documentation, which docs/reference.py reads off the code."""

import ast
import doctest
import importlib
import inspect
import json
import re
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import theorylab.kernels
from theorylab.experiments.tree import EXPERIMENTS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def load(monkeypatch):
    """Imports a module of docs/."""
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    return importlib.import_module


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The whole reference, written once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(DOCS), *sys.path])
        folder = tmp_path_factory.mktemp("reference")
        importlib.import_module("reference").write_reference(folder)
    return folder


def entries(text):
    """The signature and body of every function and class of a page, by name."""
    fence = r"^(`{3,})\{py:(?:function|class)\} (\w+)([^\n]*)\n(.*?)\n\1$"
    found = re.findall(fence, text, flags=re.M | re.S)
    return {name: (signature, body) for _, name, signature, body in found}


def test_a_room_shows_every_exported_name_with_its_arguments(pages):
    """Oracle: Python's own signatures and docstrings of what is imported."""
    shown = entries((pages / "kernels" / "index.md").read_text(encoding="utf-8"))
    for name in ("ntk", "posterior", "NTKRegressor", "infinite_kernels", "Costs"):
        exported = getattr(theorylab.kernels, name)
        signature, body = shown[name]
        arguments = ast.parse(f"def f{signature}: pass").body[0]
        assert isinstance(arguments, ast.FunctionDef)
        written = [*arguments.args.args, *arguments.args.kwonlyargs]
        typed = {each.arg: each.annotation is not None for each in written}
        parameters = inspect.signature(exported).parameters.values()
        assert typed == {each.name: each.annotation is not each.empty for each in parameters}
        plain = re.sub(r"[\\`]", "", body)
        assert re.sub(r"[\\`]", "", (inspect.getdoc(exported) or "").partition("\n")[0]) in plain


def test_types_have_the_names_under_which_the_reference_has_them(pages):
    signature, _ = entries((pages / "kernels" / "index.md").read_text(encoding="utf-8"))["ntk"]
    assert signature.startswith("(apply: theorylab.typing.Apply, params: theorylab.typing.Params")
    assert "jaxtyping.Float[jaxtyping.Array, 'n" in signature


def test_every_public_name_stands_once(pages, load):
    """Oracle: all definitions that the modules have, found by their files."""
    members = load("members")
    written = [
        (path.parent.relative_to(pages).parts[0], name)
        for path in pages.rglob("*.md")
        if path.parent != pages
        for name in entries(path.read_text(encoding="utf-8"))
    ]
    defined = [
        (file.relative_to(members.PACKAGE).parts[0], name)
        for file in members.PACKAGE.rglob("*.py")
        if len(file.relative_to(members.PACKAGE).parts) > 1
        if not any(part[0] == "_" for part in file.relative_to(members.PACKAGE).parts)
        if file.relative_to(members.PACKAGE).parts[0] not in members.UNDOCUMENTED
        for name, place in members.public(file).items()
        if isinstance(place.node, ast.FunctionDef | ast.ClassDef)
    ]
    assert sorted(written) == sorted(defined)


def test_a_module_has_only_what_its_room_does_not_export(pages):
    text = (pages / "kernels" / "zonal.md").read_text(encoding="utf-8")
    assert entries(text)
    exported = entries((pages / "kernels" / "index.md").read_text(encoding="utf-8"))
    assert not set(entries(text)) & set(exported)
    assert not any(name[0] == "_" for name in entries(text))


def test_every_page_is_in_a_table_of_contents(pages):
    reached = {pages / "index.md", pages / "experiments.md"}  # these two are in docs/index.md
    for page in pages.rglob("index.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), flags=re.S):
            reached |= {page.parent / f"{path}.md" for path in re.findall(r"<(.*)>", block)}
    assert reached == set(pages.rglob("*.md"))


def test_every_experiment_has_a_row(pages):
    table = (pages / "experiments.md").read_text(encoding="utf-8")
    assert re.findall(r"gallery/([\w/]+)\.md", table) == list(EXPERIMENTS.names())
    rows = MarkdownIt("commonmark").enable("table").render(table).count("<tr>")
    assert rows == len(EXPERIMENTS.names()) + table.count("|---|---|---|---|")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "class A:\n    x: int\n    y: float = 1.0\n    z: ClassVar[int] = 3",
            "(x: int, y: float = 1.0)",
        ),
        ("class A:\n    x: int\n    def __init__(self, *a: int): pass", "(*a: int)"),
        ("class A:\n    def __init__(self): pass", "()"),
        ("class A:\n    x: int\n    x: float = 2.0", "(x: float = 2.0)"),
        ("class A:\n    pass", ""),
    ],
)
def test_a_class_shows_what_makes_an_instance(load, code, expected):
    assert load("members").constructor(ast.parse(code).body[0]) == expected


def test_comments_behind_fields_describe_them_where_the_docstring_does_not(load, tmp_path):
    code = '@dataclass\nclass A:\n    """Two."""\n\n    x: int  # the first\n    y: int = 2\n'
    file = tmp_path / "a.py"
    file.write_text(code, encoding="utf-8")
    members, docstrings = load("members"), load("docstrings")
    known = members.comments(file, ast.parse(code).body[0])
    assert known == {"x": "the first"}
    assert ":param x: the first" in docstrings.as_markdown("Two.", known)
    assert "the first" not in docstrings.as_markdown("Two.\n\nArgs:\n    x: One.", known)


def test_values_of_constants_are_whole_options(pages):
    """Oracle: JSON. A text that is cut off must not leave a quote open."""
    texts = [path.read_text(encoding="utf-8") for path in pages.rglob("*.md")]
    values = [value for text in texts for value in re.findall(r"^:value: (.*)$", text, re.M)]
    assert any(value.endswith('…"') for value in values)
    assert all(isinstance(json.loads(value), str) for value in values)


def test_what_follows_the_arguments_is_prose_again(load):
    text = load("docstrings").as_markdown(
        "A.\n\nArgs:\n    x: One,\n        two.\n\nAfter `fit`: b_."
    )
    assert text == "A.\n\n:param x: One, two.\n\nAfter `fit`: b\\_."


@pytest.mark.parametrize("name", ["docstrings", "members", "reference", "generate"])
def test_the_examples_of_the_generators_run(load, name):
    assert doctest.testmod(load(name)).failed == 0
