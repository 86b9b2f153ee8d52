"""Narrow networks learn an XOR of four clusters; fixed features fail at it only in strong noise.

Clusters at ±√d e₁ have one label, at ±√d e₂ the other, so that no line separates them. The first
gradient finds the four directions with a probability p that falls slower than any power of d.
Theorem B.42 bounds the error of networks where the noise σ_B is of order 1: they need a width of
order log d, and 8 log d neurons do learn it in 64 to 1024 dimensions. The source sets this beside a
lower bound of d² for fixed features; but that holds in strong noise, σ_B of order √d. At σ_B = 1
random features of a few times d neurons solve the task as well as the network does, and at
σ_B = √d/3, where they do fail, the theorem's width for the network, ∝ σ_B (log d)^(σ_B²), is
thousands of times larger. The network itself learns both, with d neurons.

With the theorem's ‖G‖ ≥ √d/5 the probability p is not reproduced: it is a tenth of the lemma's or
less. The lemma is for large d, where 1 − O((log d)^(−1/50)) is near 1, and no d is so large.

Fixed features are those of distinct neurons. Random features see as many samples as the network;
tangent features are fitted to fewer, because a kernel has all pairs of them (with seed 101 and 8000
samples in place of 3000 they err on 15 % in place of 18 % at σ_B = √d/3; the network errs on 4 %).

Source: shi · case-mog-xor · B.5.3, Theorem B.42, §3.4.1.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    exponent_between,
    holds,
    median_at_least,
    median_at_most,
    ordered,
)
from theorylab.data import GaussianMixture
from theorylab.data.mixtures import xor_mixture
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels, scaling
from theorylab.features import gradient
from theorylab.fields import Count, Increasing, within
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._clusters import Comparison, compared_errors, drawn_gradients, fitted_and_test, random_error

PRECISION = "float32"
FORMULA = r"p = \Theta\big(\sigma_B^{-1} (\log d)^{-\sigma_B^2}\big)"

LEMMA = Source("shi", "case-mog-xor", "Lemma B.37")
SEPARATION = Source("shi", "case-mog-xor", "§3.4.1, beyond the kernel regime")
THEOREM = Source("shi", "case-mog-xor", "Theorem B.42")

Dimension = Annotated[int, within(16, 1000000)]  # log log d must be positive
# p̂ at σ_B = τ = 1 by dimension, computed once by other means; judged to a factor of 2.
CHECKED = {64: 0.038, 256: 0.021, 1024: 0.014, 4096: 0.010}
FRACTIONS = (1 / 4, 1 / 3, 1 / 2)  # σ_B/√d of the noises above σ_B = 1
ACCURACY = 0.05  # ε of the theorem
FIRST = 15  # η⁽¹⁾d; a neuron is then active on its cluster: η‖G‖√d is a few times b̃ = 1
STRONG = 2  # the place of √d/3 among all noises


@dataclass(frozen=True)
class Config(Comparison):
    """XOR clusters: probabilities over dimensions, and errors in weak and strong noise."""

    dimensions: Increasing[Dimension] = (64, 256, 1024, 4096)  # for the probability of a direction
    num_neurons: Count = 100000  # for that probability
    dimension: Dimension = 64  # for training
    narrow_dimensions: Increasing[Dimension] = (64, 256, 1024)  # for networks of 8 log d neurons
    num_seeds: Count = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.dimensions) < 3:
            raise ValueError(f"dimensions must be three or more, got {self.dimensions}.")
        if self.dimension % 4:
            raise ValueError(f"dimension must be divisible by 4, got {self.dimension}.")

    @property
    def noises(self) -> np.ndarray:
        """σ_B: 1, and parts of √d."""
        return np.array([1.0, *(part * self.dimension**0.5 for part in FRACTIONS)])


PRESETS = {
    "smoke": Config(
        dimensions=(64, 256, 16384, 65536),
        num_neurons=30000,
        narrow_dimensions=(64, 256),
        num_steps=80,
        batch_size=200,
        num_fitted=800,
        num_test=1000,
        num_seeds=6,
    ),
    "paper": Config(
        dimensions=(64, 256, 1024, 4096, 16384),
        num_neurons=10**6,
        dimension=256,
        num_steps=2000,
        batch_size=2000,
        num_fitted=8000,
        num_seeds=10,
    ),
}


class Result(NamedTuple):
    """What was measured: dimensions (d), seeds (s), noises (4)."""

    probability: Float[Measured, "s d"]  # p̂ in the cone and with the least length
    direction: Float[Measured, "s d"]  # in the cone, of any length
    formula: Float[Measured, " d"]  # the lemma's, with unit constant
    network: Float[Measured, "4 s"]  # test errors
    random: Float[Measured, "4 s"]  # of d random features
    wide: Float[Measured, "4 s"]  # of 4d random features
    tangent: Float[Measured, "4 s"]  # of tangent features of d neurons
    linear: Float[Measured, "4 s"]
    narrow: Float[Measured, "n s"]  # of networks of 8 log d neurons at σ_B = 1


def memory(config: Config) -> int:
    """Bytes of kernels, of samples with their 4d hidden neurons, and of gradients, on two cores."""
    samples = config.batch_size + config.num_fitted + config.num_test
    training = 4 * config.num_fitted * (config.num_fitted + config.num_test)
    training += 12 * config.dimension * (samples + 4 * config.dimension)
    return 4 * 2 * (training + 20 * config.num_neurons + 8 * max(config.dimensions))


def run(config: Config) -> Result:
    """Count gradients in cones, then train and fit in weak and in strong noise."""
    shares_key, train_key = jax.random.split(jax.random.key(config.seed))
    report("counting gradients in cones", 0.0)
    shares, formula = _probabilities(shares_key, config)
    report("training in weak and in strong noise", 0.3)
    keys = jnp.tile(jax.random.split(train_key, config.num_seeds), len(config.noises))
    noises = jnp.repeat(jnp.asarray(config.noises), config.num_seeds)
    one = partial(_errors, law=xor_mixture(config.dimension), config=config)
    flat = ensemble(lambda given: one(*given), (keys, noises))
    errors = {name: values.reshape(-1, config.num_seeds) for name, values in flat.items()}
    report("training narrow networks", 0.8)
    keys = jax.random.split(jax.random.fold_in(train_key, 1), config.num_seeds)
    narrow = [
        ensemble(partial(_narrow_error, law=xor_mixture(d), config=config), keys)
        for d in config.narrow_dimensions
    ]
    return Result(
        probability=shares[0],
        direction=shares[1],
        formula=formula,
        narrow=jnp.stack(narrow),
        **errors,
    )


def _probabilities(key: RandomKey, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """p̂ with and without the least length, (2, seeds, dimensions), and the lemma's formula."""
    laws = [xor_mixture(dimension) for dimension in config.dimensions]
    cases = [gradient.xor_case(law) for law in laws]
    numbers = jnp.array(
        [(c.bias_ratio, c.constants.opening, c.constants.gradient_norm) for c in cases]
    )
    small = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(gradient.reduced_mixture, laws))
    levels = (small, jnp.array(config.dimensions), numbers)
    repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, config.num_seeds, axis=0), levels)
    keys = jnp.tile(jax.random.split(key, config.num_seeds), len(laws))
    one = partial(_shares, num_neurons=config.num_neurons)
    flat = ensemble(lambda given: one(*given), (keys, *repeated))
    shares = np.asarray(flat).reshape(len(laws), config.num_seeds, 2)
    return shares.transpose(2, 1, 0), np.array([case.constants.probability for case in cases])


