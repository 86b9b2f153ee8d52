"""The door for Python: `theorylab.run` is what `theorylab run` is in the shell; so is `find`."""

import sys
from pathlib import Path
from typing import Any

from theorylab.experiments.reader import TreeError
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.folders import store_folder
from theorylab.lab import Outcome, Refused, Store
from theorylab.lab.found import Found
from theorylab.lab.requests import find as find_experiment
from theorylab.lab.requests import request
from theorylab.lab.session import Silence, obtain
from theorylab.report.progress import LiveProgress


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

    def notice(text: str) -> None:
        print(f"theorylab: {text}", file=sys.stderr)

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
