"""General quadratic models on one example: a small γ does what a large width does.

    g(w) = wᵀφ + ½γ wᵀΣw,    ∇g = φ + γΣw,    λ = ‖∇g‖²

with features φ, a symmetric matrix Σ and the nonlinearity γ. If Σ³ = sΣ and Σ²φ = sφ for a number
s, then under gradient descent on ½r², r = g − y, with step size η, output and curvature obey a map
of the plane by themselves, with q = φᵀΣφ:

    g' = g − ηλr + ½η²γr²(q + 2γsg)
    λ' = λ − 2ηγr(q + 2γsg) + η²γ²s r²λ

This is the map of `plane` with coupling c = γ²s, outputs and target shifted by q/(2γs); so its
phases are the same: a catapult for 2 < ηλ₀ < 4 if γ is small. Without features and target it reads

    g' = (1 − ηλ + γ²η²s g²) g,    λ' = λ − ηγ²s g²(4 − ηλ),

and the source prints it with γ in place of γ², and without the η before the bracket of λ'. A random
diagonal Σ of ±1 has s = 1. The two-layer linear network vᵀUx/√m is the case γ = 1/√m, φ = 0, and
s = ‖x‖²: there Σ³ = ‖x‖²Σ, while the printed condition Σ² = ‖x‖²I fails for two or more inputs.

Source: zhu · gqm · Eq. 3.3, Prop. B.13.1, Fig. B.4.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from theorylab.training import descend, gradient_descent
from theorylab.training.losses import check_positive
from theorylab.typing import RandomKey, Scalar

from . import plane
from .plane import Numbers, PlaneState, iterated


class QuadraticModel(NamedTuple):
    """A quadratic function of the weights."""

    features: Float[Array, " p"]  # φ
    matrix: Float[Array, "p p"]  # Σ, symmetric
    nonlinearity: Scalar  # γ


class GeneralProblem(NamedTuple):
    """All that the map needs to know of a model, an example and a learning rate."""

    target: Numbers  # y
    learning_rate: Numbers  # η
    nonlinearity: Numbers  # γ
    overlap: Numbers  # q = φᵀΣφ
    square: Numbers  # s, with Σ³ = sΣ


def random_model(key: RandomKey, num_parameters: int, nonlinearity: Scalar) -> QuadraticModel:
    """Draw φ uniformly on the unit sphere, and Σ diagonal with random signs.

    Example:
        >>> model = random_model(jax.random.key(0), num_parameters=3, nonlinearity=0.1)
        >>> round(float(jnp.linalg.norm(model.features)), 3), jnp.abs(model.matrix).tolist()
        (1.0, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    """
    if num_parameters < 1:
        raise ValueError(f"num_parameters must be at least 1, got {num_parameters}.")
    feature_key, sign_key = jax.random.split(key)
    x = jax.random.normal(feature_key, (num_parameters,))
    signs = jax.random.rademacher(sign_key, (num_parameters,), x.dtype)
    return QuadraticModel(x / jnp.linalg.norm(x), jnp.diag(signs), nonlinearity)


def linear_network(x: Float[Array, " d"], width: int) -> QuadraticModel:
    """Write the network vᵀUx/√m as a quadratic model, of the weights (U by rows, then v).

    Args:
        x: The input.
        width: The width m.

    Example:
        >>> linear_network(jnp.array([3.0]), width=1).matrix.tolist()
        [[0.0, 3.0], [3.0, 0.0]]
    """
    if width < 1:
        raise ValueError(f"width must be at least 1, got {width}.")
    inner = width * x.size
    block = jnp.kron(jnp.eye(width), x[:, None])
    matrix = jnp.zeros((inner + width, inner + width))
    matrix = matrix.at[:inner, inner:].set(block).at[inner:, :inner].set(block.T)
    return QuadraticModel(jnp.zeros(inner + width), matrix, width**-0.5)


def output(model: QuadraticModel, weights: Float[Array, " p"]) -> Float[Array, ""]:
    """Compute g = wᵀφ + ½γ wᵀΣw.

    Example:
        >>> model = QuadraticModel(jnp.array([1.0]), jnp.array([[2.0]]), nonlinearity=0.5)
        >>> float(output(model, jnp.array([3.0])))  # w + ½w²
        7.5
    """
    phi, sigma, gamma = model
    return weights @ phi + gamma * (weights @ sigma @ weights) / 2


def state(model: QuadraticModel, weights: Float[Array, " p"]) -> PlaneState:
    """Compute the output g and the curvature λ = ‖φ + γΣw‖².

    Example:
        >>> model = QuadraticModel(jnp.array([1.0]), jnp.array([[2.0]]), nonlinearity=0.5)
        >>> here = state(model, jnp.array([3.0]))
        >>> float(here.output), float(here.curvature)  # w + ½w², and (1 + w)²
        (7.5, 16.0)
    """
    phi, sigma, gamma = model
    slope = phi + gamma * sigma @ weights
    return PlaneState(output(model, weights), slope @ slope)


def problem(model: QuadraticModel, target: Scalar, learning_rate: Scalar) -> GeneralProblem:
    """Read q = φᵀΣφ and s = tr Σ⁴ / tr Σ² off a model with Σ³ = sΣ and Σ²φ = sφ.

    Args:
        model: The model; that it has such an s is checked where its numbers are known.
        target: The target y.
        learning_rate: The step size η.

    Example:
        >>> model = linear_network(jnp.array([3.0, 4.0]), width=2)
        >>> round(float(problem(model, target=0.0, learning_rate=0.1).square), 3)  # s = ‖x‖²
        25.0
    """
    phi, sigma, gamma = model
    squared = sigma @ sigma
    square = jnp.sum(squared**2) / jnp.trace(squared)
    if not isinstance(square, Tracer):
        _check_square(np.asarray(phi), np.asarray(sigma), float(square))
    return GeneralProblem(target, learning_rate, gamma, phi @ sigma @ phi, square)


def _check_square(phi: np.ndarray, sigma: np.ndarray, square: float) -> None:
    """Raise unless Σ³ = sΣ and Σ²φ = sφ, to single precision."""
    cubed = np.abs(sigma @ sigma @ sigma - square * sigma).max() / np.abs(sigma).max()
    along = np.abs(sigma @ sigma @ phi - square * phi).max()
    limit = 1e-4 * square * max(1.0, np.abs(phi).max())
    if not max(cubed, along) <= limit:
        raise ValueError(
            "the model must have a number s with Σ³ = sΣ and Σ²φ = sφ, as if Σ has eigenvalues"
            f" ±√s and 0; got some that miss it by {max(cubed, along):.2g} at s = {square:.2g}."
        )


def step(state: PlaneState, problem: GeneralProblem) -> PlaneState:
    """Take one step of gradient descent.

    Example:
        >>> problem = GeneralProblem(0.0, 1.0, 0.5, overlap=0.0, square=1.0)
        >>> step(PlaneState(output=2.0, curvature=3.0), problem)
        PlaneState(output=-2.0, curvature=2.0)
    """
    (g, lam), (y, eta, gamma, q, s) = state, problem
    r = g - y
    bend = q + 2 * gamma * s * g  # ∇gᵀΣ∇g
    return PlaneState(
        output=g - eta * lam * r + eta**2 * gamma * r**2 * bend / 2,
        curvature=lam - 2 * eta * gamma * r * bend + eta**2 * gamma**2 * s * r**2 * lam,
    )


def printed_step(state: PlaneState, problem: GeneralProblem) -> PlaneState:
    """Take one step as Prop. B.13.1 prints it, for φ = 0 and y = 0; it is not gradient descent.

    Example:
        >>> problem = GeneralProblem(0.0, 1.0, 0.5, overlap=0.0, square=1.0)
        >>> printed_step(PlaneState(output=2.0, curvature=3.0), problem)  # exactly: −2.0 and 2.0
        PlaneState(output=0.0, curvature=1.0)
    """
    (g, lam), (_, eta, gamma, _, s) = state, problem
    return PlaneState(
        output=(1 - eta * lam + gamma * eta**2 * s * g**2) * g,
        curvature=lam - gamma * s * g**2 * (4 - eta * lam),
    )


def trajectory(initial: PlaneState, problem: GeneralProblem, num_steps: int) -> PlaneState:
    """Run the map; every field gets a leading axis of num_steps + 1 times, from `initial` on.

    Example:
        >>> problem = GeneralProblem(0.0, 1.0, 0.5, overlap=0.0, square=1.0)
        >>> trajectory(PlaneState(output=2.0, curvature=3.0), problem, num_steps=2).output.tolist()
        [2.0, -2.0, 0.0]
    """
    check_positive("learning_rate", problem.learning_rate)
    return iterated(lambda state: step(state, problem), initial, num_steps)


def descended(
    model: QuadraticModel,
    weights: Float[Array, " p"],
    target: Scalar,
    learning_rate: Scalar,
    num_steps: int,
) -> PlaneState:
    """Descend on ½(g − y)² in the weights, and give the states (g, λ) at every step.

    Args:
        model: The model.
        weights: The first weights.
        target: The target y.
        learning_rate: The step size η.
        num_steps: The number of steps.

    Example:
        >>> model = linear_network(jnp.array([1.0]), width=1)  # uv
        >>> path = descended(model, jnp.array([1.0, 2.0]), 0.0, learning_rate=0.1, num_steps=5)
        >>> mapped = trajectory(PlaneState(2.0, 5.0), problem(model, 0.0, 0.1), num_steps=5)
        >>> bool(jnp.allclose(path.output, mapped.output))
        True
    """

    def objective(w: Float[Array, " p"]) -> Float[Array, ""]:
        return (output(model, w) - target) ** 2 / 2

    steps, optimizer = np.arange(num_steps + 1), gradient_descent(learning_rate)
    return descend(objective, weights, optimizer, steps, partial(state, model)).records


def as_one_example(
    state: PlaneState, problem: GeneralProblem
) -> tuple[PlaneState, plane.PlaneProblem]:
    """Shift outputs by q/(2γs), so that `plane.step` and `phases` hold; γ must not be 0.

    Example:
        >>> problem = GeneralProblem(0.0, 0.1, 0.5, overlap=1.0, square=1.0)
        >>> start = PlaneState(output=2.0, curvature=3.0)
        >>> one, reduced = as_one_example(start, problem)
        >>> after = as_one_example(step(start, problem), problem)[0]
        >>> bool(jnp.allclose(jnp.array(after), jnp.array(plane.step(one, reduced))))
        True
    """
    (g, lam), (y, eta, gamma, q, s) = state, problem
    shift = q / (2 * gamma * s)
    return PlaneState(g + shift, lam), plane.PlaneProblem(y + shift, eta, gamma**2 * s)
