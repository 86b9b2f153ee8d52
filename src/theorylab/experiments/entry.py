"""What an experiment says of itself, read without importing it.

    <concept>/[<theme>/]<phenomenon>.py ─► ast ─► Entry: title, formula, fields, presets, claims

Reading takes milliseconds where importing takes seconds, so `list`, `show`, shell completion and
the check of flags answer at once. It asks that an experiment writes literally what it says of
itself: docstring, PRECISION, FORMULA, the fields of Config, PRESETS and CLAIMS. The types in
`theorylab.choices` are known by their names.
"""

import ast
import io
import operator
import textwrap
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from theorylab import choices

Literals = bool | int | float | str | tuple[int, ...] | tuple[float, ...]
Config = Mapping[str, Literals]

PRESETS = ("smoke", "default", "paper")
TYPES = ("int", "float", "bool", "str", "tuple[int, ...]", "tuple[float, ...]")
ROOT = "experiments"  # the name of a tree's folder
RESERVED = ("preset", "out", "json", "force", "help")  # the command line's own flags


class TreeError(Exception):
    """An experiment is not written as the tree can read it."""


@dataclass(frozen=True)
class Place:
    """A `Source`, read: the document, the system of it, the place in it."""

    key: str
    system: str
    place: str

    def __str__(self) -> str:
        return f"{self.key} · {self.system} · {self.place}"


@dataclass(frozen=True)
class Statement:
    """A `Claim`, read: everything but its judge."""

    statement: str
    source: Place
    kind: str = "claim"
    formula: str = ""


@dataclass(frozen=True)
class Field:
    """A field of `Config`, which is a flag of the command line."""

    name: str
    type: str  # one of TYPES, or "Literal['a', 'b']"
    default: Literals
    help: str  # the comment beside it

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """What a `Literal` allows; empty for every other type."""
        if not self.type.startswith("Literal["):
            return ()
        return tuple(ast.literal_eval(self.type.removeprefix("Literal")))

    @property
    def flag(self) -> str:
        """How it is written on the command line: num_seeds is `--num-seeds`."""
        return "--" + self.name.replace("_", "-")


@dataclass(frozen=True)
class Entry:
    """One experiment, read."""

    name: str  # "dynamics/catapult", "features/agop/sgd"
    path: Path
    title: str
    description: str
    precision: str
    formula: str
    summary: str  # the docstring of Config: what is run
    fields: tuple[Field, ...]
    presets: Mapping[str, Config]  # every field of every preset, "default" among them
    claims: tuple[Statement, ...]

    @property
    def concept(self) -> str:
        """The room it is about: the first part of its name."""
        return self.name.partition("/")[0]

    @property
    def keys(self) -> tuple[str, ...]:
        """The documents its claims come from."""
        return tuple(sorted({claim.source.key for claim in self.claims}))


def read(path: Path) -> Entry:
    """Read the experiment in a file.

    Raises:
        TreeError: It does not parse, or something that must be literal is not; with the line.
    """
    text = path.read_text(encoding="utf-8")
    try:
        return _Reader(text).entry(path)
    except SyntaxError as error:
        raise TreeError(f"{path}:{error.lineno}: {error.msg}.") from None
    except _NotLiteral as error:
        raise TreeError(f"{path}:{error.line}: {error}") from None


def _parsed(text: str) -> ast.Module:
    """The syntax tree without functions, which take most of the time and say nothing here."""
    try:
        return ast.parse(_outline(text))
    except SyntaxError:  # of the outline, or of the module, whose own error is then raised
        return ast.parse(text)


def _outline(text: str) -> str:
    r"""The module with blank lines in place of its functions and their decorators.

    Example:
        >>> _outline("@jit\ndef f(\n    x\n) -> int:\n    return x\nA = 1")
        '\n\n\n\n\nA = 1'
    """
    lines = text.splitlines()
    decorators: list[int] = []
    inside = False
    for number, line in enumerate(lines):
        begins = bool(line) and line[0] not in " \t)#"
        if begins:
            inside = line.startswith(("def ", "async def "))
            if inside:
                for earlier in decorators:
                    lines[earlier] = ""
            decorators = [*decorators, number] if line[0] == "@" else []
        elif decorators:  # a decorator of several lines
            decorators.append(number)
        if inside:
            lines[number] = ""
    return "\n".join(lines)


