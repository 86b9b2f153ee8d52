"""The key of an outcome: a hash of experiment, config and code version.

    key = SHA-256(experiment, config, precision, versions of the libraries, sources)

The sources are all the files of the package that importing the experiment would run, found by
reading imports, not by importing: to see that an outcome is in the store takes no JAX.
"""

import ast
import hashlib
import importlib.metadata
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import theorylab
from theorylab.experiments.entry import Entry

from .outcome import Value

LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "optax", "diffrax", "scikit-learn", "matplotlib")
FORMAT = 1  # of what the store keeps; another number, and everything is run anew
_LENGTH = 16  # hexadecimal digits: 2⁶⁴ keys, and a path that a person can still read


def key(entry: Entry, module: str, config: Mapping[str, Value]) -> str:
    """The key of running one experiment with one config and the code as it is now.

    Args:
        entry: The experiment, read.
        module: The name under which it is imported.
        config: The value of every field.
    """
    identity = {
        "format": FORMAT,
        "experiment": entry.name,
        "config": dict(config),
        "precision": entry.precision,
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "sources": digest(sources(entry.path, module)),
    }
    text = json.dumps(identity, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def digest(files: Mapping[str, Path]) -> str:
    """A hash of the names and the contents of files."""
    sums = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()


def sources(path: Path, module: str) -> dict[str, Path]:
    """The files that importing a module runs, in its own package and in theorylab, by module.

    Args:
        path: The file of the module.
        module: Its full name.
    """
    package, *inner = module.split(".")
    roots = {
        "theorylab": Path(theorylab.__file__).parent,
        package: path.parents[len(inner) - 1] if inner else path,
    }
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = _file(name, roots)
        if name in found or file is None:
            continue
        found[name] = file
        waiting.extend(_imports(name, file))
    return found


def _file(name: str, roots: Mapping[str, Path]) -> Path | None:
    """The file of a module, if it is inside one of the packages."""
    package, *inner = name.split(".")
    if package not in roots:
        return None
    place = roots[package].joinpath(*inner)
    candidates = (place / "__init__.py", place.with_suffix(".py"))
    return next((file for file in candidates if file.is_file()), None)


def _imports(name: str, file: Path) -> frozenset[str]:
    """The modules that a module may import; a file is read again only if it changed."""
    state = file.stat()
    return _read_imports(name, file, (state.st_mtime_ns, state.st_size))


@cache
def _read_imports(name: str, file: Path, state: tuple[int, int]) -> frozenset[str]:
    return frozenset(_imported_names(name, file))


def _imported_names(name: str, file: Path) -> Iterator[str]:
    """What the imports of a file name: names of no module are among them."""
    yield from _ancestors(name)
    home = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    yield alias.name
                    yield from _ancestors(alias.name)
            case ast.ImportFrom(module=module, names=aliases, level=level):
                base = home.split(".")[: -(level - 1) or None] if level else []
                origin = ".".join([*base, *([module] if module else [])])
                yield origin
                yield from _ancestors(origin)
                yield from (f"{origin}.{alias.name}" for alias in aliases)


def _ancestors(name: str) -> Iterator[str]:
    """The packages around a module; importing it runs them first."""
    while name := name.rpartition(".")[0]:
        yield name
