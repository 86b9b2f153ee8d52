"""Drive a sweep: read what is in the store, submit what is missing, until nothing is left.

    Plan ─► key in the store? ─► read
                 └► task ─► engine ─► done: read · failed: told · lost: tried again, 3 times in all

The store is the truth: whoever stops this at any time and asks again loses only what was running.
A setting that fails is told with its config and stops nothing. One whose worker dies is tried
again, in case it was not its fault; a failure of its own is not, for it would fail again.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from theorylab.lab.blocks import sweep_forgotten
from theorylab.lab.failure import Refused, RunFailed, one_line
from theorylab.lab.folders import require_writable
from theorylab.lab.outcome import Outcome
from theorylab.lab.requests import Notice, Request
from theorylab.lab.session import ready_backend
from theorylab.lab.store import Store

from .engine import Ended, Engine, Task
from .plan import SEED, Plan

MOST_ATTEMPTS = 3  # of a setting whose workers die
_WAIT = 0.2  # seconds for which the engine is waited for before progress is shown


@dataclass(frozen=True)
class Progress:
    """How far a sweep is."""

    total: int
    read: int  # from the store
    done: int  # run by this sweep
    failed: int
    running: int
    seconds_left: float | None  # None while nothing is known


@dataclass(frozen=True)
class Failure:
    """A setting that failed, or was given up."""

    key: str
    config: dict[str, Any]
    swept: dict[str, Any]  # the fields that vary
    why: str
    attempts: int

    def __str__(self) -> str:
        """On one line: which, and why."""
        setting = " ".join(f"{name}={value}" for name, value in self.swept.items())
        return f"{setting}: {self.why}"


@runtime_checkable
class Monitor(Protocol):
    """Shows how far a sweep is; made for `with`."""

    def __enter__(self) -> "Monitor": ...

    def __exit__(self, *_: Any) -> None: ...

    def show(self, progress: Progress) -> None:
        """Hear how far it is."""
        ...

    def tell(self, text: str) -> None:
        """Hear about one setting, on one line."""
        ...


class Unwatched:
    """A monitor that shows nothing."""

    def __enter__(self) -> "Unwatched":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def show(self, progress: Progress) -> None:
        """Show nothing."""

    def tell(self, text: str) -> None:
        """Tell nobody."""


@dataclass
class Driven:
    """What came of a sweep."""

    harvests: dict[str, Any] = field(default_factory=dict)  # key ─► what was taken of its outcome
    failures: list[Failure] = field(default_factory=list)
    num_read: int = 0
    num_run: int = 0
    num_lost: int = 0  # deaths of workers that were running a setting


@dataclass
class _Drive:
    """A sweep under way."""

    plan: Plan
    store: Store
    harvest: Callable[[Outcome], Any]
    monitor: Monitor
    notice: Notice
    driven: Driven = field(default_factory=Driven)
    attempts: dict[str, int] = field(default_factory=dict)
    left: dict[str, Task] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def take(self, key: str) -> bool:
        """Take what is needed of an outcome, if it is in the store, whole."""
        name = self.plan.found.entry.name
        outcome = self.store.recall(name, key, self.notice)
        if outcome is not None:
            self.driven.harvests[key] = self.harvest(outcome)
        return outcome is not None

    def show(self, running: int) -> None:
        """Say how far it is; the time left is that of the settings so far."""
        driven = self.driven
        ended = driven.num_run + len(driven.failures)
        elapsed = time.monotonic() - self.began
        left = elapsed / ended * len(self.left) if ended else None
        total = len(self.plan)
        self.monitor.show(
            Progress(total, driven.num_read, driven.num_run, len(driven.failures), running, left)
        )

    def hear(self, ended: Ended) -> list[Task]:
        """Take what has ended; gives what must be tried again."""
        task = self.left.get(ended.key)
        if task is None:
            return []
        if ended.state == "failed":
            self.give_up(task, ended.why)
            return []
        if self.take(ended.key):  # a worker may die after it has written
            del self.left[ended.key]
            self.driven.num_run += 1
            return []
        # Done, but gone or damaged since, counts as lost.
        self.attempts[ended.key] = self.attempts.get(ended.key, 0) + 1
        self.driven.num_lost += 1
        if self.attempts[ended.key] < MOST_ATTEMPTS:
            return [task]
        self.give_up(task, f"its worker died {MOST_ATTEMPTS} times ({ended.why}); given up.")
        return []

    def give_up(self, task: Task, why: str) -> None:
        """Note that a setting failed, and say so."""
        del self.left[task.key]
        request = self.plan.settings[task.key]
        swept = {name: request.config[name] for name in self.plan.swept}
        attempts = max(1, self.attempts.get(task.key, 0))
        failure = Failure(task.key, request.config, swept, why, attempts)
        self.driven.failures.append(failure)
        self.monitor.tell(str(failure))


def drive(
    plan: Plan,
    store: Store,
    engine: Callable[[], Engine],
    harvest: Callable[[Outcome], Any],
    monitor: Monitor,
    notice: Notice,
    workers: int = 1,
    begin: Callable[[], object] = lambda: None,
) -> Driven:
    """Have every setting of a plan in the store, as far as that is possible.

    Args:
        plan: The settings.
        store: Where outcomes are kept.
        engine: Makes the engine; called only if something is missing.
        harvest: Takes what is needed of an outcome, whose arrays are let go then.
        monitor: Shows how far it is.
        notice: Hears of damaged outcomes.
        workers: How many settings run on this machine at once, for the memory; 0 if they run on
            others.
        begin: Called when all is checked, before anything is run.

    Raises:
        Refused: A folder cannot be written, or a setting cannot be run; nothing was run.
        RunFailed: The experiment cannot be imported, or the engine broke down.
    """
    require_writable(store.root, "store")
    store.prepare()
    sweep_forgotten(store.root)
    driving = _Drive(plan, store, harvest, monitor, notice)
    missing = [key for key in plan.settings if not driving.take(key)]
    driving.driven.num_read = len(plan) - len(missing)
    if missing:
        check({key: plan.settings[key] for key in missing}, workers)
    begin()
    with monitor:
        driving.show(0)
        if missing:
            driving.left = {key: task_of(plan, key) for key in missing}
            _run(driving, engine())
    return driving.driven


def _run(driving: _Drive, engine: Engine) -> None:
    """Submit what is missing, and hear what becomes of it."""
    driving.began = time.monotonic()
    try:
        engine.submit(list(driving.left.values()))
        while driving.left:
            for ended in engine.finished(_WAIT):
                engine.submit(driving.hear(ended))
            driving.show(engine.running)
    finally:
        engine.close()


def check(missing: Mapping[str, Request], workers: int) -> None:
    """Refuse a sweep with a setting that cannot be run, before any is.

    Raises:
        Refused: A config is outside its domain, or needs more memory than there is.
        RunFailed: The experiment cannot be imported.
    """
    ready_backend()
    from theorylab.lab.conduct import configure, counted_bytes, needed_bytes, require_memory
    from theorylab.numerics.memory import available_memory, readable

    requests = list(missing.values())
    entry, experiment = requests[0].entry, _imported(requests[0])
    says, most, groups = hasattr(experiment, "memory"), 0, set()
    for request in requests:
        config = configure(entry, experiment, request.values)
        group = group_of(request)
        if says or group not in groups:  # else it is counted in the program, which groups share
            groups.add(group)
            require_memory(entry, experiment, config)
            if workers > 1:
                needed = counted_bytes(entry, config) + needed_bytes(entry, experiment, config)
                most = max(most, needed)
    available = available_memory()
    if available is not None and most * workers > available:
        raise Refused(
            f"{workers} workers must fit into the {readable(available)} of memory that are free,"
            f" got settings that need up to {readable(most)} each."
        )


def _imported(request: Request) -> ModuleType:
    try:
        return request.found.load()
    except Exception as error:
        why = f"{type(error).__name__}: {one_line(error)}"
        raise RunFailed(f"{request.entry.name} cannot be imported: {why}") from error


def task_of(plan: Plan, key: str) -> Task:
    """A setting as it travels."""
    request = plan.settings[key]
    found, entry = request.found, request.entry
    return Task(
        key=key,
        name=entry.name,
        path=str(entry.path),
        module=found.module,
        own=found.own,
        preset=request.preset,
        config=request.config,
        group=group_of(request),
    )


def group_of(request: Request) -> str:
    """What the compiled programs of a setting depend on: its static fields, and lengths."""
    traced = {*request.entry.batched, SEED}
    static = {
        name: len(value) if name in traced and isinstance(value, list) else value
        for name, value in request.config.items()
        if name not in traced or isinstance(value, list)
    }
    return json.dumps(static, sort_keys=True)
