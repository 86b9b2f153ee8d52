"""The one way in: read what is in the store, run the rest, store it.

    requests ─► key ─► store ─► outcome
                        └► import, check, run, judge, draw ─► store ─► outcome
                                           └► blocks that are done, should the run be stopped

The shell, Python and whatever else runs experiments come through here. An experiment is read once,
its key and its memory are computed once. JAX is loaded only if something must be run.
"""

import os
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from theorylab.blocks import keeping
from theorylab.folders import cache_folder
from theorylab.progress import listening
from theorylab.threads import ready_threads

from .background import in_background
from .blocks import BlockFolder, sweep_forgotten
from .failure import RunFailed, one_line
from .folders import require_writable
from .key import key
from .outcome import Outcome
from .requests import Notice, Request
from .store import Store
from .timings import expected_seconds, remember
from .writing import write_whole


@runtime_checkable
class Display(Protocol):
    """Shows how far the runs are."""

    def __enter__(self) -> "Display": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def start(self, name: str, expected_seconds: float | None = None) -> None:
        """Hear that a run begins, and how long it took the last time."""
        ...

    def update(self, what: str, done: float) -> None:
        """Hear what is being done now, and which fraction of the run lies behind."""
        ...

    def finish(self, name: str, note: str = "") -> None:
        """Hear that a run is over."""
        ...


class Silence:
    """A display that shows nothing."""

    def __enter__(self) -> "Silence":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def start(self, name: str, expected_seconds: float | None = None) -> None:
        """Show nothing."""

    def update(self, what: str, done: float) -> None:
        """Show nothing."""

    def finish(self, name: str, note: str = "") -> None:
        """Show nothing."""


class Obtained(NamedTuple):
    """What came of some requests: outcomes, and the runs that failed."""

    outcomes: list[Outcome]
    failures: list[RunFailed]


@dataclass(frozen=True)
class Ready:
    """A run that can begin: imported, its config in its domain, its memory there."""

    request: Request
    key: str
    experiment: ModuleType
    config: Any


def obtain(
    asked: Sequence[Request], store: Store, force: bool, display: Display, notice: Notice
) -> Obtained:
    """Read what is in the store and run the rest; a run that fails does not stop the next.

    Args:
        asked: What is wanted.
        store: Where outcomes are kept.
        force: Whether even what is in the store is run.
        display: Shows how far it is.
        notice: Hears of damaged outcomes and of failures, one line each.

    Raises:
        Refused: A folder cannot be written or a config cannot be run; nothing was run.
        RunFailed: An experiment cannot be imported; nothing was run.
    """
    cache = cache_folder()
    store.prepare()
    sweep_forgotten(store.root)
    require_writable(cache, "cache folder")
    jobs = [_stored_or_ready(request, store, force, notice) for request in asked]
    obtained = Obtained([], [])
    with display:
        for job in jobs:
            if isinstance(job, Outcome):
                display.start(job.experiment)
                display.finish(job.experiment, note="read from the store")
                obtained.outcomes.append(job)
                continue
            try:
                obtained.outcomes.append(_run(job, store, cache, display, force, notice))
            except RunFailed as error:
                display.finish(job.request.entry.name, note="failed")
                notice(f"{error} (traceback in {kept_traceback(cache, error)})")
                obtained.failures.append(error)
    return obtained


def _stored_or_ready(
    request: Request, store: Store, force: bool, notice: Notice
) -> Outcome | Ready:
    """Look into the store; if there is nothing, make ready to run."""
    entry = request.entry
    address = key(entry, request.found.module, request.config)
    if not force:
        stored = store.recall(entry.name, address, notice)
        if stored is not None:
            if not stored.figure and not stored.failure:
                stored = _drawn(request, stored, store)
            return replace(stored, preset=request.preset)
    ready_backend()
    from .conduct import configure, require_memory

    try:
        experiment = request.found.load()
    except Exception as error:
        why = f"{type(error).__name__}: {one_line(error)}"
        raise RunFailed(f"{entry.name} cannot be imported: {why}") from error
    config = configure(entry, experiment, request.values)
    require_memory(entry, experiment, config)
    return Ready(request, address, experiment, config)


def _run(
    ready: Ready, store: Store, cache: Path, display: Display, force: bool, notice: Notice
) -> Outcome:
    """Run one setting and show how far it is; Ctrl-C is heard."""
    from .compilation import kept_compilations

    request, name = ready.request, ready.request.entry.name
    known = expected_seconds(cache, name, request.preset) if request.is_preset else None
    display.start(name, known)
    with kept_compilations(cache):
        outcome = in_background(lambda: settle(ready, store, display, force, notice))
    if request.is_preset:
        remember(cache, name, request.preset, outcome.seconds)
    display.finish(name)
    return outcome


def settle(
    ready: Ready,
    store: Store,
    display: Display,
    force: bool,
    notice: Notice,
    with_figure: bool = True,
) -> Outcome:
    """Run, judge, draw and store; what a stopped run has finished is not computed again.

    Args:
        ready: What is run.
        store: Where it is kept.
        display: Hears how far it is.
        force: Whether it takes the place of what is in the store.
        notice: Hears that it goes on where it was stopped.
        with_figure: Whether it is drawn.

    Raises:
        RunFailed: The run raised, or its outcome cannot be stored.
    """
    from .conduct import perform

    request, name = ready.request, ready.request.entry.name
    blocks = BlockFolder(store.root, ready.key)
    if force:
        blocks.remove()
    elif len(blocks):
        notice(f"{name} goes on where it was stopped: {len(blocks)} blocks are finished.")
    with listening(display.update), keeping(blocks):
        outcome = perform(
            request.entry, ready.experiment, ready.config, request.preset, ready.key, with_figure
        )
    try:
        store.write(outcome, replace=force)
    except (OSError, ValueError) as error:
        raise RunFailed(f"{name} was run but cannot be stored: {one_line(error)}") from error
    blocks.remove()
    return outcome


def _drawn(request: Request, outcome: Outcome, store: Store) -> Outcome:
    """The outcome of a sweep, which drew nothing, with its figure; the store keeps it."""
    ready_backend()
    from .conduct import configure, reason
    from .redraw import redrawn

    entry, figure, failure = request.entry, "", ""
    experiment = request.found.load()
    try:
        config = configure(entry, experiment, request.values)
        figure = redrawn(entry, experiment, config, outcome.arrays)
    except Exception as error:
        failure = f"the figure failed: {reason(error, entry.path)}"
    drawn = replace(outcome, figure=figure, failure=failure)
    store.write(drawn, replace=True)
    return drawn


def ready_backend() -> None:
    """See to it that XLA has threads enough and keeps its notes to itself, before it starts."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    ready_threads()


def kept_traceback(cache: Path, error: RunFailed) -> Path:
    """Keep the last failure for whoever mends it."""
    path = cache / "failure.txt"
    with suppress(OSError):
        write_whole(path, "".join(traceback.format_exception(error)).encode("utf-8", "replace"))
    return path
