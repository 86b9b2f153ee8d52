"""Malformed words, files, archives and indexes by the thousand: one line each, nothing outside.

A few of each kind by default. `THEORYLAB_FUZZ=10000 pytest tests/lab/test_fuzz.py -n 0` makes as
many of each; `THEORYLAB_FUZZ_SEED` draws others.
"""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_up import made_up

from theorylab.cli import main
from theorylab.lab import Store
from theorylab.lab.archive import export

ROUNDS = int(os.environ.get("THEORYLAB_FUZZ", "40"))
SEED = int(os.environ.get("THEORYLAB_FUZZ_SEED", "0"))
NEIGHBOUR = "aaaa"
NAMES = """width ratio name sizes fair value low high verdict expected claim kind source system
place experiment key preset seconds date as_expected config.low config. and or not in any every none
true false inf"""
MARKS = """( ) ( ) , , = == != <> < <= > >= ~ ; -- /* */ ' " '' 'relu' "x" 'refuted' '2026-01' '%'
\\ $ ? ?1 :a @ 3 -1 1e9 1e999 .5 5. 0x1 1_0 99999999999999999999"""
WORDS = (*NAMES.split(), *MARKS.split(), "\0", "\n", "η", "\ud800")
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**400,
    1e308,
    "",
    "nan",
    "inf",
    "\ud800",
    "\0",
    "x" * 10**5,
    [],
    {},
    [[]],
    {"a": []},
    [None],
    "../../x",
    "\n",
)


@pytest.fixture
def store(tmp_path) -> Store:
    store = Store(tmp_path / "inner/store")
    store.prepare()
    store.write(made_up(NEIGHBOUR))
    store.write(made_up("bbbb", experiment="toys/dice"))
    return store


@pytest.fixture
def command(capsys) -> Callable[..., int]:
    """The command in this process: no traceback, and one line for what is refused."""

    def run(*words: str) -> int:
        code = main(words)
        said = capsys.readouterr()
        assert "Traceback" not in said.err, (words, said.err)
        assert "this is a bug" not in said.err, (words, said.err)
        assert code in (0, 1, 2), (words, said.err)
        assert code != 2 or (said.out == "" and len(said.err.splitlines()) == 1), (words, said)
        return code

    return run


def outside(store: Store) -> dict[str, bytes]:
    """Every file beside the store."""
    top = store.root.parents[1]
    files = (path for path in top.rglob("*") if not path.is_relative_to(store.root))
    return {str(path): path.read_bytes() for path in files if path.is_file()}


def test_words_of_where(store, command):
    chance, codes = random.Random(SEED), set()
    for _ in range(ROUNDS):
        words = [chance.choice(WORDS) for _ in range(chance.randrange(1, 12))]
        text = chance.choice([" ", ""]).join(words)
        if chance.random() < 0.3:
            text = f"width = 3 {chance.choice(['and', 'or'])} ({text})"
        codes.add(command("find", "--where", text, "--out", str(store.root)))
    assert codes <= {0, 2}
    assert len(store.find("width = 3")) == 2  # the tables are still there


def mutated(chance: random.Random, content: bytes) -> bytes:
    """Bytes that are flipped, cut out, put in, repeated, or cut off."""
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(content) + 1)
        kind = chance.randrange(5)
        if kind == 0 and content:
            place = min(place, len(content) - 1)
            content = content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :]
        elif kind == 1:
            content = content[:place] + content[place + chance.randrange(600) :]
        elif kind == 2:
            content = content[:place] + chance.randbytes(chance.randrange(600)) + content[place:]
        elif kind == 3:
            content = content[:place] + content[max(0, place - 512) :]
        else:
            content = content[:place]
    return content


