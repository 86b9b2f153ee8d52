"""A graph of PyTorch's operations, run in JAX one after the other.

    values[step.place] ← step.function(*step.arguments)        for every step in its order

The graph comes from `torch.export`, taken apart into core operations. It is read once, into a
`Program` that holds nothing of PyTorch. Sizes that depend on the number of inputs are computed when
the program runs (`sym_size`), so one program serves every n.

Types: an operation's result has the type that PyTorch gives it, except that floating types follow
the parameters at hand. Where a module of float32 is given parameters of float64, what was float32
is float64.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from .aten import OPERATIONS
from .torch_arrays import canonical, kind_of

SKIPPED = (  # what only checks, and computes nothing
    "aten._assert_async.msg",
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
)
SIZES: dict[str, Callable[..., Any]] = {  # of PyTorch's own functions of sizes
    "sym_float": float,
    "sym_int": int,
    "sym_ite": lambda condition, first, second: first if condition else second,
    "sym_max": max,
    "sym_min": min,
    "sym_not": lambda condition: not condition,
    "sym_sum": sum,
}


class Slot(NamedTuple):
    """A value that an earlier step, or the caller, has put into a place."""

    place: int


class Kind(NamedTuple):
    """A type of arrays by its name, such as "float32"."""

    name: str


class Step(NamedTuple):
    """One operation: what it is, of what, and where its result goes."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    place: int
    kinds: Any  # the type of the result, or of its parts; None: not an array


class Program(NamedTuple):
    """What is to be done with which inputs, and where the outputs are."""

    places: dict[str, int]  # of what the caller gives, by its name in the graph
    steps: tuple[Step, ...]
    outputs: tuple[Any, ...]
    size: int


class Uncovered(NamedTuple):
    """An operation that is not here, and the line of the user's module that asks for it."""

    name: str
    line: str


def read(graph: Any) -> tuple[Program, tuple[Uncovered, ...]]:
    """Read a graph of PyTorch; what is not covered is given beside it, all of it.

    Args:
        graph: A graph of `torch.fx` whose nodes are functions.
    """
    places: dict[Any, int] = {}
    names: dict[str, int] = {}
    steps, uncovered, outputs = [], [], ()
    for place, node in enumerate(graph.nodes):
        places[node] = place
        if node.op == "placeholder":
            names[node.name] = place
        elif node.op == "output":
            outputs = _template(node.args[0], places)
        elif node.op == "call_function" and str(node.target) not in SKIPPED:
            function = function_of(node)
            if function is None:
                uncovered.append(Uncovered(_told(node), line_of(node)))
            else:
                given = _template(bound(node), places)
                steps.append(Step(function, given, place, _kinds(node.meta.get("val"))))
        elif node.op not in ("call_function", "get_attr"):
            uncovered.append(Uncovered(f"{node.op} {node.target}", line_of(node)))
    return Program(names, tuple(steps), tuple(outputs), len(places)), tuple(uncovered)


def function_of(node: Any) -> Callable[..., Any] | None:
    """What computes a node; None if nothing here does."""
    target = node.target
    if getattr(target, "__module__", "") in ("_operator", "operator", "math", "builtins"):
        return target
    if not hasattr(target, "_schema"):
        return SIZES.get(getattr(target, "__name__", ""))
    return None if _refused(node) else OPERATIONS.get(str(target))


def _refused(node: Any) -> str:
    """What an operation is asked for that its function does not do."""
    name = str(node.target)
    if "max_pool" in name and any(user.args[1] == 1 and user.users for user in node.users):
        return "its indices"
    if "scaled_dot_product_attention" in name and bound(node)[4]:
        return "dropout that is on"
    if name == "aten.rrelu.default" and bound(node)[3]:
        return "random slopes"
    return ""


def _told(node: Any) -> str:
    reason = _refused(node) if hasattr(node.target, "_schema") else ""
    return f"{node.target}{f' ({reason})' if reason else ''}"


