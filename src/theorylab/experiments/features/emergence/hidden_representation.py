"""Two gradient steps gather neurons in two clusters, and separate the classes they see.

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
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from matplotlib.figure import Figure

from theorylab.claims import Source
from theorylab.claims.judges import median_at_least, median_at_most, ordered
from theorylab.data.dictionary import ListedLaw, listed_patterns
from theorylab.experiments.drawing import directions, medians, panels
from theorylab.features.emergence.clusters import spherical_means
from theorylab.features.emergence.meters import (
    cosine_map,
    cosines,
    normalized,
    separation,
    silhouette,
)
from theorylab.features.emergence.network import (
    TruncatedNeurons,
    preactivations,
    start_scales,
    truncated_relu,
)
from theorylab.features.emergence.stages import classifier_rates, emerge, emergence_stages
from theorylab.fields import Count, within
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._tasks import TaskSizes, Theory, bytes_of, draw_task

PRECISION = "float32"
FORMULA = (
    r"w_i \to \pm \sum_j \gamma_j M_j, \quad \gamma_j = E[y\tilde\phi_j] - E[y]E[\tilde\phi_j]"
)

PICTURE = Source("shi", "exp-hidden-repr", "Fig. A.11")
LISTS = Source("shi", "dict-data", "A.7")
STAGES = ("start", "step 1", "step 2")


@dataclass(frozen=True)
class Config(TaskSizes):
    """Where the neurons of a network stand before and after the first two steps."""

    num_patterns: Count = 250  # D
    num_relevant: Count = 50  # k
    num_each: Annotated[int, within(1, 10**5)] = 50  # vectors in the list of each label
    dimension: Count = 500  # d
    num_pairs: Annotated[int, within(3)] = 100  # m, half the number of neurons
    num_samples: Count = 20000  # n
    num_test: Count = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check(self.num_patterns, self.num_relevant)


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


class Neighbourhood(NamedTuple):
    """Where neurons stand at the start and after each of two steps; seeds (s)."""

    within: Float[Measured, "*s 3"]  # mean cosine of a neuron to its own cluster's centre
    silhouette: Float[Measured, "*s 3"]
    opposite: Float[Measured, "*s 3"]  # cosine of the two centres
    aligned: Float[Measured, "*s 3"]  # mean |cos| to Σⱼ γⱼMⱼ
    separation: Float[Measured, "*s 3"]  # of classes in the hidden layer


class Result(NamedTuple):
    """What was measured, with the labels and with shuffled ones."""

    true: Neighbourhood
    shuffled: Neighbourhood
    maps: Float[Measured, "3 v 2"]  # neurons of one seed in the plane, then ±Σⱼ γⱼMⱼ


def memory(config: Config) -> int:
    """Bytes of data, weights and hidden layers of two seeds at once, and of the lists."""
    lists = 2 * config.num_each * config.num_relevant
    return bytes_of(config, config.num_patterns, num_laws=2) + 200 * lists


def run(config: Config) -> Result:
    """Take two steps on all samples, with the labels and with shuffled ones."""
    report("taking two steps", 0.0)
    of_lists, of_seeds = jax.random.split(jax.random.key(config.seed))
    law = listed_patterns(of_lists, config.num_patterns, config.num_relevant, config.num_each)
    seeds = config.num_seeds
    keys = jax.random.split(of_seeds, seeds)
    direction = np.zeros(config.dimension)
    direction[: config.num_relevant] = law.structure
    one = partial(_measured, law=law, direction=jnp.asarray(direction, float), config=config)
    shuffles = jnp.repeat(jnp.array([False, True]), seeds)
    found, weights = ensemble(one, (jnp.tile(keys, 2), shuffles))
    targets = np.stack([direction, -direction])
    stages = np.asarray(weights[0])
    return Result(
        true=jax.tree.map(lambda leaf: leaf[:seeds], found),
        shuffled=jax.tree.map(lambda leaf: leaf[seeds:], found),
        maps=np.stack([cosine_map(np.concatenate([each, targets])) for each in stages]),
    )


def _theory(law: ListedLaw, num_pairs: int) -> Theory:
    """The theory's sizes, with the root mean square of γⱼ for γ."""
    k, scale = law.num_relevant, law.scale()
    structure = float(np.sqrt(np.mean(law.structure**2)))
    return Theory(
        structure=structure,
        other=0.5,
        scales=start_scales(k, structure, scale),
        stages=emergence_stages(k, structure, scale, num_pairs),
        class_weights=(1.0, 1.0),
        scale=scale,
        rates=classifier_rates(num_pairs),
    )


