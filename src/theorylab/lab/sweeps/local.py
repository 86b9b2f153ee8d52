"""The embedded engine: this process for one worker, else processes of its own.

    driver ── {"run": task} ──► worker      JSON, a line each, through the worker's standard input
    driver ◄── {"ended": …} ─── worker      and output

Workers are started as programs, never forked, so that threads of XLA do not matter and a script
without `if __name__ == "__main__"` is not run twice. Each has one thread. A worker that dies closes
its pipe, which is noticed at once; a driver that dies closes the other one, which ends its workers.
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from theorylab.lab.background import in_background
from theorylab.lab.failure import RunFailed, one_line

from .engine import Deck, Ended, Task
from .work import ONE_THREAD, Worker

_MOST_FALSE_STARTS = 3  # workers in a row that end by themselves before they are ready
_MOST_KILLED = 30  # and that somebody kills before
SIGNAL = "signal"


def program(module: str, *arguments: str) -> list[str]:
    """The command that calls `main` of a module of this package, in a Python like this one."""
    path, name = f"import sys; sys.path[:] = {sys.path!r}", f"theorylab.lab.sweeps.{module}"
    return [sys.executable, "-c", f"{path}; from {name} import main; main()", *arguments]


def environment() -> dict[str, str]:
    """That of a worker beside others."""
    return os.environ | ONE_THREAD | {"PYTHONUNBUFFERED": "1"}


class Here:
    """Runs everything in this process, so that nothing is started and nothing is shared."""

    def __init__(self, root: Path, with_figures: bool = False) -> None:
        self._deck = Deck()
        self._worker = Worker(root, with_figures)
        self._worker.__enter__()
        self._busy = False

    @property
    def running(self) -> int:
        """One as long as there is something to do."""
        return int(self._busy)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Take tasks."""
        self._deck.add(tasks)
        self._busy = len(self._deck) > 0

    def finished(self, seconds: float) -> list[Ended]:
        """Run the next task, however long it takes; Ctrl-C is heard."""
        task = self._deck.deal("here")
        ended = [] if task is None else [in_background(lambda: self._worker.run(task))]
        self._busy = len(self._deck) > 0
        return ended

    def close(self) -> None:
        """Let the settings of JAX be as they were."""
        self._worker.__exit__()


class _Process:
    """One worker, and what it is running."""

    def __init__(self, name: str, root: Path, with_figures: bool, heard: "queue.Queue") -> None:
        self.name, self.task, self.is_ready = name, None, False
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 # closed with the worker
        self.process = subprocess.Popen(
            program("process"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=environment(),
        )
        self.send({"root": str(root.resolve()), "figures": with_figures})
        threading.Thread(target=self._listen, args=(heard,), daemon=True).start()

    task: Task | None

    def send(self, message: dict[str, Any]) -> None:
        """Tell it something; if it is gone, that is heard soon."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def _listen(self, heard: "queue.Queue[tuple[str, dict[str, Any] | None]]") -> None:
        """Pass on what it says, and at last that it is gone."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                heard.put((self.name, json.loads(line)))
            except ValueError:  # it was killed while it spoke
                break
        heard.put((self.name, None))

    def end(self) -> str:
        """End it, and say how it ended."""
        self.process.kill()
        code = self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):  # what was not sent yet goes nowhere
                    stream.close()
        self.errors.seek(0)
        words = self.errors.read()[-1000:].decode(errors="replace").strip().splitlines()
        self.errors.close()
        said = f": {one_line(words[-1])}" if words and code > 0 else ""
        return f"{SIGNAL} {-code}" if code < 0 else f"exit code {code}{said}"


class Processes:
    """Runs tasks in several processes of this machine."""

    def __init__(self, root: Path, workers: int, with_figures: bool = False) -> None:
        self._root, self._workers, self._with_figures = root, workers, with_figures
        self._deck = Deck()
        self._processes: dict[str, _Process] = {}
        self._heard: queue.Queue[tuple[str, dict[str, Any] | None]] = queue.Queue()
        self._number = self._false_starts = self._killed = 0

    @property
    def running(self) -> int:
        """How many of them are busy."""
        return sum(process.task is not None for process in self._processes.values())

    def submit(self, tasks: Sequence[Task]) -> None:
        """Take tasks, and start workers for them."""
        self._deck.add(tasks)
        for process in self._processes.values():
            self._deal(process)
        self._start()

    def finished(self, seconds: float) -> list[Ended]:
        """What has ended since the last call."""
        ended: list[Ended] = []
        try:
            ended += self._hear(*self._heard.get(timeout=seconds))
            while True:
                ended += self._hear(*self._heard.get_nowait())
        except queue.Empty:
            return ended

    def close(self) -> None:
        """End all of them."""
        processes = list(self._processes.values())
        for process in processes:
            process.process.kill()
        for process in processes:
            process.end()
        self._processes.clear()

    def _start(self) -> None:
        """Start workers while tasks wait for one and there may be more."""
        idle = sum(not process.is_ready for process in self._processes.values())
        while len(self._processes) < self._workers and len(self._deck) > idle:
            self._number += 1
            name = f"worker {self._number}"
            process = _Process(name, self._root, self._with_figures, self._heard)
            self._processes[name] = process
            idle += 1

    def _hear(self, name: str, message: dict[str, Any] | None) -> list[Ended]:
        """A worker is ready, has ended a task, or is gone."""
        process = self._processes.get(name)
        if process is None:
            return []
        if message is None:
            return self._gone(process)
        self._false_starts = self._killed = 0
        process.is_ready = True
        ended = []
        if "ended" in message:
            ended = [Ended(*message["ended"])]
            process.task = None
        self._deal(process)
        return ended

    def _deal(self, process: _Process) -> None:
        """Give a worker that is free its next task."""
        if process.is_ready and process.task is None:
            process.task = self._deck.deal(process.name)
            if process.task is not None:
                process.send({"run": list(process.task)})

    def _gone(self, process: _Process) -> list[Ended]:
        """Take note of a death, and start another worker."""
        how = process.end()
        del self._processes[process.name]
        self._deck.leave(process.name)
        if not process.is_ready:
            self._killed += how.startswith(SIGNAL)
            self._false_starts += not how.startswith(SIGNAL)
            if self._false_starts >= _MOST_FALSE_STARTS or self._killed >= _MOST_KILLED:
                raise RunFailed(f"no worker can be started ({how}).")
        self._start()
        return [Ended(process.task.key, "lost", how)] if process.task is not None else []
