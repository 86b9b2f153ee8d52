"""Gradient descent on a linear model: the weights, in closed form at every step.

With the samples in the rows of X and the loss ½‖Xw − y‖²,

    w_{t+1} = w_t − ηXᵀ(Xw_t − y)
    w_t     = w₀ + Σᵢ vᵢ (1 − (1 − ησᵢ²)ᵗ)/σᵢ · uᵢᵀ(y − Xw₀)

where X = Σᵢ σᵢuᵢvᵢᵀ; from w₀ = 0 this is (I − (I − ηXᵀX)ᵗ) X⁺y. It converges if and only if
0 < η < 2/λ_max(XᵀX), to the solution of least squares that is nearest to w₀. The flow
dw/dt = −Xᵀ(Xw − y) has exp(−σᵢ²t) for (1 − ησᵢ²)ᵗ.

`linear` tells the same story for the outputs, with a kernel for X.

Source: golikov · lin-gd · 1.2, Eqs 1.1–1.3 (there the samples are columns, and X⁺ = (XXᵀ)⁻¹X means
the usual (Xᵀ)⁺, which is X⁺ here); arora · minnorm-regression · §3.1.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from theorylab.typing import Scalar


def descent_weights(
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    initial: Float[Array, " d"],
    learning_rate: Scalar,
    steps: Int[Array, " t"],
) -> Float[Array, "t d"]:
    """Give the weights of gradient descent on ½‖Xw − y‖² after chosen numbers of steps.

    Args:
        x: The inputs X, one sample in a row; of any rank.
        y: The targets.
        initial: The first weights w₀.
        learning_rate: The step size η.
        steps: The numbers of steps t.

    Example:
        >>> half = descent_weights(jnp.eye(1), jnp.ones(1), jnp.zeros(1), 0.5, jnp.arange(3))
        >>> half.ravel().tolist()
        [0.0, 0.5, 0.75]
    """
    left, singular, right = jnp.linalg.svd(x, full_matrices=False)
    rates, t = (learning_rate * singular**2)[None, :], steps[:, None]
    # 1 − (1 − r)ᵗ, which cancels where the rate is small and the number of steps is not large.
    small = -jnp.expm1(t * jnp.log1p(-jnp.minimum(rates, 0.5)))
    gains = jnp.where(rates < 0.5, small, 1 - (1 - rates) ** t)
    return initial[None, :] + _moved(gains, left.T @ (y - x @ initial), singular, right)


def flow_weights(
    x: Float[Array, "n d"],
    y: Float[Array, " n"],
    initial: Float[Array, " d"],
    times: Float[Array, " t"],
) -> Float[Array, "t d"]:
    """Give the weights of the gradient flow of ½‖Xw − y‖² at chosen times.

    Args:
        x: The inputs X, one sample in a row; of any rank.
        y: The targets.
        initial: The first weights w₀.
        times: The times t.
    """
    left, singular, right = jnp.linalg.svd(x, full_matrices=False)
    gains = -jnp.expm1(-times[:, None] * singular[None, :] ** 2)
    return initial[None, :] + _moved(gains, left.T @ (y - x @ initial), singular, right)


def critical_learning_rate(x: Float[Array, "n d"]) -> Float[Array, ""]:
    """Give 2/λ_max(XᵀX), up to which gradient descent on ½‖Xw − y‖² converges.

    Example:
        >>> float(critical_learning_rate(jnp.diag(jnp.array([1.0, 2.0]))))
        0.5
    """
    return 2 / jnp.linalg.norm(x, 2) ** 2


def _moved(
    gains: Float[Array, "t r"],
    errors: Float[Array, " r"],
    singular: Float[Array, " r"],
    right: Float[Array, "r d"],
) -> Float[Array, "t d"]:
    """Σᵢ vᵢ gainᵢ/σᵢ · errorᵢ; a direction that X does not see has no gain."""
    inverse = jnp.where(singular > 0, 1 / jnp.where(singular > 0, singular, 1.0), 0.0)
    return (gains * (inverse * errors)[None, :]) @ right
