"""What fixed features cannot do: a lower bound on their hinge loss over all parities of k signs.

For features Ψ(z) ∈ [−1, 1]ᴺ chosen before the parity, on all z ∈ {±1}ᴰ with y = χ_A(z) = ∏_A z_i,

    loss of ⟨w, Ψ⟩ ≥ 1 − E[y⟨w, Ψ⟩] ≥ 1 − B‖c_A‖,   c_A = E[χ_A Ψ],   ‖w‖ ≤ B
    Σ_A ‖c_A‖² = E‖Ψ‖² ≤ N                                              (Parseval)

so that over the C(D, k) parities of k signs the loss is in the mean, and for some of them, at least

    counted     p_o (1 − B √(N/C(D, k)))
    theorem     p_o (1 − √(2N) B/2ᵏ)         if 3 < k ≤ D/16 and k is odd

where p_o = 1 is for fair signs, and p_o = ½ for the parity mixture, half of which are fair signs.
The source prints √(2NB). What features can gain is linear in B, and the proof gives √(2N) B; yet
in its regime the printed inequality is true as well, because C(D, k) ≥ 16ᵏ makes the counted one
stronger wherever the printed one is above 0. Only p_o = ½ is legitimate: else patterns outside of A
covary, which the theorem's own assumptions exclude.

A kernel of diagonal κ has eigenvalues λ_A that sum to κ, so for functions of norm L the same holds
with N B² replaced by κL²: Corollary 2.3 without its polynomials.

`best_hinge` solves min over ‖w‖ ≤ B, with a certificate from below: for any 0 ≤ α ≤ 1,

    min loss ≥ E α − B ‖E[α y Ψ]‖                                        (α = 1: as above)

Source: shi · fixed-feature-bound · Theorems 2.2, A.22, A.23, Corollary 2.3.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from theorylab.models import mlp, network
from theorylab.training.losses import check_positive
from theorylab.typing import RandomKey, Scalar

from ..fixed import Features, random_features, random_fourier_features, tangent_features
from ..gradient.bound import Requirement

_MOST_SIGNS = 20  # of an enumeration: a million points


class LowerBound(NamedTuple):
    """Lower bounds on the loss for the hardest parity; those at most 0 say nothing."""

    theorem: float
    printed: float  # with √(2NB), as printed
    counted: float
    requirements: tuple[Requirement, ...]  # of the theorem; counting needs none

    @property
    def violated(self) -> tuple[str, ...]:
        """The names of the theorem's requirements that fail."""
        return tuple(each.name for each in self.requirements if not each.holds)

    @property
    def vacuous(self) -> bool:
        """Whether the theorem's bound says nothing, because a loss is never negative."""
        return not self.theorem > 0


def lower_bound(
    num_patterns: int,
    num_relevant: int,
    num_features: int,
    norm_bound: float,
    other_probability: float = 0.5,
) -> LowerBound:
    """The bounds of Theorem 2.2 for the parity mixture, and which of its requirements fail.

    Args:
        num_patterns: D.
        num_relevant: k.
        num_features: N.
        norm_bound: B.
        other_probability: p_o of the mixture; 1 for fair signs alone (Theorem A.23).

    Example:
        >>> lower_bound(48, 5, 600, norm_bound=0.5).violated
        ('patterns D',)
    """
    _check_parity(num_patterns, num_relevant)
    if num_features < 1 or not norm_bound >= 0:
        raise ValueError(
            "num_features must be at least 1 and norm_bound at least 0, "
            f"got {num_features} and {norm_bound}."
        )
    if not 0 < other_probability <= 1:
        raise ValueError(f"other_probability must be in (0, 1], got {other_probability}.")
    p, k, root = other_probability, num_relevant, math.sqrt(2 * num_features)
    total = num_parities(num_patterns, k)
    fair = min(abs(p - 0.5), abs(p - 1)) == 0
    return LowerBound(
        theorem=p * (1 - root * norm_bound / 2.0**k),
        printed=p * (1 - root * math.sqrt(norm_bound) / 2.0**k),
        counted=p * (1 - norm_bound * math.sqrt(num_features / total)),
        requirements=(
            Requirement("relevant k", k, 4),
            Requirement("patterns D", num_patterns, 16 * k),
            Requirement("k odd", k % 2, 1),
            Requirement("p_o = 1/2", float(fair), 1),
        ),
    )


def largest_norm(num_relevant: int, num_features: int) -> float:
    """B = 2ᵏ/√(2N), from which on the theorem says nothing.

    Example:
        >>> round(largest_norm(num_relevant=5, num_features=600), 2)
        0.92
    """
    return 2.0**num_relevant / math.sqrt(2 * num_features)


