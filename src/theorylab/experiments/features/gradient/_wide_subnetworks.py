"""Good subnetworks of networks so wide that the gradients of all neurons do not fit into memory.

Neurons come in blocks, each from a key of its own. A first pass over the blocks finds who is in Λ,
for each neuron of g*. A second one makes the gradients again, where a block has an output that is
not 0, and adds up what its neurons answer. What is measured is that of `take_step`, to rounding.

Source: shi · good-subnet · Lemmas 3.14, B.6.
"""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from theorylab.features import gradient
from theorylab.typing import RandomKey

from ._subnetworks import Task, farthest

Neurons = tuple[Float[Array, "b d"], Float[Array, " b"]]  # first gradients, signs of biases


def measured_in_blocks(
    key: RandomKey,
    neurons: Callable[[RandomKey], Neurons],
    size: int,
    width: int,
    task: Task,
    law: gradient.FiniteLaw,
) -> dict[str, Array]:
    """One start after its first step: what `take_step` finds, and how large Λ is.

    Args:
        key: Draws outputs, neurons and the permutation of the control.
        neurons: A block's key ─► its neurons.
        size: How many a block has.
        width: m, rounded up to whole blocks; the surplus has no outputs.
        task: g* and the constants.
        law: The points.
    """
    output_key, weight_key, shuffle_key = jax.random.split(key, 3)
    num_blocks, c = -(-width // size), task.constants
    keys = jax.random.split(weight_key, num_blocks)
    drawn = jax.random.normal(output_key, (width,)) / (c.slope * c.gradient_norm * task.floor)
    drawn = _blocks(drawn, num_blocks, size)

    def chosen(block: tuple[RandomKey, Array]) -> tuple[Bool[Array, "b r"], Float[Array, ""]]:
        return _members(*neurons(block[0]), block[1], width, task)

    members, far = jax.lax.map(chosen, (keys, drawn))
    counts = members.sum(axis=(0, 1))
    heights = jnp.maximum(jnp.abs(task.target.biases), task.floor)
    values = task.target.outputs * heights / jnp.maximum(counts, 1)
    outputs = jax.lax.map(lambda block: block @ values, members)
    mixed = jax.random.permutation(shuffle_key, outputs.reshape(-1)[:width])
    both = jnp.stack([outputs, _blocks(mixed, num_blocks, size)], axis=2)
    good, shuffled = _answers(neurons, (keys, drawn, both), c.slope, law).T

    def loss(answers: Float[Array, " n"]) -> Float[Array, ""]:
        return law.probabilities @ gradient.margin_loss(law.y * answers)

    return {
        "loss": loss(good),
        "shuffled": loss(shuffled),
        "distance": law.probabilities @ jnp.abs(good - task.target(law.x)),
        "farthest": far.max() / task.reach(width),
        "counts": counts.sum(),
        "fewest": counts.min(),
    }


def _blocks(values: Float[Array, " m"], num_blocks: int, size: int) -> Float[Array, "c b"]:
    return jnp.pad(values, (0, num_blocks * size - len(values))).reshape(num_blocks, size)


def _members(
    gradients: Float[Array, "b d"],
    signs: Float[Array, " b"],
    outputs: Float[Array, " b"],
    width: int,
    task: Task,
) -> tuple[Bool[Array, "b r"], Float[Array, ""]]:
    """Which neurons of a block stand for which one of g*, and how far the farthest is off."""
    # The window of lengths is that of the whole width: m p of all is b p' of the block.
    whole = task.constants.probability * width / len(signs)
    constants = replace(task.constants, probability=whole)
    start = gradient.ReluNetwork(outputs, jnp.zeros_like(gradients), signs)
    found = gradient.good_subnetwork(start, gradients, task.target, constants, 1.0, task.floor)
    weights = (constants.slope * outputs)[:, None] * gradients
    return found.members, farthest(found, gradient.ReluNetwork(outputs, weights, signs), task)


def _answers(
    neurons: Callable[[RandomKey], Neurons],
    blocks: tuple[Array, Float[Array, "c b"], Float[Array, "c b 2"]],
    slope: float,
    law: gradient.FiniteLaw,
) -> Float[Array, "n 2"]:
    """What two output layers make of the neurons after the step, at all points."""

    def add(
        answers: Float[Array, "n 2"], block: tuple[Array, Array, Array]
    ) -> tuple[Float[Array, "n 2"], None]:
        key, drawn, outputs = block

        def more(answers: Float[Array, "n 2"]) -> Float[Array, "n 2"]:
            gradients, signs = neurons(key)
            weights = (slope * drawn)[:, None] * gradients
            return answers + gradient.ReluNetwork(drawn, weights, signs).hidden(law.x) @ outputs

        return jax.lax.cond((outputs != 0).any(), more, lambda answers: answers, answers), None

    nothing = jnp.zeros((len(law.x), 2), law.x.dtype)
    return jax.lax.scan(add, nothing, blocks)[0]
