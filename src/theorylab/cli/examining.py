"""`theorylab examine`: the file is run, its network examined, the card printed and written.

    my_model.py ─► names, or examine() ─► apply, params, x, y, … ─► subject ─► card

What the file prints goes to standard error: standard output has the card, or its JSON, alone.
"""

import inspect
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import jax

from theorylab.checkup.card import Card
from theorylab.checkup.rows import MEASURES
from theorylab.checkup.subject import Known, Subject, subject_of
from theorylab.checkup.tables import as_json
from theorylab.checkup.whole import card_of, named
from theorylab.folders import cache_folder
from theorylab.lab.background import in_background
from theorylab.lab.compilation import kept_compilations
from theorylab.lab.failure import Refused, RunFailed, one_line
from theorylab.lab.folders import require_writable
from theorylab.lab.requests import fresh_module
from theorylab.lab.session import ready_backend
from theorylab.progress import listening
from theorylab.report import LiveProgress

from .examination import Examination
from .listing import print_json
from .usage import notice

OK, ROW_FAILED = 0, 3
NEEDED = ("apply", "params", "x", "y")
_NAMES = (*NEEDED, "key", "network", "variables", *Known.__annotations__)


def examine(asked: Examination) -> int:
    """Run the file, examine its network, print the card and write what was asked for.

    Raises:
        Refused: The file, or what it defines, cannot be examined; nothing was written.
        RunFailed: The check-up itself broke off.
    """
    measures = MEASURES if asked.only is None else _refused(named, "only", asked.only)
    forced = frozenset(_refused(named, "force", asked.force)) if asked.force else frozenset()
    cache = cache_folder()
    require_writable(cache, "cache folder")
    ready_backend()
    notice(f"examine runs {asked.path}.")
    display = LiveProgress(1)

    def work(subject: Subject, start: float) -> Card:
        with listening(display.update):
            return card_of(subject, measures, start)

    with display, kept_compilations(cache), redirect_stdout(sys.stderr):
        display.start(asked.path.name)
        start = time.perf_counter()
        subject = _subject(asked, forced)
        try:
            card = in_background(lambda: work(subject, start))
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            raise RunFailed(f"the check-up of {asked.path.name} broke off: {why}") from error
        display.finish(asked.path.name)
    return _told(card, asked)


def _told(card: Card, asked: Examination) -> int:
    """Print the card, write its files, say which rows failed."""
    if asked.as_json:
        print_json(as_json(card))
    else:
        card.show()
    if asked.page is not None:
        notice(f"the page is {card.page(asked.page)}")
    if asked.kept is not None:
        card.save(asked.kept)
        notice(f"the card is kept in {asked.kept}")
    failed = [row.name for row in card.rows if row.status == "failed"]
    if failed:
        notice(f"these rows failed: {', '.join(failed)}.")
    return ROW_FAILED if failed else OK


def _subject(asked: Examination, forced: frozenset[str]) -> Subject:
    """The network that the file defines, checked."""
    told = definitions(asked.path)
    given = {name: _array(name, value) for name, value in told.items()} | asked.known
    given.pop("variables", None)
    network = given.pop("network", None)  # which may be theorylab's own function of that name
    whole = given.get("apply") is not None and given.get("params") is not None
    if not (network is None or inspect.isfunction(network) or whole):
        given |= _bridged(network, told)
    lacking = [name for name in NEEDED if given.get(name) is None]
    if lacking:
        raise Refused(
            f"{asked.path.name} must define apply, params, x and y (or network, x and y), or"
            f" examine() that returns them; it lacks {', '.join(lacking)}."
        )
    key = given.pop("key", None)
    key = jax.random.key(0) if key is None else key
    first = [given.pop(name) for name in NEEDED]
    try:
        return _refused(subject_of, *first, key, force=forced, **given)
    except Refused as error:
        about = str(error).partition(" ")[0]
        if about not in Known.__annotations__ or about in asked.known:
            raise
        hint = "If the name means something else in the file, define examine() that returns a dict."
        raise Refused(f"{error} {hint}") from error


