"""Branches that see the same input and are joined, at infinite width.

    sum                        K ← Σᵢ Kᵢ                     Θ ← Σᵢ Θᵢ
    product                    K ← ∏ᵢ Kᵢ                     Θ ← Σᵢ Θᵢ ∏ⱼ≠ᵢ Kⱼ
    concatenated channels      K ← Σᵢ cᵢKᵢ/Σᵢ cᵢ             Θ likewise                c: channels
    concatenated positions     K(s, s′) ← Kᵢ(s, s′) if s and s′ are both of branch i, else 0

A sum, and pairs of positions of two branches, have cross terms E fᵢ(x)fⱼ(x′). They are 0 if one of
the two ends with new weights of mean 0. A product needs branches that are independent, with or
without a mean. Elsewhere there is no such rule, and an error says so.
"""

from collections.abc import Sequence
from functools import reduce

import jax.numpy as jnp

from theorylab.models import Architecture
from theorylab.models.branches import Join, Parallel

from .needs import is_fresh, is_independent
from .state import Covariance, LayerState, product, total


def joined(layer: Parallel, states: Sequence[LayerState]) -> LayerState:
    """Join the branches' states.

    Example: three and one channels, whose kernels are 1 and 5.
        >>> from theorylab.models import Dense
        >>> one, other = (
        ...     LayerState(jnp.array([kernel]), None, (channels,), paired=False, gaussian=True)
        ...     for kernel, channels in ((1.0, 3), (5.0, 1))
        ... )
        >>> beside = Parallel(Dense(3), Dense(1), join="concatenate")
        >>> joined(beside, [one, other]).nngp.tolist()
        [2.0]
    """
    if layer.join == "concatenate":
        axis = layer.joined_axis(states[0].shape)
        if axis == len(states[0].shape) - 1:
            return _beside(states)
        if states[0].paired:
            check_join("concatenate", layer.branches)
        return _below(states, axis)
    check_join(layer.join, layer.branches)
    if layer.join == "sum":
        return states[0]._replace(
            nngp=sum((state.nngp for state in states[1:]), start=states[0].nngp),
            ntk=total(*((1.0, state.ntk) for state in states)),
            gaussian=all(state.gaussian for state in states),
        )
    return reduce(_product, states)


def check_join(join: Join, branches: Sequence[Architecture]) -> None:
    """Raise if the kernels of correlated branches would have to be joined.

    Example:
        >>> from theorylab.models import Activation, Dense, Serial
        >>> relu = Serial(Dense(8), Activation("relu"))
        >>> check_join("product", [relu, relu])  # independent
        >>> check_join("sum", [relu, relu])
        Traceback (most recent call last):
        ...
        ValueError: all branches of a sum but one must end with layers of weights, which have mean \
0, got 2 that do not: those are correlated, and their kernels do not combine.
    """
    if join == "product":
        loose = sum(not is_independent(branch) for branch in branches)
        all_others = "be made by layers of weights of their own"
    else:
        loose = sum(not is_fresh(branch) for branch in branches)
        all_others = "end with layers of weights, which have mean 0"
    if loose > 1:
        name = "concatenation of positions" if join == "concatenate" else join
        raise ValueError(
            f"all branches of a {name} but one must {all_others}, got {loose} that do not: those "
            "are correlated, and their kernels do not combine."
        )


def _product(one: LayerState, other: LayerState) -> LayerState:
    ntk = total((1.0, product(one.ntk, other.nngp)), (1.0, product(other.ntk, one.nngp)))
    return one._replace(nngp=one.nngp * other.nngp, ntk=ntk, gaussian=False)


def _beside(states: Sequence[LayerState]) -> LayerState:
    """Concatenate channels."""
    count = sum(state.shape[-1] for state in states)
    parts = [state.shape[-1] / count for state in states]
    terms = [part * state.nngp for part, state in zip(parts, states, strict=True)]
    return LayerState(
        nngp=sum(terms[1:], start=terms[0]),
        ntk=total(*((part, state.ntk) for part, state in zip(parts, states, strict=True))),
        shape=(*states[0].shape[:-1], count),
        paired=states[0].paired,
        gaussian=len(states) == 1 and states[0].gaussian,  # branches have other variances
    )


def _below(states: Sequence[LayerState], axis: int) -> LayerState:
    """Concatenate along a position axis: every branch in a block of its own."""
    sizes = [state.shape[axis] for state in states]
    whole = sum(sizes)

    def block(array: Covariance, index: int) -> Covariance:
        before = sum(sizes[:index])
        pads = [(0, 0)] * array.ndim
        for side in states[index].axes[axis]:
            pads[side] = (before, whole - before - sizes[index])
        return jnp.pad(array, pads)

    shape = (*states[0].shape[:axis], whole, *states[0].shape[axis + 1 :])
    blocks = [state.mapped(lambda a, i=i: block(a, i), shape) for i, state in enumerate(states)]
    return blocks[0]._replace(
        nngp=sum((state.nngp for state in blocks[1:]), start=blocks[0].nngp),
        ntk=total(*((1.0, state.ntk) for state in blocks)),
        gaussian=all(state.gaussian for state in states),
    )
