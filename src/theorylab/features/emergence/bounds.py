"""The bound of learning by emerging features, term by term, with all that it requires.

    error ≤ L(g) ≤ k⁸/m^⅔ + k³T/m² + k²m^⅔/T          (at some step up to T)

for k relevant ones of D patterns, m pairs of neurons and T steps, if

    p_o ≥ k²/D,   k ≥ log²(D/(δγ)),   m ≥ max(k⁴, D)

T = m^{4/3} balances the last two terms; then m ≥ max(k¹²/ε^{3/2}, D) makes the sum ε. All constants
that the source hides in O and Ω are taken to be 1: orders of magnitude, no guarantees. At any size
that a computer reaches something fails (k = 5 is far below log², k¹² far above m), and `violated`
says what. With an incoherent dictionary, noise and unequal classes (A.28) also

    k ≥ log²(Dmd/(δγp_min)),   m ≥ d,   1/μ ≥ D/√d,   1/σ_ζ ≥ max(σ̃, √d/σ̃)

(that m is at most a polynomial of D is not checked: the source does not say which.)

One inequality has constants. On convex losses f_t, descent θ_{t+1} = θ_t − η∇f_t(θ_t) keeps

    mean f_t(θ_t) ≤ mean f_t(θ*) + ‖θ*‖²/(2ηT) + ‖θ₁‖ mean ‖∇f_t‖ + η mean ‖∇f_t‖²

for any θ*, and `regret_margin` is right minus left, for any recorded run.

Source: shi · ch2-bounds · Theorems 2.1, A.20, A.21, A.28, Lemmas A.17, A.18.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.typing import Scalar

from ..gradient.bound import Requirement


@dataclass(frozen=True)
class TheoremSizes:
    """Data, network and training of the theorem.

    Args:
        num_patterns: D.
        num_relevant: k.
        num_pairs: m, half the number of neurons.
        num_steps: T.
        structure: γ of the data.
        other_probability: p_o.
        failure: δ, the probability with which the bound may fail.
    """

    num_patterns: int
    num_relevant: int
    num_pairs: int
    num_steps: int
    structure: float = 0.25
    other_probability: float = 0.5
    failure: float = 0.05

    def __post_init__(self) -> None:
        for name in ("num_relevant", "num_pairs", "num_steps"):
            if not 1 <= getattr(self, name) <= 10**30:
                raise ValueError(f"{name} must be in [1, 10³⁰], got {getattr(self, name)}.")
        if not self.num_relevant <= self.num_patterns <= 10**30:
            raise ValueError(
                f"num_patterns must be in [num_relevant = {self.num_relevant}, 10³⁰], "
                f"got {self.num_patterns}."
            )
        for name in ("structure", "other_probability", "failure"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be in (0, 1), got {getattr(self, name)}.")


@dataclass(frozen=True)
class General:
    """What the general theorem allows besides.

    Args:
        dimension: d.
        scale: σ̃ of the data.
        incoherence: μ of the dictionary.
        noise: σ_ζ.
        least_class: p_min, the probability of the rarer class.
    """

    dimension: int
    scale: float
    incoherence: float = 0.0
    noise: float = 0.0
    least_class: float = 0.5

    def __post_init__(self) -> None:
        if not 1 <= self.dimension <= 10**30 or not self.scale > 0:
            raise ValueError(
                "dimension must be in [1, 10³⁰] and scale positive, "
                f"got {self.dimension} and {self.scale}."
            )
        if not self.incoherence >= 0 or not self.noise >= 0:
            raise ValueError(
                f"incoherence and noise must be at least 0, got {self.incoherence}, {self.noise}."
            )
        if not 0 < self.least_class <= 0.5:
            raise ValueError(f"least_class must be in (0, 1/2], got {self.least_class}.")


class EmergenceBound(NamedTuple):
    """The bound's terms, and its requirements: with one that fails, it bounds nothing."""

    features: float  # k⁸/m^⅔, how far the neurons are from the good network's
    drift: float  # k³T/m², how far they move meanwhile
    regret: float  # k²m^⅔/T, what descent has not learned yet
    requirements: tuple[Requirement, ...]

    @property
    def total(self) -> float:
        """The sum of the terms."""
        return self.features + self.drift + self.regret

    @property
    def violated(self) -> tuple[str, ...]:
        """The names of the requirements that fail."""
        return tuple(each.name for each in self.requirements if not each.holds)

    @property
    def vacuous(self) -> bool:
        """Whether it says no more than the network that is zero, whose loss is 1."""
        return not self.total < 1

    def __str__(self) -> str:
        regime = "outside: " + ", ".join(self.violated) if self.violated else "inside"
        words = ", which says nothing" if self.vacuous else ""
        return f"loss ≤ {self.total:.3g}{words}; regime: {regime}"


