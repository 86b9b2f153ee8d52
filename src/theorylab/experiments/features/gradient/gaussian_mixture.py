"""At moderate biases first gradients find Gaussian clusters, which a network then classifies.

Clusters of points with one label each, around means that are √d long and orthogonal. First
gradients find their directions if the bias is neither so small that a neuron sees several clusters,
nor so large that it sees none. Trained online, a network classifies noisy clusters better than
random features of as many neurons that see as many samples. Tangent features of as many distinct
neurons are not beaten in this way: fitted to 4000 samples they err no more than a network after 400
steps. A kernel of all its samples would not fit into memory; after 1600 steps (seed 101, r = 16)
the network has a test error of 2.7 % and they have 6.3 %.

At the theorem's τ ≥ 8 the probability of finding a direction is below 10⁻²⁰, so the mechanism is
measured at moderate τ. Detectors of the clusters, and the bounds, are in `cluster_detectors`.

`paper` has 16384 neurons in 1024 dimensions, 20000 steps and a kernel of 20000 samples: 17 GB, and
by the count of operations some 30 hours of a core for each of 48 networks, or a day of a GPU for
all. A kernel is made some rows at a time; a network is a block.

Source: shi · case-mog · §3.4.1, B.5.2.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_most,
    median_at_least,
    median_at_most,
    ordered,
)
from theorylab.data import GaussianMixture
from theorylab.data.mixtures import orthogonal_mixture
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.features import gradient
from theorylab.fields import Count, Increasing, Plural, Positive, Several
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._clusters import Clusters, Comparison, Errors, compared_errors

PRECISION = "float32"
FORMULA = r"P[|\langle G(w, b), D_j \rangle| > (1 - \gamma) \|G(w, b)\|, \ \|G(w, b)\| \ge B_G]"

FEATURES = Source("shi", "case-mog", "Lemmas 3.17, B.30")
THEOREM = Source("shi", "case-mog", "Theorem 3.18")


@dataclass(frozen=True)
class Config(Comparison, Clusters):
    """Clusters: detectors, first gradients over biases, and training."""

    num_clusters: Plural = 16
    noise: Positive = 2.0  # standard deviation of a cluster where networks are trained
    thresholds: Increasing[Positive] = (0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5)  # bias over √d
    num_neurons: Count = 50000  # for the probability of a direction
    width: Count = 64  # m, a quarter of the trained neurons
    num_steps: Count = 400
    trained_clusters: Several[Plural] = (4, 8, 16)  # r of the networks that are trained
    num_fitted: Count = 4000
    num_seeds: Count = 16  # with 8, a single slow start can decide, and one in 8 may be slow

    def __post_init__(self) -> None:
        super().__post_init__()
        if max(self.trained_clusters) >= self.dimension:
            raise ValueError(
                f"trained_clusters must be below {self.dimension}, got {self.trained_clusters}."
            )
        if len(self.thresholds) < 3:
            raise ValueError(f"thresholds must be three or more, got {self.thresholds}.")


PRESETS = {
    "smoke": Config(
        dimension=32,
        num_clusters=8,
        noise=1.5,
        num_neurons=5000,
        width=24,
        num_steps=300,
        batch_size=200,
        trained_clusters=(8,),
        num_fitted=2000,
        num_seeds=6,
    ),
    "paper": Config(dimension=1024, width=4096, num_steps=20000, num_fitted=20000),
}


class Result(NamedTuple):
    """What was measured: thresholds (b), seeds (s), trained clusters (r)."""

    probability: Float[Measured, "s b"]  # p̂ of a direction
    exponent: float  # log₁₀ p at τ = 8
    network: Float[Measured, "r s"]
    random: Float[Measured, "r s"]
    tangent: Float[Measured, "r s"]


def memory(config: Config) -> int:
    """Bytes of first gradients, and of a kernel or of moments, with samples, on two cores."""
    width, fitted, tested = 4 * config.width, config.num_fitted, config.num_test
    gradients = 6 * config.num_neurons * config.num_clusters
    kernels = fitted * (3 * fitted + 4 * tested + 2 * width)
    moments = width * (5 * width + 3 * (config.batch_size + tested))
    samples = config.batch_size + fitted + tested
    data = config.dimension * (4 * samples + 4 * width + 4 * max(config.trained_clusters))
    return 4 * 2 * (gradients + max(kernels, moments) + data)


def run(config: Config) -> Result:
    """First gradients over biases, then training."""
    keys = jax.random.split(jax.random.key(config.seed), 4)
    report("first gradients over biases", 0.0)
    one = partial(_shares, law=gradient.reduced_mixture(config.law), config=config)
    shares = ensemble(one, jax.random.split(keys[2], config.num_seeds))
    trained = []
    for place, count in enumerate(config.trained_clusters):
        report(f"training on {count} clusters", 0.2 + 0.8 * place / len(config.trained_clusters))
        one = partial(_errors, law=_noisy(count, config), config=config)
        trained.append(ensemble(one, jax.random.split(keys[3], config.num_seeds)))
    return Result(
        probability=shares,
        exponent=math.log10(gradient.cluster_case(config.law, tau=8.0).constants.probability),
        **jax.tree.map(lambda *levels: jnp.stack(levels), *trained)._asdict(),
    )


def _noisy(num_clusters: int, config: Config) -> GaussianMixture:
    """The clusters that networks are trained on."""
    return orthogonal_mixture(num_clusters, config.dimension, 1.0, config.noise)


def _shares(key: RandomKey, law: GaussianMixture, config: Config) -> Float[Array, " b"]:
    """p̂ of the first direction at every threshold."""
    weights = gradient.reduced_weights(
        key, config.num_neurons, config.num_clusters, config.dimension
    )

    def share(threshold: Float[Array, ""]) -> Float[Array, ""]:
        biases = jnp.full(config.num_neurons, threshold * config.dimension**0.5)
        gradients = gradient.mixture_gradients(law, weights, biases)
        first = law.directions[:1]
        return gradient.cone_members(gradients, first, config.opening, config.least_norm).mean()

    return jax.lax.map(share, jnp.array(config.thresholds))


def _errors(key: RandomKey, law: GaussianMixture, config: Config) -> Errors:
    """Test errors of a network, and of ridge regression on as many fixed neurons."""
    # A neuron that sees one cluster has ‖G‖ = √d/r, and is then active on it: η‖G‖√d = 4b̃.
    first = 4 * len(law.labels) / config.dimension
    return compared_errors(key, law, config.bias, first, config.width, config)


def _sweet_spot(result: Result) -> np.ndarray:
    """The largest probability over the larger of those at the two ends."""
    ends = np.maximum(result.probability[:, 0], result.probability[:, -1])
    return result.probability.max(axis=1) / np.maximum(ends, 1e-6)


CLAIMS = (
    FEATURES.control(
        "At the smallest and at the largest bias directions are found a third as often, or less.",
        lambda r, c: median_at_least(_sweet_spot(r), 3.0),
    ),
    FEATURES.found(
        "At the theorem's τ = 8 a neuron finds a direction with a probability below 1e-20.",
        lambda r, c: at_most(r.exponent, -20.0),
        formula=r"p = \Theta(d^{-9 C_b^2 \tau \sigma_+^2 / 2 B_{\mu 1}^2})",
    ),
    THEOREM.found(
        "A network classifies the most clusters better than random features on as many samples.",
        lambda r, c: ordered(r.network[-1], r.random[-1]),
    ),
    THEOREM.found(
        "After so few steps, tangent features are no worse there: at most by a point.",
        lambda r, c: median_at_most(r.tangent[-1] - r.network[-1], 0.01),
        demand="lab: a point, as in `xor_mixture`",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Probabilities over biases, and test errors."""
    figure, axes = panels("probability of a direction", "noisy clusters")
    curves(axes[0], config.thresholds, {"median over seeds": result.probability}, "o-")
    label_axes(axes[0], "bias over √d", "p̂")
    errors = {name: getattr(result, name).T for name in ("network", "random", "tangent")}
    curves(axes[1], config.trained_clusters, errors, "o-")
    label_axes(axes[1], "clusters r", "test error")
    return figure
