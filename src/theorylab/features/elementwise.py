"""Functions of one number inside a program: which entries of a value are φ(z) of another's.

A value is followed back, entry by entry, to the value z from which it is computed with constants
alone: relu(z), z·sigmoid(z), 1/(1 + e⁻ᶻ). Sums with other arrays (a bias, a residual) start anew.
So φ is known as a small program of its own, whatever it is called, and can be evaluated anywhere:

    φ(z), φ′(z)     at what the network computes
    sup |φ′|        on a grid, and φ′ far out on both sides

What is computed by roots, divisions or exponentials alone (norms, softmax) is no activation.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jaxtyping import Array, Float

_LINEAR = frozenset(
    {"add", "sub", "neg", "convert_element_type", "copy", "copy_p", "add_any", "stop_gradient"}
    | {"reduce_precision", "optimization_barrier", "real"}
)
_POLYNOMIAL = frozenset({"mul", "integer_pow", "square"})
_ROOTS = frozenset({"sqrt", "rsqrt", "cbrt", "pow"})
_EXPONENTIAL = frozenset({"exp", "exp2", "expm1"})
_LOGARITHMS = frozenset({"log", "log1p"})
_COMPARISONS = frozenset(
    {"gt", "ge", "lt", "le", "eq", "ne", "and", "or", "not", "xor", "is_finite"}
)
_KINKS = frozenset(
    {"max", "min", "abs", "sign", "select_n", "clamp", "floor", "ceil", "round", "rem"}
)
_SMOOTH = frozenset(
    {"tanh", "logistic", "erf", "erfc", "erf_inv", "sin", "cos", "tan", "asin", "acos", "atan"}
    | {"atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "lgamma", "digamma"}
)
ELEMENTWISE = (
    _LINEAR
    | _POLYNOMIAL
    | _ROOTS
    | _EXPONENTIAL
    | _LOGARITHMS
    | _COMPARISONS
    | _KINKS
    | _SMOOTH
    | {"div"}
)
_REACH = 20.0  # where slopes are looked at, on both sides of 0
_POINTS = 4001


class Node(NamedTuple):
    """A value whose entries are a function of the entries of another one, its root.

    Example: a root is a function of itself.
        >>> root = root_of("z")
        >>> root.is_linear, value_of(root, jnp.array([2.0])).tolist()
        (True, [2.0])
    """

    root: Any  # what tells one root from another
    equation: JaxprEqn | None  # None: the root itself
    operands: tuple[Any, ...]  # nodes, and constants ()
    kinds: frozenset[str]  # names of all that is not linear in it
    places: frozenset[int]  # which equations these are
    is_smooth_at_ties: bool = True  # max(z, 0) has the slope ½ at 0, as JAX has it; else 0
    name: str = ""  # of a function that computes it as a whole

    @property
    def is_linear(self) -> bool:
        """Whether it is an affine function of its root."""
        return not self.kinds


def root_of(token: Any) -> Node:
    """A value that is a function of nothing but itself.

    Example:
        >>> root_of("z").kinds
        frozenset()
    """
    return Node(token, None, (), frozenset(), frozenset())


def combined(equation: JaxprEqn, operands: list[Any], is_smooth_at_ties: bool) -> Node | None:
    """The node of an elementwise equation, if all its operands are of one root or constants.

    Args:
        equation: What is computed.
        operands: For each of its inputs a node, a number, or None if it is neither.
        is_smooth_at_ties: Whether max(z, 0) has the slope ½ at 0.

    Example:
        >>> (equation,) = jax.make_jaxpr(jnp.tanh)(jnp.ones(3)).eqns
        >>> sorted(combined(equation, [root_of("z")], True).kinds)
        ['tanh']
    """
    name = equation.primitive.name
    nodes = [operand for operand in operands if isinstance(operand, Node)]
    if name not in ELEMENTWISE or not nodes or any(operand is None for operand in operands):
        return None
    if len({id(node.root) for node in nodes}) > 1:
        return None
    kinds = frozenset[str]().union(*(node.kinds for node in nodes))
    places = frozenset[int]().union(*(node.places for node in nodes))
    if not _is_linear(name, operands):
        kinds, places = kinds | {name}, places | {id(equation)}
    return Node(nodes[0].root, equation, tuple(operands), kinds, places, is_smooth_at_ties)


def _is_linear(name: str, operands: list[Any]) -> bool:
    """Whether an equation keeps an affine function affine."""
    if name in _LINEAR:
        return True
    by_number = sum(isinstance(operand, Node) for operand in operands) == 1
    first = isinstance(operands[0], Node)
    return by_number and (name == "mul" or (name == "div" and first))


def value_of(node: Node, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """φ(z) of a node.

    Args:
        node: φ.
        z: Where.

    Example:
        >>> (equation,) = jax.make_jaxpr(jnp.tanh)(jnp.ones(3)).eqns
        >>> value_of(combined(equation, [root_of("z")], True), jnp.zeros(2)).tolist()
        [0.0, 0.0]
    """
    known: dict[int, Any] = {}

    def at(operand: Any) -> Any:
        if not isinstance(operand, Node):
            return jnp.broadcast_to(jnp.reshape(operand, ()), z.shape)
        if operand.equation is None:
            return z
        if id(operand) not in known:
            given = [at(inner) for inner in operand.operands]
            known[id(operand)] = _computed(operand, given)
        return known[id(operand)]

    return at(node)


def _computed(node: Node, given: list[Any]) -> Any:
    assert node.equation is not None
    name, settings = node.equation.primitive.name, node.equation.params
    if name in ("max", "min") and not node.is_smooth_at_ties:
        a, b = given if isinstance(node.operands[0], Node) else given[::-1]
        return jnp.where(a > b if name == "max" else a < b, a, b)
    if name == "convert_element_type":
        return jnp.asarray(given[0]).astype(settings["new_dtype"])
    if name in ("copy", "copy_p", "optimization_barrier", "reduce_precision"):
        return given[0]
    found = node.equation.primitive.bind(*given, **settings)
    return found[0] if node.equation.primitive.multiple_results else found


def is_activation(node: Node, before_product: bool) -> bool:
    """Whether φ is what a network has as an activation: not a part of a norm or of softmax.

    Args:
        node: φ.
        before_product: Whether its values go into a product or a convolution.

    Example:
        >>> equation = jax.make_jaxpr(lambda z: z**2)(jnp.ones(3)).eqns[0]
        >>> square = combined(equation, [root_of("z")], True)
        >>> is_activation(square, before_product=True), is_activation(square, before_product=False)
        (True, False)
    """
    kinds = node.kinds - _COMPARISONS
    polynomial, exponential = kinds & _POLYNOMIAL, kinds & _EXPONENTIAL
    if kinds & _ROOTS:
        return bool(polynomial)  # √(z² + 4) and its like; √(variance + ε) is part of a norm
    if kinds & (_SMOOTH | _KINKS):
        return True
    if exponential:
        return bool(kinds & (_LOGARITHMS | {"div"}) or polynomial)
    return before_product and bool(polynomial)


def label(node: Node) -> str:
    """What φ is called: by the function that computes it, else by what it is made of.

    Example:
        >>> (equation,) = jax.make_jaxpr(lambda z: jnp.maximum(z, 0))(jnp.ones(3)).eqns
        >>> label(combined(equation, [root_of("z"), 0.0], True))
        'relu'
    """
    if node.name:
        return node.name
    kinds = node.kinds - _COMPARISONS
    by_product = bool(kinds & _POLYNOMIAL)
    for name, plain, gated in (
        ("erfc", "erf", "gelu"),
        ("erf", "erf", "gelu"),
        ("tanh", "tanh", "gelu"),
        ("logistic", "sigmoid", "silu"),
    ):
        if name in kinds:
            return gated if by_product else plain
    for name, told in (("max", "relu"), ("select_n", "piecewise"), ("clamp", "clip")):
        if name in kinds:
            return "clip" if "min" in kinds else told
    if kinds & _EXPONENTIAL and kinds & (_LOGARITHMS | {"div"}):
        return "softplus" if kinds & _LOGARITHMS else "logistic"
    rest = sorted(kinds - {"mul", "div", "neg"} or kinds)
    return {"integer_pow": "power", "exp": "exponential"}.get(rest[0], rest[0])


class Slopes(NamedTuple):
    """The largest slope of φ, and its slopes far out.

    Example:
        >>> Slopes(largest=jnp.array(1.0), tails=jnp.zeros(2)).tails.tolist()
        [0.0, 0.0]
    """

    largest: Float[Array, ""]  # sup |φ′|
    tails: Float[Array, "2"]  # |φ′| far out at −∞ and ∞


def slopes_of(function: Callable[[Array], Array], kind: Any) -> Slopes:
    """Look at the slopes of φ on both sides of 0.

    Args:
        function: φ, entry by entry.
        kind: The type of numbers it takes.

    Example: tanh is steep in the middle, and flat on both sides.
        >>> found = slopes_of(jnp.tanh, float)
        >>> found.largest.item(), bool((found.tails < 1e-6).all())
        (1.0, True)
    """
    # No kink is likely to be at a point of a grid that is shifted by an irrational number.
    grid = jnp.linspace(-_REACH, _REACH, _POINTS, dtype=kind)
    grid = jnp.concatenate([grid, grid[1:] - 0.7071 * 2 * _REACH / (_POINTS - 1)])
    slopes = jnp.abs(jax.jvp(function, (grid,), (jnp.ones_like(grid),))[1])
    slopes = jnp.nan_to_num(slopes, nan=0.0, posinf=0.0)
    return Slopes(slopes.max(), jnp.stack([slopes[0], slopes[_POINTS - 1]]))
