"""What one may compare a transformer with: at every place a regression on the examples before it.

    ridge            argmin ‖Xw − y‖² + λ‖w‖²
    least squares    its limit λ → 0: exact if there are enough examples, else of least norm
    lasso            argmin ½‖Xw − y‖² + λ t‖w‖₁,  t examples, by accelerated descent
    descent          k steps w ← w − η Xᵀ(Xw − y)/t  from 0

All of them need XᵀX and Xᵀy alone, which are sums over the examples so far. At the first place
there is no example, and the prediction is 0.

Source: Garg, Tsipras, Liang and Valiant (2022).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Scalar

Moment = Float[Array, "d d"]  # XᵀX of the examples so far
Target = Float[Array, " d"]  # Xᵀy
Fit = Callable[[Moment, Target, Float[Array, ""]], Float[Array, " d"]]  # and their number ─► w

_CUTOFF = 1e-6  # of eigenvalues, relative to the largest: smaller ones are rounding


def predict_ridge(
    x: Float[Array, "b n d"], y: Float[Array, "b n"], ridge: Scalar
) -> Float[Array, "b n"]:
    """Ridge regression on the examples before every place; Bayes' rule of linear tasks if λ = σ².

    Args:
        x: Inputs.
        y: Labels.
        ridge: λ, positive.

    Example:
        >>> x, y = jnp.ones((1, 3, 1)), jnp.ones((1, 3))
        >>> predict_ridge(x, y, ridge=1.0)[0].round(3).tolist()  # t/(t + 1) after t examples
        [0.0, 0.5, 0.667]
    """

    def fit(moment: Moment, target: Target, count: Float[Array, ""]) -> Float[Array, " d"]:
        return jnp.linalg.solve(moment + ridge * jnp.eye(len(moment), dtype=x.dtype), target)

    return _predict(fit, x, y)


def predict_least_squares(x: Float[Array, "b n d"], y: Float[Array, "b n"]) -> Float[Array, "b n"]:
    """Least squares on the examples before every place, of least norm where they are too few.

    Args:
        x: Inputs.
        y: Labels.

    Example:
        >>> x, y = jnp.ones((1, 3, 1)), jnp.ones((1, 3))
        >>> predict_least_squares(x, y)[0].round(6).tolist()  # exact after one example
        [0.0, 1.0, 1.0]
    """

    def fit(moment: Moment, target: Target, count: Float[Array, ""]) -> Float[Array, " d"]:
        values, vectors = jnp.linalg.eigh(moment)
        kept = values > _CUTOFF * values[-1]
        inverse = jnp.where(kept, 1 / jnp.where(kept, values, 1.0), 0.0)
        return vectors @ (inverse * (vectors.T @ target))

    return _predict(fit, x, y)


def predict_lasso(
    x: Float[Array, "b n d"], y: Float[Array, "b n"], penalty: Scalar, num_steps: int = 300
) -> Float[Array, "b n"]:
    """The lasso on the examples before every place, by accelerated proximal descent.

    Args:
        x: Inputs.
        y: Labels.
        penalty: λ, per example.
        num_steps: Steps of the descent.

    Example:
        >>> x, y = jnp.ones((1, 2, 1)), jnp.ones((1, 2))
        >>> predict_lasso(x, y, penalty=0.25)[0].round(6).tolist()  # shrunk by the penalty
        [0.0, 0.75]
    """

    def fit(moment: Moment, target: Target, count: Float[Array, ""]) -> Float[Array, " d"]:
        curvature = jnp.maximum(jnp.trace(moment), jnp.finfo(x.dtype).tiny)

        def step(index: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            weights, ahead = state
            moved = ahead - (moment @ ahead - target) / curvature
            shrunk = jnp.maximum(jnp.abs(moved) - penalty * count / curvature, 0.0)
            new = jnp.sign(moved) * shrunk
            return new, new + index / (index + 3) * (new - weights)

        zeros = jnp.zeros_like(target)
        return jax.lax.fori_loop(0, num_steps, step, (zeros, zeros))[0]

    _check_steps(num_steps)
    return _predict(fit, x, y)


def predict_descent(
    x: Float[Array, "b n d"], y: Float[Array, "b n"], learning_rate: Scalar, num_steps: int
) -> Float[Array, "b n"]:
    """K steps of gradient descent on the mean square, on the examples before every place.

    Args:
        x: Inputs.
        y: Labels.
        learning_rate: η.
        num_steps: k.

    Example:
        >>> x, y = jnp.ones((1, 2, 1)), jnp.ones((1, 2))
        >>> predict_descent(x, y, learning_rate=0.5, num_steps=2)[0].tolist()
        [0.0, 0.75]
    """

    def fit(moment: Moment, target: Target, count: Float[Array, ""]) -> Float[Array, " d"]:
        def step(_: Array, weights: Float[Array, " d"]) -> Float[Array, " d"]:
            return weights - learning_rate * (moment @ weights - target) / jnp.maximum(count, 1)

        return jax.lax.fori_loop(0, num_steps, step, jnp.zeros_like(target))

    _check_steps(num_steps)
    return _predict(fit, x, y)


def bayes_errors(x: Float[Array, "b n d"], noise: Scalar) -> Float[Array, "b n"]:
    """E[(⟨w, x_t⟩ − ŷ_t)² | x] of Bayes' rule for w ~ N(0, I): xᵀ(I + XᵀX/σ²)⁻¹x.

    Args:
        x: Inputs.
        noise: σ, positive.

    Example:
        >>> [round(error, 3) for error in bayes_errors(jnp.ones((1, 3, 1)), noise=1.0)[0].tolist()]
        [1.0, 0.5, 0.333]
    """

    def error(moment: Moment, point: Float[Array, " d"]) -> Float[Array, ""]:
        precision = jnp.eye(len(point), dtype=x.dtype) + moment / noise**2
        return point @ jnp.linalg.solve(precision, point)

    return jax.vmap(jax.vmap(error))(_sums_before(x[..., :, None] * x[..., None, :]), x)


def _predict(fit: Fit, x: Float[Array, "b n d"], y: Float[Array, "b n"]) -> Float[Array, "b n"]:
    """⟨w_t, x_t⟩ with w_t from the examples before t."""
    if x.shape[:2] != y.shape:
        raise ValueError(f"x (b, n, d) and y (b, n) must agree, got {x.shape} and {y.shape}.")
    moments = _sums_before(x[..., :, None] * x[..., None, :])
    targets = _sums_before(x * y[..., None])
    counts = jnp.broadcast_to(jnp.arange(x.shape[1], dtype=x.dtype)[None], y.shape)
    weights = jax.vmap(jax.vmap(fit))(moments, targets, counts)
    return jnp.sum(weights * x, axis=-1)


def _sums_before(terms: Float[Array, "b n *s"]) -> Float[Array, "b n *s"]:
    """Σ_{i<t} of the terms, for every place t."""
    sums = jnp.cumsum(terms, axis=1)
    return jnp.concatenate([jnp.zeros_like(sums[:, :1]), sums[:, :-1]], axis=1)


def _check_steps(num_steps: int) -> None:
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