def emergence_bound(sizes: TheoremSizes, general: General | None = None) -> EmergenceBound:
    """The bound with unit constants, and every requirement evaluated.

    Args:
        sizes: Of data, network and training.
        general: What else, for the general theorem.

    Example:
        >>> bound = emergence_bound(TheoremSizes(num_patterns=100, num_relevant=5, num_pairs=300,
        ...                               num_steps=600))
        >>> bound.violated, bound.vacuous
        (('relevant k', 'width m'), True)
    """
    k, m, steps = float(sizes.num_relevant), float(sizes.num_pairs), float(sizes.num_steps)
    return EmergenceBound(
        features=k**8 / m ** (2 / 3),
        drift=k**3 * steps / m**2,
        regret=k**2 * m ** (2 / 3) / steps,
        requirements=_requirements(sizes, general),
    )


def balancing_steps(num_pairs: int) -> float:
    """T = m^{4/3}, with which drift and regret shrink alike.

    Example:
        >>> round(balancing_steps(1000))
        10000
    """
    return float(num_pairs) ** (4 / 3)


def needed_pairs(num_patterns: int, num_relevant: int, accuracy: float) -> float:
    """max(k¹²/ε^{3/2}, D) pairs of neurons for a loss ε, with unit constants.

    Example:
        >>> needed_pairs(num_patterns=100, num_relevant=5, accuracy=1.0)
        244140625.0
    """
    if not 0 < accuracy <= 1:
        raise ValueError(f"accuracy must be in (0, 1], got {accuracy}.")
    return max(float(num_relevant) ** 12 / accuracy**1.5, float(num_patterns))


class ClassifierSizes(NamedTuple):
    """Orders of the good output layer ã on the features of step 2, and of the network there."""

    num_nonzero: float  # ‖ã‖₀ = m/k
    largest: float  # ‖ã‖_∞ = k⁵/m
    squared_length: float  # ‖ã‖² = k⁹/m
    outer: float  # ‖a⁽²⁾‖_∞ = 1/(km²)
    weights: Scalar  # ‖w⁽²⁾‖ = σ̃/k
    biases: float  # |b⁽²⁾| = 1/k²


def classifier_sizes(num_relevant: int, num_pairs: int, scale: Scalar) -> ClassifierSizes:
    """Lemma A.17 with unit constants; `scale` is σ̃ of the data.

    Example:
        >>> sizes = classifier_sizes(num_relevant=2, num_pairs=8, scale=1.0)
        >>> sizes.num_nonzero, sizes.largest, sizes.biases
        (4.0, 4.0, 0.25)
    """
    k, m = float(num_relevant), float(num_pairs)
    return ClassifierSizes(m / k, k**5 / m, k**9 / m, 1 / (k * m**2), scale / k, 1 / k**2)


class Drift(NamedTuple):
    """How far the third stage may move the network, in t steps of size η with weight decay λ."""

    outer: float  # |a⁽ᵗ⁾| ≤ ηt + 1/(km²)
    weights: float  # ‖w⁽ᵗ⁾ − w⁽²⁾‖ ≤ tηλσ̃/k + η²t² + t/(km²)


