"""After one step, a few neurons already make a good network: find them, give them output weights.

The first step turns neurons to gradient features. Among those that point along a direction of g*,
and have about the right length, an output layer that is zero elsewhere makes g* again, up to errors
that a bound with explicit constants covers. The number of such neurons grows like the root of the
width. As many others of the same network, with the same output weights, make nothing. (The source
asks for a positive output weight at the start; but a cluster with label −1 has G pointing away from
it, and is found by neurons with a negative one.)

The data are four clusters, and g* has a detector for each. The bound is far above 1 at these
widths: it holds, and says nothing yet.

Source: shi · good-subnet · Lemmas 3.14, B.6.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, exponent_between, holds, median_at_most, ordered
from theorylab.data import GaussianMixture
from theorylab.data.mixtures import orthogonal_mixture
from theorylab.experiments.checks import refuse_nonpositive
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features.gradient import (
    Constants,
    FiniteLaw,
    ReluNetwork,
    blockwise_risk,
    cone_members,
    detector_threshold,
    drawn_subnetwork,
    mixture_gradients,
    reduced_mixture,
    reduced_weights,
    risk,
    subnetwork_bound,
)
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = (
    r"\tilde a_i = a_j^* \max(|b_j^*|, B_\epsilon) / (|\Lambda_j| \tilde b), \ i \in \Lambda_j"
)

LEMMA = Source("shi", "good-subnet", "Lemma 3.14")
COUNT = Source("shi", "good-subnet", "Lemma B.6, the number of neurons")


@dataclass(frozen=True)
class Config:
    """Four clusters, networks of growing width after one step, and their good subnetworks."""

    dimension: int = 128
    deviation: float = 0.5  # of a cluster, whose mean is √d long
    threshold: float = 1.0  # bias over the standard deviation √d of ⟨w, μ⟩
    tau: float = 1.0  # τ of the detectors
    opening: float = 0.02  # γ
    widths: tuple[int, ...] = (2000, 8000, 32000, 128000)  # m, growing
    num_tested: int = 2000
    num_seeds: int = 10  # at least 6 to conclude
    seed: int = 0

    def __post_init__(self) -> None:
        if not 8 <= self.dimension <= 10**6:
            raise ValueError(f"dimension must be from 8 to 10^6, got {self.dimension}.")
        refuse_nonpositive(self, "deviation", "threshold", "tau")
        if not 0 < self.opening < 0.3:
            raise ValueError(f"opening must be in (0, 0.3), got {self.opening}.")
        widths = self.widths
        if len(widths) < 2 or list(widths) != sorted(set(widths)) or not widths[0] >= 1:
            raise ValueError(f"widths must be two or more, growing, got {widths}.")
        if widths[-1] > 10**8:
            raise ValueError(f"widths must be at most 10^8, got {widths[-1]}.")
        for name in ("num_tested", "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**7:
                raise ValueError(f"{name} must be from 1 to 10^7, got {getattr(self, name)}.")


PRESETS = {
    "smoke": Config(widths=(4000, 32000), num_tested=200, num_seeds=6),
    "paper": Config(dimension=1024, widths=(10**4, 10**5, 10**6, 10**7), num_seeds=20),
}


class Measured(NamedTuple):
    """What is measured about one start."""

    loss: Float[jax.Array, ""]  # of the good subnetwork
    shuffled: Float[jax.Array, ""]  # of the same output weights on other neurons
    counts: Int[jax.Array, " r"]  # |Λ| for every detector
    positive: Int[jax.Array, " r"]  # those of them with a⁽⁰⁾ > 0, which a in place of |a| leaves
    norm: Float[jax.Array, ""]  # ‖ã‖₂
    largest: Float[jax.Array, ""]  # ‖ã‖_∞
    target: Float[jax.Array, ""]  # loss of g*


class Result(NamedTuple):
    """What was measured: widths (m), seeds (s), detectors (r)."""

    widths: Int[np.ndarray, " m"]
    probability: float  # p̂
    loss: Float[np.ndarray, "m s"]
    shuffled: Float[np.ndarray, "m s"]
    counts: Int[np.ndarray, "m s r"]
    positive: Int[np.ndarray, "m s r"]
    norm: Float[np.ndarray, "m s"]
    largest: Float[np.ndarray, "m s"]
    target: Float[np.ndarray, "m s"]
    bound: Float[np.ndarray, "m s"]


def memory(config: Config) -> int:
    """Bytes of the neurons in five dimensions, and of their answers to test samples."""
    return 4 * 2 * max(config.widths) * (30 + 2 * 100)


def run(config: Config) -> Result:
    """One step in networks of every width, and their good subnetworks."""
    law = orthogonal_mixture(4, config.dimension, 1.0, config.deviation)
    small = reduced_mixture(law)
    key, probe_key = jax.random.split(jax.random.key(config.seed))
    report("the probability of a direction", 0.0)
    share = _probability(probe_key, small, config)
    levels, constants = [], _constants(law, share, config)
    for place, width in enumerate(config.widths):
        report(f"width {width}", 0.1 + 0.9 * place / len(config.widths))
        one = partial(_measured, law=small, constants=constants, width=width, config=config)
        levels.append(ensemble(one, jax.random.split(key, config.num_seeds)))
    stacked = {
        name: np.stack([np.asarray(getattr(level, name)) for level in levels])
        for name in Measured._fields
    }
    bounds = [subnetwork_bound(constants, width, _floor(constants), 0.0) for width in config.widths]
    return Result(
        widths=np.array(config.widths),
        probability=share,
        bound=np.array(bounds)[:, None] + stacked["target"],
        **stacked,
    )


def _constants(law: GaussianMixture, share: float, config: Config) -> Constants:
    """Those of the clusters, with the measured p̂ and the asked γ."""
    kappa = detector_threshold(law, config.tau)
    return Constants(
        num_neurons=4,
        entry_bound=1 / kappa,
        norm_bound=2 / kappa,
        bias_bound=2 * kappa,
        mean_norm=float(law.mean_norm),
        mean_square=float(law.mean_square),
        largest_norm=10 * float(law.mean_norm),
        probability=share,
        opening=config.opening,
        gradient_norm=0.125 * config.dimension**0.5,
    )


def _floor(constants: Constants) -> float:
    """B_ε below the detectors' bias, so that it does not change them; fixed while m grows."""
    return constants.bias_bound


