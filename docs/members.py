"""What modules define and packages export, read off their source: `ast`, no import.

    __init__.py ─► resolved: {name: Place}    where each exported name is defined
    module.py   ─► public: {name: Place}      what it defines itself
    Place       ─► entry                      a directive of Sphinx with signature and docstring

Types in signatures are written with their full names, so that each leads to its own page; what is
shown of them is the last part.
"""

import ast
import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from docstrings import as_markdown  # beside this file

PACKAGE = Path(__file__).parents[1] / "src" / "theorylab"
UNDOCUMENTED = {"experiments", "cli"}  # experiments have the gallery, commands their own help
LONGEST_VALUE = 70  # letters of a constant's value that a page shows

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


class Place(NamedTuple):
    """Where a name is defined.

    Args:
        home: The module from which it is imported.
        file: The file that defines it.
        name: Its name there.
        node: Its definition; None for a module.
    """

    home: str
    file: Path
    name: str
    node: Definition | None

    @property
    def identity(self) -> tuple[Path, str]:
        """What tells it from every other definition."""
        return self.file, self.name

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        node = self.node
        return first_line(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else ""

    def entry(self, module: str, name: str) -> str:
        """Its directive, as a member of the module from which a reader imports it."""
        node = qualified(self.node, self.file) if self.node else None
        if isinstance(node, ast.FunctionDef):
            return directive("py:function", f"{name}{signature(node)}", described(node))
        if isinstance(node, ast.ClassDef):
            body = [described(node, comments(self.file, node)), inherited(node), *members(node)]
            arguments = constructor(node)
            return directive("py:class", f"{name}{arguments}", "\n\n".join(filter(None, body)))
        if node is None or node.value is None:
            return ""
        value = " ".join(ast.unparse(node.value).split())
        short = value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}…"
        return directive("py:data", name, "", {"value": short})


