"""Training networks to add: AdamW with a warm-up, a norm as a penalty, accuracy on both parts.

    minimise   mean cross-entropy of f(θ, a) + λ‖θ‖

by AdamW with β = (0.9, 0.98), whose learning rate grows linearly to η in the first steps. λ
multiplies the norm itself (for a polynomial network, `group_norm`), or is 0 and the decay of AdamW,
w ← w - ηδw, does what it can: for the maximum margin these are not the same. (The source says SGD
in its text and AdamW in its appendix, and not which of the two penalties its λ is.)

    solved_at    the first recorded step from which accuracy is enough; NaN if it never is: censored
    delay        log(t_test / t_train), the strength of grokking

Source: shi · exp-polynet-fourier · Def. 4.1, C.10.1; shi · exp-grokking-k · Fig. 4.4.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from theorylab.data.modular import Sums
from theorylab.training import Batches, Trajectory, descend, sgd
from theorylab.training.trajectory import Steps
from theorylab.typing import Params, RandomKey, Scalar

_CHUNK = 4096  # examples that are looked at together
AdditionNetwork = Callable[[Any, Int[Array, "n k"]], Float[Array, "n p"]]  # params, terms ─► logits
ENOUGH = 0.99  # the accuracy that counts as solved


@dataclass(frozen=True)
class AdditionRecipe:
    """How a network is trained to add.

    Args:
        learning_rate: η.
        penalty: λ, in front of the norm.
        weight_decay: δ of AdamW.
        warm_up: The steps in which the learning rate grows to η.
        batch_size: Examples in a step, or 0 for all.
    """

    learning_rate: Scalar = 5e-3
    penalty: Scalar = 0.0
    weight_decay: Scalar = 0.0
    warm_up: int = 10
    batch_size: int = 0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "penalty", "weight_decay", "warm_up", "batch_size"):
            value = getattr(self, name)
            # What is traced has no value yet.
            known = not isinstance(value, Tracer)
            if known and not 0 <= np.asarray(value) < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, got {value}.")

    @property
    def optimizer(self) -> optax.GradientTransformation:
        """AdamW with a linear warm-up."""

        def rate(count: ArrayLike) -> Array:
            grown = (jnp.asarray(count) + 1) / (self.warm_up + 1)
            return self.learning_rate * jnp.minimum(1.0, grown)

        return optax.adamw(rate, b1=0.9, b2=0.98, weight_decay=self.weight_decay)


class Curves(NamedTuple):
    """What is recorded: of the penalised loss on all training examples, and of accuracies."""

    loss: Float[Array, ""]
    train: Float[Array, ""]
    test: Float[Array, ""]


class _Examples(NamedTuple):
    x: Int[Array, "n k"]
    y: Int[Array, "n 1"]


def accuracy(outputs: Float[Array, "n p"], total: Int[Array, " n"]) -> Float[Array, ""]:
    """The part of the examples whose largest output is the right one.

    Example:
        >>> float(accuracy(jnp.array([[1.0, 0.0], [1.0, 0.0]]), jnp.array([0, 1])))
        0.5
    """
    return (outputs.argmax(axis=1) == total).mean()


def scores(network: AdditionNetwork, params: Params, sums: Sums) -> tuple[Array, Array]:
    """Mean cross-entropy and accuracy, some thousands of examples at a time.

    Args:
        network: params, terms ─► logits.
        params: Of the network.
        sums: The examples, as many as there are.

    Example:
        >>> from theorylab.data.modular import all_sums
        >>> network = lambda params, terms: params[terms.sum(axis=1) % 3]
        >>> loss, right = scores(network, 9 * jnp.eye(3), all_sums(2, 3))
        >>> round(float(loss), 4), float(right)
        (0.0002, 1.0)
    """
    count = len(sums.total)
    size = min(count, _CHUNK)

    def part(first: Int[Array, ""]) -> tuple[Array, Array]:
        numbers = first + jnp.arange(size)
        inside, chosen = numbers < count, jnp.minimum(numbers, count - 1)
        outputs, total = network(params, sums.terms[chosen]), sums.total[chosen]
        losses = optax.softmax_cross_entropy_with_integer_labels(outputs, total)
        right = (outputs.argmax(axis=1) == total) & inside
        return jnp.where(inside, losses, 0.0).sum(), right.sum()

    losses, right = jax.lax.map(part, jnp.arange(0, count, size))
    return losses.sum() / count, right.sum() / count


def learn_addition(
    key: RandomKey,
    network: AdditionNetwork,
    norm: Callable[[Any], Float[Array, ""]],
    params: Params,
    parts: tuple[Sums, Sums],
    recipe: AdditionRecipe,
    steps: Steps,
) -> Trajectory:
    """Train, and record loss and accuracies at the chosen steps (`Curves`).

    Args:
        key: Draws the batches.
        network: params, terms ─► logits.
        norm: params ─► ‖θ‖, which λ multiplies.
        params: Where to begin.
        parts: What to train on, and what to test on.
        recipe: How to train.
        steps: The increasing numbers of steps after which to record; the last ends the run.

    Example:
        >>> from theorylab.data.modular import all_sums
        >>> from theorylab.features.fourier import group_norm, initial_neurons, polynomial_network
        >>> start, sums = initial_neurons(jax.random.key(0), 2, 3, width=8), all_sums(2, 3)
        >>> task = (polynomial_network, group_norm, start, (sums, sums), AdditionRecipe())
        >>> run = learn_addition(jax.random.key(1), *task, [0, 100])
        >>> bool(run.records.loss[1] < run.records.loss[0])
        True
    """
    train, test = parts
    seen = _Examples(train.terms, train.total[:, None])

    def loss_of(params: Params, x: Int[Array, "n k"], y: Int[Array, "n 1"]) -> Float[Array, ""]:
        losses = optax.softmax_cross_entropy_with_integer_labels(network(params, x), y[:, 0])
        return losses.mean() + recipe.penalty * norm(params)

    def measure(params: Params) -> Curves:
        loss, train_accuracy = scores(network, params, train)
        penalized = loss + recipe.penalty * norm(params)
        return Curves(penalized, train_accuracy, scores(network, params, test)[1])

    if recipe.batch_size == 0:
        return descend(
            lambda params: loss_of(params, *seen), params, recipe.optimizer, steps, measure
        )
    batches = Batches(recipe.batch_size)
    return sgd(loss_of, params, seen, recipe.optimizer, batches, steps, measure, key)


def solved_at(
    steps: Int[Array | np.ndarray, " t"], accuracies: Float[Array | np.ndarray, "... t"]
) -> Float[np.ndarray, "..."]:
    """The first recorded step with 99 % accuracy, run by run; NaN where there is none.

    Args:
        steps: The recorded steps.
        accuracies: At these steps, along the last axis.

    Example:
        >>> solved_at(np.array([1, 10, 100]), np.array([[0.2, 1.0, 1.0], [0.2, 0.3, 0.4]])).tolist()
        [10.0, nan]
    """
    enough = np.asarray(accuracies) >= ENOUGH
    first = np.asarray(steps, dtype=float)[enough.argmax(axis=-1)]
    return np.where(enough.any(axis=-1), first, np.nan)


def delay(
    train: Float[np.ndarray, "..."], test: Float[np.ndarray, "..."], last: Scalar
) -> Float[np.ndarray, "..."]:
    """log(t_test/t_train); a test that was not passed counts as passed at the end, a lower bound.

    So censored runs stay in a comparison of ranks; where not even the training examples were
    learned there is no delay, NaN.

    Args:
        train: When the training examples were learned, from `solved_at`; NaN: never.
        test: When the test examples were; NaN: not until the end.
        last: The last step of the runs.

    Example:
        >>> delay(np.array([10.0, 10.0]), np.array([10.0, np.nan]), last=100.0).round(3).tolist()
        [0.0, 2.303]
    """
    return np.log(np.where(np.isnan(test), float(last), test) / train)
