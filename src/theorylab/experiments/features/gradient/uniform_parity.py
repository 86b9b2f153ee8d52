"""The first gradient of a sparse parity of fair signs points to its k signs, by a closed form.

The label is the product of k of d fair signs. No sign alone says anything about it; but a neuron
that is active on a half of the hypercube is a majority, and this has a small Fourier coefficient
of k − 1 signs. So the first gradient points to the k signs, exactly as a closed form says, for the
neurons whose k relevant signs agree: one in 2^{k−1}. Its length falls like d^{−(k−1)/2}.

The source prints the gradient without a ½ and with ξ_{k−1} everywhere, a binomial of majority's
coefficients that is always 1 (in (B.480); not in (B.547)), and two wrong exponents of ‖G‖.

Source: shi · case-uniform-parity · B.5.5–B.5.6.
"""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, holds, identity
from theorylab.data import SparseParity
from theorylab.experiments.drawing import agreement, label_axes, panels
from theorylab.features import gradient
from theorylab.fields import Odd, Several, within
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey

from ._parities import Parities

PRECISION = "float64"
FORMULA = r"G(w, b)_j = \tfrac12 \xi_{k-1} \prod_{l \in A \setminus j} w_l \quad (j \in A)"

GRADIENT = Source("shi", "case-uniform-parity", "Lemma B.63, (B.548), (B.549)")
MAJORITY = Source("shi", "case-uniform-parity", "(B.480)")
FEATURES = Source("shi", "case-uniform-parity", "Lemma B.64, (B.556)")
LENGTH = Source("shi", "case-uniform-parity", "Lemma B.64, (B.557)")

TILT = 1.5  # a bias for which the closed form does not hold


@dataclass(frozen=True)
class Config(Parities):
    """Parities of two and of four signs, each at some dimensions."""

    listed: Several[Annotated[Odd, within(5, 15)]] = (9, 13)  # dimensions whose points are listed


PRESETS = {
    "smoke": Config(listed=(9,), pair_dimensions=(33, 129), four_dimensions=(33, 65)),
    "paper": Config(pair_dimensions=(33, 65, 129, 257), four_dimensions=(33, 65, 129, 257)),
}


class Result(NamedTuple):
    """What was measured: cases (c), listed cases (l), their gradients (i), odd degrees (f)."""

    listed: Float[Measured, " i"]  # gradients from all points
    formula: Float[Measured, " i"]  # the closed form
    printed: Float[Measured, " i"]  # as the source has it
    tilted: float  # largest error of the closed form at a larger bias, over its size, in any case
    majority: Float[Measured, "3 f"]  # coefficients: from all points, closed form, printed
    aligned: Float[Measured, " l"]  # share of the 2ᵏ relevant signs whose G is near ±D
    cosines: Float[Measured, "2 c"]  # of aligned neurons with D: of the gradient, closed form
    distances: Float[Measured, "2 c"]  # of G/‖G‖ from ±D in a coordinate: largest, bound
    lengths: Float[Measured, " c"]  # ‖G‖


def memory(config: Config) -> int:
    """Bytes of all points with 16 neurons."""
    return 8 * 90 * 2 ** max(config.listed)


def run(config: Config) -> Result:
    """Compare the closed form with all points, and measure its shape at every dimension."""
    key = jax.random.key(config.seed)
    report("listing all points", 0.0)
    small = [(bits, d) for bits in (2, 4) for d in config.listed]
    found = [_listed(jax.random.fold_in(key, place), *case) for place, case in enumerate(small)]
    listed, formula, printed, tilted = zip(*found, strict=True)
    shapes = np.array([_shape(*case) for case in config.cases]).T
    return Result(
        listed=np.concatenate(listed),
        formula=np.concatenate(formula),
        printed=np.concatenate(printed),
        tilted=min(
            np.abs(tilt - exact).max() / np.abs(exact).max()
            for tilt, exact in zip(tilted, formula, strict=True)
        ),
        majority=_majority(max(config.listed)),
        aligned=np.array([_aligned_share(*case) for case in small]),
        cosines=shapes[:2],
        distances=shapes[2:],
        lengths=np.array([gradient.gradient_length(d, k) for k, d in config.cases]),
    )


