"""One step of gradient descent finds the clusters: most neurons that move far point at one of them.

With a symmetric start and a penalty that forgets it, a neuron is after one step a multiple of
G(w, b) = E[y x 1[⟨w, x⟩ > b]]. If the bias b is as large as a neuron's response to a cluster, few
neurons see any cluster, most of these only one, and G points at its mean. How probably it does so
within a cone, and with a least length, is what the theory of gradient features is built on.

Here G is known in closed form. Monte Carlo must agree with it, the mean over a sample must have
Bernstein's tail, directions must be found by one who does not know them, and in every start there
must be as many neurons along each direction as the probability promises. With a bias that is too
small neurons see several clusters at once, and the directions are not found.
Of mixtures the source says that σ_jI is the covariance, but its formulas take σ_j for a standard
deviation; p_j are shares of all samples, not of one label's; and inputs are not bounded.

Source: shi · gradient-features · Defs 3.5, 3.7, Lemma B.18; shi · nice-neurons · Lemma 3.13;
shi · case-mog · B.5.2.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    at_most,
    holds,
    identity,
    mean_between,
    median_at_least,
    median_at_most,
    probability_at_least,
)
from theorylab.data import GaussianMixture
from theorylab.data.mixtures import orthogonal_mixture, separable_law
from theorylab.experiments.checks import refuse_negative, refuse_nonpositive
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features.gradient import (
    Budget,
    Terms,
    bernstein_tail,
    blind_directions,
    cluster_case,
    cone_members,
    frontier,
    hyper_parameters,
    longer_probability,
    mixture_gradients,
    nice_neurons,
    reduced_mixture,
    reduced_weights,
    sample_radius,
    sampled_gradients,
    untuned_terms,
)
from theorylab.numerics import clopper_pearson
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"G(w, b) = \mathbb{E}[y\,x\,\mathbb{1}[w^\top x > b]]"

GRADIENT = Source("shi", "gradient-features", "Defs 3.5, 3.7")
SAMPLED = Source("shi", "gradient-features", "Lemma B.18")
BOUND = Source("shi", "gfl-main-bound", "Theorems B.11, B.23")
NICE = Source("shi", "nice-neurons", "Lemmas 3.13, B.5")
MIXTURE = Source("shi", "case-mog", "B.5.2, Assumption 3.1")

FAILURE = 0.01  # δ, of samples that are longer than B_x
TOO_SMALL = 0.2  # the control's threshold over the experiment's: neurons see several clusters


@dataclass(frozen=True)
class Config:
    """Clusters along axes, and the first gradients of many neurons."""

    dimension: int = 64
    num_clusters: int = 8
    deviation: float = 0.5  # of a cluster, whose mean is √d long
    threshold: float = 1.5  # bias over the standard deviation √d of ⟨w, μ⟩
    opening: float = 0.1  # γ
    num_neurons: int = 2000  # that a blind search looks at
    width: int = 4000  # m, the neurons of every start
    num_samples: int = 20000  # of Monte Carlo
    num_starts: int = 1000  # in which nice neurons are counted
    num_repetitions: int = 2000  # of a mean over few samples, for its tail
    num_seeds: int = 8  # blind searches, at least 6 to conclude
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_negative(self)
        if not 2 <= self.num_clusters < self.dimension:
            raise ValueError(
                f"num_clusters must be from 2 to dimension - 1, got {self.num_clusters}."
            )
        refuse_nonpositive(self, "deviation", "threshold")
        if not 0 < self.opening < 0.3:
            raise ValueError(f"opening must be in (0, 0.3), got {self.opening}.")
        counts = ("num_neurons", "width", "num_samples", "num_starts", "num_repetitions")
        for name in (*counts, "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**8:
                raise ValueError(f"{name} must be from 1 to 10^8, got {getattr(self, name)}.")


PRESETS = {
    "smoke": Config(
        dimension=32,
        num_clusters=4,
        num_neurons=800,
        width=2400,
        num_samples=4000,
        num_starts=500,
        num_repetitions=500,
        num_seeds=6,
    ),
    "paper": Config(num_samples=10**6, num_neurons=5000, num_starts=10000),
}


class Result(NamedTuple):
    """What was measured: clusters (r), seeds (s), starts (i), openings (g), least norms (l)."""

    deviations: Float[np.ndarray, " m"]  # ‖G̃ − G‖ over its error, for some neurons
    misread: Float[np.ndarray, " m"]  # the same, if σ_j² is taken for σ_j in G
    weights: Float[np.ndarray, " 2"]  # Σ p_j of the clusters with either label
    longer: Float[np.ndarray, " 2"]  # Pr[‖x‖ > B_x], and times the number of samples
    distances: Float[np.ndarray, " z"]  # of a mean over few samples
    tail_low: Float[np.ndarray, " z"]  # lower ends of the shares of means that are farther
    tail_bound: Float[np.ndarray, " z"]
    exact_shares: Float[np.ndarray, " r"]  # p̂ of G in the cone
    sampled_shares: Float[np.ndarray, " r"]  # p̂ of G̃ in the wider cone
    cosines: Float[np.ndarray, "s r"]  # of each mean with the nearest found direction
    control_cosines: Float[np.ndarray, "s r"]  # with a bias that is too small
    probability: float  # p̂, over many neurons and all directions
    width: int  # m, in every start
    counts: Int[np.ndarray, "i r"]  # nice neurons
    astray: Int[np.ndarray, " i"]  # neurons along a direction that is none
    openings: Float[np.ndarray, " g"]
    least_norms: Float[np.ndarray, " l"]
    frontier: Float[np.ndarray, "g l"]
    terms: Float[np.ndarray, "g 4"]  # of the main bound, untuned, at every opening (see Terms)


def memory(config: Config) -> int:
    """Bytes of all pairs of gradients, and of the samples' activations."""
    return 4 * (3 * config.num_neurons**2 + 2 * 1000 * config.num_neurons)


