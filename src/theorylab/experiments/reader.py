"""Read an experiment without importing it.

    <concept>/<phenomenon>.py ─► ast ─► Entry: title, formula, fields, presets, claims

Reading takes milliseconds where importing takes seconds, so `list`, `show`, shell completion and
the check of flags answer at once. It asks that an experiment writes literally what it says of
itself: docstring, PRECISION, FORMULA, the fields of Config, PRESETS and CLAIMS. The types of
`theorylab.fields` are known by their names; what is imported from a private module of the same
tree (a base of Config, a source, a constant) is read there.
"""

import ast
import io
import operator
import os
import textwrap
import tokenize
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from theorylab import fields as domains
from theorylab.claims.regime import fulfils

from .entry import KINDS, PRESETS, RESERVED, Config, Entry, Field, Place, State, Statement, name_of

_BUILTINS = {"int": int, "float": float, "bool": bool, "str": str}


class TreeError(Exception):
    """An experiment is not written as the tree can read it."""


class _NotLiteral(Exception):
    """Something in an experiment is not written as the reader needs it."""

    def __init__(self, node: ast.AST | None, must: str):
        self.line = getattr(node, "lineno", 1)
        super().__init__(must)


def read(path: Path) -> Entry:
    """Read the experiment in a file.

    Raises:
        TreeError: It does not parse, or something that must be literal is not; with the line.
    """
    try:
        return _module(path).entry()
    except SyntaxError as error:
        raise TreeError(f"{path}:{error.lineno}: {error.msg}.") from None
    except _NotLiteral as error:
        raise TreeError(f"{path}:{error.line}: {error}") from None
    except RecursionError:
        raise TreeError(f"{path}: it must not be nested so deep, or import itself.") from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise TreeError(f"{path}: {error}.") from None


def state_of(path: Path) -> State:
    """When a file was changed, which one it is, and its size."""
    state = os.stat(path)
    return state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_size


_READ: dict[Path, "_Module"] = {}


def _module(path: Path) -> "_Module":
    """A module of the tree; if neither it nor what it reads has changed, it is not read again."""
    known = _READ.get(path)
    if known is None or not known.is_current():
        known = _READ[path] = _Module(path)
    return known


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


