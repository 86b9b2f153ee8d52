"""A network learns the parity of a block of signs that is sometimes shown; fixed features do not.

The label is the parity of a block of k signs. In half of the examples the signs are fair and only
the parity helps; in the others the block is all +1 or all −1, and these show its direction. Trained
online, the network learns the parity of fair signs; a linear model, random features and tangent
features of as many neurons, in as many steps on as many fresh samples, learn little more than the
sign of a sum. With three blocks it is the experiment `several_blocks`, and first gradients are in
`block_gradients`.

Source: shi · case-parity · §3.4.2, Theorem 3.22, Prop. 3.23.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    median_at_least,
    median_at_most,
    median_between,
)
from theorylab.data import BlockParity, Dataset
from theorylab.experiments.drawing import label_axes, panels
from theorylab.features import gradient
from theorylab.features.fixed import Features, random_features, squared_length, tangent_features
from theorylab.fields import Positive, Several
from theorylab.progress import report
from theorylab.training import ensemble, hinge, zero_one
from theorylab.typing import Measured, Params, RandomKey

from ._blocks import FIRST_RATE, LEARNING_RATE, Blocks, best_cosines, falling

PRECISION = "float32"
FORMULA = r"y = \prod_{l \in A} x_l"

TRAINED = Source("shi", "case-parity", "Theorem 3.22")
FIXED = Source("shi", "case-parity", "Prop. 3.23")

MODELS = ("network", "linear", "random features", "tangent features")
OUTPUT_SCALE = 40.0  # σ_a


@dataclass(frozen=True)
class Config(Blocks):
    """The parity of one block."""

    fixed_rates: Several[Positive] = (0.1, 1.0)  # of fixed features, times 1/E‖ψ‖²


PRESETS = {
    "smoke": Config(dimension=32, batch_size=256, fixed_rates=(0.1,), num_test=1024),
    "paper": Config(dimension=96, width=1024, num_steps=20000, num_seeds=20),
}


class Result(NamedTuple):
    """What was measured: axes seeds (s), models (4, see MODELS)."""

    cosine: Float[Measured, " s"]  # of the trained network's best neuron with the direction
    errors: Float[Measured, "s 4"]  # on the whole law
    fair: Float[Measured, "s 4"]  # on fair signs only


def run(config: Config) -> Result:
    """Train the network and its rivals."""
    report("training", 0.0)
    key, law = jax.random.fold_in(jax.random.key(config.seed), 2), config.law(1)
    seeds = jax.random.split(key, config.num_seeds)
    trained = ensemble(partial(_trained, law=law, config=config), seeds)
    report("training fixed features", 0.5)
    fixed = ensemble(partial(_fixed, law=law, config=config), seeds)
    errors = jnp.concatenate([trained[:, None, :2], fixed], axis=1)
    return Result(cosine=trained[:, 2], errors=errors[:, :, 0], fair=errors[:, :, 1])


def _sum_error(block_size: int) -> float:
    """How often the product of k fair signs is not the sign of their sum: 5/16 for k = 5."""
    counts = range((block_size + 1) // 2, block_size + 1)
    wrong = [math.comb(block_size, i) for i in counts if (block_size - i) % 2]
    return sum(wrong) / 2 ** (block_size - 1)


def _trained(key: RandomKey, law: BlockParity, config: Config) -> Float[Array, "3"]:
    """Algorithm 1: error on the law, on fair signs, and the best cosine with the direction."""
    start_key, sample_key, test_key = jax.random.split(key, 3)
    start = gradient.symmetric_network(
        start_key, config.width, law.dimension, config.bias, 1.0, OUTPUT_SCALE
    )
    steady = gradient.forgetting_schedule(FIRST_RATE, LEARNING_RATE, config.num_steps)
    fall = falling(config.num_steps)  # fixed features are trained so too
    schedule = steady._replace(
        output_rates=steady.output_rates * fall, weight_rates=steady.weight_rates * fall
    )
    whole = law.sample(test_key, config.num_test)
    fair = law.sample_uniform(test_key, config.num_test)

    def measure(network: gradient.ReluNetwork) -> Float[Array, "3"]:
        errors = [gradient.error_rate(network, test) for test in (whole, fair)]
        return jnp.stack([*errors, best_cosines(network.weights, law)[0]])

    steps = [config.num_steps]
    return gradient.train(
        sample_key, start, law.sample, config.batch_size, schedule, steps, measure
    ).records[-1]


def _fixed(key: RandomKey, law: BlockParity, config: Config) -> Float[Array, "3 2"]:
    """Errors of linear, random and tangent features of one width, on the law and on fair signs."""
    weight_key, output_key, train_key, test_key = jax.random.split(key, 4)
    count, d = 4 * config.width, law.dimension
    drawn = gradient.ReluNetwork(
        jax.random.normal(output_key, (count,)) / count**0.5,
        jax.random.normal(weight_key, (count, d)) / d**0.5,
        jnp.linspace(-1.0, 1.0, count),
    )

    def apply(network: gradient.ReluNetwork, x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
        return network(x)[:, None]

    outputs = gradient.ReluNetwork(True, False, False)  # pyright: ignore
    models = (
        Features(lambda theta, x: x @ theta, jnp.zeros((d, 1))),
        random_features(apply, drawn, outputs),
        tangent_features(apply, drawn),
    )
    tests = tuple(draw(test_key, config.num_test) for draw in (law.sample, law.sample_uniform))

    def errors(model: Features) -> Float[Array, "2"]:
        one = partial(_online, train_key, law, model, config=config, tests=tests)
        # The best rate for either error, so that no choice of a rate is against them.
        return jax.vmap(one)(jnp.asarray(config.fixed_rates)).min(axis=0)

    return jnp.stack([errors(model) for model in models])


def _online(
    key: RandomKey,
    law: BlockParity,
    model: Features,
    rate: Float[Array, ""],
    config: Config,
    tests: tuple[Dataset, ...],
) -> Float[Array, "2"]:
    """Errors of a linear model after as many steps on as many fresh samples as the network has."""
    size = rate / squared_length(model, tests[0].x)

    def risk_of(theta: Params, data: Dataset) -> Float[Array, ""]:
        return hinge("mean")(model.apply(theta, data.x), data.y)

    def advance(theta: Params, given: tuple[Array, RandomKey]) -> tuple[Params, None]:
        part, key = given
        slope = jax.grad(risk_of)(theta, law.sample(key, config.batch_size))
        return jax.tree.map(lambda value, down: value - size * part * down, theta, slope), None

    keys = jax.random.split(key, config.num_steps)
    theta, _ = jax.lax.scan(advance, model.params, (falling(config.num_steps), keys))
    return jnp.stack([zero_one("mean")(model.apply(theta, test.x), test.y) for test in tests])


# Rates and scales were chosen with other seeds: of 0.01, 0.1, 1 and 10, fixed features err least at
# 0.1 with seed 101, and next at 1.
CLAIMS = (
    TRAINED.claim(
        "Trained on one block, the network errs on at most ε = 2 % of the samples.",
        lambda r, c: median_at_most(r.errors[:, 0], 0.02),
        demand="lab: ε = 2 %, chosen for this experiment",
    ),
    TRAINED.found(
        "It then has a neuron with the block's direction: cosine 0.9 or more.",
        lambda r, c: median_at_least(r.cosine, 0.9),
    ),
    FIXED.found(
        "Linear, random and tangent features of its width err on 10 % or more of the fair signs.",
        lambda r, c: median_at_least(r.fair[:, 1:].min(axis=1), 0.1),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    FIXED.control(
        "A linear model errs on fair signs as often as the sign of their sum, to 10 points.",
        lambda r, c: median_between(r.fair[:, 1] - _sum_error(c.block_size), -0.1, 0.1),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Errors on the whole law and on fair signs."""
    figure, (axis,) = panels("errors")
    names = [name.replace(" ", "\n") for name in MODELS]
    axis.plot(names, result.errors.T, "o", color="C0", alpha=0.6)
    axis.plot(names, result.fair.T, "x", color="C1", alpha=0.8)
    label_axes(axis, "", "circles: whole law; crosses: fair signs")
    return figure
