"""The engine for clusters: Dask's workers run the settings, and write into the store themselves.

    cluster()                 LocalCluster, a scheduler's address, or Slurm through dask-jobqueue

By pickle travel a function's name, plain values (`Task`) and what has become of them (`Ended`):
no arrays, no code. The store must be a folder that all workers see under the same path. Each worker
has one setting at a time; it is this engine, not Dask, that notices a worker's death, so that a
setting is never blamed for what its neighbour did. Dask is imported only when it is used.
"""

import contextlib
import queue
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from theorylab.lab.failure import Refused, RunFailed, one_line

from .engine import Deck, Ended, Task
from .local import environment, program
from .work import ONE_THREAD, Worker, extend_path

MOST_DEATHS = 30  # of workers on this machine, without one that is ready
PATIENCE = 60.0  # seconds without any worker, where none has to wait for its turn
_LOOK = 0.5  # seconds between two looks at who is there

SLURM = {
    "partition": "queue",
    "account": "account",
    "walltime": "walltime",
    "memory": "memory",
    "cores": "cores",
    "interface": "interface",
}  # what `--slurm` takes, and what dask-jobqueue calls it

_workers: dict[tuple[str, bool], Worker] = {}  # of this process, if it is one of Dask's


def run_there(task: tuple, root: str, with_figures: bool, path: list[str]) -> tuple:
    """Run a task in one of Dask's workers, which stays warm.

    Args:
        task: A `Task`, as a tuple.
        root: Of the store.
        with_figures: Whether to draw.
        path: Where the one who asks finds modules.
    """
    return tuple(_warm(root, with_figures, path).run(Task(*task)))


def warm_there(root: str, with_figures: bool, path: list[str]) -> bool:
    """Import what all settings need: a worker that dies meanwhile costs no setting an attempt."""
    return isinstance(_warm(root, with_figures, path), Worker)


def _warm(root: str, with_figures: bool, path: list[str]) -> Worker:
    extend_path(path)
    known = _workers.get((root, with_figures))
    if known is None:
        known = _workers[root, with_figures] = Worker(Path(root), with_figures).__enter__()
    return known


class Cluster:
    """Runs tasks on the workers of a Dask cluster."""

    def __init__(
        self, client: Any, cluster: Any, root: Path, with_figures: bool, patience: float | None
    ) -> None:
        self._client, self._cluster = client, cluster
        self._root, self._with_figures = str(root.resolve()), with_figures
        self._patience = patience
        self._deck = Deck()
        self._running: dict[str, tuple[Task, Any]] = {}  # address of a worker ─► what it runs
        self._warming: dict[str, Any] = {}  # address ─► what readies it for settings
        self._heard: queue.Queue[str] = queue.Queue()
        self._there: set[str] = set()
        self._looked = self._seen = time.monotonic() - _LOOK
        self._number = 0

    @property
    def running(self) -> int:
        """How many workers are busy."""
        return len(self._running)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Take tasks."""
        self._deck.add(tasks)
        self._seen = time.monotonic()

    def finished(self, seconds: float) -> list[Ended]:
        """What has ended since the last call."""
        self._look()
        self._deal()
        addresses = []
        with contextlib.suppress(queue.Empty):
            addresses.append(self._heard.get(timeout=seconds))
            while True:
                addresses.append(self._heard.get_nowait())
        ended = [self._ended(address) for address in dict.fromkeys(addresses)]
        self._deal()
        gone = [self._lost(address) for address in list(self._running) if self._is_gone(address)]
        return [each for each in [*ended, *gone] if each is not None]

    def close(self) -> None:
        """Let go of the cluster; end it, if it was started here."""
        for _, future in self._running.values():
            with contextlib.suppress(Exception):
                future.cancel(force=True)
        for each in (self._client, self._cluster):
            with contextlib.suppress(Exception):
                if each is not None:
                    each.close()

    def _look(self) -> None:
        """See which workers are there."""
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        try:
            self._there = set(self._client.nthreads())
        except Exception as error:
            raise _scheduler_gone(error) from error
        if self._client.status not in ("running", "connecting"):
            raise _scheduler_gone(self._client.status)
        if isinstance(self._cluster, Keeper):
            self._cluster.keep(bool(self._there))
        if self._there:
            self._seen = now
        elif self._patience is not None and now - self._seen > self._patience:
            raise RunFailed(
                f"the cluster has had no worker for {self._patience:.0f} s; "
                "what was finished is in the store."
            )

    def _deal(self) -> None:
        """Give every free worker a task."""
        for address in self._there - self._running.keys():
            if not self._is_warm(address):
                continue
            task = self._deck.deal(address)
            if task is None:
                return
            self._number += 1
            future = self._client.submit(
                run_there,
                tuple(task),
                self._root,
                self._with_figures,
                sys.path,
                key=f"theorylab-{task.key}-{self._number}-{id(self)}",
                workers=[address],
                allow_other_workers=False,
                pure=False,
            )
            self._running[address] = task, future
            future.add_done_callback(lambda _, address=address: self._heard.put(address))

    def _is_warm(self, address: str) -> bool:
        """Whether a worker has imported what it needs; it is told to, if it was not yet."""
        if address not in self._warming:
            self._warming[address] = self._client.submit(
                warm_there,
                self._root,
                self._with_figures,
                sys.path,
                key=f"theorylab-warm-{address}-{id(self)}",
                workers=[address],
                allow_other_workers=False,
                pure=False,
            )
        return self._warming[address].done()

    def _ended(self, address: str) -> Ended | None:
        """What has become of the task of a worker that reports."""
        if address not in self._running:
            return None
        task, future = self._running[address]
        if not future.done():
            return None  # it was an earlier one that reported
        del self._running[address]
        if future.status == "finished":
            return Ended(*future.result())
        if future.status in ("lost", "cancelled"):
            return Ended(task.key, "lost", "Dask lost it")
        error = future.exception()
        if type(error).__name__ == "KilledWorker":
            return Ended(task.key, "lost", "its worker died")
        why = f"{task.name} failed: {type(error).__name__}: {one_line(error)}"
        return Ended(task.key, "failed", why)

    def _is_gone(self, address: str) -> bool:
        return address not in self._there and not self._running[address][1].done()

    def _lost(self, address: str) -> Ended:
        """Take note that a worker is gone."""
        task, future = self._running.pop(address)
        with contextlib.suppress(Exception):
            future.cancel(force=True)
        self._deck.leave(address)
        return Ended(task.key, "lost", "its worker is gone")


def cluster(
    root: Path,
    workers: int,
    scheduler: str | None,
    slurm: Mapping[str, str] | None,
    with_figures: bool,
) -> Cluster:
    """Start or find a cluster.

    Args:
        root: Of the store.
        workers: How many to start; of a scheduler that is there already, those that it has.
        scheduler: Its address, "tcp://…"; None to start one.
        slurm: What each job asks for, see `SLURM`; None unless the workers are jobs of Slurm.
        with_figures: Whether to draw.

    Raises:
        Refused: Dask is not installed, or the scheduler cannot be reached.
    """
    distributed = imported("distributed")
    if slurm is not None:
        jobs = _slurm(workers, slurm)
        return Cluster(_client(distributed, jobs), jobs, root, with_figures, None)
    if scheduler is not None:
        return Cluster(_client(distributed, scheduler), None, root, with_figures, PATIENCE)
    here = distributed.LocalCluster(
        n_workers=0, processes=True, dashboard_address=None, silence_logs=50
    )
    keeper = Keeper(here, workers)
    return Cluster(_client(distributed, here), keeper, root, with_figures, PATIENCE)


class Keeper:
    """Keeps so many workers alive on this machine.

    Dask's own nannies give up on a worker that is killed while it starts; and they start processes
    in a way that runs a script without `if __name__ == "__main__"` twice.
    """

    def __init__(self, cluster: Any, number: int) -> None:
        self._cluster = cluster
        self._deaths = 0  # since there was a worker
        self._processes = [self._started() for _ in range(number)]

    def _started(self) -> subprocess.Popen:
        return subprocess.Popen(
            program("dask_worker", self._cluster.scheduler_address),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )

    def keep(self, some_are_there: bool) -> None:
        """Start workers in the place of those that are gone.

        Raises:
            RunFailed: Many have ended without one that was ready.
        """
        self._deaths = 0 if some_are_there else self._deaths
        for place, process in enumerate(self._processes):
            if process.poll() is not None:
                self._deaths += 1
                if self._deaths > MOST_DEATHS:
                    raise RunFailed(f"no worker of Dask can be started ({process.returncode}).")
                _let_go(process)
                self._processes[place] = self._started()

    def close(self) -> None:
        """End the workers, then the scheduler."""
        for process in self._processes:
            process.kill()
            process.wait()
            _let_go(process)
        self._cluster.close()


def _let_go(process: subprocess.Popen) -> None:
    """Close the pipe to a process that is gone."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()