@cache
def parsed(file: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(file.read_text(encoding="utf-8"))


def dotted(path: Path) -> str:
    """The name by which a file or folder of the package is imported.

    Example:
        >>> dotted(PACKAGE / "kernels" / "zonal.py")
        'theorylab.kernels.zonal'
    """
    return ".".join(["theorylab", *path.relative_to(PACKAGE).with_suffix("").parts])


def is_private(path: Path) -> bool:
    """Whether a file or folder is none of a reader's business."""
    return path.name.startswith(("_", "."))


@cache
def resolved(init: Path) -> dict[str, Place]:
    """What an `__init__.py` imports under its own name, with where it is defined."""
    found = {}
    for node in ast.walk(parsed(init)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.asname == alias.name and alias.name[0] != "_":
                    place = _imported(init, node, alias.name)
                    found.update({alias.name: place} if place else {})
    return found


def _imported(file: Path, node: ast.ImportFrom, name: str) -> Place | None:
    """Follow one import to its definition; None: a module, or nothing of this package."""
    parts = (node.module or "").split(".")
    if node.level:
        place = file.parents[node.level - 1].joinpath(*filter(None, parts))
    elif parts[0] == "theorylab":
        place = PACKAGE.joinpath(*parts[1:])
    else:
        return None
    source, package = place.with_suffix(".py"), place / "__init__.py"
    if source.is_file():
        found = public(source).get(name)
    elif package.is_file() and package != file:
        found = resolved(package).get(name)
    else:
        found = None
    return found._replace(home=dotted(place)) if found else None


@cache
def public(file: Path) -> dict[str, Place]:
    """The public functions, classes and documented types of a module, in their order."""
    tree = parsed(file)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in classes.values():
        for base in map(ast.unparse, node.bases):
            above = classes[base].body if base in classes else []
            node.body[1:1] = [each for each in above if _makes(each)]  # below the docstring
    return {
        name: Place(dotted(file), file, name, node) for name, node in _named(tree) if name[0] != "_"
    }


def _makes(node: ast.stmt) -> bool:
    """Whether a line of a class has to do with its arguments."""
    init = isinstance(node, ast.FunctionDef) and node.name == "__init__"
    return init or isinstance(node, ast.AnnAssign)


def _named(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node


def documented(place: Place) -> str | None:
    """The full name under which the reference has a definition: the shortest; None: it has none."""
    path = place.file.relative_to(PACKAGE)
    if any(is_private(Path(part)) for part in path.parts) or path.parts[0] in UNDOCUMENTED:
        return None
    beside_the_rooms = len(path.parts) == 1
    for depth in (0,) if beside_the_rooms else range(1, len(path.parts)):
        package = PACKAGE.joinpath(*path.parts[:depth])
        for name, exported in resolved(package / "__init__.py").items():
            if exported.identity == place.identity:
                return ".".join(["theorylab", *path.parts[:depth], name])
    return f"{dotted(place.file)}.{place.name}"


@cache
def meanings(file: Path) -> dict[str, str]:
    """What the names of a module mean: full names, of other packages too."""
    found = {}
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            found |= {(each.asname or each.name): each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                place = _imported(file, node, each.name)
                name = documented(place) if place else None
                outside = f"{node.module}.{each.name}" if node.level == 0 else None
                if name or outside:
                    found[each.asname or each.name] = name or outside or ""
    own = {name: documented(place) for name, place in public(file).items()}
    return found | {name: full for name, full in own.items() if full}


class _Qualify(ast.NodeTransformer):
    """Full names in place of a module's own."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        full = self.names.get(node.id, node.id)
        return ast.parse(full, mode="eval").body


def qualified(node: Definition, file: Path) -> Definition:
    """A definition whose annotations have full names."""
    node, names = copy.deepcopy(node), _Qualify(meanings(file))
    for each in ast.walk(node):
        for field in ("annotation", "returns"):
            if isinstance(annotation := getattr(each, field, None), ast.expr):
                setattr(each, field, names.visit(annotation))
    return node


def directive(kind: str, name: str, body: str, options: dict[str, str] | None = None) -> str:
    """A directive whose fence is longer than every fence inside."""
    fence = "`" * (max((len(run) for run in re.findall("`{3,}", body)), default=2) + 1)
    # Quoted, for a text that is cut off may leave a quote of its own open.
    quoted = {
        name: json.dumps(value, ensure_ascii=False) for name, value in (options or {}).items()
    }
    lines = [f":{option}: {value}" for option, value in quoted.items()]
    return "\n".join([f"{fence}{{{kind}}} {name}", *lines, "", body, fence])


def described(
    node: ast.Module | ast.FunctionDef | ast.ClassDef, known: dict[str, str] | None = None
) -> str:
    """A docstring as Markdown."""
    return as_markdown(ast.get_docstring(node) or "", known)


def first_line(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> str:
    """The first line of a docstring."""
    return (ast.get_docstring(node) or "").partition("\n")[0]


def signature(node: ast.FunctionDef) -> str:
    """The arguments with their types and defaults, and what comes out.

    Example:
        >>> signature(ast.parse("def f(a: int, *, b=2, **c) -> str: pass").body[0])
        '(a: int, *, b=2, **c) -> str'
    """
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(node.args)}){returned}"


def constructor(node: ast.ClassDef) -> str:
    """The arguments that make an instance: those of `__init__`, or the fields of a record."""
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    init = [each for each in methods if each.name == "__init__"]
    if init:
        arguments = ast.unparse(init[-1].args)
        return f"({re.sub(r'^self(, )?', '', arguments)})"
    fields = {  # by name: a field that is said again replaces that of the base
        ast.unparse(each.target): ast.unparse(each.annotation)
        + (f" = {ast.unparse(_default(each.value))}" if each.value else "")
        for each in node.body
        if isinstance(each, ast.AnnAssign) and "ClassVar" not in ast.unparse(each.annotation)
    }
    shown = [f"{name}: {rest}" for name, rest in fields.items() if name[0] != "_"]
    return f"({', '.join(shown)})" if shown else ""


def _default(value: ast.expr) -> ast.expr:
    """The default of a field; `fixed(default=x)` has the default x."""
    match value:
        case ast.Call(func=ast.Name(id="fixed"), keywords=[ast.keyword(arg="default", value=own)]):
            return own
    return value


def inherited(node: ast.ClassDef) -> str:
    """What an answer can do besides what its class says itself; nothing of other classes.

    Example:
        >>> inherited(ast.parse("class Plain: pass").body[0])
        ''
    """
    if "Answer" not in map(ast.unparse, node.bases):
        return ""
    answer = "{py:obj}`answer <theorylab.answers.Answer>`"
    return f"It is an {answer}: it has `plot`, `to_pandas`, `save` and `replace`."


def members(node: ast.ClassDef) -> Iterator[str]:
    """The directives of a class's public methods and properties, and of an enumeration's names."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name[0] != "_":
            yield _method(each)
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            name = each.targets[0].id
            if name.isupper() and name[0] != "_":
                yield directive("py:attribute", name, "", {"value": ast.unparse(each.value)})


def _method(node: ast.FunctionDef) -> str:
    decorators = {ast.unparse(each) for each in node.decorator_list}
    if decorators & {"property", "cached_property", "functools.cached_property"}:
        kind = {"type": ast.unparse(node.returns)} if node.returns else {}
        return directive("py:property", node.name, described(node), kind)
    bare = "staticmethod" in decorators
    text = signature(node) if bare else re.sub(r"^\((self|cls)(: \w+)?(, )?", "(", signature(node))
    kind = {name: "" for name in ("classmethod", "staticmethod") if name in decorators}
    return directive("py:method", f"{node.name}{text}", described(node), kind)


def comments(file: Path, node: ast.ClassDef) -> dict[str, str]:
    """What the comments behind a record's fields say, by field."""
    lines = file.read_text(encoding="utf-8").splitlines()
    found = {}
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and each.end_lineno and node.lineno < each.lineno:
            _, mark, text = lines[each.end_lineno - 1][each.end_col_offset or 0 :].partition("#")
            if mark:
                found[ast.unparse(each.target)] = text.strip()
    return found