def _measured(
    given: tuple[RandomKey, Bool[Array, ""]],
    law: ListedLaw,
    direction: Float[Array, " d"],
    config: Config,
) -> tuple[Neighbourhood, Float[Array, "3 m d"]]:
    """One seed; one neuron of every pair of the start, as its twin has the same weights."""
    key, shuffle = given
    of_task, of_labels = jax.random.split(key)
    theory = _theory(law, config.num_pairs)
    task = draw_task(of_task, [law], jnp.array(0), theory, config, config.dimension)
    other = jax.random.permutation(of_labels, task.train.y)
    train = replace(task.train, y=jnp.where(shuffle, other, task.train.y))
    emerged = emerge(task.start, train, theory.stages)
    first, second = emerged.first, emerged.second
    longer = first._replace(weights=normalized(first.weights, second.weights) * first.weights)
    m, padding = config.num_pairs, ((0, 0), (0, config.dimension - config.num_patterns))
    steps = [jnp.pad(each.weights[:m], padding) for each in (longer, second)]
    weights = jnp.stack([jnp.concatenate([task.start.weights[:m], task.outside], axis=1), *steps])

    def look(vectors: Float[Array, "m d"]) -> tuple[Array, Array, Array, Array]:
        clusters = spherical_means(vectors)
        outline = silhouette(vectors, clusters.members)
        aligned = jnp.abs(cosines(vectors, direction)).mean()
        return clusters.within, outline, clusters.between, aligned

    def apart(neurons: TruncatedNeurons) -> Float[Array, ""]:
        hidden = truncated_relu(preactivations(neurons, task.test.x))
        return separation(hidden, task.test.y[:, 0])

    separations = jnp.stack([apart(each) for each in (task.start, longer, second)])
    return Neighbourhood(*jax.lax.map(look, weights), separation=separations), weights


LAB = "lab: chosen for this experiment; the source shows pictures, and has no number"

CLAIMS = (
    PICTURE.claim(
        "After two steps neurons form clusters: the mean cosine to their centre is above 0.9.",
        lambda r, c: median_at_least(r.true.within[:, 2], 0.9),
        quote="the neuron weights are updated to form clusters",
        demand=LAB,
    ),
    PICTURE.control(
        "At the start they do not: below 0.3.",
        lambda r, c: median_at_most(r.true.within[:, 0], 0.3),
        demand=LAB,
    ),
    PICTURE.claim(
        "After each of two steps the clusters are clusters: the silhouette is above 0.5.",
        lambda r, c: median_at_least(r.true.silhouette[:, 1:].min(axis=1), 0.5),
        quote="the neuron weights are updated to form clusters",
        demand=LAB,
    ),
    PICTURE.control(
        "At the start the silhouette is below 0.5.",
        lambda r, c: median_at_most(r.true.silhouette[:, 0], 0.5),
        demand=LAB,
    ),
    PICTURE.found(
        "The two clusters are opposite: their centres' cosine is below −0.9 after two steps.",
        lambda r, c: median_at_most(r.true.opposite[:, 2], -0.9),
        demand=LAB,
    ),
    LISTS.found(
        "They stand at ±Σⱼ γⱼMⱼ: the mean |cos| is above 0.9 after two steps.",
        lambda r, c: median_at_least(r.true.aligned[:, 2], 0.9),
        formula=r"w_i \to \pm \sum_j \gamma_j M_j",
        demand=LAB,
    ),
    PICTURE.found(
        "In the hidden layer classes are three times as far apart as in random features.",
        lambda r, c: ordered(3 * r.true.separation[:, 0], r.true.separation[:, 1:].min(axis=1)),
        demand=LAB,
    ),
    LISTS.control(
        "With shuffled labels neurons do not turn to Σⱼ γⱼMⱼ: the mean |cos| is below 0.4.",
        lambda r, c: median_at_most(r.shuffled.aligned[:, 2], 0.4),
        demand="lab: chosen for this experiment on other seeds than 0",
    ),
    PICTURE.control(
        "With shuffled labels classes are at most a third as far apart in the hidden layer.",
        lambda r, c: ordered(3 * r.shuffled.separation[:, 2], r.true.separation[:, 2]),
        demand="lab: chosen for this experiment on other seeds than 0",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Measures by stage, and one network's neurons in the plane."""
    figure, (measures, *maps) = panels("by stage", *(f"neurons, {stage}" for stage in STAGES))
    named = {
        "cosine to the own centre": result.true.within,
        "|cos| to the gradient": result.true.aligned,
        "silhouette": result.true.silhouette,
        "|cos|, shuffled labels": result.shuffled.aligned,
        "separation of classes": result.true.separation,
    }
    medians(measures, STAGES, named, "o-")
    for axis, points in zip(maps, result.maps, strict=True):
        directions(axis, points[:-2], points[-2:])
    return figure
