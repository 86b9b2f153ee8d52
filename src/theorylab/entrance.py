"""The doors for Python: `run`, `sweep` and `find` are what they are in the shell."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theorylab.experiments.reader import TreeError
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.folders import store_folder
from theorylab.lab import Outcome, Refused, Store
from theorylab.lab.found import Found
from theorylab.lab.requests import find as find_experiment
from theorylab.lab.requests import request
from theorylab.lab.session import Silence, obtain
from theorylab.report.progress import LiveProgress

if TYPE_CHECKING:
    from theorylab.lab.sweeps import Plan, Sweep


def run(
    name: str | Path,
    /,
    *,
    preset: str = "default",
    force: bool = False,
    store: str | Path | None = None,
    progress: bool = True,
    **fields: Any,
) -> Outcome:
    """Run an experiment and judge its claims; what is in the store already is read.

    `theorylab.run("dynamics/catapult", ratios=(1, 3))` is `theorylab run dynamics/catapult
    --ratios 1,3`.

    Args:
        name: Of the experiment, as `theorylab list` shows it; or the path of a file of your own.
        preset: "smoke", "default" or "paper": how large it is.
        force: Whether to run even what is in the store.
        store: The folder of outcomes; the one in the user's data folder unless told otherwise.
        progress: Whether to show how far it is, in a terminal or a notebook.
        **fields: Fields of its `Config`, in place of the preset's.

    Raises:
        ValueError: There is no such experiment, preset or field, or a value is outside its domain,
            or needs more memory than there is; nothing was run.
        RuntimeError: The run failed.
    """
    notice = _notice
    try:
        asked = request(find_experiment(EXPERIMENTS, name, notice), preset, fields)
    except TreeError as error:
        raise Refused(str(error)) from None
    kept = Store(store_folder() if store is None else Path(store).expanduser())
    display = LiveProgress(total=1) if progress else Silence()
    obtained = obtain([asked], kept, force, display, notice)
    if obtained.failures:
        raise obtained.failures[0]
    return obtained.outcomes[0]


def find(
    where: str = "",
    /,
    *,
    experiment: str = "",
    limit: int | None = None,
    store: str | Path | None = None,
) -> Found:
    """Find outcomes in the store by what they are and by what was found.

    `theorylab.find("width >= 256 and verdict = 'refuted'")` is `theorylab find --where "…"`. What
    it gives is a sequence of short descriptions; `.outcomes()` reads the outcomes whole, and
    `.to_pandas()` makes a table.

    Args:
        where: What must hold; the page on the store has the language. Everything unless given.
        experiment: Its name, or the name of a folder of experiments; all unless given.
        limit: How many are found at most.
        store: The folder of outcomes; the one in the user's data folder unless told otherwise.

    Raises:
        ValueError: What must hold cannot be read, with the place; or nothing has such a name.
    """
    kept = Store(store_folder() if store is None else Path(store).expanduser())
    return kept.find(where, EXPERIMENTS.renames.get(experiment, experiment), limit)


def sweep(
    name: str | Path,
    /,
    over: Mapping[str, Any] | None = None,
    *,
    seeds: int | None = None,
    preset: str = "default",
    engine: str = "local",
    workers: int | None = None,
    scheduler: str | None = None,
    slurm: str | None = None,
    named: str | None = None,
    draw: int = 0,
    figures: bool = False,
    store: str | Path | None = None,
    progress: bool = True,
    **fields: Any,
) -> "Sweep":
    """Run an experiment at many settings; what is in the store already is read.

    `theorylab.sweep("dynamics/catapult", over={"width": (64, 128)}, seeds=20)` is `theorylab sweep
    dynamics/catapult --over width=64,128 --seeds 20`. Stopped at any time and asked again, it goes
    on where it was. A setting that fails stops nothing: see `failures` of what comes back.

    Args:
        name: Of the experiment, or the path of a file of your own.
        over: The fields that vary: sequences of values, or texts such as "1:5:0.25",
            "log:1e-3:1:9", "random:0:1:20", "sobol:0:1:32".
        seeds: How many seeds each setting has, from the field `seed` on.
        preset: Where the other fields come from.
        engine: "local", this machine, or "dask", a cluster.
        workers: How many processes; one is this process itself.
        scheduler: Of Dask, if there is one already: "tcp://…".
        slurm: What each job asks for, as "partition=cpu,memory=4GB"; starts workers through Slurm.
        named: Under which name the store remembers it; one made of what was asked unless given.
        draw: The seed of values that are drawn at random.
        figures: Whether each setting is drawn; else `theorylab.run` draws it when it is asked for.
        store: The folder of outcomes; the one in the user's data folder unless told otherwise.
        progress: Whether to show how far it is.
        **fields: Fields of its `Config` that all settings have, in place of the preset's.

    Raises:
        ValueError: What is asked cannot be: an experiment, a field, an axis, an engine; or a
            setting is outside its domain or needs more memory than there is. Nothing was run.
        RuntimeError: The engine broke down; what was finished is in the store.
    """
    from theorylab.lab.sweeps.asking import Workers, ask
    from theorylab.lab.sweeps.drive import Unwatched
    from theorylab.lab.sweeps.names import checked_name
    from theorylab.report.sweeping import SweepProgress

    there = Workers(engine, workers, scheduler, slurm)
    made = _planned(name, over or {}, seeds, preset, draw, fields)
    known = made.name if named is None else checked_name(named)
    kept = Store(store_folder() if store is None else Path(store).expanduser())
    monitor = SweepProgress(known) if progress else Unwatched()
    return ask(made, kept, there, monitor, _notice, known, figures)


def _planned(
    name: str | Path,
    over: Mapping[str, Any],
    seeds: int | None,
    preset: str,
    draw: int,
    fields: Mapping[str, Any],
) -> "Plan":
    """The plan of a sweep that Python asks for."""
    from theorylab.lab.sweeps.plan import Asked, fixed_values, jsonable, plan

    try:
        found = find_experiment(EXPERIMENTS, name, _notice)
        asked = Asked(
            experiment=str(found.entry.path) if found.own else found.entry.name,
            preset=preset,
            fixed=fixed_values(found, preset, fields),
            over=jsonable(over),
            seeds=seeds,
            draw=draw,
        )
        return plan(EXPERIMENTS, asked, _notice)
    except TreeError as error:
        raise Refused(str(error)) from None


def _notice(text: str) -> None:
    print(f"theorylab: {text}", file=sys.stderr)
