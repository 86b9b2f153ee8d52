"""A network finds a parity of patterns that no fixed features find, if inputs have structure.

Inputs are sums of patterns of a dictionary; the label is the parity of k = 5 relevant ones. In the
mixture half of the inputs have all or none of them, so that each tells a little about the label; as
fair coins they tell nothing. Six columns: the network in three stages; its tangent model (finite
NTK) and random features, with as many steps and the best of several learning rates; probes after
one and two steps; and the network on fair coins.

The best classifier with one threshold of the count is right on 27/32 = 84.4 % of the mixture: this
is where fixed features stop. The next plateau, three changes of sign, is 59/64.

The probe after one step fails because the theory's first step leaves weights of 1e-10, not because
they point elsewhere: multiplied by one constant they serve as well as those of the second step.

Source: shi · exp-parity-six · Table A.1, Figs 2.1, 2.2; shi · emergence-meters · A.7.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    at_least,
    at_most,
    between,
    identity,
    median_at_least,
    median_at_most,
    median_between,
    ordered,
)
from theorylab.data import dictionary_data, independent_patterns, parity_counts, parity_mixture
from theorylab.experiments.drawing import THEORY, directions, medians, panels
from theorylab.features.emergence import (
    Setting,
    compare_laws,
    expected_largest_cosine,
    good_network,
    outputs,
    theory_of,
    threshold_ceiling,
    weight_maps,
)
from theorylab.progress import report

PRECISION = "float32"
FORMULA = r"y = \prod_{i \in A} (2\tilde\phi_i - 1), \quad \nabla_{w_i} L = -a_i \sum_j M_j T_j"

TABLE = Source("shi", "exp-parity-six", "Table A.1")
METERS = Source("shi", "emergence-meters", "§2.5, A.7")
STAGES = Source("shi", "three-stage-training", "§2.3.1, A.4")
FOOTNOTE = Source("shi", "three-stage-training", "footnote 1")
GOOD = Source("shi", "good-network", "Lemma 2.5")
DATA = Source("shi", "dict-data", "§2.3, A.5")
UNEVEN = 0.2  # a probability of patterns outside of A that is not ½


@dataclass(frozen=True)
class Config:
    """Six ways to learn a parity of patterns, with and without structure in the inputs."""

    num_patterns: int = 100  # D
    num_relevant: int = 5  # k, odd
    dimension: int = 500  # d, which matters to cosines only
    num_pairs: int = 300  # m, half the number of neurons
    num_samples: int = 50000  # n
    num_test: int = 5000
    num_steps: int = 600  # T, of every method
    batch_size: int = 1000  # samples in a step; the network's first two take all
    keep: float = 0.0  # of the start after the first step; 0: forgotten, as in the theory
    num_seeds: int = 6  # at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        parity_mixture(self.num_patterns, self.num_relevant)  # refuses what does not fit
        self.setting.check(self.num_patterns)
        if not 0 <= self.keep <= 1:
            raise ValueError(f"keep must be in [0, 1], got {self.keep}.")
        if not 1 <= self.num_seeds <= 10**6:
            raise ValueError(f"num_seeds must be in [1, 10⁶], got {self.num_seeds}.")

    @property
    def setting(self) -> Setting:
        """Sizes that all methods share."""
        return Setting(
            self.num_pairs,
            self.num_samples,
            self.num_test,
            self.num_steps,
            self.batch_size,
            self.dimension,
            self.keep,
        )


PRESETS = {
    "smoke": Config(
        num_patterns=30,
        num_pairs=40,
        num_samples=16000,
        num_test=3000,
        num_steps=300,
        batch_size=250,
    ),
    "paper": Config(num_test=50000, num_seeds=10),
}


class Result(NamedTuple):
    """What was measured: seeds (s), recorded steps (t). Accuracies are of tests."""

    steps: Int[np.ndarray, " t"]
    network: Float[np.ndarray, "s t"]
    tangent: Float[np.ndarray, "s t"]
    random: Float[np.ndarray, "s t"]
    one_step: Float[np.ndarray, "s t"]  # probe
    one_step_scaled: Float[np.ndarray, "s t"]  # with weights as long as after the second step
    two_step: Float[np.ndarray, "s t"]  # probe
    fair_network: Float[np.ndarray, "s t"]  # without structure
    fair_tangent: Float[np.ndarray, "s t"]
    fair_random: Float[np.ndarray, "s t"]
    train: Float[np.ndarray, "s 6"]  # in training: network, tangent, random, steps 1 and 2, fair
    cosines: Float[np.ndarray, "s 4"]  # largest: start, first and second step, end
    fair_cosines: Float[np.ndarray, "s 4"]
    noise: Float[np.ndarray, "s 2"]  # over signal, in the two steps
    floor: Float[np.ndarray, "s 2"]  # of it, by the number of samples
    improved: Float[np.ndarray, " s"]  # share of neurons less noisy in the second step
    dead: Float[np.ndarray, " s"]  # share closed after the first step but for the noise inside
    expected_cosine: float  # largest of random directions
    ceiling: float  # of one threshold of the count
    of_five: Float[np.ndarray, "2"]  # the same for k = 5, and of three changes of sign
    good_error: float  # largest |g* − y| of the network written down by hand
    covariances: Float[np.ndarray, "2"]  # of patterns outside of A at p_o = ½, and at UNEVEN
    maps: Float[np.ndarray, "3 v 2"]  # weights of one seed in the plane, then the two targets


def memory(config: Config) -> int:
    """Bytes of data, weights and hidden layers of two seeds at once."""
    return config.setting.bytes_of(config.num_patterns)


def run(config: Config) -> Result:
    """Train all methods on both laws."""
    report("training all methods, with and without structure", 0.0)
    patterns, k, setting = config.num_patterns, config.num_relevant, config.setting
    mixture = parity_mixture(patterns, k)
    fair = independent_patterns(patterns, k, parity_counts(k))
    theory = theory_of(mixture, setting)  # fair coins have no γ to scale by
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    found = compare_laws(keys, (mixture, fair), (theory, theory), setting, (True, False))
    report("looking at the weights", 0.95)
    some = dictionary_data(jax.random.key(config.seed), mixture, 1000)
    errors = outputs(good_network(mixture), some.x) - some.y

    def tests(scored: jax.Array) -> np.ndarray:
        return np.asarray(scored)[..., 0]

    probes = tests(found.probes.test)[0]
    trained = [tests(part.train)[0] for part in (found.network, found.tangent, found.random)]
    probed = tests(found.probes.train)[0]
    return Result(
        steps=setting.steps,
        network=tests(found.network.test)[0],
        tangent=tests(found.tangent.test)[0],
        random=tests(found.random.test)[0],
        one_step=probes[:, 0],
        one_step_scaled=probes[:, 1],
        two_step=probes[:, 2],
        fair_network=tests(found.network.test)[1],
        fair_tangent=tests(found.tangent.test)[1],
        fair_random=tests(found.random.test)[1],
        train=np.stack(
            [*trained, probed[:, 0], probed[:, 2], tests(found.network.train)[1]], axis=1
        ),
        cosines=np.asarray(found.cosines[0]),
        fair_cosines=np.asarray(found.cosines[1]),
        noise=np.asarray(found.noise[0]),
        floor=np.asarray(found.floor[0]),
        improved=np.asarray(found.improved[0]),
        dead=np.asarray(found.dead[0]),
        expected_cosine=expected_largest_cosine(config.num_pairs, config.dimension),
        ceiling=threshold_ceiling(mixture, 1),
        of_five=np.array([threshold_ceiling(parity_mixture(5, 5), c) for c in (1, 3)]),
        good_error=float(abs(errors).max()),
        covariances=np.array(
            [mixture.other_covariance, parity_mixture(patterns, k, UNEVEN).other_covariance]
        ),
        maps=weight_maps(np.asarray(found.weights), k),
    )


def _last(curve: np.ndarray) -> np.ndarray:
    """Accuracy at the end."""
    return curve[:, -1]


# Thresholds are the catalogue's. Its own runs have random features between 71 and 79 %, by their
# learning rate, and Table A.1 76 %: 4 points around that. Fixed features are the best of a sweep.
CLAIMS = (
    Claim(
        "The network learns the parity: at least 99.5 % of tests are right.",
        judge=lambda r: median_at_least(_last(r.network), 0.995),
        source=TABLE,
    ),
    Claim(
        "The tangent model stays below the ceiling of one threshold, 27/32 if k = 5, + 4 points.",
        judge=lambda r: median_at_most(_last(r.tangent), r.ceiling + 0.04),
        source=TABLE,
    ),
    Claim(
        "The tangent model was trained well: at least 78 %.",
        judge=lambda r: median_at_least(_last(r.tangent), 0.78),
        source=TABLE,
    ),
    Claim(
        "Random features are between 67 and 83 %.",
        judge=lambda r: median_between(_last(r.random), 0.67, 0.83),
        source=TABLE,
    ),
    Claim(
        "The network is at least 12 points better than the tangent model, seed by seed.",
        judge=lambda r: ordered(_last(r.tangent) + 0.12, _last(r.network)),
        source=TABLE,
    ),
    Claim(
        "Of five patterns a threshold of the count has 27/32 at best, three changes of sign 59/64.",
        judge=lambda r: identity(r.of_five, np.array([27 / 32, 59 / 64]), 1e-12),
        source=TABLE,
    ),
    Claim(
        "Without structure the network is at chance.",
        judge=lambda r: median_between(_last(r.fair_network), 0.48, 0.53),
        source=TABLE,
        kind="control",
    ),
    Claim(
        "Without structure fixed features are at chance too.",
        judge=lambda r: median_between(
            np.maximum(_last(r.fair_tangent), _last(r.fair_random)), 0.48, 0.53
        ),
        source=TABLE,
        kind="control",
    ),
    Claim(
        "After two steps some neuron points to the relevant patterns: cos ≥ 0.99.",
        judge=lambda r: median_at_least(r.cosines[:, 2], 0.99),
        source=TABLE,
        formula=r"\max_i \cos(w_i, \sum_{j \in A} M_j) \ge 0.99",
    ),
    Claim(
        "Weights that do not move have the largest cosine of random directions, within 30 %.",
        judge=lambda r: between(r.cosines[:, 0].mean() / r.expected_cosine, 0.7, 1.3),
        source=TABLE,
    ),
    Claim(
        "Without structure no neuron points to the relevant patterns: cos stays below 0.5.",
        judge=lambda r: median_at_most(r.fair_cosines[:, 2:].max(axis=1), 0.5),
        source=TABLE,
        kind="control",
    ),
    Claim(
        "A probe of the second step's weights gets beyond 59/64, the last plateau before all.",
        judge=lambda r: median_at_least(_last(r.two_step), 59 / 64 + 0.01),
        source=TABLE,
    ),
    Claim(
        "A probe of the first step's weights, as they are, is at chance.",
        judge=lambda r: median_between(_last(r.one_step), 0.48, 0.53),
        source=TABLE,
    ),
    Claim(
        "The first step's features are not good enough: a second step must improve them.",
        judge=lambda r: median_at_most(_last(r.one_step_scaled), 0.9),
        source=TABLE,
        kind="printed",
    ),
    Claim(
        "The first step's weights, multiplied by one constant, get beyond 59/64 too.",
        judge=lambda r: median_at_least(_last(r.one_step_scaled), 59 / 64 + 0.01),
        source=TABLE,
        kind="corrected",
    ),
    Claim(
        "On average the second gradient is less noisy than the first in 95 % of neurons.",
        judge=lambda r: at_least(r.improved.mean(), 0.95),
        source=METERS,
    ),
    Claim(
        "In both steps noise over signal is, on average, within 20 % of what n samples allow.",
        judge=lambda r: at_most(np.abs((r.noise / r.floor).mean(axis=0) - 1).max(), 0.2),
        source=METERS,
        formula=r"\sqrt{p_o(1-p_o)/n}\,\sqrt{E[o^2]}/(\gamma E[o])",
    ),
    Claim(
        "The noise inside neurons is not needed: the first step leaves none of them dead.",
        judge=lambda r: median_at_most(r.dead, 0.05),
        source=FOOTNOTE,
        kind="printed",
    ),
    Claim(
        "Without noise inside about half of the neurons were dead after the first step.",
        judge=lambda r: median_between(r.dead, 0.35, 0.65),
        source=STAGES,
        kind="corrected",
    ),
    Claim(
        "A network of bumps written down by hand has every label to 1e-4.",
        judge=lambda r: at_most(r.good_error, 1e-4),
        source=GOOD,
    ),
    Claim(
        "In the mixture patterns outside of A are independent for every p_o.",
        judge=lambda r: at_most(r.covariances[1], 1e-9),
        source=DATA,
        kind="printed",
    ),
    Claim(
        "They are independent at p_o = ½, and covary at other values.",
        judge=lambda r: at_least(r.covariances[1] - r.covariances[0], 0.01),
        source=DATA,
        kind="corrected",
    ),
)


def plot(result: Result) -> Figure:
    """Accuracy in training, and the weights at the start and after each of two steps."""
    figure, (curves, *maps) = panels(
        "test accuracy", "weights at the start", "after step 1", "after step 2"
    )
    named = {
        "network": result.network,
        "tangent model": result.tangent,
        "random features": result.random,
        "probe, step 1": result.one_step,
        "probe, step 1 scaled": result.one_step_scaled,
        "network, fair coins": result.fair_network,
    }
    medians(curves, result.steps, named)
    curves.axhline(result.ceiling, **THEORY)
    curves.set_xlabel("steps")
    for axis, points in zip(maps, result.maps, strict=True):
        directions(axis, points[:-2], points[-2:])
    return figure
