"""The index of the experiments against the experiments themselves, whatever happens to either."""

import hashlib
import json
import os
import threading
from pathlib import Path

import pytest

from theorylab.experiments.entry import Entry
from theorylab.experiments.tree import EXPERIMENTS, Tree
from theorylab.lab.outlines import index_path, outlines

SHARED = 'S = Source("zhu", "a", "b")\n'
EXPERIMENT = '''\
"""{title}"""
from ._shared import S
PRECISION = "float64"
FORMULA = "x"
class Config:
    width: int = 1
PRESETS = {{"smoke": Config(width=2)}}
CLAIMS = (S.claim("It holds.", judge),)
'''


@pytest.fixture
def shelf(tmp_path, monkeypatch) -> Tree:
    """Three small experiments that share a source, in files that count as old."""
    folder = tmp_path / "experiments" / "toys"
    folder.mkdir(parents=True)
    (folder / "_shared.py").write_text(SHARED)
    for name in ("one", "two", "three"):
        (folder / f"{name}.py").write_text(EXPERIMENT.format(title=f"Title {name}."))
    monkeypatch.setattr("theorylab.lab.outlines._TICK", -(10**15))
    return Tree(folder.parent, "toylab.experiments")


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The experiments whose files are read from here on."""
    seen: list[str] = []
    entry = Tree.entry

    def noted(tree: Tree, name: str) -> Entry:
        seen.append(name)
        return entry(tree, name)

    monkeypatch.setattr(Tree, "entry", noted)
    return seen


def told(tree: Tree, cache: Path) -> list[tuple]:
    """What lists would say of the experiments; no word of the index itself."""
    found = outlines(tree, cache, lambda line: pytest.fail(line))
    return [(each.name, each.title, each.description, each.claims) for each in found]


def read(tree: Tree) -> list[tuple]:
    """The same by the reader alone."""
    return [(each.name, each.title, each.description, each.claims) for each in tree.entries()]


def test_every_experiment_is_listed_as_it_is_read(tmp_path, monkeypatch, opened):
    """Oracle: the reader, on the real tree; the second time no file of it is read."""
    monkeypatch.setattr("theorylab.lab.outlines._TICK", -(10**15))
    assert told(EXPERIMENTS, tmp_path) == read(EXPERIMENTS)
    opened.clear()
    listed = told(EXPERIMENTS, tmp_path)
    assert opened == []
    assert listed == read(EXPERIMENTS)


def test_a_changed_file_is_read_again_and_no_other_one(shelf, tmp_path, opened):
    """Its size and its time of change are as before: the time of the inode tells."""
    assert [each[1] for each in told(shelf, tmp_path)] == [
        "Title one.",
        "Title three.",
        "Title two.",
    ]
    path = shelf.root / "toys/two.py"
    before = path.stat()
    path.write_text(path.read_text().replace("Title two.", "Title TWO."))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    opened.clear()
    assert "Title TWO." in [each[1] for each in told(shelf, tmp_path)]
    assert opened == ["toys/two"]
    assert told(shelf, tmp_path) == read(shelf)


def test_what_is_read_in_a_private_module_counts_too(shelf, tmp_path):
    assert {claims[0].source.key for *_, claims in told(shelf, tmp_path)} == {"zhu"}
    (shelf.root / "toys/_shared.py").write_text(SHARED.replace("zhu", "shi"))
    assert {claims[0].source.key for *_, claims in told(shelf, tmp_path)} == {"shi"}


def test_files_that_come_and_go_are_seen(shelf, tmp_path):
    told(shelf, tmp_path)
    (shelf.root / "toys/two.py").rename(shelf.root / "toys/four.py")
    assert [each[0] for each in told(shelf, tmp_path)] == ["toys/four", "toys/one", "toys/three"]


def test_a_file_that_was_changed_just_now_is_not_kept(shelf, tmp_path, monkeypatch, opened):
    """A second change within the clock's tick would leave the same state."""
    monkeypatch.setattr("theorylab.lab.outlines._TICK", 10**15)
    told(shelf, tmp_path)
    opened.clear()
    told(shelf, tmp_path)
    assert opened == ["toys/one", "toys/three", "toys/two"]


