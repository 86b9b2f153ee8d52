"""A crash at every file operation, a disk that is full or read-only: no finished outcome is lost.

Whatever happened, the store opens, what was finished is there, and nothing partial is to be seen.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and SIGKILL")

HERE = Path(__file__).parent
BEGIN = f"""
import errno, os, shutil, sys, tempfile
from pathlib import Path
sys.path.insert(0, {str(HERE)!r})
import crashing
from made_up import made_up
from theorylab.experiments.tree import Tree
from theorylab.lab import Store
from theorylab.lab.archive import export, import_archive
from theorylab.lab.blocks import BlockFolder
from theorylab.lab.failure import Refused, one_line
from theorylab.lab.index import find
from theorylab.lab.reach import garbage
from theorylab.lab.writing import remove_folder
from theorylab.cli.keeping import _remove
assert "jax" not in sys.modules  # its threads do not survive a fork
top = Path(sys.argv[1])
root, archive = top / "store", top / "outcomes.tar"
store = Store(root)

def seconds():
    "What the store holds, by reading all of it: key ─► seconds; nothing of it is damaged."
    here = Store(root)
    here.prepare()
    assert [each for each in here.verified() if each.fault] == []
    assert here.set_aside() == [] or kind == 'gc'
    return {{outcome.key: outcome.seconds for _, outcome in here.readable()}}

def litter():
    names = [path.name for path in (*root.rglob("*"), *top.iterdir())]
    return [name for name in names if ".writing-" in name]

def write(*keys, seconds=1.0, **changes):
    for key in keys:
        store.write(made_up(key, seconds=seconds, **changes))

GONE = f".writing-{{os.uname().nodename}}-4194305-x"  # no process has such a number
kind = ""
store.prepare()
write("aa", "ab")
"""
# What is done, what must be there afterwards, whatever happened: keys with the seconds they may
# have, and None if an outcome may be missing.
WORK = {
    "write": """
work = lambda: write("ac")
may = {"aa": {1.0}, "ab": {1.0}, "ac": {1.0, None}}
""",
    "replace": """
work = lambda: store.write(made_up("aa", seconds=2.0), replace=True)
may = {"aa": {1.0, 2.0}, "ab": {1.0}}
""",
    "delete": """
work = lambda: store.delete(store.path("toys/coin", "aa"))
may = {"aa": {1.0, None}, "ab": {1.0}}
""",
    "set aside": """
(store.path("toys/coin", "ab") / "figure.svg").write_text("")
work = lambda: (store.recall("toys/coin", "ab", print), write("ab"))
def seconds():
    here = Store(root)
    here.prepare()
    found = {key: here.recall("toys/coin", key, lambda text: None) for key in ("aa", "ab")}
    return {key: outcome.seconds for key, outcome in found.items() if outcome}
may = {"aa": {1.0}, "ab": {1.0, None}}
""",
    "import": """
other = Store(top / "other")
other.prepare()
for key in ("aa", "b1"):
    other.write(made_up(key, seconds=3.0))
other.write(made_up("b2", seconds=3.0, experiment="toys/dice"))
export(other, other.folders(), archive, print)
shutil.rmtree(other.root)
work = lambda: import_archive(store, archive)
may = {"aa": {1.0}, "ab": {1.0}} | {key: {3.0, None} for key in ("b1", "b2")}
""",
    "export": """
def work():
    archive.unlink(missing_ok=True)
    export(store, store.folders(), archive, print)
may = {"aa": {1.0}, "ab": {1.0}}
""",
    "index": """
find(root)
write("ac", experiment="toys/dice")
store.delete(store.path("toys/coin", "ab"))
work = lambda: find(root)
may = {"aa": {1.0}, "ac": {1.0}}
""",
    "first index": """
work = lambda: find(root)
may = {"aa": {1.0}, "ab": {1.0}}
""",
    "gc": """
(root / "toys/coin/ad.damaged-1").mkdir()
(root / f"{GONE}/outcome").mkdir(parents=True)
os.utime(root / GONE, (0, 0))
BlockFolder(root, "aa").write(0, 0, [], 100.0)
write("c1", experiment="own/mine")
def work():
    for each in garbage(store, Tree(top / "none", "none"), top, 30):
        _remove(store, each)
