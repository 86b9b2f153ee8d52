"""A network against its own linearisation: one start, the same examples, the same batches.

    network         f(w; x)
    linearisation   f_lin(w; x) = f(w₀; x) + ⟨∇f(w₀; x), w − w₀⟩

Both are trained on cross-entropy. How well f_lin can do is also found without any learning rate, by
`kernels.tangent_regression`.

Source: karp · wrn-vs-ntk · 3.6, B.3 (the protocol after Allen-Zhu and Li 2020).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from theorylab.data import Dataset
from theorylab.features.fixed import accuracy
from theorylab.kernels import tangent_regression
from theorylab.models import Activation, Conv, Dense, Flatten, Model, Serial, linearize
from theorylab.training import Batches, cross_entropy, empirical_risk, sgd
from theorylab.typing import Apply, Params, RandomKey, Scalar


class Recipe(NamedTuple):
    """How a classifier is trained; all but the sizes may be traced.

    Args:
        learning_rate: Of AdamW, at the start; it falls to 0 as half a cosine.
        weight_decay: What AdamW shrinks weights by, in units of the learning rate.
        batch_size: Examples in a step.
        num_steps: The number of steps.
    """

    learning_rate: Scalar
    weight_decay: Scalar
    batch_size: int
    num_steps: int


def train_classifier(
    apply: Apply, start: Params, examples: Dataset, recipe: Recipe, key: RandomKey
) -> Params:
    """Minimise the cross-entropy by AdamW.

    Args:
        apply: What learns.
        start: Its parameters before.
        examples: Inputs and one-hot targets.
        recipe: Learning rate, weight decay, batch size and number of steps.
        key: The randomness of the batches.
    """

    def rate(step: Any) -> Array:
        return recipe.learning_rate * (1 + jnp.cos(jnp.pi * step / recipe.num_steps)) / 2

    # Only weights decay, not biases.
    weights = jax.tree.map(lambda leaf: leaf.ndim > 1, start)
    optimizer = optax.adamw(rate, weight_decay=recipe.weight_decay, mask=weights)
    loss_of = empirical_risk(cross_entropy("mean"), apply)
    batches, steps = Batches(recipe.batch_size), [recipe.num_steps]
    return sgd(loss_of, start, examples, optimizer, batches, steps, lambda _: (), key).params


def strided_cnn(channels: int, num_outputs: int) -> Serial:
    """Two 3×3 convolutions of stride 2 with ReLU, the second twice as wide, and a dense layer."""
    relu = Activation("relu")
    first, second = Conv(channels, (3, 3), (2, 2)), Conv(2 * channels, (3, 3), (2, 2))
    return Serial(first, relu, second, relu, Flatten(), Dense(num_outputs))


class KernelComparison(NamedTuple):
    """Accuracies on training and on test examples; of the linearisation at every rate."""

    network: Float[Array, "2"]
    tangent: Float[Array, "r 2"]
    regression: Float[Array, "2"]
    halfway: Float[Array, ""]  # of the regression after half of its iterations, on test examples
    slope: Float[Array, ""]  # ‖Jᵀr‖ at its end over that at its start


def compare(
    key: RandomKey,
    model: Model,
    train: Dataset,
    test: Dataset,
    recipe: Recipe,
    tangent_rates: tuple[float, ...],
    regression_steps: int = 50,
    block_size: int | None = None,
) -> KernelComparison:
    """Train a network and its linearisation from one start, and solve the linearisation too.

    The linearisation is trained without weight decay, with every one of its learning rates, for as
    many steps as the network: whoever takes the best by test accuracy favours it.

    Args:
        key: The randomness of the start and of the batches.
        model: The network.
        train: Examples to learn from, targets one-hot.
        test: Examples to be judged by.
        recipe: How the network is trained.
        tangent_rates: Learning rates of the linearisation; none: it is only solved.
        regression_steps: Of the regression.
        block_size: How many images the regression takes at a time; by default all.
    """
    start_key, batch_key = jax.random.split(key)
    start = jax.tree.map(lambda leaf: leaf.astype(train.x.dtype), model.init(start_key))
    both = jnp.concatenate([train.x, test.x])

    def judged(outputs: Array) -> Float[Array, "2"]:
        parts = (outputs[: train.num_samples], outputs[train.num_samples :])
        return jnp.stack([accuracy(*pair) for pair in zip(parts, (train.y, test.y), strict=True)])

    def tangent(rate: Array) -> Float[Array, "2"]:
        apply = linearize(model.apply, start)
        alone = recipe._replace(learning_rate=rate, weight_decay=0.0)
        return judged(apply(train_classifier(apply, start, train, alone, batch_key), both))

    trained = train_classifier(model.apply, start, train, recipe, batch_key)
    solved = tangent_regression(model.apply, start, train, test.x, regression_steps, block_size)
    tangents = jnp.zeros((0, 2), both.dtype)
    if tangent_rates:
        tangents = jax.lax.map(tangent, jnp.array(tangent_rates, both.dtype))
    outputs = jnp.concatenate([solved.examples, solved.elsewhere])
    halfway = accuracy(solved.halfway, test.y)
    return KernelComparison(
        judged(model.apply(trained, both)), tangents, judged(outputs), halfway, solved.slope
    )


def best_kernel(found: KernelComparison) -> Float[np.ndarray, "cells 2"]:
    """The linearisation at its best by test accuracy: any learning rate, or the regression.

    The regression after half of its iterations counts too, and is lent the training accuracy of its
    end.

    Args:
        found: Of several cells, along a first axis.
    """
    halfway = np.stack([found.regression[:, 0], found.halfway], axis=1)
    solved = np.stack([found.regression, halfway], axis=1)
    tried = np.concatenate([found.tangent, solved], axis=1)
    best = tried[..., 1].argmax(axis=1)
    return np.take_along_axis(tried, best[:, None, None], axis=1)[:, 0]


def retention(accuracies: Float[np.ndarray, "... l s"]) -> Float[np.ndarray, "... s"]:
    """Accuracy in the strongest noise over that without, for levels l that begin with none.

    Example:
        >>> retention(np.array([[0.9, 0.8], [0.7, 0.7], [0.45, 0.6]])).tolist()
        [0.5, 0.7499999999999999]
    """
    return accuracies[..., -1, :] / accuracies[..., 0, :]
