"""Linear models under gradient descent: every error direction shrinks or grows by itself.

    f(t) − y = (I − ηK)ᵗ (f(0) − y)

With the loss ½ Σᵢ (fᵢ − yᵢ)² and the constant kernel K = ∇f ∇fᵀ of n samples, the error along the
eigenvector with eigenvalue λ is multiplied by 1 − ηλ in every step. So all errors vanish if and
only if 0 < η < 2/λ_max(K); beyond, the top direction diverges, whatever the width.

The weights are known at every step, too. With the samples in the rows of X and the loss ½‖Xw − y‖²,

    w_{t+1} = w_t − ηXᵀ(Xw_t − y)
    w_t     = w₀ + Σᵢ vᵢ (1 − (1 − ησᵢ²)ᵗ)/σᵢ · uᵢᵀ(y − Xw₀)

where X = Σᵢ σᵢuᵢvᵢᵀ; from w₀ = 0 this is (I − (I − ηXᵀX)ᵗ) X⁺y. It converges if and only if
0 < η < 2/λ_max(XᵀX), to the solution of least squares that is nearest to w₀. The flow
dw/dt = −Xᵀ(Xw − y) has exp(−σᵢ²t) for (1 − ησᵢ²)ᵗ.

Source: zhu · linear-dynamics · Eqs 3.7–3.8; golikov · lin-gd · 1.2, Eqs 1.1–1.3 (there the samples
are columns, and X⁺ = (XXᵀ)⁻¹X means the usual (Xᵀ)⁺, which is X⁺ here); arora ·
minnorm-regression · §3.1.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from theorylab.training import descend, gradient_descent, squared
from theorylab.training.losses import check_positive
from theorylab.training.trajectory import Steps
from theorylab.typing import Params, Scalar

from .thresholds import threshold


def outputs(
    kernel: Float[Array, "n n"],
    initial: Float[Array, "n k"],
    targets: Float[Array, "n k"],
    learning_rate: Scalar,
    steps: Int[Array, " t"],
) -> Float[Array, "t n k"]:
    """Predict the outputs f(t) = y + (I − ηK)ᵗ (f(0) − y) at chosen steps, in closed form.

    Args:
        kernel: The kernel K, symmetric.
        initial: The outputs f(0).
        targets: The targets y.
        learning_rate: The step size η, for the loss ½ Σᵢ ‖fᵢ − yᵢ‖².
        steps: The numbers of steps t.

    Example:
        >>> half = outputs(jnp.eye(1), jnp.ones((1, 1)), jnp.zeros((1, 1)), 0.5, jnp.arange(3))
        >>> half.ravel().tolist()
        [1.0, 0.5, 0.25]
    """
    check_positive("learning_rate", learning_rate)
    if initial.shape != targets.shape or len(kernel) != len(initial):
        raise ValueError(
            f"initial and targets must have one shape (n, k) for a kernel of {len(kernel)} samples,"
            f" got {initial.shape} and {targets.shape}."
        )
    eigenvalues, directions = jnp.linalg.eigh(kernel)
    factors = (1 - learning_rate * eigenvalues)[None, :] ** steps[:, None]
    errors = directions.T @ (initial - targets)
    return targets[None] + jnp.einsum("ip,tp,pk->tik", directions, factors, errors)


def largest_stable_rate(kernel: Float[Array, "n n"]) -> Float[Array, ""]:
    """Give 2/λ_max(K), up to which gradient descent on ½ Σᵢ ‖fᵢ − yᵢ‖² converges.

    Example:
        >>> float(largest_stable_rate(jnp.diag(jnp.array([1.0, 4.0]))))
        0.5
    """
    return 2 / jnp.linalg.eigvalsh(kernel)[-1]


def descended(
    model: Callable[[Params], Float[Array, "n k"]],
    params: Params,
    targets: Float[Array, "n k"],
    learning_rate: Scalar,
    steps: Steps,
) -> Float[Array, "t n k"]:
    """Descend on ½ Σᵢ ‖fᵢ − yᵢ‖² in the parameters, and give the outputs f at chosen steps.

    Args:
        model: The outputs f on fixed inputs, as a function of the parameters.
        params: The first parameters.
        targets: The targets y.
        learning_rate: The step size η.
        steps: The recorded steps.

    Example:
        >>> double = lambda w: 2 * w.reshape(1, 1)  # the kernel is 4, so an error shrinks by 1 − 4η
        >>> target = jnp.zeros((1, 1))
        >>> descended(double, jnp.array([1.0]), target, 0.125, np.arange(3)).ravel().tolist()
        [2.0, 1.0, 0.5]
    """
    loss = squared("half_sum")
    optimizer = gradient_descent(learning_rate)
    return descend(lambda w: loss(model(w), targets), params, optimizer, steps, model).records


def measured_threshold(
    model: Callable[[Params], Float[Array, "n k"]],
    params: Params,
    targets: Float[Array, "n k"],
    scale: Scalar,
    num_steps: int,
) -> Float[Array, ""]:
    """Bisect in [¼, 4] for the learning rate, in units of `scale`, up to which the loss shrinks.

    After t steps, a learning rate that is ε beyond the critical one has multiplied the top error
    by (1 + 2ε)ᵗ; so 500 steps find the threshold to better than 1 %, if the top error is not tiny.

    Args:
        model: The outputs f on fixed inputs, as a function of the parameters.
        params: The first parameters.
        targets: The targets y.
        scale: The unit of the learning rate, such as the predicted threshold. One that is wrong by
            a factor of 2 is still measured; one that is wrong by 4 gives NaN.
        num_steps: The number of steps after which the loss is compared with the first.

    Example:
        >>> double = lambda w: 2 * w.reshape(1, 1)  # the kernel is 4: η converges up to 2/4
        >>> zero = jnp.zeros((1, 1))
        >>> ratio = measured_threshold(double, jnp.ones(1), zero, scale=0.5, num_steps=50)
        >>> abs(float(ratio) - 1) < 0.01
        True
    """

    def shrinks(ratio: Scalar) -> Bool[Array, ""]:
        ends = descended(model, params, targets, ratio * scale, np.array([0, num_steps]))
        first, last = jnp.sum((ends - targets[None]) ** 2, axis=(1, 2))
        return last < first

    return threshold(shrinks, 0.25, 4.0, num_halvings=12)


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

    Example:
        >>> x, y, times = jnp.ones((1, 1)), jnp.ones(1), jnp.log(jnp.array([1.0, 2.0, 4.0]))
        >>> path = flow_weights(x, y, jnp.zeros(1), times)
        >>> [round(float(w), 3) for w in path[:, 0]]  # 1 − e^(−t)
        [0.0, 0.5, 0.75]
    """
    left, singular, right = jnp.linalg.svd(x, full_matrices=False)
    gains = -jnp.expm1(-times[:, None] * singular[None, :] ** 2)
    return initial[None, :] + _moved(gains, left.T @ (y - x @ initial), singular, right)


def largest_regression_rate(x: Float[Array, "n d"]) -> Float[Array, ""]:
    """Give 2/λ_max(XᵀX), up to which gradient descent on ½‖Xw − y‖² converges.

    Example:
        >>> float(largest_regression_rate(jnp.diag(jnp.array([1.0, 2.0]))))
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
