"""One step of gradient descent finds a sparse parity of fair signs, by the majority's weak echo.

The label is the product of k of d fair signs. No sign alone says anything about it; but a neuron
that is active on a half of the hypercube is a majority, and this has a small Fourier coefficient
of k − 1 signs. So the first gradient points to the k signs, exactly as a closed form says, for the
neurons whose k relevant signs agree: one in 2^{k−1}. The signal falls like d^{−(k−1)/2}, so that
about d^{k−1} samples are needed to see it. After one step on the exact risk the output layer alone
learns the parity; without that step the same neurons learn nothing.

Samples needed are those that give the right sign to all k coordinates with probability 0.9, from
counts of patterns that follow their exact law. The output layer has the least hinge loss with
‖a‖ ≤ 8k√k, the source's bound, by accelerated descent in place of its k³md²/ε plain steps.

Source: shi · case-uniform-parity · B.5.5–B.5.6, Algorithm 6.
"""

import math
from dataclasses import dataclass
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
    at_least,
    exponent_between,
    holds,
    identity,
    median_at_least,
    median_at_most,
)
from theorylab.data import SparseParity
from theorylab.experiments.checks import refuse_below, refuse_negative
from theorylab.experiments.drawing import THEORY, panels
from theorylab.features.gradient import (
    FiniteLaw,
    aligned,
    aligned_cosine,
    finite_gradients,
    frozen_optimum,
    gradient_length,
    limit_samples,
    majority_coefficient,
    needed_samples,
    parity_gradients,
    parity_rate,
    parity_start,
    parity_step,
)
from theorylab.progress import report
from theorylab.typing import RandomKey

PRECISION = "float64"
FORMULA = r"G(w, b)_j = \tfrac12 \xi_{k-1} \prod_{l \in A \setminus j} w_l \quad (j \in A)"

GRADIENT = Source("shi", "case-uniform-parity", "B.549")
MAJORITY = Source("shi", "case-uniform-parity", "B.480")
LENGTH = Source("shi", "case-uniform-parity", "B.557")
FEATURES = Source("shi", "case-uniform-parity", "B.65")
SAMPLES = Source("shi", "case-uniform-parity", "Lemma B.54, Theorem B.56")
TRAINED = Source("shi", "case-uniform-parity", "Theorem B.56, Algorithm 6")

PROBABILITY = 0.9  # of the right signs, which the samples needed must give
SMOOTHING = 0.1  # of the hinge, to train; only signs of outputs are judged
WIDTH = 64  # m; the 4m neurons are 4k2ᵏ for k = 4, and more for k = 2
TILT = 1.5  # a bias for which the closed form does not hold

_Samples = tuple[Float[Array, "n m"], Float[Array, " n"]]  # hidden layers, labels


@dataclass(frozen=True)
class Config:
    """Parities of two and of four signs, each at some dimensions."""

    listed: tuple[int, ...] = (9, 13)  # dimensions whose points are all listed, odd
    pair_dimensions: tuple[int, ...] = (33, 65, 129)  # d for k = 2, odd
    four_dimensions: tuple[int, ...] = (21, 33, 45)  # d for k = 4, odd
    num_neurons: int = 20000  # drawn to count those that find the direction
    num_trials: int = 1000  # at each number of samples
    num_samples: int = 2048  # to train the output layer on
    num_test: int = 4096
    num_steps: int = 400  # of accelerated descent
    num_seeds: int = 6  # at least 6 to conclude
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_negative(self)
        sizes = ("num_neurons", "num_trials", "num_samples", "num_test", "num_steps", "num_seeds")
        refuse_below(self, 1, *sizes)
        if not self.listed or max(self.listed) > 15:
            raise ValueError(f"listed must be some dimensions of at most 15, got {self.listed}.")
        for name in ("pair_dimensions", "four_dimensions"):
            if len(getattr(self, name)) < 2:
                raise ValueError(f"{name} must be two or more, for a slope.")
        for bits, dimension in (*self.cases, *((4, d) for d in self.listed)):
            aligned_cosine(dimension, bits)  # refuses even d

    @property
    def cases(self) -> list[tuple[int, int]]:
        """(k, d) of every case."""
        return [(2, d) for d in self.pair_dimensions] + [(4, d) for d in self.four_dimensions]


PRESETS = {
    "smoke": Config(
        listed=(9,),
        pair_dimensions=(33, 129),
        four_dimensions=(33, 65),
        num_neurons=4000,
        num_samples=512,
        num_test=512,
        num_steps=300,
    ),
    "paper": Config(
        pair_dimensions=(33, 65, 129, 257),
        four_dimensions=(33, 65, 129, 257),
        num_samples=16384,
    ),
}


