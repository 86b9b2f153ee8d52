"""What can be said of a network before any number: who needs pairs of positions, what is fresh.

Source: golikov · ntk-conv · 2.5.1 (a flattened readout needs s = s′ only).
"""

from collections.abc import Callable

from theorylab.models import (
    Activation,
    Aggregate,
    Architecture,
    AvgPool,
    Concatenate,
    Conv,
    Dense,
    Flatten,
    GlobalPool,
    Residual,
    SelfAttention,
    Serial,
)
from theorylab.models.architecture import ConvTranspose, Product
from theorylab.models.branches import Parallel
from theorylab.models.custom_layer import CustomLayer
from theorylab.models.einsum import Einsum
from theorylab.models.mixing import Resize, Upsample


def needs_pairs(layer: Architecture, wanted: bool) -> bool:
    """Whether a layer must know K(s, s′) for s ≠ s′ too, if that is `wanted` (or not) of it.

    Example:
        >>> needs_pairs(Serial(Dense(1), Flatten()), wanted=True)
        False
        >>> needs_pairs(Serial(Dense(1), GlobalPool()), wanted=False)
        True
    """
    match layer:
        case Serial():
            for inner in reversed(layer.layers):
                wanted = needs_pairs(inner, wanted)
            return wanted
        case Residual() | Product():
            return any(needs_pairs(way, wanted) for way in (layer.shortcut, layer.branch))
        case Concatenate():
            return wanted or needs_pairs(layer.branch, wanted)
        case Parallel():
            return any(needs_pairs(branch, wanted) for branch in layer.branches)
        case Flatten():
            return False
        case Conv(shared=False):
            return False
        case AvgPool() | GlobalPool() | Aggregate() | SelfAttention():
            return True
        case Upsample(method="linear") | Resize(method="linear"):
            return True
        case CustomLayer(needs_pairs=own):
            return own or wanted
        case Einsum():
            *spots, _ = layer.letters.input
            return wanted or not set(spots) <= set(layer.letters.output)
    return wanted


def is_fresh(layer: Architecture, before: bool = False) -> bool:
    """Whether new weights of mean 0 make what comes out uncorrelated with everything before.

    Args:
        layer: What is asked about.
        before: Whether what comes in is so.

    Example: an activation after the weights correlates channels with what came before.
        >>> is_fresh(Dense(1)), is_fresh(Serial(Dense(1), Activation("relu")))
        (True, False)
    """
    match layer:
        case Product():
            return any(is_fresh(way, before) for way in (layer.shortcut, layer.branch))
        case Parallel(join="product"):
            return any(is_fresh(branch, before) for branch in layer.branches)
        case CustomLayer(outputs="other") | Activation():
            return False
    return _part_by_part(is_fresh, layer, before)


def is_independent(layer: Architecture, before: bool = False) -> bool:
    """Whether all that comes out is made by new weights, so that only kernels of before matter.

    Unlike what `is_fresh`, it may have a mean, and it may not contain what came in.

    Example: an activation after new weights; the same beside what came in.
        >>> made = Serial(Dense(1), Activation("relu"))
        >>> is_independent(made), is_independent(Residual(made))
        (True, False)
    """
    return _part_by_part(is_independent, layer, before)


def _part_by_part(
    holds: Callable[[Architecture, bool], bool], layer: Architecture, before: bool
) -> bool:
    """What new weights make true, all branches have to keep, and other layers leave as it was."""
    match layer:
        case Dense() | Conv() | ConvTranspose() | SelfAttention() | CustomLayer(outputs="new"):
            return True
        case Serial():
            for inner in layer.layers:
                before = holds(inner, before)
            return before
        case Residual() | Product():
            return all(holds(way, before) for way in (layer.shortcut, layer.branch))
        case Concatenate():
            return before and holds(layer.branch, before)
        case Parallel():
            return all(holds(branch, before) for branch in layer.branches)
    return before


def needs_graphs(layer: Architecture) -> bool:
    """Whether every input must come with a graph of its own.

    Example: one graph for all inputs, and a graph for every input.
        >>> needs_graphs(Aggregate(((1.0,),))), needs_graphs(Serial(Aggregate(None), Dense(1)))
        (False, True)
    """
    match layer:
        case Aggregate():
            return layer.graph is None
        case Serial():
            return any(map(needs_graphs, layer.layers))
        case Residual() | Product():
            return needs_graphs(layer.shortcut) or needs_graphs(layer.branch)
        case Concatenate():
            return needs_graphs(layer.branch)
        case Parallel():
            return any(map(needs_graphs, layer.branches))
    return False