def _shares(
    key: RandomKey, law: GaussianMixture, dimension: Array, numbers: Array, num_neurons: int
) -> Float[Array, "2"]:
    """The shares of gradients in the cone of one direction, with and without the length."""
    bias, opening, floor = numbers
    gradients = drawn_gradients(key, law, num_neurons, dimension, bias)
    inside = [
        gradient.cone_members(gradients, law.directions[:1], opening, least)
        for least in (floor, 0.0)
    ]
    return jnp.stack(inside).mean(axis=(1, 2))


def _errors(
    key: RandomKey, noise: Array, law: GaussianMixture, config: Config
) -> dict[str, Float[Array, ""]]:
    """Test errors of a network of d neurons, and of fixed features of d and 4d."""
    d = config.dimension
    law = law._replace(deviations=noise * law.deviations)
    ratio = _bias_ratio(d) * noise
    errors = compared_errors(key, law, ratio, FIRST / d, d // 4, config)
    return {
        **errors._asdict(),
        "wide": random_error(key, law, ratio, 4 * d, config),
        "linear": gradient.ridge_error(lambda x: x, *fitted_and_test(key, law, config)),
    }


def _bias_ratio(dimension: int) -> float:
    """b̃/σ_w at σ_B = 1."""
    return math.sqrt(dimension * math.log(math.log(dimension)))


def _narrow_error(key: RandomKey, law: GaussianMixture, config: Config) -> Float[Array, ""]:
    """The test error of a network of about 8 log d neurons, in weak noise."""
    dimension = law.dimension
    train_key, test_key = jax.random.split(key)
    width = math.ceil(2 * math.log(dimension))
    recipe = gradient.OnlineRecipe(
        width, config.batch_size, first_rate=FIRST / dimension, rate=0.05
    )
    measure = partial(gradient.error_rate, data=law.sample(test_key, config.num_test))
    return gradient.learn_online(
        train_key,
        law.sample,
        dimension,
        _bias_ratio(dimension),
        recipe,
        [config.num_steps],
        measure,
    ).records[-1]


def _over_checked(result: Result, config: Config) -> np.ndarray:
    """p̂ over the known values, at those dimensions that have one."""
    known = np.array([CHECKED.get(d, np.nan) for d in config.dimensions])
    return (result.probability / known[None, :])[:, ~np.isnan(known)]


def _slopes(result: Result, config: Config, first: int, last: int) -> np.ndarray:
    """Log–log slopes of p̂ between two dimensions, for every seed."""
    ratio = config.dimensions[last] / config.dimensions[first]
    return np.log(result.probability[:, last] / result.probability[:, first]) / np.log(ratio)


CLAIMS = (
    LEMMA.claim(
        "The probability of a direction with ‖G‖ ≥ √d/5 is the lemma's, within a factor of 2.",
        lambda r, c: holds(np.log(2) - np.abs(np.log(r.probability / r.formula[None, :]))),
        formula=r"p \approx (\log d)^{-18\tau\sigma_B^2/25} / (\sqrt{\tau\log\log d}\,\sigma_B)",
        demand="lab: Θ with unit constant, to a factor of 2",
        expected="refuted",
        why="it is for large d: 1 − O((log d)^(−1/50)) is not near 1 at any d that can be drawn",
    ),
    LEMMA.found(
        "Without the condition on lengths it is the lemma's formula, within a factor of 2.",
        lambda r, c: holds(np.log(2) - np.abs(np.log(r.direction / r.formula[None, :]))),
    ),
    LEMMA.found(
        "The probability falls slower than d to the power -0.45.",
        lambda r, c: exponent_between(np.array(c.dimensions), r.probability, -0.45, 0.0),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    LEMMA.found(
        "It flattens: the last log–log slope is above the first.",
        lambda r, c: ordered(_slopes(r, c, 0, 1), _slopes(r, c, -2, -1)),
    ),
    LEMMA.check(
        "It is 0.038, 0.021, 0.014 and 0.010 for d = 64, 256, 1024 and 4096, to a factor of 2.",
        lambda r, c: holds(np.log(2) - np.abs(np.log(_over_checked(r, c)))),
    ),
    THEOREM.claim(
        "Networks of 8 log d neurons err on at most ε = 5 % at σ_B = 1, in every dimension.",
        lambda r, c: median_at_most(r.narrow.max(axis=0), ACCURACY),
        formula=r"m = \Omega(\sigma_B (\log d)^{\sigma_B^2})",
        quote="neurons and … samples to achieve arbitrary small constant error",
        demand="lab: ε = 5 % and 8 log d, chosen for this experiment",
    ),
    SEPARATION.claim(
        "In strong noise the network beats random features of equal width by 15 points.",
        lambda r, c: median_at_least(r.random[STRONG] - r.network[STRONG], 0.15),
        quote="the advantage of network learning over kernel methods under the setting of",
        demand="lab: 15 points, chosen for this experiment",
    ),
    SEPARATION.claim(
        "In strong noise it beats the tangent features of an equal network by 5 points.",
        lambda r, c: median_at_least(r.tangent[STRONG] - r.network[STRONG], 0.05),
        demand="lab: 5 points, chosen for this experiment",
    ),
    *SEPARATION.erratum(
        printed=(
            "At σ_B = 1, where the bound for networks holds, 4d ≪ d² fixed features are at chance.",
            lambda r, c: median_at_least(r.wide[0], 0.4),
        ),
        corrected=(
            "At σ_B = 1, random features of width 4d are within a point of the network.",
            lambda r, c: median_at_most(r.wide[0] - r.network[0], 0.01),
        ),
        quote="fixed feature methods need … features and … samples to achieve nontrivial errors",
    ),
    LEMMA.control(
        "A linear classifier is at chance, in weak noise and in strong.",
        lambda r, c: median_at_least(r.linear.min(axis=0), 0.4),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Probabilities over dimensions, and errors in weak and strong noise."""
    figure, axes = panels("probability of a direction", "test errors")
    shares = {"in the cone": result.direction, "and ‖G‖ ≥ √d/5": result.probability}
    scaling(axes[0], config.dimensions, shares)
    axes[0].loglog(config.dimensions, result.formula, label="formula", **THEORY)
    label_axes(axes[0], "dimension d", "p̂")
    names = ("network", "random", "wide", "tangent", "linear")
    curves(axes[1], config.noises, {name: getattr(result, name).T for name in names}, "o-")
    label_axes(axes[1], "noise σ_B", "error")
    return figure
