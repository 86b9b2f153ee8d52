"""The dual of any activation: in closed form if it has one, by its Hermite series if not.

Source: golikov · ntk-dual · 2.4.3.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models import ACTIVATIONS
from theorylab.models.activations import Elementwise
from theorylab.models.families import Abs, LeakyReLU, ReLU, Sign
from theorylab.models.scales import with_arrays, without_arrays

from .closed_forms import closed_form
from .pair import Dual
from .series import quadrature_dual

# JAX's own functions with a kink or a jump, where the series would be poor.
_KINKED: dict[Elementwise, Elementwise] = {
    jax.nn.relu: ReLU(),
    jax.nn.leaky_relu: LeakyReLU(),
    jnp.abs: Abs(),
    jnp.sign: Sign(),
}


def dual(
    activation: str | Elementwise,
    variance1: Float[Array, "*#pairs"],
    variance2: Float[Array, "*#pairs"],
    covariance: Float[Array, "*#pairs"],
) -> Dual:
    """E σ(u)σ(v) and E σ′(u)σ′(v), in closed form where there is one.

    Values and derivatives are finite everywhere, at ρ = ±1 and at variance 0 too: where a
    derivative in a variance or covariance does not exist, it is 0. Parameters of σ that are arrays
    can be differentiated in, too.

    Args:
        activation: σ: a name of `theorylab.models.ACTIVATIONS`, a member of a family such as
            `Hermite(3)`, an activation of your own with a method `dual(q1, q2, c)` that gives both
            numbers, or any elementwise function, whose dual is found by `quadrature_dual`.
        variance1: q₁, the variance of u; broadcast against the others.
        variance2: q₂, the variance of v.
        covariance: c, the covariance of u and v; |ρ| > 1 by rounding counts as 1.

    Example:
        >>> one = jnp.ones(())
        >>> [float(number) for number in dual("relu", one, one, one)]
        [0.5, 0.5]
    """
    if isinstance(activation, str):
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"activation must be one of {', '.join(ACTIVATIONS)}; got {activation!r}. "
                "Any other function σ can be given itself, Activation(σ), for quadrature_dual."
            )
        activation = ACTIVATIONS[activation]
    frame, parameters = without_arrays(activation)
    return _dual(frame, parameters, variance1, variance2, covariance)


@partial(jax.jit, static_argnums=0)
def _dual(
    frame: Elementwise, parameters: tuple[Array, ...], q1: Array, q2: Array, c: Array
) -> Dual:
    """The dual of an activation whose parameters may be arrays."""
    activation = with_arrays(_KINKED.get(frame, frame), parameters)
    form = closed_form(activation)
    return quadrature_dual(activation, q1, q2, c) if form is None else form(q1, q2, c)