def definitions(path: Path) -> dict[str, Any]:
    """What a file says about its network: what its `examine()` returns, or its names.

    Args:
        path: The file; it is run, with its folder first among those of imports.

    Raises:
        Refused: It raises, or its `examine()` gives no dict, or names what nobody knows.
    """
    module = _run(path)
    function = getattr(module, "examine", None)
    if not callable(function) or getattr(function, "__module__", None) != module.__name__:
        # theorylab's own `examine` may be imported in the file.
        names = (name for name in _NAMES if name != "key")  # which is used up where it stands
        return {name: vars(module)[name] for name in names if name in vars(module)}
    try:
        told = function()
    except (Exception, SystemExit) as error:
        raise _raised(path, error) from error
    if not isinstance(told, Mapping):
        raise Refused(
            f"examine() of {path.name} must return a dict with apply, params, x and y, got a"
            f" {type(told).__name__}."
        )
    if unknown := [name for name in told if name not in _NAMES]:
        raise Refused(
            f"examine() of {path.name} must name what examine knows, {', '.join(_NAMES)}, got"
            f" {one_line(unknown[0], 60)!r}."
        )
    return dict(told)


def _run(path: Path) -> ModuleType:
    """Run the file as a script is run, but under another name than that of the main one."""
    arguments, sys.argv = sys.argv, [str(path)]
    sys.path.insert(0, str(path.parent))  # and it stays, for what is imported later
    try:
        return fresh_module(f"theorylab_examined_{path.stem}", path)
    except (Exception, SystemExit) as error:
        raise _raised(path, error) from error
    finally:
        sys.argv = arguments


def _raised(path: Path, error: BaseException) -> Refused:
    """What a file of the user's raised, and on which of its lines."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    line = lines[-1] if lines else getattr(error, "lineno", None)
    where = f"line {line}" if line else "it"
    told = f"{type(error).__name__}: {one_line(error)}"
    return Refused(f"{path.name} must run without error, but {where} raised {told}.")


def _bridged(network: Any, told: Mapping[str, Any]) -> dict[str, Any]:
    """The function and parameters of a module of PyTorch, Flax or Equinox."""
    from theorylab.bridges import bridge
    from theorylab.bridges.recognition import framework_of

    framework = framework_of(network)
    if framework is None:
        raise Refused(
            "network must be a module of PyTorch, Flax or Equinox, got a"
            f" {type(network).__name__}: define apply and params."
        )
    beside = "x" if framework == "torch" else "variables"
    try:
        apply, params, _ = bridge(network, told.get(beside))
    except (ValueError, TypeError, ImportError) as error:
        raise Refused(f"network must cross the bridge, but: {one_line(error, 500)}") from error
    return {"apply": apply, "params": params}


def _array(name: str, value: Any) -> Any:
    """Data of PyTorch as arrays."""
    if name not in ("x", "y", "x_test", "y_test"):
        return value
    return jax.tree.map(lambda leaf: _numpy(name, leaf), value)


def _numpy(name: str, leaf: Any) -> Any:
    if not (hasattr(leaf, "detach") and hasattr(leaf, "cpu")):
        return leaf
    try:
        return leaf.detach().cpu().numpy()
    except Exception as error:  # a tensor without entries, or of a kind that NumPy has not
        raise Refused(
            f"{name} must be a tensor with numbers in it, got one on {getattr(leaf, 'device', '?')}"
            f": {one_line(error)}"
        ) from error


def _refused(function: Any, *args: Any, **options: Any) -> Any:
    """What a check gives; its errors say what must hold and what came, on one line."""
    try:
        return function(*args, **options)
    except SystemExit as error:  # of the user's network, when it is called
        told = f"SystemExit: {one_line(error)}"
        raise Refused(f"apply must take these params and inputs, but it raised {told}") from error
    except (ValueError, TypeError) as error:
        raise Refused(one_line(error, 600)) from error
