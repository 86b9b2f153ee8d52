"""The Polyak–Łojasiewicz condition: a loss that is small wherever its gradient is.

    ‖∇𝓛(w)‖² ≥ 2μ 𝓛(w)

For 𝓛 = ½ Σ (f − y)² with the tangent kernel K and the residuals r = f − y, ‖∇𝓛‖² = rᵀKr, so that
the ratio ‖∇𝓛‖²/2𝓛 lies between the extreme eigenvalues of K, and descent with η ≤ 1/λ_max obeys
𝓛(t) ≤ (1 − ημ)ᵗ 𝓛(0) as long as the ratio is at least μ on the way (to first order in the change
of K).

SGD takes (n/b) Σ_{i∈B} rᵢ∇fᵢ for the gradient, with batches B of b of the n examples. Where all of
them can be fitted, its noise ends with the loss, and in the mean over batches one step gives

    E 𝓛′ = ½ rᵀ(I − 2ηK + η²V)r,    V = (n/b) ((1 − ρ) diag(K²) + ρK²),    ρ = (b − 1)/(n − 1)

so that E 𝓛(t) ≤ (1 − ημ)ᵗ 𝓛(0) again, if ηV ≤ K: for η up to 1/λ_max(K^(−½) V K^(−½)), which is
1/λ_max(K) for b = n.

How far K moves: a curvature of at most H = sup ‖∇²f(x)‖ within the distance R of the start gives

    |√λᵢ(K(w)) − √λᵢ(K(w₀))| ≤ √n H R    for every eigenvalue, the least among them

For one example, x ~ N(0, I), weights N(0, 1) and a positively r-homogeneous φ, r ≥ 1, with
C = E φ(z)², z ~ N(0, 1), a network of L layers on any graph has

    E ‖∇f‖² ≥ min(1, min_{1 ≤ j ≤ L} C^(1 + r + … + r^(j−1)))

The source prints this for (E‖∇f‖)², by E‖∇f‖ ≥ √(E‖∇f‖²), which is the wrong way round. For fully
connected ReLU networks E ‖∇f‖² = L 2^(−(L−1)) exactly, at every width.

Source: zhu · pl-star · 2.4, Eq. 2.16, Prop. 2.4.4, A.7.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Real

from theorylab.typing import Scalar


def polyak_ratio(gradient_square: Scalar, loss: Scalar) -> Scalar:
    """μ = ‖∇𝓛‖²/2𝓛.

    Args:
        gradient_square: ‖∇𝓛‖².
        loss: 𝓛 = ½ Σ (f − y)².

    Example:
        >>> polyak_ratio(8.0, 2.0)
        2.0
    """
    return gradient_square / (2 * loss)


def descent_bound(
    first_loss: Real[ArrayLike, "..."],
    learning_rate: Real[ArrayLike, "..."],
    ratio: Real[ArrayLike, "..."],
    steps: Real[ArrayLike, "..."],
) -> Float[np.ndarray, "..."]:
    """(1 − ημ)ᵗ 𝓛(0): what the loss stays below; numbers, or arrays that go together.

    Args:
        first_loss: 𝓛(0).
        learning_rate: η, at most one over the largest eigenvalue of K.
        ratio: μ, the least on the way.
        steps: The steps t.

    Example:
        >>> descent_bound(8.0, learning_rate=0.5, ratio=1.0, steps=np.array([0, 1, 3])).tolist()
        [8.0, 4.0, 1.0]
    """
    decay = 1 - np.asarray(learning_rate) * np.asarray(ratio)
    return np.asarray(first_loss * decay ** np.asarray(steps), float)


def batch_noise(
    kernel: Float[Array, "n n"], batch_size: Real[ArrayLike, ""]
) -> Float[Array, "n n"]:
    """V, with which E 𝓛′ = ½ rᵀ(I − 2ηK + η²V)r after a step on a batch without replacement.

    Args:
        kernel: K of all n examples, at least 2.
        batch_size: b, from 1 to n; may be traced.

    Example:
        >>> batch_noise(jnp.diag(jnp.array([1.0, 2.0])), 1).tolist()  # two examples by themselves
        [[2.0, 0.0], [0.0, 8.0]]
    """
    n = len(kernel)
    if n < 2:
        raise ValueError(f"kernel must be of at least 2 examples, got {n}.")
    size, square = jnp.asarray(batch_size, kernel.dtype), kernel @ kernel
    both = (size - 1) / (n - 1)  # ρ: of one more, if one is chosen
    return n / size * ((1 - both) * jnp.diag(jnp.diag(square)) + both * square)


def stochastic_rate(
    kernel: Float[Array, "n n"], batch_size: Real[ArrayLike, ""]
) -> Float[Array, ""]:
    """The largest η with ηV ≤ K, at which SGD obeys E 𝓛′ ≤ (1 − ημ) 𝓛 with μ = λ_min(K).

    Args:
        kernel: K of all examples, positive definite.
        batch_size: b; may be traced.

    Example:
        >>> round(float(stochastic_rate(jnp.diag(jnp.array([1.0, 2.0])), 2)), 6)  # 1/λ_max
        0.5
    """
    lower = jnp.linalg.cholesky(kernel)
    half = jnp.linalg.solve(lower, batch_noise(kernel, batch_size))
    return 1 / jnp.linalg.eigvalsh(jnp.linalg.solve(lower, half.T))[-1]


def drift_bound(
    curvature: Real[ArrayLike, "..."], distance: Real[ArrayLike, "..."], num_samples: int
) -> Float[np.ndarray, "..."]:
    """√n H R: how far the root of any eigenvalue of K can move; numbers or arrays.

    Args:
        curvature: H, the largest ‖∇²f(x)‖ of any example between w₀ and w.
        distance: R = ‖w − w₀‖.
        num_samples: n.

    Example:
        >>> float(drift_bound(0.25, 3.0, num_samples=4))
        1.5
    """
    return np.asarray(np.sqrt(num_samples) * np.asarray(curvature) * np.asarray(distance), float)


def gradient_bound(second_moment: float, depth: int, degree: float = 1.0) -> float:
    """min(1, min_j C^(1 + r + … + r^(j−1))): a lower bound of E ‖∇f‖² on any graph.

    Args:
        second_moment: C = E φ(z)², ½ for ReLU.
        depth: L, the layers with weights.
        degree: r, at least 1: φ(az) = aʳφ(z) for a > 0.

    Example:
        >>> gradient_bound(0.5, depth=3)
        0.125
    """
    if not second_moment > 0:
        raise ValueError(f"second_moment must be positive, got {second_moment}.")
    if depth < 1:
        raise ValueError(f"depth must be at least 1, got {depth}.")
    if not degree >= 1:
        raise ValueError(f"degree must be at least 1, as Jensen needs it, got {degree}.")
    powers = np.cumsum(degree ** np.arange(depth))
    return float(min(1.0, (second_moment**powers).min()))


def relu_gradient_square(depth: int) -> float:
    """L 2^(−(L−1)): E ‖∇f‖² of fully connected ReLU networks, x ~ N(0, I), at every width.

    Example:
        >>> relu_gradient_square(3)
        0.75
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1, got {depth}.")
    return depth * 2.0 ** (1 - depth)
