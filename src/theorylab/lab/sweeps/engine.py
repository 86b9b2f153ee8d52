"""What runs the settings of a sweep: an engine takes tasks, and tells which have ended, and how.

    submit(tasks) ─► finished(seconds) ─► Ended("done" | "failed" | "lost") ─► … ─► close()

An engine decides nothing: which settings are tried again is for `drive` to say. It deals its tasks
from a `Deck`, so that settings that share compiled programs go to the same worker.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

State = Literal["done", "failed", "lost"]  # lost: the worker died while it ran


class Task(NamedTuple):
    """A setting as it travels to a worker: plain values only."""

    key: str
    name: str  # of the experiment
    path: str  # of its file
    module: str
    own: bool  # whether it is a file of the user's
    preset: str
    config: dict[str, Any]  # as JSON has it
    group: str  # settings of one group share their compiled programs


class Ended(NamedTuple):
    """A task that is no longer running."""

    key: str
    state: State
    why: str = ""  # on one line, unless it is done


@runtime_checkable
class Engine(Protocol):
    """Runs tasks somewhere; their outcomes are in the store when they are done."""

    def submit(self, tasks: Sequence[Task]) -> None:
        """Take tasks."""
        ...

    def finished(self, seconds: float) -> list[Ended]:
        """The tasks that have ended since the last call; waits so long for one."""
        ...

    @property
    def running(self) -> int:
        """How many tasks are being run now."""
        ...

    def close(self) -> None:
        """End all workers; what they run is lost."""
        ...


@dataclass
class Deck:
    """The tasks that wait, in groups, and the group that each worker had last.

    Example:
        >>> def task(key, group): return Task(key, "", "", "", False, "", {}, group)
        >>> deck = Deck()
        >>> deck.add([task("1", "a"), task("2", "b"), task("3", "a")])
        >>> [deck.deal(worker).key for worker in ("left", "right", "left")]
        ['1', '2', '3']
    """

    _groups: dict[str, list[Task]] = field(default_factory=dict)
    _last: dict[str, str] = field(default_factory=dict)  # worker ─► group

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def add(self, tasks: Sequence[Task]) -> None:
        """Put tasks at the end."""
        for task in tasks:
            self._groups.setdefault(task.group, []).append(task)

    def deal(self, worker: str) -> Task | None:
        """The next task for a worker, None if none waits.

        It stays with its group; then takes one that nobody works on; then helps with the largest.
        """
        if not self._groups:
            return None
        group = self._last.get(worker)
        if group not in self._groups:
            taken = {group for other, group in self._last.items() if other != worker}
            free = [name for name in self._groups if name not in taken]
            group = free[0] if free else max(self._groups, key=lambda name: len(self._groups[name]))
        tasks = self._groups[group]
        task = tasks.pop(0)
        if not tasks:
            del self._groups[group]
        self._last[worker] = group
        return task

    def leave(self, worker: str) -> None:
        """Hear that a worker is gone, and what it had compiled with it."""
        self._last.pop(worker, None)
