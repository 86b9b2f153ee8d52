"""Gaussian numbers times vectors and matrices, also after the numbers were moved by R.

With independent a, γ ~ N(0, 1), moved by any Δ with ‖Δ‖ ≤ R, and each with the probability of
failure beside it:

    form       |(a + Δ)ᵀb| ≤ t + ‖b‖R                     2 exp(−t²/2‖b‖²)           A.11.4
    image      ‖B(a + Δ)‖ ≤ t + ‖B‖_F + ‖B‖R              exp(−t²/2‖B‖²)             A.11.7
    columns    ‖[B₁a₁ … Bₙaₙ]‖ ≤ C(max‖Bᵢ‖(√n + R + t) + max‖Bᵢ‖_F)    2 exp(−t²)    A.11.5–6
    series     ‖Σ (γₖ + Δₖ)Bₖ‖ ≤ t + R√ν                  (d₁ + d₂) exp(−t²/2ν)      A.11.8

where ν = max(‖Σ BₖBₖᵀ‖, ‖Σ BₖᵀBₖ‖) and the Bₖ are d₁ × d₂. The Hessian of a network is such a
series in the weights of its last layer, Bₖ the Hessians of its neurons over √m. The source states
Rν for the series; its proof gives R√ν. It also takes ‖Σ Uᵢ‖² for the variance of a series
(A.11.10), where ‖Σ UᵢUᵢᵀ‖ is meant.

Source: zhu · dag-bounds · A.11.4–A.11.8, Eqs 2.13–2.14.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.typing import Scalar


class TailBound(Answer, labels={"value": "bound"}):
    """A bound, and the probability with which it may fail.

    Example:
        >>> bool(form_bound(jnp.ones(4), t=8.0).failure < 1e-3)
        True
    """

    value: Float[Array, ""]
    failure: Float[Array, ""]


def form_bound(vector: Float[Array, " d"], t: Scalar, radius: Scalar = 0.0) -> TailBound:
    """Bound |(a + Δ)ᵀb|.

    Args:
        vector: b.
        t: How far from the mean.
        radius: R.

    Example:
        >>> float(form_bound(jnp.array([3.0, 4.0]), t=10.0, radius=2.0).value)
        20.0
    """
    norm = jnp.linalg.norm(vector)
    return TailBound(t + norm * radius, 2 * jnp.exp(-(t**2) / (2 * norm**2)))


def image_bound(matrix: Float[Array, "k d"], t: Scalar, radius: Scalar = 0.0) -> TailBound:
    """Bound ‖B(a + Δ)‖.

    Args:
        matrix: B.
        t: How far from the mean.
        radius: R.

    Example:
        >>> float(image_bound(3 * jnp.eye(4), t=1.0, radius=2.0).value)  # 1 + 6 + 3 · 2
        13.0
    """
    norm, frobenius = jnp.linalg.norm(matrix, 2), jnp.linalg.norm(matrix)
    return TailBound(t + frobenius + norm * radius, jnp.exp(-(t**2) / (2 * norm**2)))


def columns_bound(
    matrices: Float[Array, "n k d"], t: Scalar, radius: Scalar = 0.0, constant: Scalar = 1.0
) -> TailBound:
    """Bound ‖[B₁(a₁ + Δ₁) … Bₙ(aₙ + Δₙ)]‖, up to a constant that is not stated.

    Args:
        matrices: B₁, …, Bₙ.
        t: How far from the mean, in units of max‖Bᵢ‖.
        radius: R.
        constant: C.

    Example:
        >>> round(float(columns_bound(jnp.ones((4, 1, 1)), t=1.0).value), 4)  # (√4 + 1) + 1
        4.0
    """
    norm = jnp.linalg.norm(matrices, 2, axis=(1, 2)).max()
    frobenius = jnp.linalg.norm(matrices, axis=(1, 2)).max()
    root = jnp.sqrt(matrices.shape[0])
    return TailBound(
        constant * (norm * (root + radius + t) + frobenius), 2 * jnp.exp(-jnp.square(t))
    )


def series_variance(matrices: Float[Array, "n k d"]) -> Float[Array, ""]:
    """ν = max(‖Σ BₖBₖᵀ‖, ‖Σ BₖᵀBₖ‖).

    Args:
        matrices: B₁, …, Bₙ.

    Example:
        >>> float(series_variance(jnp.stack([jnp.eye(2), -jnp.eye(2)])))
        2.0
    """
    left = jnp.einsum("nij,nkj->ik", matrices, matrices)
    right = jnp.einsum("nji,njk->ik", matrices, matrices)
    return jnp.maximum(jnp.linalg.norm(left, 2), jnp.linalg.norm(right, 2))


def series_bound(matrices: Float[Array, "n k d"], t: Scalar, radius: Scalar = 0.0) -> TailBound:
    """Bound ‖Σ (γₖ + Δₖ)Bₖ‖.

    Args:
        matrices: B₁, …, Bₙ.
        t: How far from the mean.
        radius: R.

    Example:
        >>> matrices = jnp.stack([jnp.eye(2)] * 4)  # ν = 4
        >>> round(float(series_bound(matrices, t=1.0, radius=3.0).value), 4)
        7.0
    """
    variance = series_variance(matrices)
    failure = sum(matrices.shape[1:]) * jnp.exp(-(t**2) / (2 * variance))
    return TailBound(t + radius * jnp.sqrt(variance), failure)


def worst_move(
    matrices: Float[Array, "n k d"], coefficients: Float[Array, " n"], radius: Scalar
) -> Float[Array, " n"]:
    """The Δ of length R that moves Σ γₖBₖ uphill: Δₖ ∝ uᵀBₖv, u and v its top singular vectors.

    Args:
        matrices: B₁, …, Bₙ.
        coefficients: γ.
        radius: R.

    Example:
        >>> matrices = jnp.stack([jnp.eye(2), jnp.diag(jnp.array([1.0, 0.0]))])
        >>> move = worst_move(matrices, jnp.ones(2), radius=2.0)
        >>> jnp.allclose(move, jnp.sqrt(2.0), atol=1e-5).item()
        True
    """
    u, _, vt = jnp.linalg.svd(jnp.einsum("n,nij->ij", coefficients, matrices))
    direction = jnp.einsum("i,nij,j->n", u[:, 0], matrices, vt[0])
    return radius * direction / jnp.linalg.norm(direction)
