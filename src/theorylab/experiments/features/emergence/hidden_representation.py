"""Two steps gather a network's neurons in two clusters, and part the classes in its hidden layer.

Each label has a list of random patterns, drawn once; inputs have one of the vectors of the list of
their label at the relevant places, and fair coins elsewhere. No count tells the label. Still the
gradient of every neuron is ± one vector, Σⱼ γⱼMⱼ with γⱼ = E[yφ̃ⱼ] − E[y]E[φ̃ⱼ]: after a step the
neurons stand in two clusters around it, opposite to each other, where random directions have none.

The source shows pictures only. Here: the mean cosine to the own cluster's centre (spherical
2-means), the silhouette, the cosine to ±Σⱼ γⱼMⱼ, and how far the classes are apart in the hidden
layer, ‖μ₊ − μ₋‖² over the variance within classes. With shuffled labels neurons gather too, around
the noise of the samples; so it is the direction that counts, not that there are clusters.

Source: shi · exp-hidden-repr · Fig. A.11; shi · dict-data · A.7.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, median_at_least, median_at_most, ordered
from theorylab.data.dictionary import ListedLaw, listed_patterns
from theorylab.experiments.checks import refuse_below
from theorylab.experiments.drawing import directions, medians, panels
from theorylab.experiments.features.emergence._tasks import Setting, Theory, draw_task
from theorylab.features.emergence import (
    Neurons,
    classifier_rates,
    cosine_map,
    cosines,
    emerge,
    emergence_stages,
    normalized,
    separation,
    silhouette,
    start_scales,
)
from theorylab.features.emergence.clusters import spherical_means
from theorylab.features.emergence.network import preactivations, truncated_relu
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = (
    r"w_i \to \pm \sum_j \gamma_j M_j, \quad \gamma_j = E[y\tilde\phi_j] - E[y]E[\tilde\phi_j]"
)

PICTURE = Source("shi", "exp-hidden-repr", "Fig. A.11")
LISTS = Source("shi", "dict-data", "A.7")
STAGES = ("start", "step 1", "step 2")


@dataclass(frozen=True)
class Config:
    """Where the neurons of a network stand before and after the first two steps."""

    num_patterns: int = 250  # D
    num_relevant: int = 50  # k
    num_each: int = 50  # vectors in the list of each label
    dimension: int = 500  # d
    num_pairs: int = 100  # m, half the number of neurons
    num_samples: int = 20000  # n
    num_test: int = 2000
    num_seeds: int = 6  # at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        for name in ("num_relevant", "num_each", "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**5:
                raise ValueError(f"{name} must be in [1, 10⁵], got {getattr(self, name)}.")
        if not self.num_relevant <= self.num_patterns <= 10**5:
            raise ValueError(
                f"num_patterns must be in [num_relevant = {self.num_relevant}, 10⁵], "
                f"got {self.num_patterns}."
            )
        refuse_below(self, 3, "num_pairs")
        self.setting.check(self.num_patterns)

    @property
    def setting(self) -> Setting:
        """Sizes; no batches are drawn."""
        return Setting(
            self.num_pairs, self.num_samples, self.num_test, batch_size=1, dimension=self.dimension
        )


PRESETS = {
    "smoke": Config(
        num_patterns=60,
        num_relevant=20,
        num_each=20,
        dimension=200,
        num_pairs=60,
        num_samples=6000,
        num_test=1000,
    ),
    "paper": Config(num_pairs=300, num_samples=50000, num_test=10000, num_seeds=10),
}


class Result(NamedTuple):
    """What was measured: seeds (s), at the start and after each of two steps."""

    within: Float[np.ndarray, "s 3"]  # mean cosine of a neuron to its own cluster's centre
    silhouette: Float[np.ndarray, "s 3"]
    opposite: Float[np.ndarray, "s 3"]  # cosine of the two centres
    aligned: Float[np.ndarray, "s 3"]  # mean |cos| to Σⱼ γⱼMⱼ
    separation: Float[np.ndarray, "s 3"]  # of classes in the hidden layer
    shuffled_within: Float[np.ndarray, "s 3"]  # with shuffled labels
    shuffled_aligned: Float[np.ndarray, "s 3"]
    shuffled_separation: Float[np.ndarray, "s 3"]
    maps: Float[np.ndarray, "3 v 2"]  # neurons of one seed in the plane, then ±Σⱼ γⱼMⱼ


def memory(config: Config) -> int:
    """Bytes of data, weights and hidden layers of two seeds at once."""
    return config.setting.bytes_of(config.num_patterns)


class Stood(NamedTuple):
    """What one run gives, at each of three stages."""

    within: Float[Array, "*runs 3"]
    silhouette: Float[Array, "*runs 3"]
    opposite: Float[Array, "*runs 3"]
    aligned: Float[Array, "*runs 3"]
    separation: Float[Array, "*runs 3"]
    weights: Float[Array, "*runs 3 m d"]


def run(config: Config) -> Result:
    """Take two steps on all samples, with the labels and with shuffled ones."""
    report("taking two steps", 0.0)
    of_lists, of_seeds = jax.random.split(jax.random.key(config.seed))
    law = listed_patterns(of_lists, config.num_patterns, config.num_relevant, config.num_each)
    keys = jax.random.split(of_seeds, config.num_seeds)
    direction = np.zeros(config.dimension)
    direction[: config.num_relevant] = law.structure

    def one(given: tuple[Array, RandomKey]) -> Stood:
        shuffle, key = given
        return _stood(key, law, jnp.asarray(direction, float), shuffle, config)

    shuffles = jnp.repeat(jnp.array([False, True]), config.num_seeds)
    every = jnp.tile(jnp.arange(config.num_seeds), 2)
    found = jax.tree.map(np.asarray, ensemble(one, (shuffles, keys[every])))
    true = jax.tree.map(lambda leaf: leaf[: config.num_seeds], found)
    shuffled = jax.tree.map(lambda leaf: leaf[config.num_seeds :], found)
    targets = np.stack([direction, -direction])
    return Result(
        within=true.within,
        silhouette=true.silhouette,
        opposite=true.opposite,
        aligned=true.aligned,
        separation=true.separation,
        shuffled_within=shuffled.within,
        shuffled_aligned=shuffled.aligned,
        shuffled_separation=shuffled.separation,
        maps=np.stack([cosine_map(np.concatenate([each, targets])) for each in true.weights[0]]),
    )


def _theory(law: ListedLaw, config: Config) -> Theory:
    """The theory's sizes, with the root mean square of γⱼ for γ."""
    k, scale = law.num_relevant, law.scale()
    structure = float(np.sqrt(np.mean(law.structure**2)))
    stages = emergence_stages(k, structure, scale, config.num_pairs)
    scales, rates = start_scales(k, structure, scale), classifier_rates(config.num_pairs)
    return Theory(structure, 0.5, scales, stages, (1.0, 1.0), scale, rates)