class _NotLiteral(Exception):
    """Something in an experiment is not written as the reader needs it."""

    def __init__(self, node: ast.AST | None, must: str):
        self.line = getattr(node, "lineno", 1)
        super().__init__(must)


class _Reader:
    """One experiment's syntax tree, and the names that its module has bound to literals so far."""

    def __init__(self, text: str):
        self.lines = text.splitlines()
        self.module = _parsed(text)
        self.assigned = dict(_assignments(self.module))
        self.names: dict[str, Any] = {}
        for name, node in self.assigned.items():
            with suppress(_NotLiteral):  # what is not literal may not matter
                self.names[name] = self.value(node)

    def entry(self, path: Path) -> Entry:
        """Everything the module says of itself."""
        docstring = ast.get_docstring(self.module)
        if not docstring:
            raise _NotLiteral(None, "an experiment needs a docstring; its first line is the title.")
        title, _, description = docstring.partition("\n")
        summary, fields = self.config()
        presets = self.presets(fields)
        return Entry(
            name=name_of(path),
            path=path,
            title=title.strip(),
            description=description.strip(),
            precision=self.one_of("PRECISION", ("float64", "float32")),
            formula=self.constant("FORMULA", str),
            summary=summary,
            fields=fields,
            presets=presets,
            claims=self.claims(),
        )

    def constant(self, name: str, kind: type) -> Any:
        """A module-level constant that must be there, and literal."""
        if name not in self.assigned:
            raise _NotLiteral(None, f"an experiment needs a literal {name}, there is none.")
        value = self.value(self.assigned[name])
        if not isinstance(value, kind):
            node = self.assigned[name]
            raise _NotLiteral(node, f"{name} must be a literal {kind.__name__}, got {value!r}.")
        return value

    def one_of(self, name: str, values: Sequence[str]) -> str:
        """A constant with few possible values."""
        value = self.constant(name, str)
        if value not in values:
            node = self.assigned[name]
            raise _NotLiteral(node, f"{name} must be one of {values}, got {value!r}.")
        return value

    def config(self) -> tuple[str, tuple[Field, ...]]:
        """The docstring and the fields of `Config`."""
        for node in self.module.body:
            if isinstance(node, ast.ClassDef) and node.name == "Config":
                items = [item for item in node.body if isinstance(item, ast.AnnAssign)]
                return ast.get_docstring(node) or "", tuple(self.field(item) for item in items)
        raise _NotLiteral(None, "an experiment needs a class Config, there is none.")

    def field(self, node: ast.AnnAssign) -> Field:
        """One line of `Config`: name, type, default, comment."""
        name, kind = ast.unparse(node.target), ast.unparse(node.annotation)
        if shared := get_args(getattr(choices, kind, None)):
            kind = f"Literal[{', '.join(map(repr, shared))}]"
        if kind not in TYPES and not kind.startswith("Literal["):
            must = f"the type of {name} must be one of {TYPES} or a Literal, got {kind}."
            raise _NotLiteral(node, must)
        if name in RESERVED:
            raise _NotLiteral(node, f"a field must not be named {name}: the command line uses it.")
        if node.value is None:
            raise _NotLiteral(node, f"the field {name} needs a default.")
        default = _as_type(kind, self.value(node.value))
        return Field(name, kind, default, self.comment(node))

    def comment(self, node: ast.AnnAssign) -> str:
        """What stands behind # on the lines of a field."""
        text = "\n".join(self.lines[node.lineno - 1 : node.end_lineno])
        tokens = tokenize.generate_tokens(io.StringIO(textwrap.dedent(text)).readline)
        comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
        return " ".join(comment.lstrip("# ") for comment in comments)

    def presets(self, fields: tuple[Field, ...]) -> dict[str, Config]:
        """Every preset with the values of all its fields."""
        types = {field.name: field.type for field in fields}
        default = {field.name: field.default for field in fields}
        presets = {"default": default}
        node = self.assigned.get("PRESETS")
        for preset, changes in self.constant("PRESETS", dict).items():
            if preset not in PRESETS or not isinstance(changes, dict):
                must = f"PRESETS must map names among {PRESETS} to Config(...), got {preset!r}."
                raise _NotLiteral(node, must)
            if unknown := changes.keys() - types.keys():
                raise _NotLiteral(node, f"Config has no field {unknown.pop()!r}.")
            changes = {name: _as_type(types[name], value) for name, value in changes.items()}
            presets[preset] = default | changes
        return {preset: presets[preset] for preset in PRESETS if preset in presets}

    def claims(self) -> tuple[Statement, ...]:
        """Every claim without its judge."""
        claims = self.constant("CLAIMS", tuple)
        if not all(isinstance(claim, Statement) for claim in claims):
            raise _NotLiteral(self.assigned["CLAIMS"], "CLAIMS must hold Claim(...) only.")
        return claims

    def value(self, node: ast.expr) -> Any:
        """Evaluate an expression made of literals, known names, Source, Claim and Config."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name() if node.id in self.names:
                return self.names[node.id]
            case ast.Tuple() | ast.List():
                return self.elements(node.elts)
            case ast.Dict() if None not in node.keys:
                keys = [self.value(key) for key in node.keys if key]
                return dict(zip(keys, map(self.value, node.values), strict=True))
            case ast.UnaryOp(op=ast.USub()):
                return -self.value(node.operand)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return _OPERATORS[type(node.op)](self.value(node.left), self.value(node.right))
            case ast.Call(func=ast.Name(id="Source" | "Claim" | "Config")):
                return self.call(node)
        must = f"it must be literal to be read without running it, got {ast.unparse(node)[:60]}."
        raise _NotLiteral(node, must)

    def elements(self, nodes: list[ast.expr]) -> tuple[Any, ...]:
        """The elements of a tuple; `*others` is unfolded."""
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values.extend(self.value(node.value))
            else:
                values.append(self.value(node))
        return tuple(values)

    def call(self, node: ast.Call) -> Place | Statement | dict[str, Any]:
        """Source(...), Claim(...) without its judge, or the keywords of Config(...)."""
        called = ast.unparse(node.func)
        parameters = {
            "Source": ("key", "system", "place"),
            "Claim": ("statement", "judge", "source", "kind", "formula"),
            "Config": (),
        }[called]
        given = dict(zip(parameters, node.args, strict=False))
        given |= {keyword.arg or "**": keyword.value for keyword in node.keywords}
        given.pop("judge", None)
        arguments = {name: self.value(argument) for name, argument in given.items()}
        try:
            makers = {"Source": Place, "Claim": Statement, "Config": dict}
            return makers[called](**arguments)
        except TypeError as error:
            raise _NotLiteral(node, f"{called}: {error}.") from None


_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def _assignments(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names that a module binds at its top level, with what they are bound to."""
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _as_type(kind: str, value: Any) -> Any:
    """Write 1 as 1.0 where a float is meant."""
    if kind == "float":
        return float(value)
    if kind == "tuple[float, ...]":
        return tuple(map(float, value))
    return value


def name_of(path: Path) -> str:
    """An experiment's name is its path below its tree, the nearest folder named `experiments`.

    Example:
        >>> name_of(Path("lab/experiments/features/agop/sgd.py"))
        'features/agop/sgd'
        >>> name_of(Path("elsewhere/mine.py"))  # in no tree
        'mine'
    """
    folders = path.parts[:-1]
    if ROOT not in folders:
        return path.stem
    below = len(folders) - folders[::-1].index(ROOT)
    return "/".join((*folders[below:], path.stem))