def run(config: Config) -> Result:
    """Gradients in closed form and by Monte Carlo, blind searches, counts in many starts."""
    keys = jax.random.split(jax.random.key(config.seed), 5)
    law = orthogonal_mixture(config.num_clusters, config.dimension, 1.0, config.deviation)
    bias, floor = config.threshold * config.dimension**0.5, _least_norm(config)
    report("comparing Monte Carlo with the closed form", 0.0)
    weights = jax.random.normal(keys[0], (config.num_neurons, config.dimension))
    biases = jnp.full(config.num_neurons, bias)
    exact = jax.jit(mixture_gradients)(law, weights, biases)
    sampled = jax.jit(sampled_gradients, static_argnums=(1, 4))(
        keys[1], law.sample, weights, biases, config.num_samples
    )
    squared = law._replace(deviations=law.deviations**2)
    misread = jax.jit(mixture_gradients)(squared, weights, biases)
    gaps, wrong = (jnp.linalg.norm(sampled.gradients - each, axis=1) for each in (exact, misread))
    beta = float(gaps.max())
    wider = (config.opening + beta / floor, floor - beta)
    report("searching blindly", 0.3)
    searched = ensemble(
        partial(_searched, law=law, config=config), jax.random.split(keys[2], config.num_seeds)
    )
    report("counting nice neurons", 0.6)
    counted = ensemble(
        partial(_counted, law=reduced_mixture(law), config=config),
        jax.random.split(keys[3], config.num_starts),
    )
    distances, low, bound = _tail(keys[4], config)
    openings = np.linspace(0.01, 0.3, 30)
    least = floor * np.array([0.5, 1.0, 1.5])
    grid = frontier(exact, law.directions[0], jnp.asarray(openings), jnp.asarray(least))
    shares = np.asarray(grid) / config.num_neurons
    long = np.linalg.norm(exact, axis=1) >= floor
    radius = sample_radius(law, config.num_samples, FAILURE)
    return Result(
        deviations=np.asarray(gaps / sampled.errors)[long],
        misread=np.asarray(wrong / sampled.errors)[long],
        weights=np.array([law.probabilities[law.labels == label].sum() for label in (-1, 1)]),
        longer=np.array([1, config.num_samples]) * longer_probability(law, radius),
        distances=distances,
        tail_low=low,
        tail_bound=bound,
        exact_shares=_shares(exact, law.directions, config.opening, floor),
        sampled_shares=_shares(sampled.gradients, law.directions, *wider),
        cosines=np.asarray(searched[0]),
        control_cosines=np.asarray(searched[1]),
        probability=float(counted[2].mean()) / config.width,
        width=config.width,
        counts=np.asarray(counted[0]),
        astray=np.asarray(counted[1]),
        openings=openings,
        least_norms=least,
        frontier=shares,
        terms=np.array(
            [_terms(law, *pair, config) for pair in zip(openings, shares[:, 1], strict=True)]
        ),
    )