def _stood(
    key: RandomKey,
    law: ListedLaw,
    direction: Float[Array, " d"],
    shuffle: Bool[Array, ""],
    config: Config,
) -> Stood:
    """One seed; one neuron of every pair of the start, as its twin has the same weights."""
    of_task, of_labels = jax.random.split(key)
    theory = _theory(law, config)
    task = draw_task(of_task, [law], jnp.array(0), theory, config.setting)
    other = jax.random.permutation(of_labels, task.train.y)
    train = replace(task.train, y=jnp.where(shuffle, other, task.train.y))
    emerged = emerge(task.start, train, theory.stages)
    first, second = emerged.first, emerged.second
    longer = first._replace(weights=normalized(first.weights, second.weights) * first.weights)
    m = config.num_pairs
    steps = [
        jnp.pad(each.weights[:m], ((0, 0), (0, config.dimension - config.num_patterns)))
        for each in (longer, second)
    ]
    weights = jnp.stack([jnp.concatenate([task.start.weights[:m], task.outside], axis=1), *steps])

    def look(vectors: Float[Array, "m d"]) -> tuple[Array, Array, Array, Array]:
        clusters = spherical_means(vectors)
        outline = silhouette(vectors, clusters.members)
        aligned = jnp.abs(cosines(vectors, direction)).mean()
        return clusters.within, outline, clusters.between, aligned

    def apart(neurons: Neurons) -> Float[Array, ""]:
        hidden = truncated_relu(preactivations(neurons, task.test.x))
        return separation(hidden, task.test.y[:, 0])

    within, outline, opposite, aligned = jax.lax.map(look, weights)
    apart_at = jnp.stack([apart(each) for each in (task.start, longer, second)])
    return Stood(within, outline, opposite, aligned, apart_at, weights)


# The first four thresholds are the catalogue's. Shuffled labels were looked at with other seeds.
CLAIMS = (
    Claim(
        "After two steps neurons are close to their cluster's centre: mean cosine above 0.9.",
        judge=lambda r, c: median_at_least(r.within[:, 2], 0.9),
        source=PICTURE,
    ),
    Claim(
        "At the start they are not: below 0.3.",
        judge=lambda r, c: median_at_most(r.within[:, 0], 0.3),
        source=PICTURE,
        kind="control",
    ),
    Claim(
        "After each of two steps the clusters are clusters: the silhouette is above 0.5.",
        judge=lambda r, c: median_at_least(r.silhouette[:, 1:].min(axis=1), 0.5),
        source=PICTURE,
    ),
    Claim(
        "At the start the silhouette is below 0.5.",
        judge=lambda r, c: median_at_most(r.silhouette[:, 0], 0.5),
        source=PICTURE,
        kind="control",
    ),
    Claim(
        "The two clusters are opposite: their centres' cosine is below −0.9 after two steps.",
        judge=lambda r, c: median_at_most(r.opposite[:, 2], -0.9),
        source=PICTURE,
    ),
    Claim(
        "They stand at ±Σⱼ γⱼMⱼ: the mean |cos| is above 0.9 after two steps.",
        judge=lambda r, c: median_at_least(r.aligned[:, 2], 0.9),
        source=LISTS,
        formula=r"w_i \to \pm \sum_j \gamma_j M_j",
    ),
    Claim(
        "In the hidden layer classes are three times as far apart as in random features.",
        judge=lambda r, c: ordered(3 * r.separation[:, 0], r.separation[:, 1:].min(axis=1)),
        source=PICTURE,
    ),
    Claim(
        "With shuffled labels neurons do not turn to Σⱼ γⱼMⱼ: the mean |cos| is below 0.4.",
        judge=lambda r, c: median_at_most(r.shuffled_aligned[:, 2], 0.4),
        source=LISTS,
        kind="control",
    ),
    Claim(
        "With shuffled labels classes are at most a third as far apart in the hidden layer.",
        judge=lambda r, c: ordered(3 * r.shuffled_separation[:, 2], r.separation[:, 2]),
        source=PICTURE,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Measures by stage, and one network's neurons in the plane."""
    figure, (measures, *maps) = panels("by stage", *(f"neurons, {stage}" for stage in STAGES))
    named = {
        "cosine to the own centre": result.within,
        "|cos| to the gradient": result.aligned,
        "silhouette": result.silhouette,
        "|cos|, shuffled labels": result.shuffled_aligned,
        "separation of classes": result.separation,
    }
    medians(measures, STAGES, named, "o-")
    for axis, points in zip(maps, result.maps, strict=True):
        directions(axis, points[:-2], points[-2:])
    return figure
