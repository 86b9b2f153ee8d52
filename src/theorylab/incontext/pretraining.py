"""Factored linear attention, pre-trained on prompts, or brought to its optimum by BFGS.

    minimise over K, Q (r × d)   ½ mean (ŷ − ⟨w, x_q⟩)²,   ŷ = (1/N) yᵀX KᵀQ x_q

`pretrain` sees fresh prompts in every step, as the source's models do; `minimize_population_loss`
sees the exact population loss L(KᵀQ), and is an oracle for the closed form. `principal_angle` says
how far the directions that keys or queries read are from the top eigenvectors of Λ.

Source: shi · rank-r-optimum · Theorem 5.4.1; shi · icl-linreg · §5.4.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.optimize
from jaxtyping import Array, Float

from theorylab.typing import RandomKey, Scalar

from .linear_attention import Factors, initial_factors, predictions
from .linear_risk import check_rank
from .prompts import check_prompts, covariance_root, rooted_prompts


@dataclass(frozen=True)
class Pretraining:
    """How factored attention is pre-trained: Adam on fresh prompts, its rate falling to 0.

    Args:
        num_steps: Steps.
        batch_size: Prompts in a step.
        num_examples: N, the examples of each.
        learning_rate: The first one; it falls as a cosine.
        noise: The standard deviation of labels.

    Example:
        >>> Pretraining(num_steps=100, batch_size=32, num_examples=8).learning_rate
        0.02
    """

    num_steps: int = 2000
    batch_size: int = 256
    num_examples: int = 20
    learning_rate: float = 0.02
    noise: float = 0.0

    def __post_init__(self) -> None:
        check_prompts(self.batch_size, self.num_examples)
        if self.num_steps < 1:
            raise ValueError(f"num_steps must be at least 1, got {self.num_steps}.")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate}.")


def pretrain(
    key: RandomKey, rank: int, covariance: Float[Array, "d d"], recipe: Pretraining
) -> Factors:
    """Train keys and queries of width r on fresh prompts, from a small random start.

    Args:
        key: The randomness of the start and of the prompts.
        rank: r.
        covariance: Λ.
        recipe: Steps, prompts and the learning rate.

    Example:
        >>> recipe = Pretraining(num_steps=300, batch_size=64, num_examples=10)
        >>> factors = pretrain(jax.random.key(0), 1, jnp.diag(jnp.array([2.0, 0.5])), recipe)
        >>> bool(principal_angle(factors.keys, jnp.diag(jnp.array([2.0, 0.5]))) < 0.2)
        True
    """
    schedule = optax.cosine_decay_schedule(recipe.learning_rate, recipe.num_steps)
    optimizer = optax.adam(schedule)
    start_key, prompt_key = jax.random.split(key)
    root = covariance_root(covariance)
    start = initial_factors(start_key, rank, len(covariance))

    def loss(factors: Factors, key: RandomKey) -> Float[Array, ""]:
        sizes = recipe.batch_size, recipe.num_examples
        prompts = rooted_prompts(key, *sizes, root, recipe.noise)
        return 0.5 * jnp.mean((predictions(factors.matrix, prompts) - prompts.target) ** 2)

    def step(state: tuple, key: RandomKey) -> tuple[tuple, None]:
        factors, memory = state
        updates, memory = optimizer.update(jax.grad(loss)(factors, key), memory, factors)
        return (optax.apply_updates(factors, updates), memory), None

    keys = jax.random.split(prompt_key, recipe.num_steps)
    (factors, _), _ = jax.lax.scan(step, (start, optimizer.init(start)), keys)
    return factors


def minimize_population_loss(
    covariance: Float[np.ndarray, "d d"],
    num_examples: Scalar,
    rank: int,
    start: Float[np.ndarray, "two r d"],
) -> float:
    """The least L(KᵀQ) that BFGS finds from this start; NumPy in double precision.

    Args:
        covariance: Λ.
        num_examples: N.
        rank: r, at least 1.
        start: Keys and queries to begin with.

    Example:
        >>> from theorylab.incontext.linear_risk import optimal_loss
        >>> start = np.full((2, 1, 2), 0.5)
        >>> loss = minimize_population_loss(np.diag([2.0, 0.5]), 10, 1, start)
        >>> bool(abs(loss - optimal_loss(jnp.diag(jnp.array([2.0, 0.5])), 10, 1)) < 1e-9)
        True
    """
    check_rank(rank, len(covariance))
    n, d = float(num_examples), len(covariance)
    gamma = (1 + 1 / n) * covariance + np.trace(covariance) / n * np.eye(d)
    left, square = gamma @ covariance, covariance @ covariance

    def loss(entries: np.ndarray) -> tuple[float, np.ndarray]:
        keys, queries = entries.reshape(2, rank, d)
        matrix = keys.T @ queries
        bent = left @ matrix @ covariance
        slope = bent - square
        value = 0.5 * np.sum(bent * matrix) - np.sum(square * matrix)
        return value, np.stack([queries @ slope.T, keys @ slope]).ravel()

    found = scipy.optimize.minimize(
        loss, start.ravel(), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}
    )
    return float(found.fun + 0.5 * np.trace(covariance))


def principal_angle(
    reading: Float[Array, "r d"], covariance: Float[Array, "d d"]
) -> Float[Array, ""]:
    """The largest angle between what keys (or queries) read and the top r eigenvectors of Λ.

    Example:
        >>> float(principal_angle(jnp.array([[0.0, 3.0]]), jnp.diag(jnp.array([1.0, 2.0]))))
        0.0
    """
    rank = len(reading)
    top = jnp.linalg.eigh(covariance)[1][:, -rank:]
    basis = jnp.linalg.qr(reading.T)[0]
    outside = basis - top @ (top.T @ basis)  # its largest singular value is the sine
    return jnp.arcsin(jnp.clip(jnp.linalg.norm(outside, ord=2), 0.0, 1.0))
