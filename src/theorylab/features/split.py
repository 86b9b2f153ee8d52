"""A network split at what it is differentiated by: its inputs, or the rows that tokens look up.

    f(x) = rest(params, e, x),   e = embed(params, x)

    no `at`                 e = x, the real numbers in the inputs, laid out flat
    at=(embed, rest)        two functions of the user's
    at="embedding"          the name of an array in params, or its path ("encoder", "embedding"):
                            e are the rows that the network looks up in it for every input

Token ids are whole numbers: there is no derivative by them, and none is made up. Look-ups are found
in the network's program, as gathers from that array, also inside jitted functions; those inside
loops and branches are not, and are refused. An array that serves twice (tied weights) is kept
constant where it is not looked up.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jaxtyping import Array

from theorylab.models.inputs import is_traced, num_inputs
from theorylab.models.own_network import Reduced
from theorylab.typing import Apply, Inputs, Params

Embed = Callable[[Params, Inputs], Array]
Rest = Callable[[Params, Array, Inputs], Array]
At = str | tuple[int | str, ...] | tuple[Embed, Rest]  # where a network is split

_CALLS = ("jit", "pjit", "closed_call")  # programs in the program, to be walked through
_VIEWS = ("convert_element_type", "copy")  # the array still


class Split(NamedTuple):
    """A network in two parts, f(x) = rest(params, e, x) with e = embed(params, x), (n, ...).

    Example:
        >>> split = Split(lambda w, x: w["table"][x], lambda w, e, x: e.sum(axis=1) @ w["out"])
        >>> params = {"table": jnp.eye(3), "out": jnp.ones((3, 1))}
        >>> split.rest(params, split.embed(params, jnp.array([[0, 2]])), None).tolist()
        [[2.0]]
    """

    embed: Embed
    rest: Rest


def split_at(apply: Apply, params: Params, x: Inputs, at: At | None) -> Split:
    """Split a network; only shapes of params and x are looked at.

    Args:
        apply: The network: (params, inputs) ─► outputs (n, ...).
        params: Its parameters.
        x: Inputs.
        at: Where: None, a pair (embed, rest), or the name or the path of an array in params.

    Example: the rows that two tokens look up.
        >>> network = lambda w, x: w["table"][x].sum(axis=1) @ w["out"]
        >>> params = {"table": jnp.eye(3), "out": jnp.ones((3, 1))}
        >>> split = split_at(network, params, jnp.array([[0, 2]]), "table")
        >>> split.embed(params, jnp.array([[0, 2]])).tolist()
        [[1.0, 0.0, 0.0, 0.0, 0.0, 1.0]]
    """
    if at is None:
        return _at_inputs(apply, params, x)
    path = isinstance(at, tuple) and at and all(isinstance(step, int | str) for step in at)
    if isinstance(at, str) or path:
        return _at_array(apply, params, x, at)
    match at:
        case (embed, rest) if callable(embed) and callable(rest):
            if not isinstance(apply, Reduced):
                return Split(embed, rest)
            reduce = apply.outputs
            return Split(embed, lambda params, e, x: reduce(rest(params, e, x)))
    raise ValueError(
        "at must be the name or the path of an array in params, or a pair of functions (embed,"
        f" rest), got {at!r}."
    )


def _at_inputs(apply: Apply, params: Params, x: Inputs) -> Split:
    """By all real numbers of the inputs; whole numbers are taken as real if they are alone."""
    leaves, tree = jax.tree.flatten(x)
    whole = [not jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]
    if all(whole):
        _check_real(apply, params, x, alone=len(leaves) == 1)
        return Split(lambda params, x: jax.tree.leaves(x)[0].astype(float), _given(apply, tree))

    def embed(params: Params, x: Inputs) -> Array:
        real = [leaf for leaf, no in zip(jax.tree.leaves(x), whole, strict=True) if not no]
        return real[0] if len(leaves) == 1 else _flat(real)

    def rest(params: Params, e: Array, x: Inputs) -> Array:
        if len(leaves) == 1:
            return _given(apply, tree)(params, e, x)
        pieces, filled = e, []
        for leaf, no in zip(jax.tree.leaves(x), whole, strict=True):
            size = 0 if no else leaf[0].size
            filled.append(leaf if no else pieces[:, :size].reshape(leaf.shape).astype(leaf.dtype))
            pieces = pieces[:, size:]
        return apply(params, jax.tree.unflatten(tree, filled))

    return Split(embed, rest)


def _given(apply: Apply, tree: Any) -> Rest:
    return lambda params, e, x: apply(params, jax.tree.unflatten(tree, [e]))


def _flat(arrays: list[Array]) -> Array:
    """Arrays (n, ...) beside each other, (n, d)."""
    return jnp.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in arrays], axis=1)


def _check_real(apply: Apply, params: Params, x: Inputs, alone: bool) -> None:
    """Raise unless the network takes real numbers in place of whole ones, and changes with them."""
    kinds = ", ".join(sorted({str(leaf.dtype) for leaf in jax.tree.leaves(x)}))
    advice = (
        " Name the array where token ids look up their rows with at=, such as at='embedding', or"
        " give at=(embed, rest) with embed(params, x) and rest(params, e, x)."
    )
    if not alone:
        raise ValueError(f"x must hold real numbers to be differentiated by, got {kinds}.{advice}")
    real = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, float), x)

    def change(x: Inputs, direction: Inputs) -> Array:
        return jax.jvp(lambda x: apply(params, x), (x,), (direction,))[1]

    try:
        program = jax.make_jaxpr(change)(real, real).jaxpr
    except Exception as error:  # whatever a network of the user's may raise
        raise ValueError(
            f"x must be real numbers to be differentiated by, got {kinds}, and the network does not"
            f" take real ones in their place ({type(error).__name__}).{advice}"
        ) from error
    reached = {program.invars[1]}
    for equation in program.eqns:
        if any(not isinstance(atom, Literal) and atom in reached for atom in equation.invars):
            reached.update(equation.outvars)
    if not any(not isinstance(atom, Literal) and atom in reached for atom in program.outvars):
        raise ValueError(
            f"x must be real numbers to be differentiated by, got {kinds}, which the network rounds"
            f" or compares: every derivative would be 0.{advice}"
        )


def _at_array(apply: Apply, params: Params, x: Inputs, at: str | tuple[Any, ...]) -> Split:
    """By the rows that are looked up in an array of the parameters."""
    leaf = _looked_up(apply, params, x, at)

    def run(params: Params, x: Inputs, rows: list[Array] | None) -> tuple[Array, list[Array]]:
        leaves = [*jax.tree.leaves(params), *jax.tree.leaves(x)]
        walk = _Walk(rows)
        found = walk.run(_program(apply, params, x), leaves, {leaf})
        return found[0], walk.found

    def rest(params: Params, e: Array, x: Inputs) -> Array:
        shapes = [rows.shape for rows in jax.eval_shape(lambda p, x: run(p, x, None)[1], params, x)]
        flat, rows = e.reshape(e.shape[0], -1), []
        for shape in shapes:
            size = _size(shape[1:])
            rows.append(flat[:, :size].reshape(shape))
            flat = flat[:, size:]
        return run(params, x, rows)[0]

    return Split(lambda params, x: _flat(run(params, x, None)[1]), rest)


def _looked_up(apply: Apply, params: Params, x: Inputs, at: str | tuple[Any, ...]) -> int:
    """Which leaf of the parameters is meant: the one in which rows are looked up, (n, ...)."""
    names = [tuple(map(_plain, path)) for path, _ in jax.tree.leaves_with_path(params)]
    meant = [i for i, name in enumerate(names) if _is_meant(name, at)]
    shown = lambda chosen: ", ".join(".".join(map(str, names[i])) for i in chosen)  # noqa: E731
    if not meant:
        raise ValueError(
            f"at must name an array of params, got {at!r}; there are {shown(range(len(names)))}."
        )
    shapes = [{i: _rows(apply, params, x, i, size) for i in meant} for size in (2, 3)]
    used = [i for i in meant if shapes[0][i]]
    if len(used) != 1:
        raise ValueError(
            f"at must name one array in which the network looks up rows, got {at!r}, where it does"
            f" so in {shown(used) or 'none'}. Give at=(embed, rest) with embed(params, x) and"
            " rest(params, e, x)."
        )
    pairs = zip(shapes[0][used[0]], shapes[1][used[0]], strict=True)
    if any(two[:1] != (2,) or three[:1] != (3,) for two, three in pairs):
        raise ValueError(
            f"at must name an array in which every input looks up rows of its own, got {at!r}: its"
            " rows are the same for all inputs (positions, say)."
        )
    return used[0]


def look_ups(apply: Apply, params: Params, x: Inputs) -> list[tuple[int | str, ...]]:
    """The paths of all arrays in params where every input looks up rows of its own.

    Args:
        apply: The network.
        params: Its parameters.
        x: Inputs.

    Example: positions look up the same rows for all inputs.
        >>> network = lambda w, x: (w["tokens"][x] + w["places"][jnp.arange(2)][None]).sum(axis=1)
        >>> params = {"tokens": jnp.eye(3), "places": jnp.eye(3)}
        >>> look_ups(network, params, jnp.array([[0, 2]]))
        [('tokens',)]
    """
    names = [tuple(map(_plain, path)) for path, _ in jax.tree.leaves_with_path(params)]
    found = []
    program = _program(apply, params, x).jaxpr
    for leaf in sorted(_gathered(program, {i: i for i in range(len(names))})):
        try:
            _looked_up(apply, params, x, names[leaf])
        except ValueError:
            continue
        found.append(names[leaf])
    return found


def _gathered(jaxpr: Jaxpr, arguments: dict[int, int]) -> set[int]:
    """The leaves in which rows are looked up; `arguments` says which inputs are leaves."""
    leaves = {jaxpr.invars[place]: leaf for place, leaf in arguments.items()}
    found: set[int] = set()
    for equation in jaxpr.eqns:
        name, atoms = equation.primitive.name, equation.invars
        mine = {
            i: leaves[a] for i, a in enumerate(atoms) if not isinstance(a, Literal) and a in leaves
        }
        if mine and name in _CALLS:
            found |= _gathered(equation.params["jaxpr"].jaxpr, mine)
        elif mine and name in _VIEWS:
            leaves.update(dict.fromkeys(equation.outvars, mine[0]))
        elif name == "gather" and 0 in mine:
            found.add(mine[0])
    return found


def _is_meant(name: tuple[Any, ...], at: str | tuple[Any, ...]) -> bool:
    if isinstance(at, str):
        return at in name or at == ".".join(map(str, name))
    return name[: len(at)] == tuple(at)


def _plain(entry: Any) -> Any:
    """The index or the name in one step of a path."""
    found = (getattr(entry, name) for name in ("idx", "key", "name") if hasattr(entry, name))
    return next(found, str(entry))


def _rows(apply: Apply, params: Params, x: Inputs, leaf: int, size: int) -> list[tuple[int, ...]]:
    """The shapes of what `size` inputs look up in a leaf of the parameters."""
    resized = jax.tree.map(
        lambda array: jax.ShapeDtypeStruct((size, *array.shape[1:]), array.dtype), x
    )
    like = jax.tree.map(lambda array: jax.ShapeDtypeStruct(jnp.shape(array), array.dtype), params)

    def found(params: Params, x: Inputs) -> list[Array]:
        walk = _Walk(None)
        walk.run(_program(apply, like, resized), [*map_leaves(params), *map_leaves(x)], {leaf})
        return walk.found

    map_leaves = jax.tree.leaves
    return [rows.shape for rows in jax.eval_shape(found, like, resized)]


def _program(apply: Apply, params: Params, x: Inputs) -> ClosedJaxpr:
    """The network's program, of the leaves of params and inputs."""
    return jax.make_jaxpr(lambda params, x: apply(params, x))(params, x)


