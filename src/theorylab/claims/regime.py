"""Where a claim can be judged: a condition on the fields of a config, in text.

    "width >= 1000 and num_seeds >= 10"

It is text, not a function, so that it can be read without running anything: reports say what is
needed, and the tree checks that some preset fulfils it. It may compare, count and compute with
fields and numbers; `min`, `max` and `len` are known.
"""

import ast
import operator
from collections.abc import Mapping
from typing import Any

_CALLABLE = {"len": len, "max": max, "min": min}
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
}


def fields_of(regime: str) -> frozenset[str]:
    """The fields that a regime speaks of.

    Raises:
        ValueError: It is no condition, or has something that a condition may not have.

    Example:
        >>> sorted(fields_of("max(widths) >= 1000 and num_seeds >= 10"))
        ['num_seeds', 'widths']
    """
    tree = _parsed(regime)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(names - _CALLABLE.keys())


def fulfils(config: Mapping[str, Any], regime: str) -> bool:
    """Whether a config, by the names of its fields, is in a regime; every config is in "".

    Raises:
        ValueError: The regime is no condition on these fields.

    Example:
        >>> fulfils({"width": 512}, "width >= 1000"), fulfils({"width": 512}, "")
        (False, True)
    """
    if not regime:
        return True
    if unknown := fields_of(regime) - config.keys():
        raise ValueError(f"a regime must speak of fields of Config, got {min(unknown)!r}.")
    try:
        found = _value(_parsed(regime), config)
    except (TypeError, IndexError, ArithmeticError) as error:
        raise ValueError(f"a regime must be computable, got {regime!r}: {error}.") from None
    if not isinstance(found, bool):
        raise ValueError(f"a regime must be true or false, got {regime!r}.")
    return found


def _parsed(regime: str) -> ast.expr:
    try:
        return ast.parse(regime.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(f"a regime must be a condition in Python, got {regime!r}.") from None


def _value(node: ast.expr, config: Mapping[str, Any]) -> Any:
    """Evaluate a condition, or a part of it."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return config[node.id]
        case ast.Tuple():
            return tuple(_value(each, config) for each in node.elts)
        case ast.BoolOp():
            combine = all if isinstance(node.op, ast.And) else any
            return combine(_value(each, config) for each in node.values)
        case ast.UnaryOp(op=ast.Not()):
            return not _value(node.operand, config)
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, config)
        case ast.BinOp() if type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](_value(node.left, config), _value(node.right, config))
        case ast.Compare() if all(type(each) in _OPERATORS for each in node.ops):
            values = [_value(each, config) for each in (node.left, *node.comparators)]
            pairs = zip(node.ops, values, values[1:], strict=False)
            return all(_OPERATORS[type(compare)](one, other) for compare, one, other in pairs)
        case ast.Subscript():
            return _value(node.value, config)[_value(node.slice, config)]
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _CALLABLE:
            return _CALLABLE[name](*(_value(each, config) for each in node.args))
    part = ast.unparse(node)
    raise ValueError(
        f"a regime may compare and compute with fields, min, max and len only, got {part!r}."
    )
