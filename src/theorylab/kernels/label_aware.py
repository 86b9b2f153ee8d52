"""Label-aware kernels: a kernel that knows which pairs of inputs have had equal labels.

    K^HR(x, x′) = (1 − λ) K(x, x′) + λ Z(x, x′),
    Z(x, x′) = yᵀ M y,   M_ij = ψ(K(x, x′), K(xᵢ, xⱼ)) / Σ_kl ψ(K(x, x′), K(x_k, x_l)).

Z is the mean of yᵢyⱼ over pairs of training inputs that are as similar as x and x′: a guess of the
product of their labels. ψ(s, t) = exp(−(s − t)²/2h²) has the bandwidth h. A kernel that does not
look at labels cannot serve two labelings of one dataset; how well it serves one is its alignment,

    A(K, y) = yᵀKy / (‖K‖_F ‖y‖²).

Source: golikov · label-aware · 2.8.2.
"""

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float

from theorylab.typing import Scalar


def label_kernel(
    similarity: Float[Array, "a b"],
    kernel: Float[Array, "n n"],
    labels: Float[Array, " n"],
    bandwidth: Scalar,
) -> Float[Array, "a b"]:
    """Z(x, x′) = Σ_ij ψ(K(x, x′), K(xᵢ, xⱼ)) yᵢyⱼ / Σ_ij ψ(K(x, x′), K(xᵢ, xⱼ)).

    It costs a b n² exponentials, a row of `similarity` at a time. However far K(x, x′) is from all
    K(xᵢ, xⱼ), the nearest of them count.

    Args:
        similarity: K(x, x′).
        kernel: K(X, X) on the training inputs.
        labels: y, of the training inputs.
        bandwidth: The h of ψ, in units of K.

    Example:
        >>> K = jnp.array([[1.0, 0.2], [0.2, 1.0]])
        >>> label_kernel(jnp.array([[1.0, 0.2]]), K, jnp.array([1.0, -1.0]), 0.1).round(3).tolist()
        [[1.0, -1.0]]
    """
    if kernel.shape != (len(labels), len(labels)):
        raise ValueError(
            f"kernel must have a row and a column for each of {len(labels)} labels, "
            f"got shape {kernel.shape}."
        )
    if not isinstance(bandwidth, Tracer) and not bandwidth > 0:
        raise ValueError(f"bandwidth must be positive, got {bandwidth}.")
    known, products = kernel.ravel(), jnp.outer(labels, labels).ravel()

    def row(values: Float[Array, " b"]) -> Float[Array, " b"]:
        gaps = (values[:, None] - known[None, :]) / bandwidth
        return jax.nn.softmax(-(gaps**2) / 2, axis=1) @ products

    return jax.lax.map(row, similarity)


def hybrid_kernel(
    kernel: Float[Array, "a b"], label_kernel: Float[Array, "a b"], weight: Scalar
) -> Float[Array, "a b"]:
    """K^HR = (1 − λ) K + λ Z.

    Args:
        kernel: K.
        label_kernel: Z, of `label_kernel`, in the scale of K.
        weight: λ in [0, 1].

    Example: halfway between a kernel and a guess of the labels' product.
        >>> hybrid_kernel(jnp.eye(2), jnp.array([[1.0, -1.0], [-1.0, 1.0]]), weight=0.5).tolist()
        [[1.0, -0.5], [-0.5, 1.0]]
    """
    if not isinstance(weight, Tracer) and not 0 <= weight <= 1:
        raise ValueError(f"weight must be in [0, 1], got {weight}.")
    return (1 - weight) * kernel + weight * label_kernel


def target_alignment(
    kernel: Float[Array, "n n"], labels: Float[Array, " n"] | Float[Array, "n k"]
) -> Float[Array, ""]:
    """A(K, y) = ⟨K, yyᵀ⟩ / (‖K‖_F ‖yyᵀ‖_F), the cosine of the angle between K and yyᵀ.

    Args:
        kernel: K.
        labels: y, one number for each sample, or k.

    Example:
        >>> labels = jnp.array([1.0, -1.0])
        >>> float(target_alignment(jnp.outer(labels, labels), labels))
        1.0
    """
    if labels.ndim not in (1, 2) or kernel.shape != (len(labels), len(labels)):
        raise ValueError(
            "labels must have shape (n,) or (n, k) beside a kernel (n, n),"
            f" got {labels.shape} and {kernel.shape}."
        )
    y = labels.reshape(len(labels), -1)
    return jnp.sum(y * (kernel @ y)) / (jnp.linalg.norm(kernel) * jnp.linalg.norm(y.T @ y))