class _Walk:
    """Runs a program; what is looked up in an array is kept, or replaced by given rows."""

    def __init__(self, rows: list[Array] | None) -> None:
        self.given = None if rows is None else iter(rows)
        self.found: list[Array] = []

    def run(self, program: ClosedJaxpr, values: list[Any], tables: set[int]) -> list[Any]:
        """The results, where the arguments with these numbers are the array."""
        jaxpr = program.jaxpr
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, program.consts, strict=True))
        known.update(zip(jaxpr.invars, values, strict=True))
        table = {jaxpr.invars[i] for i in tables}
        for equation in jaxpr.eqns:
            inputs = [a.val if isinstance(a, Literal) else known[a] for a in equation.invars]
            atoms = equation.invars
            mine = {i for i, a in enumerate(atoms) if not isinstance(a, Literal) and a in table}
            results = self._one(jaxpr, equation, inputs, mine)
            known.update(zip(equation.outvars, results, strict=True))
            if mine and equation.primitive.name in _VIEWS:
                table.update(equation.outvars)
        return [a.val if isinstance(a, Literal) else known[a] for a in jaxpr.outvars]

    def _one(
        self, jaxpr: Jaxpr, equation: JaxprEqn, inputs: list[Any], mine: set[int]
    ) -> list[Any]:
        name = equation.primitive.name
        if mine and name in _CALLS:
            return self.run(equation.params["jaxpr"], inputs, mine)
        if mine and any(map(_looks_up, _programs(equation))):
            raise ValueError(
                "at must name an array in which rows are looked up outside of loops and branches,"
                f" got one that is used inside a {name}. Give at=(embed, rest) with"
                " embed(params, x) and rest(params, e, x)."
            )
        (*results,) = _run(jaxpr, equation, inputs)
        if name == "gather" and 0 in mine:
            rows = results[0] if self.given is None else next(self.given)
            self.found.append(rows)
            return [rows.astype(results[0].dtype)]
        return results