def kernel_lower_bound(
    num_patterns: int,
    num_relevant: int,
    norm_bound: float,
    diagonal: float = 1.0,
    other_probability: float = 0.5,
) -> float:
    """p_o (1 − L √(κ/C(D, k))), for functions of norm L of any kernel with E K(x, x) = κ.

    Args:
        num_patterns: D.
        num_relevant: k.
        norm_bound: L.
        diagonal: κ; 1 for shift-invariant kernels.
        other_probability: p_o, see `lower_bound`.

    Example:
        >>> round(kernel_lower_bound(num_patterns=20, num_relevant=5, norm_bound=10.0), 4)
        0.4598
    """
    total = num_parities(num_patterns, num_relevant)
    return other_probability * (1 - norm_bound * math.sqrt(diagonal / total))


def num_parities(num_patterns: int, num_relevant: int) -> float:
    """C(D, k), the number of parities of k of D signs.

    Example:
        >>> num_parities(100, 5)
        75287520.0
    """
    _check_parity(num_patterns, num_relevant)
    return float(math.comb(num_patterns, num_relevant))


def parity_coefficients(values: Float[Array, "points m"]) -> Float[Array, "points m"]:
    """E[χ_A f] of functions f on {±1}ᴰ, for all 2ᴰ sets A at once (Walsh–Hadamard transform).

    Row p is the input, or the set, with these bits: coordinate l is −1, or in A, if bit D − 1 − l
    of p is set. That is the order of `SparseParity(D, k).points()`.

    Args:
        values: One column for each function.

    Example:
        >>> parity_coefficients(jnp.array([[1.0], [-1.0]])).tolist()  # f(z) = z
        [[0.0], [1.0]]
    """
    count, m = values.shape
    size = count.bit_length() - 1
    if count != 2**size or size > _MOST_SIGNS:
        raise ValueError(f"points must be 2ᴰ with D at most {_MOST_SIGNS}, got {count}.")
    # The matrix of all characters is a Kronecker product: two small ones do.
    slow, fast = _characters(size - size // 2), _characters(size // 2)
    grid = jnp.reshape(values, (len(slow), len(fast), m))
    turned = jnp.einsum("as,bf,sfm->abm", slow, fast, grid)
    return jnp.reshape(turned, (count, m)) / count


def parity_rows(num_patterns: int, num_relevant: int) -> np.ndarray:
    """The rows of `parity_coefficients` that are sets of k signs.

    Example:
        >>> parity_rows(num_patterns=3, num_relevant=2).tolist()
        [3, 5, 6]
    """
    _check_parity(num_patterns, num_relevant)
    if num_patterns > _MOST_SIGNS:
        raise ValueError(f"num_patterns must be at most {_MOST_SIGNS}, got {num_patterns}.")
    return np.flatnonzero(np.bitwise_count(np.arange(2**num_patterns)) == num_relevant)


def feature_matrix(features: Features, x: Float[Array, "n d"]) -> Float[Array, "n m"]:
    """Ψ(x) as numbers in [−1, 1]: divided by the largest of these inputs, so let them be all.

    Args:
        features: A model linear in its parameters with one output, such as `tangent_features`.
        x: All inputs. On samples, the scale would depend on the data.

    Example:
        >>> linear = Features(lambda theta, x: x @ theta, jnp.zeros((2, 1)))
        >>> feature_matrix(linear, jnp.array([[1.0, 0.0], [0.0, -2.0]])).tolist()
        [[0.5, 0.0], [0.0, -1.0]]
    """
    flat, unravel = ravel_pytree(features.params)
    basis = jnp.eye(len(flat), dtype=flat.dtype)
    columns = jax.vmap(lambda theta: features.apply(unravel(theta), x)[:, 0])(basis)
    return columns.T / jnp.abs(columns).max()


def drawn_features(
    key: RandomKey, x: Float[Array, "n d"], num_neurons: int
) -> Float[Array, "3 n m"]:
    """Random, tangent and Fourier features, N = h(d + 2) of each, in [−1, 1] on all inputs.

    Random features are N ReLUs with biases, tangents those of h of them, waves as wide as √d.

    Args:
        key: Draws them.
        x: All inputs.
        num_neurons: h, even.

    Example:
        >>> corners = jnp.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> drawn_features(jax.random.key(0), corners, num_neurons=2).shape
        (3, 4, 8)
    """
    if num_neurons < 2 or num_neurons % 2:
        raise ValueError(f"num_neurons must be even and at least 2, got {num_neurons}.")
    wide_key, narrow_key, wave_key = jax.random.split(key, 3)
    d = x.shape[1]
    total = num_neurons * (d + 2)
    wide = network(mlp([total], output_bias=False), (d,), bias="normal")
    narrow = network(mlp([num_neurons], output_bias=False), (d,), bias="normal")
    models = (
        random_features(wide.apply, wide.init(wide_key)),
        tangent_features(narrow.apply, narrow.init(narrow_key)),
        random_fourier_features(wave_key, d, total // 2, bandwidth=d**0.5),
    )
    return jnp.stack([feature_matrix(model, x) for model in models])


class HingeFit(NamedTuple):
    """The least hinge loss found, a certificate that none is below, and the weights."""

    loss: Float[Array, ""]
    floor: Float[Array, ""]
    weights: Float[Array, " m"]


def best_hinge(
    features: Float[Array, "n m"],
    labels: Float[Array, " n"],
    chances: Float[Array, " n"],
    norm_bound: Scalar,
    num_steps: int,
) -> HingeFit:
    """Min over ‖w‖ ≤ B of E max(1 − y⟨w, Ψ⟩, 0), by primal–dual descent from both sides.

    Args:
        features: Ψ, at all inputs.
        labels: y = ±1.
        chances: The probability of each input.
        norm_bound: B > 0.
        num_steps: Of the descent; the gap between loss and floor shrinks like 1/steps.

    Example:
        >>> found = best_hinge(jnp.eye(2), jnp.array([1.0, -1.0]), jnp.array([0.5, 0.5]), 1.0, 2000)
        >>> round(float(found.loss), 2), round(float(found.floor), 2)
        (0.29, 0.29)
    """
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}.")
    check_positive("norm_bound", norm_bound)
    signed = labels[:, None] * features
    moment = signed.T @ (chances[:, None] * signed)
    # Frobenius' norm bounds the largest eigenvalue; with the dual scaled by chances, steps of
    # B/‖·‖ and 1/(B‖·‖) are the longest that are safe.
    norm = jnp.sqrt(jnp.linalg.norm(moment))
    first, second = norm_bound / norm, 1 / (norm_bound * norm)

    def within(w: Float[Array, " m"]) -> Float[Array, " m"]:
        return w * jnp.minimum(1.0, norm_bound / jnp.maximum(jnp.linalg.norm(w), 1e-30))

    def advance(state: tuple[Array, Array, Array, Array], _: None) -> tuple[tuple, None]:
        w, alpha, w_sum, alpha_sum = state
        moved = within(w + first * ((chances * alpha) @ signed))
        ahead = 2 * moved - w
        alpha = jnp.clip(alpha + second * (1 - signed @ ahead), 0.0, 1.0)
        return (moved, alpha, w_sum + moved, alpha_sum + alpha), None

    start = jnp.zeros_like(features[0]), jnp.ones_like(labels)
    zeros = jax.tree.map(jnp.zeros_like, start)
    (w, alpha, w_sum, alpha_sum), _ = jax.lax.scan(advance, (*start, *zeros), length=num_steps)
    correlation = chances @ signed
    short = norm_bound * correlation / jnp.maximum(jnp.linalg.norm(correlation), 1e-30)
    candidates = jnp.stack([w, w_sum / num_steps, short])  # the last is best if no input is beyond
    losses = jnp.maximum(1 - candidates @ signed.T, 0.0) @ chances
    weights = jnp.stack([alpha, alpha_sum / num_steps, jnp.ones_like(alpha)]) * chances[None, :]
    floors = weights.sum(axis=1) - norm_bound * jnp.linalg.norm(weights @ signed, axis=1)
    best = jnp.argmin(losses)
    return HingeFit(losses[best], floors.max(), candidates[best])


def mixture_chances(
    x: Float[Array, "n d"], relevant: Sequence[int] | Array, other_probability: Scalar = 0.5
) -> Float[Array, " n"]:
    """The probability of every corner of {±1}ᴰ in the parity mixture with the set A, at p_o = ½.

    With probability p_o all signs are fair, else those in A are all equal; the others are fair.

    Args:
        x: All 2ᴰ corners.
        relevant: A, as places.
        other_probability: p_o; 1 for fair signs alone. Others than ½ and 1 are not the source's
            mixture, whose background covaries there.

    Example:
        >>> corners = jnp.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> mixture_chances(corners, relevant=[0, 1]).tolist()
        [0.375, 0.125, 0.125, 0.375]
    """
    chosen = x[:, jnp.asarray(relevant)]
    k = chosen.shape[1]
    equal = jnp.abs(chosen.sum(axis=1)) == k
    return (other_probability + (1 - other_probability) * equal * 2.0 ** (k - 1)) / len(x)


def _characters(size: int) -> Float[np.ndarray, "points points"]:
    """χ_A(z) of all sets and all points of {±1}^size."""
    places = np.arange(2**size)
    return 1.0 - 2.0 * (np.bitwise_count(places[:, None] & places[None, :]) % 2)


def _check_parity(num_patterns: int, num_relevant: int) -> None:
    if not 1 <= num_relevant <= 50:  # so that C(D, k) is a number
        raise ValueError(f"num_relevant must be in [1, 50], got {num_relevant}.")
    if not num_relevant <= num_patterns <= 10**6:
        raise ValueError(
            f"num_patterns must be in [num_relevant = {num_relevant}, 10⁶], got {num_patterns}."
        )
