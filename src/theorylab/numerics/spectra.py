"""Eigenvalues of symmetric operators that are known only by what they do to a vector.

    lanczos           Qᵀ A Q = T, tridiagonal, on the Krylov space of a start vector
    eigenpairs        T's eigenpairs (θ, s) give A's: values θ, vectors Q s, residuals ‖A v - θ v‖
    power_iteration   v ← (A + σ) v / ‖(A + σ) v‖

A vector is a flat array or any pytree of arrays, such as a network's parameters. An eigenvalue of
A lies within the residual of every reported value; whether it is the one of that rank, and whether
a repeated one was found as often as it stands there, is a question for `certified_eigenpairs`.
Everything can be jitted, mapped and scanned.
"""

from collections.abc import Callable
from functools import reduce
from itertools import accumulate, pairwise
from numbers import Integral
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from theorylab.answers import Answer
from theorylab.typing import RandomKey, Scalar

Vector = Any  # a flat array, or a pytree of arrays
Operator = Callable[[Vector], Vector]  # linear and symmetric
Which = Literal["largest", "smallest", "magnitude"]
LARGE = 2**22  # entries of a basis that is kept in blocks


class Tridiagonal(Answer):
    """Lanczos' Q and T: orthonormal rows, and the two diagonals of the projected operator."""

    basis: Float[Array, "steps p"]
    diagonal: Float[Array, " steps"]
    off_diagonal: Float[Array, " steps-1"]


class Ritz(NamedTuple):
    """Eigenvalues θ of T in rising order, its unit eigenvectors s as rows, and Q in blocks of rows.

    The eigenvectors of A are the combinations Qᵀs.
    """

    values: Float[Array, " steps"]
    coordinates: Float[Array, "steps steps"]
    blocks: list[Float[Array, "_ p"]]

    def vectors(self, chosen: Int[Array, " k"]) -> Float[Array, "k p"]:
        """The unit vectors of A with these numbers; the others need no memory."""
        edges = list(accumulate(map(len, self.blocks)))[:-1]
        parts = jnp.split(self.coordinates[chosen], edges, axis=1)
        return reduce(jnp.add, map(jnp.matmul, parts, self.blocks))


class Eigenpairs(
    Answer,
    errors={"values": "residuals"},
    labels={"values": "eigenvalue λ"},
    axes=("rank",),
):
    """Eigenvalues, their unit vectors (a leading axis on every leaf) and residuals ‖Av - θv‖."""

    values: Float[Array, "*k"]
    vectors: Vector
    residuals: Float[Array, "*k"]


def power_iteration(
    matvec: Operator, vector: Vector, num_steps: int, shift: Scalar = 0.0
) -> Eigenpairs:
    """Follow v ← (A + σ) v / ‖(A + σ) v‖; one pair, its value is the Rayleigh quotient vᵀAv.

    Without a shift this goes to the eigenvalue of greatest magnitude, whatever its sign, and to
    nothing at all if that comes as a ± pair; the residual tells. With σ at least ‖A‖ it goes to
    the greatest eigenvalue.

    Args:
        matvec: The operator A.
        vector: Where to start; not 0.
        num_steps: How many times A is applied.
        shift: The number σ.

    Example:
        >>> spectrum = jnp.array([1.0, -3.0, 2.0])
        >>> pair = power_iteration(lambda v: spectrum * v, jnp.ones(3), num_steps=40)
        >>> round(float(pair.values), 4), bool(pair.residuals < 1e-3)
        (-3.0, True)
    """
    _check_steps(num_steps)
    flat, unravel = ravel_pytree(vector)
    apply = flat_operator(matvec, unravel)

    def step(v, _):
        return _normalised(apply(v) + shift * v, instead=v), None

    v, _ = jax.lax.scan(step, _normalised(flat, instead=flat), length=num_steps)
    image = apply(v)
    value = v @ image
    return Eigenpairs(value, unravel(v), jnp.linalg.norm(image - value * v))


