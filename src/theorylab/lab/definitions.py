"""The modules that define what a module uses, found by reading, not by importing.

    from theorylab.kernels import ntk ─► theorylab/kernels/__init__.py re-exports it
                                      ─► theorylab.kernels.finite.empirical defines it

A package's `__init__` that only re-exports is a signpost: it is followed, but is no definition
itself. What cannot be followed (a package passed on as a value, `import *` from one, a module
imported by a computed name) stands for every module of that package.
"""

import ast
import importlib.machinery
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

LATER = "_LATER"  # the table of an `__init__` that imports on demand: name ─► module


Chain = tuple[str, ...]  # names of attributes: a.b.c asks ("b", "c") of a


class Use(NamedTuple):
    """A module, and the chain of attributes of it that is used; no chain is all of it."""

    module: str
    chain: Chain = ()


@dataclass(frozen=True)
class Outline:
    """What one file says about others."""

    uses: tuple[Use, ...]  # of every import, wherever it stands
    exports: Mapping[str, tuple[Use, ...]]  # names that come from elsewhere, with their origins
    own: frozenset[str]  # names that it defines itself
    only_exports: bool  # whether it is a signpost: it runs nothing of its own


@dataclass
class Definitions:
    """A search through the packages below some roots, and those that the user works on.

    Args:
        roots: The folder of every package that is searched; of a single module, its file. What is
            imported from elsewhere is searched too, unless it is installed or Python's own.
    """

    roots: Mapping[str, Path]
    modules: dict[str, Path] = field(default_factory=dict)  # what was found, with its file
    signs: dict[str, str] = field(default_factory=dict)  # re-exported name ─► where it leads
    _waiting: list[str] = field(default_factory=list)
    _files: dict[str, Path | None] = field(default_factory=dict)  # asked for already

    def search(self, module: str) -> None:
        """Find everything that a module uses, whatever that uses, and so on."""
        self._add(module)
        while self._waiting:
            name = self._waiting.pop()
            for package in _ancestors(name):  # importing a module runs the packages around it
                file = self.file(package)
                if file and not outline(package, file).only_exports:
                    self._add(package)
            for use in outline(name, self.modules[name]).uses:
                self._follow(use)

    def file(self, name: str) -> Path | None:
        """The file of a module, if it is inside one of the roots; looked up once in a search."""
        if name not in self._files:
            self._files[name] = self._looked_up(name)
        return self._files[name]

    def _looked_up(self, name: str) -> Path | None:
        package, *inner = name.split(".")
        root = self.roots.get(package) or _developed(package, tuple(sys.path))
        if root is None:
            return None
        place = root.joinpath(*inner)
        candidates = (
            place / "__init__.py",
            place if place.suffix == ".py" else place.with_suffix(".py"),
        )
        return next((file for file in candidates if file.is_file()), None)

    def _add(self, name: str) -> None:
        file = self.file(name)
        if file is not None and name not in self.modules:
            self.modules[name] = file
            self._waiting.append(name)

    def _follow(self, use: Use) -> None:
        """Add the modules in which a chain of attributes is defined."""
        file = self.file(use.module)
        if file is None:
            return
        if file.name != "__init__.py":
            self._add(use.module)
            return
        if not use.chain:
            self._add_all(use.module)
            return
        name, *rest = use.chain
        inner = f"{use.module}.{name}"
        read = outline(use.module, file)
        origins = [each for each in read.exports.get(name, ()) if each != Use(use.module, (name,))]
        if origins:
            self.signs[inner] = " ".join(".".join((each.module, *each.chain)) for each in origins)
            for origin in origins:
                self._follow(Use(origin.module, (*origin.chain, *rest)))
        elif name in read.own:
            self._add(use.module)
        elif self.file(inner):
            self._follow(Use(inner, tuple(rest)))
        elif not name.startswith("__"):  # such as __name__, which every package has
            self._add_all(use.module)

    def _add_all(self, package: str) -> None:
        """Add every module of a package."""
        file = self.file(package)
        assert file is not None
        for path in sorted(file.parent.rglob("*.py")):
            inner = path.relative_to(file.parent).with_suffix("").parts
            self._add(".".join((package, *(part for part in inner if part != "__init__"))))


@cache
def _developed(package: str, path: tuple[str, ...]) -> Path | None:
    """The folder or file of a package that is neither installed nor Python's own, if there is."""
    if package in sys.stdlib_module_names:
        return None
    try:
        spec = importlib.machinery.PathFinder.find_spec(package, list(path))
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return None
    file = Path(spec.origin)
    if {"site-packages", "dist-packages"} & set(file.parts):
        return None
    return file.parent if file.name == "__init__.py" else file


