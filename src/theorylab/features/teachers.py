"""Teachers: where the truth is not known, the features of a well trained network stand for it.

    G* = G(teacher)                  what students are compared with: cos(G, G*)
    cos(G(teacher), G(teacher'))     the ceiling: two teachers that differ in their seed

A network keeps the gradients of its random start along inputs that hardly vary, and two teachers
have different ones. The smaller the start, the less of it is in G, and the higher the ceiling.

Of the samples a teacher is given, the last tenth chooses when it was best; other samples, which it
never sees, say how good it is.

Source: zhu · teacher-agop · §4.4.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import optax
from jaxtyping import Array, Float

from theorylab.data import Dataset
from theorylab.models import Activation, Conv, Dense, Flatten, Model, Serial
from theorylab.training import Batches, Loss, Until, empirical_risk, train_until, zero_one
from theorylab.typing import RandomKey

from .agop import agop

_ERRORS = zero_one("mean")
_FITTED = 1e-4  # the training loss at which a teacher is ready
_AT_ONCE = 50  # images, of a batch and of a block of the AGOP
_CHECK_EVERY = 100  # steps
_HELD = 10  # one of so many samples chooses the best parameters
FEWEST = 56  # samples for a teacher: a batch is left of them


class Teacher(NamedTuple):
    """What a teacher looks at, and how good it is.

    Args:
        features: Its AGOP.
        untrained: Its AGOP before training.
        accuracy: The share of other samples that it gets right; it has never seen them.

    Example:
        >>> import jax.numpy as jnp
        >>> Teacher(jnp.eye(2), jnp.eye(2), jnp.array(0.9)).accuracy.item()
        0.9
    """

    features: Float[Array, "d d"]
    untrained: Float[Array, "d d"]
    accuracy: Float[Array, ""]


def halving_cnn(channels: Sequence[int], num_outputs: int = 1) -> Serial:
    """3×3 convolutions with ReLU that halve the image each, and a linear layer.

    Args:
        channels: Of each convolution.
        num_outputs: Of the linear layer.

    Example:
        >>> len(halving_cnn((8, 16)).layers)  # two convolutions, two ReLU, flat, linear
        6
    """
    if not channels or min(channels) < 1:
        raise ValueError(f"channels must be at least 1 each, got {tuple(channels)}.")
    hidden = [
        layer
        for count in channels
        for layer in (Conv(count, (3, 3), (2, 2), "same"), Activation("relu"))
    ]
    return Serial(*hidden, Flatten(), Dense(num_outputs))


def teach(
    key: RandomKey,
    model: Model,
    train: Dataset,
    others: Dataset,
    inputs: Float[Array, "m ..."],
    loss: Loss,
    learning_rate: float,
    num_steps: int,
) -> Teacher:
    """Train by Adam on batches of 50, keep what is best on a held-out tenth, and take its AGOP.

    Args:
        key: The randomness of the start and of the batches.
        model: The network.
        train: Samples to learn from, at least 56; the last tenth chooses the best parameters.
        others: Samples that say how good it is, and nothing else.
        inputs: On which the AGOP is taken.
        loss: What is minimised.
        learning_rate: Of Adam.
        num_steps: The steps after which it ends, if the data are not fitted before.

    Example:
        >>> import jax.numpy as jnp
        >>> from theorylab.models import mlp, network
        >>> from theorylab.training import logistic
        >>> x = jax.random.normal(jax.random.key(0), (100, 3))
        >>> data = Dataset(x, jnp.sign(x[:, :1]), "the sign of the first input")
        >>> task = (network(mlp([8]), (3,)), data, data, x, logistic("mean"), 0.01, 100)
        >>> teacher = teach(jax.random.key(1), *task)
        >>> int(teacher.features.diagonal().argmax())
        0
    """
    if train.num_samples < FEWEST:
        raise ValueError(f"a teacher needs at least {FEWEST} samples, got {train.num_samples}.")
    learned, held = train.split(train.num_samples - train.num_samples // _HELD)
    init_key, batch_key = jax.random.split(key)
    params = model.init(init_key)
    fitted = train_until(
        empirical_risk(loss, model.apply),
        params,
        learned,
        held,
        optax.adam(learning_rate),
        Batches(_AT_ONCE),
        Until(_FITTED, num_steps, _CHECK_EVERY),
        batch_key,
    )
    errors = _ERRORS(model.apply(fitted.params, others.x), others.y)
    after, before = (agop(model.apply, w, inputs, _AT_ONCE) for w in (fitted.params, params))
    return Teacher(after, before, 1 - errors)
