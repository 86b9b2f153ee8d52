"""A convolution with one filter and a soft threshold that learns to find a patch, Algorithm 3.1.

    f(X) = Σᵢ φ_b(⟨w, Xᵢ⟩),      φ_b(z) = (z + b)₊ − (−z + b)₊,

a sum over the k + 1 patches of a sample. For b < 0 whatever is below |b| is set to 0, and the rest
is moved towards 0 by |b|; b = 0 is the linear classifier. Every step takes a fresh batch, and the
bias has its own learning rate, η_b = η/k in the source:

    w ← w − η ∇_w L̂,    b ← b − η_b ∇_b L̂,    L̂ = mean of log(1 + e^{−y f(X)}).

An output of 0 is an error, not a tie: a network whose threshold kills everything has learned
nothing. (The source's own code counts it as right.)

Source: karp · lsa-cnn · 3.3, Algorithm 3.1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.data.patches import PatchLaw, signal_among_noise
from theorylab.kernels.gated_patches import soft_threshold as soft_threshold
from theorylab.training import Trajectory, logistic
from theorylab.training.trajectory import Steps, run_and_record
from theorylab.typing import RandomKey, Scalar


class Filter(NamedTuple):
    """The d + 1 numbers that are trained."""

    weights: Float[Array, " d"]
    bias: Float[Array, ""]


class FilterRates(NamedTuple):
    """Learning rates of the weights, η, and of the bias, η_b."""

    weights: Scalar
    bias: Scalar


def outputs(params: Filter, x: Float[Array, "n patches d"]) -> Float[Array, "n 1"]:
    """f(X) of every sample.

    Example:
        >>> one = Filter(jnp.array([1.0, 0.0]), jnp.array(-0.5))
        >>> outputs(one, jnp.array([[[1.0, 0.0], [0.2, 3.0]]])).tolist()
        [[0.5]]
    """
    return soft_threshold(x @ params.weights, params.bias).sum(axis=1, keepdims=True)


def small_filter(key: RandomKey, dimension: int, radius: float = 1e-6) -> Filter:
    """A filter in a random direction, of a small length, and no bias.

    The proof takes a length of k⁻¹⁰⁰, which no computer holds; any small one does.

    Args:
        key: Draws the direction.
        dimension: d.
        radius: The length.

    Example:
        >>> one = small_filter(jax.random.key(0), dimension=5, radius=0.5)
        >>> round(float(jnp.linalg.norm(one.weights)), 6), float(one.bias)
        (0.5, 0.0)
    """
    if not radius > 0:
        raise ValueError(f"radius must be positive, got {radius}.")
    direction = jax.random.normal(key, (dimension,))
    return Filter(radius * direction / jnp.linalg.norm(direction), jnp.zeros(()))


def descend_on_batch(
    params: Filter, x: Float[Array, "n patches d"], y: Float[Array, "n 1"], rates: FilterRates
) -> Filter:
    """One step on one batch.

    Example:
        >>> one, rates = Filter(jnp.ones(1), jnp.zeros(())), FilterRates(1.0, 0.0)
        >>> moved = descend_on_batch(one, jnp.ones((1, 1, 1)), jnp.ones((1, 1)), rates)
        >>> bool(moved.weights[0] > 1)
        True
    """
    gradient = jax.grad(lambda params: logistic("mean")(outputs(params, x), y))(params)
    return Filter(
        params.weights - rates.weights * gradient.weights,
        params.bias - rates.bias * gradient.bias,
    )


def learn_filter(
    key: RandomKey, start: Filter, law: PatchLaw, rates: FilterRates, batch_size: int, steps: Steps
) -> Trajectory:
    """Algorithm 3.1, with a batch of fresh samples in every step.

    All patches are drawn, (k + 1) d numbers for each sample. `learn_projected` has the same law and
    draws k.

    Args:
        key: Draws the batches.
        start: Such as `small_filter`.
        law: The law of the samples.
        rates: η and η_b.
        batch_size: Samples in a batch.
        steps: Increasing numbers of steps after which to record the filter.

    Example:
        >>> law = PatchLaw(num_patches=5, dimension=3, noise=0.1)
        >>> start = small_filter(jax.random.key(0), 3, radius=0.1)
        >>> task = (start, law, FilterRates(1.0, 0.0), 20, [0, 30])
        >>> learned = learn_filter(jax.random.key(1), *task).params
        >>> bool(learned.weights @ law.signal > start.weights @ law.signal)
        True
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")

    def advance(params: Filter, step: Array) -> Filter:
        batch = signal_among_noise(jax.random.fold_in(key, step), law, batch_size)
        return descend_on_batch(params, batch.x, batch.y, rates)

    return run_and_record(advance, start, steps, lambda params: params, lambda params: params)
