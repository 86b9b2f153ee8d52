"""What the theorem on multi-index models asks for, with every constant that it hides equal to 1.

For a polynomial of degree τ in r directions with H = E ∇²g*, and κ = ‖H⁺‖/√r, one step of size

    η⁽¹⁾ = √(d/ℓ³),    ℓ = C_l log(nmd),

and T steps of the output layer reach the loss ε if

    n   d²rκ²ℓ^(τ+1) + m        m   r^τ κ^(2τ) ℓ^(6τ+1)/ε
    d   C_d κ r^(3/2)           T   m²/ε

As n and m stand in their own logarithms, the least ones are a fixed point (`index_needs`). The
proof has an output layer ã with ‖ã‖² ≤ r^τ κ^(2τ) ℓ^(6τ)/m, and needs its Rademacher term

    √(‖ã‖² ‖b‖²/n) ≤ ε/3,    ‖b‖² = 4m, as b ~ N(0, 1),

to which ‖W⁽¹⁾‖² adds more (`index_complexity`). At the least n and m of large widths it is
√(4ε/ℓ), which is above ε/3 for small ε whatever the constants are: n ≥ Ω(m) is not enough.

Source: shi · case-multi-index · Definition B.67, Lemma B.68, Theorem B.69.
"""

import math
from typing import NamedTuple

import numpy as np

from theorylab.data import MultiIndex


class IndexNeeds(NamedTuple):
    """The least sizes of the theorem."""

    num_samples: float  # n
    dimension: float  # d
    width: float  # m
    num_steps: float  # T
    scale: float  # ℓ = C_l log(nmd) at these sizes


def condition_number(law: MultiIndex) -> float:
    """κ = ‖H⁺‖/√r.

    Example:
        >>> from theorylab.data import quadratic_index
        >>> round(condition_number(quadratic_index(dimension=8, num_directions=3)), 4)
        0.7071
    """
    values = np.linalg.svd(np.asarray(law.hessian, float), compute_uv=False)
    r = law.num_directions
    if not values[r - 1] > 1e-12:
        raise ValueError(f"the mean Hessian must have rank {r}, got singular values {values[:r]}.")
    return float(1 / values[r - 1] / math.sqrt(r))


def index_rate(dimension: int, num_samples: int, width: int, constant: float = 1.0) -> float:
    """η⁽¹⁾ = √(d/(C_l log nmd)³).

    Args:
        dimension: d.
        num_samples: n.
        width: m.
        constant: C_l.

    Example:
        >>> round(index_rate(dimension=64, num_samples=80000, width=64), 4)
        0.0921
    """
    if min(dimension, num_samples, width) < 1 or not constant > 0:
        raise ValueError(
            "dimension, num_samples and width must be at least 1 and constant positive, got "
            f"{dimension}, {num_samples}, {width} and {constant}."
        )
    return math.sqrt(dimension / (constant * math.log(num_samples * width * dimension)) ** 3)


def index_needs(law: MultiIndex, accuracy: float, constant: float = 1.0) -> IndexNeeds:
    """The least n, d, m and T, with the constants in Ω and C_d equal to 1.

    Args:
        law: The target.
        accuracy: ε.
        constant: C_l.

    Example:
        >>> from theorylab.data import quadratic_index
        >>> needs = index_needs(quadratic_index(32, 2), accuracy=0.1)
        >>> f"{needs.width:.1e}", f"{needs.scale:.1f}"
        ('5.3e+28', '135.8')
    """
    if not 0 < accuracy < 1 or not constant > 0:
        raise ValueError(
            f"accuracy must be in (0, 1) and constant positive, got {accuracy} and {constant}."
        )
    tau = max(sum(term) for term in law.degrees)
    d, r, kappa = law.dimension, law.num_directions, condition_number(law)
    # The map ℓ ─► C_l log(nmd) grows and is concave in log ℓ, so iteration from below converges.
    scale = width = num_samples = 1.0
    for _ in range(200):
        width = max(1.0, (r * kappa**2) ** tau * scale ** (6 * tau + 1) / accuracy)
        num_samples = d**2 * r * kappa**2 * scale ** (tau + 1) + width
        scale = max(1.0, constant * (math.log(num_samples) + math.log(width) + math.log(d)))
    return IndexNeeds(num_samples, kappa * r**1.5, width, width**2 / accuracy, scale)


def index_complexity(law: MultiIndex, accuracy: float, constant: float = 1.0) -> float:
    """√(‖ã‖²‖b‖²/n) over ε/3 at the least sizes, with the bound on ‖ã‖² and ‖b‖² = 4m.

    Args:
        law: The target.
        accuracy: ε.
        constant: C_l.

    Example:
        >>> from theorylab.data import quadratic_index
        >>> round(index_complexity(quadratic_index(32, 2), accuracy=0.1), 3)
        1.628
    """
    needs = index_needs(law, accuracy, constant)
    # At these sizes ‖ã‖² ≤ r^τ κ^(2τ) ℓ^(6τ)/m = ε/ℓ.
    norm = math.sqrt(accuracy / needs.scale)
    return norm * math.sqrt(4 * needs.width / needs.num_samples) / (accuracy / 3)
