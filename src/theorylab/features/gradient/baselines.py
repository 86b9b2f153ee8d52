"""What the network's features at the start can do: ridge regression on them, best of a sweep.

    random features    K(x, x') = Σᵢ hᵢ(x) hᵢ(x'),   hᵢ = σ(⟨wᵢ, x⟩ − bᵢ)
    tangents           the same + ⟨x, x'⟩ Σᵢ aᵢ² 1ᵢ(x) 1ᵢ(x'),   1ᵢ = 1[⟨wᵢ, x⟩ > bᵢ]

Tangents are those of both layers of the network at finite width; its Jacobian is never made. The
ridge that has the smallest test error is taken: no choice by validation would do better.

Source: shi · case-mog-xor · §3.4.1 (beyond the kernel regime).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve
from jaxtyping import Array, Float

from theorylab.data import Dataset
from theorylab.training import zero_one

from .network import ReluNetwork

FeatureMap = Callable[[Float[Array, "n d"]], Float[Array, "n m"]]
Kernel = Callable[[Float[Array, "n d"], Float[Array, "t d"]], Float[Array, "n t"]]
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)  # over the mean of ‖features‖², the kernel's diagonal


def tangent_kernel(network: ReluNetwork) -> Kernel:
    """The tangent kernel of outputs and weights (not of biases, which are never trained)."""

    def active(x: Float[Array, "n d"]) -> Float[Array, "n m"]:
        return (x @ network.weights.T > network.biases[None, :]).astype(x.dtype)

    def kernel(x: Float[Array, "n d"], other: Float[Array, "t d"]) -> Float[Array, "n t"]:
        hidden = network.hidden(x) @ network.hidden(other).T
        squares = network.outputs**2
        return hidden + (x @ other.T) * ((active(x) * squares[None, :]) @ active(other).T)

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
    """
    known, unknown = features(data.x), features(test.x)
    target = known.T @ data.y
    return _least_error(known.T @ known, target, unknown, data, test, ridges)


def kernel_ridge_error(
    kernel: Kernel, data: Dataset, test: Dataset, ridges: tuple[float, ...] = RIDGES
) -> Float[Array, ""]:
    """The smallest test error of ridge regression with a kernel, over a sweep of ridges.

    Args:
        kernel: Such as `tangent_kernel(network)`.
        data: To learn from, with labels ±1 or one-hot rows.
        test: To test on.
        ridges: Over the mean of the kernel's diagonal.
    """
    gram, across = kernel(data.x, data.x), kernel(test.x, data.x)
    return _least_error(gram, data.y, across, data, test, ridges)


def _least_error(
    moment: Float[Array, "m m"],
    target: Float[Array, "m k"],
    unknown: Float[Array, "t m"],
    data: Dataset,
    test: Dataset,
    ridges: tuple[float, ...],
) -> Float[Array, ""]:
    """Solve with every ridge; moment and kernel have one trace, so one scale serves both."""
    scale = jnp.trace(moment) / data.num_samples

    def error(ridge: Float[Array, ""]) -> Float[Array, ""]:
        factor = cho_factor(moment + ridge * scale * jnp.eye(len(moment), dtype=moment.dtype))
        return zero_one("mean")(unknown @ cho_solve(factor, target), test.y)

    return jax.lax.map(error, jnp.asarray(ridges, moment.dtype)).min()