def imported(name: str) -> Any:
    """A package of the extra `cluster`.

    Raises:
        Refused: It is not installed; says how it is.
    """
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise Refused(
            f"the engine dask needs {name.replace('_', '-')}, which is not installed:"
            ' pip install "theorylab[cluster]"'
        ) from None


def slurm_options(text: str) -> dict[str, str]:
    """What `--slurm` says: partition=cpu,walltime=01:00:00,memory=4GB.

    Raises:
        Refused: There is no such option.

    Example:
        >>> slurm_options("partition=cpu,memory=4GB")
        {'partition': 'cpu', 'memory': '4GB'}
    """
    options = {}
    for part in filter(None, text.split(",")):
        name, equals, value = (each.strip() for each in part.partition("="))
        if name not in SLURM or not equals or not value:
            must = f"slurm takes NAME=VALUE of {', '.join(SLURM)}, separated by commas"
            raise Refused(f"{must}, got {part!r}.")
        options[name] = value
    if "cores" in options and not options["cores"].isdecimal():
        raise Refused(f"slurm: cores must be a whole number, got {options['cores']!r}.")
    return options


def _slurm(workers: int, options: Mapping[str, str]) -> Any:
    """Jobs of Slurm, a worker each."""
    jobqueue = imported("dask_jobqueue")
    given: dict[str, Any] = {"cores": "1", "memory": "4GB"} | dict(options)
    named = {SLURM[name]: value for name, value in given.items()}
    exports = [f"export {name}={value}" for name, value in ONE_THREAD.items()]
    jobs = jobqueue.SLURMCluster(
        **named | {"cores": int(given["cores"]), "processes": 1}, job_script_prologue=exports
    )
    jobs.scale(jobs=workers)
    return jobs


def _client(distributed: Any, where: Any) -> Any:
    """A client of a cluster, or of a scheduler by its address."""
    try:
        return distributed.Client(where, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        address = where if isinstance(where, str) else "the cluster"
        raise Refused(
            f"the scheduler must answer at {address}, and does not ({one_line(error, 120)})."
        ) from None


def _scheduler_gone(why: object) -> RunFailed:
    return RunFailed(
        f"the scheduler of the cluster is gone ({one_line(why, 120)}); "
        "what was finished is in the store: ask for the sweep again."
    )
