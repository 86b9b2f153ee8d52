"""The descent lemma: how much one step of gradient descent surely gains.

If all eigenvalues of ∇²f lie in [−L, L] (f is L-smooth), then

    f(w + Δ)  ≤ f(w) + ⟨∇f(w), Δ⟩ + (L/2)‖Δ‖²
    f(w − η∇f) ≤ f(w) − (η − η²L/2) ‖∇f(w)‖²

so the loss falls whenever 0 < η < 2/L, and by (η/2)‖∇f‖² at least if η ≤ 1/L. Read the other way
round, η is safe while the sharpness is below 2/η. A deep network has no global L; the lemma then
holds with the largest Hessian norm on the segment from w to w − η∇f.

Source: arora · gd-descent · §2.1, Lemma 2.1.4 (whose proof prints ‖η²∇f‖² for η²‖∇f‖²).
"""

from collections.abc import Callable

import jax
import optax
from jaxtyping import Array, Float

from theorylab.typing import Params, Scalar


def guaranteed_decrease(
    squared_gradient: Scalar, learning_rate: Scalar, smoothness: Scalar
) -> Scalar:
    """Give (η − η²L/2) ‖∇f‖², which is negative, and no guarantee, for η > 2/L.

    Args:
        squared_gradient: ‖∇f(w)‖².
        learning_rate: The step size η.
        smoothness: L, the largest |eigenvalue| of the Hessian on the way.

    Example: at η = 1/L, and at η = 2/L, where the guarantee ends.
        >>> [guaranteed_decrease(4.0, eta, smoothness=2.0) for eta in (0.5, 1.0)]
        [1.0, 0.0]
    """
    eta, smooth = learning_rate, smoothness
    return (eta - eta**2 * smooth / 2) * squared_gradient


def descent_slack(
    objective: Callable[[Params], Float[Array, ""]],
    params: Params,
    learning_rate: Scalar,
    smoothness: Scalar,
) -> Float[Array, ""]:
    """Measure by how much one step does better than guaranteed; at least 0 if f is L-smooth.

    Args:
        objective: f(w), a scalar.
        params: w, any pytree.
        learning_rate: The step size η.
        smoothness: L.

    Example: the lemma is an equality for a parabola with f″ = L.
        >>> float(descent_slack(lambda w: w**2, 3.0, learning_rate=0.25, smoothness=2.0))
        0.0
        >>> float(descent_slack(lambda w: w**2, 3.0, learning_rate=0.25, smoothness=4.0))
        2.25
    """
    value, gradient = jax.value_and_grad(objective)(params)
    after = jax.tree.map(lambda w, g: w - learning_rate * g, params, gradient)
    squared_gradient = optax.tree.norm(gradient, squared=True)
    promised = guaranteed_decrease(squared_gradient, learning_rate, smoothness)
    return value - promised - objective(after)
