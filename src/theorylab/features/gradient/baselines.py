"""What the network's features at the start can do: ridge regression on them, best of a sweep.

    random features    K(x, x') = Σᵢ hᵢ(x) hᵢ(x'),   hᵢ = σ(⟨wᵢ, x⟩ − bᵢ)
    tangents           the same + ⟨x, x'⟩ Σᵢ aᵢ² 1ᵢ(x) 1ᵢ(x'),   1ᵢ = 1[⟨wᵢ, x⟩ > bᵢ]

Tangents are those of both layers of the network at finite width; its Jacobian is never made. The
ridge that has the smallest test error is taken: no choice by validation would do better. So that
nothing else is against them, they are those of `distinct_network`: the symmetric start has every
neuron twice, and copies add no feature. What learns online sees fresh samples in every step, and
`streamed_ridge_error` fits features to as many, without keeping any.

Source: shi · case-mog-xor · §3.4.1 (beyond the kernel regime).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve
from jaxtyping import Array, Float

from theorylab.data import Dataset
from theorylab.training import zero_one
from theorylab.typing import RandomKey, Scalar

from .network import DataSampler, ReluNetwork, symmetric_network

FeatureMap = Callable[[Float[Array, "n d"]], Float[Array, "n m"]]
Kernel = Callable[[Float[Array, "n d"], Float[Array, "t d"]], Float[Array, "n t"]]
_TOGETHER = 2**27  # entries of an array that may be made at once,
_IN_TURN = 2**25  # and of those made in turn where it would have more
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)  # over the mean of ‖features‖², the kernel's diagonal


def distinct_network(
    key: RandomKey, width: int, dimension: int, bias: Scalar, weight_scale: Scalar = 1.0
) -> ReluNetwork:
    """Neurons as in `symmetric_network` with σ_a = 1, but independent; the biases are ±b̃ in turn.

    Args:
        key: Draws them.
        width: How many.
        dimension: d.
        bias: b̃.
        weight_scale: σ_w.

    Example:
        >>> distinct_network(jax.random.key(0), width=3, dimension=2, bias=1.0).biases.tolist()
        [1.0, -1.0, 1.0]
    """
    drawn = symmetric_network(key, width, dimension, bias, weight_scale)
    signs = jnp.where(jnp.arange(width) % 2 == 0, 1, -1)
    return ReluNetwork(drawn.outputs[:width], drawn.weights[:width], drawn.biases[:width] * signs)


def tangent_kernel(network: ReluNetwork) -> Kernel:
    """The tangent kernel of outputs and weights (not of biases, which are never trained).

    A large kernel is made some rows at a time.

    Example:
        >>> network = ReluNetwork(jnp.ones(1), jnp.ones((1, 2)), jnp.zeros(1))
        >>> tangent_kernel(network)(jnp.eye(2), jnp.eye(2)).tolist()
        [[2.0, 1.0], [1.0, 2.0]]
    """

    def active(x: Float[Array, "n d"]) -> Float[Array, "n m"]:
        return (x @ network.weights.T > network.biases[None, :]).astype(x.dtype)

    squares = network.outputs**2

    def kernel(x: Float[Array, "n d"], other: Float[Array, "t d"]) -> Float[Array, "n t"]:
        hidden, gates = network.hidden(other), active(other)

        def rows(x: Float[Array, "b d"]) -> Float[Array, "b t"]:
            tangents = (active(x) * squares[None, :]) @ gates.T
            return network.hidden(x) @ hidden.T + (x @ other.T) * tangents

        longest = max(hidden.shape)
        if len(x) * longest <= _TOGETHER:
            return rows(x)
        size = max(_IN_TURN // longest, 1)
        return jax.lax.map(lambda row: rows(row[None, :])[0], x, batch_size=size)

    return kernel


def ridge_error(
    features: FeatureMap, data: Dataset, test: Dataset, ridges: tuple[float, ...] = RIDGES
) -> Float[Array, ""]:
    """The smallest test error of ridge regression on features, over a sweep of ridges.

    Args:
        features: x ─► features, such as `network.hidden`; fewer than samples, best.
        data: To learn from, with labels ±1.
        test: To test on.
        ridges: Over the mean of ‖features‖².

    Example:
        >>> data = Dataset(jnp.eye(2), jnp.array([[1.0], [-1.0]]), "two points")
        >>> float(ridge_error(lambda x: x, data, data))
        0.0
    """
    known, unknown = features(data.x), features(test.x)
    target = known.T @ data.y
    return _least_error(known.T @ known, target, unknown, data.num_samples, test, ridges)


def streamed_ridge_error(
    key: RandomKey,
    features: FeatureMap,
    sampler: DataSampler,
    batch_size: int,
    num_batches: int,
    test: Dataset,
    ridges: tuple[float, ...] = RIDGES,
) -> Float[Array, ""]:
    """The same on a stream of fresh samples, of which only the moments are kept.

    Args:
        key: Draws the samples.
        features: x ─► features, such as `network.hidden`.
        sampler: The law, with labels ±1.
        batch_size: Samples at a time.
        num_batches: How often; as many as the steps of a network that learns online.
        test: To test on.
        ridges: Over the mean of ‖features‖².

    Example:
        >>> from theorylab.data.mixtures import separable_law
        >>> law = separable_law(jnp.ones(3), margin=0.5, spread=1.0, radius=1.0)
        >>> test = law.sample(jax.random.key(0), 100)
        >>> error = streamed_ridge_error(jax.random.key(1), lambda x: x, law.sample, 50, 10, test)
        >>> bool(error < 0.05)
        True
    """
    unknown = features(test.x)
    size = unknown.shape[1]

    def add(sums: tuple[Array, Array], key: RandomKey) -> tuple[tuple[Array, Array], None]:
        data = sampler(key, batch_size)
        known = features(data.x)
        return (sums[0] + known.T @ known, sums[1] + known.T @ data.y), None

    zeros = (jnp.zeros((size, size), unknown.dtype), jnp.zeros((size, 1), unknown.dtype))
    sums, _ = jax.lax.scan(add, zeros, jax.random.split(key, num_batches))
    return _least_error(*sums, unknown, batch_size * num_batches, test, ridges)


def kernel_ridge_error(
    kernel: Kernel, data: Dataset, test: Dataset, ridges: tuple[float, ...] = RIDGES
) -> Float[Array, ""]:
    """The smallest test error of ridge regression with a kernel, over a sweep of ridges.

    Args:
        kernel: Such as `tangent_kernel(network)`.
        data: To learn from, with labels ±1 or one-hot rows.
        test: To test on.
        ridges: Over the mean of the kernel's diagonal.

    Example:
        >>> data = Dataset(jnp.eye(2), jnp.array([[1.0], [-1.0]]), "two points")
        >>> float(kernel_ridge_error(lambda x, other: x @ other.T, data, data))
        0.0
    """
    gram, across = kernel(data.x, data.x), kernel(test.x, data.x)
    return _least_error(gram, data.y, across, data.num_samples, test, ridges)


def _least_error(
    moment: Float[Array, "m m"],
    target: Float[Array, "m k"],
    unknown: Float[Array, "t m"],
    num_samples: int,
    test: Dataset,
    ridges: tuple[float, ...],
) -> Float[Array, ""]:
    """Solve with every ridge; moment and kernel have one trace, so one scale serves both."""
    scale = jnp.trace(moment) / num_samples

    def error(ridge: Float[Array, ""]) -> Float[Array, ""]:
        factor = cho_factor(moment + ridge * scale * jnp.eye(len(moment), dtype=moment.dtype))
        return zero_one("mean")(unknown @ cho_solve(factor, target), test.y)

    return jax.lax.map(error, jnp.asarray(ridges, moment.dtype)).min()