def _terms(law: GaussianMixture, opening: float, share: float, config: Config) -> Terms:
    """The terms of the main bound, with the p̂ of this opening and the theorem's step size."""
    floor = _least_norm(config)
    case = cluster_case(law, tau=1.0)
    constants = replace(
        case.constants,
        opening=float(opening),
        probability=max(float(share), 1 / config.num_neurons),
        gradient_norm=floor,
    )
    budget = Budget(config.dimension, config.width, num_steps=1, num_samples=config.num_samples)
    chosen = hyper_parameters(constants, budget)
    budget = replace(budget, num_steps=max(round(chosen.num_steps), 1))
    return untuned_terms(constants, budget, chosen.rate)


def _least_norm(config: Config) -> float:
    """B_G: half of p_B‖μ‖, the length of G where one whole cluster counts."""
    return 0.5 * config.dimension**0.5 / config.num_clusters


def _shares(found: jax.Array, directions: jax.Array, opening: float, floor: float) -> np.ndarray:
    return np.asarray(cone_members(found, directions, opening, floor).mean(axis=0))


def _searched(key: RandomKey, law: GaussianMixture, config: Config) -> tuple[jax.Array, jax.Array]:
    """Cosines of the means with directions found blindly, at the threshold and below it."""
    weights = jax.random.normal(key, (config.num_neurons, config.dimension))

    def cosines(threshold: jax.Array) -> jax.Array:
        biases = jnp.full(config.num_neurons, threshold * config.dimension**0.5)
        gradients = mixture_gradients(law, weights, biases)
        found = blind_directions(gradients, config.num_clusters).directions
        return jnp.abs(found @ law.directions.T).max(axis=0)

    both = jax.lax.map(cosines, config.threshold * jnp.array([1.0, TOO_SMALL]))
    return both[0], both[1]


