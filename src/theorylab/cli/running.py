"""`run`, `tour` and `report`: here JAX is imported and the work is done."""

import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from theorylab.experiments.tree import Tree
from theorylab.folders import cache_folder, store_folder
from theorylab.lab import Outcome, RunFailed, Store
from theorylab.lab import Refused as Refused
from theorylab.lab.compilation import kept_compilations
from theorylab.lab.conduct import as_json, conduct, configure, one_line, require_memory
from theorylab.lab.folders import require_writable
from theorylab.lab.key import key
from theorylab.lab.records import record
from theorylab.lab.timings import expected_seconds, remember
from theorylab.progress import listening
from theorylab.report import LiveProgress, print_claims, write_page

from .background import in_background
from .commands import Parsed
from .listing import print_json
from .requests import Request
from .usage import Usage

OK, SURPRISE, RUN_FAILED = 0, 1, 3


def run(tree: Tree, asked: Sequence[Request], parsed: Parsed) -> int:
    """`theorylab run`: the table of claims, or JSON."""
    store = _store(parsed)
    outcomes, code = obtain(tree, asked, store, force="--force" in parsed.options)
    if "--json" in parsed.options:
        print_json([_record(store, outcome) for outcome in outcomes])
    elif outcomes:
        print_claims(outcomes, sys.stdout)
    for outcome in outcomes:
        notice(f"{outcome.experiment} is kept in {store.path(outcome.experiment, outcome.key)}")
    return code


def tour(tree: Tree, asked: Sequence[Request], parsed: Parsed) -> int:
    """`theorylab tour`: the table of claims and the path of a page about them."""
    store = _store(parsed)
    outcomes, code = obtain(tree, asked, store, force="--force" in parsed.options)
    if outcomes:
        print_claims(outcomes, sys.stdout)
        print(write_page(outcomes, store.root.resolve() / "tour.html"))
    return code


def report(tree: Tree, asked: Sequence[Request], parsed: Parsed) -> int:
    """`theorylab report`: the path of a page about everything in the store."""
    store = _store(parsed)
    outcomes = store.outcomes(notice)
    if not outcomes:
        raise Usage(f"a report needs outcomes, got none in {store.root}. Try theorylab tour.")
    page = Path(parsed.options.get("--to", store.root / "report.html")).resolve()
    if page.is_dir():
        raise Usage(f"--to must be a file, got the folder {page}.")
    require_writable(page.parent, "place of the page")
    print(write_page(outcomes, page))
    return 0


def notice(text: str) -> None:
    """Say one line to the user, beside the data."""
    print(f"theorylab: {text}", file=sys.stderr)


@dataclass(frozen=True)
class _Ready:
    """A run that can begin: imported, its config in its domain, its memory there."""

    request: Request
    experiment: ModuleType
    config: Any


def obtain(
    tree: Tree, asked: Sequence[Request], store: Store, force: bool
) -> tuple[list[Outcome], int]:
    """Read what is in the store and run the rest; the exit code comes with the outcomes.

    Raises:
        Refused: A folder cannot be written or a config cannot be run; nothing was run.
    """
    cache = cache_folder()
    store.prepare()
    require_writable(cache, "cache folder")
    jobs = [_stored_or_ready(tree, store, request, force) for request in asked]
    outcomes, failed = [], False
    with kept_compilations(cache), LiveProgress(total=len(jobs)) as progress:
        for job in jobs:
            if isinstance(job, Outcome):
                progress.start(job.experiment)
                progress.finish(job.experiment, note="read from the store")
                outcomes.append(job)
                continue
            try:
                outcomes.append(_run(job, store, cache, progress, force))
            except RunFailed as error:
                progress.finish(job.request.entry.name, note="failed")
                notice(f"{error} (traceback in {_kept_traceback(cache, error)})")
                failed = True
    if failed:
        return outcomes, RUN_FAILED
    return outcomes, OK if all(outcome.as_expected for outcome in outcomes) else SURPRISE


def _stored_or_ready(tree: Tree, store: Store, request: Request, force: bool) -> Outcome | _Ready:
    """Look into the store; if there is nothing, make ready to run."""
    entry, module = request.entry, tree.module(request.entry.name)
    if not force:
        stored = store.recall(entry.name, key(entry, module, as_json(request.values)), notice)
        if stored is not None:
            return replace(stored, preset=request.preset)
    try:
        experiment = tree.load(entry.name)
    except Exception as error:
        raise RunFailed(f"{entry.name} cannot be imported: {one_line(error)}") from error
    config = configure(entry, experiment, request.values)
    require_memory(entry, experiment, config)
    return _Ready(request, experiment, config)


def _run(ready: _Ready, store: Store, cache: Path, progress: LiveProgress, force: bool) -> Outcome:
    """Run, judge, draw and store."""
    name, preset = ready.request.entry.name, ready.request.preset
    is_preset = ready.request.is_preset
    progress.start(name, expected_seconds(cache, name, preset) if is_preset else None)

    def work() -> Outcome:
        with listening(progress.update):
            return conduct(ready.experiment, ready.config, preset)

    outcome = in_background(work)
    try:
        store.write(outcome, replace=force)
    except OSError as error:
        raise RunFailed(f"{name} was run but cannot be stored: {error}.") from error
    if is_preset:
        remember(cache, name, preset, outcome.seconds)
    progress.finish(name)
    return outcome


def _store(parsed: Parsed) -> Store:
    """The store that the user named, or the one in the data folder."""
    return Store(Path(parsed.options["--out"]) if "--out" in parsed.options else store_folder())


def _record(store: Store, outcome: Outcome) -> dict[str, Any]:
    """What `run --json` says about an outcome."""
    path = store.path(outcome.experiment, outcome.key).resolve()
    return record(outcome) | {"stored": outcome.stored, "path": str(path)}


def _kept_traceback(cache: Path, error: RunFailed) -> Path:
    """Keep the last failure for whoever mends it."""
    path = cache / "failure.txt"
    with suppress(OSError):
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return path
