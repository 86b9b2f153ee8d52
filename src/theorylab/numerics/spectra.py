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
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from theorylab.typing import RandomKey, Scalar

Vector = Any  # a flat array, or a pytree of arrays
Operator = Callable[[Vector], Vector]  # linear and symmetric
Which = Literal["largest", "smallest", "magnitude"]


class Tridiagonal(NamedTuple):
    """Lanczos' Q and T: orthonormal rows, and the two diagonals of the projected operator."""

    basis: Float[Array, "steps p"]
    diagonal: Float[Array, " steps"]
    off_diagonal: Float[Array, " steps-1"]


class Eigenpairs(NamedTuple):
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
    """
    _check_steps(num_steps)
    flat, unravel = ravel_pytree(vector)
    apply = flattened(matvec, unravel)

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
        vector: Where to start; not 0.
        num_steps: How many times A is applied; at most the vector's size is needed, and used.
        key: The randomness of the continuation.
        outside: Orthonormal flat vectors; A is restricted to what is orthogonal to them.
    """
    _check_steps(num_steps)
    flat, unravel = ravel_pytree(vector)
    apply = flattened(matvec, unravel)
    outside = jnp.zeros((0, flat.size), flat.dtype) if outside is None else outside
    first = len(outside)
    num_steps = min(num_steps, flat.size - first)
    # What rounding leaves of a vector of norm ‖A‖ that lies in the span grows like √p.
    epsilon = 4 * jnp.finfo(flat.dtype).eps * flat.size**0.5
    # Rolled, it is a new one wherever the space closes. (Uniform numbers compile faster.)
    spare = jax.random.uniform(key, flat.shape, flat.dtype, -1.0, 1.0)

    def step(index, state):
        basis, diagonal, off_diagonal, norm = state
        image = apply(basis[first + index])
        norm = jnp.maximum(norm, jnp.linalg.norm(image))  # a lower bound of ‖A‖
        remainder = _orthogonal(image, basis)
        closed = jnp.linalg.norm(remainder) <= epsilon * norm
        following = jax.lax.cond(
            closed, lambda: _orthogonal(jnp.roll(spare, index), basis), lambda: remainder
        )
        following = _orthogonal(following, basis)
        length = jnp.where(closed, 0.0, jnp.linalg.norm(following))
        following = _normalised(following, following)
        basis = basis.at[first + index + 1].set(following, mode="drop")
        diagonal = diagonal.at[index].set(basis[first + index] @ image)
        return basis, diagonal, off_diagonal.at[index].set(length), norm

    start = _orthogonal(_orthogonal(flat, outside), outside)
    empty = jnp.zeros((num_steps, flat.size), flat.dtype)
    basis = jnp.concatenate([outside, empty.at[0].set(_normalised(start, start))])
    zeros = jnp.zeros(num_steps, flat.dtype)
    state = (basis, zeros, zeros, jnp.zeros((), flat.dtype))
    basis, diagonal, off_diagonal, _ = jax.lax.fori_loop(0, num_steps, step, state)
    return Tridiagonal(basis[first:], diagonal, off_diagonal[:-1])


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
    """
    flat, unravel = template(like)
    if not 1 <= k <= min(num_steps, flat.size):
        raise ValueError(
            f"k must be between 1 and num_steps = {num_steps} and size = {flat.size}, got {k}."
        )
    apply = flattened(matvec, unravel)
    values, vectors = foremost(k, which, *ritz(apply, flat, num_steps, key))
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
    """Smallest and largest eigenvalue, with their signs, from one Lanczos run."""
    flat, unravel = template(like)
    values, _ = ritz(flattened(matvec, unravel), flat, num_steps, key)
    return values[0], values[-1]


def ritz(
    apply: Callable[[Array], Array],
    like: Float[Array, " p"],
    num_steps: int,
    key: RandomKey,
    outside: Float[Array, "k p"] | None = None,
) -> tuple[Float[Array, " steps"], Float[Array, "steps p"]]:
    """All that Lanczos finds from a random start: values in rising order and unit vectors."""
    start_key, lanczos_key = jax.random.split(key)
    start = jax.random.normal(start_key, like.shape, like.dtype)
    basis, diagonal, off_diagonal = lanczos(apply, start, num_steps, lanczos_key, outside)
    values, vectors = jnp.linalg.eigh(tridiagonal_matrix(diagonal, off_diagonal))
    return values, vectors.T @ basis


def rank(values: Float[Array, " n"], which: Which) -> Float[Array, " n"]:
    """By what eigenvalues are ordered: the greatest comes first."""
    return {"largest": values, "smallest": -values, "magnitude": jnp.abs(values)}[which]


def foremost(
    k: int, which: Which, values: Float[Array, " n"], vectors: Float[Array, "n p"]
) -> tuple[Float[Array, " k"], Float[Array, "k p"]]:
    """The first k pairs, in their order."""
    chosen = jnp.argsort(-rank(values, which))[:k]
    return values[chosen], vectors[chosen]


def tridiagonal_matrix(
    diagonal: Float[Array, " n"], off_diagonal: Float[Array, " n-1"]
) -> Float[Array, "n n"]:
    """The symmetric matrix with these diagonals."""
    return jnp.diag(diagonal) + jnp.diag(off_diagonal, 1) + jnp.diag(off_diagonal, -1)


def template(like: Vector | int) -> tuple[Float[Array, " p"], Callable[[Array], Vector]]:
    """A flat vector of the shape, and the way back."""
    return ravel_pytree(jnp.zeros(like) if isinstance(like, int) else like)


def flattened(matvec: Operator, unravel: Callable[[Array], Vector]) -> Callable[[Array], Array]:
    """The same operator on flat vectors."""

    def apply(flat):
        return ravel_pytree(matvec(unravel(flat)))[0]

    return apply


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
