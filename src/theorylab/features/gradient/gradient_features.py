"""Gradient features: the directions in which the first step of descent moves the neurons.

    G(w, b) = E[y x 1[⟨w, x⟩ > b]],   w⁽¹⁾ = −η⁽¹⁾ ℓ'(0) a⁽⁰⁾ G(w⁽⁰⁾, b)

A direction D of length 1 with a sign s of the bias is a gradient feature, (D, s) ∈ S_{p,γ,B_G}, if

    P_{w,b}[ |⟨G, D⟩| > (1 − γ)‖G‖,  ‖G‖ ≥ B_G,  b/|b| = s ] ≥ p

The cone is a double one, so −D is a feature with D. G is known in closed form for a mixture of
Gaussian clusters, with tⱼ = (⟨w, μⱼ⟩ − b)/(σⱼ‖w‖),

    G(w, b) = Σⱼ pⱼyⱼ [Φ(tⱼ) μⱼ + σⱼ φ(tⱼ) w/‖w‖],

by enumeration for a law of finitely many points, and with an error bar from samples: those of any
sampler, or of a dataset. With E‖x‖² ≤ B_x2 and ‖x‖ ≤ B_x, its mean over n samples has the tail

    P[‖G̃ − G‖ ≥ z] ≤ exp(¼ − nz²/8B_x2)   for 0 < z < B_x2/B_x

Source: shi · gradient-features · Defs 3.5, 3.7, B.57, Lemma B.18.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int

from theorylab.data import Dataset, GaussianMixture
from theorylab.numerics import Interval, clopper_pearson
from theorylab.typing import RandomKey, Scalar

from .network import DataSampler, FiniteLaw

Gradients = Float[Array, "m d"]
_BLOCK = 1000  # samples at a time, so that no (n, m) array is made
_TOGETHER = 2**27  # entries of an (n, m) array that may be made at once,
_IN_TURN = 2**26  # and of those made in turn where it would have more
_POLISHED = 20  # power steps that move a found direction to the middle of its cone


class SampledGradients(NamedTuple):
    """Gradients by samples, with √(E‖G̃ − G‖²) of each."""

    gradients: Gradients
    errors: Float[Array, " m"]


class FoundDirections(NamedTuple):
    """Directions found blindly, the strongest first, and each one's share of all Σ‖G‖."""

    directions: Float[Array, "r d"]
    shares: Float[Array, " r"]


class Feature(NamedTuple):
    """A direction with a sign of the bias, and with which probability the first step finds it."""

    direction: Float[Array, " d"]
    sign: int  # s
    strength: float  # median ‖G‖ of the neurons in its cone; NaN if there is none
    probability: Interval  # p̂ with its Clopper–Pearson interval
    opening: float  # γ
    least_norm: float  # B_G


@jax.jit
def mixture_gradients(
    law: GaussianMixture, weights: Gradients, biases: Float[Array, " m"]
) -> Gradients:
    """G(w, b) of a mixture of Gaussian clusters, in closed form.

    Args:
        law: The mixture.
        weights: w, one row for each neuron.
        biases: b.

    Example:
        >>> from theorylab.data.mixtures import xor_mixture
        >>> law = xor_mixture(16, deviation=0.1)
        >>> found = mixture_gradients(law, law.directions[:1], jnp.ones(1))
        >>> [round(value, 3) for value in found[0, :2].tolist()]
        [1.0, 0.0]
    """
    lengths = jnp.linalg.norm(weights, axis=1)
    heights = (weights @ law.means.T - biases[:, None]) / lengths[:, None]
    heights = heights / law.deviations[None, :]
    signed = law.probabilities * law.labels
    between = (signed[None, :] * norm.cdf(heights)) @ law.means
    within = norm.pdf(heights) @ (signed * law.deviations)
    return between + (within / lengths)[:, None] * weights


