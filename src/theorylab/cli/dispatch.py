"""From the words behind `theorylab` to what is done, and to an exit code.

Data goes to standard output, everything else to standard error. What only reads the tree answers
at once: JAX, NumPy and matplotlib are imported where a run begins.
"""

import os
import sys
import traceback
from collections.abc import Sequence

import theorylab
from theorylab.experiments.reader import TreeError
from theorylab.experiments.tree import EXPERIMENTS, Tree
from theorylab.lab.background import is_busy
from theorylab.lab.failure import Refused, RunFailed
from theorylab.lab.requests import find

from .commands import Parsed, command_named, help_for, overview, parse
from .completion import print_candidates, print_script
from .examination import examination
from .fetching import fetch
from .finding import find as find_outcomes
from .forgetting import forget
from .keeping import collect, verify
from .listing import list_experiments, show_experiment
from .moving import export_outcomes, import_outcomes
from .requests import record_requests, require_no_words, run_requests, tour_requests
from .usage import Usage, notice

BAD_USAGE, FAILED, INTERRUPTED, BROKEN_PIPE = 2, 3, 130, 141


def main(arguments: Sequence[str] | None = None, tree: Tree = EXPERIMENTS) -> int:
    """Do one command and return its exit code.

    Args:
        arguments: What stands behind `theorylab`; from `sys.argv` unless given.
        tree: The experiments.
    """
    _ready_streams()
    try:
        code = dispatch(sys.argv[1:] if arguments is None else list(arguments), tree)
        sys.stdout.flush()
        return code
    except (Usage, Refused, TreeError) as error:
        return _complain(str(error), BAD_USAGE)
    except KeyboardInterrupt:
        return _leave(_complain("interrupted.", INTERRUPTED))
    except BrokenPipeError:
        # Nobody reads any more; what Python still has to flush goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        return _complain(f"{error}.", FAILED)
    except Exception:
        traceback.print_exc()
        return _complain("this is a bug; the traceback above says where.", FAILED)


def dispatch(arguments: Sequence[str], tree: Tree) -> int:
    """Find the command and do it."""
    if not arguments:
        raise Usage("theorylab needs a command, got none. theorylab --help lists them.")
    name, *rest = arguments
    if name in ("--help", "-h", "help"):
        print(overview(), end="")
        return 0
    if name == "--version":
        print(f"theorylab {theorylab.__version__}")
        return 0
    if name == "_complete":
        return print_candidates(tree, rest)
    command = command_named(name)
    if "--help" in rest or "-h" in rest:
        names = [word for word in rest if command.takes_fields and _is_named(tree, word)]
        print(help_for(command, [find(tree, word, notice).entry for word in names]), end="")
        return 0
    return _do(name, parse(command, rest), tree)


def _is_named(tree: Tree, word: str) -> bool:
    """Whether a word names an experiment, of the tree or of the user's own."""
    return tree.has(word) or (word.endswith(".py") and os.path.isfile(word))


def _do(name: str, parsed: Parsed, tree: Tree) -> int:
    """Do one command; what runs checks first, without JAX, whether the request makes sense."""
    match name:
        case "list":
            return list_experiments(tree, parsed)
        case "show":
            return show_experiment(tree, parsed)
        case "completion":
            return print_script(parsed)
        case "forget":
            return forget(tree, parsed)
        case "find" | "verify" | "gc" | "export" | "import":
            return _keep(name, parsed, tree)
        case "fetch":
            return fetch(parsed)
        case "examine":
            return _examine(parsed)
        case "sweep" | "plot":
            return _sweep(name, parsed, tree)
        case "report":
            require_no_words(name, parsed)
            asked = []
        case "tour":
            asked = tour_requests(tree, parsed)
        case "record":
            asked = record_requests(tree, parsed)
        case _:
            asked = run_requests(tree, parsed)

    from . import running

    do = {
        "run": running.run,
        "tour": running.tour,
        "report": running.report,
        "record": running.record,
    }[name]
    try:
        return do(tree, asked, parsed)
    except RunFailed as error:
        return _complain(str(error), FAILED)


def _keep(name: str, parsed: Parsed, tree: Tree) -> int:
    """Do what is done with the store as a whole; none of it runs anything."""
    match name:
        case "find":
            return find_outcomes(tree, parsed)
        case "verify":
            return verify(parsed)
        case "gc":
            return collect(tree, parsed)
        case "export":
            return export_outcomes(tree, parsed)
        case _:
            return import_outcomes(parsed)


def _sweep(name: str, parsed: Parsed, tree: Tree) -> int:
    """Check the words without JAX, then sweep or plot."""
    from . import sweeping  # NumPy, which the other commands need not wait for

    try:
        return sweeping.sweep(tree, parsed) if name == "sweep" else sweeping.plot(tree, parsed)
    except RunFailed as error:
        return _complain(str(error), FAILED)


def _examine(parsed: Parsed) -> int:
    """Check the words without JAX, then load it and examine."""
    asked = examination(parsed)

    from .examining import examine

    try:
        return examine(asked)
    except RunFailed as error:
        return _complain(str(error), FAILED)


def _ready_streams() -> None:
    """See to it that printing cannot fail: closed streams, letters that a terminal lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _complain(text: str, code: int) -> int:
    notice(text)
    return code


def _leave(code: int) -> int:
    """End at once if a run is still busy in compiled code, where no signal reaches it."""
    if is_busy():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the store is whole at any moment
    return code
