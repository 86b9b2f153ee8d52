"""The store at scale: 100,000 small outcomes, made as files, and what it takes to ask about them.

CPU seconds of building the index, of bringing it up to date (nothing new; one outcome new), and of
`theorylab find` as a whole process, start of Python included.

    python benchmarks/store.py --outcomes 100000
"""

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENT = "dynamics/catapult"
NUM_EXPERIMENTS = 50  # over which the outcomes are spread; a fifth of them are in the first
WIDE = "width>=256 and verdict='refuted'"
QUESTIONS = {
    "one experiment, width and verdict": ("--experiment", EXPERIMENT, "--where", WIDE),
    "width and verdict, in all": ("--where", WIDE),
    "by value, in all": ("--where", "value > 0.999 and kind = 'claim'"),
    "none(…), in all": ("--where", "width = 64 and none(verdict='refuted')"),
    "everything, 100,000 lines": (),
    "nothing": ("--where", "width = 3"),
}


def make(root: Path, number: int) -> None:
    """Write outcomes as a run would, but without waiting for the disk."""
    chance = random.Random(0)
    for place in range(number):
        other = chance.randrange(1, NUM_EXPERIMENTS)
        name = EXPERIMENT if place % 5 == 0 else f"made_up/number_{other}"
        write(root, name, f"{place:016x}", chance)


def write(root: Path, name: str, key: str, chance: random.Random) -> None:
    """Write one outcome: a config of eight fields, four findings."""
    findings = []
    for claim in range(4):
        value = chance.random()
        findings.append(
            {
                "statement": f"Claim {claim} of {name} holds for every step of the run.",
                "formula": r"\lambda \le 2/\eta",
                "source": {"key": "zhu", "system": "nqm-2d-map", "place": "Eq. 3.11"},
                "kind": "claim" if claim else "control",
                "expected": "supported",
                "verdict": "refuted" if value < 0.05 else "supported",
                "measured": value,
                "interval": [value - 0.1, value + 0.1],
                "demand": [0.05, "inf"],
                "method": "sign interval over 10 seeds, 97.9 %",
            }
        )
    config = {
        "width": 2 ** chance.randrange(4, 12),
        "learning_rate": round(chance.random(), 6),
        "ratios": [chance.random() * 4 for _ in range(3)],
        "num_steps": 200,
        "activation": "relu",
        "seed": chance.randrange(10**9),
        "noise": 0.1,
        "fair": True,
    }
    outcome = {
        "experiment": name,
        "title": "A made-up outcome",
        "description": "",
        "formula": "x",
        "preset": "default",
        "seconds": 1.5,
        "environment": {"jax": "1"},
        "key": key,
        "failure": "",
        "sources": {},
    }
    contents = {
        "config.json": json.dumps(config).encode(),
        "findings.json": json.dumps(findings).encode(),
        "outcome.json": json.dumps(outcome).encode(),
        "figure.svg": b"<svg/>",
        "arrays.npz": b"PK\5\6" + bytes(18),
    }
    sums = {each: hashlib.sha256(content).hexdigest() for each, content in contents.items()}
    folder = root / name / key
    folder.mkdir(parents=True)
    for each, content in (contents | {"manifest.json": json.dumps(sums).encode()}).items():
        (folder / each).write_bytes(content)


def spent(command: list[str]) -> tuple[float, int]:
    """CPU seconds of a command and its lines of output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, done.stdout.count(b"\n")


def row(what: str, seconds: float, more: str = "") -> None:
    print(f"| {what} | {seconds:.2f} | {more} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outcomes", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="Where they are made; kept if it is given.")
    asked = parser.parse_args()
    root = asked.folder or Path(tempfile.mkdtemp(prefix="theorylab-store-"))
    try:
        if not (root / EXPERIMENT).is_dir():
            make(root, asked.outcomes)
            time.sleep(3)  # a time of change that is a moment ago is not trusted
        measure(root)
    finally:
        if asked.folder is None:
            shutil.rmtree(root)


def measure(root: Path) -> None:
    """Print a table."""
    command = [sys.executable, "-m", "theorylab", "find", "--out", str(root)]
    print("| what | CPU s | |\n|---|---|---|")
    index = root / ".index/outcomes.sqlite"
    shutil.rmtree(index.parent, ignore_errors=True)
    seconds, _ = spent([*command, "--limit", "0"])
    row("the index is built", seconds, f"{index.stat().st_size / 1e6:.0f} MB")
    time.sleep(3)
    spent([*command, "--limit", "0"])  # the root was changed by the index's own folder
    row("start of Python and `theorylab`", spent([*command[:3], "--version"])[0])
    row("nothing is new, nothing asked", spent([*command, "--limit", "0"])[0])
    for what, words in QUESTIONS.items():
        seconds, lines = spent([*command, *words])
        row(f"`find`: {what}", seconds, f"{lines} found")
    seconds, lines = spent([*command, *QUESTIONS["one experiment, width and verdict"], "--json"])
    row("`find --json`: one experiment, width and verdict", seconds)
    write(root, EXPERIMENT, f"{os.getpid():016x}f", random.Random(os.getpid()))
    question = QUESTIONS["one experiment, width and verdict"]
    row("`find` when one outcome is new", spent([*command, *question])[0])


if __name__ == "__main__":
    main()
