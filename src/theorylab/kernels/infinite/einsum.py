"""The product with a fixed array T, at infinite width.

For y(p)ₒ = Σ T(p, o, s, c) x(s)꜀ over the positions s and channels c,

    channels go through, o = c    K ← Σₛₛ′ T(p, s) T(p′, s′) K(s, s′)
    channels are mixed            K ← (1/nₒ) Σₒ꜀ₛₛ′ T(p, o, s, c) T(p′, o, s′, c) K(s, s′)

and Θ likewise, both of which are one sum in Einstein's notation, with a second letter for s′ beside
that for s. Mixed channels must have been independent, with the covariance K each.
"""

import string
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from theorylab.models.einsum import Einsum

from .state import Covariance, LayerState


def contracted(layer: Einsum, state: LayerState) -> LayerState:
    """Multiply by the fixed array.

    Example: the difference of two positions has the variance 1 + 5 − 2 · 2.
        >>> kernel = jnp.array([[[1.0, 2.0], [2.0, 5.0]]])
        >>> state = LayerState(kernel, None, (2, 1), paired=True, gaussian=True)
        >>> contracted(Einsum("sc,s->c", [1.0, -1.0]), state).nngp.tolist()
        [2.0]
    """
    if not (layer.keeps_channels or state.gaussian):
        raise ValueError(
            f"{layer!r} must stand after a Dense layer or another layer of weights to mix "
            "channels: elsewhere they are not independent and alike, and K is their mean."
        )
    sizes, letters = layer.sizes(state.shape), layer.letters
    *spots, channel = letters.input
    *places, out = letters.output
    second = _second_letters(layer, state.paired)

    def pairs(letters: list[str]) -> str:
        return "".join(letter + second[letter] if state.paired else letter for letter in letters)

    array = jnp.asarray(layer.array.array, state.nngp.dtype)
    names = [letters.array, "".join(second[letter] for letter in letters.array)]
    factors: list[Array] = [array, array]
    if channel != out:  # x꜀ and x꜀′ are independent: c′ = c
        size, dtype = sizes[channel], state.nngp.dtype
        apart = second[channel] != channel
        names.append(channel + second[channel] if apart else channel)
        factors.append(jnp.eye(size, dtype=dtype) if apart else jnp.ones(size, dtype))
    count = 1 if layer.keeps_channels else sizes[out]
    formula = f"{','.join(names)},...{pairs(spots)}->...{pairs(places)}"

    def sums(kernel: Covariance) -> Covariance:
        product: Callable[..., Array] = jnp.einsum
        total = product(formula, *factors, kernel, precision=jax.lax.Precision.HIGHEST)
        return total / count

    after = state.mapped(sums, layer.output_shape(state.shape))
    return after._replace(gaussian=state.gaussian and layer.keeps_channels)


def _second_letters(layer: Einsum, paired: bool) -> dict[str, str]:
    """The letter of x′ for every letter of x: the same where only equal indices count."""
    inputs, of_array, outputs = layer.letters
    channel, out = inputs[-1], outputs[-1]
    alike = {out} if paired else {out, *inputs, *outputs}
    if channel not in outputs[:-1]:
        alike.add(channel)
    free = iter(sorted(set(string.ascii_letters) - set(inputs + of_array)))
    every = sorted(set(inputs + of_array))
    return {letter: letter if letter in alike else next(free) for letter in every}
