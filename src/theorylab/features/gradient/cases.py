"""Three data laws whose gradient features are known: clusters, the XOR of clusters, a half-space.

    clusters     D_j = μ_j/‖μ_j‖, s = +1      b̃ = C_b √(τd log d) σ_w σ₊
                 γ = d^−(0.9τ − 1.5),   B_G = p_B B_μ1 √d
                 p = B_μ1/(√(τ log d) σ₊) · d^(−9C_b²τσ₊²/2B_μ1²)
    XOR          D = ±e₁, ±e₂, s = +1         b̃ = √(τd log log d) σ_w σ_B
                 γ = σ_B/√d,   B_G = √d/5,   p = (log d)^(−18τσ_B²/25)/(√(τ log log d) σ_B)
    half-space   D = w*, s = −1               b̃ = d^τ B_x1 σ_w
                 γ = √B_x2/(ρd^(τ/2 − ¼)),   B_G = ρ − √B_x2/d^(τ/2 − ¼),   p = ½

with μ̃_j = μ_j/√d, B_μ1 = min‖μ̃_j‖, B_μ2 = max‖μ̃_j‖, p_B = min p_j, σ₊ = max{σ_B, B_μ2}, and
ρ = E[y⟨w*, x⟩]; what the source hides in O and Θ is 1, or dropped. The networks that learn them:

    clusters     g*(x) = Σ_j y_j σ(⟨D_j, x⟩ − 2κ)/κ,   κ = √(τ log d) σ₊
                 hinge loss ≤ (1 + r/√(2πτ log d))/d^(τ/2)   if ‖μ_j‖ ≥ 4κ and ⟨D_i, μ_j⟩ ≤ κ
    half-space   g*(x) = (σ(⟨w*, x⟩) − σ(−⟨w*, x⟩))/β,   hinge loss 0

The source prints 3/d^τ + 4/(d^(0.9τ − 1) √(τ log d)) for the detectors' hinge loss. It takes d^(−τ)
for the probability that a normal variable is beyond √(τ log d), which is nearly d^(−τ/2).

A Gaussian is not bounded, as the main bound assumes; B_x is where a norm is cut off with
probability δ, √d (B_μ2 + σ) + σ√(2 log(n/δ)).

Source: shi · case-mog · Lemmas 3.17, B.30; shi · case-mog-xor · Lemma B.37; shi · case-linear ·
Lemmas B.25–B.27.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp

from theorylab.data import GaussianMixture
from theorylab.data.mixtures import SeparableLaw

from .bound import Requirement, TheoremConstants
from .network import ReluNetwork


class TheoremCase(NamedTuple):
    """What the source says about a data law."""

    bias_ratio: float  # b̃/σ_w
    constants: TheoremConstants
    assumptions: tuple[Requirement, ...]

    @property
    def violated(self) -> tuple[str, ...]:
        """The names of the assumptions that fail."""
        return tuple(each.name for each in self.assumptions if not each.holds)


def cluster_case(
    law: GaussianMixture, tau: float, activation: float = 1.0, cut: float = 1e6
) -> TheoremCase:
    """The constants of a mixture of clusters.

    Args:
        law: The mixture.
        tau: τ, at least 8 in the theorem, where p is astronomically small.
        activation: C_b, in front of the bias.
        cut: n/δ, where norms are cut off.

    Example:
        >>> from theorylab.data.mixtures import orthogonal_mixture
        >>> cluster_case(orthogonal_mixture(4, 256), tau=1.0).violated
        ('τ ≥ 8',)
    """
    d, r = law.dimension, len(law.labels)
    _check_positive(tau=tau, activation=activation, cut=cut)
    near, far, spread = _sizes(law)
    if d < 2 or not near > 0:
        raise ValueError(
            "clusters must be in 2 dimensions or more with means that are not 0, "
            f"got {d} and a mean of length {near * math.sqrt(d):g}."
        )
    wide, share = max(spread, far), float(law.probabilities.min())
    kappa = detector_threshold(law, tau)
    exponent = 4.5 * activation**2 * tau * (wide / near) ** 2
    constants = TheoremConstants(
        num_neurons=r,
        entry_bound=1 / kappa,
        norm_bound=math.sqrt(r) / kappa,
        bias_bound=2 * kappa,
        mean_norm=(far + wide) * math.sqrt(d),
        mean_square=float(law.mean_square),
        largest_norm=_cut_norm(law, cut),
        probability=min(1.0, near / kappa * d**-exponent),
        opening=d ** -(0.9 * tau - 1.5),
        gradient_norm=share * near * math.sqrt(d),
    )
    cosines = law.directions @ law.directions.T - 2 * jnp.eye(r)
    theta = max(float(cosines.max()), 0.0)
    separate = math.sqrt(tau * math.log(d) / d)
    assumptions = (
        Requirement("τ ≥ 8", tau, 8.0),
        Requirement("r ≤ 2d", 2 * d, r),
        Requirement("p_B ≥ 1/2d", share, 0.5 / d),
        Requirement("B_μ1 ≥ 4σ₊√(τ log d/d)", near, 4 * wide * separate),
        Requirement("B_μ2 ≤ d", d, far),
        Requirement("⟨Dᵢ, Dⱼ⟩ ≤ θ", min(0.5 / r, wide / far * separate), theta),
    )
    return TheoremCase(activation * math.sqrt(tau * d * math.log(d)) * wide, constants, assumptions)


def xor_case(law: GaussianMixture, tau: float = 1.0, cut: float = 1e6) -> TheoremCase:
    """The constants of `xor_mixture`, whose d is at least 16 so that log log d is positive.

    Args:
        law: The mixture.
        tau: τ, in the theorem 1.
        cut: n/δ, where norms are cut off.

    Example:
        >>> from theorylab.data.mixtures import xor_mixture
        >>> case = xor_case(xor_mixture(256))
        >>> round(case.constants.probability, 3), case.violated
        (0.223, ())
    """
    d = law.dimension
    _check_positive(tau=tau, cut=cut)
    if d < 16:
        raise ValueError(f"dimension must be at least 16, got {d}.")
    _, far, spread = _sizes(law)
    slow = tau * math.log(math.log(d))
    kappa = detector_threshold(law, tau)
    power = 0.72 * tau * spread**2
    constants = TheoremConstants(
        num_neurons=4,
        entry_bound=1 / kappa,
        norm_bound=2 / kappa,
        bias_bound=2 * kappa,
        mean_norm=(far + max(spread, far)) * math.sqrt(d),
        mean_square=float(law.mean_square),
        largest_norm=_cut_norm(law, cut),
        probability=min(1.0, math.log(d) ** -power / (math.sqrt(slow) * spread)),
        opening=spread / math.sqrt(d),
        gradient_norm=math.sqrt(d) / 5,
    )
    assumptions = (
        Requirement("σ_B ≥ 1", spread, 1.0),
        Requirement("σ_B ≤ √(d/(τ log log d))", math.sqrt(d / slow), spread),
    )
    return TheoremCase(math.sqrt(slow * d) * spread, constants, assumptions)


def separable_case(law: SeparableLaw, tau: float) -> TheoremCase:
    """The constants of linearly separable data.

    Args:
        law: The data.
        tau: τ, at least so large that G is E[yx] but for a small part.

    Example:
        >>> from theorylab.data.mixtures import separable_law
        >>> law = separable_law(jnp.ones(50), margin=0.5, spread=1.0, radius=2.0)
        >>> round(separable_case(law, tau=2.0).constants.opening, 3)
        0.12
    """
    _check_positive(tau=tau)
    d, beta, rho = len(law.direction), float(law.margin), float(law.strength)
    square = float(law.mean_square)
    lost = math.sqrt(square) / d ** (tau / 2 - 0.25)
    constants = TheoremConstants(
        num_neurons=2,
        entry_bound=1 / beta,
        norm_bound=math.sqrt(2) / beta,
        bias_bound=1 / square,
        mean_norm=math.sqrt(square),
        mean_square=square,
        largest_norm=float(law.largest_norm),
        probability=0.5,
        opening=lost / rho,
        gradient_norm=max(rho - lost, 1e-3 * rho),  # a bound below 0 says nothing
    )
    assumptions = (Requirement("d^(τ/2 − ¼) ≥ √B_x2/ρ", rho, lost),)
    return TheoremCase(d**tau * math.sqrt(square), constants, assumptions)


def cluster_detectors(law: GaussianMixture, tau: float) -> ReluNetwork:
    """g*(x) = Σ_j y_j σ(⟨D_j, x⟩ − 2κ)/κ, one neuron for each cluster.

    Args:
        law: The mixture.
        tau: τ.

    Example:
        >>> from theorylab.data.mixtures import orthogonal_mixture
        >>> law = orthogonal_mixture(2, 16)
        >>> jnp.sign(cluster_detectors(law, tau=0.1)(law.means)).tolist(), law.labels.tolist()
        ([1.0, -1.0], [1.0, -1.0])
    """
    _check_positive(tau=tau)
    kappa = detector_threshold(law, tau)
    return ReluNetwork(
        law.labels / kappa, law.directions, jnp.full(len(law.labels), 2 * kappa, law.means.dtype)
    )


def detector_threshold(law: GaussianMixture, tau: float) -> float:
    """κ = √(τ log d) σ₊, half the bias of a cluster's detector.

    Example:
        >>> from theorylab.data.mixtures import orthogonal_mixture
        >>> round(detector_threshold(orthogonal_mixture(2, 16), tau=1.0), 4)
        1.6651
    """
    _, far, spread = _sizes(law)
    return math.sqrt(tau * math.log(law.dimension)) * max(spread, far)


def detector_loss_bound(num_clusters: int, dimension: int, tau: float) -> float:
    """(1 + r/√(2πτ log d))/d^(τ/2), which bounds the hinge loss of the detectors.

    A cluster's own detector has an output below 1 only if a normal variable z is below −√(τ log d),
    and the outputs of the others have a mean of at most E[(z − √(τ log d))₊]/√(τ log d) each.

    Args:
        num_clusters: r.
        dimension: d.
        tau: τ; means are 4√(τ log d) σ₊ long or longer, with ⟨D_i, μ_j⟩ ≤ √(τ log d) σ₊.

    Example:
        >>> round(detector_loss_bound(4, 256, 2.0), 6)
        0.005778
    """
    _check_dimension(dimension)
    _check_positive(tau=tau, num_clusters=float(num_clusters))
    others = num_clusters / math.sqrt(2 * math.pi * tau * math.log(dimension))
    return (1 + others) / dimension ** (tau / 2)


def printed_detector_loss_bound(dimension: int, tau: float) -> float:
    """3/d^τ + 4/(d^(0.9τ − 1) √(τ log d)), as it is printed; no bound at the least distances.

    Args:
        dimension: d.
        tau: τ.

    Example:
        >>> round(printed_detector_loss_bound(256, 2.0), 6)
        0.014269
    """
    _check_dimension(dimension)
    _check_positive(tau=tau)
    d = float(dimension)
    return 3 / d**tau + 4 / (d ** (0.9 * tau - 1) * math.sqrt(tau * math.log(d)))


def separable_network(law: SeparableLaw) -> ReluNetwork:
    """g*(x) = ⟨w*, x⟩/β, as two neurons without bias; its hinge loss is 0.

    Example:
        >>> from theorylab.data.mixtures import separable_law
        >>> law = separable_law(jnp.ones(4), margin=0.5, spread=1.0, radius=2.0)
        >>> separable_network(law)(0.5 * law.direction[None, :]).tolist()
        [1.0]
    """
    signs = jnp.array([1.0, -1.0], law.direction.dtype)
    return ReluNetwork(
        signs / law.margin, signs[:, None] * law.direction[None, :], jnp.zeros_like(signs)
    )


def cluster_error_bound(dimension: int, tau: float, num_clusters: int, printed: bool) -> float:
    """The error bound for clusters, as printed and as its derivation gives it, without ε.

    √2 r/d^(0.4τ − 0.8) is printed. The middle term of its derivation loses the √d of B_x1; with it
    the bound is 2√2 r/(√(τ log d) d^(0.45τ − 1.25)), which the printed one covers for every large d
    only if τ ≥ 9.

    Args:
        dimension: d.
        tau: τ.
        num_clusters: r.
        printed: Whether to give the printed bound.

    Example:
        >>> printed = cluster_error_bound(100, 8.0, num_clusters=4, printed=True)
        >>> round(cluster_error_bound(100, 8.0, num_clusters=4, printed=False) / printed, 3)
        0.415
    """
    d, r = float(dimension), num_clusters
    _check_positive(tau=tau, dimension=d)
    if printed:
        return math.sqrt(2) * r / d ** (0.4 * tau - 0.8)
    return 2 * math.sqrt(2) * r / (math.sqrt(tau * math.log(d)) * d ** (0.45 * tau - 1.25))


def _sizes(law: GaussianMixture) -> tuple[float, float, float]:
    """B_μ1, B_μ2 and σ_B."""
    lengths = jnp.linalg.norm(law.means, axis=1) / math.sqrt(law.dimension)
    return float(lengths.min()), float(lengths.max()), float(law.deviations.max())


def _cut_norm(law: GaussianMixture, cut: float) -> float:
    _, far, spread = _sizes(law)
    return math.sqrt(law.dimension) * (far + spread) + spread * math.sqrt(2 * math.log(cut))


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}.")


def _check_dimension(dimension: int) -> None:
    if dimension < 2:
        raise ValueError(f"dimension must be at least 2, got {dimension}.")
