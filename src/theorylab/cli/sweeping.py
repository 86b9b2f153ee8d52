"""`theorylab sweep` and `theorylab plot`: what was asked for, checked; the table, the figure."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from theorylab.experiments.tree import Tree
from theorylab.lab.folders import require_writable
from theorylab.lab.requests import Found, find
from theorylab.lab.store import Store
from theorylab.lab.sweeps.asking import Workers, ask, dry, remembered
from theorylab.lab.sweeps.names import checked_name
from theorylab.lab.sweeps.plan import Asked, Plan, plan, recall

from .commands import Parsed
from .flags import value_of
from .listing import print_json
from .requests import store_path
from .usage import Usage, notice

if TYPE_CHECKING:
    from theorylab.lab.sweeps.result import Sweep

OK, SURPRISE, FAILED = 0, 1, 3
FORMATS = (".svg", ".png", ".pdf")
_ASKING = ("--over", "--seeds", "--preset", "--draw")  # what --resume knows already


def sweep(tree: Tree, parsed: Parsed) -> int:
    """`theorylab sweep`: runs what is missing, prints the table's place or JSON."""
    workers = _workers(parsed)
    files = _files(parsed)
    store = Store(store_path(parsed))
    asked, name = _resumed(store, parsed) if "--resume" in parsed.options else _new(tree, parsed)
    made = plan(tree, asked, notice)
    name = name or made.name
    if "--dry-run" in parsed.options:
        return _dry(made, store, name, parsed)
    from theorylab.report import SweepProgress

    done = ask(
        made, store, workers, SweepProgress(name), notice, name, "--figures" in parsed.options
    )
    if "--csv" in files:
        done.to_csv(files["--csv"])
    if "--parquet" in files:
        done.to_parquet(files["--parquet"])
    if "--json" in parsed.options:
        print_json(_json(done))
    else:
        _print(done, files)
    if done.failures:
        return FAILED
    return OK if done.as_expected else SURPRISE


def plot(tree: Tree, parsed: Parsed) -> int:
    """`theorylab plot`: the path of the figure, or a fitted power law."""
    if len(parsed.words) != 1:
        got = " ".join(parsed.words) or "none"
        raise Usage(f"plot needs the name of one sweep, got {got}.")
    for flag in ("--x", "--y"):
        if flag not in parsed.options:
            raise Usage(f"plot needs {flag} COLUMN, got none.")
    name = checked_name(parsed.words[0])
    path = Path(parsed.options.get("--to", f"{name}.svg"))
    if path.suffix.lower() not in FORMATS or path.is_dir():
        raise Usage(f"--to must be a file that ends in {', '.join(FORMATS)}, got {path}.")
    found = remembered(tree, Store(store_path(parsed)), name, notice)
    x, y, hue = (parsed.options.get(flag) for flag in ("--x", "--y", "--hue"))
    assert x is not None
    assert y is not None
    law = found.fit(x, y) if "--fit" in parsed.options else None
    figure = found.plot(x, y, hue)
    require_writable(path.resolve().parent, "place of the figure")
    figure.savefig(path)
    print(path)
    if law is not None:
        print(f"{y} = {law.prefactor:.4g} {x}^{law.exponent:.4g} [{law.low:.4g}, {law.high:.4g}]")
    return OK


def _new(tree: Tree, parsed: Parsed) -> tuple[Asked, str | None]:
    """What the words ask for."""
    if len(parsed.words) != 1:
        got = " ".join(parsed.words) or "none"
        raise Usage(f"sweep needs the name of one experiment, got {got}.")
    found = find(tree, parsed.words[0], notice)
    asked = Asked(
        experiment=str(found.entry.path) if found.own else found.entry.name,
        preset=parsed.options.get("--preset", "default"),
        fixed=_fixed(found, parsed),
        over=_over(parsed),
        seeds=_number(parsed, "--seeds"),
        draw=_number(parsed, "--draw") or 0,
    )
    name = parsed.options.get("--as")
    return asked, None if name is None else checked_name(name)


