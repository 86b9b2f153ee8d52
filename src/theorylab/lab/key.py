"""The key of an outcome: a hash of experiment, config and code version.

    key = SHA-256(experiment, config, precision, versions of the libraries, sources)

The sources are the modules that define what the experiment uses, and what these use in turn, found
by reading, not by importing: to see that an outcome is in the store takes no JAX. A change anywhere
else, and in an `__init__` that only re-exports, leaves the key as it is.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import theorylab
from theorylab.experiments.entry import Entry

from .definitions import Definitions
from .requests import Value

LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "optax", "diffrax", "scikit-learn", "matplotlib")
FORMAT = 2  # of what the store keeps; another number, and everything is run anew
_LENGTH = 16  # hexadecimal digits: 2⁶⁴ keys, and a path that a person can still read


def key(entry: Entry, module: str, config: Mapping[str, Value]) -> str:
    """The key of running one experiment with one config and the code as it is now.

    Args:
        entry: The experiment, read.
        module: The name under which it is imported.
        config: The value of every field.
    """
    return key_maker(entry, module)(config)


def key_maker(entry: Entry, module: str) -> Callable[[Mapping[str, Value]], str]:
    """Make the keys of many configs of one experiment: its code is read once.

    Args:
        entry: The experiment, read.
        module: The name under which it is imported.
    """
    identity = {
        "format": FORMAT,
        "experiment": entry.name,
        "precision": entry.precision,
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "sources": digest(sources(entry.path, module)),
    }

    def made(config: Mapping[str, Value]) -> str:
        text = json.dumps(identity | {"config": dict(config)}, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]

    return made


def digest(found: Definitions) -> str:
    """A hash of the names and the contents of the modules, and of the way from name to module."""
    sums = {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.modules.items()
    }
    text = json.dumps([sums, found.signs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def sources(path: Path, module: str) -> Definitions:
    """The modules that define what a module uses, in its own package and in theorylab.

    Args:
        path: The file of the module.
        module: Its full name.
    """
    package, *inner = module.split(".")
    own = path.parents[len(inner) - 1] if inner else path
    found = Definitions({"theorylab": Path(theorylab.__file__).parent, package: own})
    found.search(module)
    return found
