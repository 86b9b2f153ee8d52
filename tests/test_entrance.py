"""`import theorylab`: light, with the names that are used most, each where its room has it."""

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import theorylab

INIT = ast.parse(Path(theorylab.__file__).read_text(encoding="utf-8"))
LATER = next(
    ast.literal_eval(node.value)
    for node in INIT.body
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_LATER"
)


@pytest.mark.parametrize("name", LATER)
def test_a_name_at_the_top_is_that_of_its_room(name):
    room = importlib.import_module(LATER[name], "theorylab")
    assert getattr(theorylab, name) is getattr(room, name)
    assert name in dir(theorylab)


def test_editors_see_the_same_names_as_python():
    """Oracle: the imports under TYPE_CHECKING, which pyright reads, beside the table."""
    (block,) = [node for node in INIT.body if isinstance(node, ast.If)]
    seen = {
        alias.name: f".{node.module}"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.asname == alias.name
    }
    assert seen == LATER


def test_importing_theorylab_loads_nothing_heavy():
    code = "import sys, theorylab; theorylab.__version__, dir(theorylab); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert not loaded & {"jax", "numpy", "scipy", "matplotlib", "rich"}


def test_importing_theorylab_sees_to_threads_unless_somebody_said_how_many():
    """Two batches of factorisations on two threads would wait for each other for ever."""
    code = (
        "import os; os.cpu_count = lambda: {cores}; import theorylab;"
        " print(os.environ.get('NPROC'))"
    )
    for cores, given, expected in ((2, None, "4"), (8, None, "None"), (2, "1", "1")):
        environment = {name: value for name, value in os.environ.items() if name != "NPROC"}
        if given:
            environment["NPROC"] = given
        command = [sys.executable, "-c", code.format(cores=cores)]
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert told.stdout.strip() == expected


def test_rooms_are_attributes_and_other_names_are_errors():
    assert theorylab.kernels.ntk is theorylab.ntk
    for name in ("kernel", "_private", "nothing"):
        with pytest.raises(AttributeError, match=f"'theorylab' has no attribute '{name}'"):
            getattr(theorylab, name)
