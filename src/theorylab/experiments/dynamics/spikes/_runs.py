"""Runs of gradient descent and SGD near the critical learning rate, and grids of them.

    at_every       a run at every setting, for every seed, as one program
    begin          a network with its weights, and its data
    watched_sgd    SGD at a multiple of the critical learning rate, seen at every step

The loss is the mean squared error.

Source: zhu · sgd-match-rate · Table 4.2; zhu · sgd-ntk-drop · Fig. 4.7.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from theorylab.data import Dataset
from theorylab.dynamics import WatchedSteps, critical_learning_rate, watch_sgd
from theorylab.models import Architecture, Model, network
from theorylab.training import ensemble, squared
from theorylab.typing import Params, RandomKey, Scalar

LOSS = squared("mean")
NOT_KEPT = "lab: chosen for this experiment; the runs it was set on were not kept"
Draw = Callable[[RandomKey], Dataset]


def at_every(run: Callable[..., Any], settings: Any, keys: Key[Array, " s"]) -> Any:
    """Run at every setting with every seed: leaves have the axes settings, seeds.

    Args:
        run: A function of one setting and one key to a pytree of arrays.
        settings: An array with settings as the leading axis, or a pytree of such.
        keys: One for each seed.
    """
    number = len(jax.tree.leaves(settings)[0])
    repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, len(keys)), settings)
    found = ensemble(lambda given: run(*given), (repeated, jnp.tile(keys, number)))
    return jax.tree.map(lambda leaf: leaf.reshape(number, len(keys), *leaf.shape[1:]), found)


def begin(architecture: Architecture, draw: Draw, key: RandomKey) -> tuple[Model, Params, Dataset]:
    """Draw data, and a network with its weights."""
    data_key, init_key = jax.random.split(key)
    data = draw(data_key)
    model = network(architecture, data.input_shape)
    return model, model.init(init_key), data


def watched_sgd(
    draw: Draw,
    model_of: Callable[[tuple[int, ...]], Model],
    ratio: Scalar,
    batch_size: int,
    num_steps: int,
    key: RandomKey,
) -> WatchedSteps:
    """Train by SGD at a multiple of the critical learning rate of all data at the start.

    Args:
        draw: What draws the data.
        model_of: Makes the network from the shape of one input.
        ratio: η over η_crit.
        batch_size: b.
        num_steps: Steps of SGD.
        key: Draws data, weights and batches.
    """
    data_key, init_key, order_key = jax.random.split(key, 3)
    data = draw(data_key)
    model = model_of(data.input_shape)
    params = model.init(init_key)
    rate = ratio * critical_learning_rate(model.apply, params, data, LOSS)
    run = watch_sgd(model.apply, params, data, LOSS, rate, batch_size, num_steps, order_key)
    return run.records
