"""The key changes with whatever may change the numbers, and with nothing else."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import pytest

import theorylab
from theorylab.experiments.reader import read
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.lab.conduct import precision
from theorylab.lab.definitions import Definitions
from theorylab.lab.key import digest, key, sources

EXPERIMENT = '''\
"""Title."""
from ..tools import helper
from .. import constants as c
import mylab.deep.down
from theorylab.progress import report
import json

PRECISION = "float64"
FORMULA = ""
class Config:
    width: int = 1
PRESETS = {}
CLAIMS = ()
def run(config):
    from mylab.late import later
'''


FILES = {
    "__init__.py": "",
    "tools.py": "from .hidden import x",
    "hidden.py": "x = 1",
    "constants.py": "",
    "late.py": "",
    "unrelated.py": "",
    "deep/__init__.py": "from . import beside",
    "deep/beside.py": "from ...mylab import nothing",
    "deep/down.py": "",
    # A room that re-exports, in every way in which that is done.
    "room/__init__.py": '''"""A room."""
from typing import TYPE_CHECKING
from theorylab.lazy import lazy
from . import plain
from .first import one as one, two
from .inner import deepest, other as renamed
if TYPE_CHECKING:
    from .lazily import slow as slow
_LATER = {"slow": ".lazily", "hidden_slow": ".lazily"}
__getattr__, __dir__ = lazy(__name__, _LATER)
''',
    "room/plain.py": "",
    "room/first.py": "from .below import b",
    "room/below.py": "b = 1",
    "room/second.py": "",
    "room/lazily.py": "slow = hidden_slow = 1",
    "room/inner/__init__.py": "from .bottom import deepest\nfrom .bottom2 import other",
    "room/inner/bottom.py": "deepest = 1",
    "room/inner/bottom2.py": "other = 1",
    "toys/__init__.py": "",
    "toys/coin.py": EXPERIMENT,
}
ROOM = {"plain", "first", "below", "second", "lazily", "inner.bottom", "inner.bottom2"}


@pytest.fixture
def mylab(tmp_path: Path) -> Path:
    root = tmp_path / "mylab"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def key_of(root: Path, **config) -> str:
    return key(read(root / "toys/coin.py"), "mylab.toys.coin", {"width": 1} | config)


def test_sources_are_all_that_is_used_here_or_in_theorylab(mylab):
    found = sources(mylab / "toys/coin.py", "mylab.toys.coin").modules
    inner = {"tools", "hidden", "constants", "late", "deep.down"}
    expected = {"mylab.toys.coin"} | {f"mylab.{name}" for name in inner}
    assert set(found) == expected | {"theorylab.progress"}


@pytest.mark.parametrize(
    ("program", "modules"),
    [
        ("from mylab.room import one", {"first", "below"}),
        ("from mylab.room import two as zwei", {"first", "below"}),
        ("from ..room import deepest", {"inner.bottom"}),
        ("from mylab.room import renamed", {"inner.bottom2"}),
        ("from mylab.room import slow", {"lazily"}),
        ("from mylab.room import hidden_slow", {"lazily"}),
        ("from mylab.room import second", {"second"}),  # a module that nothing re-exports
        ("from mylab.room import plain", {"plain"}),
        ("from mylab import room\nroom.one(room.plain.x)", {"first", "below", "plain"}),
        ("import mylab.room as r\nr.inner.deepest()", {"inner.bottom"}),
        ("import mylab.room\nmylab.room.one.lower()", {"first", "below"}),
        ("import mylab.room.second", {"second"}),
        ("from mylab.room.first import one", {"first", "below"}),
        ("def f():\n    from mylab.room.inner import other", {"inner.bottom2"}),
        # What cannot be followed is all of the room.
        ("from mylab import room\nprint(getattr(room, name))", ROOM),
        ("from mylab.room import *", ROOM),
        ("from mylab.room import unknown", ROOM),
        ("import mylab.room as r\nr.unknown()", ROOM),
        ("import mylab.room", ROOM),
    ],
)
def test_a_name_is_followed_to_the_module_that_defines_it(mylab, program, modules):
    (mylab / "toys/coin.py").write_text(program)
    found = sources(mylab / "toys/coin.py", "mylab.toys.coin").modules
    inner = {name.removeprefix("mylab.room.") for name in found if name.startswith("mylab.room.")}
    assert inner - {"inner"} == modules


def test_what_an_init_defines_itself_makes_it_a_source(mylab):
    (mylab / "toys/coin.py").write_text("from mylab.room import one")
    with (mylab / "room/__init__.py").open("a") as file:
        file.write("\nOWN = one + 1\n")
    found = sources(mylab / "toys/coin.py", "mylab.toys.coin").modules
    assert "mylab.room" in found  # importing `one` runs it, whatever it does


def test_computed_imports_stand_for_the_whole_room(mylab):
    (mylab / "room/first.py").write_text("import importlib\none = importlib.import_module(name)")
    (mylab / "toys/coin.py").write_text("from mylab.room import one")
    found = sources(mylab / "toys/coin.py", "mylab.toys.coin").modules
    assert {f"mylab.room.{name}" for name in ROOM} - {"mylab.room.below"} <= set(found)


def test_a_name_that_comes_from_another_module_now_changes_the_key(mylab):
    """Both modules are sources before and after: only the way from name to module differs."""
    (mylab / "toys/coin.py").write_text(
        EXPERIMENT + "from mylab.room import one, renamed, deepest\n"
    )
    before = key_of(mylab)
    text = (mylab / "room/inner/__init__.py").read_text()
    text = text.replace("import other", "import deepest").replace(
        "import deepest", "import other", 1
    )
    (mylab / "room/inner/__init__.py").write_text(text)
    assert key_of(mylab) != before


DEFINED = """
import importlib, json, sys, types
modules = json.load(sys.stdin)
missing = {}
for module, found in modules.items():
    importlib.import_module(module)
    for name in found:
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, types.ModuleType):
                home = "" if hasattr(value, "__path__") else value.__name__
            else:
                home = getattr(value, "__module__", None) or ""
            if home.startswith("theorylab.") and home not in found:
                missing.setdefault(module, []).append(f"{name} uses {home}")