may = {"aa": {1.0, None}, "ab": {1.0, None}, "c1": {1.0}}
""",
    "prepare": """
(root / GONE).mkdir()
(root / f"{GONE}/goal").write_text("toys/coin/ab")
store.path("toys/coin", "ab").rename(root / f"{GONE}/replaced")
os.utime(root / GONE, (0, 0))
work = store.prepare
may = {"aa": {1.0}, "ab": {1.0}}
""",
}
CHECKED = """
def check(moment):
    indexed = {hit.key: hit.seconds for hit in find(root)}
    found = seconds()
    for key in found.keys() | may.keys():
        assert found.get(key) in may.get(key, set()), (moment, key, found)
    assert set(indexed) <= may.keys(), (moment, indexed)
    assert {hit.key: hit.seconds for hit in find(root)} == found, (moment, found)
    if archive.exists():
        copy = Store(top / "copy")
        import_archive(copy, archive)
        assert len(list(copy.verified())) >= len(found) - 2
        shutil.rmtree(copy.root)
    work()  # what was stopped can be done again, and then all of it is there
    wanted = {key: values - {None} for key, values in may.items()}
    if kind in ("write", "import", "set aside", "replace"):
        found = seconds()
        assert all(found[key] in values for key, values in wanted.items()), (moment, found)
    assert litter() == [], (moment, litter())
"""
CRASH = """
print(crashing.at_every_operation(work, check, root))
"""


@pytest.fixture
def folder(tmp_path) -> Iterator[Path]:
    """A folder in memory where there is one: to wait for the disk takes most of the time."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="theorylab-", dir=memory) as name:
        yield Path(name)


def ran(script: str, folder: Path) -> list[str]:
    """Run a script in a process of its own; gives the lines that it prints."""
    command = [sys.executable, "-c", script, str(folder)]
    environment = os.environ | {"THEORYLAB_CACHE": str(folder / "cache")}
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


LEAST = {"write": 30, "replace": 30, "import": 45, "gc": 20, "export": 15, "prepare": 8}


@pytest.mark.parametrize("kind", WORK)
def test_killed_at_every_file_operation(folder, kind):
    script = BEGIN + f"kind = {kind!r}\n" + WORK[kind] + CHECKED + CRASH
    assert int(ran(script, folder)[-1]) >= LEAST.get(kind, 4)


REFUSED = """
number, moment, reached = getattr(errno, sys.argv[2]), 1, True
while reached:
    reached, error = crashing.refused(work, moment, number)
    if reached and error is not None:
        # The disk's own words, on one line.
        assert isinstance(error, (OSError, Refused)), (moment, error)
        assert os.strerror(number) in str(error), (moment, error)
        assert len(str(error).splitlines()) == 1
    for draft in root.glob(".writing-*"):
        assert number == errno.EROFS or (draft / "replaced").exists(), (moment, litter())
        os.utime(draft, (0, 0))  # after the minute in which this process might still mend it
    found = seconds()
    for key in found.keys() | may.keys():
        assert found.get(key) in may.get(key, set()), (moment, key, found)
    for draft in [*root.glob(".writing-*"), *top.glob(".outcomes.tar*")]:
        # Nothing can be deleted there; who lives may still put back what it was replacing.
        assert number == errno.EROFS or kind == 'replace', (moment, litter())
        remove_folder(draft) if draft.is_dir() else draft.unlink()
    moment += 1
    if moment > 300:
        raise AssertionError("it does not end")
    if kind == "write":
        shutil.rmtree(store.path("toys/coin", "ac"), ignore_errors=True)
    if kind == "import":
        for name in ("coin/b1", "dice"):
            shutil.rmtree(root / "toys" / name, ignore_errors=True)
print(moment)
"""


@pytest.mark.parametrize("number", ["ENOSPC", "EROFS"])
@pytest.mark.parametrize("kind", ["write", "replace", "delete", "import", "export", "index"])
def test_a_disk_that_refuses_from_any_operation_on(folder, kind, number):
    """Every one in turn: the store keeps what it had, and the error is the disk's own."""
    script = (
        BEGIN + f"kind = {kind!r}\n" + WORK[kind] + REFUSED.replace("sys.argv[2]", repr(number))
    )
    assert int(ran(script, folder)[-1]) > 2


