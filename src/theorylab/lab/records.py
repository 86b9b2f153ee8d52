"""Records: what presets found, on seeds that were drawn when they were recorded.

    records/<experiment>.json          the default preset
    records/paper/<experiment>.json    the source's own scale

A record has the seed, the date, versions, the key of the code, seconds and every finding, and the
verdicts of further seeds; claims whose verdict differs among these are unstable. `theorylab record`
writes it, and a digest shows whether anybody else did. Reading one loads neither JAX nor NumPy.

A seed that was drawn stays with the store until it is recorded: a run that was stopped goes on with
it, and nobody draws until a verdict pleases.
"""

import datetime
import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from theorylab.claims.claim import Verdict

from .writing import write_whole

FIRST_SEED = 10**6  # smaller ones are used for calibration, in tests and by hand
LAST_SEED = 2**31 - 1
PRESETS = ("default", "paper")  # a smoke preset need not decide anything


class RecordedClaim(NamedTuple):
    """A claim and what was found, as a record has it."""

    statement: str
    kind: str
    expected: Verdict
    verdict: Verdict
    measured: float
    low: float
    high: float
    repeats: tuple[Verdict, ...]  # verdicts on further seeds

    @property
    def as_expected(self) -> bool:
        """Whether the verdict surprises nobody."""
        return self.verdict in (self.expected, Verdict.NOT_JUDGED)

    @property
    def unstable(self) -> bool:
        """Whether another seed gave another verdict."""
        return any(each != self.verdict for each in self.repeats)


@dataclass(frozen=True)
class Record:
    """What one preset of an experiment found."""

    experiment: str
    preset: str
    seed: int | None  # None if nothing in it is random
    date: str
    seconds: float
    key: str  # of the code that was run
    config: Mapping[str, Any]
    claims: tuple[RecordedClaim, ...]
    repeat_seeds: tuple[int, ...] = ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed, and those of the repeats; none if nothing is random."""
        return () if self.seed is None else (self.seed, *self.repeat_seeds)

    @property
    def sentence(self) -> str:
        """When it was recorded and what came out, in a line."""
        counts = {verdict: sum(c.verdict == verdict for c in self.claims) for verdict in Verdict}
        told = [f"{count} {verdict}" for verdict, count in counts.items() if count]
        surprises = sum(not claim.as_expected for claim in self.claims)
        unstable = sum(claim.unstable for claim in self.claims)
        told += [f"{surprises} not as expected"] if surprises else []
        told += [f"{unstable} unstable"] if unstable else []
        seed = "" if self.seed is None else f" on seed {self.seed}"
        return f"recorded {self.date}{seed}: {', '.join(told)}"


def fresh_seed() -> int:
    """Draw a seed that nobody has looked at."""
    return FIRST_SEED + secrets.randbelow(LAST_SEED - FIRST_SEED)


def drawn_seeds(store: Path, experiment: str, preset: str, number: int) -> list[int]:
    """Seeds to be recorded: those drawn before and not recorded yet, then new ones.

    Args:
        store: The folder of the store, which keeps them.
        experiment: Its name.
        preset: Which preset is recorded.
        number: How many are needed.
    """
    path = _drawn_path(store, experiment, preset)
    kept: list[int] = []
    with suppress(OSError, ValueError):
        kept = [int(seed) for seed in json.loads(path.read_text(encoding="utf-8"))]
    missing = max(0, number - len(kept))
    seeds = kept + [fresh_seed() for _ in range(missing)]
    if missing:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(seeds).encode())
    return seeds[:number]


def forget_drawn(store: Path, experiment: str, preset: str) -> None:
    """Forget the seeds of an experiment, because they are recorded."""
    _drawn_path(store, experiment, preset).unlink(missing_ok=True)


def _drawn_path(store: Path, experiment: str, preset: str) -> Path:
    return store / ".drawn" / preset / f"{experiment}.json"


def record_path(folder: Path, experiment: str, preset: str) -> Path:
    """Where the record of an experiment is, or would be.

    Example:
        >>> record_path(Path("records"), "bias/least_norm", "paper").as_posix()
        'records/paper/bias/least_norm.json'
    """
    return folder / ("paper" if preset == "paper" else "") / f"{experiment}.json"


def write_record(folder: Path, outcomes: Sequence[Mapping[str, Any]]) -> Path:
    """Write the record of an experiment: its first outcome whole, of the others the verdicts.

    Args:
        folder: Where records are.
        outcomes: One for each seed, as `outcome_json` gives them, of one experiment and preset.
    """
    first, *others = outcomes
    content = {
        "experiment": first["experiment"],
        "preset": first["preset"],
        "seed": first["config"].get("seed"),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(first["seconds"], 1),
        "environment": first["environment"],
        "key": first["key"],
        "config": first["config"],
        "findings": first["findings"],
        "repeats": [
            {
                "seed": other["config"].get("seed"),
                "verdicts": [finding["verdict"] for finding in other["findings"]],
            }
            for other in others
        ],
    }
    path = record_path(folder, first["experiment"], first["preset"])
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content | {"digest": digest(content)}, indent=1, ensure_ascii=False)
    write_whole(path, f"{text}\n".encode())
    return path


def read_record(folder: Path, experiment: str, preset: str = "default") -> Record | None:
    """Read a record; None if there is none.

    Raises:
        ValueError: It is damaged, or was not written by `theorylab record`.
    """
    content = record_content(folder, experiment, preset)
    if content is None:
        return None
    with _naming_record(experiment, preset):
        return record_of(content)


def record_content(folder: Path, experiment: str, preset: str = "default") -> dict[str, Any] | None:
    """What a record says, as it is written; None if there is none.

    Raises:
        ValueError: It is damaged, or was not written by `theorylab record`.
    """
    path = record_path(folder, experiment, preset)
    if not path.is_file():
        return None
    with _naming_record(experiment, preset):
        content = json.loads(path.read_text(encoding="utf-8"))
        said = content.pop("digest")
        if said != digest(content):
            raise ValueError("it was changed by hand")
    return content


@contextmanager
def _naming_record(experiment: str, preset: str) -> Iterator[None]:
    """Say which record cannot be read, whatever is wrong with it."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        name = record_path(Path(), experiment, preset).name
        raise ValueError(f"the record {name} of {experiment} cannot be read: {error}") from None