print(json.dumps(missing))
"""


def test_sources_hold_the_modules_of_all_that_they_name():
    """Oracle: `__module__` of every function and class that Python finds in a source's globals."""
    found = {
        EXPERIMENTS.module(name): sorted(sources(entry.path, EXPERIMENTS.module(name)).modules)
        for name, entry in ((name, EXPERIMENTS.entry(name)) for name in EXPERIMENTS.names())
    }
    assert all(module in modules for module, modules in found.items())
    run = subprocess.run(
        [sys.executable, "-c", DEFINED],
        input=json.dumps(found),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout) == {}


def test_sources_hold_all_code_that_a_run_executes(folders):
    """Oracle: the files of all frames of a run, seen by the interpreter's own profiler.

    The run is traced: all of the experiment's Python is executed, and nothing is computed.
    """
    experiment = EXPERIMENTS.load("dynamics/catapult")
    package = str(Path(theorylab.__file__).parent)
    executed = set()

    def notice(frame, event, argument):
        code = frame.f_code
        if code.co_filename.startswith(package) and code.co_name != "<module>":
            executed.add(code.co_filename)

    config = experiment.PRESETS["smoke"]
    with precision(experiment.PRECISION):
        sys.setprofile(notice)
        try:
            program = jax.make_jaxpr(lambda: experiment.run(config))()
        finally:
            sys.setprofile(None)
    assert len(program.jaxpr.eqns) > 5
    found = sources(Path(str(experiment.__file__)), experiment.__name__).modules
    assert len(executed) > 5
    assert executed <= {str(path) for path in found.values()}
    # 35: a network's checks, its convolutions and the answers that it gives are named, too.
    assert len(found) < 40


def test_a_comment_in_another_room_changes_no_key(tmp_path):
    """On a copy of the house: a comment in any file but the sources, and in any `__init__`."""
    house = tmp_path / "theorylab"
    shutil.copytree(Path(theorylab.__file__).parent, house, ignore=shutil.ignore_patterns("*.pyc"))

    def state(name: str) -> str:
        found = Definitions({"theorylab": house})
        found.search(EXPERIMENTS.module(name))
        return digest(found)

    before = state("dynamics/catapult")
    found = sources(
        EXPERIMENTS.entry("dynamics/catapult").path, EXPERIMENTS.module("dynamics/catapult")
    )
    root = Path(theorylab.__file__).parent
    used = {house / path.relative_to(root) for path in found.modules.values()}
    others = set(house.rglob("*.py")) - used
    assert len(others) > 300
    for path in others:
        with path.open("a") as file:
            file.write("\n# A comment.\n")
    assert state("dynamics/catapult") == before
    assert len(used) > 10
    for path in used:
        text = path.read_text(encoding="utf-8")
        path.write_text(text + "\n# A comment.\n", encoding="utf-8")
        assert state("dynamics/catapult") != before
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "changed", ["toys/coin.py", "hidden.py", "late.py", "deep/down.py", "__init__.py"]
)
def test_a_changed_source_changes_the_key(mylab, changed):
    before = key_of(mylab)
    with (mylab / changed).open("a") as file:
        file.write("\nZ = 2\n")
    assert key_of(mylab) != before


def test_what_is_not_imported_and_where_it_lies_do_not_matter(mylab, tmp_path):
    before = key_of(mylab)
    (mylab / "unrelated.py").write_text("y = 3")
    assert key_of(mylab) == before
    moved = tmp_path / "elsewhere" / "mylab"
    shutil.copytree(mylab, moved)
    assert key_of(moved) == before


def test_config_libraries_and_precision_change_the_key(mylab, monkeypatch):
    keys = {key_of(mylab), key_of(mylab, width=2)}
    entry = replace(read(mylab / "toys/coin.py"), precision="float32")
    keys.add(key(entry, "mylab.toys.coin", {"width": 1}))
    monkeypatch.setattr("importlib.metadata.version", lambda name: "99")
    keys.add(key_of(mylab))
    assert len(keys) == 4
    assert all(len(each) == 16 for each in keys)


def test_digest_depends_on_names_contents_and_ways(tmp_path):
    for name, text in {"a": "1", "b": "2"}.items():
        (tmp_path / name).write_text(text)
    a, b = tmp_path / "a", tmp_path / "b"

    def of(modules, signs=None):
        return digest(Definitions({}, modules, signs or {}))

    different = {
        of({"a": a}),
        of({"b": a}),
        of({"a": b}),
        of({"a": a, "b": b}),
        of({"a": a}, {"x": "a"}),
    }
    assert len(different) == 5
    assert of({"a": a, "b": b}) == of({"b": b, "a": a})
