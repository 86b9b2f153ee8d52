"""From data to the constants of the main bound, so that nobody has to type them.

    r, B_a1, B_a2, B_b    of a network g* on gradient features, its directions brought to length 1
    B_x1, B_x2, B_x       means of ‖x‖ and ‖x‖², and the largest ‖x‖, of a sample
    p, γ, B_G             of the features: the least lower end of p̂, the cone and the length asked

aσ(⟨w, x⟩ − b) is ‖w‖aσ(⟨D, x⟩ − b/‖w‖) with D = w/‖w‖. All are estimates: the largest ‖x‖ of a
sample bounds no sample to come.

Source: shi · gfl-main-bound · Theorem 3.12; shi · gradient-features · Def. 3.7.
"""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.data import Dataset

from .bound import TheoremConstants
from .gradient_features import Feature
from .network import ReluNetwork


def measured_constants(
    data: Dataset, target: ReluNetwork, features: Sequence[Feature], slope: float = 1.0
) -> TheoremConstants:
    """The constants of data, with a network on features that were found in it.

    Args:
        data: A sample, with flat inputs.
        target: g*, such as from `direction_optimum` on the directions found.
        features: Those that it uses, from `gradient_features`; each must have been found by some
            neuron, so that p > 0.
        slope: |ℓ'(0)| of the loss.

    Example:
        >>> from jax.random import key
        >>> from theorylab.features.gradient import gradient_features
        >>> data = Dataset(jnp.eye(2), jnp.array([[1.0], [-1.0]]), "two points")
        >>> target = ReluNetwork(jnp.ones(1), jnp.array([[1.0, 0.0]]), jnp.array([0.5]))
        >>> found = gradient_features(key(0), data, 1, least_norm=0.1, num_neurons=50)
        >>> measured_constants(data, target, found[:1]).mean_norm
        1.0
    """
    if not features:
        raise ValueError("features must be one or more, got none.")
    return sample_constants(
        data.x,
        target,
        probability=min(feature.probability.low for feature in features),
        opening=max(feature.opening for feature in features),
        gradient_norm=min(feature.least_norm for feature in features),
        slope=slope,
    )


def sample_constants(
    x: Float[Array, "n d"],
    target: ReluNetwork,
    probability: float,
    opening: float,
    gradient_norm: float,
    bias_bound: float | None = None,
    slope: float = 1.0,
) -> TheoremConstants:
    """The constants of a sample and of a network, with p, γ and B_G as they are known.

    Args:
        x: The inputs.
        target: g*; none of its weights is 0.
        probability: p.
        opening: γ.
        gradient_norm: B_G.
        bias_bound: B_b; by default the largest |b|/‖w‖ of g*, which must not be 0.
        slope: |ℓ'(0)| of the loss.

    Example:
        >>> target = ReluNetwork(jnp.ones(1), jnp.array([[2.0, 0.0]]), jnp.array([0.5]))
        >>> found = sample_constants(jnp.eye(2), target, 0.1, opening=0.1, gradient_norm=0.5)
        >>> found.entry_bound, found.bias_bound, found.largest_norm
        (2.0, 0.25, 1.0)
    """
    sizes = jnp.linalg.norm(target.weights, axis=1)
    if not float(sizes.min()) > 0:
        raise ValueError("weights of the target must not be 0, got a neuron without direction.")
    lengths, outputs = jnp.linalg.norm(x, axis=1), target.outputs * sizes
    largest = float(jnp.abs(target.biases / sizes).max())
    return TheoremConstants(
        num_neurons=len(target.outputs),
        entry_bound=float(jnp.abs(outputs).max()),
        norm_bound=float(jnp.linalg.norm(outputs)),
        bias_bound=largest if bias_bound is None else bias_bound,
        mean_norm=float(lengths.mean()),
        mean_square=float((lengths**2).mean()),
        largest_norm=float(lengths.max()),
        probability=probability,
        opening=opening,
        gradient_norm=gradient_norm,
        slope=slope,
    )
