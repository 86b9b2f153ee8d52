"""The tangent kernel of a convolutional network with global average pooling, as it is derived.

One position axis of d pixels, wrapped around, and windows with the offsets r ∈ ker:

    h₁(s) = c^(−½) Σᵣ Wᵣ x(s + r),   hₗ(s) = n^(−½) Σᵣ Wᵣ φ(hₗ₋₁(s + r)),   f = (1/d) Σₛ φ(h_L(s))

with all weights N(0, 1). At infinite width n, with (z, z′) ~ N(0, qₗ₋₁),

    q₁(s, s′) = (1/c) Σᵣ x(s + r)·x′(s′ + r),      qₗ(s, s′) = Σᵣ E φ(z(s + r))φ(z′(s′ + r)),
    Θ₁ = q₁,      Θₗ(s, s′) = qₗ(s, s′) + Σᵣ Θₗ₋₁(s + r, s′ + r) E φ′(z(s + r))φ′(z′(s′ + r)),
    Θ = (1/d²) Σₛₛ′ E[φ′φ′] Θ_L(s, s′).

Three places are printed otherwise: a sum over r and r′ independently in Θₗ, though weights at
different offsets are independent; q_L in place of E φ′φ′ in Θ; and no 1/c in q₁.
`infinite_kernels` reads any such network; this is the text's own recursion, to be compared.

Source: golikov · ntk-conv · 2.4.2, Eqs 2.62–2.78; golikov · ntk-fc · Eq. 2.58.
"""

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from theorylab.models.activations import Elementwise

from .dual import dual

Misprint = Literal["none", "offsets apart", "covariance at the end", "inputs unscaled"]
Pairs = Float[Array, "n n d d"]


def pooled_convolution_kernel(
    x: Float[Array, "n d c"],
    offsets: tuple[int, ...],
    depth: int,
    activation: str | Elementwise = "relu",
    misprint: Misprint = "none",
) -> Float[Array, "n n"]:
    """Θ of the convolutions, without weights after the pooling.

    Args:
        x: The inputs, with positions and channels.
        offsets: ker, the offsets r of a window.
        depth: L, the number of convolutions.
        activation: φ.
        misprint: Which formula to take as it is printed: "offsets apart" (2.78), "covariance at
            the end" (2.75), "inputs unscaled" (2.58).

    Example:
        >>> x = jnp.ones((1, 2, 3))
        >>> pooled_convolution_kernel(x, (0,), 1).tolist()
        [[0.5]]
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1, got {depth}.")
    if not offsets:
        raise ValueError("offsets must have at least one r, got ().")

    def together(pairs: Pairs) -> Pairs:
        """Σᵣ pairs(s + r, s′ + r)."""
        return sum((jnp.roll(pairs, (-r, -r), (2, 3)) for r in offsets), jnp.zeros_like(pairs))

    def apart(pairs: Pairs) -> Pairs:
        """Σᵣ Σᵣ′ pairs(s + r, s′ + r′)."""
        rows = sum((jnp.roll(pairs, -r, 2) for r in offsets), jnp.zeros_like(pairs))
        return sum((jnp.roll(rows, -r, 3) for r in offsets), jnp.zeros_like(pairs))

    through = apart if misprint == "offsets apart" else together
    channels = 1 if misprint == "inputs unscaled" else x.shape[-1]
    covariance = together(jnp.einsum("isc,jtc->ijst", x, x) / channels)
    tangent = covariance
    for _ in range(depth - 1):
        value, slope = _dual(activation, covariance)
        covariance = together(value)
        tangent = covariance + through(tangent * slope)
    last = _dual(activation, covariance)[1]
    weight = covariance if misprint == "covariance at the end" else last
    return jnp.mean(weight * tangent, axis=(2, 3))


def _dual(activation: str | Elementwise, covariance: Pairs) -> tuple[Pairs, Pairs]:
    """E φφ′ and E φ′φ′ at every pair of inputs and positions."""
    variance = jnp.einsum("iiss->is", covariance)
    q1, q2 = variance[:, None, :, None], variance[None, :, None, :]
    value, slope = dual(activation, q1, q2, covariance)
    return value, slope