class _Module:
    """A module's syntax tree, and the names that it has bound to literals so far."""

    def __init__(self, path: Path):
        self.path, self.state = path, state_of(path)
        text = path.read_text(encoding="utf-8")
        self.lines = text.splitlines()
        self.tree = _parsed(text)
        self.assigned = dict(_assignments(self.tree))
        self.imported = dict(_imports(self.tree, path))
        self.others: dict[Path, _Module] = {}
        self.names: dict[str, Any] = {}
        for name, node in self.assigned.items():
            with suppress(_NotLiteral):  # what is not literal may not matter
                self.names[name] = self.value(node)

    def entry(self) -> Entry:
        """Everything the module says of itself."""
        docstring = ast.get_docstring(self.tree)
        if not docstring:
            raise _NotLiteral(None, "an experiment needs a docstring; its first line is the title.")
        title, _, description = docstring.partition("\n")
        config = self.class_named("Config")
        if config is None:
            raise _NotLiteral(None, "an experiment needs a class Config, there is none.")
        fields = tuple(self.fields(config).values())
        presets = self.presets(fields)
        return Entry(
            name=name_of(self.path),
            path=self.path,
            title=title.strip(),
            description=description.strip(),
            precision=self.one_of("PRECISION", ("float64", "float32")),
            formula=self.constant("FORMULA", str),
            summary=ast.get_docstring(config) or "",
            fields=fields,
            presets=presets,
            claims=self.claims(presets),
            sources=self.sources(),
            files=self.files(),
            batched=self.batched({field.name for field in fields}),
        )

    def other(self, path: Path) -> "_Module":
        """Another module of the tree, which this one imports from."""
        module = _module(path)
        self.others[path] = module
        return module

    def files(self) -> dict[Path, State]:
        """The module's file and all that were read for it, as they were then."""
        found: dict[Path, State] = {}
        waiting: list[_Module] = [self]
        while waiting:
            module = waiting.pop()
            if module.path not in found:
                found[module.path] = module.state
                waiting += module.others.values()
        return found

    def is_current(self) -> bool:
        """Whether all these files are as they were."""
        try:
            return all(state_of(path) == state for path, state in self.files().items())
        except OSError:
            return False

    def sources(self) -> dict[str, str]:
        """Author and title of the documents that only this experiment cites, by key."""
        if "SOURCES" not in self.assigned:
            return {}
        sources = self.constant("SOURCES", dict)
        if not all(isinstance(text, str) for each in sources.items() for text in each):
            raise _NotLiteral(self.assigned["SOURCES"], "SOURCES must map keys to titles.")
        return sources

    def batched(self, fields: Collection[str]) -> tuple[str, ...]:
        """The fields on which no compiled program of the experiment depends, if it says so."""
        if "BATCHED" not in self.assigned:
            return ()
        names = self.constant("BATCHED", tuple)
        if unknown := [name for name in names if name not in fields]:
            node = self.assigned["BATCHED"]
            raise _NotLiteral(node, f"BATCHED must name fields of Config, got {unknown[0]!r}.")
        return names

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

    def class_named(self, name: str) -> ast.ClassDef | None:
        """A class that the module defines."""
        classes = (node for node in self.tree.body if isinstance(node, ast.ClassDef))
        return next((node for node in classes if node.name == name), None)

    def fields(self, config: ast.ClassDef) -> dict[str, Field]:
        """The fields of a class and of its bases, as a dataclass orders them."""
        found: dict[str, Field] = {}
        for base in reversed(config.bases):  # as Python does, so that the first one wins
            found |= self.inherited(base)
        for item in config.body:
            if isinstance(item, ast.AnnAssign):
                field = self.field(item)
                found[field.name] = field
        return found

    def inherited(self, base: ast.expr) -> dict[str, Field]:
        """The fields of a base of Config: of `theorylab.fields`, or of a module of the tree."""
        name = ast.unparse(base)
        if name in ("Checked", "Seeded"):
            return _own_fields(name)
        if (own := self.class_named(name)) is not None:
            return self.fields(own)
        if name in self.imported:
            path, original = self.imported[name]
            other = self.other(path)
            if (found := other.class_named(original)) is not None:
                return other.fields(found)
        must = "a base of Config must be Checked, Seeded or a class of the tree"
        raise _NotLiteral(base, f"{must}, got {name}.")

    def field(self, node: ast.AnnAssign) -> Field:
        """One line of `Config`: name, type, default, comment."""
        name, hint = ast.unparse(node.target), self.hint(node.annotation)
        if name in RESERVED:
            raise _NotLiteral(node, f"a field must not be named {name}: the command line uses it.")
        if node.value is None:
            raise _NotLiteral(node, f"the field {name} needs a default.")
        try:
            default = domains.fitted(name, hint, self.value(node.value))
        except (TypeError, ValueError) as error:
            raise _NotLiteral(node, str(error)) from None
        return Field(name=name, hint=hint, default=default, help=self.comment(node))

    def hint(self, node: ast.expr) -> Any:
        """The type of a field, by its name."""
        match node:
            case ast.Name(id=name) if name in _BUILTINS:
                return _BUILTINS[name]
            case ast.Name(id=name) if name in domains.__all__:
                return getattr(domains, name)
            case ast.Name(id=name) if name in self.assigned:
                return self.hint(self.assigned[name])
            case ast.Name(id=name) if name in self.imported:
                path, original = self.imported[name]
                return self.other(path).hint(ast.Name(original))
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
                return Literal[self.value(inner)]  # a tuple of words stands for these words
            case ast.Subscript(
                value=ast.Name(id="Annotated"),
                slice=ast.Tuple(elts=[inner, ast.Call(func=ast.Name(id="within"), args=limits)]),
            ):
                return Annotated[self.hint(inner), domains.within(*map(self.value, limits))]
            case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[inner, _])):
                return tuple[self.hint(inner), ...]
            case ast.Subscript(value=ast.Name(id=name), slice=inner) if name in domains.__all__:
                return getattr(domains, name)[self.hint(inner)]
        must = "the type of a field must be one of theorylab.fields"
        raise _NotLiteral(node, f"{must}, got {ast.unparse(node)}.")

    def comment(self, node: ast.AnnAssign) -> str:
        """What stands behind # on the lines of a field."""
        text = "\n".join(self.lines[node.lineno - 1 : node.end_lineno])
        tokens = tokenize.generate_tokens(io.StringIO(textwrap.dedent(text)).readline)
        comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
        return " ".join(comment.lstrip("# ") for comment in comments)

    def presets(self, fields: tuple[Field, ...]) -> dict[str, Config]:
        """Every preset with the values of all its fields."""
        known = {field.name: field for field in fields}
        default = {field.name: field.default for field in fields}
        presets = {"default": default}
        node = self.assigned.get("PRESETS")
        for preset, changes in self.constant("PRESETS", dict).items():
            if preset not in PRESETS or not isinstance(changes, dict):
                must = f"PRESETS must map names among {PRESETS} to Config(...), got {preset!r}."
                raise _NotLiteral(node, must)
            if unknown := changes.keys() - known.keys():
                raise _NotLiteral(node, f"Config has no field {unknown.pop()!r}.")
            try:
                presets[preset] = default | {
                    name: domains.fitted(name, known[name].hint, value)
                    for name, value in changes.items()
                }
            except ValueError as error:
                raise _NotLiteral(node, f"preset {preset}: {error}") from None
        return {preset: presets[preset] for preset in PRESETS if preset in presets}

    def claims(self, presets: dict[str, Config]) -> tuple[Statement, ...]:
        """Every claim without its judge; each can be judged in some preset."""
        claims, node = self.constant("CLAIMS", tuple), self.assigned["CLAIMS"]
        if not all(isinstance(claim, Statement) for claim in claims):
            raise _NotLiteral(node, "CLAIMS must hold claims of a Source only.")
        for claim in claims:
            try:
                judged = any(fulfils(config, claim.regime) for config in presets.values())
            except ValueError as error:
                raise _NotLiteral(node, f"{error} ({claim.statement})") from None
            if not judged:
                must = f"some preset must be in the regime {claim.regime!r}"
                raise _NotLiteral(node, f"{must}, none is ({claim.statement})")
        return claims

    def value(self, node: ast.expr) -> Any:
        """Evaluate an expression made of literals, known names, Source, its claims and Config."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name() if node.id in self.names:
                return self.names[node.id]
            case ast.Name() if node.id in self.imported:
                return self.imported_value(node)
            case ast.Tuple() | ast.List():
                return self.elements(node.elts)
            case ast.Dict() if None not in node.keys:
                keys = [self.value(key) for key in node.keys if key]
                return dict(zip(keys, map(self.value, node.values), strict=True))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return _computed(node, operator.neg, self.value(inner))
            case ast.BinOp(left=left, right=right) if type(node.op) in _OPERATORS:
                operate = _OPERATORS[type(node.op)]
                return _computed(node, operate, self.value(left), self.value(right))
            case ast.Call(func=ast.Name(id="Source" | "Config")):
                return self.call(node)
            case ast.Call(func=ast.Attribute(value=source, attr="erratum")):
                return self.erratum(node, self.value(source))
            case ast.Call(func=ast.Attribute(value=source, attr=kind)) if kind in KINDS:
                return self.claim(node, self.value(source), kind)
        must = f"it must be literal to be read without running it, got {ast.unparse(node)[:60]}."
        raise _NotLiteral(node, must)

    def imported_value(self, node: ast.Name) -> Any:
        """A literal that another module of the tree defines."""
        path, original = self.imported[node.id]
        names = self.other(path).names
        if original not in names:
            raise _NotLiteral(node, f"{original} must be literal in {path.name}, to be read here.")
        return names[original]

    def elements(self, nodes: list[ast.expr]) -> tuple[Any, ...]:
        """The elements of a tuple; `*others` is unfolded."""
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values.extend(self.value(node.value))
            else:
                values.append(self.value(node))
        return tuple(values)

    def call(self, node: ast.Call) -> Place | dict[str, Any]:
        """Source(...), or the keywords of Config(...)."""
        called = ast.unparse(node.func)
        parameters = {"Source": ("key", "system", "place"), "Config": ()}[called]
        arguments = {
            name: self.value(argument) for name, argument in _given(node, parameters).items()
        }
        if called == "Source":
            _require_texts(node, arguments)
        try:
            return {"Source": Place, "Config": dict}[called](**arguments)
        except TypeError as error:
            raise _NotLiteral(node, f"{called}: {error}.") from None

    def claim(self, node: ast.Call, source: Any, kind: str) -> Statement:
        """`SOURCE.claim(statement, judge, …)`, or another kind, without its judge."""
        given = _given(node, ("statement", "judge"))
        given.pop("judge", None)
        arguments = {name: self.value(argument) for name, argument in given.items()}
        _require_texts(node, arguments)
        if not isinstance(source, Place):
            raise _NotLiteral(node, f"{kind} needs a Source before it, got {source!r}.")
        try:
            return Statement(source=source, kind=kind, **arguments)
        except TypeError as error:
            raise _NotLiteral(node, f"{kind}: {error}.") from None

    def erratum(self, node: ast.Call, source: Any) -> tuple[Statement, Statement]:
        """The two claims of `SOURCE.erratum(printed=(statement, judge), corrected=...)`."""
        given = _given(node, ("printed", "corrected", "formula", "quote", "regime"))
        if missing := {"printed", "corrected"} - given.keys():
            raise _NotLiteral(node, f"erratum needs {missing.pop()}.")
        details = [ast.keyword("regime", given["regime"])] if "regime" in given else []
        quote = [ast.keyword("quote", given["quote"])] if "quote" in given else []
        made = []
        for kind, otherwise, more in (
            ("printed", ast.Constant(""), quote),
            ("corrected", given.get("formula", ast.Constant("")), []),
        ):
            pair = given[kind]
            if not isinstance(pair, ast.Tuple) or len(pair.elts) not in (2, 3):
                must = "erratum needs pairs of a statement and its judge, and a formula if any."
                raise _NotLiteral(node, must)
            statement, judge, formula = [*pair.elts, otherwise][:3]
            keywords = [ast.keyword("formula", formula), *details, *more]
            made.append(self.claim(ast.Call(node.func, [statement, judge], keywords), source, kind))
        return made[0], made[1]


def _given(node: ast.Call, parameters: tuple[str, ...]) -> dict[str, ast.expr]:
    """The arguments of a call by the names of their parameters."""
    given = dict(zip(parameters, node.args, strict=False))
    return given | {keyword.arg or "**": keyword.value for keyword in node.keywords}


def _require_texts(node: ast.Call, arguments: Mapping[str, Any]) -> None:
    """Refuse a Source or a claim that says something that is no text."""
    for name, value in arguments.items():
        if not isinstance(value, str):
            raise _NotLiteral(node, f"{name} must be a text, got {value!r}.")


def _computed(node: ast.expr, operate: Callable[..., Any], *operands: Any) -> Any:
    """The result of an operation, unless it takes long: nobody writes a literal of such a size."""
    try:
        if operate in (operator.mul, operator.pow) and max(map(abs, operands)) > 2**64:
            raise OverflowError("a number is too large")
        if operate is operator.pow and abs(operands[1]) > 64:
            raise OverflowError("an exponent is too large")
        return operate(*operands)
    except (TypeError, ArithmeticError) as error:
        raise _NotLiteral(
            node, f"it must be computable, got {ast.unparse(node)[:60]}: {error}."
        ) from None


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


def _imports(module: ast.Module, path: Path) -> Iterator[tuple[str, tuple[Path, str]]]:
    """The names that a module takes from others of its tree, with their files and names there."""
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            file = _file_of(node.module, node.level, path)
            if file is not None and file.is_file():
                for alias in node.names:
                    yield alias.asname or alias.name, (file, alias.name)


def _file_of(module: str, level: int, path: Path) -> Path | None:
    """The file of a module that is imported, if it is in the tree of `path`."""
    parts = module.split(".")
    if level:
        return path.parents[level - 1].joinpath(*parts).with_suffix(".py")
    root = next((parent for parent in path.parents if parent.name == "experiments"), None)
    if root is None or "experiments" not in parts:
        return None
    return root.joinpath(*parts[parts.index("experiments") + 1 :]).with_suffix(".py")


def _own_fields(name: str) -> dict[str, Field]:
    """The fields of a base in `theorylab.fields`."""
    base = getattr(domains, name)
    comments = {"num_seeds": "independent repetitions", "seed": "of all randomness"}
    return {
        name: Field(name, hint, default=getattr(base, name), help=comments[name])
        for name, hint in domains.hints(base).items()
    }
