"""A network learns a parity of patterns that no fixed features learn, if inputs have structure.

Inputs are sums of patterns of a dictionary; the label is the parity of k = 5 relevant ones. In the
mixture half of the inputs have all or none of them, so that each tells a little about the label; as
fair coins they tell nothing. The network in three stages is compared with its tangent model (finite
NTK) and with random features, which have as many steps and the best of several learning rates.

The best classifier with one threshold of the count is right on 27/32 = 84.4 % of the mixture: this
is where fixed features stop. The next plateau, three changes of sign, is 59/64.

The theorem prints other values for the first two steps than the lemmas that prove it; the network
learns with either, and without the noise inside its neurons, too (half of them are closed after the
first step then, see `first_two_steps`). It does not with one learning rate for all blocks in the
third stage. Smaller networks with fewer samples show less: the claims are judged at the source's
sizes, or say at which.

Source: shi · exp-parity-six · Table A.1, Figs 2.1, 2.2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims import Source
from theorylab.claims.judges import median_at_least, median_at_most, median_between, ordered
from theorylab.features.emergence.meters import threshold_ceiling, weight_maps
from theorylab.fields import Count
from theorylab.progress import report
from theorylab.typing import Measured

from ._comparison import AFTER_TWO_STEPS, compare_laws
from ._six import figure
from ._tasks import ParitySetting, bytes_of, theory_of

PRECISION = "float32"
FORMULA = r"y = \prod_{i \in A} (2\tilde\phi_i - 1), \quad \nabla_{w_i} L = -a_i \sum_j M_j T_j"

TABLE = Source("shi", "exp-parity-six", "Table A.1")
STAGES = Source("shi", "three-stage-training", "§2.3.1, A.4")
THEOREM = Source("shi", "three-stage-training", "Theorem A.20, Lemmas A.12, A.17")
FOOTNOTE = Source("shi", "three-stage-training", "footnote 1")

NUM_NETWORKS = 5
MIXTURE, COINS, PRINTED, EQUAL_RATES, NOISELESS = range(NUM_NETWORKS)  # networks, in their order
NO_NOISE = 1e-7  # σ_ξ so far below every bias that a neuron is open or closed


@dataclass(frozen=True)
class Config(ParitySetting):
    """A network and fixed features on a parity of patterns, with and without structure."""

    dimension: Count = 500  # d, which matters to cosines only


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
    """What was measured: networks (m, see `NUM_NETWORKS`), seeds (s), recorded steps (t).

    Accuracies are of tests. Fixed features are of the first two: with structure and without.
    """

    network: Float[Measured, "m s t"]
    tangent: Float[Measured, "2 s t"]
    random: Float[Measured, "2 s t"]
    cosines: Float[Measured, "2 s 4"]  # largest: start, first and second step, end
    maps: Float[Measured, "3 v 2"]  # weights of one seed in the plane, then the two targets


def memory(config: Config) -> int:
    """Bytes of data, weights and hidden layers of two seeds at once."""
    return bytes_of(
        config, config.num_patterns, num_laws=NUM_NETWORKS, batch_size=config.batch_size
    )


def run(config: Config) -> Result:
    """Train all methods on both laws."""
    report("training all methods, with and without structure", 0.0)
    mixture, coins = config.mixture, config.coins
    theory = theory_of(mixture, config)  # fair coins have no γ to scale by
    noiseless = tuple(stage._replace(noise=NO_NOISE) for stage in theory.stages)
    theories = (
        theory,
        theory,
        theory_of(mixture, config, printed="theorem"),
        theory._replace(rates=(1.0, 1.0, 1.0)),
        theory._replace(stages=noiseless),
    )
    methods = ("fixed", "fixed", "network", "network", "network")
    laws = (mixture, coins, mixture, mixture, mixture)
    found = compare_laws(config.keys, laws, theories, config, methods)
    return Result(
        network=found.network.test[..., 0],
        tangent=found.tangent.test[:2, ..., 0],
        random=found.random.test[:2, ..., 0],
        cosines=found.cosines[:2],
        maps=weight_maps(np.asarray(found.weights), config.num_relevant),
    )


PLATEAU = 59 / 64  # the last before all is right, of three changes of sign if k = 5


def _last(curves: np.ndarray, network: int = MIXTURE) -> np.ndarray:
    """Test accuracy at the end."""
    return curves[network, :, -1]


def _ceiling(config: Config) -> float:
    """Accuracy of the best threshold of the count."""
    return threshold_ceiling(config.mixture, 1)


AS_IN_SOURCE = "num_pairs >= 300 and num_samples >= 50000 and num_steps >= 600"
LEARNED = "derived: 100.0 % is printed, with deviations smaller than 0.5 points"
CHANCE = "lab: [48, 53] % for tests of 3000 samples; the source has 52.0 %"
LAB = "lab: chosen for this experiment; the runs it was set on were not kept"

CLAIMS = (
    TABLE.claim(
        "The network learns the parity: test accuracy is at least 99.5 %.",
        lambda r, c: median_at_least(_last(r.network), 0.995),
        quote="Network learning gets high test accuracy",
        demand=LEARNED,
    ),
    TABLE.claim(
        "Both fixed feature methods get significantly lower accuracy: 12 points less, or more.",
        lambda r, c: ordered(
            np.maximum(_last(r.tangent), _last(r.random)) + 0.12, _last(r.network)
        ),
        quote="the two fixed feature methods get significantly lower accuracy",
        demand="lab: 12 points; 13.6 and 24.0 are printed",
    ),
    TABLE.claim(
        "The tangent model has the printed 86.4 %, to 5 points.",
        lambda r, c: median_between(_last(r.tangent), 0.814, 0.914),
        regime=AS_IN_SOURCE,
        demand="lab: 5 points, because the source does not say how it was trained",
    ),
    TABLE.claim(
        "Random features have the printed 76.0 %, to 5 points.",
        lambda r, c: median_between(_last(r.random), 0.71, 0.81),
        regime=AS_IN_SOURCE,
        demand="lab: 5 points, because the source does not say how they were trained",
    ),
    TABLE.found(
        "The tangent model stops at one threshold of the count: at most 3.6 points above it.",
        lambda r, c: median_at_most(_last(r.tangent) - _ceiling(c), 0.036),
        demand=LAB,
    ),
    TABLE.control(
        "Without structure the network is at chance.",
        lambda r, c: median_between(_last(r.network, COINS), 0.48, 0.53),
        quote="all three methods get test accuracy similar to random guessing",
        demand=CHANCE,
    ),
    TABLE.control(
        "Without structure fixed features are at chance too.",
        lambda r, c: median_between(
            np.maximum(_last(r.tangent, COINS), _last(r.random, COINS)), 0.48, 0.53
        ),
        quote="all three methods get test accuracy similar to random guessing",
        demand=CHANCE,
    ),
    TABLE.claim(
        "After two steps some neuron points to the relevant patterns: cos > 0.99.",
        lambda r, c: median_at_least(r.cosines[MIXTURE, :, AFTER_TWO_STEPS], 0.99),
        formula=r"\max_i \cos(w_i, \sum_{j \in A} M_j) > 0.99",
        quote="well-aligned with the ground-truth (with cosine similarity > 0.99)",
        demand="source",
    ),
    TABLE.control(
        "Without structure no neuron does: cos stays below 0.5.",
        lambda r, c: median_at_most(r.cosines[COINS, :, AFTER_TWO_STEPS:].max(axis=1), 0.5),
        demand="lab: 0.5; 0.253 is printed",
    ),
    FOOTNOTE.claim(
        "The noise inside neurons is not needed: without it the test accuracy is at least 99.5 %.",
        lambda r, c: median_at_least(_last(r.network, NOISELESS), 0.995),
        quote="Empirically it is not needed since typically sufficient data",
        regime=AS_IN_SOURCE,
        demand=LEARNED,
    ),
    THEOREM.found(
        "With the values that the theorem prints in place of the lemmas' it learns too: 99.5 %.",
        lambda r, c: median_at_least(_last(r.network, PRINTED), 0.995),
        demand=LEARNED,
    ),
    STAGES.control(
        "With one learning rate for all blocks it does not: at most 59/64.",
        lambda r, c: median_at_most(_last(r.network, EQUAL_RATES), PLATEAU),
        demand="lab: the plateau of three changes of sign",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Accuracy in training, and the weights at the start and after each of two steps."""
    named = {
        "network": result.network[MIXTURE],
        "tangent model": result.tangent[MIXTURE],
        "random features": result.random[MIXTURE],
        "network, fair coins": result.network[COINS],
        "network, one learning rate": result.network[EQUAL_RATES],
        "network without noise": result.network[NOISELESS],
    }
    return figure("test accuracy", config.steps, named, _ceiling(config), result.maps)
