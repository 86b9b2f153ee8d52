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

That step must be small, or samples are beyond the margin in the second and have no gradient (Lemma
A.13). The theorem prints other values for the two steps than the lemmas that prove it; the network
learns with either. It does not with one learning rate for all blocks in the third stage.

Source: shi · exp-parity-six · Table A.1, Figs 2.1, 2.2; shi · emergence-meters · A.7;
shi · ch2-bounds · Lemmas A.13, A.17, Theorem A.21.
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
    holds,
    median_at_least,
    median_at_most,
    median_between,
    ordered,
)
from theorylab.data import dictionary_data, independent_patterns, parity_mixture
from theorylab.data.dictionary import parity_counts
from theorylab.experiments.checks import refuse_below
from theorylab.experiments.features.emergence._comparison import compare_laws
from theorylab.experiments.features.emergence._six import figure
from theorylab.experiments.features.emergence._tasks import Setting, theory_of
from theorylab.features.emergence import (
    expected_largest_cosine,
    good_network,
    outputs,
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
LEMMAS = Source("shi", "ch2-bounds", "Lemmas A.13, A.17")
REGRET = Source("shi", "ch2-bounds", "Theorem A.21")
THEOREM = Source("shi", "three-stage-training", "Theorem A.20, Lemmas A.12, A.17")
PLATEAU = 59 / 64  # the last before all is right, of three changes of sign if k = 5


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
        refuse_below(self, 1, "num_seeds")

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

    @property
    def is_sources(self) -> bool:
        """Whether network, samples and steps are as many as the source's, or more."""
        return self.num_pairs >= 300 and self.num_samples >= 50000 and self.num_steps >= 600


PRESETS = {
    "smoke": Config(
        num_patterns=30,
        num_pairs=40,
        num_samples=16000,
        num_test=3000,
        num_steps=300,
        batch_size=250,
        num_seeds=6,
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
    theorem: Float[np.ndarray, "s t"]  # network, with the first two steps of Theorem A.20
    equal: Float[np.ndarray, "s t"]  # network, with one learning rate for all blocks
    beyond: Float[np.ndarray, "s 3"]  # share of samples beyond the margin, see `Audit`
    sizes: Float[np.ndarray, "s 3"]  # of a, w and b after two steps, over Lemma A.17's orders
    regret: Float[np.ndarray, " s"]  # margin of Theorem A.21
    is_sources: bool  # whether sizes are the source's, or larger
    expected_cosine: float  # largest of random directions
    ceiling: float  # of one threshold of the count
    good_error: float  # largest |g* − y| of the network written down by hand
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
    printed = theory_of(mixture, setting, printed="theorem")
    equal = theory._replace(rates=(1.0, 1.0, 1.0))
    found = compare_laws(
        keys,
        (mixture, fair, mixture, mixture),
        (theory, theory, printed, equal),
        setting,
        ("probes", "fixed", "network", "network"),
    )
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
        theorem=tests(found.network.test)[2],
        equal=tests(found.network.test)[3],
        beyond=np.asarray(found.audit.beyond[0]),
        sizes=np.asarray(found.audit.sizes[0]),
        regret=np.asarray(found.audit.regret[0]),
        is_sources=config.is_sources,
        expected_cosine=expected_largest_cosine(config.num_pairs, config.dimension),
        ceiling=threshold_ceiling(mixture, 1),
        good_error=float(abs(errors).max()),
        maps=weight_maps(np.asarray(found.weights), k),
    )


def _last(curve: np.ndarray) -> np.ndarray:
    """Accuracy at the end."""
    return curve[:, -1]


def _above(result: Result) -> np.ndarray:
    """The tangent model's accuracy at the end, above the ceiling of one threshold."""
    return _last(result.tangent) - result.ceiling


# Limits at the source's sizes are the catalogue's: [82, 88] % for the tangent model, around the
# ceiling of 84.4 %, [68, 80] % for random features, 99.5 % for what is learned, 12 points with
# p < 0.01 by Student's test (that six signs agree, which is judged, has 2⁻⁶). A smaller network
# with fewer steps has fewer tangent features and leaves them further from their end: 78 %; its
# probes need only be beyond the last plateau. In the catalogue's own run 76.4 % are beyond the
# margin at η = 1; networks of 40 pairs (seeds 101, 102) have 50 to 84 %.
def _least(result: Result, full: float, smaller: float) -> float:
    """A limit at the source's sizes, or that of smaller ones."""
    return full if result.is_sources else smaller


CLAIMS = (
    Claim(
        "The network learns the parity: at least 99.5 % of tests are right.",
        judge=lambda r, c: median_at_least(_last(r.network), 0.995),
        source=TABLE,
    ),
    Claim(
        "The tangent model stops at one threshold: at most 88 % if k = 5, its ceiling + 3.6.",
        judge=lambda r, c: median_at_most(_above(r), 0.88 - 27 / 32),
        source=TABLE,
    ),
    Claim(
        "The tangent model was trained well: at least 82 % if k = 5, or 78 % in smaller sizes.",
        judge=lambda r, c: median_at_least(_above(r), _least(r, 0.82, 0.78) - 27 / 32),
        source=TABLE,
    ),
    Claim(
        "Random features are between 68 and 80 %.",
        judge=lambda r, c: median_between(_last(r.random), 0.68, 0.8),
        source=TABLE,
    ),
    Claim(
        "The network is at least 12 points better than the tangent model, seed by seed.",
        judge=lambda r, c: ordered(_last(r.tangent) + 0.12, _last(r.network)),
        source=TABLE,
    ),
    Claim(
        "Without structure the network is at chance.",
        judge=lambda r, c: median_between(_last(r.fair_network), 0.48, 0.53),
        source=TABLE,
        kind="control",
    ),
    Claim(
        "Without structure fixed features are at chance too.",
        judge=lambda r, c: median_between(
            np.maximum(_last(r.fair_tangent), _last(r.fair_random)), 0.48, 0.53
        ),
        source=TABLE,
        kind="control",
    ),
    Claim(
        "After two steps some neuron points to the relevant patterns: cos ≥ 0.99.",
        judge=lambda r, c: median_at_least(r.cosines[:, 2], 0.99),
        source=TABLE,
        formula=r"\max_i \cos(w_i, \sum_{j \in A} M_j) \ge 0.99",
    ),
    Claim(
        "Weights that do not move have the largest cosine of random directions, within 30 %.",
        judge=lambda r, c: between(r.cosines[:, 0].mean() / r.expected_cosine, 0.7, 1.3),
        source=TABLE,
    ),
    Claim(
        "Without structure no neuron points to the relevant patterns: cos stays below 0.5.",
        judge=lambda r, c: median_at_most(r.fair_cosines[:, 2:].max(axis=1), 0.5),
        source=TABLE,
        kind="control",
    ),
    Claim(
        "A probe of the second step's weights has at least 99.5 %, or beyond 59/64.",
        judge=lambda r, c: median_at_least(_last(r.two_step), _least(r, 0.995, PLATEAU + 0.01)),
        source=TABLE,
    ),
    Claim(
        "A probe of the first step's weights, as they are, is at chance.",
        judge=lambda r, c: median_between(_last(r.one_step), 0.48, 0.53),
        source=TABLE,
    ),
    Claim(
        "The first step's features are not good enough: a second step must improve them.",
        judge=lambda r, c: median_at_most(_last(r.one_step_scaled), 0.9),
        source=TABLE,
        kind="printed",
    ),
    Claim(
        "The first step's weights, multiplied by one constant, have 99.5 % too, or beyond 59/64.",
        judge=lambda r, c: median_at_least(
            _last(r.one_step_scaled), _least(r, 0.995, PLATEAU + 0.01)
        ),
        source=TABLE,
        kind="corrected",
    ),
    Claim(
        "On average the second gradient is less noisy than the first in 95 % of neurons.",
        judge=lambda r, c: at_least(r.improved.mean(), 0.95),
        source=METERS,
    ),
    Claim(
        "In both steps noise over signal is, on average, within 20 % of what n samples allow.",
        judge=lambda r, c: at_most(np.abs((r.noise / r.floor).mean(axis=0) - 1).max(), 0.2),
        source=METERS,
        formula=r"\sqrt{p_o(1-p_o)/n}\,\sqrt{E[o^2]}/(\gamma E[o])",
    ),
    Claim(
        "The noise inside neurons is not needed: the first step leaves none of them dead.",
        judge=lambda r, c: median_at_most(r.dead, 0.05),
        source=FOOTNOTE,
        kind="printed",
    ),
    Claim(
        "Without noise inside about half of the neurons were dead after the first step.",
        judge=lambda r, c: median_between(r.dead, 0.35, 0.65),
        source=STAGES,
        kind="corrected",
    ),
    Claim(
        "With the values that the theorem prints in place of the lemmas' it learns too: 99.5 %.",
        judge=lambda r, c: median_at_least(_last(r.theorem), 0.995),
        source=THEOREM,
    ),
    Claim(
        "With one learning rate for all blocks it does not: at most 59/64.",
        judge=lambda r, c: median_at_most(_last(r.equal), PLATEAU),
        source=STAGES,
        kind="control",
    ),
    Claim(
        "After the first step no sample is beyond the margin, nor after one of size 1e-3.",
        judge=lambda r, c: median_at_most(r.beyond[:, :2].max(axis=1), 0.0),
        source=LEMMAS,
        formula=r"y\,g^{(1)} < 1",
    ),
    Claim(
        "After a first step of size 1, times 300/m, many samples are: 40 % or more.",
        judge=lambda r, c: median_at_least(r.beyond[:, 2], 0.4),
        source=LEMMAS,
        kind="control",
    ),
    Claim(
        "After two steps weights and biases are at most ten times the lemma's σ̃/k and 1/k².",
        judge=lambda r, c: median_at_most(r.sizes[:, 1:].max(axis=1), 10.0),
        source=LEMMAS,
    ),
    Claim(
        "Descent on the outer weights after two steps never violates the regret inequality.",
        judge=lambda r, c: holds(r.regret),
        source=REGRET,
    ),
    Claim(
        "A network of bumps written down by hand has every label to 1e-4.",
        judge=lambda r, c: at_most(r.good_error, 1e-4),
        source=GOOD,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Accuracy in training, and the weights at the start and after each of two steps."""
    named = {
        "network": result.network,
        "tangent model": result.tangent,
        "random features": result.random,
        "probe, step 1": result.one_step,
        "probe, step 1 scaled": result.one_step_scaled,
        "network, fair coins": result.fair_network,
    }
    return figure("test accuracy", result.steps, named, result.ceiling, result.maps)
