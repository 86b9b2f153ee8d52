"""The tree is the registry of experiments: no list is kept by hand.

experiments/dynamics/catapult.py ─► "dynamics/catapult"
experiments/features/agop/sgd.py ─► "features/agop/sgd"

A name is a path below the root, of any depth. `__init__.py` and private modules, `_x.py`, are no
experiments.
"""

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from .entry import Entry
from .reader import read
from .renames import RENAMES


@dataclass(frozen=True)
class Tree:
    """A folder of experiments, `<root>/<concept>/[<theme>/]<phenomenon>.py`, and its package.

    Example:
        >>> "features/fourier/attention" in EXPERIMENTS.names()
        True
    """

    root: Path
    package: str
    tour: tuple[str, ...] = ()  # the experiments a newcomer sees first
    renames: Mapping[str, str] = field(default_factory=dict)  # old name ─► name
    records: Path | None = None  # where it is kept what the presets found

    def names(self) -> tuple[str, ...]:
        """Every experiment, in alphabetical order."""
        paths = (path.relative_to(self.root) for path in self.root.glob("*/**/*.py"))
        names = (path.with_suffix("").as_posix() for path in paths)
        return tuple(sorted(name for name in names if _is_shown(name)))

    def entries(self) -> tuple[Entry, ...]:
        """Read every experiment."""
        return tuple(self.entry(name) for name in self.names())

    def entry(self, name: str) -> Entry:
        """Read one experiment."""
        path = self.root / f"{name}.py"
        if "/" not in name or not _is_shown(name) or not os.path.lexists(path):
            raise KeyError(f"there is no experiment {name!r}.")
        return read(path)

    def has(self, name: str) -> bool:
        """Whether there is an experiment of that name, or was."""
        return name in self.renames or name in self.names()

    def module(self, name: str) -> str:
        """The name under which Python imports an experiment."""
        return f"{self.package}.{name.replace('/', '.')}"

    def load(self, name: str) -> ModuleType:
        """Import one experiment, and JAX with it."""
        return importlib.import_module(self.module(name))


def _is_shown(name: str) -> bool:
    """Whether no part of a name is private."""
    return all(part and part[0] not in "_." for part in name.split("/"))


def _records() -> Path:
    """The folder of records: inside the package where it is installed, else beside `src`."""
    package = Path(__file__).parents[1]
    inside = package / "records"
    return inside if inside.is_dir() else package.parents[1] / "records"


EXPERIMENTS = Tree(
    Path(__file__).parent,
    "theorylab.experiments",
    tour=(
        "dynamics/catapult",
        "dynamics/edge_of_stability",
        "kernels/width_convergence",
        "bias/diagonal_network",
        "generalization/concentration",
    ),
    renames=RENAMES,
    records=_records(),
)
