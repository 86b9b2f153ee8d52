"""Good subnetworks: what is measured about them on every law, and how it is drawn.

After the first step some neurons point along the directions of g* and have about the right length.
With output weights made from those of g*, and 0 elsewhere, they are a network about as good as g*.

Source: shi · good-subnet · Lemmas 3.14, B.6.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Finding, Source, exponent_between, median_between
from theorylab.experiments.drawing import COLOURS, THEORY, label_axes, panels, scaling
from theorylab.features import gradient
from theorylab.typing import RandomKey

COUNT = Source("shi", "good-subnet", "Lemma B.6, the number of neurons")
NEURONS = Source("shi", "good-subnet", "Lemma B.6, (B.38), (B.39)")


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

    def reach(self, width: int) -> float:
        """ε_a + √(2γ), within which a chosen neuron is of its neuron of g*."""
        c = self.constants
        window = c.mean_norm * c.bias_bound / (c.gradient_norm * self.floor)
        return window / (width * c.probability) ** 0.5 + (2 * c.opening) ** 0.5


class Start(NamedTuple):
    """One start after its first step, in units in which b̃ = 1."""

    found: gradient.Subnetwork
    moved: gradient.ReluNetwork
    loss: Float[Array, ""]  # of the good subnetwork
    shuffled: Float[Array, ""]  # of the same output weights on other neurons
    distance: Float[Array, ""]  # E|g − g*| of the good subnetwork
    farthest: Float[Array, ""]  # ‖cw − D‖ of the farthest chosen neuron, over ε_a + √(2γ)


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
    answers = jax.lax.map(lambda x: moved(x[None, :])[0], law.x, batch_size=50)
    return Start(
        found=found,
        moved=moved,
        loss=law.probabilities @ gradient.margin_loss(law.y * answers),
        shuffled=gradient.blockwise_risk(mixed, law),
        distance=law.probabilities @ jnp.abs(answers - task.target(law.x)),
        farthest=farthest(found, moved, task) / task.reach(len(signs)),
    )


def farthest(
    found: gradient.Subnetwork, moved: gradient.ReluNetwork, task: Task
) -> Float[Array, ""]:
    """The largest ‖cw − D‖ of the chosen neurons, with c = max(|b|, B_ε)."""
    heights = jnp.maximum(jnp.abs(task.target.biases), task.floor)
    squares = (moved.weights**2).sum(axis=1)[:, None] * heights[None, :] ** 2
    along = (moved.weights @ task.target.weights.T) * heights[None, :]
    gaps = squares - 2 * along + (task.target.weights**2).sum(axis=1)[None, :]
    return jnp.sqrt(jnp.where(found.members, gaps, 0.0).max())


def grows_like_root(widths: Sequence[int], counts: np.ndarray) -> Finding:
    """Judge that numbers of neurons, (widths, seeds), grow like √m: exponent 0.5 ± 0.1."""
    return exponent_between(np.array(widths), counts.T, 0.4, 0.6)


def loosely(bounds: np.ndarray, distances: np.ndarray, low: float, high: float) -> Finding:
    """Judge by which factor the bound, (widths, seeds), is above E|g − g*| at the last width."""
    return median_between((bounds / distances)[-1], low, high)


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
