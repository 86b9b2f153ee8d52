"""Dual activations: what a nonlinearity makes of a Gaussian pair.

    (u, v) ~ N(0, [[q₁, c], [c, q₂]])   ─►   E σ(u)σ(v)   and   E σ′(u)σ′(v)

`closed_forms` for the families of `theorylab.models`, a Hermite `series` for any other function.

Source: golikov · ntk-dual · 2.4.3.
"""

from .dual import dual as dual
from .pair import Dual as Dual
from .series import quadrature_dual as quadrature_dual
from .series import quadrature_error as quadrature_error
