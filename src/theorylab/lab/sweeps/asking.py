"""Ask for a sweep, or for one that the store remembers: the way in for the shell and for Python.

what was asked ─► Plan ─► drive ─► Sweep, remembered under its name
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from theorylab.experiments.entry import Entry
from theorylab.experiments.tree import Tree
from theorylab.lab.failure import Refused
from theorylab.lab.outcome import Outcome
from theorylab.lab.requests import Notice
from theorylab.lab.store import Store

from .drive import Driven, Monitor, drive
from .engine import Engine
from .harvest import Row, harvest
from .plan import Plan, recall, remember

if TYPE_CHECKING:
    from .result import Sweep

ENGINES = ("local", "dask")
MOST_WORKERS = 1000


@dataclass(frozen=True)
class Workers:
    """Where settings run.

    Raises:
        Refused: The choices do not go together.
    """

    engine: str = "local"
    number: int | None = None
    scheduler: str | None = None  # of Dask, "tcp://…"
    slurm: str | None = None  # what each of its jobs asks for; "" for the defaults

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise Refused(f"engine must be {' or '.join(ENGINES)}, got {self.engine!r}.")
        number = self.number
        if number is not None and (type(number) is not int or not 1 <= number <= MOST_WORKERS):
            must = f"a whole number from 1 to {MOST_WORKERS}"
            raise Refused(f"workers must be {must}, got {number!r}.")
        if self.engine != "dask" and (self.scheduler is not None or self.slurm is not None):
            raise Refused("a scheduler and slurm need the engine dask, got local.")
        if self.scheduler is not None and self.slurm is not None:
            raise Refused("a sweep must have a scheduler or slurm, got both.")
        if self.scheduler is not None and "://" not in self.scheduler:
            raise Refused(f"scheduler must be an address like tcp://…, got {self.scheduler!r}.")
        if self.slurm is not None:
            from .dask_engine import slurm_options

            slurm_options(self.slurm)

    @property
    def count(self) -> int:
        """How many workers there are to be."""
        return self.number or (1 if self.engine == "local" else 2)

    @property
    def on_this_machine(self) -> int:
        """How many of them share the memory of this machine."""
        return self.count if self.scheduler is None and self.slurm is None else 0

    def check(self) -> None:
        """Refuse Dask where it is not installed, before anything is done."""
        if self.engine == "dask":
            from .dask_engine import imported

            imported("distributed")
            if self.slurm is not None:
                imported("dask_jobqueue")

    def start(self, root: Path, with_figures: bool) -> Engine:
        """Start them."""
        if self.engine == "dask":
            from .dask_engine import cluster, slurm_options

            slurm = None if self.slurm is None else slurm_options(self.slurm)
            return cluster(root, self.count, self.scheduler, slurm, with_figures)
        from .local import Here, Processes

        if self.count == 1:
            return Here(root, with_figures)
        return Processes(root, self.count, with_figures)


def ask(
    made: Plan,
    store: Store,
    workers: Workers,
    monitor: Monitor,
    notice: Notice,
    name: str | None = None,
    with_figures: bool = False,
) -> "Sweep":
    """Run a sweep: read what is there, run what is missing.

    Args:
        made: The plan.
        store: Where outcomes are kept.
        workers: Where settings run.
        monitor: Shows how far it is.
        notice: Hears of damaged outcomes, one line each.
        name: Under which the store remembers it; one made of what was asked unless given.
        with_figures: Whether each setting is drawn.

    Raises:
        Refused: Something cannot be; nothing was run.
        RunFailed: The experiment cannot be imported, or the engine broke down.
    """
    workers.check()
    name, path = name or made.name, made.found.entry.path
    driven = drive(
        made,
        store,
        lambda: workers.start(store.root, with_figures),
        lambda outcome: _harvested(outcome, path),
        monitor,
        notice,
        workers.on_this_machine,
        lambda: remember(store, made, name),
    )
    return _sweep(name, made, driven)


def remembered(tree: Tree, store: Store, name: str, notice: Notice) -> "Sweep":
    """A sweep as it was run, read from the store; what is not there any more is left out.

    Raises:
        Refused: The store does not remember it, or has nothing of it.
    """
    known = recall(store, name)
    path = tree.root / f"{known.experiment}.py"
    if known.asked.experiment.endswith(".py"):
        path = Path(known.asked.experiment)
    driven = Driven()
    for key in known.keys:
        outcome = store.recall(known.experiment, key, notice)
        if outcome is not None:
            driven.harvests[key] = _harvested(outcome, path)
    if not driven.harvests:
        raise Refused(f"the store has no outcome of the sweep {name!r}. --resume {name} runs it.")
    missing = len(known.keys) - len(driven.harvests)
    if missing:
        notice(f"{missing} of {len(known.keys)} settings of {name} are not in the store.")
    driven.num_read = len(driven.harvests)
    return _made(name, known.experiment, known.swept, driven, known.keys)


def dry(made: Plan, store: Store) -> tuple[int, int]:
    """How many settings of a plan are in the store, and how many would be run."""
    name = made.found.entry.name
    there = sum(store.path(name, key).is_dir() for key in made.settings)
    return there, len(made) - there


def _harvested(outcome: Outcome, path: Path) -> tuple[list[Row], dict[str, str]]:
    """The rows of an outcome, and its claims."""
    from .result import statements

    return harvest(outcome, path), dict(statements([each.statement for each in outcome.judged]))


def _sweep(name: str, made: Plan, driven: Driven) -> "Sweep":
    entry: Entry = made.found.entry
    return _made(name, entry.name, made.swept, driven, tuple(made.settings))


def _made(
    name: str, experiment: str, swept: tuple[str, ...], driven: Driven, keys: tuple[str, ...]
) -> "Sweep":
    """The sweep, its rows in the order of the plan."""
    from .result import Sweep

    found = [driven.harvests[key] for key in keys if key in driven.harvests]
    return Sweep(
        name=name,
        experiment=experiment,
        swept=swept,
        rows=tuple(row for rows, _ in found for row in rows),
        failures=tuple(driven.failures),
        claims=found[0][1] if found else {},
        num_settings=len(keys),
        num_read=driven.num_read,
        num_run=driven.num_run,
        num_lost=driven.num_lost,
    )
