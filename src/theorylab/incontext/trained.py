"""A transformer that is trained to learn in context: it reads examples, and answers at every input.

    (x₁, 0), (x₁, y₁), (x₂, 0), (x₂, y₂), …      one place for a question, one for its example

At the place of (x_t, 0) it has seen the examples before t, and its output there is the prediction
of y_t. Training minimises the mean of (ŷ_t − y_t)² over all t on fresh sequences, each with a
function of its own; nothing is ever seen twice. An example has its input beside its label, so that
no layer is spent on bringing the two together, and places need no numbers.

    (x₁, y₁), …, (x_N, y_N), (x_q, 0)            or a prompt: one place for an example

Here the transformer sees all places at once, in no order, as linear attention does; its output at
the last one is its prediction of the query.

Source: shi · icl-linreg · §5.4; Garg, Tsipras, Liang and Valiant (2022).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from theorylab.models import Transformer
from theorylab.models.transformer import TransformerWeights
from theorylab.typing import RandomKey

from .prompts import Prompts, check_prompts
from .tasks import FunctionLaw, draw_sequences


@dataclass(frozen=True)
class InContextRecipe:
    """Adam on fresh sequences, its rate rising over the first twentieth and falling to 0.

    Args:
        num_steps: Steps.
        batch_size: Sequences in a step.
        num_examples: n, the examples of each.
        learning_rate: The largest one.

    Example:
        >>> InContextRecipe(num_steps=100, batch_size=8).learning_rate
        0.001
    """

    num_steps: int = 5000
    batch_size: int = 64
    num_examples: int = 16
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        check_prompts(self.batch_size, self.num_examples)
        if self.num_steps < 2:
            raise ValueError(f"num_steps must be at least 2, got {self.num_steps}.")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate}.")


class InContextLearner(NamedTuple):
    """Trained weights, and the loss of every step, before it."""

    params: TransformerWeights
    losses: Float[Array, " t"]


def in_context_model(
    dimension: int, num_examples: int, width: int = 64, depth: int = 3, num_heads: int = 4
) -> Transformer:
    """A causal transformer for sequences of so many examples, which do not know their places.

    Args:
        dimension: d of the inputs.
        num_examples: The most examples that it can read.
        width: Channels between layers.
        depth: Layers.
        num_heads: Heads of each.

    Example:
        >>> in_context_model(dimension=3, num_examples=10).context  # places
        20
    """
    _check_sizes(dimension, num_examples)
    return Transformer(
        input_size=dimension + 1,
        num_outputs=1,
        context=2 * num_examples,
        width=width,
        depth=depth,
        num_heads=num_heads,
        reads="vectors",
        positions="none",
    )


def interleave(x: Float[Array, "b n d"], y: Float[Array, "b n"]) -> Float[Array, "b m e"]:
    """(x₁, 0), (x₁, y₁), (x₂, 0), …: 2n places of d + 1 numbers.

    Example:
        >>> interleave(jnp.array([[[7.0], [8.0]]]), jnp.array([[1.0, 2.0]]))[0].tolist()
        [[7.0, 0.0], [7.0, 1.0], [8.0, 0.0], [8.0, 2.0]]
    """
    labels = jnp.stack([jnp.zeros_like(y), y], axis=2).reshape(len(y), -1)
    return jnp.concatenate([jnp.repeat(x, 2, axis=1), labels[..., None]], axis=-1)


def in_context_predictions(
    model: Transformer,
    params: TransformerWeights,
    x: Float[Array, "b n d"],
    y: Float[Array, "b n"],
) -> Float[Array, "b n"]:
    """What the transformer says at every input, of the examples before it.

    Args:
        model: From `in_context_model`.
        params: Its weights.
        x: Inputs.
        y: Labels; the last is never read.

    Example:
        >>> model = in_context_model(dimension=3, num_examples=5, width=8, num_heads=2)
        >>> params, x, y = model.init(jax.random.key(0)), jnp.ones((2, 5, 3)), jnp.ones((2, 5))
        >>> in_context_predictions(model, params, x, y).shape
        (2, 5)
    """
    return model.apply(params, interleave(x, y))[:, ::2, 0]


def learn_in_context(
    key: RandomKey, model: Transformer, law: FunctionLaw, recipe: InContextRecipe
) -> InContextLearner:
    """Train a transformer on fresh sequences, in one compiled loop.

    Args:
        key: The randomness of the start and of the sequences.
        model: From `in_context_model`.
        law: From which functions the tasks are drawn.
        recipe: Steps, sequences and the learning rate.

    Example:
        >>> model = in_context_model(dimension=1, num_examples=4, width=4, depth=1, num_heads=1)
        >>> recipe = InContextRecipe(num_steps=2, batch_size=4, num_examples=4)
        >>> learner = learn_in_context(jax.random.key(0), model, FunctionLaw(dimension=1), recipe)
        >>> learner.losses.shape
        (2,)
    """
    if model.input_size != law.dimension + 1 or model.context < 2 * recipe.num_examples:
        raise ValueError(
            f"the model must read {law.dimension} + 1 numbers at {2 * recipe.num_examples} places, "
            f"got {model.input_size} and {model.context}."
        )

    def loss(params: TransformerWeights, key: RandomKey) -> Float[Array, ""]:
        drawn = draw_sequences(key, law, recipe.batch_size, recipe.num_examples)
        return jnp.mean((in_context_predictions(model, params, drawn.x, drawn.y) - drawn.y) ** 2)

    return _learn(key, model, loss, recipe)


def prompt_model(
    dimension: int, num_examples: int, width: int = 32, depth: int = 2, num_heads: int = 4
) -> Transformer:
    """A transformer for prompts of at most so many examples and a query, in any order.

    Args:
        dimension: d of the inputs.
        num_examples: The most examples that it can read.
        width: Channels between layers.
        depth: Layers.
        num_heads: Heads of each.

    Example:
        >>> prompt_model(dimension=3, num_examples=10).context  # places
        11
    """
    _check_sizes(dimension, num_examples)
    return Transformer(
        input_size=dimension + 1,
        num_outputs=1,
        context=num_examples + 1,
        width=width,
        depth=depth,
        num_heads=num_heads,
        causal=False,
        reads="vectors",
        positions="none",
    )


def prompt_predictions(
    model: Transformer, params: TransformerWeights, prompts: Prompts
) -> Float[Array, " b"]:
    """What the transformer says to the query of every prompt.

    Args:
        model: From `prompt_model`.
        params: Its weights.
        prompts: Examples and queries; targets are not read.

    Example:
        >>> model = prompt_model(dimension=2, num_examples=4, width=8, num_heads=2)
        >>> x, y, query = jnp.ones((1, 4, 2)), jnp.ones((1, 4)), jnp.ones((1, 2))
        >>> prompts = Prompts(x, y, query, target=jnp.ones(1))
        >>> prompt_predictions(model, model.init(jax.random.key(0)), prompts).shape
        (1,)
    """
    labels = jnp.pad(prompts.y, ((0, 0), (0, 1)))  # 0 for the query
    inputs = jnp.concatenate([prompts.x, prompts.query[:, None]], axis=1)
    return model.apply(params, jnp.concatenate([inputs, labels[..., None]], axis=2))[:, -1, 0]


def learn_prompts(
    key: RandomKey,
    model: Transformer,
    draw: Callable[[RandomKey], Prompts],
    recipe: InContextRecipe,
) -> InContextLearner:
    """Train a transformer to answer the queries of fresh prompts.

    Args:
        key: The randomness of the start and of the prompts.
        model: From `prompt_model`.
        draw: A key to the prompts of a step.
        recipe: Steps and the learning rate; how many prompts and examples is for `draw` to say.

    Example:
        >>> from theorylab.incontext.prompts import rooted_prompts
        >>> model = prompt_model(dimension=2, num_examples=3, width=4, depth=1, num_heads=1)
        >>> recipe = InContextRecipe(num_steps=2, batch_size=4, num_examples=3)
        >>> draw = lambda key: rooted_prompts(key, 4, 3, jnp.eye(2))
        >>> learn_prompts(jax.random.key(0), model, draw, recipe).losses.shape
        (2,)
    """

    def loss(params: TransformerWeights, key: RandomKey) -> Float[Array, ""]:
        prompts = draw(key)
        return jnp.mean((prompt_predictions(model, params, prompts) - prompts.target) ** 2)

    return _learn(key, model, loss, recipe)


def _learn(
    key: RandomKey,
    model: Transformer,
    loss: Callable[[TransformerWeights, RandomKey], Float[Array, ""]],
    recipe: InContextRecipe,
) -> InContextLearner:
    """Adam on a loss that draws its own data."""
    start_key, sequence_key = jax.random.split(key)
    warm = max(recipe.num_steps // 20, 1)
    schedule = optax.warmup_cosine_decay_schedule(0, recipe.learning_rate, warm, recipe.num_steps)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))

    def step(state: tuple, key: RandomKey) -> tuple[tuple, Float[Array, ""]]:
        params, memory = state
        value, slope = jax.value_and_grad(loss)(params, key)
        updates, memory = optimizer.update(slope, memory, params)
        return (optax.apply_updates(params, updates), memory), value

    params = model.init(start_key)
    keys = jax.random.split(sequence_key, recipe.num_steps)
    (params, _), losses = jax.lax.scan(step, (params, optimizer.init(params)), keys)
    return InContextLearner(params, losses)


def _check_sizes(dimension: int, num_examples: int) -> None:
    if dimension < 1 or num_examples < 1:
        raise ValueError(
            f"dimension and num_examples must be at least 1, got {dimension} and {num_examples}."
        )
