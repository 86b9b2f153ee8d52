"""Whether a network's output at an input depends on nothing but the input and the parameters.

With two inputs a ≠ b, all of these must be f(a), and are compared:

    f(a, a)[0]                f(a, b)[0]          f(b, a)[1]          f′(a, b)[0]
    beside itself             beside another      at another place    called again, or with
                                                                      another key

Batch statistics change the second, dropout with a fixed key the third, since every place of the
batch has its own mask, and random numbers that are drawn anew at each call the fourth. That a
function draws anew is seen without running it: it is traced twice, and the constants of the two
programs are compared.
"""

import inspect
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from theorylab.typing import Apply, Inputs, Params

from .inputs import is_traced

_ROUNDING = 1e-3  # relative; both outputs come from one program, so even coarse numbers agree
# What was found to treat every input by itself, at inputs of which shapes: looked at only once.
_KNOWN: WeakKeyDictionary[Any, set[Hashable]] = WeakKeyDictionary()
_BATCH_STATISTICS = (
    "Batch statistics do that (BatchNorm): run it with fixed statistics, or use a network without."
)
_OBJECTIVE = "the function must be one function of its arguments, got values"
_DROPOUT = "Dropout does that: switch it off, as for evaluation (inference mode, train=False)."


def check_independence(
    apply: Apply,
    params: Params,
    x1: Inputs,
    x2: Inputs | None,
    name: tuple[Any, Hashable],
    shapes: Callable[[Apply, Params, Inputs], Any],
) -> None:
    """Raise if the outputs at the first of x1 depend on anything else.

    Args:
        apply: The network: (params, inputs) ─► outputs.
        params: Its parameters.
        x1: Inputs.
        x2: Other inputs of the same shape; the network is looked at beside the last of them.
        name: Under what to remember that all is well: an object, and a part of it.
        shapes: Is called first, and raises if the network does not take such inputs.

    Example:
        >>> network, x = lambda w, x: w * x, jnp.array([[1.0], [2.0]])
        >>> check_independence(network, jnp.array(1.0), x, None, (network, None), jax.eval_shape)
    """
    second = x1 if x2 is None else x2
    if is_traced(params, x1, second):
        return
    kinds = tuple(leaf.shape[1:] for leaf in jax.tree.leaves(x1))
    owner, part = name
    known = _known(owner)
    if (part, kinds, False) in known:
        return
    a = jax.tree.map(lambda leaf: np.asarray(leaf[:1]), x1)
    b = jax.tree.map(lambda leaf: np.asarray(leaf[-1:]), second)
    alike = all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))
    if (part, kinds, alike) in known:
        return
    if getattr(shapes(apply, params, a), "shape", ())[:1] != (1,):
        return  # no outputs by inputs: whoever needs them says so
    _look(apply, params, a, b, alike)
    with suppress(TypeError):  # what has no hash, or cannot be referred to, is looked at again
        _KNOWN.setdefault(owner, set()).add((part, kinds, alike))


def check_deterministic(
    function: Callable[..., Any], *args: Any, name: tuple[Any, Hashable] | None = None
) -> None:
    """Raise if a function gives something else when it is called again with the same arguments.

    A loss of a whole batch may have batch statistics, but must be one function.

    Args:
        function: The function.
        *args: Its arguments.
        name: Under what to remember that all is well: an object, and a part of it; by default
            the function.

    Example:
        >>> check_deterministic(lambda w: jnp.sum(w**2), jnp.ones(3))
    """
    owner, part = (function, None) if name is None else name
    remembered = ("again", part)
    if is_traced(args) or remembered in _known(owner):
        return
    first = jax.jit(lambda *args: function(*args)).trace(*args)  # with errors of its own
    second = _traced(function, *args)
    if not _same_constants(first.jaxpr, second.jaxpr):
        values = [_compiled(each)(*args) for each in (first, second)]
        _refuse_if_apart(values[0], values[1], _OBJECTIVE, "when it is called again", _DROPOUT)
    with suppress(TypeError):
        _KNOWN.setdefault(owner, set()).add(remembered)