# By hand, because matfree's Lanczos normalises rounding noise when the Krylov space closes early,
# as it does for low-rank operators (Gauss–Newton, tangent kernels): of 𝟏𝟏ᵀ in 50 dimensions it
# reports the eigenvalues -223 and 319, and of 0 only NaN.
def lanczos(
    matvec: Operator,
    vector: Vector,
    num_steps: int,
    key: RandomKey,
    outside: Float[Array, "k p"] | None = None,
) -> Tridiagonal:
    """Project A on the Krylov space of a vector, re-orthogonalised twice against all of it.

    Where the space closes (A q lies in the span already), it is continued from a random vector
    that is orthogonal to it, with a 0 off the diagonal.

    Args:
        matvec: The operator A.
        vector: Where to start; from 0, whose space is closed at once, it is continued likewise.
        num_steps: How many times A is applied; at most the vector's size is needed, and used.
        key: The randomness of the continuation.
        outside: Orthonormal flat vectors; A is restricted to what is orthogonal to them.

    Example:
        >>> spectrum = jnp.array([1.0, 2.0, 4.0])
        >>> found = lanczos(lambda v: spectrum * v, jnp.ones(3), num_steps=3, key=jax.random.key(0))
        >>> jnp.allclose(found.basis @ found.basis.T, jnp.eye(3), atol=1e-5).item()
        True
        >>> round(float(found.diagonal.sum()), 4)  # the trace
        7.0
    """
    _check_steps(num_steps)
    flat, unravel = ravel_pytree(vector)
    blocks, diagonal, off_diagonal = _project(
        flat_operator(matvec, unravel), flat, num_steps, key, outside
    )
    return Tridiagonal(jnp.concatenate(blocks), diagonal, off_diagonal)


def _project(
    apply: Callable[[Array], Array],
    start: Float[Array, " p"],
    num_steps: int,
    key: RandomKey,
    outside: Float[Array, "k p"] | None,
) -> tuple[list[Float[Array, "_ p"]], Float[Array, " steps"], Float[Array, " steps-1"]]:
    """Work of `lanczos` on flat vectors: Q in blocks of rows, and T's diagonals."""
    outside = jnp.zeros((0, start.size), start.dtype) if outside is None else outside
    num_steps = min(num_steps, start.size - len(outside))
    edges = _edges(num_steps, start.size)
    # What rounding leaves of a vector of norm ‖A‖ that lies in the span grows like √p.
    epsilon = 4 * jnp.finfo(start.dtype).eps * start.size**0.5
    # Rolled, it is a new one wherever the space closes. (Uniform numbers compile faster.)
    spare = jax.random.uniform(key, start.shape, start.dtype, -1.0, 1.0)

    def orthogonal(vector, blocks, index):
        """What is left of a vector without its part in the span so far."""
        vector = _orthogonal(vector, outside)
        for first, block in zip(edges, blocks, strict=False):
            if len(blocks) == 1:
                vector = _orthogonal(vector, block)
            else:  # later blocks hold only zeros yet
                vector = jax.lax.cond(
                    first <= index, _orthogonal, lambda vector, _: vector, vector, block
                )
        return vector

    def step(index, state):
        blocks, current, diagonal, off_diagonal, norm = state
        image = apply(current)
        norm = jnp.maximum(norm, jnp.linalg.norm(image))  # a lower bound of ‖A‖
        remainder = orthogonal(image, blocks, index)
        closed = jnp.linalg.norm(remainder) <= epsilon * norm
        following = jax.lax.cond(
            closed, lambda: orthogonal(jnp.roll(spare, index), blocks, index), lambda: remainder
        )
        following = orthogonal(following, blocks, index)
        length = jnp.where(closed, 0.0, jnp.linalg.norm(following))
        following = _normalised(following, following)
        diagonal = diagonal.at[index].set(current @ image)
        off_diagonal = off_diagonal.at[index].set(length)
        blocks = _with_row(blocks, edges, index + 1, following)
        return blocks, following, diagonal, off_diagonal, norm

    start = _orthogonal(_orthogonal(start, outside), outside)
    instead = _orthogonal(_orthogonal(spare, outside), outside)
    start = _normalised(start, instead=_normalised(instead, instead))
    empty = [jnp.zeros((b - a, start.size), start.dtype) for a, b in pairwise(edges)]
    zeros = jnp.zeros(num_steps, start.dtype)
    blocks = _with_row(empty, edges, 0, start)
    state = (blocks, start, zeros, zeros, jnp.zeros((), start.dtype))
    blocks, _, diagonal, off_diagonal, _ = jax.lax.fori_loop(0, num_steps, step, state)
    return blocks, diagonal, off_diagonal[:-1]


