"""The solution of least norm, which gradient descent finds without being asked.

With more unknowns than equations Xw = y, every gradient of the squared loss lies in the row space
of X. So a method that moves by combinations of gradients never leaves w₀ + row space, and if it
fits, it ends at

    w₀ + X⁺(y − Xw₀) = argmin ‖w − w₀‖  subject to  Xw = y

where M⁺ = Σᵢ σᵢ⁻¹ vᵢuᵢᵀ is the pseudo-inverse of M = Σᵢ σᵢ uᵢvᵢᵀ. Descent from 0 sums the series
Σⱼ (I − ηXᵀX)ʲ ηXᵀy = X⁺y, although Σⱼ (I − ηXᵀX)ʲ alone diverges on the null space of X.
Methods that rescale coordinates (AdaGrad, Adam) leave the row space; where X sign(Xᵀy) = c y, they
end at sign(Xᵀy)/c.

Source: arora · minnorm-regression · §3.1; arora · pseudoinverse · §3.1.1, Problems 3.1.1–3.1.2;
arora · implicit-l2 · Proposition 8.1.1.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Scalar


def pseudoinverse(
    matrix: Float[Array, "n d"], tolerance: Scalar | None = None
) -> Float[Array, "d n"]:
    """Compute M⁺ = Σᵢ σᵢ⁻¹ vᵢuᵢᵀ, over the singular values that are not 0 to rounding.

    Args:
        matrix: M, of any shape and rank.
        tolerance: The largest σᵢ/σ₁ that counts as 0; by default rounding times the larger side.

    Example:
        >>> pseudoinverse(jnp.array([[2.0, 0.0], [0.0, 0.0]])).tolist()
        [[0.5, 0.0], [0.0, 0.0]]
    """
    left, singular, right = jnp.linalg.svd(matrix, full_matrices=False)
    seen = singular > _cutoff(matrix, tolerance) * singular[0]
    inverse = jnp.where(seen, 1 / jnp.where(seen, singular, 1.0), 0.0)
    return (right.T * inverse[None, :]) @ left.T


def outside_row_space(
    x: Float[Array, "n d"], weights: Float[Array, "t d"], tolerance: Scalar | None = None
) -> Float[Array, "t d"]:
    """Compute (I − X⁺X)w, the part of each w that no equation sees.

    Args:
        x: The equations X.
        weights: Vectors w, one in a row.
        tolerance: The largest σᵢ/σ₁ that counts as 0; by default rounding times the larger side.

    Example: one equation, which sees the first unknown only.
        >>> outside_row_space(jnp.array([[2.0, 0.0]]), jnp.array([[3.0, 4.0]])).tolist()
        [[0.0, 4.0]]
    """
    _, singular, right = jnp.linalg.svd(x, full_matrices=False)
    seen = singular > _cutoff(x, tolerance) * singular[0]
    basis = jnp.where(seen[:, None], right, 0.0)
    rest = weights - (weights @ basis.T) @ basis
    return rest - (rest @ basis.T) @ basis  # once more: the first time leaves rounding of w


def nearest_interpolant(
    x: Float[Array, "n d"], y: Float[Array, " n"], initial: Float[Array, " d"]
) -> Float[Array, " d"]:
    """Solve Xw = y (or least squares) as near to w₀ as possible: w₀ + X⁺(y − Xw₀).

    Example:
        >>> nearest_interpolant(jnp.array([[1.0, 0.0]]), jnp.array([3.0]), jnp.ones(2)).tolist()
        [3.0, 1.0]
    """
    return initial + pseudoinverse(x) @ (y - x @ initial)


def neumann_sum(matrix: Float[Array, "d d"], num_terms: int) -> Float[Array, "d d"]:
    """Compute Σⱼ Aʲ over j = 0 … num_terms − 1, which goes to (I − A)⁻¹ if ‖A‖ < 1.

    Example:
        >>> neumann_sum(jnp.array([[0.5]]), 3).tolist()
        [[1.75]]
    """
    if num_terms < 1:
        raise ValueError(f"num_terms must be at least 1, got {num_terms}.")
    identity = jnp.eye(len(matrix), dtype=matrix.dtype)
    return jax.lax.fori_loop(1, num_terms, lambda _, total: identity + matrix @ total, identity)


def sign_consistent(labels: Float[Array, " n"]) -> Float[Array, "n d"]:
    """Make equations with X sign(Xᵀy) = 4y, of labels y = ±1 whose sum is positive; d = 3 + 5n.

    Every row has its label, twice a 1, and ones in places that are its own: one place if the label
    is +1, five if it is −1. Only the first column generalises; adaptive methods use all the same.

    Source: arora · implicit-l2 · §8.1, after Wilson et al. (2017), arXiv:1705.08292.

    Args:
        labels: The labels y.

    Example:
        >>> y = jnp.array([1.0, 1.0, -1.0])
        >>> x = sign_consistent(y)
        >>> x.shape, (x @ jnp.sign(x.T @ y)).tolist()
        ((3, 18), [4.0, 4.0, -4.0])
    """
    n = len(labels)
    own = jnp.where((labels[:, None] < 0) | (jnp.arange(5) == 0)[None, :], 1.0, 0.0)
    places = jnp.eye(n)[:, :, None] * own[:, None, :]
    shared = jnp.stack([labels, jnp.ones(n), jnp.ones(n)], axis=1)
    return jnp.concatenate([shared, places.reshape(n, 5 * n)], axis=1)


def _cutoff(matrix: Float[Array, "n d"], tolerance: Scalar | None) -> Scalar:
    """The given tolerance, or what the rounding of singular values amounts to."""
    if tolerance is not None:
        return tolerance
    return max(matrix.shape) * float(jnp.finfo(matrix.dtype).eps)
