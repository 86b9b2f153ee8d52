"""Infinitely many frozen gates find one patch among noisy ones, but err more the more there are.

A sample is k + 1 patches in d = k/log²k dimensions, one of them the signal y w*, the others noise
of size log k/√k. That a tangent kernel cannot find the signal is proved for few gates. Here there
are infinitely many: the kernels Θ_w of the weights and Θ_b of the biases are exact. A kernel Θ is
fitted to n samples, all but exactly, and tested on each of them while it is left out:

    f₋ᵢ(Xᵢ) = yᵢ − (G⁻¹y)ᵢ/(G⁻¹)ᵢᵢ,      G = Θ + ridge.

Without thresholds Θ_w = ⟨Σᵢ Xᵢ, Σᵢ X′ᵢ⟩ is linear and cannot err less than Φ(−1/log k). After n
samples their mean yΣᵢXᵢ errs with the probability

    P[χ²_d((√n + 1)²/(2 log²k)) ≤ χ²_d((√n − 1)²/(2 log²k))]

of two independent χ² variables with d degrees of freedom and these noncentralities. With thresholds
of the signal's size the kernel is not linear, and no such bound is left: at k = 13 some sixty
samples are enough for almost no error. At a fixed n it grows with k, and d; more samples lower it.

The source leaves the gradients of the biases out. They are gates themselves, 1{z ≥ t} − 1{z ≤ −t},
also where training begins, b = −t = 0: with them (at the weights' rate) the tangent kernel of that
point errs less than any linear classifier. And at k = 13 one filter along w* errs on a third,
whatever its threshold, where infinitely many frozen gates find the signal.

Source: karp · lsa-cntk · 3.5, B.2, Thm 3.2; karp · lsa-linear · 3.3; karp · lsa-thm31 · 3.4;
karp · lsa-data · 3.3.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int
from matplotlib.figure import Figure
from scipy import integrate, special, stats

from theorylab.claims import (
    Source,
    holds,
    identity,
    mean_between,
    median_at_least,
    median_at_most,
    ordered,
    trend,
)
from theorylab.data import patch_law, signal_among_noise
from theorylab.data.patches import PatchLaw, noise_scale
from theorylab.experiments.drawing import THEORY, label_axes, medians, panels
from theorylab.features import local_signal
from theorylab.fields import Count, Increasing, Positive, Seeded, within
from theorylab.kernels import threshold_kernel
from theorylab.progress import report
from theorylab.typing import RandomKey, Scalar

PRECISION = "float64"
FORMULA = (
    r"\Theta_w(X, X') = \sum_{ij} \langle X_i, X'_j \rangle \, P[|\langle w, X_i \rangle| \ge t,"
    r" |\langle w, X'_j \rangle| \ge t]"
)

BOUND = Source("karp", "lsa-cntk", "3.5, Thm 3.2")
DEFINITION = Source("karp", "lsa-cntk", "3.5, the definition of the kernel")
LINEAR = Source("karp", "lsa-linear", "3.3")
LEARNED = Source("karp", "lsa-thm31", "3.4, Thm 3.1")
PARTS = (4, 2, 1)  # fits are made to a quarter, a half and all of the samples
TENTH = 0.1


@dataclass(frozen=True)
class Config(Seeded):
    """Exact kernels of infinitely many gates, fitted to few samples of many patches."""

    # Noisy patches k, where k/log²k is nearly whole.
    num_patches: Increasing[Annotated[int, within(3)]] = (13, 42, 111)
    num_samples: Annotated[int, within(8)] = 60  # samples n, of which each is left out once
    threshold: Positive = 1.0  # t of all gates; the signal has length 1
    # Added to the diagonal, over its mean; rounding makes eigenvalues of −1e-15.
    ridge: Annotated[float, within(1e-12)] = 1e-6
    num_seeds: Count = 9  # sets of samples
    num_draws: int = 400  # sets of samples for the mean without thresholds

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_draws < self.num_seeds:
            raise ValueError(
                f"num_draws must be at least num_seeds, {self.num_seeds}, got {self.num_draws}."
            )


PRESETS = {
    "smoke": Config(num_patches=(13, 34), num_samples=32),
    "paper": Config(num_patches=(13, 42, 111, 300, 1000), num_samples=120, num_draws=40),
}


class Result(NamedTuple):
    """Axes: k numbers of patches, p parts of the samples, s seeds, r draws.

    Errors are parts of left out samples, except `exact` and `mean_errors`, which are probabilities.
    """

    num_samples: Int[np.ndarray, " p"]
    linear: Float[np.ndarray, "k p s"]  # Θ_w with t = 0
    weights: Float[np.ndarray, "k p s"]  # Θ_w
    biases: Float[np.ndarray, "k p s"]  # Θ_b
    both: Float[np.ndarray, "k p s"]  # Θ_w + Θ_b
    beginning: Float[np.ndarray, "k p s"]  # Θ_w + Θ_b with t = 0
    blind: Float[np.ndarray, " s"]  # Θ_w at the least k, without the patch of the signal
    open_kernels: Float[np.ndarray, "2 s n n"]  # Θ_w and Θ_b with t = 0 at the least k, by integral
    closed_forms: Float[np.ndarray, "2 s n n"]  # ⟨ΣX, ΣX′⟩ and (2/π) Σ arcsin ρ
    exact: Float[np.ndarray, "k s"]  # errors of the linear fits
    floor: Float[np.ndarray, " k"]  # Φ(−1/log k)
    mean_errors: Float[np.ndarray, "k r"]  # errors of the mean, without thresholds
    mean_predicted: Float[np.ndarray, " k"]
    filter_errors: Float[np.ndarray, " k"]  # of one filter along w* with the best threshold


def memory(config: Config) -> int:
    """Bytes of the samples, with what is made of them, and of the kernels."""
    k, n = max(config.num_patches), config.num_samples
    samples = 4 * config.num_draws * n * (k + 1) * dimension_of(k)
    return 8 * (samples + 12 * config.num_seeds * n**2 + 16 * (k + 1) ** 2)


def run(config: Config) -> Result:
    """Fit the kernels at every number of patches, and leave every sample out once."""
    laws = [patch_law(k, dimension_of(k)) for k in config.num_patches]
    keys = jax.random.split(jax.random.key(config.seed), len(laws))
    cost = np.cumsum([0.0, *((k + 1) ** 2 for k in config.num_patches)])
    fits, sums, few = [], [], []
    for law, key, done in zip(laws, keys, cost, strict=False):
        report(f"{law.num_patches} noisy patches", done / cost[-1])
        x = np.asarray(_samples(key, law, config.num_samples, config.num_draws))
        few.append(x[: config.num_seeds])
        sums.append(x.sum(axis=2))
        kernels = _all_kernels(few[-1], config.threshold)
        fits.append([[split_errors(each, p, config.ridge) for p in PARTS] for each in kernels])
    linear, weights, biases, both, beginning = np.moveaxis(np.array(fits), 1, 0)
    report("without thresholds, and without the signal", 0.95)
    by_integral = np.asarray(_kernels(few[0], 0.0))
    blind = np.asarray(_kernels(_blinded(few[0], laws[0]), config.threshold))
    fitted = [_fitted(s[: config.num_seeds], config.ridge) for s in sums]
    means = [s.mean(axis=1) for s in sums]
    return Result(
        num_samples=np.array([config.num_samples // part for part in PARTS]),
        linear=linear,
        weights=weights,
        biases=biases,
        both=both,
        beginning=beginning,
        blind=errors(blind[0], config.ridge),
        open_kernels=by_integral[:2],
        closed_forms=np.array([_products(few[0].sum(axis=2)), by_integral[2]]),
        exact=np.array([linear_error(w, law) for w, law in zip(fitted, laws, strict=True)]),
        floor=np.array([law.linear_error for law in laws]),
        mean_errors=np.array([linear_error(w, law) for w, law in zip(means, laws, strict=True)]),
        mean_predicted=np.array([mean_error(law, config.num_samples) for law in laws]),
        filter_errors=np.array([local_signal.best_threshold(law)[1] for law in laws]),
    )


def dimension_of(num_patches: int) -> int:
    """The dimension d = 1/σ² = k/log²k, rounded: then noise is about as long as the signal."""
    return round(1 / noise_scale(num_patches) ** 2)


@partial(jax.jit, static_argnames=("law", "num_samples", "num_draws"))
def _samples(
    key: RandomKey, law: PatchLaw, num_samples: int, num_draws: int
) -> Float[Array, "draws n patches d"]:
    """Sets of samples yX: the classifiers are odd, and so each label can be 1."""
    data = signal_among_noise(key, law, num_draws * num_samples)
    x = data.x * data.y[:, :, None]
    return x.reshape(num_draws, num_samples, *x.shape[1:])


@jax.jit
def _kernels(
    x: Float[ArrayLike, "seeds n patches d"], threshold: Scalar
) -> Float[Array, "3 seeds n n"]:
    """Θ_w, Θ_b, and Θ_b with t = 0 in closed form, of the pairs in every set."""
    x = jnp.asarray(x)
    seeds, n = x.shape[:2]
    first, second = np.triu_indices(n)
    places = [
        np.repeat(np.arange(seeds), len(first)),
        np.tile(first, seeds),
        np.tile(second, seeds),
    ]

    def pair(place: list[Array]) -> Float[Array, " 3"]:
        one, other = x[place[0], place[1]][None], x[place[0], place[2]][None]
        weights = threshold_kernel.weight_kernel(one, other, threshold)
        biases = threshold_kernel.bias_kernel(one, other, threshold)
        return jnp.stack([weights[0, 0], biases[0, 0], sign_kernel(one[0], other[0])])

    upper = jax.lax.map(pair, [jnp.asarray(each) for each in places]).reshape(seeds, -1, 3)
    half = jnp.zeros((3, seeds, n, n)).at[:, :, first, second].set(jnp.moveaxis(upper, 2, 0))
    return half.at[:, :, second, first].set(half[:, :, first, second])


def sign_kernel(one: Float[Array, "patches d"], other: Float[Array, "others d"]) -> Scalar:
    """(2/π) Σᵢⱼ arcsin ρᵢⱼ, of patches that are not 0: Θ_b without thresholds."""
    lengths = [jnp.sqrt(jnp.sum(x**2, axis=1, keepdims=True)) for x in (one, other)]
    safe = [jnp.where(length > 0, length, 1.0) for length in lengths]
    cosine = (one / safe[0]) @ (other / safe[1]).T
    return 2 / jnp.pi * jnp.sum(jnp.arcsin(jnp.clip(cosine, -1.0, 1.0)))


def _all_kernels(x: np.ndarray, threshold: float) -> list[Float[np.ndarray, "s n n"]]:
    """In the order of the result: linear, weights, biases, both, and both with t = 0."""
    weights, biases, signs = np.asarray(_kernels(x, threshold))
    linear = _products(x.sum(axis=2))
    return [linear, weights, biases, weights + biases, linear + signs]


def _products(sums: Float[np.ndarray, "s n d"]) -> Float[np.ndarray, "s n n"]:
    return sums @ np.moveaxis(sums, 1, 2)


def _blinded(x: Float[np.ndarray, "s n patches d"], law: PatchLaw) -> np.ndarray:
    """The same with zeros instead of the signal."""
    return np.where(np.all(x == np.asarray(law.signal), axis=3, keepdims=True), 0.0, x)


def errors(kernels: Float[np.ndarray, "s n n"], ridge: float) -> Float[np.ndarray, " s"]:
    """Parts of the samples with f₋ᵢ(Xᵢ) ≤ 0, where all labels are 1; an output of 0 is an error."""
    inverse = np.linalg.inv(_ridged(kernels, ridge))
    diagonal = np.diagonal(inverse, axis1=1, axis2=2)
    return np.mean(1 - inverse.sum(axis=2) / diagonal <= 0, axis=1)


def split_errors(
    kernels: Float[np.ndarray, "s n n"], parts: int, ridge: float
) -> Float[np.ndarray, " s"]:
    """Mean errors over as many parts of the samples, each fitted by itself."""
    size = kernels.shape[1] // parts
    blocks = [slice(part * size, (part + 1) * size) for part in range(parts)]
    return np.mean([errors(kernels[:, block, block], ridge) for block in blocks], axis=0)


def _ridged(kernels: np.ndarray, ridge: float) -> np.ndarray:
    mean = np.trace(kernels, axis1=1, axis2=2) / kernels.shape[1]
    return kernels + ridge * mean[:, None, None] * np.eye(kernels.shape[1])[None]


def _fitted(sums: Float[np.ndarray, "s n d"], ridge: float) -> Float[np.ndarray, "s d"]:
    """The weights ŵ = Σₗ αₗ Sₗ of the fit without thresholds, Gα = 1, to all sums Sₗ."""
    n = sums.shape[1]
    alpha = np.linalg.solve(_ridged(_products(sums), ridge), np.ones((len(sums), n, 1)))
    return np.sum(alpha * sums, axis=1)


def linear_error(weights: Float[np.ndarray, "s d"], law: PatchLaw) -> Float[np.ndarray, " s"]:
    """Φ(−⟨ŵ, w*⟩/(‖ŵ‖σ√k)): the error of the sign of Σᵢ ⟨ŵ, Xᵢ⟩."""
    cosine = weights @ np.asarray(law.signal) / np.linalg.norm(weights, axis=1)
    return special.ndtr(-cosine / (law.noise * math.sqrt(law.num_patches)))


def mean_error(law: PatchLaw, num_samples: int) -> float:
    """The error of the mean of n sums, over samples and tests.

    The mean is u = w* + N(0, s²/n), a test v = w* + N(0, s²), s² = kσ². They disagree if √n u + v
    is shorter than √n u − v, and these are independent with means (√n ± 1)w* and variances 2s².
    """
    d, square = law.dimension, law.num_patches * law.noise**2
    longer, shorter = ((math.sqrt(num_samples) + sign) ** 2 / (2 * square) for sign in (1, -1))

    def density(x: float) -> float:
        return float(stats.ncx2.pdf(x, d, shorter) * stats.ncx2.cdf(x, d, longer))

    centre, spread = d + shorter, math.sqrt(2 * (d + 2 * shorter))
    ends = max(0.0, centre - 10 * spread), centre + 20 * spread
    return float(integrate.quad(density, *ends, epsabs=1e-10, limit=200)[0])


# Sizes and bounds were chosen on seeds 101 to 103.
CLAIMS = (
    BOUND.found(
        "Without thresholds infinitely many gates are the linear kernel of the summed patches.",
        lambda r, c: identity(r.open_kernels[0], r.closed_forms[0], 1e-12),
        formula=r"\Theta_w(X, X') = \langle \sum_i X_i, \sum_j X'_j \rangle, \quad t = 0",
    ),
    DEFINITION.found(
        "The biases' kernel is then one of angles.",
        lambda r, c: identity(r.open_kernels[1], r.closed_forms[1], 1e-6),
        formula=r"\Theta_b(X, X') = \frac{2}{\pi} \sum_{ij} \arcsin \rho_{ij}, \quad t = 0",
    ),
    LINEAR.found(
        "Without thresholds no fit errs less than Φ(−1/log k).",
        lambda r, c: holds(r.exact - r.floor[:, None], 1e-12),
        demand="derived: no direction has a larger signal over noise than w*",
    ),
    LINEAR.found(
        "Without thresholds the mean of n samples errs as the closed form says, to 0.01.",
        lambda r, c: mean_between(
            np.mean(r.mean_errors - r.mean_predicted[:, None], axis=0), -0.01, 0.01
        ),
        formula=(
            r"\mathrm{err} = P\left[\chi_d^2\left(\tfrac{(\sqrt n + 1)^2}{2 \log^2 k}\right) \le"
            r" \chi_d^2\left(\tfrac{(\sqrt n - 1)^2}{2 \log^2 k}\right)\right]"
        ),
    ),
    BOUND.control(
        "The bound is one of few gates: at the least k infinitely many err on less than a tenth.",
        lambda r, c: median_at_most(r.weights[0, -1], TENTH),
        demand="source",
    ),
    BOUND.control(
        "Without the patch of the signal they err on a quarter at least: nothing else tells y.",
        lambda r, c: median_at_least(r.blind, 0.25),
        demand="lab: single sets have 0.25 to 0.7 on seeds 101 to 103",
    ),
    BOUND.found(
        "With thresholds, the same samples err less than without, on the mean over k.",
        lambda r, c: ordered(r.weights[:, -1].mean(axis=0), r.linear[:, -1].mean(axis=0)),
    ),
    BOUND.found(
        "With more noisy patches and as many samples the error grows.",
        lambda r, c: trend(r.weights[:, -1]),
    ),
    BOUND.found(
        "Four times the samples lower the error, on the mean over k.",
        lambda r, c: ordered(r.weights[:, -1].mean(axis=0), r.weights[:, 0].mean(axis=0)),
    ),
    DEFINITION.found(
        "Where training begins, b = 0, weights and biases together err below any linear fit.",
        lambda r, c: median_at_most(np.max(r.beginning[:, -1] - r.floor[:, None], axis=0), 0.0),
    ),
    DEFINITION.found(
        "With thresholds, the biases' gradients alone err less than the weights' alone.",
        lambda r, c: ordered(r.biases.mean(axis=(0, 1)), r.weights.mean(axis=(0, 1))),
    ),
    LEARNED.found(
        "At the least k the best threshold of one filter along w* errs more than frozen gates.",
        lambda r, c: median_at_most(r.weights[0, -1], r.filter_errors[0]),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw errors over patches, over samples, and the mean without thresholds."""
    figure, (patches, samples, mean) = panels(
        "errors of all samples", "more samples", "no thresholds: the mean of the samples"
    )
    words = {
        "weights, t = 0": result.linear,
        "weights": result.weights,
        "biases": result.biases,
        "both": result.both,
        "both, t = 0": result.beginning,
    }
    places = np.array(config.num_patches, float)
    medians(patches, places, {name: fits[:, -1].T for name, fits in words.items()}, "o-")
    patches.plot(places, result.floor, label="Φ(−1/log k)", **THEORY)
    patches.plot(places, result.filter_errors, "k:", label="one filter, best t")
    patches.axhline(TENTH, color="0.6", linewidth=0.8)
    by_size = zip(config.num_patches, result.weights, strict=True)
    medians(samples, result.num_samples, {f"k = {k}": fits.T for k, fits in by_size}, "o-")
    mean.plot(places, result.mean_errors.mean(axis=1), "o", label="measured")
    mean.plot(places, result.mean_predicted, label="closed form", **THEORY)
    for axis, name in ((patches, "noisy patches k"), (samples, "samples n"), (mean, "k")):
        label_axes(axis, name, logarithmic="x")
        axis.legend(fontsize=6)
    return figure
