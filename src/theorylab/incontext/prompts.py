"""Prompts: examples of a task that the model has not seen, then a query.

    regression   x ~ N(0, Λ),  y = ⟨w, x⟩ + ε,  w ~ N(0, I) for every prompt, or given
    parity       φ ∈ {±1}ᵈ,  y = φᵢφⱼ,  the pair (i, j) for every prompt

The target of the query is always without noise. Parity is not quite balanced: on its pair φ is
(1, 1) with probability ¼ + γ, (−1, −1) with ¼ − γ, and each other pattern with ¼; elsewhere it is
uniform. So E[yφᵢ] = E[yφⱼ] = 2γ, and E[yφₗ] = 0 for all others. A task is one of the k(k − 1)
frequent pairs below k with probability 1 − p_T, and one of the others with p_T.

Source: shi · icl-linreg · §5.4; shi · icl-parity · §5.5.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from theorylab.typing import RandomKey, Scalar


class Prompts(NamedTuple):
    """So many prompts of n examples, with their queries and what is right there.

    Example:
        >>> prompts = regression_prompts(jax.random.key(0), 3, 5, jnp.eye(2))
        >>> [part.shape for part in prompts]
        [(3, 5, 2), (3, 5), (3, 2), (3,)]
    """

    x: Float[Array, "b n d"]
    y: Float[Array, "b n"]
    query: Float[Array, "b d"]
    target: Float[Array, " b"]


def regression_prompts(
    key: RandomKey,
    num_prompts: int,
    num_examples: int,
    covariance: Float[Array, "d d"],
    noise: Scalar = 0.0,
    weights: Float[Array, " d"] | None = None,
) -> Prompts:
    """Draw prompts of linear regression.

    Args:
        key: The randomness.
        num_prompts: How many prompts.
        num_examples: N in pre-training, M at evaluation: the examples of each.
        covariance: Λ, symmetric and positive semi-definite.
        noise: The standard deviation σ of the examples' labels.
        weights: w, the same in all prompts; drawn from N(0, I) for each if none is given.

    Example:
        >>> prompts = regression_prompts(jax.random.key(0), 3, 5, covariance=jnp.eye(2))
        >>> prompts.x.shape, prompts.target.shape
        ((3, 5, 2), (3,))
    """
    return rooted_prompts(
        key, num_prompts, num_examples, covariance_root(covariance), noise, weights
    )


def covariance_root(covariance: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """A matrix R with RRᵀ = Λ; Λ may be singular.

    Example:
        >>> root = covariance_root(jnp.diag(jnp.array([4.0, 0.0])))
        >>> (root @ root.T).tolist()
        [[4.0, 0.0], [0.0, 0.0]]
    """
    values, vectors = jnp.linalg.eigh(covariance)
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None, :]


def rooted_prompts(
    key: RandomKey,
    num_prompts: int,
    num_examples: int,
    root: Float[Array, "d d"],
    noise: Scalar = 0.0,
    weights: Float[Array, " d"] | None = None,
) -> Prompts:
    """`regression_prompts` for Λ = RRᵀ: in a loop, where one root serves all steps.

    Example:
        >>> prompts = rooted_prompts(jax.random.key(0), 3, 5, root=2 * jnp.eye(2))
        >>> prompts.x.shape
        (3, 5, 2)
    """
    check_prompts(num_prompts, num_examples)
    b, n, d = num_prompts, num_examples, len(root)
    input_key, task_key, noise_key = jax.random.split(key, 3)
    inputs = jax.random.normal(input_key, (b * (n + 1), d)) @ root.T
    inputs = inputs.reshape(b, n + 1, d)
    if weights is None:
        tasks = jax.random.normal(task_key, (b, d))
    else:
        tasks = jnp.broadcast_to(weights[None, :], (b, d))
    clean = jnp.einsum("bnd,bd->bn", inputs, tasks)
    labels = clean[:, :n] + noise * jax.random.normal(noise_key, (b, n))
    return Prompts(inputs[:, :n], labels, inputs[:, n], clean[:, n])


def parity_tasks(
    key: RandomKey, num_tasks: int, dimension: int, num_frequent: int, rare: Scalar = 0.0
) -> Int[Array, "b 2"]:
    """Draw pairs i ≠ j, below k with probability 1 − p_T and otherwise not both below k.

    Args:
        key: The randomness.
        num_tasks: How many pairs.
        dimension: d; pairs are numbers from 0 to d − 1.
        num_frequent: k, at least 2.
        rare: p_T, the probability of the other pairs.

    Example:
        >>> pairs = parity_tasks(jax.random.key(0), num_tasks=100, dimension=8, num_frequent=2)
        >>> sorted({tuple(sorted(pair)) for pair in pairs.tolist()})
        [(0, 1)]
    """
    if num_tasks < 1:
        raise ValueError(f"num_tasks must be at least 1, got {num_tasks}.")
    if not 2 <= num_frequent <= dimension:
        raise ValueError(
            f"num_frequent must be between 2 and the dimension {dimension}, got {num_frequent}."
        )
    first, second = np.nonzero(~np.eye(dimension, dtype=bool))
    frequent = (first < num_frequent) & (second < num_frequent)
    law = jnp.where(frequent, (1.0 - rare) / frequent.sum(), rare / max((~frequent).sum(), 1))
    chosen = jax.random.choice(key, len(first), (num_tasks,), p=law)
    return jnp.asarray(np.stack([first, second], axis=1))[chosen]


def parity_prompts(
    key: RandomKey,
    tasks: Int[Array, "b 2"],
    num_examples: int,
    dimension: int,
    bias: Scalar,
    flipped: Scalar = 0.0,
) -> Prompts:
    """Draw prompts of parity of two coordinates, in the coordinates φ.

    Args:
        key: The randomness.
        tasks: The pair of every prompt.
        num_examples: M, the examples of each.
        dimension: d.
        bias: γ in (0, ¼): how much likelier (1, 1) is than by chance.
        flipped: The probability that an example's label is turned round; the target never is.

    Example:
        >>> prompts = parity_prompts(jax.random.key(0), jnp.array([[0, 1]]), 6, 4, bias=0.1)
        >>> bool((prompts.y == prompts.x[..., 0] * prompts.x[..., 1]).all())
        True
    """
    check_prompts(len(tasks), num_examples)
    b, n, d = len(tasks), num_examples, dimension
    sign_key, pair_key, flip_key = jax.random.split(key, 3)
    signs = 2.0 * jax.random.bernoulli(sign_key, 0.5, (b * (n + 1), d)) - 1.0
    level = jax.random.uniform(pair_key, (b * (n + 1),))
    # ¼ + γ, ¼, ¼ and ¼ − γ of the unit interval, for (1, 1), (1, −1), (−1, 1) and (−1, −1).
    one = jnp.where(level < 0.5 + bias, 1.0, -1.0)
    other = jnp.where(
        (level < 0.25 + bias) | ((level >= 0.5 + bias) & (level < 0.75 + bias)), 1.0, -1.0
    )
    rows = jnp.repeat(tasks, n + 1, axis=0)
    places = jnp.arange(d)[None, :]
    signs = jnp.where(places == rows[:, :1], one[:, None], signs)
    signs = jnp.where(places == rows[:, 1:], other[:, None], signs)
    signs, labels = signs.reshape(b, n + 1, d), (one * other).reshape(b, n + 1)
    turned = 1.0 - 2.0 * jax.random.bernoulli(flip_key, flipped, (b, n))
    return Prompts(signs[:, :n], labels[:, :n] * turned, signs[:, n], labels[:, n])


def check_prompts(num_prompts: int, num_examples: int) -> None:
    """Refuse no prompts, and empty ones.

    Example:
        >>> check_prompts(num_prompts=0, num_examples=1)
        Traceback (most recent call last):
        ValueError: num_prompts must be at least 1, got 0.
    """
    if num_prompts < 1:
        raise ValueError(f"num_prompts must be at least 1, got {num_prompts}.")
    if num_examples < 1:
        raise ValueError(
            f"num_examples must be at least 1, a prompt is not empty, got {num_examples}."
        )
