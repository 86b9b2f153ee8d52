"""A half-space and a parity: after one step, a few neurons already make a good network.

The same as with clusters (`good_subnetwork`), on two more laws: linearly separable data, whose g*
is two neurons without bias, and the parity of one block of signs, whose g* is a row of bumps, three
neurons for each number of +1 in the block. Of a network after its first step, the neurons that
point along the direction of g* and have about the right length get its output weights; their
number grows like the root of the width, and the loss is below a bound with explicit constants.

A law is a fixed sample here, so that gradients and losses are exact, and so is the bound. For the
half-space the subnetwork is good. For the parity the bound is far above 1, and the loss is not
small either: eighteen outputs of size 2√k must cancel, and the step's neurons are too few for that.

Source: shi · good-subnet · Lemmas 3.14, B.6; shi · case-linear; shi · case-parity.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    exponent_between,
    holds,
    median_at_least,
    median_at_most,
    ordered,
)
from theorylab.data import BlockParity
from theorylab.data.mixtures import separable_law
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features.gradient import (
    Constants,
    FiniteLaw,
    ReluNetwork,
    block_parity_network,
    blockwise_risk,
    drawn_subnetwork,
    finite_gradients,
    nice_neurons,
    risk,
    sample_constants,
    separable_network,
    subnetwork_bound,
)
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = (
    r"\tilde a_i = a_j^* \max(|b_j^*|, B_\epsilon) / (|\Lambda_j| \tilde b), \ i \in \Lambda_j"
)

LINEAR = Source("shi", "case-linear", "Lemma 3.14 on Lemma B.27")
PARITY = Source("shi", "case-parity", "Lemma 3.14 on Lemma 3.21")
COUNT = Source("shi", "good-subnet", "Lemma B.6, the number of neurons")

NAMES = ("half-space", "parity")


@dataclass(frozen=True)
class Config:
    """Two laws, networks of growing width after one step, and their good subnetworks."""

    dimension: int = 48  # d
    block_size: int = 5  # k of the parity, odd
    opening: float = 0.05  # γ
    widths: tuple[int, ...] = (16000, 45000, 128000)  # m, growing; half of the biases are negative
    num_points: int = 1000  # of either law
    num_seeds: int = 8  # at least 6 to conclude
    seed: int = 0

    def __post_init__(self) -> None:
        if not 3 <= self.block_size <= 15 or self.block_size % 2 == 0:
            raise ValueError(f"block_size must be odd, from 3 to 15, got {self.block_size}.")
        if not self.block_size < self.dimension <= 10**5:
            raise ValueError(f"dimension must exceed block_size, got {self.dimension}.")
        if not 0 < self.opening < 0.3:
            raise ValueError(f"opening must be in (0, 0.3), got {self.opening}.")
        widths = self.widths
        if len(widths) < 2 or list(widths) != sorted(set(widths)) or not widths[0] >= 2:
            raise ValueError(f"widths must be two or more, growing, got {widths}.")
        if widths[-1] > 10**8:
            raise ValueError(f"widths must be at most 10^8, got {widths[-1]}.")
        for name in ("num_points", "num_seeds"):
            if not 1 <= getattr(self, name) <= 10**7:
                raise ValueError(f"{name} must be from 1 to 10^7, got {getattr(self, name)}.")


PRESETS = {
    "smoke": Config(dimension=24, widths=(12000, 96000), num_points=200, num_seeds=6),
    "paper": Config(dimension=96, widths=(10**5, 10**6, 10**7), num_points=10**5, num_seeds=20),
}


class Task(NamedTuple):
    """A law of finitely many points, its g*, and what the lemma needs to know."""

    law: FiniteLaw
    target: ReluNetwork
    bias: float  # b̃/σ_w
    constants: Constants
    floor: float  # B_ε


class Measured(NamedTuple):
    """What is measured about one start."""

    loss: Float[Array, ""]  # of the good subnetwork
    shuffled: Float[Array, ""]  # of the same output weights on other neurons
    counts: Int[Array, ""]  # Σ|Λ|
    fewest: Int[Array, ""]  # the smallest |Λ|


class Result(NamedTuple):
    """What was measured: cases (c, see NAMES), widths (m), seeds (s)."""

    widths: Int[np.ndarray, " m"]
    probability: Float[np.ndarray, " c"]  # p̂
    loss: Float[np.ndarray, "c m s"]
    shuffled: Float[np.ndarray, "c m s"]
    counts: Int[np.ndarray, "c m s"]
    fewest: Int[np.ndarray, "c m s"]
    bound: Float[np.ndarray, "c m"]


def memory(config: Config) -> int:
    """Bytes of the neurons, and of a block of them on all points, on two cores."""
    return 4 * 2 * (4 * max(config.widths) * config.dimension + 3 * 2000 * config.num_points)


def run(config: Config) -> Result:
    """One step in networks of every width, and their good subnetworks, on both laws."""
    law_key, probe_key, key = jax.random.split(jax.random.key(config.seed), 3)
    levels, bounds, shares = [], [], []
    for place, make in enumerate((_half_space, _parity)):
        report(f"the {NAMES[place]}", place / 2)
        task = make(law_key, config)
        share = _probability(probe_key, task)
        task = task._replace(constants=replace(task.constants, probability=share))
        optimum = float(risk(task.target, task.law))
        for width in config.widths:
            one = partial(_measured, task=task, width=width)
            levels.append(ensemble(one, jax.random.split(key, config.num_seeds)))
            bounds.append(subnetwork_bound(task.constants, width, task.floor, optimum))
        shares.append(share)
    shape = (len(NAMES), len(config.widths))
    stacked = {
        name: np.stack([np.asarray(getattr(level, name)) for level in levels]).reshape(*shape, -1)
        for name in Measured._fields
    }
    return Result(
        widths=np.array(config.widths),
        probability=np.array(shares),
        bound=np.array(bounds).reshape(shape),
        **stacked,
    )


def _half_space(key: RandomKey, config: Config) -> Task:
    """Separable points; biases so large that neurons with a negative one are always active."""
    law = separable_law(jnp.ones(config.dimension), 0.5, 1.0, 2.0)
    data = law.sample(key, config.num_points)
    strength = float(law.strength)
    points = _points(data.x, data.y[:, 0])
    # p is measured later. B_b only has to bound the biases 0 of g*; B_ε is far below the margin.
    target = separable_network(law)
    constants = sample_constants(points.x, target, 1.0, config.opening, strength / 2, 0.05)
    bias = config.dimension**0.5 * float(law.mean_square) ** 0.5
    return Task(points, target, bias, constants, floor=0.02)


def _parity(key: RandomKey, config: Config) -> Task:
    """One block, shown in half of the samples; B_ε is the distance of two bumps."""
    law = BlockParity(config.dimension, config.block_size, 1, 0.25, 0.2)
    data = law.sample(key, config.num_points)
    points, target = _points(data.x, data.y[:, 0]), block_parity_network(law)
    spacing = 1 / math.sqrt(config.block_size)
    least = 0.5 * law.block_probability * math.sqrt(config.block_size)
    constants = sample_constants(points.x, target, 1.0, config.opening, least)
    return Task(points, target, 2.0, constants, floor=2 * spacing)


def _points(x: Float[Array, "n d"], y: Float[Array, " n"]) -> FiniteLaw:
    return FiniteLaw(x, y, jnp.full(len(y), 1 / len(y), x.dtype))


def _neurons(key: RandomKey, law: FiniteLaw, bias: float, width: int) -> tuple[Array, Array]:
    """First gradients of neurons with biases ±b̃ in turn, and the signs of these."""
    size = min(width, 1000)
    signs = jnp.where(jnp.arange(size) % 2 == 0, 1.0, -1.0)

    def block(key: RandomKey) -> Float[Array, "w d"]:
        dimension = law.x.shape[1]
        weights = jax.random.normal(key, (size * dimension,)).reshape(size, dimension)
        return finite_gradients(law, weights, bias * signs)

    num_blocks = -(-width // size)
    found = jax.lax.map(block, jax.random.split(key, num_blocks))
    return jnp.concatenate(found)[:width], jnp.tile(signs, num_blocks)[:width]


def _probability(key: RandomKey, task: Task) -> float:
    """p̂ of a direction and a sign that g* needs, the smallest of 10,000 neurons: the double cone's.

    A nice neuron also needs the right sign of its output, which one of two has.
    """
    gradients, signs = jax.jit(partial(_neurons, bias=task.bias, width=10000))(key, task.law)
    c = task.constants
    both = [
        nice_neurons(
            side * jnp.ones_like(signs), gradients, task.target.weights, c.opening, c.gradient_norm
        )
        for side in (1, -1)
    ]
    wanted = signs[:, None] == jnp.where(task.target.biases > 0, 1, -1)[None, :]
    inside = ((both[0] | both[1]) & wanted).sum(axis=0) / wanted.sum(axis=0)
    return float(inside.min())


def _measured(key: RandomKey, task: Task, width: int) -> Measured:
    """The good subnetwork of one start, in units in which b̃ = 1."""
    output_key, weight_key, shuffle_key = jax.random.split(key, 3)
    gradients, signs = _neurons(weight_key, task.law, task.bias, width)
    found, moved = drawn_subnetwork(
        output_key, gradients, signs, task.target, task.constants, task.floor
    )
    mixed = moved._replace(outputs=jax.random.permutation(shuffle_key, found.outputs))
    counts = found.members.sum(axis=0)
    loss, mixed_loss = (blockwise_risk(network, task.law) for network in (moved, mixed))
    return Measured(loss, mixed_loss, counts.sum(), counts.min())


CLAIMS = (
    Claim(
        "On the half-space the subnetwork's loss is below its bound, at every width and start.",
        judge=lambda r, c: holds(r.bound[0][:, None] - r.loss[0]),
        source=LINEAR,
        formula=r"rB_{a1}(\epsilon_a B_{x1} + B_{x1}\sqrt{2\gamma} + B_\epsilon) + L(g^*)",
    ),
    Claim(
        "On the parity too.",
        judge=lambda r, c: holds(r.bound[1][:, None] - r.loss[1]),
        source=PARITY,
    ),
    Claim(
        "For every neuron of either g* there are some neurons, at every width and start.",
        judge=lambda r, c: holds(r.fewest - 1),
        source=COUNT,
    ),
    Claim(
        "On the half-space their number grows like the root of the width: exponent 0.5 ± 0.1.",
        judge=lambda r, c: exponent_between(r.widths, r.counts[0].T, 0.4, 0.6),
        source=COUNT,
        formula=r"|\Lambda_j| = \Omega(\sqrt{mp})",
    ),
    Claim(
        "And so it does on the parity.",
        judge=lambda r, c: exponent_between(r.widths, r.counts[1].T, 0.4, 0.6),
        source=COUNT,
    ),
    Claim(
        "On the half-space the loss is below 0.2 at the largest width, beside 1 of no network.",
        judge=lambda r, c: median_at_most(r.loss[0, -1], 0.2),
        source=LINEAR,
    ),
    Claim(
        "On the parity it is no good network at these widths: its loss exceeds ½.",
        # Half of the examples show the block, so that ½ is left if the others are not learned.
        judge=lambda r, c: median_at_least(r.loss[1, -1], 0.5),
        source=PARITY,
    ),
    Claim(
        "On the half-space the same output weights on other neurons make no good network.",
        judge=lambda r, c: ordered(r.loss[0, -1] + 0.3, r.shuffled[0, -1]),
        source=LINEAR,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Numbers of neurons and losses over widths."""
    figure, axes = panels("neurons of the subnetwork", "its loss")
    for case, name in enumerate(NAMES):
        colour = f"C{case}"
        axes[0].loglog(result.widths, result.counts[case], "o", color=colour, markersize=4)
        root = result.counts[case, 0].mean() * np.sqrt(result.widths / result.widths[0])
        axes[0].loglog(result.widths, root, label=f"{name}: √m", **(THEORY | {"color": colour}))
        axes[1].loglog(result.widths, result.loss[case], "o", color=colour, markersize=4)
        bound = result.bound[case]
        axes[1].loglog(result.widths, bound, label=f"{name}: bound", **(THEORY | {"color": colour}))
    axes[0].set(xlabel="width m", ylabel="neurons")
    axes[1].set(xlabel="width m", ylabel="loss")
    for axis in axes:
        axis.legend(fontsize=7)
    return figure
