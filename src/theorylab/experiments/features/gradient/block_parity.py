"""A network learns the parity of a block of signs that is sometimes shown; fixed features do not.

The label is the majority of r parities, each of a block of k signs. In half of the examples the
signs are fair and only the parities help; in the others one block is all +1 or all −1, and these
show its direction. A neuron with a large bias that is sure of a block is active on its +1 example
alone, so that its first gradient is p_A on this block and nothing elsewhere. Trained, the network
learns the parity of fair signs; a linear model, random features and tangent features of as
many neurons, in as many steps on as many fresh samples, learn little more than the sign of a sum.

The source says E[yx] = 0, by symmetry; but it is 2p_A on every block, which is what the linear
model uses. So the neuron (−w, −b) of a sure neuron (w, b) has the gradient E[yx] − G(w, b), which
with several blocks points to all of them: their directions are no features with a negative bias.
Gradients are for one and for three blocks. Training is for one; with three it is the experiment
`several_blocks`.

Source: shi · case-parity · §3.4.2, B.5.4.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    at_most,
    identity,
    median_at_least,
    median_at_most,
    median_between,
)
from theorylab.data import BlockParity, Dataset
from theorylab.experiments.drawing import label_axes, panels
from theorylab.features import gradient
from theorylab.features.fixed import Features, random_features, squared_length, tangent_features
from theorylab.fields import Count, Plural, Positive, Several
from theorylab.progress import report
from theorylab.training import ensemble, hinge, zero_one
from theorylab.typing import Measured, Params, RandomKey

from ._blocks import FIRST_RATE, LEARNING_RATE, Blocks, best_cosines, falling

PRECISION = "float32"
FORMULA = r"y = \operatorname{sign} \sum_j \prod_{l \in A_j} x_l, \ G(w, b)_l = p_A \ (l \in A_j)"

EXACT = Source("shi", "case-parity", "Lemma 3.21, g*")
MOMENTS = Source("shi", "case-parity", "Remark B.45")
MIRRORED = Source("shi", "case-parity", "Lemma 3.21, (D_j, −1)")
SURE = Source("shi", "case-parity", "Lemma 3.21, Lemma B.50")
TRAINED = Source("shi", "case-parity", "Theorem 3.22, (B.477)")
FIXED = Source("shi", "case-parity", "Prop. 3.23")

MODELS = ("network", "linear", "random features", "tangent features")
OUTPUT_SCALE = 40.0  # σ_a
SURENESS = 4.0  # the bias of sure neurons, in deviations of the background


@dataclass(frozen=True)
class Config(Blocks):
    """Parities of one and of more blocks."""

    num_neurons: Count = 64  # sure neurons
    num_samples: Plural = 60000  # for gradients
    fixed_rates: Several[Positive] = (0.1, 1.0)  # of fixed features, times 1/E‖ψ‖²

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_blocks * self.block_size > 20:
            size = self.num_blocks * self.block_size
            raise ValueError(f"num_blocks · block_size must be at most 20, got {size}.")


PRESETS = {
    "smoke": Config(
        dimension=32,
        num_neurons=32,
        num_samples=20000,
        batch_size=256,
        fixed_rates=(0.1,),
        num_test=1024,
    ),
    "paper": Config(dimension=96, num_samples=10**6, width=1024, num_steps=20000, num_seeds=20),
}


class Result(NamedTuple):
    """What was measured: axes laws (2: one block, more), seeds (s), models (4, see MODELS)."""

    exact: Float[Measured, " 2"]  # hinge loss of g* on all patterns
    moments: Float[Measured, " a"]  # E[yx_l] of the second law, from all patterns
    inside: Float[Measured, "2 s"]  # mean gradient of sure neurons on their block, over p_A
    outside: Float[Measured, "2 s"]  # the largest mean coordinate elsewhere, over p_A
    mirrored: Float[Measured, "2 s"]  # mean cosine of G(−w, −b) with D of the sure neurons' block
    cosine: Float[Measured, " s"]  # of the trained network's best neuron with the direction
    errors: Float[Measured, "s 4"]  # on the whole law
    fair: Float[Measured, "s 4"]  # on fair signs only
    term: float  # rB_a1 B_x1 √(2γ) of the main bound at τ = 8, with the r of the explicit network
    stated: Float[Measured, " 2"]  # the theorem's bound on it: as printed, and with all neurons


def run(config: Config) -> Result:
    """List patterns, measure gradients of sure neurons, train the network and its rivals."""
    report("listing patterns", 0.0)
    key = jax.random.key(config.seed)
    laws = [config.law(1), config.law(config.num_blocks)]
    patterns, chances = laws[1].patterns()

    def seeds(number: int) -> Array:
        return jax.random.split(jax.random.fold_in(key, number), config.num_seeds)

    exact = jnp.stack([_exact_loss(law) for law in laws])
    report("first gradients", 0.1)
    sure = jnp.stack(
        [
            ensemble(partial(_sure, law=law, config=config), seeds(place))
            for place, law in enumerate(laws)
        ]
    )
    report("training", 0.3)
    trained = ensemble(partial(_trained, law=laws[0], config=config), seeds(2))
    report("training fixed features", 0.6)
    fixed = ensemble(partial(_fixed, law=laws[0], config=config), seeds(2))
    errors = jnp.concatenate([trained[:, None, :2], fixed], axis=1)
    term, stated = _stated(laws[1])
    return Result(
        exact=exact,
        moments=(chances * laws[1].labels(patterns)) @ patterns,
        inside=sure[:, :, 0],
        outside=sure[:, :, 1],
        mirrored=sure[:, :, 2],
        cosine=trained[:, 2],
        errors=errors[:, :, 0],
        fair=errors[:, :, 1],
        term=term,
        stated=stated,
    )


def _stated(law: BlockParity) -> tuple[float, np.ndarray]:
    """What turned directions cost at the theorem's τ = 8, and what is said to bound it."""
    tau, sizes = 8.0, (law.block_size, law.num_blocks)
    c = gradient.block_parity_case(law, tau).constants
    bounds = [
        gradient.parity_error_bound(law.dimension, tau, *sizes, printed=flag)
        for flag in (True, False)
    ]
    # The theorem bounds E‖x‖ by √d.
    term = c.num_neurons * c.entry_bound * math.sqrt(2 * law.dimension * c.opening)
    return term, np.array(bounds)