def outline(name: str, file: Path) -> Outline:
    """Read a file; a file is read again only if it changed."""
    state = file.stat()
    return _read_outline(name, file, (state.st_mtime_ns, state.st_size))


@cache
def _read_outline(name: str, file: Path, state: tuple[int, int]) -> Outline:
    is_package = file.name == "__init__.py"
    home = name if is_package else name.rpartition(".")[0]
    tree = ast.parse(file.read_bytes())
    chains = _chains(tree)
    uses, exports = [], {}
    for node in ast.walk(tree):
        for local, use in _imported(node, home):
            exports.setdefault(local, []).append(use)
            uses.extend(_used(node, local, use, chains.get(local, frozenset())))
        if _is_computed_import(node):
            uses.append(Use(".".join(name.split(".")[:2])))
    if is_package:
        for local, use in _later(tree, home):
            exports.setdefault(local, []).append(use)
            uses.append(use)
    return Outline(
        uses=tuple(dict.fromkeys(uses)),
        exports={local: tuple(dict.fromkeys(found)) for local, found in exports.items()},
        own=frozenset(_defined(tree)),
        only_exports=is_package and all(map(is_signpost, tree.body)),
    )


def is_signpost(node: ast.stmt) -> bool:
    """Whether a statement of an `__init__` does nothing but say what is where.

    That is a docstring, an import, `__all__`, the table of what is imported on demand, and the two
    functions by which Python asks for it.

    Example:
        >>> [is_signpost(node) for node in ast.parse("from .a import b; c = b()").body]
        [True, False]
    """
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return all(map(is_signpost, [*node.body, *node.orelse]))
        case ast.FunctionDef(name="__getattr__" | "__dir__"):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "_LATER")]):
            return True
        case ast.Assign(
            targets=[ast.Tuple(elts=[ast.Name(id="__getattr__"), ast.Name("__dir__")])]
        ):
            return True
    return False


def _imported(node: ast.AST, home: str) -> Iterator[tuple[str, Use]]:
    """What an import statement binds: the local name, and what it stands for."""
    match node:
        case ast.Import(names=aliases):
            for alias in aliases:
                if alias.asname:
                    yield alias.asname, Use(alias.name)
                else:
                    top, *inner = alias.name.split(".")
                    yield top, Use(top, tuple(inner))  # binds `top`: see _used
        case ast.ImportFrom(module=module, names=aliases, level=level):
            base = home.split(".")[: -(level - 1) or None] if level else []
            origin = ".".join([*base, *([module] if module else [])])
            for alias in aliases:
                chain = () if alias.name == "*" else (alias.name,)
                yield alias.asname or alias.name, Use(origin, chain)


def _used(node: ast.AST, local: str, use: Use, chains: frozenset[Chain]) -> Iterator[Use]:
    """What of an import is used; `chains` are the attributes that the file asks of its name."""
    if isinstance(node, ast.Import) and use.chain and use.module == local:
        # `import a.b` binds a: the chains begin there, and most of them go through b.
        yield from (Use(local, chain) for chain in chains)
        if not any(chain[: len(use.chain)] == use.chain for chain in chains):
            yield use
    else:
        yield from (Use(use.module, (*use.chain, *chain)) for chain in chains or [()])


def _chains(tree: ast.Module) -> dict[str, frozenset[Chain]]:
    """The attributes that are asked of every name: a.b.c gives {"a": {("b", "c")}}."""
    found: dict[str, set[Chain]] = {}
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):  # whatever is around a node comes before it
        if node in inside or not isinstance(node, ast.Attribute | ast.Name):
            continue
        chain: list[str] = []
        while isinstance(node, ast.Attribute):
            chain.append(node.attr)
            node = node.value
            inside.add(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, set()).add(tuple(reversed(chain)))
    return {name: frozenset(chains) for name, chains in found.items()}


def _later(tree: ast.Module, home: str) -> Iterator[tuple[str, Use]]:
    """What an `__init__` imports on demand, by its table."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys, values=values)):
                for key, value in zip(keys, values, strict=True):
                    match key, value:
                        case ast.Constant(value=str(local)), ast.Constant(value=str(module)):
                            if name == LATER:
                                yield local, Use(f"{home}.{module.lstrip('.')}", (local,))


def _is_computed_import(node: ast.AST) -> bool:
    """Whether a module is imported whose name is not written there."""
    match node:
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)):
            return called in ("import_module", "__import__")
    return False


def _defined(tree: ast.Module) -> Iterator[str]:
    """The names that a file binds other than by importing them."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name


def _ancestors(name: str) -> Iterator[str]:
    """The packages around a module."""
    while name := name.rpartition(".")[0]:
        yield name
