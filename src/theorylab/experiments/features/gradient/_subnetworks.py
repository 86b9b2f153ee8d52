"""Good subnetworks: what is measured about them on every law, and how it is drawn.

After the first step some neurons point along the directions of g* and have about the right length.
With output weights made from those of g*, and 0 elsewhere, they are a network about as good as g*.

Source: shi · good-subnet · Lemmas 3.14, B.6.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Finding, Source, exponent_between
from theorylab.experiments.drawing import COLOURS, THEORY, label_axes, panels, scaling
from theorylab.features import gradient
from theorylab.typing import RandomKey

COUNT = Source("shi", "good-subnet", "Lemma B.6, the number of neurons")


class Task(NamedTuple):
    """The g* of a law, and what the lemma needs to know."""

    target: gradient.ReluNetwork
    constants: gradient.TheoremConstants
    floor: float  # B_ε

    def bounds(self, widths: Sequence[int], optimum: float) -> np.ndarray:
        """The lemma's bound at every width, where g* has the loss `optimum`."""
        return np.array(
            [gradient.subnetwork_bound(self.constants, m, self.floor, optimum) for m in widths]
        )


class Start(NamedTuple):
    """One start after its first step, in units in which b̃ = 1."""

    found: gradient.Subnetwork
    moved: gradient.ReluNetwork
    loss: Float[Array, ""]  # of the good subnetwork
    shuffled: Float[Array, ""]  # of the same output weights on other neurons


def take_step(
    output_key: RandomKey,
    shuffle_key: RandomKey,
    gradients: Float[Array, "m d"],
    signs: Float[Array, " m"],
    task: Task,
    law: gradient.FiniteLaw,
) -> Start:
    """Draw output weights, move the neurons, and find the good subnetwork."""
    found, moved = gradient.drawn_subnetwork(
        output_key, gradients, signs, task.target, task.constants, task.floor
    )
    mixed = moved._replace(outputs=jax.random.permutation(shuffle_key, found.outputs))
    losses = (gradient.blockwise_risk(network, law) for network in (moved, mixed))
    return Start(found, moved, *losses)


def grows_like_root(widths: Sequence[int], counts: np.ndarray) -> Finding:
    """Judge that numbers of neurons, (widths, seeds), grow like √m: exponent 0.5 ± 0.1."""
    return exponent_between(np.array(widths), counts.T, 0.4, 0.6)


def subnetwork_figure(
    widths: Sequence[int],
    counts: Mapping[str, np.ndarray],
    losses: Mapping[str, np.ndarray],
    bounds: Mapping[str, np.ndarray],
) -> Figure:
    """Numbers of neurons and losses over widths, (widths, seeds), beside bounds, (widths,)."""
    figure, axes = panels("neurons of the subnetwork", "its loss")
    scaling(axes[0], widths, {name: values.T for name, values in counts.items()}, exponent=0.5)
    label_axes(axes[0], "width m", "neurons")
    scaling(axes[1], widths, {name: values.T for name, values in losses.items()})
    for colour, (name, values) in zip(COLOURS, bounds.items(), strict=False):
        axes[1].loglog(widths, values, label=name, **(THEORY | {"color": colour}))
    axes[1].legend(fontsize=7)
    label_axes(axes[1], "width m", "hinge loss")
    return figure