def _run(jaxpr: Jaxpr, equation: JaxprEqn, inputs: list[Any]) -> list[Any]:
    """Run one equation of a program, as a program of its own."""
    given = {
        atom: value
        for atom, value in zip(equation.invars, inputs, strict=True)
        if not isinstance(atom, Literal)
    }
    alone = jaxpr.replace(
        constvars=[], invars=list(given), outvars=equation.outvars, eqns=[equation]
    )
    return jaxpr_as_fun(ClosedJaxpr(alone, ()))(*given.values())


def _programs(equation: JaxprEqn) -> Iterator[ClosedJaxpr | Jaxpr]:
    """The programs inside an equation: a loop's body, branches."""
    for value in equation.params.values():
        for part in value if isinstance(value, tuple | list) else [value]:
            if isinstance(part, ClosedJaxpr | Jaxpr):
                yield part


def _looks_up(program: ClosedJaxpr | Jaxpr) -> bool:
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    return any(
        equation.primitive.name in ("gather", "dynamic_slice")
        or any(map(_looks_up, _programs(equation)))
        for equation in jaxpr.eqns
    )


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def num_entries(split: Split, params: Params, x: Inputs) -> tuple[int, Any]:
    """How many numbers d the network is differentiated by at one input, and their type.

    Example:
        >>> x = jnp.ones((5, 2, 3))
        >>> num_entries(split_at(lambda w, x: w * x, 1.0, x, None), 1.0, x)[0]
        6
    """
    found = jax.eval_shape(split.embed, params, x)
    shape = getattr(found, "shape", ())
    if shape[:1] != (num_inputs(x),):
        raise ValueError(
            f"embed must give one array (n, ...) for {num_inputs(x)} inputs, got {shape}."
        )
    return _size(shape[1:]), found.dtype