def _resumed(store: Store, parsed: Parsed) -> tuple[Asked, str]:
    """What a remembered sweep asks for."""
    given = [flag for flag in (*_ASKING, "--as") if flag in parsed.options]
    given += ["--" + name.replace("_", "-") for name in parsed.fields]
    if parsed.words or given:
        got = " ".join([*parsed.words, *given])
        raise Usage(f"--resume takes a sweep as it was asked for, got {got} beside it.")
    known = recall(store, parsed.options["--resume"])
    return known.asked, known.name


def _fixed(found: Found, parsed: Parsed) -> dict[str, Any]:
    """The fields that all settings have."""
    from theorylab.lab.requests import request

    preset = parsed.options.get("--preset", "default")
    made = request(found, preset, parsed.fields, value_of)
    return {name: made.config[name] for name in parsed.fields}


def _over(parsed: Parsed) -> dict[str, str]:
    """The axes, by field."""
    over: dict[str, str] = {}
    for text in filter(None, parsed.options.get("--over", "").split("\n")):
        name, equals, axis = text.partition("=")
        name = name.strip().removeprefix("--").replace("-", "_")
        if not equals or not name or not axis.strip():
            raise Usage(f"--over must be FIELD=AXIS, got {text!r}.")
        if name in over:
            raise Usage(f"--over must name a field once, got {name} twice.")
        over[name] = axis.strip()
    return over


def _number(parsed: Parsed, flag: str) -> int | None:
    """The whole number behind an option."""
    text = parsed.options.get(flag)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise Usage(f"{flag} must be a whole number, got {text!r}.")
    return int(text)


def _workers(parsed: Parsed) -> Workers:
    """Where settings are to run; Dask is there if it is needed."""
    workers = Workers(
        parsed.options.get("--engine", "local"),
        _number(parsed, "--workers"),
        parsed.options.get("--scheduler"),
        parsed.options.get("--slurm"),
    )
    if "--dry-run" not in parsed.options:
        workers.check()
    return workers


def _files(parsed: Parsed) -> dict[str, Path]:
    """Where the table goes, which can be written."""
    files = {f: Path(parsed.options[f]) for f in ("--csv", "--parquet") if f in parsed.options}
    for flag, path in files.items():
        if path.is_dir():
            raise Usage(f"{flag} must be a file, got the folder {path}.")
    if "--parquet" in files:
        from theorylab.lab.sweeps.result import require_parquet

        require_parquet()
    if "--dry-run" not in parsed.options:
        for path in files.values():
            require_writable(path.resolve().parent, "place of the table")
    return files


def _dry(made: Plan, store: Store, name: str, parsed: Parsed) -> int:
    """Say what would be run."""
    there, missing = dry(made, store)
    if "--json" in parsed.options:
        keys = {key: request.config for key, request in made.settings.items()}
        print_json({"name": name, "there": there, "missing": missing, "settings": keys})
    else:
        print(f"{name}: {len(made)} settings, {there} in the store, {missing} to run")
    return OK


def _print(done: "Sweep", files: dict[str, Path]) -> None:
    """What there is now, and how to go on."""
    print(f"{done.name}: {done.num_settings} settings, {len(done.rows)} rows")
    measured = [name for name in done.numbers if name not in done.swept]
    if measured:
        print(f"varies: {', '.join(done.swept)}")
        print(f"measured: {', '.join(measured)}")
    for path in files.values():
        print(path)
    for failure in done.failures:
        notice(f"failed: {failure}")
    if measured:
        x = done.swept[0]
        notice(f"theorylab plot {done.name} --x {x} --y {measured[0]} draws it.")


def _json(done: "Sweep") -> dict[str, Any]:
    """A sweep as JSON; it has no infinity and no NaN, which are texts."""
    return {
        "name": done.name,
        "experiment": done.experiment,
        "swept": list(done.swept),
        "num_settings": done.num_settings,
        "num_read": done.num_read,
        "num_run": done.num_run,
        "num_lost": done.num_lost,
        "claims": done.claims,
        "failures": [asdict(failure) for failure in done.failures],
        "rows": [{name: _value(value) for name, value in row.items()} for row in done.rows],
    }


def _value(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
