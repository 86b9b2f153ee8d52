"""The diagonal linear network w = θ⁺ ⊙ θ⁺ − θ⁻ ⊙ θ⁻, and where its training ends.

Gradient flow on θ moves the weights w = G(θ) by themselves, as mirror flow with the potential R_α:

    dθ/dt = −∇(L ∘ G)(θ)    ⇒    dw/dt = −∂G ∂Gᵀ ∇L(w) = −(∇²R_α(w))⁻¹ ∇L(w)

because ∂G ∂Gᵀ = 4 (θ⁺² + θ⁻²), and the flow from θ⁺ = θ⁻ = α conserves θ⁺ ⊙ θ⁻ = α². Away from that
surface ∂G ∂Gᵀ is no function of w. The loss is L(w) = Σ (wᵀxᵢ − yᵢ)².

Source: arora · reparam-mirror · §8.1.3, Examples 8.1.3–8.1.5, Theorem 8.1.6.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.answers import Answer
from theorylab.training import Solver, descend, flow, gradient_descent, gradient_flow, squared
from theorylab.typing import Scalar

from .mirror import Weights, mirror_speed, mirror_velocity

# Explicit steps for the fast part of the motion. Small numbers matter: where θ⁺ is about 1, θ⁻ is
# about α². Implicit steps for the slow part; asked for more, Newton's method meets rounding.
FAST = Solver("tsit5", rtol=1e-11, atol=1e-17)
SLOW = Solver("kvaerno5", rtol=1e-8, atol=1e-9)
SLOW_END = 1000.0


class DiagonalParams(NamedTuple):
    """The parameters θ = (θ⁺, θ⁻) of a diagonal network.

    Example:
        >>> params = DiagonalParams(plus=jnp.array([3.0]), minus=jnp.array([2.0]))
        >>> diagonal_weights(params).tolist()
        [5.0]
    """

    plus: Float[Array, "... d"]
    minus: Float[Array, "... d"]


State = tuple[DiagonalParams, Weights]  # θ on its flow, w on the mirror flow


def initial_params(dimension: int, scale: Scalar, sign: Scalar = 1.0) -> DiagonalParams:
    """θ⁺ = α and θ⁻ = ±α in every coordinate, so that w = 0.

    Args:
        dimension: The number of weights d.
        scale: The scale α.
        sign: The sign of θ⁻; w moves in the same way with either.

    Example:
        >>> params = initial_params(dimension=2, scale=0.5)
        >>> params.plus.tolist(), diagonal_weights(params).tolist()
        ([0.5, 0.5], [0.0, 0.0])
    """
    if dimension < 1:
        raise ValueError(f"dimension must be at least 1, got {dimension}.")
    ones = jnp.ones(dimension)
    return DiagonalParams(scale * ones, sign * scale * ones)


def diagonal_weights(params: DiagonalParams) -> Float[Array, "... d"]:
    """W = θ⁺ ⊙ θ⁺ − θ⁻ ⊙ θ⁻.

    Example:
        >>> diagonal_weights(DiagonalParams(jnp.array([3.0]), jnp.array([2.0]))).tolist()
        [5.0]
    """
    return params.plus**2 - params.minus**2


def diagonal_speed(params: DiagonalParams) -> Float[Array, "... d"]:
    """The diagonal of ∂G ∂Gᵀ = 4 (θ⁺² + θ⁻²): how fast each weight follows its gradient.

    Example: two parameters with the same weight w = 1, but different speeds.
        >>> one = DiagonalParams(jnp.array([1.0]), jnp.array([0.0]))
        >>> other = DiagonalParams(jnp.sqrt(jnp.array([2.0])), jnp.array([1.0]))
        >>> [round(float(diagonal_speed(params)[0]), 6) for params in (one, other)]
        [4.0, 12.0]
    """
    return 4 * (params.plus**2 + params.minus**2)


class DiagonalFlow(Answer, axes=("time", "weight")):
    """The flow of a diagonal network: recorded at t times, and its end.

    Example: two times of a network with three weights, which stays at 0.
        >>> params = DiagonalParams(jnp.ones((2, 3)), jnp.ones((2, 3)))
        >>> flow = DiagonalFlow(params=params, mirrored=jnp.zeros((2, 3)), end=jnp.zeros(3))
        >>> bool(jnp.all(diagonal_weights(flow.params) == flow.mirrored))
        True
    """

    params: DiagonalParams  # θ along its flow, (t, d) each
    mirrored: Float[Array, "t d"]  # w along the mirror flow
    end: Weights  # w where the flow of θ ends


def follow(
    x: Float[Array, "n d"],
    y: Float[Array, "n 1"],
    scale: Scalar,
    sign: Scalar,
    times: Float[np.ndarray, " t"],
) -> DiagonalFlow:
    """Follow gradient flow on θ to its end, and the mirror flow beside it for a while.

    Up to the last recorded time, time is counted in units of 1/(1 + 2α²): then the fastest motion
    is equally fast at every scale. Thereafter, if α < 1, the unit is α^(-3/2) times as long, which
    is about how slowly the last directions come to rest.

    Args:
        x: The equations' left-hand side.
        y: Their right-hand side.
        scale: The scale α at which θ begins.
        sign: The sign of θ⁻ at the beginning.
        times: When both flows are recorded.

    Raises:
        ValueError: Numbers are not in double precision, which the tolerances of both solvers need.

    Example: what is recorded, by shapes alone (the flow takes seconds to compile).
        >>> times = np.array([0.5, 1.0])
        >>> run = lambda x, y: follow(x, y, scale=0.1, sign=1.0, times=times)
        >>> with jax.enable_x64(True):
        ...     flow = jax.eval_shape(run, jnp.ones((1, 3)), jnp.ones((1, 1)))
        >>> flow.params.plus.shape, flow.mirrored.shape, flow.end.shape
        ((2, 3), (2, 3), (3,))
    """
    precision = jnp.result_type(x, y, float)
    if precision != jnp.float64:
        raise ValueError(
            "follow needs float64, or its flow ends in NaN: call it within jax.enable_x64(True),"
            f" got {precision}."
        )

    def loss(weights: Weights) -> Float[Array, ""]:
        return squared("sum")(x @ weights[:, None], y) / (1 + 2 * scale**2)

    def objective(params: DiagonalParams) -> Float[Array, ""]:
        return loss(diagonal_weights(params))

    def slow_objective(params: DiagonalParams) -> Float[Array, ""]:
        return objective(params) / jnp.minimum(scale, 1.0) ** 1.5

    def velocity(state: State) -> State:
        params, weights = state
        descent = jax.tree.map(jnp.negative, jax.grad(objective)(params))
        return descent, mirror_velocity(loss, weights, scale)

    start = (initial_params(x.shape[1], scale, sign), jnp.zeros(x.shape[1]))
    fast = flow(velocity, start, times, lambda state: state, FAST)
    slow = gradient_flow(slow_objective, fast.params[0], [SLOW_END], diagonal_weights, SLOW)
    params, mirrored = fast.records
    return DiagonalFlow(params, mirrored, slow.records[0])


def descended(
    x: Float[Array, "n d"],
    y: Float[Array, "n 1"],
    scale: Scalar,
    learning_rate: Scalar,
    num_steps: int,
) -> Weights:
    """The weights after steps of gradient descent on θ, instead of flow.

    Example: of 2w₁ + w₂ = 1, a small scale finds a sparse solution, a large one spreads it.
        >>> x, y = jnp.array([[2.0, 1.0]]), jnp.array([[1.0]])
        >>> sparse = descended(x, y, scale=0.01, learning_rate=0.02, num_steps=500)
        >>> spread = descended(x, y, scale=2.0, learning_rate=0.001, num_steps=500)
        >>> [[round(float(w), 2) for w in weights] for weights in (sparse, spread)]
        [[0.5, 0.01], [0.4, 0.2]]
    """

    def objective(params: DiagonalParams) -> Float[Array, ""]:
        return squared("sum")(x @ diagonal_weights(params)[:, None], y)

    start = initial_params(x.shape[1], scale)
    optimizer = gradient_descent(learning_rate)
    return descend(objective, start, optimizer, [num_steps], diagonal_weights).records[0]


def top_curvature(x: Float[Array, "n d"], weights: Weights, scale: Scalar) -> Float[Array, ""]:
    """The top eigenvalue of the loss's Hessian in θ where the loss is 0: that of 2X ∂G ∂Gᵀ Xᵀ.

    Example: 2xᵀ ∂G ∂Gᵀ x with ∂G ∂Gᵀ = 4|w| at scale 0.
        >>> float(top_curvature(jnp.array([[1.0, 2.0]]), jnp.array([1.0, 0.5]), scale=0.0))
        24.0
    """
    return jnp.linalg.eigvalsh(2 * (x * mirror_speed(weights, scale)[None, :]) @ x.T)[-1]