def eigenpairs(
    matvec: Operator,
    like: Vector | int,
    k: int,
    num_steps: int,
    key: RandomKey,
    which: Which = "largest",
) -> Eigenpairs:
    """Approximate k eigenpairs by Lanczos from a random start.

    An eigenvalue that is repeated exactly is found once, until the Krylov space is exhausted.

    Args:
        matvec: The operator A.
        like: A vector that A can act on, for its shape; or the size of a flat one.
        k: How many pairs, at most `num_steps`.
        num_steps: How many times A is applied, and once more per pair for the residuals.
        key: The randomness of the start.
        which: "largest" in falling order, "smallest" in rising order, or by falling "magnitude".

    Example:
        >>> spectrum = jnp.array([3.0, -5.0, 1.0])
        >>> pairs = eigenpairs(lambda v: spectrum * v, 3, 2, num_steps=3, key=jax.random.key(0))
        >>> pairs.values.round(4).tolist(), bool((pairs.residuals < 1e-4).all())
        ([3.0, 1.0], True)
    """
    flat, unravel = template(like)
    if not 1 <= k <= min(num_steps, flat.size):
        raise ValueError(
            f"k must be between 1 and num_steps = {num_steps} and size = {flat.size}, got {k}."
        )
    apply = flat_operator(matvec, unravel)
    found = ritz(apply, flat, num_steps, key)
    chosen = foremost(k, which, found.values)
    values, vectors = found.values[chosen], found.vectors(chosen)
    images = jax.lax.map(apply, vectors)
    residuals = jnp.linalg.norm(images - values[:, None] * vectors, axis=1)
    return Eigenpairs(values, jax.vmap(unravel)(vectors), residuals)


def top_eigenvalues(
    matvec: Operator,
    like: Vector | int,
    k: int,
    num_steps: int,
    key: RandomKey,
    which: Which = "largest",
) -> Float[Array, " k"]:
    """Values of `eigenpairs`, which explains the arguments.

    Example:
        >>> a = jnp.diag(jnp.array([3.0, -5.0, 1.0]))
        >>> top_eigenvalues(lambda v: a @ v, 3, 2, num_steps=3, key=jax.random.key(0)).round(6)
        Array([3., 1.], dtype=...)
    """
    return eigenpairs(matvec, like, k, num_steps, key, which).values