def check_split(apply: Apply, params: Params, x: Inputs, at: At | None) -> None:
    """Raise unless both parts together are the network, at the first input if it is there.

    Example:
        >>> network, x = lambda w, x: w * x**2, jnp.ones((2, 1))
        >>> check_split(network, 3.0, x, (lambda w, x: x**2, lambda w, e, x: w * e))
        >>> check_split(network, 3.0, x, (lambda w, x: x**2, lambda w, e, x: e))
        Traceback (most recent call last):
        ...
        ValueError: at=(embed, rest) must be the network: rest(params, embed(params, x), x) ...
    """
    if is_traced(params, x):
        split_at(apply, params, x, at)
        return
    one = jax.tree.map(lambda leaf: leaf[:1], x)
    whole, parts = jax.eval_shape(partial(_both, apply, at), params, one)
    if whole.shape == parts.shape and not callable(at[0] if isinstance(at, tuple) else at):
        return  # by construction
    if whole.shape == parts.shape:
        whole, parts = jax.jit(_both, static_argnums=(0, 1))(apply, at, params, one)
        if jnp.allclose(whole, parts, rtol=1e-3, atol=1e-3 * float(jnp.abs(whole).max())):
            return
        got = "other values at x[0]"
    else:
        got = f"outputs of shape {parts.shape} in place of {whole.shape}"
    raise ValueError(
        "at=(embed, rest) must be the network: rest(params, embed(params, x), x) must equal"
        f" apply(params, x), got {got}."
    )


def _both(apply: Apply, at: At | None, params: Params, x: Inputs) -> tuple[Array, Array]:
    """The outputs of the network, and of its two parts."""
    split = split_at(apply, params, x, at)
    return apply(params, x), split.rest(params, split.embed(params, x), x)
