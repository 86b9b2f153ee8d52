"""Do the verdicts see mistakes? Plant some in the library, run experiments, count red ones.

    python tools/mutants.py 60 [--seed 0] [--preset smoke] [--concept features] [--tests]

A mistake is drawn at random: an experiment, a function of the library that it calls by name, and in
its body an operator, a sign, a number or a function (min for max, sin for cos, ...). The experiment
is run with the wrong library, in a copy of the package. A verdict that is not as expected, or a run
that fails, is red; every mistake that stays green is printed to be read: some change no number.
With `--tests` those are also looked for by the unit tests of the file that they are in.
"""

import argparse
import ast
import inspect
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

import theorylab
from theorylab.experiments.tree import EXPERIMENTS

PACKAGE = Path(theorylab.__file__).parent
ROOT = PACKAGE.parents[1]
# Rooms with formulas; a wrong judge or figure is not what an experiment is there to see.
ROOMS = (
    *("numerics", "data", "models", "training", "kernels", "curvature", "dynamics"),
    *("features", "bias", "generalization", "incontext"),
)
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
FUNCTIONS = {
    "minimum": "maximum",
    "maximum": "minimum",
    "min": "max",
    "max": "min",
    "sin": "cos",
    "cos": "sin",
    "sqrt": "square",
    "square": "abs",
    "sum": "mean",
    "mean": "sum",
    "argmax": "argmin",
}
PLUMBING = {"ensemble", "every", "descend"}  # functions that run other functions
LONGEST = 400  # seconds of a run


class Mutant(NamedTuple):
    """A mistake: what stands where, and what is put there."""

    experiment: str
    path: Path  # of the library's file, below the package
    function: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line} {self.function}"
        return f"{self.experiment}: {where}: {self.before!r} ─► {self.after!r}"


def changes(node: ast.FunctionDef, source: str) -> Iterator[tuple[ast.expr, str]]:
    """Expressions of a function's body that can be made wrong, each with what it becomes."""
    for statement in node.body:
        yield from _changes(statement, source)


def _changes(node: ast.AST, source: str) -> Iterator[tuple[ast.expr, str]]:
    """The same below one node; checks, texts, indices and types are left as they are."""
    if isinstance(node, ast.If) and any(isinstance(each, ast.Raise) for each in node.body):
        return
    if isinstance(node, ast.Raise | ast.Assert | ast.Slice | ast.JoinedStr | ast.arguments):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            one, other = (ast.get_source_segment(source, side) for side in (left, right))
            yield node, f"({one}) {OPERATORS[type(op)]} ({other})"
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield node, f"({ast.get_source_segment(source, operand)})"
        case ast.Constant(value=float(value)) if 1e-3 < value < 1e3:  # not a tolerance
            yield node, repr(2 * value)
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in FUNCTIONS:
            given = ast.get_source_segment(source, node) or ""
            before = f"{ast.get_source_segment(source, owner)}.{name}"
            yield node, given.replace(before, before.removesuffix(name) + FUNCTIONS[name], 1)
    children = ast.iter_child_nodes(node)
    if isinstance(node, ast.Subscript):
        children = iter([node.value])
    for child in children:
        yield from _changes(child, source)


def mutants(names: list[str], chance: random.Random) -> Iterator[Mutant]:
    """Mistakes without end, one experiment after the other, of functions that it calls by name."""
    while True:
        chance.shuffle(names)
        for name in names:
            called = [each for each in vars(EXPERIMENTS.load(name)).values() if _is_formula(each)]
            chance.shuffle(called)
            for function in called:
                found = list(_mutants_of(name, function))
                if found:
                    yield chance.choice(found)
                    break


def _is_formula(value: object) -> bool:
    """Whether it is a function of a room with formulas."""
    parts = value.__module__.split(".") if isinstance(value, FunctionType) else []
    known = parts[:1] == ["theorylab"] and parts[1] in ROOMS
    return known and getattr(value, "__name__", "") not in PLUMBING


def _mutants_of(experiment: str, function: FunctionType) -> Iterator[Mutant]:
    path = Path(inspect.getsourcefile(inspect.unwrap(function)) or "")
    source = path.read_text(encoding="utf-8")
    lines = [0]
    for line in source.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            for wrong, after in changes(node, source):
                end_line, end = wrong.end_lineno or wrong.lineno, wrong.end_col_offset or 0
                before = ast.get_source_segment(source, wrong) or ""
                yield Mutant(
                    experiment=experiment,
                    path=path.relative_to(PACKAGE),
                    function=node.name,
                    line=wrong.lineno,
                    start=lines[wrong.lineno - 1] + wrong.col_offset,
                    end=lines[end_line - 1] + end,
                    before=before,
                    after=after,
                )


def is_seen(mutant: Mutant, preset: str) -> bool:
    """Whether the experiment, run with the mistake, says something that is not expected."""
    with _planted(mutant) as environment, tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "theorylab", "run", mutant.experiment]
        return _fails([*command, "--preset", preset, "--out", out], environment)


def is_tested(mutant: Mutant) -> bool:
    """Whether the unit tests of the file see the mistake."""
    tests = ROOT / "tests" / mutant.path.parent / f"test_{mutant.path.name}"
    with _planted(mutant) as environment:
        given = [str(tests)] if tests.exists() else [str(tests.parent)]
        return _fails([sys.executable, "-m", "pytest", "-q", "-x", *given], environment)


@contextmanager
def _planted(mutant: Mutant) -> Iterator[dict[str, str]]:
    """A copy of the package with a mistake, as the environment of a process that imports it."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "theorylab"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        file = package / mutant.path
        right = file.read_bytes()
        file.write_bytes(right[: mutant.start] + mutant.after.encode() + right[mutant.end :])
        yield os.environ | {"PYTHONPATH": folder}


def _fails(command: list[str], environment: dict[str, str]) -> bool:
    try:
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main() -> None:
    """Plant, run, count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("number", type=int, help="how many mistakes")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--preset", default="smoke", choices=("smoke", "default"))
    parser.add_argument("--concept", default="", help="only experiments below this folder")
    parser.add_argument("--tests", action="store_true", help="ask unit tests about green ones")
    options = parser.parse_args()
    names = [name for name in EXPERIMENTS.names() if name.startswith(options.concept)]
    red = 0
    source = mutants(names, random.Random(options.seed))
    for number, mutant in zip(range(1, options.number + 1), source, strict=False):
        seen = is_seen(mutant, options.preset)
        red += seen
        tested = ""
        if not seen and options.tests:
            tested = " (unit tests: red)" if is_tested(mutant) else " (unit tests: GREEN)"
        print(f"{number:3} {'red  ' if seen else 'GREEN'} {mutant}{tested}", flush=True)
    print(f"{red} of {options.number} mistakes are seen by the verdicts ({options.preset}).")


if __name__ == "__main__":
    main()