def _listed(key: RandomKey, bits: int, dimension: int) -> list[np.ndarray]:
    """Gradients of some neurons: from all points, closed form, printed, from all points tilted."""
    weights = jax.random.rademacher(key, (8, dimension)).astype(float)
    x, y = SparseParity(dimension, bits).points()
    law = gradient.FiniteLaw(x, y, jnp.full(len(y), 1 / len(y)))
    product = weights[:, :bits].prod(axis=1, keepdims=True)
    found = (
        gradient.finite_gradients(law, weights, jnp.linspace(-0.9, 0.9, 8)),
        gradient.parity_gradients(weights, bits),
        gradient.majority_coefficient(dimension, bits - 1) * product * weights,
        gradient.finite_gradients(law, weights, jnp.full(8, TILT)),
    )
    return [np.ravel(values) for values in found]


def _majority(dimension: int) -> np.ndarray:
    """Coefficients of all odd numbers of signs: from all points, closed form, as printed."""
    x = np.asarray(SparseParity(dimension, 1).points()[0])
    degrees = range(1, dimension + 1, 2)
    outcome = np.sign(x.sum(axis=1))
    listed = [(outcome * x[:, :degree].prod(axis=1)).mean() for degree in degrees]
    formula = [gradient.majority_coefficient(dimension, degree) for degree in degrees]
    # The printed binomial C((d−1)/2, (d−1)/2) is 1, where C((d−1)/2, (k−1)/2) belongs.
    half = (dimension - 1) // 2
    binomials = [math.comb(half, (degree - 1) // 2) for degree in degrees]
    return np.array([listed, formula, np.array(formula) / binomials])


def _shape(bits: int, dimension: int) -> list[float]:
    """Of an aligned neuron: cos(G, D), its formula, the largest |G/‖G‖ − D|, its bound."""
    direction = np.asarray(SparseParity(dimension, bits).direction)
    found = np.asarray(gradient.parity_gradients(jnp.ones((1, dimension)), bits))[0]
    found = found / np.linalg.norm(found) * np.sign(found[0])
    bound = bits**0.5 / (dimension - bits)
    cosine = gradient.aligned_cosine(dimension, bits)
    return [float(found @ direction), cosine, float(np.abs(found - direction).max()), bound]


def _aligned_share(bits: int, dimension: int) -> float:
    """The share of all relevant signs whose G, from all points, is within √k/(d − k) of ±D."""
    law = SparseParity(dimension, bits)
    x, y = law.points()
    patterns = SparseParity(bits, bits).points()[0]
    weights = jnp.pad(patterns, ((0, 0), (0, dimension - bits)), constant_values=1.0)
    points = gradient.FiniteLaw(x, y, jnp.full(len(y), 1 / len(y)))
    found = gradient.finite_gradients(points, weights, jnp.zeros(len(weights)))
    both = jnp.stack([law.direction, -law.direction])
    return float(
        gradient.box_members(found, both, bits**0.5 / (dimension - bits), 0.0).sum(1).mean()
    )


def _exponents(result: Result, config: Config) -> np.ndarray:
    """Of ‖G‖ as a power of d, over (k − 1)/2, for two bits and for four."""
    slopes = []
    for bits in (2, 4):
        dimensions, lengths = config.only(bits, config.dimensions, result.lengths)
        slopes.append(np.polyfit(np.log(dimensions), np.log(lengths), 1)[0])
    return np.array(slopes) / [0.5, 1.5]


def _limits(result: Result, config: Config) -> np.ndarray:
    """‖G‖ d^{(k−1)/2} over its limit √(k/2π), for k = 2 and 4, at the largest dimension."""
    scaled = result.lengths * config.dimensions ** ((config.bits - 1) / 2)
    scaled = scaled / np.sqrt(config.bits / (2 * np.pi))
    return np.array([config.only(bits, scaled)[0][-1] for bits in (2, 4)])


CLAIMS = (
    *GRADIENT.erratum(
        printed=(
            "The first gradient is ξ_{k−1} on the k signs and elsewhere, without a ½.",
            lambda r, c: identity(r.listed, r.printed, 1e-12),
            r"G_j = \xi_{k-1} \prod_{l \in A \triangle j} w_l",
        ),
        corrected=(
            "The first gradient is ½ξ_{k−1} on the k signs and ½ξ_{k+1} elsewhere, for |b| < 1.",
            lambda r, c: identity(r.listed, r.formula, 1e-12),
        ),
        quote="Corollary of Lemma 3 in Barak et al. (2022)). … Then, the following holds",
    ),
    GRADIENT.control(
        "At a bias of 1.5 the closed form is wrong by more than 1 %: the neuron is no majority.",
        lambda r, c: at_least(r.tilted, 0.01),
    ),
    *MAJORITY.erratum(
        printed=(
            "Coefficients of majority have the binomial C((d−1)/2, (d−1)/2).",
            lambda r, c: identity(r.majority[2], r.majority[0], 1e-12),
        ),
        corrected=(
            "Coefficients of majority have the binomial C((d−1)/2, (k−1)/2).",
            lambda r, c: identity(r.majority[1], r.majority[0], 1e-12),
        ),
        quote="for every S ∈ [n], s.t. |S| = k, we define",
    ),
    FEATURES.claim(
        "A neuron's gradient is near ±D for one in 2^{k−1} patterns of its k relevant signs.",
        lambda r, c: identity(r.aligned, np.repeat([1 / 2, 1 / 8], len(c.listed)), 1e-12),
        formula=r"p = \Theta(2^{-(k-1)}), \ \gamma_\infty = \sqrt{k} / (d - k)",
    ),
    FEATURES.claim(
        "No coordinate of an aligned neuron's G/‖G‖ is further than √k/(d−k) from that of ±D.",
        lambda r, c: holds(r.distances[1] - r.distances[0]),
        formula=r"\|G/\|G\| - D\|_\infty \le \sqrt{k} / (d - k)",
    ),
    FEATURES.control(
        "With half of this bound, some coordinate is further, for four bits.",
        lambda r, c: holds((r.distances[0] - r.distances[1] / 2)[c.bits == 4]),
        demand="derived: the largest coordinate outside A is about (k − 1)/(√k(d − k))",
    ),
    FEATURES.check(
        "The gradient of an aligned neuron has the cosine √(k/(k + (k−1)²/(d−k))) with D.",
        lambda r, c: identity(r.cosines[0], r.cosines[1], 1e-12),
    ),
    LENGTH.printed(
        "‖G‖ grows like a power of d, as (B.557) has it.",
        lambda r, c: holds(c.growth(r.lengths)),
        formula=r"\|G\| = \Theta(d^{\Theta(k)})",
        quote="Then by Lemma 4 in Barak et al. (2022), we have",
    ),
    LENGTH.printed(
        "‖G‖ falls like d^{−k}, as the lemma has it: the exponent is −k to 15 %.",
        lambda r, c: holds(0.15 - np.abs(_exponents(r, c) / [4, 8 / 3] + 1)),
        formula=r"B_G = \Theta(B_{G1}) = \Theta(d^{-k})",
        quote="Uniform Parity Functions: Existence of Good Networks (Alternative)",
    ),
    LENGTH.corrected(
        "‖G‖ falls like √(k/2π) d^{−(k−1)/2} for k = 2 and 4: exponent to 15 %, constant to 10 %.",
        lambda r, c: holds(
            np.append(0.15 - np.abs(_exponents(r, c) + 1), 0.1 - np.abs(_limits(r, c) - 1))
        ),
        formula=r"\|G\| \approx \tfrac12 \sqrt{k} |\xi_{k-1}|",
        demand="derived: corrections are of order k²/d, at d of 21 and more",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Gradients against the closed form, and their lengths."""
    figure, axes = panels("gradients from all points", "length of the gradient")
    named = {"½ and ξ_{k+1} restored": result.formula, "as printed": result.printed}
    agreement(axes[0], {name: (values, result.listed) for name, values in named.items()})
    for bits in (2, 4):
        places, lengths = config.only(bits, config.dimensions, result.lengths)
        axes[1].plot(places, lengths, "o-", label=f"k = {bits}")
    axes[1].legend(fontsize=7)
    label_axes(axes[1], "dimension d", "‖G‖", "xy")
    return figure