class Result(NamedTuple):
    """What was measured: axes cases (c), seeds (s), numbers of listed gradients (i)."""

    bits: Int[np.ndarray, " c"]
    dimensions: Int[np.ndarray, " c"]
    listed: Float[np.ndarray, " i"]  # gradients from all points
    formula: Float[np.ndarray, " i"]  # the closed form
    printed: Float[np.ndarray, " i"]  # as the source has it
    tilted: float  # largest error of the closed form at a larger bias, over its size, in any case
    majority: Float[np.ndarray, "3 f"]  # coefficients: from all points, closed form, printed
    cosines: Float[np.ndarray, "2 c"]  # of aligned neurons with D: of the gradient, closed form
    distances: Float[np.ndarray, "2 c"]  # of G/‖G‖ from ±D in a coordinate: largest, bound
    lengths: Float[np.ndarray, " c"]  # ‖G‖
    aligned: Int[np.ndarray, " c"]  # neurons that find D
    num_neurons: int
    needed: Float[np.ndarray, "s c"]  # samples for the right signs
    limit: Float[np.ndarray, " c"]  # in the Gaussian limit
    error: Float[np.ndarray, "s c"]  # after one step, with a trained output layer
    unmoved: Float[np.ndarray, "s c"]  # the same without the step


def memory(config: Config) -> int:
    """Bytes of the hidden layers of two networks, twice, or of the points that are listed."""
    hidden = 4 * (config.num_samples + config.num_test) * 4 * WIDTH
    return 8 * max(hidden, 12 * config.num_neurons, 45 * 2 ** max(config.listed))


def run(config: Config) -> Result:
    """List all points; for every case count neurons and samples, and train output layers."""
    key = jax.random.key(config.seed)
    report("listing all points", 0.0)
    small = [(bits, d) for bits in (2, 4) for d in config.listed]
    listed = [_listed(jax.random.fold_in(key, place), *case) for place, case in enumerate(small)]
    shapes = np.array([_shape(*case) for case in config.cases]).T
    counted, needed, errors = [], [], []
    for place, case in enumerate(config.cases):
        done = (place + 1) / (len(config.cases) + 1)
        report(f"training for {case[0]} of {case[1]} signs", done)
        count_key, sign_key, train_key = jax.random.split(jax.random.fold_in(key, 100 + place), 3)
        counted.append(_count_aligned(count_key, case[0], config.num_neurons))
        asked = (case[1], case[0], PROBABILITY, config.num_trials)
        keys = jax.random.split(sign_key, config.num_seeds)
        needed.append([needed_samples(one, *asked) for one in keys])
        errors.append(np.asarray(_trained(train_key, *case, config)))
    return Result(
        bits=np.array([bits for bits, _ in config.cases]),
        dimensions=np.array([d for _, d in config.cases]),
        listed=np.concatenate([case[0] for case in listed]),
        formula=np.concatenate([case[1] for case in listed]),
        printed=np.concatenate([case[2] for case in listed]),
        tilted=min(np.abs(case[3] - case[1]).max() / np.abs(case[1]).max() for case in listed),
        majority=_majority(max(config.listed)),
        cosines=shapes[:2],
        distances=shapes[2:],
        lengths=np.array([gradient_length(d, k) for k, d in config.cases]),
        aligned=np.array(counted),
        num_neurons=config.num_neurons,
        needed=np.array(needed).T,
        limit=np.array([limit_samples(d, k, PROBABILITY) for k, d in config.cases]),
        error=np.stack([case[:, 0] for case in errors], axis=1),
        unmoved=np.stack([case[:, 1] for case in errors], axis=1),
    )


def _listed(key: RandomKey, bits: int, dimension: int) -> list[np.ndarray]:
    """Gradients of some neurons: from all points, closed form, printed, from all points tilted."""
    weights = jax.random.rademacher(key, (8, dimension)).astype(float)
    x, y = SparseParity(dimension, bits).points()
    law = FiniteLaw(x, y, jnp.full(len(y), 1 / len(y)))
    formula = parity_gradients(weights, bits)
    product = weights[:, :bits].prod(axis=1, keepdims=True)
    printed = majority_coefficient(dimension, bits - 1) * product * weights
    biases = jnp.linspace(-0.9, 0.9, 8)
    found = (
        finite_gradients(law, weights, biases),
        formula,
        printed,
        finite_gradients(law, weights, jnp.full(8, TILT)),
    )
    return [np.ravel(values) for values in found]


