"""Gaussian clusters: the settings, first gradients and comparisons that experiments share.

Clusters stand √d from the origin along different axes, with alternating labels. A first gradient
G(w, b) = E[y x 1[⟨w, x⟩ > b]] counts for a direction D if it lies in the double cone
|⟨G, D⟩| > (1 − γ)‖G‖ and is at least B_G long.

Source: shi · case-mog · §3.4.1, B.5.2; shi · gradient-features · Def. 3.7.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from theorylab.data import Dataset, GaussianMixture
from theorylab.data.mixtures import orthogonal_mixture
from theorylab.features import gradient
from theorylab.fields import Count, OpenFraction, Plural, Positive, Seeded, within
from theorylab.typing import Measured, RandomKey, Scalar

# The cones of two orthogonal directions overlap from γ = 1 − 1/√2 on.
Opening = Annotated[OpenFraction, within(0, 0.29)]
DEVIATION = 0.5  # standard deviation of a cluster where first gradients are measured


@dataclass(frozen=True)
class Cones(Seeded):
    """First gradients, counted in cones."""

    opening: Opening = 0.1  # γ


@dataclass(frozen=True)
class Clusters(Cones):
    """Clusters along axes, and neurons with one bias."""

    dimension: Plural = 64
    num_clusters: Plural = 8
    threshold: Positive = 1.5  # bias over √d, the standard deviation of ⟨w, μ⟩

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.num_clusters < self.dimension:
            raise ValueError(
                f"num_clusters must be below dimension = {self.dimension}, got {self.num_clusters}."
            )

    @property
    def bias(self) -> float:
        """b, for weights of variance 1."""
        return self.threshold * self.dimension**0.5

    @property
    def least_norm(self) -> float:
        """B_G: half of ‖μ‖/r, the length of G where a neuron sees one whole cluster."""
        return 0.5 * self.dimension**0.5 / self.num_clusters

    @property
    def law(self) -> GaussianMixture:
        """The clusters whose first gradients are measured."""
        return orthogonal_mixture(self.num_clusters, self.dimension, 1.0, DEVIATION)


def drawn_gradients(
    key: RandomKey,
    law: GaussianMixture,
    num_neurons: int,
    dimension: int | Int[Array, ""],
    bias: Scalar,
) -> Float[Array, "m e"]:
    """First gradients of neurons w ~ N(0, I_d) with one bias, on a reduced mixture."""
    weights = gradient.reduced_weights(key, num_neurons, law.dimension - 1, dimension)
    return gradient.mixture_gradients(law, weights, jnp.full(num_neurons, bias))


class Errors(NamedTuple):
    """Test errors of a network, and of fixed features of as many distinct neurons."""

    network: Float[Measured, "..."]  # trained online
    random: Float[Measured, "..."]  # random features, on as many samples
    tangent: Float[Measured, "..."]  # tangent features, on fewer: a kernel has all pairs


@dataclass(frozen=True)
class Comparison(Seeded):
    """A network that learns online, and fixed features."""

    num_steps: Count = 300
    batch_size: Count = 500  # fresh samples in every step; random features see all of them
    num_fitted: Count = 3000  # samples that tangent features are fitted to
    num_test: Count = 2000


def fitted_and_test(
    key: RandomKey, law: GaussianMixture, config: Comparison
) -> tuple[Dataset, Dataset]:
    """The samples that tangent features are fitted to, and those of the test."""
    keys = jax.random.split(key, 5)
    return law.sample(keys[0], config.num_fitted), law.sample(keys[1], config.num_test)


def random_error(
    key: RandomKey, law: GaussianMixture, bias_ratio: Scalar, width: int, config: Comparison
) -> Float[Array, ""]:
    """The test error of so many random features, with b̃/σ_w = bias_ratio."""
    keys, test = jax.random.split(key, 5), fitted_and_test(key, law, config)[1]
    hidden = gradient.distinct_network(keys[2], width, law.dimension, 1.0, 1 / bias_ratio).hidden
    seen = (config.batch_size, config.num_steps)
    return gradient.streamed_ridge_error(keys[4], hidden, law.sample, *seen, test)


def compared_errors(
    key: RandomKey,
    law: GaussianMixture,
    bias_ratio: Scalar,
    first_rate: float,
    width: int,
    config: Comparison,
) -> Errors:
    """Test errors of a network of 4 · width neurons, and of as many fixed ones."""
    keys, (data, test) = jax.random.split(key, 5), fitted_and_test(key, law, config)
    recipe = gradient.OnlineRecipe(width, config.batch_size, first_rate=first_rate, rate=0.05)
    last, measure = [config.num_steps], partial(gradient.error_rate, data=test)
    trained = gradient.learn_online(
        keys[3], law.sample, law.dimension, bias_ratio, recipe, last, measure
    )
    fixed = gradient.distinct_network(keys[2], 4 * width, law.dimension, 1.0, 1 / bias_ratio)
    return Errors(
        network=trained.records[-1],
        random=random_error(key, law, bias_ratio, 4 * width, config),
        tangent=gradient.kernel_ridge_error(gradient.tangent_kernel(fixed), data, test),
    )