def _gradients(key: RandomKey, law: GaussianMixture, width: int, config: Config) -> jax.Array:
    weights = reduced_weights(key, width, 4, config.dimension)
    return mixture_gradients(
        law, weights, jnp.full(width, config.threshold * config.dimension**0.5)
    )


def _probability(key: RandomKey, law: GaussianMixture, config: Config) -> float:
    """p̂ of a direction, over 20 000 neurons and all directions."""
    gradients = jax.jit(partial(_gradients, width=20000, config=config))(key, law)
    floor = 0.125 * config.dimension**0.5
    return float(cone_members(gradients, law.directions, config.opening, floor).mean())


def _measured(
    key: RandomKey, law: GaussianMixture, constants: Constants, width: int, config: Config
) -> Measured:
    """The good subnetwork of one start, in units in which b̃ = 1."""
    output_key, weight_key, test_key, shuffle_key = jax.random.split(key, 4)
    gradients = _gradients(weight_key, law, width, config)
    # The detectors, as neurons in few dimensions.
    target = ReluNetwork(
        law.labels * constants.entry_bound, law.directions, jnp.full(4, constants.bias_bound)
    )
    found, moved = drawn_subnetwork(
        output_key, gradients, jnp.ones(width), target, constants, _floor(constants)
    )
    mixed = moved._replace(outputs=jax.random.permutation(shuffle_key, found.outputs))
    drawn = law.sample(test_key, config.num_tested)
    # w⁽¹⁾ is a⁽⁰⁾G, and where ε_a < 1 no negative length is within it of 1.
    above = (moved.weights * gradients).sum(axis=1) > 0
    shares = jnp.full(config.num_tested, 1 / config.num_tested)
    test = FiniteLaw(drawn.x, drawn.y[:, 0], shares)
    return Measured(
        loss=blockwise_risk(moved, test),
        shuffled=blockwise_risk(mixed, test),
        counts=found.members.sum(axis=0),
        positive=(found.members & above[:, None]).sum(axis=0),
        norm=jnp.linalg.norm(found.outputs),
        largest=jnp.abs(found.outputs).max(),
        target=risk(target, test),
    )


