"""After one step, the few neurons that point at the clusters learn alone as well as all do.

After the first step of gradient descent a few neurons lie along the gradient features of the data.
The ticket U is the support of the good subnetwork's output layer: the neurons in the cone of a
cluster whose gradient is long enough, read off the weights after the step. These alone, a small
part of the network, trained from where the step has put them, reach the error of the whole network
in about as many steps. If only output layers are trained, one on as many neurons drawn anew is far
worse: it is not their number that matters, but where the step put them.

If both layers are trained, as many neurons chosen at random, or drawn anew, learn this task too:
four clusters need four neurons, and a network of a few dozen finds them again. That a small network
cannot is not what the proposition says. The same holds for a choice before the step, of neurons
that lie best along the clusters at the start: of output layers alone, theirs is worse.

The data are four clusters in an XOR, in noise in which the best possible error is about 3 %.

Source: shi · lottery-ticket · Proposition B.1. The proposition is about guarantees; this experiment
is ours.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Source, median_at_least, median_at_most, median_between, ordered
from theorylab.data import Dataset, GaussianMixture
from theorylab.data.mixtures import xor_mixture
from theorylab.experiments.drawing import curves, label_axes, panels
from theorylab.features import gradient
from theorylab.fields import Count, Positive, within
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._clusters import Cones

PRECISION = "float32"
FORMULA = r"U = \operatorname{supp} \tilde a = \bigcup_j \Lambda_j"

TICKET = Source("shi", "lottery-ticket", "Proposition B.1")

PARTS = {
    "ticket": "along clusters",  # after one step
    "random": "chosen at random",  # as many of the same network
    "redrawn": "drawn anew",  # as many
    "early": "chosen early",  # along the clusters already at the start, as they are there
}
PART = 0.1  # of the neurons, which a ticket may have at most
TAU = 0.25  # τ of the detectors, whose biases 2√(τ log d) σ_B are then below √d
LEARNING_RATE = 0.05  # after the first step
NUM_TEST = 2000


@dataclass(frozen=True)
class Config(Cones):
    """XOR clusters, a network, and small parts of it after one step."""

    dimension: Annotated[int, within(4)] = 64
    noise: Positive = 2.5  # standard deviation of a cluster; means are √d long
    width: Annotated[int, within(10)] = 80  # m, a quarter of the neurons
    least: Positive = 0.0625  # B_G/√d; below ‖μ‖/4√d = ¼, for a neuron sees a part of a cluster
    num_steps: Count = 150
    batch_size: Count = 500  # fresh samples in every step
    num_first: Count = 4000  # samples of the first step
    num_seeds: Count = 32  # so many for the number of steps, which varies

    @property
    def num_kept(self) -> int:
        """The largest number of neurons of a part, divisible by 4."""
        return 4 * int(PART * self.width)

    @property
    def steps(self) -> np.ndarray:
        """When test errors are recorded."""
        return np.unique(np.linspace(0, self.num_steps, 31).round().astype(int))

    @property
    def first_rate(self) -> float:
        """η⁽¹⁾, after which neurons along a cluster are long enough to be active on it."""
        return 15 / self.dimension


PRESETS = {
    "smoke": Config(
        dimension=32, noise=1.8, least=0.09, batch_size=200, num_first=2000, num_seeds=40
    ),
    "paper": Config(dimension=256, noise=5.0, width=1000, num_steps=2000),
}


class Result(NamedTuple):
    """Test errors over seeds (s) and recorded steps (t), by PARTS, and how large these are."""

    found: Int[Measured, " s"]  # neurons of the ticket, |U|
    whole: Float[Measured, "s t"]
    ticket: Float[Measured, "s t"]
    random: Float[Measured, "s t"]
    redrawn: Float[Measured, "s t"]
    early: Float[Measured, "s t"]
    ticket_outputs: Float[Measured, "s t"]  # the same four, only output layers trained
    random_outputs: Float[Measured, "s t"]
    redrawn_outputs: Float[Measured, "s t"]
    early_outputs: Float[Measured, "s t"]


def memory(config: Config) -> int:
    """Bytes of samples with their hidden layers, of neurons, and of records, on two cores."""
    samples = config.batch_size + config.num_first + NUM_TEST
    numbers = samples * (3 * config.dimension + 12 * config.width)
    numbers += 40 * config.width * config.dimension
    return 4 * (2 * numbers + 4 * config.num_steps + 400 * config.num_seeds)


def run(config: Config) -> Result:
    """Train the whole network and its parts, for every seed."""
    report("training networks and parts", 0.1)
    law = xor_mixture(config.dimension, config.noise)
    target = gradient.cluster_detectors(law, TAU)
    least = config.least * config.dimension**0.5
    constants = gradient.sample_constants(law.means, target, 1.0, config.opening, least)
    one = partial(_measured, law=law, target=target, constants=constants, config=config)
    return ensemble(one, jax.random.split(jax.random.key(config.seed), config.num_seeds))


def _measured(
    key: RandomKey,
    law: GaussianMixture,
    target: gradient.ReluNetwork,
    constants: gradient.TheoremConstants,
    config: Config,
) -> Result:
    """One step of the whole network, then its training and that of four parts, for one seed."""
    keys = jax.random.split(key, 6)
    test = law.sample(keys[0], NUM_TEST)
    scale = 1 / jnp.sqrt(law.mean_square)  # the bias is one standard deviation of ⟨w, x⟩
    start, redrawn = (
        gradient.symmetric_network(keys[i], config.width, config.dimension, 1.0, scale)
        for i in (1, 4)
    )
    once = gradient.forgetting_schedule(config.first_rate, 1.0, 1)
    moved: gradient.ReluNetwork = gradient.train(
        keys[2], start, law.sample, config.num_first, once, [1], lambda network: network.outputs[0]
    ).params
    gradients = moved.weights / (config.first_rate * start.outputs)[:, None]
    chosen = gradient.good_subnetwork(
        start, gradients, target, constants, config.first_rate, constants.bias_bound
    ).members.any(axis=1)
    anywhere = jax.random.permutation(keys[3], 4 * config.width)
    size = chosen.sum()
    parts = [
        _part(moved, jnp.argsort(~chosen), size, config),
        _part(moved, anywhere, size, config),
        _part(redrawn, anywhere, size, config),
        _part(start, _along_clusters(start, law), size, config),
    ]
    twice = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts, *parts)
    learn = partial(_learned, keys[5], law, config=config, test=test)
    errors = jax.lax.map(lambda given: learn(*given), (twice, LEARNING_RATE * (jnp.arange(8) < 4)))
    names = (*PARTS, *(f"{name}_outputs" for name in PARTS))
    whole = learn(moved, jnp.asarray(LEARNING_RATE, errors.dtype))
    return Result(found=size, whole=whole, **dict(zip(names, errors, strict=True)))


def _along_clusters(network: gradient.ReluNetwork, law: GaussianMixture) -> Int[Array, " m"]:
    """Neurons in the order of their cosines with the nearest cluster, those with b > 0 first."""
    lengths = jnp.maximum(jnp.linalg.norm(network.weights, axis=1), 1e-9)
    cosines = (network.weights @ law.directions.T).max(axis=1) / lengths
    return jnp.argsort(jnp.where(network.biases > 0, -cosines, jnp.inf))


def _part(
    network: gradient.ReluNetwork, order: Int[Array, " m"], size: Array, config: Config
) -> gradient.ReluNetwork:
    """The first neurons of an order; places that are left over have a neuron that is silent."""
    kept = order[: config.num_kept]
    used = jnp.arange(config.num_kept) < size
    return gradient.ReluNetwork(
        jnp.where(used, network.outputs[kept], 0.0),
        jnp.where(used[:, None], network.weights[kept], 0.0),
        jnp.where(used, network.biases[kept], 1.0),  # below it forever, for w and a stay 0
    )


def _learned(
    key: RandomKey,
    law: GaussianMixture,
    network: gradient.ReluNetwork,
    hidden_rate: Float[Array, ""],
    config: Config,
    test: Dataset,
) -> Float[Array, " t"]:
    """Test errors while a network learns online, without a penalty."""
    rates = jnp.full(config.num_steps, LEARNING_RATE)
    hidden_rates = jnp.full(config.num_steps, hidden_rate)
    return gradient.train(
        key,
        network,
        law.sample,
        config.batch_size,
        gradient.OnlineSchedule(rates, hidden_rates, jnp.zeros_like(rates)),
        config.steps,
        lambda current: gradient.error_rate(current, test),
    ).records


def _slowness(result: Result, config: Config) -> np.ndarray:
    """Steps of the ticket over those of the whole, until both are a point above the whole's end."""
    steps, level = config.steps, result.whole[:, -1:] + 0.01
    ticket, whole = (
        steps[(curve <= level).argmax(axis=1)] for curve in (result.ticket, result.whole)
    )
    reached = (result.ticket <= level).any(axis=1)
    return np.where(reached, ticket, 10 * steps[-1]) / np.maximum(whole, 1)