def _look(apply: Apply, params: Params, a: Inputs, b: Inputs, alike: bool) -> None:
    """Run the network on pairs of inputs: one program in turn, so that rounding is the same."""
    pair = lambda one, two: jax.tree.map(lambda *rows: np.concatenate(rows), one, two)  # noqa: E731
    beside_itself = pair(a, a)
    traced = _traced(apply, params, beside_itself)
    program = _compiled(traced)

    def run(inputs: Inputs, row: int) -> np.ndarray:
        return np.asarray(program(params, inputs)[row])

    expected = run(beside_itself, 0)
    if not np.isfinite(expected).all():
        raise ValueError(
            "apply must give finite outputs, got NaN or infinity at x1[0], though the parameters"
            " and this input are finite."
        )
    tests = [(beside_itself, 1, "at another place in the batch", _DROPOUT)]
    if not alike:
        tests += [
            (pair(a, b), 0, "when another input is beside it", _BATCH_STATISTICS),
            (pair(b, a), 1, "at another place in the batch", _DROPOUT),
        ]
    says = "apply must treat every input by itself, got outputs at x1[0]"
    for inputs, row, when, why in tests:
        _refuse_if_apart(expected, run(inputs, row), says, when, why)
    again = _traced(apply, params, beside_itself)
    same = _same_constants(traced.jaxpr, again.jaxpr)
    others = [] if same else [("when it is called again", again)]
    if (keyed := _with_another_key(apply)) is not None:
        others += [("with another key", _traced(keyed, params, beside_itself))]
    says = "apply must be one function of the parameters and inputs, got outputs at x1[0]"
    for when, other in others:
        found = _compiled(other)(params, beside_itself)
        _refuse_if_apart(expected, found[0], says, when, _DROPOUT)


def _refuse_if_apart(
    expected: np.ndarray, found: np.ndarray, says: str, when: str, why: str
) -> None:
    size = max(np.abs(expected).max(initial=0), np.abs(found).max(initial=0))
    change = np.abs(expected - found).max(initial=0) / (size if size > 0 else 1)
    if change > _ROUNDING:
        raise ValueError(f"{says} that change by {100 * change:.2g} % {when}. {why}")


def _traced(function: Callable[..., Any], *args: Any) -> Any:
    """The function's program; a new wrapper, so that no earlier trace of it is found."""
    try:
        return jax.jit(lambda *args: function(*args)).trace(*args)
    except Exception as error:
        raise _impure(error) from error


def _compiled(traced: Any) -> Callable[..., np.ndarray]:
    program = traced.lower().compile()

    def run(*args: Any) -> np.ndarray:
        try:
            return np.asarray(program(*args), float)
        except Exception as error:
            raise _impure(error) from error

    return run


def _impure(error: Exception) -> ValueError:
    return ValueError(
        "the network must be a pure function, whose calls leave nothing behind, but it failed when"
        f" it was called again, with {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    )


def _same_constants(first: ClosedJaxpr, second: ClosedJaxpr) -> bool:
    """Whether two programs have the same primitives and numbers, in this order."""
    pairs = zip(_constants(first), _constants(second), strict=False)
    return len(first.eqns) == len(second.eqns) and all(_equal(a, b) for a, b in pairs)


def _constants(program: ClosedJaxpr | Jaxpr) -> Iterator[Any]:
    """The primitives and numbers of a program, with those of programs inside it."""
    if isinstance(program, ClosedJaxpr):
        yield from program.consts
        program = program.jaxpr
    for equation in program.eqns:
        yield equation.primitive.name
        yield from (atom.val for atom in equation.invars if isinstance(atom, Literal))
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else [value]:
                if isinstance(inner, ClosedJaxpr | Jaxpr):
                    yield from _constants(inner)


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    if is_traced(a, b):  # a constant of a program that is being compiled
        return False
    a, b = (jax.random.key_data(c) if _is_new_key(c) else c for c in (a, b))
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=np.asarray(a).dtype.kind == "f")


def _with_another_key(apply: Any) -> Callable[..., Any] | None:
    """The network with other keys in place of those that are defaults of its arguments."""
    try:
        arguments = list(inspect.signature(apply).parameters.values())[2:]
    except (TypeError, ValueError):
        return None
    keyed = {
        argument.name: argument.default
        for argument in arguments
        if any(map(_is_key, jax.tree.leaves(argument.default)))
    }
    if not keyed:
        return None
    change = lambda leaf: jax.random.fold_in(leaf, 1) if _is_key(leaf) else leaf  # noqa: E731
    return partial(apply, **jax.tree.map(change, keyed))


def _is_key(leaf: Any) -> bool:
    old = getattr(leaf, "dtype", None) == jnp.uint32 and getattr(leaf, "shape", None) == (2,)
    return old or _is_new_key(leaf)


def _is_new_key(leaf: Any) -> bool:
    kind = getattr(leaf, "dtype", None)
    return kind is not None and jnp.issubdtype(kind, jax.dtypes.prng_key)


def _known(owner: Any) -> set[Hashable]:
    try:
        return _KNOWN.get(owner, set())
    except TypeError:
        return set()
