"""Parities whose gradient features are known: of blocks that are shown alone, and of fair signs.

    blocks       D_j = Σ_{A_j} e_l/√k, s = ±1   b̃ = C_b √(τrk log d) σ_w
                 γ = d^−(τ − 2),   B_G = √k p_A,   p = d^(−9C_b²τr/8)/√(τr log d)
    fair signs   D = Σ_A e_l/√k                 |b| < 1, weights ±1
                 1 − γ = cos(G, D) of an aligned neuron,   B_G = ‖G‖,   p = 2^−(k − 1)

What the source hides in O and Θ is 1, or dropped. The network g* on blocks has 3r(k + 1) neurons
with |a| ≤ 2√k, ‖a‖ = √(6rk(k + 1)) and |b| ≤ (k + 1)/√k. (The source prints 2√(rk(k + 1)) for its
norm, which is less than it has.) The theorem's error for blocks is

    r' B_a1 B_x1 √(2γ) ≤ 3r' √k/d^((τ − 3)/2),   B_x1 = √d,   with the number r' of neurons of g*:

the source puts r' = r, the number of blocks, where g* has 3r(k + 1). For fair signs there is an
output layer with |ã| ≤ 8k and ‖ã‖ ≤ 8k√k, on neurons w⁽¹⁾ of length 1/√k; on directions of length
one these are 8√k and 8k, and biases are at most √k.

Source: shi · case-parity · Lemma 3.21, Theorem 3.22; shi · case-uniform-parity · Lemma B.54, B.65.
"""

import math

from theorylab.data import BlockParity

from .bound import Requirement, TheoremConstants
from .cases import TheoremCase
from .uniform_parity import aligned_cosine, gradient_length


def block_parity_case(law: BlockParity, tau: float, activation: float = 1.0) -> TheoremCase:
    """The constants of parities of blocks that are shown.

    Args:
        law: The parity, with p_A > 0.
        tau: τ, at least 8 in the theorem.
        activation: C_b, in front of the bias.

    Example:
        >>> law = BlockParity(dimension=48, block_size=5, block_probability=0.25)
        >>> block_parity_case(law, tau=1.0).constants.num_neurons
        18
    """
    for name, value in (("tau", tau), ("activation", activation)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive, got {value}.")
    if not law.block_probability > 0:
        raise ValueError(f"block_probability must be positive, got {law.block_probability}.")
    d, k, r = law.dimension, law.block_size, law.num_blocks
    slow = tau * r * math.log(d)
    constants = TheoremConstants(
        num_neurons=3 * r * (k + 1),
        entry_bound=2 * math.sqrt(k),
        norm_bound=math.sqrt(6 * r * k * (k + 1)),
        bias_bound=(k + 1) / math.sqrt(k),
        mean_norm=math.sqrt(law.mean_square),
        mean_square=law.mean_square,
        largest_norm=math.sqrt(d),
        probability=min(1.0, d ** (-9 * activation**2 * tau * r / 8) / math.sqrt(slow)),
        opening=d ** -(tau - 2),
        gradient_norm=math.sqrt(k) * law.block_probability,
    )
    assumptions = (
        Requirement("τ ≥ 8", tau, 8.0),
        Requirement("k ≥ τ log d", k, tau * math.log(d)),
        Requirement("d ≥ rk + τr log d", d, r * k + slow),
        Requirement("p_o ≤ rk/(d − rk)", r * k / max(d - r * k, 1), law.background),
        Requirement("p_A ≥ 1/d", law.block_probability, 1 / d),
    )
    return TheoremCase(activation * math.sqrt(slow * k), constants, assumptions)


def uniform_parity_case(dimension: int, num_bits: int) -> TheoremCase:
    """The constants of the parity of k of d fair signs; its gradient is exact.

    Args:
        dimension: d, odd.
        num_bits: k, even.

    Example:
        >>> case = uniform_parity_case(33, num_bits=4)
        >>> case.constants.probability, case.violated
        (0.125, ())
    """
    d, k = dimension, num_bits
    constants = TheoremConstants(
        num_neurons=k,
        entry_bound=8 * math.sqrt(k),
        norm_bound=8.0 * k,
        bias_bound=math.sqrt(k),
        mean_norm=math.sqrt(d),
        mean_square=float(d),
        largest_norm=math.sqrt(d),
        probability=0.5 ** (k - 1),
        opening=1 - aligned_cosine(d, k),
        gradient_norm=gradient_length(d, k),
    )
    return TheoremCase(1 - 1 / k, constants, (Requirement("d ≥ 2k²", d, 2 * k**2),))


def parity_error_bound(
    dimension: int, tau: float, block_size: int, num_blocks: int, printed: bool
) -> float:
    """The error bound for blocks, as printed and with the neurons that g* has, without ε.

    3r√k/d^((τ − 3)/2) is printed; g* has 3r(k + 1) neurons, and not r.

    Args:
        dimension: d.
        tau: τ.
        block_size: k.
        num_blocks: r.
        printed: Whether to give the printed bound.

    Example:
        >>> parity_error_bound(16, tau=8.0, block_size=9, num_blocks=1, printed=True)
        0.0087890625
    """
    for name, value in (("dimension", dimension), ("tau", tau), ("block_size", block_size)):
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}.")
    neurons = num_blocks if printed else 3 * num_blocks * (block_size + 1)
    return 3 * neurons * math.sqrt(block_size) / dimension ** ((tau - 3) / 2)
