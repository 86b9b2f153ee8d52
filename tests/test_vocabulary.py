"""One word for one thing: signatures and settings use the words of docs/notation.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "theorylab"
FILES = sorted(PACKAGE.rglob("*.py"))
# What is still to follow: for each file, the words that it may use for now. It only shrinks.
STILL: dict[str, set[str]] = {
    "experiments/features/local_signal/activation_sparsity.py": {"epochs"},
}

# Words that are not ours to choose: the arguments of the library whose names a module has.
THEIRS = {"compat/sampling.py": {"n_samples"}}


def banned() -> dict[str, str]:
    """Every word that is not used here, with the one that is, as the page on notation has it."""
    page = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`) \| (.+?) \|", page.split("## One word for one thing")[1], re.M)
    return {word: here[1:-1] for here, words in rows for word in re.findall(r"`(\w+)`", words)}


def public_words(tree: ast.Module) -> Iterator[str]:
    """Arguments of public functions and methods, and fields of public classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            functions, fields = [node], []
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            functions = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            fields = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
        else:
            continue
        yield from (field.id for field in fields if isinstance(field, ast.Name))
        for function in functions:
            if not function.name.startswith("_") or function.name in ("__init__", "__call__"):
                given = function.args
                yield from (a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def synonyms(source: str) -> set[str]:
    """The words of a source text for which there is another word."""
    return set(public_words(ast.parse(source))) & banned().keys()


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_signatures_use_the_one_word(path):
    name = name_of(path)
    found = synonyms(path.read_text(encoding="utf-8"))
    found -= STILL.get(name, set()) | THEIRS.get(name, set())
    assert not found, {word: f"use {banned()[word]}" for word in found}


@pytest.mark.parametrize("name", STILL)
def test_what_is_still_to_follow_is_there(name):
    """A file that follows is taken off the list."""
    assert synonyms((PACKAGE / name).read_text(encoding="utf-8")) >= STILL[name]


def test_a_synonym_is_seen():
    function = "def mlp(num_inputs, depth, *, lr=0.1): ..."
    config = "class Config:\n    num_tests: int = 3\n    def _private(self, num_layers): ..."
    assert synonyms(f"{function}\n{config}") == {"num_inputs", "lr", "num_tests"}


def test_the_table_bans_no_word_that_it_uses():
    assert len(banned()) > 30
    assert not set(banned().values()) & banned().keys()