MOUNTED = """
import contextlib, io
from theorylab.cli import main

def command(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*words, "--out", str(root)])
    lines = err.getvalue().splitlines()
    assert "Traceback" not in err.getvalue(), err.getvalue()
    return code, out.getvalue().splitlines(), lines

export(store, store.folders(), archive, print)
write("ac")
export(store, store.folders(), top / "more.tar", print)
store.delete(store.path("toys/coin", "ac"))
with contextlib.suppress(OSError):
    with open(root / "filler", "wb") as file:
        while FULL:
            file.write(bytes(4096))
            file.flush()
if not FULL:
    assert os.system(f"mount -o remount,ro {root}") == 0
whole = {"aa": 1.0, "ab": 1.0}
words = "No space left" if FULL else "Read-only file system"
assert [line.split()[0] for line in command("find")[1]] == ["toys/coin/aa", "toys/coin/ab"]
assert command("verify")[0] == 0
code, _, lines = command("import", str(top / "more.tar"))
assert code in (2, 3) and len(lines) == 1 and (words in lines[0] or "room" in lines[0]), lines
try:
    write("ac")
except OSError as error:
    assert words in str(error), error
else:
    raise AssertionError("it was written")
try:
    store.write(made_up("aa", seconds=2.0), replace=True)
except OSError as error:
    assert words in str(error), error
else:
    raise AssertionError("it was written")
code, _, lines = command("forget", "toys/coin", "--dry-run")
assert code == 0
assert {outcome.key: outcome.seconds for _, outcome in Store(root).readable()} == whole
assert litter() == [], litter()
if FULL:  # what is in the way can be deleted
    store.delete(store.path("toys/coin", "aa"))
    os.remove(root / "filler")
    whole.pop("aa")
    write("ac")
    assert seconds() == whole | {"ac": 1.0}
else:
    code, _, lines = command("forget", "toys/coin")
    assert code == 3 and len(lines) == 1 and words in lines[0], lines
    assert {outcome.key: outcome.seconds for _, outcome in Store(root).readable()} == whole
print("done")
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
@pytest.mark.parametrize("full", [True, False], ids=["full", "read-only"])
def test_a_real_disk_that_is_full_or_read_only(tmp_path, full):
    """A file system in memory, mounted where nobody else sees it."""
    (tmp_path / "store").mkdir()
    mount = f"mount -t tmpfs -o size=300k tmpfs {tmp_path}/store"
    if subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount], capture_output=True, check=False
    ).returncode:
        pytest.skip("this machine lets nobody mount a file system")
    script = tmp_path / "script.py"
    script.write_text(BEGIN + f"FULL = {full}\n" + MOUNTED, encoding="utf-8")
    run = f"{mount} && exec {sys.executable} {script} {tmp_path}"
    environment = os.environ | {"THEORYLAB_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", run],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
        check=False,
    )
    assert done.stdout.endswith("done\n"), done.stderr


WRITERS = """
sys_seed = int(sys.argv[2])
import random
chance = random.Random(sys_seed)
for number in range(30):
    store.write(made_up(f"{sys_seed:02d}{number:02d}", seconds=1.0))
    store.write(made_up("ee", seconds=float(sys_seed)), replace=chance.random() < 0.5)
    if number % 5 == 0:
        store.write(made_up("aa", experiment="toys/dice"))
        store.delete(store.path("toys/dice", "aa"))
    assert Store(root).recall("toys/coin", "aa", print) is not None
"""


def test_processes_that_write_the_same_and_others_at_once_lose_nothing(folder):
    ran(BEGIN, folder)
    script = BEGIN.replace('write("aa", "ab")', "") + WRITERS
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(folder), str(seed)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in (11, 12, 13)
    ]
    for process in running:
        _, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors
    script = (
        BEGIN + "found = seconds()\nprint(len(found), found['ee'] in (11.0, 12.0, 13.0), litter())"
    )
    assert ran(script, folder) == [f"{2 + 3 * 30 + 1} True []"]