@jax.jit
def finite_gradients(law: FiniteLaw, weights: Gradients, biases: Float[Array, " m"]) -> Gradients:
    """G(w, b) of a law of finitely many points, by enumeration; of many neurons in turn.

    Args:
        law: The points and their probabilities.
        weights: w, one row for each neuron.
        biases: b.

    Example:
        >>> law = FiniteLaw(jnp.eye(2), jnp.array([1.0, -1.0]), jnp.array([0.5, 0.5]))
        >>> finite_gradients(law, jnp.array([[1.0, -1.0], [1.0, 1.0]]), jnp.zeros(2)).tolist()
        [[0.5, 0.0], [0.5, -0.5]]
    """
    signed = law.probabilities * law.y

    def gradient(neuron: tuple[Array, Array]) -> Float[Array, " d"]:
        weight, bias = neuron
        return jnp.where(law.x @ weight > bias, signed, 0) @ law.x

    at_once = neurons_at_once(len(law.x), len(weights))
    if at_once < len(weights):
        return jax.lax.map(gradient, (weights, biases), batch_size=at_once)
    active = (law.x @ weights.T > biases[None, :]).astype(law.x.dtype)
    return active.T @ (signed[:, None] * law.x)


def neurons_at_once(num_samples: int, num_neurons: int) -> int:
    """How many neurons `finite_gradients` takes at once: all, or as many as fit into memory.

    Args:
        num_samples: n.
        num_neurons: m.

    Example:
        >>> neurons_at_once(1000, 5000), neurons_at_once(1_000_000, 5000)
        (5000, 67)
    """
    if num_samples * num_neurons <= _TOGETHER:
        return num_neurons
    return max(_IN_TURN // num_samples, 1)


def sampled_gradients(
    key: RandomKey,
    sampler: DataSampler,
    weights: Gradients,
    biases: Float[Array, " m"],
    num_samples: int,
) -> SampledGradients:
    """G(w, b) of any law, by Monte Carlo; all neurons see the same samples.

    Args:
        key: Draws the samples.
        sampler: The law: key, number of samples ─► `Dataset` with labels y (n, 1).
        weights: w, one row for each neuron.
        biases: b.
        num_samples: n, rounded up to a whole number of blocks.

    Example:
        >>> from theorylab.data.mixtures import xor_mixture
        >>> law, weights = xor_mixture(16), jnp.eye(16)[:3]
        >>> found = sampled_gradients(jax.random.key(0), law.sample, weights, jnp.ones(3), 4000)
        >>> exact = mixture_gradients(law, weights, jnp.ones(3))
        >>> bool((jnp.linalg.norm(found.gradients - exact, axis=1) < 4 * found.errors).all())
        True
    """
    if num_samples < 2:
        raise ValueError(f"num_samples must be at least 2, got {num_samples}.")
    size = min(_BLOCK, num_samples)
    num_blocks = -(-num_samples // size)

    def add(sums: tuple[Array, Array], key: RandomKey) -> tuple[tuple[Array, Array], None]:
        more = _sums(sampler(key, size), weights, biases)
        return (sums[0] + more[0], sums[1] + more[1]), None

    zeros = (jnp.zeros_like(weights), jnp.zeros(len(weights), weights.dtype))
    sums, _ = jax.lax.scan(add, zeros, jax.random.split(key, num_blocks))
    return _with_errors(*sums, num_blocks * size)


def dataset_gradients(
    data: Dataset, weights: Gradients, biases: Float[Array, " m"]
) -> SampledGradients:
    """G(w, b) of the law of which a dataset is a sample, with the error of so many samples.

    Args:
        data: The samples, with labels y (n, 1).
        weights: w, one row for each neuron.
        biases: b.

    Example:
        >>> data = Dataset(jnp.eye(2), jnp.array([[1.0], [-1.0]]), "two points")
        >>> found = dataset_gradients(data, jnp.ones((1, 2)), jnp.zeros(1))
        >>> found.gradients.tolist(), found.errors.tolist()
        ([[0.5, -0.5]], [0.5])
    """
    if data.num_samples < 2:
        raise ValueError(f"data must have at least 2 samples, got {data.num_samples}.")
    return _with_errors(*_sums(data, weights, biases), data.num_samples)


def _sums(
    data: Dataset, weights: Gradients, biases: Float[Array, " m"]
) -> tuple[Gradients, Float[Array, " m"]]:
    """Σ yx 1[⟨w, x⟩ > b] over samples, and Σ ‖yx‖² 1[⟨w, x⟩ > b]."""
    active = (data.x @ weights.T > biases[None, :]).astype(data.x.dtype)
    squares = (data.y[:, 0] ** 2) * (data.x**2).sum(axis=1)
    return active.T @ (data.y * data.x), squares @ active


def _with_errors(total: Gradients, squares: Float[Array, " m"], count: int) -> SampledGradients:
    """The mean of so many samples, with its error √((E‖yx‖²1 − ‖G‖²)/n)."""
    mean = total / count
    variance = jnp.maximum(squares / count - (mean**2).sum(axis=1), 0)
    return SampledGradients(mean, jnp.sqrt(variance / count))


def bernstein_tail(
    distance: Scalar, num_samples: int, mean_square: Scalar, largest_norm: Scalar
) -> Float[Array, ""]:
    """A bound on P[‖G̃ − G‖ ≥ z]: exp(¼ − nz²/8B_x2) if 0 < z < B_x2/B_x, and else 1.

    Args:
        distance: z.
        num_samples: n.
        mean_square: B_x2 ≥ E‖x‖².
        largest_norm: B_x ≥ ‖x‖.

    Example:
        >>> round(float(bernstein_tail(0.5, num_samples=100, mean_square=1.0, largest_norm=1.0)), 4)
        0.0564
    """
    z = jnp.asarray(distance, float)
    bound = jnp.exp(0.25 - num_samples * z**2 / (8 * mean_square))
    covered = (z > 0) & (z < mean_square / largest_norm)
    return jnp.where(covered, jnp.minimum(bound, 1.0), 1.0)


def cone_members(
    gradients: Gradients,
    directions: Float[Array, "r d"],
    opening: Scalar,
    least_norm: Scalar,
) -> Bool[Array, "m r"]:
    """Which G lie in which double cone, |⟨G, D⟩| > (1 − γ)‖G‖, and are at least B_G long.

    Args:
        gradients: G, one row for each neuron.
        directions: D, one row each, of length 1.
        opening: γ.
        least_norm: B_G.

    Example:
        >>> gradients = jnp.array([[1.0, 0.1], [-2.0, 0.0], [0.1, 0.0]])
        >>> cone_members(gradients, jnp.eye(2)[:1], opening=0.1, least_norm=0.5).tolist()
        [[True], [True], [False]]
    """
    lengths = jnp.linalg.norm(gradients, axis=1)
    along = jnp.abs(gradients @ directions.T)
    return (along > (1 - opening) * lengths[:, None]) & (lengths >= least_norm)[:, None]


def box_members(
    gradients: Gradients,
    directions: Float[Array, "r d"],
    opening: Scalar,
    least_norm: Scalar,
    largest_norm: Scalar = math.inf,
) -> Bool[Array, "m r"]:
    """The variant with the largest coordinate: ‖G/‖G‖ − D‖_∞ < γ_∞ and B_G ≤ ‖G‖ ≤ B_G1.

    Args:
        gradients: G, one row for each neuron.
        directions: D, one row each, of length 1.
        opening: γ_∞.
        least_norm: B_G.
        largest_norm: B_G1.

    Example:
        >>> gradients = jnp.array([[1.0, 0.1], [-2.0, 0.0]])
        >>> box_members(gradients, jnp.eye(2)[:1], opening=0.2, least_norm=0.5).tolist()
        [[True], [False]]
    """
    lengths = jnp.linalg.norm(gradients, axis=1)
    units = gradients / jnp.maximum(lengths, jnp.finfo(gradients.dtype).tiny)[:, None]
    gaps = jax.lax.map(lambda D: jnp.abs(units - D[None, :]).max(axis=1), directions).T
    return (gaps < opening) & ((lengths >= least_norm) & (lengths <= largest_norm))[:, None]


def frontier(
    gradients: Gradients,
    direction: Float[Array, " d"],
    openings: Float[Array, " g"],
    least_norms: Float[Array, " l"],
) -> Int[Array, "g l"]:
    """How many neurons count at every pair (γ, B_G): p̂ times the number of neurons.

    Args:
        gradients: G, one row for each neuron.
        direction: D, of length 1.
        openings: Values of γ.
        least_norms: Values of B_G.

    Example:
        >>> gradients, least = jnp.array([[1.0, 0.1], [2.0, 2.0]]), jnp.array([0.5, 2.0])
        >>> frontier(gradients, jnp.eye(2)[0], jnp.array([0.1, 0.5]), least).tolist()
        [[1, 0], [2, 1]]
    """
    lengths = jnp.linalg.norm(gradients, axis=1)
    cosines = jnp.abs(gradients @ direction) / jnp.maximum(lengths, jnp.finfo(lengths.dtype).tiny)
    inside = (cosines[None, :] > 1 - openings[:, None]).astype(int)
    return inside @ (lengths[:, None] >= least_norms[None, :]).astype(int)


def blind_directions(
    gradients: Gradients, num_directions: int, cosine: float = 0.9
) -> FoundDirections:
    """Find directions that many gradients share, without knowing them.

    The cone |cos| ≥ c that has the largest Σ‖G‖ is taken, its axis moved to the first principal
    axis of its members, these are put aside, and so on.

    Args:
        gradients: G, one row for each neuron; some thousands at most, for all pairs are compared.
        num_directions: How many directions to find.
        cosine: c, how close to a direction its members are.

    Example:
        >>> gradients = jnp.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0]])
        >>> found = blind_directions(gradients, num_directions=2)
        >>> jnp.abs(found.directions).tolist(), found.shares.tolist()
        ([[1.0, 0.0], [0.0, 1.0]], [0.8, 0.2])
    """
    if not 1 <= num_directions <= len(gradients):
        raise ValueError(
            f"num_directions must be from 1 to {len(gradients)}, got {num_directions}."
        )
    lengths = jnp.linalg.norm(gradients, axis=1)
    units = gradients / jnp.maximum(lengths, jnp.finfo(gradients.dtype).tiny)[:, None]
    close = (jnp.abs(units @ units.T) >= cosine).astype(gradients.dtype)

    def take(left: Float[Array, " m"], _: None) -> tuple[Array, tuple[Array, Array]]:
        best = jnp.argmax(close @ left)
        members = close[best] * left

        def polish(_: Array, axis: Float[Array, " d"]) -> Float[Array, " d"]:
            axis = (members * (units @ axis)) @ units
            return axis / jnp.maximum(jnp.linalg.norm(axis), jnp.finfo(axis.dtype).tiny)

        axis = jax.lax.fori_loop(0, _POLISHED, polish, units[best])
        apart = jnp.abs(units @ axis) < cosine
        return jnp.where(apart, left * (1 - close[best]), 0.0), (axis, members.sum())

    _, (axes, masses) = jax.lax.scan(take, lengths, length=num_directions)
    return FoundDirections(axes, masses / lengths.sum())


def gradient_features(
    key: RandomKey,
    data: DataSampler | Dataset,
    num_directions: int,
    threshold: float = 1.0,
    opening: float = 0.1,
    least_norm: float | None = None,
    num_neurons: int = 2000,
    num_samples: int = 20000,
) -> tuple[Feature, ...]:
    """Estimate S_{p,γ,B_G} of any data: a sampler of a law, or a dataset with labels ±1.

    Neurons start with w ~ N(0, I) and b = ±c √(E‖x‖²). The directions are found from G itself, for
    each sign of the bias its own, the strongest first; features with s = +1 come before s = −1.
    Half of the neurons are searched and the others counted, as a direction that was chosen for the
    many gradients along it is no fair one to count these along.

    Args:
        key: Draws neurons and samples.
        data: key, number of samples ─► `Dataset`; or one dataset, a sample of its law.
        num_directions: How many directions to look for, for each sign.
        threshold: c, how many standard deviations of ⟨w, x⟩ the bias is.
        opening: γ.
        least_norm: B_G; by default 4 times the largest error of a gradient by so many samples, so
            that labels without meaning have no features.
        num_neurons: How many w are drawn for each sign of b, at least 2 for each direction.
        num_samples: How many samples of the law; a dataset has its own.

    Example:
        >>> from theorylab.data.mixtures import orthogonal_mixture
        >>> law = orthogonal_mixture(2, 8, separation=1.0, deviation=0.3)
        >>> found = gradient_features(jax.random.key(0), law.sample, 2, num_neurons=200)
        >>> [feature.sign for feature in found], found[0].probability.estimate > 0.05
        ([1, 1, -1, -1], True)
    """
    _check_numbers(num_directions, threshold, opening, least_norm, num_neurons)
    weight_key, size_key, sample_key = jax.random.split(key, 3)
    seen = data if isinstance(data, Dataset) else data(size_key, min(num_samples, _BLOCK))
    _check_labels(seen)
    weights = jax.random.normal(weight_key, (num_neurons, seen.x.shape[1]), seen.x.dtype)
    bias = threshold * jnp.sqrt((seen.x**2).sum(axis=1).mean())
    gradients, errors = _both_signs(sample_key, data, weights, bias, num_samples)
    floor = 4 * float(errors.max()) if least_norm is None else least_norm
    search = jax.jit(blind_directions, static_argnums=1)
    half = num_neurons // 2
    return tuple(
        _feature(direction, sign, found[half:], opening, floor)
        for sign, found in ((1, gradients[0]), (-1, gradients[1]))
        for direction in search(found[:half], num_directions).directions
    )


def _both_signs(
    key: RandomKey,
    data: DataSampler | Dataset,
    weights: Gradients,
    bias: Float[Array, ""],
    num_samples: int,
) -> tuple[Float[Array, "2 m d"], Float[Array, " n"]]:
    """G(w, b̃) and G(w, −b̃), and their errors."""
    count = len(weights)
    both = jnp.concatenate([weights, weights])
    biases = jnp.where(jnp.arange(2 * count) < count, bias, -bias)
    if isinstance(data, Dataset):
        found = dataset_gradients(data, both, biases)
    else:
        sampled = jax.jit(sampled_gradients, static_argnums=(1, 4))
        found = sampled(key, data, both, biases, num_samples)
    return jnp.reshape(found.gradients, (2, *weights.shape)), found.errors


def _feature(
    direction: Float[Array, " d"], sign: int, gradients: Gradients, opening: float, floor: float
) -> Feature:
    """How often the gradients of one sign of the bias lie in the cone of a direction."""
    inside = np.asarray(cone_members(gradients, direction[None, :], opening, floor))[:, 0]
    lengths = np.linalg.norm(np.asarray(gradients), axis=1)[inside]
    strength = float(np.median(lengths)) if len(lengths) else math.nan
    probability = clopper_pearson(len(lengths), len(inside))
    return Feature(direction, sign, strength, probability, opening, floor)


def _check_numbers(
    num_directions: int,
    threshold: float,
    opening: float,
    least_norm: float | None,
    num_neurons: int,
) -> None:
    if not 0 < threshold < math.inf or not 0 < opening < 1:
        raise ValueError(
            "threshold must be positive and finite and opening in (0, 1), "
            f"got {threshold} and {opening}."
        )
    if least_norm is not None and not 0 <= least_norm < math.inf:
        raise ValueError(f"least_norm must be at least 0 and finite, got {least_norm}.")
    if not 1 <= num_directions <= num_neurons // 2:
        raise ValueError(
            "num_directions must be from 1 to half of num_neurons, "
            f"got {num_directions} and {num_neurons}."
        )


def _check_labels(data: Dataset) -> None:
    if len(data.input_shape) != 1 or data.num_outputs != 1:
        raise ValueError(
            f"data must have flat inputs and one label, got {data.input_shape} and "
            f"{data.num_outputs} labels."
        )
    broken = int(np.count_nonzero(~np.isfinite(np.asarray(data.x))))
    if broken:
        raise ValueError(f"inputs must be finite, got {broken} numbers that are not.")
    others = np.setdiff1d(np.asarray(data.y), (-1, 1))
    if len(others):
        raise ValueError(f"labels must be -1 or 1, got {others[0]:g} too.")
