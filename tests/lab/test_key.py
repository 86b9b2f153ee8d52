"""The key changes with whatever may change the numbers, and with nothing else."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from theorylab.experiments.entry import read
from theorylab.experiments.tree import EXPERIMENTS
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


@pytest.fixture
def mylab(tmp_path: Path) -> Path:
    root = tmp_path / "mylab"
    files = {
        "__init__.py": "",
        "tools.py": "from .hidden import x",
        "hidden.py": "x = 1",
        "constants.py": "",
        "late.py": "",
        "unrelated.py": "",
        "deep/__init__.py": "from . import beside",
        "deep/beside.py": "from ...mylab import nothing",
        "deep/down.py": "",
        "toys/__init__.py": "",
        "toys/coin.py": EXPERIMENT,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def key_of(root: Path, **config) -> str:
    return key(read(root / "toys/coin.py"), "mylab.toys.coin", {"width": 1} | config)


def test_sources_are_all_that_is_imported_here_or_in_theorylab(mylab):
    found = sources(mylab / "toys/coin.py", "mylab.toys.coin")
    inner = {"tools", "hidden", "constants", "late", "deep", "deep.beside", "deep.down"}
    expected = {"mylab", "mylab.toys", "mylab.toys.coin"} | {f"mylab.{name}" for name in inner}
    assert set(found) == expected | {"theorylab", "theorylab.progress"}


def test_sources_cover_what_python_imports(tmp_path):
    """Oracle: the modules of theorylab that a fresh interpreter holds after the imports."""
    modules = [EXPERIMENTS.module(name) for name in EXPERIMENTS.names()]
    script = tmp_path / "everything.py"  # one walk through what all experiments share
    script.write_text(f"import {', '.join(modules)}")
    code = f"import sys; {script.read_text()}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = {name for name in run.stdout.split() if name.partition(".")[0] == "theorylab"}
    found = sources(script, "everything")
    assert set(modules) <= imported <= set(found)


@pytest.mark.parametrize(
    "changed", ["toys/coin.py", "hidden.py", "late.py", "deep/beside.py", "__init__.py"]
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


def test_digest_depends_on_names_and_contents(tmp_path):
    for name, text in {"a": "1", "b": "2"}.items():
        (tmp_path / name).write_text(text)
    a, b = tmp_path / "a", tmp_path / "b"
    assert (
        len({digest({"a": a}), digest({"b": a}), digest({"a": b}), digest({"a": a, "b": b})}) == 4
    )
    assert digest({"a": a, "b": b}) == digest({"b": b, "a": a})