CLAIMS = (
    Claim(
        "The loss of the good subnetwork is below its bound, which is above 1, at every width.",
        judge=lambda r, c: holds(r.bound - r.loss),
        source=LEMMA,
        formula=r"rB_{a1}(\epsilon_a B_{x1} + B_{x1}\sqrt{2\gamma} + B_\epsilon) + L(g^*)",
    ),
    Claim(
        "For every neuron of g* there are some neurons, at every width and start.",
        judge=lambda r, c: holds(r.counts - 1),
        source=COUNT,
        kind="corrected",
        formula=r"\big| |a_i^{(0)} \ell'(0)| \eta \|G_i\| c_j / \tilde b - 1 \big| \le \epsilon_a",
    ),
    Claim(
        "There are if their lengths have the sign of their outputs, at the largest width.",
        judge=lambda r, c: holds(r.positive[-1] - 1),
        source=COUNT,
        kind="printed",
        formula=r"\big| -a_i^{(0)} \ell'(0) \eta \|G_i\| c_j / \tilde b - 1 \big| \le \epsilon_a",
    ),
    Claim(
        "Their number grows like the square root of the width: exponent 0.5 ± 0.1.",
        judge=lambda r, c: exponent_between(r.widths, r.counts.sum(axis=2).T, 0.4, 0.6),
        source=COUNT,
        formula=r"|\Lambda_j| = \Omega(\sqrt{mp})",
    ),
    Claim(
        "The norm of their output weights falls like its fourth root or faster: -0.25 + 0.1.",
        judge=lambda r, c: exponent_between(r.widths, r.norm.T, -np.inf, -0.15),
        source=COUNT,
        formula=r"\|\tilde a\|_2 = O(B_{a2} B_b / \tilde b (mp)^{1/4})",
    ),
    Claim(
        "The largest of them falls like its square root or faster: exponent -0.5 + 0.1.",
        judge=lambda r, c: exponent_between(r.widths, r.largest.T, -np.inf, -0.4),
        source=COUNT,
        formula=r"\|\tilde a\|_\infty = O(B_{a1} B_b / \tilde b \sqrt{mp})",
    ),
    Claim(
        "At the largest width its loss is below 0.2, beside 1 of the network that is zero.",
        judge=lambda r, c: median_at_most(r.loss[-1], 0.2),
        source=LEMMA,
    ),
    Claim(
        "The same output weights on other neurons make no good network.",
        judge=lambda r, c: ordered(r.loss[-1] + 0.3, r.shuffled[-1]),
        source=LEMMA,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Numbers of neurons and losses over widths."""
    figure, axes = panels("neurons of the subnetwork", "its loss")
    axes[0].loglog(result.widths, result.counts.sum(axis=2), "o", color="#0072B2", markersize=4)
    first = result.counts[0].sum(axis=1).mean()
    root = first * np.sqrt(result.widths / result.widths[0])
    axes[0].loglog(result.widths, root, label="√m", **THEORY)
    axes[0].set(xlabel="width m", ylabel="neurons")
    axes[1].loglog(result.widths, result.loss, "o", color="#0072B2", markersize=4)
    axes[1].loglog(result.widths, result.shuffled, "s", color="#D55E00", markersize=4)
    axes[1].loglog(result.widths, result.bound.mean(axis=1), label="bound", **THEORY)
    axes[1].set(xlabel="width m", ylabel="loss (squares: other neurons)")
    for axis in axes:
        axis.legend(fontsize=7)
    return figure