# B_G was chosen with seeds 101 to 103.
SIMILAR = "gradient descent on the subnetwork can learn to similar loss in similar runtime"
CLAIMS = (
    TICKET.claim(
        "The neurons along the clusters end within a point of the whole network's error.",
        lambda r, c: median_at_most(r.ticket[:, -1] - r.whole[:, -1], 0.01),
        quote=SIMILAR,
        demand="lab: a point, chosen for this experiment",
    ),
    TICKET.claim(
        "They take at most 1.2 times its steps to come within a point of it.",
        lambda r, c: median_at_most(_slowness(r, c), 1.2),
        quote=SIMILAR,
        demand="lab: 1.2, chosen for this experiment",
    ),
    TICKET.found(
        "They are some, and at most a tenth of the network.",
        lambda r, c: median_between(r.found / (4 * c.width), 1 / (4 * c.width), PART),
    ),
    TICKET.found(
        "Where both layers are trained, as many chosen at random are less than 5 points worse.",
        lambda r, c: median_at_most(r.random[:, -1] - r.ticket[:, -1], 0.05),
    ),
    TICKET.found(
        "Where both layers are trained, neurons drawn anew learn it too: within 2 points of it.",
        lambda r, c: median_at_most(r.redrawn[:, -1] - r.ticket[:, -1], 0.02),
    ),
    TICKET.found(
        "Chosen before the step instead, they learn it too: within 2 points of the ticket.",
        lambda r, c: median_at_most(r.early[:, -1] - r.ticket[:, -1], 0.02),
    ),
    TICKET.claim(
        "Of output layers alone, one on neurons chosen before the step has a higher final error.",
        lambda r, c: ordered(r.ticket_outputs[:, -1], r.early_outputs[:, -1]),
        quote="they may not exist at initialization but can be found after the first gradient step",
    ),
    TICKET.control(
        "Of output layers alone, one on neurons drawn anew ends at least 5 points worse.",
        lambda r, c: median_at_least((r.redrawn_outputs - r.ticket_outputs)[:, -1], 0.05),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Test errors over steps."""
    part = f"parts of {25 * result.found.mean() / config.width:.0f} %"
    figure, axes = panels(f"{part}, both layers", f"{part}, output layers alone")
    curves(axes[0], config.steps, {"whole network": result.whole}, "--", first_colour=6)
    for axis, end in zip(axes, ("", "_outputs"), strict=True):
        curves(axis, config.steps, {PARTS[key]: getattr(result, key + end) for key in PARTS})
        label_axes(axis, "step after the first", "test error")
    return figure
