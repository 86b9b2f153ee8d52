"""The dichotomy of abc-parametrizations: wide networks learn features, or follow a fixed kernel.

For an MLP without biases, trained by SGD with one learning rate η n⁻ᶜ, layers 1 … L+1,

    r = min(a_out + b_out, 2a_out + c) + c − 1 + min over l ≤ L of (2aₗ + 1{l = 1}),

features move as n⁻ʳ. The network is

    stable at initialisation   if a₁ + b₁ = 0, aₗ + bₗ = ½ (hidden), a_out + b_out ≥ ½;
    stable                     if moreover r ≥ 0, 2a_out + c ≥ 1 and a_out + b_out + r ≥ 1;
    nontrivial                 if a_out + b_out + r = 1 or 2a_out + c = 1: its output moves;
    a feature learner          if stable, nontrivial and r = 0;
    in the kernel regime       if stable, nontrivial and r > 0.

A learning rate of each role's own is first made one by the shift θ = c/2 of every role.

Source: golikov · abc-dichotomy · Def. 3.4.5, Thm 3.4.6.
"""

import math
from typing import NamedTuple

from .parametrization import Parametrization


class Regime(NamedTuple):
    """What a wide network of the parametrization does.

    Args:
        feature_exponent: The exponent r; features move as n⁻ʳ.
        stable_at_initialisation: Pre-activations begin at Θ(1), outputs at O(1).
        stable: Nothing blows up in training either.
        nontrivial: The output moves by Θ(1), if stable.
    """

    feature_exponent: float
    stable_at_initialisation: bool
    stable: bool
    nontrivial: bool

    @property
    def learns_features(self) -> bool:
        """Features move by Θ(1)."""
        return self.stable and self.nontrivial and _equal(self.feature_exponent, 0.0)

    @property
    def follows_kernel(self) -> bool:
        """Features rest, and the output moves as kernel gradient descent."""
        return self.stable and self.nontrivial and not self.learns_features


def regime(parametrization: Parametrization) -> Regime:
    """Say in which regime wide networks of this parametrization train.

    Example:
        >>> from theorylab.models import NTK, MuP
        >>> regime(NTK()).follows_kernel, regime(NTK()).feature_exponent
        (True, 0.5)
        >>> regime(MuP()).learns_features
        True
    """
    first, hidden, output = parametrization.exponents
    first, output = first.shifted(first.c / 2), output.shifted(output.c / 2)
    hidden = None if hidden is None else hidden.shifted(hidden.c / 2)
    # From here on c = 0 in every role.
    moves = 2 * first.a + 1 if hidden is None else min(2 * first.a + 1, 2 * hidden.a)
    output_size = output.a + output.b
    r = min(output_size, 2 * output.a) - 1 + moves
    stable_at_initialisation = (
        _equal(first.a + first.b, 0.0)
        and (hidden is None or _equal(hidden.a + hidden.b, 0.5))
        and _at_least(output_size, 0.5)
    )
    stable = (
        stable_at_initialisation
        and _at_least(r, 0.0)
        and _at_least(2 * output.a, 1.0)
        and _at_least(output_size + r, 1.0)
    )
    nontrivial = _equal(output_size + r, 1.0) or _equal(2 * output.a, 1.0)
    return Regime(r, stable_at_initialisation, stable, nontrivial)


def _equal(left: float, right: float) -> bool:
    # Exponents such as 1/3 add up to rounding only.
    return math.isclose(left, right, abs_tol=1e-9)


def _at_least(left: float, right: float) -> bool:
    return left > right or _equal(left, right)
