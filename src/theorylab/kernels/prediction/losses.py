"""Training a kernel machine on any loss: the flow of its coefficients, integrated numerically.

    dα/dt = −∂L/∂f(X),     f_t(x) = f₀(x) + K(x, X) α_t        df/dt = −K ∂L/∂f

and with momentum the damped motion d²α/dt² = −γ dα/dt − ∂L/∂f. The heavy ball with learning rate η
and momentum β follows it with t = √η · steps and friction γ = (1 − β)/√η. For the squared loss with
"half_sum", α_t is that of `coefficients` in closed form.

Source: golikov · kernel-flow · 2.4–2.11, 2.89.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.training import Loss, Solver, flow

from .methods import Times
from .modes import check_kernel, check_rows


def loss_coefficients(
    loss: Loss,
    kernel: Float[Array, "n n"],
    targets: Float[Array, "n k"],
    times: Times,
    start: Float[Array, "n k"] | None = None,
    friction: float | None = None,
    solver: Solver | None = None,
) -> Float[Array, "t n k"]:
    """α_t of gradient flow on a loss in function space: f_t(x) = f₀(x) + K(x, X) α_t.

    Args:
        loss: `cross_entropy("mean")`, `logistic("sum")`, ...: its normalisation sets the time.
        kernel: K(X, X).
        targets: y, as the loss wants them.
        times: Increasing times, finite.
        start: f₀(X); 0 if not given.
        friction: γ of training with momentum; without it, plain gradient flow.
        solver: Method and tolerances of the integration.

    Example:
        >>> from theorylab.training import logistic
        >>> kernel, y = jnp.eye(1), jnp.array([[1.0]])
        >>> alpha = loss_coefficients(logistic("sum"), kernel, y, [1.0])
        >>> bool(jnp.isclose(jnp.exp(alpha[0, 0, 0]) + alpha[0, 0, 0], 2.0, rtol=1e-3))
        True
    """
    if loss.kind == "zero_one":
        raise ValueError("loss must have a gradient, got zero_one.")
    if friction is not None and not friction >= 0:
        raise ValueError(f"friction must be at least 0, got {friction}.")
    check_kernel(kernel)
    check_rows("targets", targets, kernel.shape[0])
    begin = jnp.zeros_like(targets) if start is None else start
    check_rows("start", begin, kernel.shape[0])
    if begin.shape != targets.shape:
        raise ValueError(
            f"start must have the shape {targets.shape} of targets, got {begin.shape}."
        )
    chosen = tuple(np.asarray(times, float).tolist())
    return _integrated(loss, chosen, friction, solver, kernel, targets, begin)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _integrated(
    loss: Loss,
    times: tuple[float, ...],
    friction: float | None,
    solver: Solver | None,
    kernel: Float[Array, "n n"],
    targets: Float[Array, "n k"],
    start: Float[Array, "n k"],
) -> Float[Array, "t n k"]:
    def force(alpha: Float[Array, "n k"]) -> Float[Array, "n k"]:
        return -jax.grad(loss)(start + kernel @ alpha, targets)

    if friction is None:
        return flow(force, jnp.zeros_like(start), times, lambda alpha: alpha, solver).records

    def motion(state: tuple[Array, Array]) -> tuple[Array, Array]:
        alpha, velocity = state
        return velocity, force(alpha) - friction * velocity

    rest = (jnp.zeros_like(start), jnp.zeros_like(start))
    return flow(motion, rest, times, lambda state: state[0], solver).records