def bound(node: Any) -> tuple[Any, ...]:
    """All arguments of a node in the order of its schema, defaults filled in."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return (*node.args, *node.kwargs.values())
    rest = schema.arguments[len(node.args) :]
    return (*node.args, *(node.kwargs.get(each.name, each.default_value) for each in rest))


def line_of(node: Any) -> str:
    """The line of the user's module that a node comes from."""
    lines = [each.strip() for each in (node.meta.get("stack_trace") or "").splitlines()]
    places = [i for i, line in enumerate(lines) if line.startswith("File ")]
    own = [i for i in places if "/torch/" not in lines[i].replace("\\", "/")]
    if not (own or places):
        return "a line that PyTorch does not tell"
    last = (own or places)[-1]
    code = lines[last + 1] if last + 1 < len(lines) and last + 1 not in places else ""
    return f"{lines[last].removeprefix('File ')}{f': {code}' if code else ''}"


def _template(value: Any, places: Mapping[Any, int]) -> Any:
    """Arguments with nodes as slots and types by their names; other words of PyTorch are None."""
    if isinstance(value, list | tuple):
        return tuple(_template(each, places) for each in value)
    if value is None or isinstance(value, bool | int | float | complex | str):
        return value
    if value in places:
        return Slot(places[value])
    if type(value).__name__ == "dtype":
        return Kind(kind_of(value))
    return None  # a device, a layout, a format of memory


def _kinds(value: Any) -> Any:
    """The types of a node's result, as PyTorch has them."""
    if isinstance(value, list | tuple):
        return tuple(map(_kinds, value))
    dtype = getattr(value, "dtype", None)
    return None if dtype is None else kind_of(dtype)


class Types:
    """The types of JAX for those of PyTorch, given the parameters at hand.

    Example: a module of float32 with parameters of float64.
        >>> types = Types({"weight": "float32"}, {"weight": jnp.ones(3, "float64")})
        >>> types["float32"], types["int64"]
        (dtype('float64'), dtype('int64'))
    """

    def __init__(self, declared: Mapping[str, str], params: Mapping[str, Any]) -> None:
        self.known: dict[str, Any] = {}
        for name, kind in declared.items():
            given = jnp.result_type(params[name])
            self.known[kind] = jnp.promote_types(self.known.get(kind, given), given)

    def __getitem__(self, kind: str) -> Any:
        """The type of JAX."""
        if kind not in self.known:
            self.known[kind] = canonical(kind)
        return self.known[kind]


def run(program: Program, given: Mapping[str, Any], types: Types) -> tuple[Any, ...]:
    """Run a program: its outputs in their order.

    Args:
        program: As `read` has it.
        given: Arrays by their names in the graph.
        types: Of what is computed.
    """
    values: list[Any] = [None] * program.size
    for name, place in program.places.items():
        values[place] = given[name]
    for step in program.steps:
        found = step.function(*(_filled(each, values, types) for each in step.arguments))
        values[step.place] = _converted(found, step.kinds, types)
    return tuple(_filled(each, values, types) for each in program.outputs)


def _filled(template: Any, values: Sequence[Any], types: Types) -> Any:
    if isinstance(template, Slot):
        return values[template.place]
    if isinstance(template, Kind):
        return types[template.name]
    if isinstance(template, tuple):
        return [_filled(each, values, types) for each in template]
    return template


def _converted(found: Any, kinds: Any, types: Types) -> Any:
    """A result in the types that it should have."""
    if found is None or kinds is None:
        return found
    if isinstance(kinds, tuple):
        return tuple(map(_converted, found, kinds, [types] * len(kinds)))
    kind = types[kinds]
    found = jnp.asarray(found)
    return found if found.dtype == kind else lax.convert_element_type(found, kind)


def summary(uncovered: Iterable[Uncovered]) -> str:
    """All operations that are not covered, each with the first line that asks for it.

    Args:
        uncovered: In the graph's order.

    Example:
        >>> print(summary([Uncovered("aten.nonzero.default", "net.py, line 3: x.nonzero()")]))
        1 operation of this module is not covered:
          aten.nonzero.default, at net.py, line 3: x.nonzero()
    """
    first: dict[str, str] = {}
    for name, line in uncovered:
        first.setdefault(name, line)
    head = "operation of this module is" if len(first) == 1 else "operations of this module are"
    lines = [f"{len(first)} {head} not covered:"]
    return "\n".join([*lines, *(f"  {name}, at {line}" for name, line in first.items())])
