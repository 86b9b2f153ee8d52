"""The tree is the registry of experiments: no list is kept by hand.

experiments/dynamics/catapult.py ─► "dynamics/catapult"
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from .entry import Entry, name_of, read


@dataclass(frozen=True)
class Tree:
    """A folder of experiments, `<root>/<concept>/<phenomenon>.py`, and the package it is.

    Example:
        >>> len(EXPERIMENTS.names()) == len(list(EXPERIMENTS.root.glob("[a-z]*/[a-z]*.py")))
        True
    """

    root: Path
    package: str
    tour: tuple[str, ...] = ()  # the experiments a newcomer sees first

    def names(self) -> tuple[str, ...]:
        """Every experiment, in alphabetical order."""
        paths = self.root.glob("*/*.py")
        return tuple(sorted(name_of(path) for path in paths if path.name[0] not in "_."))

    def entries(self) -> tuple[Entry, ...]:
        """Read every experiment."""
        return tuple(self.entry(name) for name in self.names())

    def entry(self, name: str) -> Entry:
        """Read one experiment."""
        if name not in self.names():
            raise KeyError(f"there is no experiment {name!r}.")
        return read(self.root / f"{name}.py")

    def module(self, name: str) -> str:
        """The name under which Python imports an experiment."""
        return f"{self.package}.{name.replace('/', '.')}"

    def load(self, name: str) -> ModuleType:
        """Import one experiment, and JAX with it."""
        return importlib.import_module(self.module(name))


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
)
