"""Run one setting of a sweep in a worker, whichever engine it belongs to.

Task ─► Ended, and an outcome in the store

A worker is warm: it imports an experiment once and keeps its compiled programs. It runs one setting
at a time, in the order in which they come.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

from theorylab.experiments.entry import State
from theorylab.experiments.reader import read, state_of
from theorylab.folders import cache_folder
from theorylab.lab.failure import Refused, RunFailed, one_line
from theorylab.lab.key import code, key_of
from theorylab.lab.requests import Found, Request
from theorylab.lab.session import Ready, Silence, kept_traceback, ready_backend, settle
from theorylab.lab.store import Store

from .engine import Ended, Task

MANY_GROUPS = 40  # whose compiled programs are kept in memory at once

# Of a worker that is a process among several: one thread, for each core has its own worker.
ONE_THREAD = {
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class _Experiment:
    """An experiment that this process has imported, and the keys of the code as it was then."""

    found: Found
    module: ModuleType
    key: Callable[[Any], str]


@dataclass
class Worker:
    """Runs tasks in this process, one after the other; for `with`."""

    root: Path  # of the store
    with_figures: bool = False
    _experiments: dict[tuple[str, State], _Experiment] = field(default_factory=dict)
    _groups: set[str] = field(default_factory=set)
    _stack: ExitStack = field(default_factory=ExitStack)
    _lock: Lock = field(default_factory=Lock)

    def __enter__(self) -> "Worker":
        ready_backend()
        from theorylab.lab.compilation import kept_compilations

        self._stack.enter_context(kept_compilations(cache_folder()))
        return self

    def __exit__(self, *_: Any) -> None:
        self._stack.close()

    def run(self, task: Task) -> Ended:
        """Run a task, unless somebody else has done so already."""
        with self._lock:
            try:
                self._make_room(task.group)
                self._run(task)
            except (RunFailed, Refused) as error:
                if error.__cause__ is not None and isinstance(error, RunFailed):
                    kept_traceback(cache_folder(), error)
                return Ended(task.key, "failed", one_line(error))
            except Exception as error:
                why = f"{task.name} failed: {type(error).__name__}: {one_line(error)}"
                return Ended(task.key, "failed", why)
        return Ended(task.key, "done")

    def _run(self, task: Task) -> None:
        from theorylab.lab.conduct import configure

        store = Store(self.root)
        if (store.path(task.name, task.key) / "manifest.json").exists():
            return
        known = self._experiment(task)
        entry = known.found.entry
        if known.key(task.config) != task.key:
            raise RunFailed(
                f"{task.name}: a worker must have the code and the libraries of whoever asks, "
                "got another version of them."
            )
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in task.config.items()}
        config = configure(entry, known.module, values)
        request = Request(known.found, task.preset, values)
        ready = Ready(request, task.key, known.module, config)
        settle(ready, store, Silence(), False, _unheard, self.with_figures)

    def _experiment(self, task: Task) -> _Experiment:
        """The experiment, imported once, as its file is now."""
        path = Path(task.path)
        name = (task.path, state_of(path))
        if name not in self._experiments:
            entry = replace(read(path), name=task.name)
            found = Found(entry, task.module, task.own)
            key = partial(key_of, code(entry, task.module))
            try:
                module = found.load()
            except Exception as error:
                why = f"{type(error).__name__}: {one_line(error)}"
                raise RunFailed(f"{task.name} cannot be imported: {why}") from error
            self._experiments[name] = _Experiment(found, module, key)
        return self._experiments[name]

    def _make_room(self, group: str) -> None:
        """Forget compiled programs when those of many groups have piled up."""
        if group not in self._groups and len(self._groups) >= MANY_GROUPS:
            import jax

            jax.clear_caches()
            self._groups.clear()
        self._groups.add(group)


def _unheard(text: str) -> None:
    """Workers have nobody to tell."""


def extend_path(entries: list[str]) -> None:
    """Let this process import what the one that asks can import."""
    sys.path.extend(entry for entry in entries if entry not in sys.path)