def test_an_experiment_that_cannot_be_read_is_named_each_time(shelf, tmp_path):
    (shelf.root / "toys/two.py").write_text("nothing")
    for _ in range(2):
        lines: list[str] = []
        found = outlines(shelf, tmp_path, lines.append)
        assert [each.name for each in found] == ["toys/one", "toys/three"]
        assert len(lines) == 1
        assert "toys/two.py:1: an experiment needs a docstring" in lines[0]


def test_what_other_code_has_read_is_read_again(shelf, tmp_path, monkeypatch, opened):
    told(shelf, tmp_path)
    monkeypatch.setattr("theorylab.lab.outlines._code_states", lambda: [(1, 2, 3, 4)])
    opened.clear()
    told(shelf, tmp_path)
    assert len(opened) == 3


def sealed(text: str) -> bytes:
    """An index with a fitting digest, whatever it says."""
    return hashlib.sha256(text.encode()).hexdigest().encode() + b"\n" + text.encode()


def with_rows(content: bytes, **changes: object) -> bytes:
    """An index whose first row is another one."""
    whole = json.loads(content[65:])
    first = min(whole["rows"])
    whole["rows"][first] = whole["rows"][first] | changes
    return sealed(json.dumps(whole))


DAMAGE = {
    "empty": lambda content: b"",
    "cut": lambda content: content[:200],
    "changed": lambda content: content.replace(b"Title", b"Tutle"),
    "no text": lambda content: bytes(range(256)),
    "no object": lambda content: sealed("[1, 2]"),
    "deep": lambda content: sealed("[" * 100_000),
    "no rows": lambda content: sealed('{"code": 3, "rows": 4}'),
    "a number for a title": lambda content: with_rows(content, title=3),
    "a number for claims": lambda content: with_rows(content, claims=3),
    "claims of numbers": lambda content: with_rows(content, claims=[[1] * 11]),
    "short claims": lambda content: with_rows(content, claims=[["a"]]),
    "no files": lambda content: with_rows(content, files={}),
    "files of numbers": lambda content: with_rows(content, files={"a": 3}),
    "a file of no name": lambda content: with_rows(content, files={"\0": [1, 2, 3, 4]}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_is_no_matter(shelf, tmp_path, damage):
    expected = told(shelf, tmp_path)
    path = index_path(shelf, tmp_path)
    content = path.read_bytes()
    path.write_bytes(DAMAGE[damage](content))
    assert path.read_bytes() != content
    assert told(shelf, tmp_path) == expected
    assert path.read_bytes() == content  # mended


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and links")
@pytest.mark.parametrize("kind", ["pipe", "loop", "folder", "endless"])
def test_an_index_that_is_no_file_is_no_matter(shelf, tmp_path, kind):
    path = index_path(shelf, tmp_path)
    path.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        (path / "inside").mkdir(parents=True)
    else:
        path.symlink_to(path if kind == "loop" else "/dev/zero")
    assert told(shelf, tmp_path) == read(shelf)


def test_a_cache_that_cannot_be_written_is_no_matter(shelf, tmp_path, opened):
    """A file stands where the folder should be; so that it holds for the administrator too."""
    (tmp_path / "cache").write_text("")
    for _ in range(2):
        assert told(shelf, tmp_path / "cache") == read(shelf)
    assert (tmp_path / "cache").read_text() == ""


def test_processes_at_the_same_time_leave_a_whole_index(shelf, tmp_path, opened):
    expected, answers = read(shelf), []

    def ask() -> None:
        for _ in range(10):
            index_path(shelf, tmp_path).unlink(missing_ok=True)
            answers.append(told(shelf, tmp_path) == expected)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 40
    told(shelf, tmp_path)
    opened.clear()
    assert told(shelf, tmp_path) == expected
    assert opened == []
    assert [path.name for path in (tmp_path / "index").iterdir()] == [
        index_path(shelf, tmp_path).name
    ]
