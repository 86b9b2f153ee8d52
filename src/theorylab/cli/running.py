"""`run`, `record`, `tour` and `report`: what is done with outcomes, and the exit codes."""

import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from theorylab.experiments.tree import Tree
from theorylab.lab import Outcome, Store
from theorylab.lab.folders import require_writable
from theorylab.lab.outcome_json import outcome_json
from theorylab.lab.records import disagreements, forget_drawn, write_record
from theorylab.lab.requests import Request
from theorylab.lab.session import Obtained, obtain
from theorylab.report import LiveProgress, print_claims, write_page
from theorylab.report.atlas import collect, write_site

from .commands import Parsed
from .listing import print_json, recorded_of
from .requests import store_path
from .usage import Usage, notice

OK, SURPRISE, RUN_FAILED = 0, 1, 3


def run(tree: Tree, asked: Sequence[Request], parsed: Parsed) -> int:
    """`theorylab run`: the table of claims, or JSON."""
    store = store_of(parsed)
    outcomes, _ = obtained = _obtain(asked, store, parsed)
    if "--json" in parsed.options:
        print_json([_record(store, outcome) for outcome in outcomes])
    elif outcomes:
        print_claims(outcomes, sys.stdout)
    for outcome in outcomes:
        notice(f"{outcome.experiment} is kept in {store.path(outcome.experiment, outcome.key)}")
        _compare(tree, outcome)
    return _code(obtained)


def record(tree: Tree, asked: Sequence[Request], parsed: Parsed) -> int:
    """`theorylab record`: the paths of the records, each written as soon as its runs are done."""
    assert tree.records is not None, "record_requests has asked for it"
    store, failed = store_of(parsed), False
    by_name = groupby(asked, key=lambda request: request.entry.name)
    for name, requests in by_name:
        outcomes, failures = _obtain(list(requests), store, parsed)
        failed |= bool(failures)
        if not failures:
            print(write_record(tree.records, [outcome_json(outcome) for outcome in outcomes]))
            forget_drawn(store.root, name, outcomes[0].preset)
    return RUN_FAILED if failed else OK


def _compare(tree: Tree, outcome: Outcome) -> None:
    """Say whether the verdicts of a preset are those of its record."""
    recorded = recorded_of(tree, outcome.experiment, notice, outcome.preset)
    if recorded is None or _but_seed(recorded.config) != _but_seed(outcome.config):
        return
    now = {judged.statement: judged.finding.verdict for judged in outcome.judged}
    lines = disagreements(recorded, now)
    notice(f"{outcome.experiment}: {'unlike' if lines else 'as in'} the record of {recorded.date}.")
    for line in lines:
        notice(f"  {line}")


def _but_seed(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "seed"}


def tour(tree: Tree, asked: Sequence[Request], parsed: Parsed) -> int:
    """`theorylab tour`: the table of claims and the path of a page about them."""
    store = store_of(parsed)
    outcomes, _ = obtained = _obtain(asked, store, parsed)
    if outcomes:
        print_claims(outcomes, sys.stdout)
        print(write_page(outcomes, store.root.resolve() / "tour.html"))
    return _code(obtained)


def report(tree: Tree, asked: Sequence[Request], parsed: Parsed) -> int:
    """`theorylab report`: the path of the atlas, or of one page about everything in the store."""
    store = store_of(parsed)
    goal = Path(parsed.options.get("--to", store.root / "atlas")).expanduser().resolve()
    outcomes = store.outcomes(notice)
    if goal.suffix == ".html":
        if not outcomes:
            raise Usage(f"a page needs outcomes, got none in {store.root}. Try theorylab tour.")
        if goal.is_dir():
            raise Usage(f"--to must be a file if it ends in .html, got the folder {goal}.")
        require_writable(goal.parent, "place of the page")
        print(write_page(outcomes, goal))
        return OK
    require_writable(goal.parent, "place of the atlas")
    print(write_site(collect(tree, outcomes, notice), goal))
    return OK


def _obtain(asked: Sequence[Request], store: Store, parsed: Parsed) -> Obtained:
    return obtain(asked, store, "--force" in parsed.options, LiveProgress(len(asked)), notice)


def _code(obtained: Obtained) -> int:
    """The exit code."""
    if obtained.failures:
        return RUN_FAILED
    return OK if all(outcome.as_expected for outcome in obtained.outcomes) else SURPRISE


def store_of(parsed: Parsed) -> Store:
    """The store that the user named, or the one in the data folder."""
    return Store(store_path(parsed))


def _record(store: Store, outcome: Outcome) -> dict[str, Any]:
    """What `run --json` says about an outcome."""
    path = store.path(outcome.experiment, outcome.key).resolve()
    return outcome_json(outcome) | {"stored": outcome.stored, "path": str(path)}