def twisted(chance: random.Random, value: Any) -> Any:
    """JSON in which some entry is something else, is missing, or is new."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        name = chance.choice(list(value))
        kind = chance.randrange(8)
        if kind == 0:
            return {each: value[each] for each in value if each != name}
        if kind == 1:
            return value | {chance.choice(["new", "\ud800", "", "key"]): chance.choice(ODD)}
        return value | {name: twisted(chance, value[name])}
    if isinstance(value, list) and value and chance.random() < 0.7:
        place = chance.randrange(len(value))
        return [*value[:place], twisted(chance, value[place]), *value[place + 1 :]]
    return chance.choice(ODD)


def harm(chance: random.Random, folder: Path) -> None:
    """Change one file; half of the time its checksum fits."""
    file = chance.choice([path for path in sorted(folder.iterdir()) if path.is_file()])
    content = file.read_bytes()
    if file.suffix == ".json" and chance.random() < 0.6:
        content = json.dumps(twisted(chance, json.loads(content))).encode()
    else:
        content = mutated(chance, content)
    file.write_bytes(content)
    manifest = folder / "manifest.json"
    if file != manifest and chance.random() < 0.7:
        sums = json.loads(manifest.read_bytes())
        sums[file.name] = hashlib.sha256(content).hexdigest()
        manifest.write_text(json.dumps(sums))


def test_files_of_an_outcome(store, command, tmp_path):
    chance = random.Random(SEED + 1)
    before, asked = outside(store), ("--out", str(store.root))
    for _ in range(ROUNDS):
        folder = store.write(made_up("cccc"))
        harm(chance, folder)
        assert command("find", *asked, "--where", "width = 3 or value = 0.5", "--json") == 0
        assert command("find", *asked, "--csv") == 0
        assert command("verify", *asked) in (0, 1)
        assert command("gc", *asked) == 0
        file = tmp_path / "outcomes.tar"
        assert command("export", str(file), *asked) in (0, 1)
        file.unlink()
        heard: list[str] = []
        store.recall("toys/coin", "cccc", heard.append)
        assert all(len(line.splitlines()) == 1 for line in heard)
        assert store.recall("toys/coin", NEIGHBOUR, pytest.fail) is not None
        for each in (*store.set_aside(), folder):
            shutil.rmtree(each, ignore_errors=True)
    assert outside(store) == before


def broken(chance: random.Random, content: bytes) -> bytes:
    """An archive with a field of a header changed, its checksum fitting; or with other bytes."""
    if chance.random() < 0.3:
        return mutated(chance, content)
    headers = [p for p in range(0, len(content), 512) if content[p + 257 : p + 262] == b"ustar"]
    place = chance.choice(headers)
    block = bytearray(content[place : place + 512])
    first, last = chance.choice(
        [(0, 100), (124, 136), (136, 148), (156, 157), (157, 257), (345, 500)]
    )
    odd = [b"../../x", b"/etc/x", b"\0", b"77777777777", b"-1", b"5", b"2", b"\x80\xff", b"a/" * 40]
    new = chance.choice([*odd, chance.randbytes(5)])[: last - first]
    block[first : first + len(new)] = new
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    end = chance.choice([place + 512, place + 1024])  # a block of the content may be missing
    return content[:place] + bytes(block) + content[end:]


def test_archives(store, command, tmp_path):
    chance = random.Random(SEED + 2)
    for number in range(3):
        store.write(made_up(f"dd{number}", config={"width": number}))
    file = tmp_path / "whole.tar"
    export(store, store.folders(), file, pytest.fail)
    whole, other = file.read_bytes(), Store(tmp_path / "inner/other")
    other.prepare()
    (tmp_path / "x.tar").write_bytes(b"")
    before = outside(other)
    for _ in range(ROUNDS):
        (tmp_path / "x.tar").write_bytes(broken(chance, whole))
        code = command("import", str(tmp_path / "x.tar"), "--out", str(other.root))
        found = list(other.verified())
        assert [each for each in found if each.fault] == []
        assert code == 0 or found == []
        shutil.rmtree(other.root)
        other.root.mkdir()
    (tmp_path / "x.tar").write_bytes(b"")
    assert outside(other) == before


def test_indexes(store, command):
    """Every change is seen, and the index is made anew."""
    chance, asked = random.Random(SEED + 3), ("--out", str(store.root))
    folders = sorted(store.root.glob("toys/*/*"))
    command("find", *asked)
    index = store.root / ".index/outcomes.sqlite"
    whole = index.read_bytes()
    for _ in range(ROUNDS):
        index.write_bytes(mutated(chance, whole))
        for end in ("-journal", "-wal"):
            Path(f"{index}{end}").unlink(missing_ok=True)
            if chance.random() < 0.2:
                Path(f"{index}{end}").write_bytes(mutated(chance, whole[:2000]))
        if chance.random() < 0.5:
            assert command("find", *asked, "--where", "width = 3 or claim ~ 'η'", "--json") == 0
        assert len(store.find("width = 3")) == 2
    assert sorted(store.root.glob("toys/*/*")) == folders
    assert [each for each in store.verified() if each.fault] == []
    assert command("find", *asked, "--rebuild") == 0
