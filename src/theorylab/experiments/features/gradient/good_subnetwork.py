"""After one step, √m neurons with the right output weights already make a good network.

The first step turns neurons to gradient features. Among those that point along a direction of g*,
and have about the right length, an output layer that is zero elsewhere makes g* again, up to errors
that a bound with explicit constants covers. The number of such neurons grows like the root of the
width. As many others of the same network, with the same output weights, make no good network. (The
source asks for a positive output weight at the start; but a cluster with label −1 has G pointing
away from it, and is found by neurons with a negative one.)

The data are four clusters, and g* has a detector for each. The bound is far above 1 at these
widths: it holds, and says nothing yet. What it adds up is sharp for each neuron, but the errors of
many neurons cancel.

Source: shi · good-subnet · Lemmas 3.14, B.6.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    exponent_between,
    holds,
    median_at_least,
    median_at_most,
    median_between,
    ordered,
)
from theorylab.data import GaussianMixture
from theorylab.features import gradient
from theorylab.fields import Count, Increasing, Plural, Positive
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._clusters import Clusters, Opening, drawn_gradients
from ._subnetworks import (
    COUNT,
    NEURONS,
    Task,
    grows_like_root,
    loosely,
    subnetwork_figure,
    take_step,
)

PRECISION = "float32"
FORMULA = (
    r"\tilde a_i = a_j^* \max(|b_j^*|, B_\epsilon) / (|\Lambda_j| \tilde b), \ i \in \Lambda_j"
)

LEMMA = Source("shi", "good-subnet", "Lemma B.6, (B.25)")

TAU = 1.0  # τ of the detectors
LOOSE = "lab: chosen for this experiment, on the smoke preset with seed 0"
PROBED = 20000  # neurons that the probability of a direction is measured with


@dataclass(frozen=True)
class Config(Clusters):
    """Clusters, networks of growing width after one step, and their good subnetworks."""

    dimension: Plural = 128
    num_clusters: Plural = 4
    threshold: Positive = 1.0
    opening: Opening = 0.02
    widths: Increasing[Count] = (2000, 8000, 32000, 128000)  # m
    num_test: Count = 2000


PRESETS = {
    "smoke": Config(widths=(4000, 32000), num_test=200, num_seeds=6),
    "paper": Config(dimension=1024, widths=(10**4, 10**5, 10**6, 10**7), num_seeds=20),
}


class Result(NamedTuple):
    """What was measured: widths (m), seeds (s), detectors (r)."""

    probability: float  # p̂
    loss: Float[Measured, "m s"]  # of the good subnetwork
    shuffled: Float[Measured, "m s"]  # of the same output weights on other neurons
    distance: Float[Measured, "m s"]  # E|g − g*| of the good subnetwork
    farthest: Float[Measured, "m s"]  # ‖cw − D‖ of the farthest neuron, over ε_a + √(2γ)
    counts: Int[Measured, "m s r"]  # |Λ| for every detector
    positive: Int[Measured, "m s r"]  # those of them with a⁽⁰⁾ > 0, which a in place of |a| leaves
    norm: Float[Measured, "m s"]  # ‖ã‖₂
    largest: Float[Measured, "m s"]  # ‖ã‖_∞
    target: Float[Measured, "m s"]  # loss of g*
    bound: Float[Measured, "m s"]


def memory(config: Config) -> int:
    """Bytes of neurons in few dimensions with 50 answers each, and of test samples, twice."""
    neurons = max(*config.widths, PROBED) * (6 * config.num_clusters + 2 * 100)
    samples = config.num_test * 4 * config.num_clusters
    return 4 * (2 * (neurons + samples) + 4 * config.num_clusters * config.dimension)


def run(config: Config) -> Result:
    """One step in networks of every width, and their good subnetworks."""
    small = gradient.reduced_mixture(config.law)
    key, probe_key = jax.random.split(jax.random.key(config.seed))
    report("the probability of a direction", 0.0)
    found = jax.jit(partial(_gradients, width=PROBED, config=config))(probe_key, small)
    cone = (config.opening, config.least_norm)
    share = float(gradient.cone_members(found, small.directions, *cone).mean())
    task, levels = _task(small, share, config), []
    for place, width in enumerate(config.widths):
        report(f"width {width}", 0.1 + 0.9 * place / len(config.widths))
        one = partial(_measured, law=small, task=task, width=width, config=config)
        levels.append(ensemble(one, jax.random.split(key, config.num_seeds)))
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *levels)
    bound = task.bounds(config.widths, 0.0)[:, None] + stacked["target"]
    return Result(probability=share, bound=bound, **stacked)


def _task(small: GaussianMixture, share: float, config: Config) -> Task:
    """The detectors in few dimensions, with the measured p̂ and the asked γ."""
    law, r = config.law, config.num_clusters
    kappa = gradient.detector_threshold(law, TAU)
    constants = gradient.TheoremConstants(
        num_neurons=r,
        entry_bound=1 / kappa,
        norm_bound=r**0.5 / kappa,
        bias_bound=2 * kappa,
        mean_norm=float(law.mean_norm),
        mean_square=float(law.mean_square),
        largest_norm=10 * float(law.mean_norm),
        probability=share,
        opening=config.opening,
        gradient_norm=config.least_norm,
    )
    heights = jnp.full(r, constants.bias_bound)
    target = gradient.ReluNetwork(small.labels * constants.entry_bound, small.directions, heights)
    # B_ε is the detectors' bias, so that it does not change them; it is fixed while m grows.
    return Task(target, constants, floor=constants.bias_bound)


def _gradients(key: RandomKey, law: GaussianMixture, width: int, config: Config) -> Array:
    return drawn_gradients(key, law, width, config.dimension, config.bias)


def _measured(
    key: RandomKey, law: GaussianMixture, task: Task, width: int, config: Config
) -> dict[str, Array]:
    """The good subnetwork of one start, by the names of `Result`."""
    output_key, weight_key, test_key, shuffle_key = jax.random.split(key, 4)
    gradients = _gradients(weight_key, law, width, config)
    test = gradient.empirical_law(law.sample(test_key, config.num_test))
    start = take_step(output_key, shuffle_key, gradients, jnp.ones(width), task, test)
    members, outputs = start.found.members, start.found.outputs
    # w⁽¹⁾ is a⁽⁰⁾G, and where ε_a < 1 no negative length is within it of 1.
    above = (start.moved.weights * gradients).sum(axis=1) > 0
    return {
        "loss": start.loss,
        "shuffled": start.shuffled,
        "distance": start.distance,
        "farthest": start.farthest,
        "counts": members.sum(axis=0),
        "positive": (members & above[:, None]).sum(axis=0),
        "norm": jnp.linalg.norm(outputs),
        "largest": jnp.abs(outputs).max(),
        "target": gradient.risk(task.target, test),
    }


def _per_root(result: Result, config: Config) -> np.ndarray:
    """|Λ|/√(mp) of a detector on average, at the largest width."""
    root = (config.widths[-1] * result.probability) ** 0.5
    return result.counts[-1].mean(axis=1) / root


CLAIMS = (
    LEMMA.claim(
        "The loss of the good subnetwork is below its bound, at every width and start.",
        lambda r, c: holds(r.bound - r.loss),
        formula=r"rB_{a1}(\epsilon_a B_{x1} + B_{x1}\sqrt{2\gamma} + B_\epsilon) + L(g^*)",
    ),
    LEMMA.found(
        "The bound is loose: 20 to 1000 times E|g − g*|, which its proof bounds.",
        lambda r, c: loosely(r.bound, r.distance, 20.0, 1000.0),
        demand=LOOSE,
    ),
    NEURONS.claim(
        "Each chosen neuron, at the length of its detector, is within ε_a + √(2γ) of it.",
        lambda r, c: holds(1 - r.farthest, rounding=1e-5),
        formula=r"\|c_j w_i^{(1)} / \tilde b - D_j\| \le \epsilon_a + \sqrt{2\gamma}",
    ),
    NEURONS.control(
        "Within half of that it is not.",
        lambda r, c: median_at_least(r.farthest.min(axis=0), 0.5),
    ),
    *COUNT.erratum(
        printed=(
            "Every neuron of g* has some, whose lengths have the sign of their outputs.",
            lambda r, c: holds(r.positive[-1] - 1),
            r"\big| -a_i^{(0)} \ell'(0) \eta \|G_i\| c_j / \tilde b - 1 \big| \le \epsilon_a",
        ),
        corrected=(
            "Every neuron of g* has some, of either sign, at every width and start.",
            lambda r, c: holds(r.counts - 1),
            r"\big| |a_i^{(0)} \ell'(0)| \eta \|G_i\| c_j / \tilde b - 1 \big| \le \epsilon_a",
        ),
        quote="be the set of i's such that condition Equation (B.34) or Equation (B.35) are"
        " satisfied",
    ),
    COUNT.claim(
        "Their number grows like the square root of the width: exponent 0.5 ± 0.1.",
        lambda r, c: grows_like_root(c.widths, r.counts.sum(axis=2)),
        formula=r"|\Lambda_j| = \Omega(\sqrt{mp}), \ \|\tilde a\|_0 = O(r \sqrt{mp})",
        demand="lab: ± 0.1, chosen for this experiment",
    ),
    COUNT.found(
        "It is 3 to 5 times √(mp) for each neuron of g*, at the largest width.",
        lambda r, c: median_between(_per_root(r, c), 3, 5),
        demand="lab: the smoke preset, seed 0, has 3.7",
    ),
    COUNT.claim(
        "The norm of their output weights falls like its fourth root or faster: -0.25 + 0.1.",
        lambda r, c: exponent_between(np.array(c.widths), r.norm.T, -np.inf, -0.15),
        formula=r"\|\tilde a\|_2 = O(B_{a2} B_b / \tilde b (mp)^{1/4})",
        demand="lab: + 0.1, chosen for this experiment",
    ),
    COUNT.claim(
        "The largest of them falls like its square root or faster: exponent -0.5 + 0.1.",
        lambda r, c: exponent_between(np.array(c.widths), r.largest.T, -np.inf, -0.4),
        formula=r"\|\tilde a\|_\infty = O(B_{a1} B_b / \tilde b \sqrt{mp})",
        demand="lab: + 0.1, chosen for this experiment",
    ),
    LEMMA.found(
        "At the largest width its loss is below 0.2; that of the zero network is 1.",
        lambda r, c: median_at_most(r.loss[-1], 0.2),
    ),
    LEMMA.control(
        "The same output weights on other neurons make no good network.",
        lambda r, c: ordered(r.loss[-1] + 0.3, r.shuffled[-1]),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Numbers of neurons and losses over widths."""
    losses = {"good subnetwork": result.loss, "other neurons": result.shuffled}
    bounds = {"bound": result.bound.mean(axis=1)}
    return subnetwork_figure(config.widths, {"all": result.counts.sum(axis=2)}, losses, bounds)
