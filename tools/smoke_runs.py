"""Did a change of the code change any result? Keep the smoke runs of two checkouts, compare them.

    python tools/smoke_runs.py keep before               in the old checkout
    python tools/smoke_runs.py keep after [NAME…]        in the new one
    python tools/smoke_runs.py compare before after      arrays byte for byte, claims by system

Names of experiments that moved are followed (`theorylab.experiments.renames`). What was one
experiment may be several now: an array counts as kept if any of the new ones has its bytes.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np

from theorylab.experiments.renames import RENAMES
from theorylab.experiments.tree import EXPERIMENTS
from theorylab.folders import cache_folder


def keep(folder: Path, names: list[str]) -> None:
    """Run smoke presets, and keep their arrays and claims."""
    from theorylab.lab.compilation import kept_compilations
    from theorylab.lab.conduct import conduct

    folder.mkdir(parents=True, exist_ok=True)
    with kept_compilations(cache_folder()):
        for name in names or EXPERIMENTS.names():
            module = EXPERIMENTS.load(name)
            outcome = conduct(module, module.PRESETS["smoke"], "smoke")
            claims = [
                {
                    "system": f"{judged.source.key} · {judged.source.system}",
                    "kind": judged.kind,
                    "verdict": str(judged.finding.verdict),
                }
                for judged in outcome.judged
            ]
            stem = folder / name.replace("/", "__")
            np.savez(stem.with_suffix(".npz"), allow_pickle=False, **outcome.arrays)
            stem.with_suffix(".json").write_text(json.dumps(claims, indent=1), encoding="utf-8")
            print(f"{name}: {len(outcome.arrays)} arrays, {len(claims)} claims", flush=True)


def compare(before: Path, after: Path) -> int:
    """Print every array whose bytes are gone and every change of the claims; 1 if there is any."""
    kept = {bytes_of(array) for path in after.glob("*.npz") for array in arrays(path).values()}
    changes = 0
    for path in sorted(before.glob("*.npz")):
        name = path.stem.replace("__", "/")
        gone = [field for field, array in arrays(path).items() if bytes_of(array) not in kept]
        if gone:
            changes += 1
            print(f"{RENAMES.get(name, name)}: {', '.join(gone)}")
    old, new = tally(before), tally(after)
    for key in sorted({*old, *new}):
        if old[key] != new[key]:
            changes += 1
            print(f"{' '.join(key)}: {old[key]} claims before, {new[key]} after")
    print(f"{old.total()} claims before, {new.total()} after")
    return int(changes > 0)


def arrays(path: Path) -> dict[str, np.ndarray]:
    """What a run measured."""
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def bytes_of(array: np.ndarray) -> tuple[tuple[int, ...], str, bytes]:
    """All that makes an array what it is, but its name."""
    return array.shape, array.dtype.str, array.tobytes()


def tally(folder: Path) -> Counter[tuple[str, str, str]]:
    """How many claims there are of every system, kind and verdict."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    return Counter((c["system"], c["kind"], c["verdict"]) for claims in found for c in claims)


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep")
    keeping.add_argument("folder", type=Path)
    keeping.add_argument("names", nargs="*")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    asked = parser.parse_args()
    if asked.command == "compare":
        return compare(asked.before, asked.after)
    keep(asked.folder, asked.names)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