def digest(content: Mapping[str, Any]) -> str:
    """A hash of all that a record says.

    Example:
        >>> digest({"seed": 1}) == digest({"seed": 2})
        False
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def disagreements(recorded: Record, verdicts: Mapping[str, Verdict]) -> list[str]:
    """Say which claims have another verdict than in the record, one line each.

    Args:
        recorded: The record.
        verdicts: What was found now, by statement.

    Example:
        >>> claim = RecordedClaim("It holds.", "claim", *[Verdict.SUPPORTED] * 2, 1.0, 1.0, 1.0, ())
        >>> record = Record("toys/coin", "default", 7, "2026-01-01", 1.0, "", {}, (claim,))
        >>> disagreements(record, {"It holds.": Verdict.REFUTED})
        ['refuted now, supported in the record: It holds.']
    """
    judged = [claim for claim in recorded.claims if claim.statement in verdicts]
    return [
        f"{verdicts[claim.statement]} now, {claim.verdict} in the record: {claim.statement}"
        for claim in judged
        if verdicts[claim.statement] != claim.verdict
    ]


def record_of(content: Mapping[str, Any]) -> Record:
    """Take what a record says, as it is written, apart."""
    repeats = [each["verdicts"] for each in content["repeats"]]
    claims = [
        RecordedClaim(
            statement=finding["statement"],
            kind=finding["kind"],
            expected=Verdict(finding["expected"]),
            verdict=Verdict(finding["verdict"]),
            measured=float(finding["measured"]),
            low=float(finding["interval"][0]),
            high=float(finding["interval"][1]),
            repeats=tuple(Verdict(verdicts[place]) for verdicts in repeats),
        )
        for place, finding in enumerate(content["findings"])
    ]
    names = ("experiment", "preset", "seed", "date", "seconds", "key", "config")
    return Record(
        **{name: content[name] for name in names},
        claims=tuple(claims),
        repeat_seeds=tuple(each["seed"] for each in content["repeats"]),
    )