def _sum_error(block_size: int) -> float:
    """How often the product of k fair signs is not the sign of their sum: 5/16 for k = 5."""
    counts = range((block_size + 1) // 2, block_size + 1)
    wrong = [math.comb(block_size, i) for i in counts if (block_size - i) % 2]
    return sum(wrong) / 2 ** (block_size - 1)


def _exact_loss(law: BlockParity) -> Float[Array, ""]:
    """The hinge loss of g*, on all patterns of relevant coordinates and a background of 0."""
    patterns, chances = law.patterns()
    x = jnp.pad(patterns, ((0, 0), (0, law.dimension - law.num_relevant)))
    points = gradient.FiniteLaw(x, law.labels(x), chances)
    return gradient.risk(gradient.block_parity_network(law), points)


def _sure(key: RandomKey, law: BlockParity, config: Config) -> Float[Array, "3"]:
    """Mean gradient of sure neurons over p_A, inside and outside; cosine of their mirror images."""
    weight_key, sample_key = jax.random.split(key)
    bias = SURENESS * gradient.background_deviation(law)
    weights = gradient.sure_neurons(weight_key, law, config.num_neurons, bias)
    signs = jnp.repeat(jnp.array([1.0, -1.0]), config.num_neurons)
    both = signs[:, None] * jnp.concatenate([weights, weights])
    found = gradient.sampled_gradients(
        sample_key, law.sample, both, bias * signs, config.num_samples
    ).gradients
    sure, mirrored = jnp.split(found, 2)
    mean, k = sure.mean(axis=0) / law.block_probability, law.block_size
    cosines = mirrored @ law.directions[0] / jnp.linalg.norm(mirrored, axis=1)
    return jnp.stack([mean[:k].mean(), jnp.abs(mean[k:]).max(), cosines.mean()])


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


def _mirrored_cosines(config: Config) -> np.ndarray:
    """p_A on its own block and 2p_A on r − 1 others: 1/√(1 + 4(r − 1)), for one block and more."""
    return 1 / np.sqrt([[1], [4 * config.num_blocks - 3]])


def _formula(config: Config) -> np.ndarray:
    """2p_A on all blocks."""
    law = config.law(config.num_blocks)
    return np.asarray(law.label_mean[: law.num_relevant])


# Rates and scales were chosen with other seeds: of 0.01, 0.1, 1 and 10, fixed features err least at
# 0.1 with seed 101, and next at 1.
CLAIMS = (
    EXACT.claim(
        "The explicit network has no hinge loss, for one block and for more.",
        lambda r, c: at_most(r.exact.max(), 1e-5),
        quote="whose hinge loss is 0",
        demand="derived: 0, to rounding in single precision",
    ),
    *MOMENTS.erratum(
        printed=(
            "E[yx] is 0, because the law is symmetric.",
            lambda r, c: identity(r.moments, 0 * r.moments, 1e-5),
        ),
        corrected=(
            "E[yx] is 2p_A on all blocks.",
            lambda r, c: identity(r.moments, _formula(c), 1e-5),
        ),
        quote="Our data distribution is symmetric, which means for any",
    ),
    SURE.claim(
        "The gradient of a neuron that is sure of a block is p_A on it and 0 elsewhere, to p_A/10.",
        lambda r, c: median_at_most(np.maximum(np.abs(r.inside - 1), r.outside).max(axis=0), 0.1),
        formula=r"G_l = p_A \pm O(d^{-\tau}) \ (l \in A_j), \ O(d^{-\tau}) \ (l \notin A_j)",
        demand="lab: p_A/10, for the noise of samples; chosen for this experiment",
    ),
    *MIRRORED.erratum(
        printed=(
            "With several blocks the neuron (−w, −b) of a sure one also points to its block.",
            lambda r, c: median_at_least(r.mirrored[1], 0.9),
            r"(D_j, -1) \in S_{p, \gamma, B_G} \ \text{for all } j \in [r]",
        ),
        corrected=(
            "Its cosine with its block is 1/√(4r − 3), to 0.05: it does so for one block only.",
            lambda r, c: median_at_most(
                np.abs(r.mirrored - _mirrored_cosines(c)).max(axis=0), 0.05
            ),
            r"G(-w, -b) = \mathbb{E}[yx] - G(w, b)",
        ),
        quote="by Theorem B.71 and considering",
    ),
    *TRAINED.erratum(
        printed=(
            "The error bound 3r√k/d^((τ−3)/2) covers what turned directions cost the explicit"
            " network.",
            lambda r, c: at_most(r.term, r.stated[0]),
            r"3 r \sqrt{k}\, d^{-(\tau - 3)/2}",
        ),
        corrected=(
            "With its 3r(k+1) neurons in place of r it does.",
            lambda r, c: at_most(r.term, r.stated[1]),
            r"9 r (k + 1) \sqrt{k}\, d^{-(\tau - 3)/2}",
        ),
        quote="Injecting above parameters into Theorem 3.12",
    ),
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
    """Gradients of sure neurons, cosines of their mirror images, errors on fair signs."""
    figure, axes = panels("gradients of sure neurons / p_A", "cosine of (−w, −b)", "errors")
    for place, name in enumerate(("one block", "more")):
        axes[0].plot(result.inside[place], "o", color=f"C{place}", label=f"{name}, on it")
        axes[0].plot(result.outside[place], "x", color=f"C{place}", label=f"{name}, elsewhere")
        axes[1].plot(result.mirrored[place], "o", color=f"C{place}", label=name)
    for axis in axes[:2]:
        axis.legend(fontsize=7)
        label_axes(axis, "seed")
    names = [name.replace(" ", "\n") for name in MODELS]
    axes[2].plot(names, result.errors.T, "o", color="C0", alpha=0.6)
    axes[2].plot(names, result.fair.T, "x", color="C1", alpha=0.8)
    label_axes(axes[2], "", "circles: whole law; crosses: fair signs")
    return figure
