"""Wide two-layer networks trained on images with random labels, beside what their kernel says."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from theorylab.experiments.generalization._label_noise import Images
from theorylab.kernels import Descent, predicted_outputs, two_layer, weight_distance
from theorylab.typing import Measured, RandomKey, Scalar


class Networks(NamedTuple):
    """Of wide networks; axes: s seeds, l parts of random labels."""

    error: Float[Measured, "s l"]  # test error
    kernel_error: Float[Measured, "s l"]  # that of the kernel after as many steps
    movement: Float[Measured, "s l"]  # ‖W(T) − W(0)‖_F
    travelled: Float[Measured, "s l"]  # what the kernel says of its square


def trained(
    key: RandomKey, here: Images, levels: Sequence[int], n: int, width: int, num_steps: int
) -> Networks:
    """Test error and movement of a wide network, and what its kernel says after as many steps."""
    steps = [num_steps]
    true = here.true[:, None]
    labels = jnp.asarray(here.labels[:n, 0, levels])
    kernel, cross = here.kernel[:n, :n], here.cross[:, :n]
    rate = float(1.6 / jnp.linalg.eigvalsh(kernel)[-1])
    outputs, movement = _descended(key, here.x[:n], here.tests, labels, rate, width, num_steps)
    predicted = predicted_outputs(kernel, cross, labels, steps, Descent(rate))[0]
    travelled = [
        float(weight_distance(kernel, labels[:, [level]], steps, Descent(rate))[0])
        for level in range(len(levels))
    ]
    return Networks(
        error=np.mean(np.asarray(outputs) * true <= 0, axis=0),
        kernel_error=np.mean(np.asarray(predicted) * true <= 0, axis=0),
        movement=np.asarray(movement, float),
        travelled=np.array(travelled),
    )


@partial(jax.jit, static_argnums=(5, 6))
def _descended(
    key: RandomKey,
    x: Float[Array, "n d"],
    tests: Float[Array, "n2 d"],
    labels: Float[Array, "n l"],
    rate: Scalar,
    width: int,
    num_steps: int,
) -> tuple[Float[Array, "n2 l"], Float[Array, " l"]]:
    """What a trained network adds to its initial outputs at the tests, in single precision."""
    x, tests, labels = (array.astype(jnp.float32) for array in (x, tests, labels))
    drawn = two_layer.init(key, width, x.shape[1])
    network = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), drawn)

    def one(y: Float[Array, " n"]) -> tuple[Float[Array, " n2"], Float[Array, ""]]:
        step = jnp.asarray(rate, jnp.float32)
        after = two_layer.descend(network, x, y, step, 1, num_steps).network
        added = two_layer.outputs(after, tests) - two_layer.outputs(network, tests)
        return added, jnp.linalg.norm(after.weights - network.weights)

    outputs, movement = jax.lax.map(one, labels.T)
    return outputs.T, movement
