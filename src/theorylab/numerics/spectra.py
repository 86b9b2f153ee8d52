"""Eigenvalues of symmetric operators that are known only by what they do to a vector.

    lanczos           Qᵀ A Q = T, tridiagonal, on the Krylov space of a start vector
    eigenpairs        T's eigenpairs (θ, s) give A's: values θ, vectors Q s, residuals ‖A v - θ v‖
    power_iteration   v ← (A + σ) v / ‖(A + σ) v‖

A vector is a flat array or any pytree of arrays, such as a network's parameters. An eigenvalue of
A lies within the residual of every reported value. Everything can be jitted, mapped and scanned.
An eigenvalue that is repeated exactly is found once, until the Krylov space is exhausted.
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
    apply = _flattened(matvec, unravel)

    def step(v, _):
        return _normalised(apply(v) + shift * v, instead=v), None

    v, _ = jax.lax.scan(step, _normalised(flat, instead=flat), length=num_steps)
    image = apply(v)
    value = v @ image
    return Eigenpairs(value, unravel(v), jnp.linalg.norm(image - value * v))


# By hand, because matfree's Lanczos normalises rounding noise when the Krylov space closes early,
# as it does for low-rank operators (Gauss–Newton, tangent kernels): of 𝟏𝟏ᵀ in 50 dimensions it
# reports the eigenvalues -223 and 319, and of 0 only NaN.
def lanczos(matvec: Operator, vector: Vector, num_steps: int, key: RandomKey) -> Tridiagonal:
    """Project A on the Krylov space of a vector, with full re-orthogonalisation.

    Where the space closes (A q lies in the span already), it is continued from a random vector
    that is orthogonal to it, with a 0 off the diagonal.

    Args:
        matvec: The operator A.
        vector: Where to start; not 0.
        num_steps: How many times A is applied; at most the vector's size is needed, and used.
        key: The randomness of the continuation.
    """
    _check_steps(num_steps)
    flat, unravel = ravel_pytree(vector)
    apply = _flattened(matvec, unravel)
    num_steps = min(num_steps, flat.size)
    epsilon = 10 * jnp.finfo(flat.dtype).eps
    spare = jax.random.normal(key, flat.shape, flat.dtype)  # rolled: a new one wherever it closes

    def step(index, state):
        basis, diagonal, off_diagonal, norm = state
        image = apply(basis[index])
        norm = jnp.maximum(norm, jnp.linalg.norm(image))  # a lower bound of ‖A‖
        remainder = image - (basis @ image) @ basis
        closed = jnp.linalg.norm(remainder) <= epsilon * norm
        following = jnp.where(closed, jnp.roll(spare, index), remainder)
        following = following - (basis @ following) @ basis
        length = jnp.where(closed, 0.0, jnp.linalg.norm(following))
        basis = basis.at[index + 1].set(_normalised(following, following), mode="drop")
        diagonal = diagonal.at[index].set(basis[index] @ image)
        return basis, diagonal, off_diagonal.at[index].set(length), norm

    basis = jnp.zeros((num_steps, flat.size), flat.dtype).at[0].set(_normalised(flat, flat))
    zeros = jnp.zeros(num_steps, flat.dtype)
    state = (basis, zeros, zeros, jnp.zeros((), flat.dtype))
    basis, diagonal, off_diagonal, _ = jax.lax.fori_loop(0, num_steps, step, state)
    return Tridiagonal(basis, diagonal, off_diagonal[:-1])


def eigenpairs(
    matvec: Operator,
    like: Vector | int,
    k: int,
    num_steps: int,
    key: RandomKey,
    which: Which = "largest",
) -> Eigenpairs:
    """Approximate k eigenpairs by Lanczos from a random start.

    Args:
        matvec: The operator A.
        like: A vector that A can act on, for its shape; or the size of a flat one.
        k: How many pairs, at most `num_steps`.
        num_steps: How many times A is applied, and once more per pair for the residuals.
        key: The randomness of the start.
        which: "largest" in falling order, "smallest" in rising order, or by falling "magnitude".
    """
    size = _template(like)[0].size
    if not 1 <= k <= min(num_steps, size):
        raise ValueError(
            f"k must be between 1 and num_steps = {num_steps} and size = {size}, got {k}."
        )
    apply, unravel, values, vectors = _ritz(matvec, like, num_steps, key)
    rank = {"largest": -values, "smallest": values, "magnitude": -jnp.abs(values)}[which]
    chosen = jnp.argsort(rank)[:k]
    values, vectors = values[chosen], vectors[chosen]
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
    values = _ritz(matvec, like, num_steps, key)[2]
    return values[0], values[-1]


def _ritz(matvec: Operator, like: Vector | int, num_steps: int, key: RandomKey):
    """All that Lanczos finds: the flat operator, its way back, values in rising order, vectors."""
    flat, unravel = _template(like)
    apply = _flattened(matvec, unravel)
    start_key, lanczos_key = jax.random.split(key)
    start = jax.random.normal(start_key, flat.shape, flat.dtype)
    basis, diagonal, off_diagonal = lanczos(apply, start, num_steps, lanczos_key)
    small = jnp.diag(diagonal) + jnp.diag(off_diagonal, 1) + jnp.diag(off_diagonal, -1)
    values, vectors = jnp.linalg.eigh(small)
    return apply, unravel, values, vectors.T @ basis


def _template(like: Vector | int) -> tuple[Float[Array, " p"], Callable[[Array], Vector]]:
    return ravel_pytree(jnp.zeros(like) if isinstance(like, int) else like)


def _flattened(matvec: Operator, unravel: Callable[[Array], Vector]) -> Callable[[Array], Array]:
    def apply(flat):
        return ravel_pytree(matvec(unravel(flat)))[0]

    return apply


def _normalised(vector: Float[Array, " p"], instead: Float[Array, " p"]) -> Float[Array, " p"]:
    """Unit vector along `vector`; `instead` where it is 0."""
    length = jnp.linalg.norm(vector)
    return jnp.where(length > 0, vector / jnp.where(length > 0, length, 1.0), instead)


def _check_steps(num_steps: int) -> None:
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