def _counted(
    key: RandomKey, law: GaussianMixture, config: Config
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Nice neurons of a start by direction, those along no feature, and all in double cones."""
    weight_key, output_key = jax.random.split(key)
    shape = (config.width, config.num_clusters)
    weights = reduced_weights(weight_key, *shape, config.dimension)
    biases = jnp.full(config.width, config.threshold * config.dimension**0.5)
    gradients = mixture_gradients(law, weights, biases)
    outputs = jax.random.normal(output_key, (config.width,))
    middle = law.directions.sum(axis=0, keepdims=True) / config.num_clusters**0.5
    cone = (config.opening, _least_norm(config))
    nice = nice_neurons(outputs, gradients, law.directions, *cone)
    astray = nice_neurons(outputs, gradients, middle, *cone)
    double = cone_members(gradients, law.directions, *cone)
    return nice.sum(axis=0), astray.sum(), double.sum(axis=0).mean()


def _tail(key: RandomKey, config: Config) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How often means of 50 samples of a bounded law are farther from G than z."""
    law, count = separable_law(jnp.ones(4), margin=0.5, spread=1.0, radius=1.0), 50
    weights, biases = jnp.array([[1.0, -0.5, 0.5, 0.0]]), jnp.array([0.2])
    keys = jax.random.split(key, config.num_repetitions)
    sampled = partial(sampled_gradients, sampler=law.sample, weights=weights, biases=biases)
    means = jax.jit(jax.vmap(lambda key: sampled(key, num_samples=count).gradients[0]))(keys)
    # G is the mean of all means, for it is √repetitions times nearer to it than each of them.
    gaps = np.linalg.norm(np.asarray(means) - np.asarray(means).mean(axis=0), axis=1)
    square, largest = float(law.mean_square), float(law.largest_norm)
    distances = np.linspace(0.05, 0.99, 20) * square / largest
    low = [clopper_pearson(int((gaps >= z).sum()), len(gaps), 0.99).low for z in distances]
    bound = [float(bernstein_tail(float(z), count, square, largest)) for z in distances]
    return distances, np.array(low), np.array(bound)


# In γ the bound trades more neurons in the cone for less exact ones; 0.1 is the γ used here.
CLAIMS = (
    Claim(
        "Gradients by Monte Carlo are within four of their errors of the closed form.",
        judge=lambda r, c: at_most(r.deviations.max(), 4.0),
        source=GRADIENT,
        kind="corrected",
        formula=r"G = \sum_j p_j y_j [\Phi(t_j) \mu_j + \sigma_j \varphi(t_j) w/\|w\|]",
    ),
    Claim(
        "They are if clusters have the covariance σ_jI, not σ_j²I, with the formula's σ_j.",
        judge=lambda r, c: at_most(r.misread.max(), 4.0),
        source=MIXTURE,
        kind="printed",
    ),
    Claim(
        "The clusters of one label have the weights p_j given it, which sum to 1.",
        judge=lambda r, c: identity(r.weights, np.ones(2), 1e-6),
        source=MIXTURE,
        kind="printed",
    ),
    Claim(
        "The weights p_j are shares of all samples, and sum to 1 over both labels.",
        judge=lambda r, c: identity(r.weights.sum(), 1.0, 1e-6),
        source=MIXTURE,
        kind="corrected",
    ),
    Claim(
        "Inputs are bounded: none is longer than a B_x that n samples keep.",
        judge=lambda r, c: at_most(r.longer[0], 0.0),
        source=MIXTURE,
        kind="printed",
    ),
    Claim(
        "They are not, but all of n samples keep B_x, except with a probability of 0.01.",
        judge=lambda r, c: holds(np.array([r.longer[0], FAILURE - r.longer[1]])),
        source=MIXTURE,
        kind="corrected",
    ),
    Claim(
        "The mean over a sample has Bernstein's tail, at every distance (99 % band).",
        judge=lambda r, c: holds(r.tail_bound - r.tail_low),
        source=SAMPLED,
        formula=r"P[\|\tilde G - G\| \ge z] \le e^{1/4 - n z^2/8 B_{x2}}",
    ),
    Claim(
        "In a cone wider by the error, a sample finds every direction at least as often.",
        judge=lambda r, c: holds(r.sampled_shares - r.exact_shares, rounding=1e-6),
        source=SAMPLED,
    ),
    Claim(
        "A blind search finds every cluster, with a cosine of at least 0.95.",
        judge=lambda r, c: median_at_least(r.cosines.min(axis=1), 0.95),
        source=GRADIENT,
    ),
    Claim(
        "With a bias five times smaller, some cluster is not found.",
        judge=lambda r, c: median_at_most(r.control_cosines.min(axis=1), 0.9),
        source=GRADIENT,
        kind="control",
    ),
    Claim(
        "The main bound's terms of width and opening have their least sum in a cone below 0.1.",
        judge=lambda r, c: at_most(r.openings[r.terms[:, :2].sum(axis=1).argmin()], 0.1),
        source=BOUND,
    ),
    Claim(
        "In 99 % of starts every direction has at least mp/4 nice neurons.",
        judge=lambda r, c: probability_at_least(
            int((r.counts.min(axis=1) >= r.width * r.probability / 4).sum()),
            len(r.counts),
            0.99,
        ),
        source=NICE,
        formula=r"|G_{(D, s), \text{Nice}}| \ge mp/4",
    ),
    Claim(
        "A neuron is nice with about half of the probability of the double cone.",
        judge=lambda r, c: mean_between(
            r.counts.mean(axis=1) / (r.width * r.probability), 0.45, 0.6
        ),
        source=NICE,
    ),
    Claim(
        "Along the middle of all directions, which is no feature, there are fewer than mp/4.",
        judge=lambda r, c: holds(r.width * r.probability / 4 - r.astray),
        source=NICE,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """The probability of a cone, the tail of a mean, the neurons of all starts, a bound's terms."""
    figure, axes = panels(
        "probability of a cone",
        "mean over 50 samples",
        "nice neurons",
        "terms of the main bound, unit constants",
    )
    for shares, floor in zip(result.frontier.T, result.least_norms, strict=True):
        axes[0].plot(result.openings, shares, label=f"‖G‖ ≥ {floor:.2g}")
    axes[0].set(xlabel="opening γ", ylabel="p̂")
    axes[1].semilogy(result.distances, np.maximum(result.tail_low, 1e-4), "o", label="measured")
    axes[1].semilogy(result.distances, result.tail_bound, label="bound", **THEORY)
    axes[1].set(xlabel="distance z", ylabel="P(‖G̃ − G‖ ≥ z)")
    axes[2].hist(np.ravel(result.counts), bins=30)
    axes[2].axvline(result.width * result.probability / 4, label="mp/4", **THEORY)
    axes[2].set(xlabel="neurons along a direction", ylabel="starts × directions")
    bottom = np.zeros(len(result.openings))
    for name, values in zip(Terms._fields, result.terms.T, strict=True):
        axes[3].bar(result.openings, values, width=0.008, bottom=bottom, label=name)
        bottom = bottom + values
    axes[3].set(xlabel="opening γ", ylabel="sum")
    for axis in axes:
        axis.legend(fontsize=7)
    return figure