def drift(
    num_relevant: int,
    num_pairs: int,
    scale: float,
    num_steps: int,
    learning_rate: float,
    decay: float = 0.0,
) -> Drift:
    """Lemma A.18 with unit constants.

    Args:
        num_relevant: k.
        num_pairs: m, half the number of neurons.
        scale: σ̃ of the data.
        num_steps: t, after the second step.
        learning_rate: η, of all blocks.
        decay: λ, of ‖w‖² and a².

    Example:
        >>> drift(num_relevant=2, num_pairs=10, scale=4.0, num_steps=5, learning_rate=0.1)
        Drift(outer=0.505, weights=0.275)
    """
    k, m, t, eta = float(num_relevant), float(num_pairs), num_steps, learning_rate
    if num_steps < 0 or not learning_rate >= 0 or not decay >= 0:
        raise ValueError(
            "num_steps, learning_rate and decay must be at least 0, "
            f"got {num_steps}, {learning_rate} and {decay}."
        )
    second = 1 / (k * m**2)
    moved = t * eta * decay * scale / k + (eta * t) ** 2 + t * second
    return Drift(eta * t + second, moved)


def regret_margin(
    losses: Float[Array, " t"],
    comparator_losses: Float[Array, " t"],
    gradient_norms: Float[Array, " t"],
    start_norm: Scalar,
    comparator_norm: Scalar,
    learning_rate: Scalar,
) -> Float[Array, ""]:
    """Right minus left of the inequality of online descent: at least 0 if losses are convex.

    Args:
        losses: f_t(θ_t), at each step before it is taken.
        comparator_losses: f_t(θ*), on the same samples.
        gradient_norms: ‖∇f_t(θ_t)‖.
        start_norm: ‖θ₁‖.
        comparator_norm: ‖θ*‖.
        learning_rate: η, the same in all steps.

    Example:
        >>> float(regret_margin(jnp.ones(2), jnp.zeros(2), jnp.ones(2), 0.0, 1.0, 0.5))
        0.0
    """
    steps = losses.shape[0]
    paid = comparator_norm**2 / (2 * learning_rate * steps)
    paid = paid + start_norm * gradient_norms.mean() + learning_rate * (gradient_norms**2).mean()
    return jnp.asarray(comparator_losses.mean() + paid - losses.mean())


def hinge_regret_margin(
    signed: Float[Array, "t b m"],
    start: Float[Array, " m"],
    comparator: Float[Array, " m"],
    learning_rate: Scalar,
) -> Float[Array, ""]:
    """Descend on the hinge loss of one batch after another; the `regret_margin` of the run.

    Args:
        signed: y Ψ(x), the features of every batch times labels ±1.
        start: θ₁.
        comparator: θ*.
        learning_rate: η.

    Example:
        >>> batches = jnp.ones((3, 2, 1))
        >>> bool(hinge_regret_margin(batches, jnp.zeros(1), jnp.ones(1), learning_rate=0.1) >= 0)
        True
    """

    def loss(theta: Array, batch: Array) -> Float[Array, ""]:
        return jnp.maximum(1 - batch @ theta, 0.0).mean()

    def advance(theta: Array, batch: Array) -> tuple[Array, tuple[Array, Array, Array]]:
        value, gradient = jax.value_and_grad(loss)(theta, batch)
        record = value, loss(comparator, batch), jnp.linalg.norm(gradient)
        return theta - learning_rate * gradient, record

    _, records = jax.lax.scan(advance, start, signed)
    norms = jnp.linalg.norm(start), jnp.linalg.norm(comparator)
    return regret_margin(*records, *norms, learning_rate)


def _requirements(sizes: TheoremSizes, general: General | None) -> tuple[Requirement, ...]:
    total, k, m = float(sizes.num_patterns), float(sizes.num_relevant), float(sizes.num_pairs)
    inside = total / (sizes.failure * sizes.structure)
    width = max(k**4, total)
    if general is not None:
        inside = inside * m * general.dimension / general.least_class
        width = max(width, float(general.dimension))
    common = (
        Requirement("background p_o", sizes.other_probability, k**2 / total),
        Requirement("relevant k", k, math.log(inside) ** 2),
        Requirement("width m", m, width),
    )
    if general is None:
        return common
    root, scale = math.sqrt(general.dimension), general.scale
    return (
        *common,
        Requirement("coherence 1/μ", _inverse(general.incoherence), total / root),
        Requirement("noise 1/σ_ζ", _inverse(general.noise), max(scale, root / scale)),
    )


def _inverse(value: float) -> float:
    return math.inf if value == 0 else 1 / value