def _majority(dimension: int) -> np.ndarray:
    """Coefficients of all odd numbers of signs: from all points, closed form, as printed."""
    x = np.asarray(SparseParity(dimension, 1).points()[0])
    degrees = range(1, dimension + 1, 2)
    outcome = np.sign(x.sum(axis=1))
    listed = [(outcome * x[:, :degree].prod(axis=1)).mean() for degree in degrees]
    formula = [majority_coefficient(dimension, degree) for degree in degrees]
    # The printed binomial C((d−1)/2, (d−1)/2) is 1, where C((d−1)/2, (k−1)/2) belongs.
    half = (dimension - 1) // 2
    binomials = [math.comb(half, (degree - 1) // 2) for degree in degrees]
    return np.array([listed, formula, np.array(formula) / binomials])


def _shape(bits: int, dimension: int) -> list[float]:
    """Of an aligned neuron: cos(G, D), its formula, the largest |G/‖G‖ − D|, its bound."""
    direction = np.asarray(SparseParity(dimension, bits).direction)
    gradient = np.asarray(parity_gradients(jnp.ones((1, dimension)), bits))[0]
    found = gradient / np.linalg.norm(gradient) * np.sign(gradient[0])
    bound = bits**0.5 / (dimension - bits)
    cosine = aligned_cosine(dimension, bits)
    return [float(found @ direction), cosine, float(np.abs(found - direction).max()), bound]


def _count_aligned(key: RandomKey, bits: int, num_neurons: int) -> int:
    """How many neurons find D; only their relevant signs are drawn."""
    weights = jax.random.rademacher(key, (num_neurons, bits)).astype(float)
    return int(aligned(weights, bits).sum())


def _trained(key: RandomKey, bits: int, dimension: int, config: Config) -> Float[Array, "s 2"]:
    """Test errors of all seeds: with the first step, and without it."""
    law, rate = SparseParity(dimension, bits), parity_rate(dimension, bits)

    @jax.jit
    def drawn(key: RandomKey) -> list[list[_Samples]]:
        start_key, train_key, test_key = jax.random.split(key, 3)
        data = law.sample(train_key, config.num_samples)
        test = law.sample(test_key, config.num_test)
        start = parity_start(start_key, WIDTH, dimension, bits)

        networks = (parity_step(start, bits, rate), start)
        # Half the digits, because this is half the time, and only signs are counted.
        return [
            [
                (network.hidden(part.x).astype("float32"), part.y[:, 0].astype("float32"))
                for part in (data, test)
            ]
            for network in networks
        ]

    bound = jnp.float32(8.0 * bits**1.5)
    keys = jax.random.split(key, config.num_seeds)
    both = [[_error(*one, bound, config.num_steps) for one in drawn(key)] for key in keys]
    return jnp.array(both)


@partial(jax.jit, static_argnames="num_steps")
def _error(samples: _Samples, test: _Samples, bound: Array, num_steps: int) -> Float[Array, ""]:
    """The test error of the best output layer; one program for all cases, whose shapes agree."""
    hidden, y = samples
    law = FiniteLaw(hidden, y, jnp.full_like(y, 1 / len(y)))
    found = frozen_optimum(hidden, law, bound, num_steps=num_steps, smoothing=SMOOTHING)
    return 1 - (test[1] * (test[0] @ found.outputs) > 0).mean()


def _of(result: Result, bits: int, values: np.ndarray) -> np.ndarray:
    """The columns of one number of bits."""
    return values[..., result.bits == bits]


def _growth(result: Result, values: np.ndarray) -> np.ndarray:
    """log-ratios of neighbouring dimensions, of each number of bits."""
    return np.concatenate([np.diff(np.log(_of(result, bits, values))) for bits in (2, 4)])


def _alignment_margin(result: Result) -> np.ndarray:
    """Four standard errors, less the distance of the share of aligned neurons from 2^{−(k−1)}."""
    expected = 0.5 ** (result.bits - 1)
    error = np.sqrt(expected * (1 - expected) / result.num_neurons)
    return 4 * error - np.abs(result.aligned / result.num_neurons - expected)


# Thresholds are the catalogue's.
CLAIMS = (
    Claim(
        "The first gradient is ½ξ_{k−1} on the k signs and ½ξ_{k+1} elsewhere, for |b| < 1.",
        judge=lambda r, c: identity(r.listed, r.formula, 1e-12),
        source=GRADIENT,
        kind="corrected",
    ),
    Claim(
        "The first gradient is ξ_{k−1} on the k signs and elsewhere, without a ½.",
        judge=lambda r, c: identity(r.listed, r.printed, 1e-12),
        source=GRADIENT,
        kind="printed",
        formula=r"G_j = \xi_{k-1} \prod_{l \in A \triangle j} w_l",
    ),
    Claim(
        "Coefficients of majority have the binomial C((d−1)/2, (k−1)/2).",
        judge=lambda r, c: identity(r.majority[1], r.majority[0], 1e-12),
        source=MAJORITY,
        kind="corrected",
    ),
    Claim(
        "Coefficients of majority have the binomial C((d−1)/2, (d−1)/2).",
        judge=lambda r, c: identity(r.majority[2], r.majority[0], 1e-12),
        source=MAJORITY,
        kind="printed",
    ),
    Claim(
        "The gradient of an aligned neuron has the cosine √(k/(k + (k−1)²/(d−k))) with D.",
        judge=lambda r, c: identity(r.cosines[0], r.cosines[1], 1e-12),
        source=FEATURES,
    ),
    Claim(
        "No coordinate of it is further than √k/(d−k) from that of D.",
        judge=lambda r, c: holds(r.distances[1] - r.distances[0]),
        source=FEATURES,
    ),
    Claim(
        "One neuron in 2^{k−1} is aligned, to four standard errors.",
        judge=lambda r, c: holds(_alignment_margin(r)),
        source=FEATURES,
    ),
    Claim(
        "The gradient gets shorter as d grows, for fixed k.",
        judge=lambda r, c: holds(-_growth(r, r.lengths)),
        source=LENGTH,
        kind="corrected",
        formula=r"\|G\| = d^{-\Theta(k)}",
    ),
    Claim(
        "The gradient gets longer as d grows, for fixed k.",
        judge=lambda r, c: holds(_growth(r, r.lengths)),
        source=LENGTH,
        kind="printed",
        formula=r"\|G\| = d^{\Theta(k)}",
    ),
    Claim(
        "Samples for the right signs of two bits grow like d, slope 1 ± 0.3.",
        judge=lambda r, c: exponent_between(_of(r, 2, r.dimensions), _of(r, 2, r.needed), 0.7, 1.3),
        source=SAMPLES,
    ),
    Claim(
        "Samples for the right signs of four bits grow like d³, slope 3 ± 0.3.",
        judge=lambda r, c: exponent_between(_of(r, 4, r.dimensions), _of(r, 4, r.needed), 2.7, 3.3),
        source=SAMPLES,
    ),
    Claim(
        "One exact step and a trained output layer have a test error below 2 %, where d ≥ 2k².",
        judge=lambda r, c: median_at_most(
            r.error[:, r.dimensions >= 2 * r.bits**2].max(axis=1), 0.02
        ),
        source=TRAINED,
    ),
    Claim(
        "Without the step, the same neurons stay above 40 % for four bits.",
        judge=lambda r, c: median_at_least(_of(r, 4, r.unmoved).min(axis=1), 0.4),
        source=TRAINED,
        kind="control",
    ),
    Claim(
        "At a bias of 1.5 the closed form is wrong by more than 1 %: the neuron is no majority.",
        judge=lambda r, c: at_least(r.tilted, 0.01),
        source=GRADIENT,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Gradients against the closed form, samples needed, test errors."""
    figure, axes = panels("gradients from all points", "samples for the right signs", "test error")
    axes[0].plot(result.formula, result.listed, "o", markersize=3, label="½ and ξ_{k+1} restored")
    axes[0].plot(result.printed, result.listed, "x", markersize=4, label="as printed")
    ends = np.array([result.listed.min(), result.listed.max()])
    axes[0].plot(ends, ends, **THEORY)
    axes[0].set_xlabel("formula")
    axes[0].legend(frameon=False, fontsize=8)
    for bits in (2, 4):
        dimensions = _of(result, bits, result.dimensions)
        colour = f"C{bits // 2 - 1}"
        axes[1].loglog(dimensions, _of(result, bits, result.needed).T, "o", color=colour)
        axes[1].loglog(dimensions, _of(result, bits, result.limit), **THEORY)
        axes[2].plot(dimensions, _of(result, bits, result.error).T, "o", color=colour)
        axes[2].plot(dimensions, _of(result, bits, result.unmoved).T, "x", color=colour)
    axes[1].set_xlabel("d (lower: k = 2; upper: k = 4)")
    axes[2].set_xlabel("d (circles: after one step; crosses: without)")
    return figure
