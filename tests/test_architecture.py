"""The house holds its shape: imports point one way, ideas stay small, rooms are named."""

import ast
import re
from pathlib import Path

import pytest

from theorylab.experiments.tree import EXPERIMENTS
from theorylab.lab.definitions import is_signpost

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "theorylab"
FILES = sorted(PACKAGE.rglob("*.py"))
SHARED = {
    "typing",
    "blocks",
    "progress",
    "fields",
    "lazy",
    "threads",
    "folders",
    "version",
}  # beside the rooms, open to all
ENTRANCES = {"__init__", "__main__", "entrance"}


def rooms() -> list[str]:
    """The order of the rooms, as the page on the architecture tells it."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    bands = page.split("## Three bands")[1].split("\n## ")[0]
    return re.findall(r"^    (\w+) {2,}\S", bands, flags=re.MULTILINE)


def room_of(path: Path) -> str:
    """`models/taylor.py` is in `models`; `cli.py` is `cli`."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(source: str) -> set[str]:
    """The rooms that a source text imports by absolute name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("theorylab.")}


def offences(path: Path, source: str) -> set[str]:
    """The imports of one file that point to its own side or below."""
    order = rooms()
    earlier = set(order[: order.index(room_of(path)) + 1])
    return imported_rooms(source) - earlier - SHARED - {"__version__"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_only_from_rooms_named_before_it(path):
    if room_of(path) in ENTRANCES | SHARED:
        return
    assert offences(path, path.read_text(encoding="utf-8")) == set()


def test_a_wrong_import_is_seen():
    """The check itself can fail: a kernel that imported an experiment would be told."""
    wrong = "from theorylab.experiments.dynamics import catapult\nimport theorylab.numerics"
    assert offences(PACKAGE / "kernels" / "empirical.py", wrong) == {"experiments"}


def test_relative_imports_stay_in_their_room():
    """One dot for each folder below the package at most: more would not name the next room."""
    for path in FILES:
        depth = len(path.parent.relative_to(PACKAGE).parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.level <= max(depth, 1), f"{path}:{node.lineno} leaves its room by dots"


def test_every_folder_is_a_room_that_the_page_names():
    folders = {
        path.parent.relative_to(PACKAGE).parts[0] for path in FILES if path.parent != PACKAGE
    }
    assert folders <= set(rooms())


def test_rooms_that_are_not_there_yet_stand_in_brackets():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    planned = re.findall(r"^    (\w+) {2,}\(", page, flags=re.MULTILINE)
    assert planned == [room for room in rooms() if not (PACKAGE / room).is_dir()]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_say_what_they_are(path):
    source = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(source)), "every module begins with what it is about"


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "__init__.py"], ids=str)
def test_an_init_only_re_exports(path):
    """The keys of outcomes follow it to what it names, and leave itself out."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        assert is_signpost(node), f"{path}:{node.lineno} belongs into a module"


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "__init__.py"], ids=str)
def test_what_is_imported_on_demand_is_not_named_like_a_module(path):
    """Importing the module would put it in the place of the name."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_LATER":
            modules = {each.stem for each in path.parent.glob("*.py")}
            folders = {each.parent.name for each in path.parent.glob("*/__init__.py")}
            assert not set(ast.literal_eval(node.value)) & (modules | folders)


def test_only_public_names_of_jax_and_no_pickle():
    """What is private today is gone tomorrow; what is unpickled runs."""
    forbidden = re.compile(
        r"\bjax\._src|\bjax\.core\.(?!Tracer\b)|\bimport pickle|allow_pickle=True|\beval\(|\bexec\("
    )
    for path in FILES:
        assert not forbidden.search(path.read_text(encoding="utf-8")), path


def test_tests_mirror_the_tree():
    """`kernels/empirical.py` is tested in `tests/kernels/`: concepts keep their name everywhere."""
    tested = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    assert {
        path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"
    } <= tested


def key_offences(source: str) -> set[str]:
    """Public functions whose `key` is neither the first argument nor the last without a default.

    Only keys of JAX count, which are annotated as such; the store's keys are words.
    """
    found = set()
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        given = [*node.args.posonlyargs, *node.args.args]
        required = given[: len(given) - len(node.args.defaults)]
        for place, argument in enumerate(given):
            is_key = argument.arg == "key" and "Key" in ast.unparse(argument.annotation or node)
            if is_key and place not in (0, len(required) - 1):
                found.add(node.name)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_what_draws_takes_key_first_and_what_measures_takes_it_last(path):
    assert key_offences(path.read_text(encoding="utf-8")) == set()


def test_a_key_in_the_middle_is_seen():
    wrong = "def sgd(params, key: RandomKey, steps, measure, every=1): ..."
    right = "def init(key: RandomKey, width): ...\ndef trace(matvec, key: RandomKey, rank=1): ..."
    assert key_offences(f"{wrong}\n{right}") == {"sgd"}


CURATED = ("numerics", "data", "models", "training", "curvature")


@pytest.mark.parametrize("room", CURATED)
def test_a_room_shows_about_forty_names_and_only_re_exports(room):
    """The rest stands one level down, in its own module; `__init__` has no logic."""
    tree = ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))
    docstring, *imports = tree.body
    assert isinstance(docstring, ast.Expr)
    assert all(isinstance(node, ast.ImportFrom) for node in imports)
    names = [alias for node in imports for alias in getattr(node, "names", ())]
    assert all(alias.name == alias.asname for alias in names)
    assert 20 <= len(names) <= 45


LONGEST = 60  # lines of a function
MOST_CLAIMS = 12  # of an experiment: more are two questions


def long_functions(source: str) -> set[str]:
    """The functions and methods of a source text that have too many lines, docstring included."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return {each.name for each in functions if (each.end_lineno or 0) - each.lineno >= LONGEST}


def test_functions_fit_on_a_screen():
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}:{name}"
        for path in FILES
        for name in long_functions(path.read_text(encoding="utf-8"))
    }
    assert found == set(), f"a function has at most {LONGEST} lines"


def test_an_experiment_asks_one_question():
    counts = {entry.name: len(entry.claims) for entry in EXPERIMENTS.entries()}
    found = {name for name, count in counts.items() if count > MOST_CLAIMS}
    assert found == set(), f"an experiment has at most {MOST_CLAIMS} claims"


def test_a_long_function_is_seen():
    """Sixty lines are fine, sixty-one are not."""
    fine = "def f():\n" + "    x = 1\n" * (LONGEST - 1)
    assert long_functions(fine) == set()
    assert long_functions(f"{fine}    x = 2\n") == {"f"}