def extreme_eigenvalues(
    matvec: Operator, like: Vector | int, num_steps: int, key: RandomKey
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Smallest and largest eigenvalue, with their signs, from one Lanczos run.

    Example:
        >>> spectrum = jnp.array([3.0, -5.0, 1.0])
        >>> ends = extreme_eigenvalues(lambda v: spectrum * v, 3, 3, jax.random.key(0))
        >>> [round(float(end), 4) for end in ends]
        [-5.0, 3.0]
    """
    flat, unravel = template(like)
    values = ritz(flat_operator(matvec, unravel), flat, num_steps, key).values
    return values[0], values[-1]


def ritz(
    apply: Callable[[Array], Array],
    like: Float[Array, " p"],
    num_steps: int,
    key: RandomKey,
    outside: Float[Array, "k p"] | None = None,
) -> Ritz:
    """All that Lanczos finds from a random start.

    Example:
        >>> found = ritz(lambda v: 2 * v, jnp.zeros(4), num_steps=4, key=jax.random.key(0))
        >>> found.values.round(4).tolist()
        [2.0, 2.0, 2.0, 2.0]
    """
    start_key, lanczos_key = jax.random.split(key)
    start = jax.random.normal(start_key, like.shape, like.dtype)
    blocks, diagonal, off_diagonal = _project(apply, start, num_steps, lanczos_key, outside)
    values, vectors = jnp.linalg.eigh(tridiagonal_matrix(diagonal, off_diagonal))
    return Ritz(values, vectors.T, blocks)


def rank(values: Float[Array, " n"], which: Which) -> Float[Array, " n"]:
    """By what eigenvalues are ordered: the greatest comes first.

    Example:
        >>> rank(jnp.array([3.0, -5.0]), "magnitude").tolist()
        [3.0, 5.0]
    """
    match which:
        case "largest":
            return values
        case "smallest":
            return -values
        case "magnitude":
            return jnp.abs(values)
        case _:
            raise ValueError(f"which must be largest, smallest or magnitude, got {which!r}.")


def foremost(k: int, which: Which, values: Float[Array, " n"]) -> Int[Array, " k"]:
    """The numbers of the first k, in their order.

    Example:
        >>> foremost(2, "magnitude", jnp.array([3.0, -5.0, 1.0])).tolist()
        [1, 0]
    """
    return jnp.argsort(-rank(values, which))[:k]


def tridiagonal_matrix(
    diagonal: Float[Array, " n"], off_diagonal: Float[Array, " n-1"]
) -> Float[Array, "n n"]:
    """The symmetric matrix with these diagonals.

    Example:
        >>> tridiagonal_matrix(jnp.array([1.0, 2.0]), jnp.array([3.0])).tolist()
        [[1.0, 3.0], [3.0, 2.0]]
    """
    return jnp.diag(diagonal) + jnp.diag(off_diagonal, 1) + jnp.diag(off_diagonal, -1)


def template(like: Vector | int) -> tuple[Float[Array, " p"], Callable[[Array], Vector]]:
    """A flat vector of the shape, and the way back.

    Example:
        >>> flat, unravel = template({"weight": jnp.ones((2, 2)), "bias": jnp.zeros(2)})
        >>> flat.shape, unravel(flat)["weight"].shape
        ((6,), (2, 2))
    """
    if not isinstance(like, Integral):
        return ravel_pytree(like)
    if like < 1:
        raise ValueError(f"the size of a vector must be at least 1, got {like}.")
    return ravel_pytree(jnp.zeros(int(like)))


def flat_operator(matvec: Operator, unravel: Callable[[Array], Vector]) -> Callable[[Array], Array]:
    """The same operator on flat vectors.

    Example:
        >>> flat, unravel = template({"a": jnp.ones(2)})
        >>> flat_operator(lambda tree: {"a": 3 * tree["a"]}, unravel)(flat).tolist()
        [3.0, 3.0]
    """

    def apply(flat):
        return ravel_pytree(matvec(unravel(flat)))[0]

    return apply


def _edges(num_steps: int, size: int) -> list[int]:
    """Where the blocks of a basis begin, and its end.

    A step need not read what is still empty: with eight blocks that is nearly half of the memory
    traffic. A small basis stays whole, since it compiles faster.
    """
    num_blocks = min(8 if num_steps * size >= LARGE else 1, num_steps)
    return [num_steps * i // num_blocks for i in range(num_blocks + 1)]


def _with_row(
    blocks: list[Float[Array, "_ p"]], edges: list[int], index: Any, row: Float[Array, " p"]
) -> list[Float[Array, "_ p"]]:
    """The blocks with one row set; none, if there is no row of that number."""
    return [
        block.at[jnp.where(first <= index, index - first, len(block))].set(row, mode="drop")
        for first, block in zip(edges, blocks, strict=False)
    ]


def _orthogonal(vector: Float[Array, " p"], basis: Float[Array, "k p"]) -> Float[Array, " p"]:
    """What is left of a vector without its part in the span of orthonormal rows."""
    return vector - (basis @ vector) @ basis


def _normalised(vector: Float[Array, " p"], instead: Float[Array, " p"]) -> Float[Array, " p"]:
    """Unit vector along `vector`; `instead` where it is 0."""
    length = jnp.linalg.norm(vector)
    return jnp.where(length > 0, vector / jnp.where(length > 0, length, 1.0), instead)


def _check_steps(num_steps: int) -> None:
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
