"""Do the verdicts see mistakes? Plant some in the library, run experiments, count red ones.

    python tools/mutants.py 60 [--seed 0] [--preset smoke] [--concept features] [--tests]

A mistake is drawn at random: a room, the next of its experiments, a function that its run goes
through, of a file that it names, and there a line that the run reaches: an operator, a sign, a
number, an index or a function (min for max, sin for cos, ...) is made wrong. The experiment is run
with the wrong library, in a copy of the package. A run that fails needs no verdict to be seen: the
mistake is not counted, and another one is drawn. A verdict that is not as expected is red. What is
green at smoke is asked again at the default preset, where everything is judged. What stays green is
to be read, unless no array and no finding differs from the right run: it changed no number.
With `--tests` the unit tests of the file are asked about every mistake that changes a number.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

import theorylab
from theorylab.cli import main as theorylab_main
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
ARITHMETIC = (*OPERATORS, ast.Pow)


class Outcome(NamedTuple):
    """What a run, right or wrong, left behind."""

    red: tuple[str, ...]  # claims that are not as expected
    numbers: dict[str, bytes]  # every array and what every finding measured


class Right(NamedTuple):
    """The right run of an experiment: what it found, and which lines of which files it reached."""

    outcome: Outcome
    lines: dict[Path, set[int]]


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
    """The same below one node; checks, texts, slices and types are left as they are."""
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
    if isinstance(node, ast.Subscript) and (index := _whole(node.slice)) is not None:
        other = {0: 1, -1: -2}.get(index, index - 1)
        yield node, f"{ast.get_source_segment(source, node.value)}[{other}]"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC):
        for side in (node.left, node.right):
            if (whole := _whole(side)) is not None:
                yield side, str(whole + 1) if whole >= 0 else f"({whole + 1})"
    children = ast.iter_child_nodes(node)
    if isinstance(node, ast.Subscript):
        children = iter([node.value])
    for child in children:
        yield from _changes(child, source)


def _whole(node: ast.AST) -> int | None:
    """The whole number that stands there, if it is one."""
    try:
        value = ast.literal_eval(node)  # type: ignore[arg-type]
    except ValueError:
        return None
    return value if type(value) is int else None


def experiments(names: list[str], chance: random.Random) -> Iterator[str]:
    """Every experiment once: one of every room, then another one of every room."""
    rooms: dict[str, list[str]] = {}
    for name in chance.sample(names, len(names)):
        rooms.setdefault(name.split("/")[0], []).append(name)
    while left := [room for room in rooms if rooms[room]]:
        yield from (rooms[room].pop() for room in left)


def mutants(names: list[str], seed: int) -> Iterator[tuple[list[Mutant], Right]]:
    """For one experiment after the other: mistakes in the order to try, and the right smoke run."""
    for name in experiments(names, random.Random(seed)):
        right = right_run(name, "smoke")
        if right.outcome.red:
            print(f"{name} is left out, it is red as it is: {right.outcome.red}", flush=True)
            continue
        chance = random.Random(f"{seed} {name}")
        found: dict[tuple[Path, str], list[Mutant]] = {}
        for path in sorted(named_files(name) & right.lines.keys()):
            for mutant in _mutants_of(name, path, right.lines[path]):
                found.setdefault((path, mutant.function), []).append(mutant)
        functions = chance.sample(sorted(found), len(found))
        if functions:
            yield [chance.choice(found[function]) for function in functions], right
        else:
            print(f"{name} is left out, it goes through no formula of the library", flush=True)


def named_files(name: str) -> set[Path]:
    """Files of the library whose functions an experiment, or a private module of it, names."""
    files: set[Path] = set()
    modules = [sys.modules[EXPERIMENTS.load(name).__name__]]
    for module in modules:
        source = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        for node in ast.walk(source):
            match node:
                case ast.Name(id=word):
                    value = getattr(module, word, None)
                case ast.Attribute(value=ast.Name(id=word), attr=attribute):
                    value = getattr(getattr(module, word, None), attribute, None)
                case _:
                    continue
            home = sys.modules.get(getattr(value, "__module__", None) or "")
            if not callable(value) or not home or not home.__name__.startswith("theorylab."):
                continue
            parts = home.__name__.split(".")
            if parts[1] in ROOMS and getattr(value, "__name__", "") not in PLUMBING:
                files.add(Path(str(home.__file__)).relative_to(PACKAGE))
            if parts[1] == "experiments" and parts[-1].startswith("_") and home not in modules:
                modules.append(home)
    return files


def _mutants_of(experiment: str, path: Path, reached: set[int]) -> Iterator[Mutant]:
    """Every mistake that can be made in the functions of a file, on lines that are reached."""
    source = (PACKAGE / path).read_text(encoding="utf-8")
    lines = [0]
    for line in source.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef) or node.name in PLUMBING:
            continue
        for wrong, after in changes(node, source):
            end_line, end = wrong.end_lineno or wrong.lineno, wrong.end_col_offset or 0
            before = ast.get_source_segment(source, wrong) or ""
            if after == before or reached.isdisjoint(range(wrong.lineno, end_line + 1)):
                continue
            yield Mutant(
                experiment=experiment,
                path=path,
                function=node.name,
                line=wrong.lineno,
                start=lines[wrong.lineno - 1] + wrong.col_offset,
                end=lines[end_line - 1] + end,
                before=before,
                after=after,
            )


def right_run(name: str, preset: str) -> Right:
    """Run an experiment as it is, in a process of its own that notes the lines it reaches."""
    with tempfile.TemporaryDirectory() as out:
        noted = Path(out) / "lines.json"
        command = [sys.executable, str(Path(__file__).resolve()), "0", "--note", str(noted)]
        outcome = _outcome([*command, "--preset", preset, "--concept", name], os.environ, Path(out))
        lines = json.loads(noted.read_text(encoding="utf-8")) if noted.exists() else {}
    return Right(outcome, {Path(path): set(reached) for path, reached in lines.items()})


def note(name: str, preset: str, file: Path) -> int:
    """Run an experiment and write down which lines of the rooms with formulas it reached."""
    reached: dict[str, set[int]] = {}
    rooms = tuple(str(PACKAGE / room) + os.sep for room in ROOMS)

    def trace(frame, event, argument):
        path = frame.f_code.co_filename
        if not path.startswith(rooms):
            return None
        known = reached.setdefault(path, set())

        def line(frame, event, argument):
            known.add(frame.f_lineno)
            return line

        return line(frame, event, argument)

    EXPERIMENTS.load(name)  # what is reached by importing is not what the run reaches
    threading.settrace(trace)
    sys.settrace(trace)
    code = theorylab_main(["run", name, "--preset", preset, "--out", str(file.parent)])
    sys.settrace(None)
    lines = {str(Path(path).relative_to(PACKAGE)): sorted(reached[path]) for path in reached}
    file.write_text(json.dumps(lines), encoding="utf-8")
    return code


def wrong_run(mutant: Mutant, preset: str) -> Outcome:
    """Run the experiment with the mistake."""
    with _planted(mutant) as environment, tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "theorylab", "run", mutant.experiment]
        return _outcome([*command, "--preset", preset, "--out", out], environment, Path(out))


def _outcome(command: list[str], environment: Mapping[str, str], out: Path) -> Outcome:
    """What a run said and measured."""
    failed = _fails(command, environment)
    found = next(out.rglob("findings.json"), None)
    if found is None:
        return Outcome((failed,), {})
    findings = json.loads(found.read_text(encoding="utf-8"))
    with np.load(found.with_name("arrays.npz"), allow_pickle=False) as archive:
        numbers = {name: archive[name].tobytes() for name in archive}
    for index, finding in enumerate(findings):
        values = [finding[name] for name in ("verdict", "measured", "interval", "demand")]
        numbers[f"finding {index}"] = json.dumps(values).encode()
    red = [finding["statement"] for finding in findings if not finding["as_expected"]]
    return Outcome(tuple(red), numbers)


def is_tested(mutant: Mutant) -> bool:
    """Whether the unit tests of the file, or else those of its folder, see the mistake."""
    folder = ROOT / "tests" / mutant.path.parent
    own = folder / f"test_{mutant.path.name}"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not experiments"]
    with _planted(mutant) as environment:
        given = [path for path in (own, folder) if path.exists()]
        return any(bool(_fails([*command, str(path)], environment)) for path in given)


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


def _fails(command: list[str], environment: Mapping[str, str]) -> str:
    """Why a process did not end well, or nothing."""
    try:
        done = subprocess.run(
            command, env=dict(environment), cwd=ROOT, capture_output=True, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return "too long"
    return f"code {done.returncode}" if done.returncode else ""


def examined(mutant: Mutant, right: Right, preset: str) -> tuple[str, str]:
    """What the verdicts say of a mistake: failed, red, GREEN or same; and why."""
    changed: list[str] = []
    for asked in ("smoke", "default") if preset == "smoke" else (preset,):
        wrong = wrong_run(mutant, asked)
        if not wrong.numbers:
            return "failed", f"{asked}: {wrong.red[0]}"
        outcome = right.outcome if asked == "smoke" else right_run(mutant.experiment, asked).outcome
        if unexpected := [claim for claim in wrong.red if claim not in outcome.red]:
            return "red", f"{asked}: {unexpected[0]}"
        old, new = outcome.numbers, wrong.numbers
        changed += [f"{asked}: {name}" for name in old if new.get(name) != old[name]]
    return ("GREEN" if changed else "same"), "; ".join(changed)


def main() -> int:
    """Plant, run, count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("number", type=int, help="how many mistakes")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--preset", default="smoke", choices=("smoke", "default"))
    parser.add_argument("--concept", default="", help="only experiments below this folder")
    parser.add_argument("--tests", action="store_true", help="ask the unit tests too")
    parser.add_argument("--note", type=Path, help=argparse.SUPPRESS)  # of a process of its own
    options = parser.parse_args()
    if options.note:
        return note(options.concept, options.preset, options.note)
    names = [name for name in EXPERIMENTS.names() if name.startswith(options.concept)]
    said: Counter[str] = Counter()
    source = mutants(names, options.seed)
    for number, (candidates, right) in zip(range(1, options.number + 1), source, strict=False):
        for mutant in candidates:
            verdict, why = examined(mutant, right, options.preset)
            if verdict != "failed":
                break
        else:
            continue
        said[verdict] += 1
        tested = ""
        if options.tests and verdict != "same":
            tested = "red" if is_tested(mutant) else "GREEN"
            said[f"tests {tested}"] += 1
            tested = f" (unit tests: {tested})"
        print(f"{number:3} {verdict:5} {mutant}{tested}\n          {why}", flush=True)
    changed = said["red"] + said["GREEN"]
    print(f"{said['red']} of {changed + said['same']} mistakes are seen by the verdicts,")
    print(f"{said['red']} of the {changed} that change a number.")
    if options.tests:
        print(f"{said['tests red']} of these {changed} are seen by the unit tests.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
