"""What experiments with transformers trained on prompts share: settings, training, figures.

Four experiments train small transformers on fresh prompts and compare them with regressions:
`regression`, `other_prompts`, `other_tasks` and `size_and_noise`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

import jax
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes

from theorylab.experiments.drawing import curves, label_axes
from theorylab.fields import Count, Positive, Seeded, within
from theorylab.incontext import InContextRecipe, Prompts
from theorylab.incontext.trained import learn_prompts, prompt_model, prompt_predictions
from theorylab.models import Transformer
from theorylab.typing import RandomKey

TESTED = 100  # prompts that are tested at once
Test = Callable[[Prompts], Float[Array, ""]]  # the mean square error on prompts


@dataclass(frozen=True)
class TrainedOnPrompts(Seeded):
    """A transformer and its training on fresh prompts."""

    dimension: Annotated[int, within(2, 64)] = 3  # d
    num_examples: Annotated[int, within(1, 10**4)] = 8  # of a prompt in training
    width: Annotated[int, within(1, 10**4)] = 32  # channels of the transformer
    depth: Count = 2  # its blocks
    num_heads: Count = 4  # of each block; a divisor of the width
    num_steps: Annotated[int, within(2)] = 2000  # of training
    batch_size: Count = 64  # fresh prompts in a step
    learning_rate: Positive = 0.003  # the largest one of Adam
    num_test: Annotated[int, within(100)] = 2000  # prompts to test on
    num_seeds: Count = 6  # networks, at least 6 to conclude

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model(1)  # refuses heads that do not divide the width

    def model(self, num_examples: int) -> Transformer:
        """The transformer, for prompts of at most so many examples."""
        sizes = self.width, self.depth, self.num_heads
        return prompt_model(self.dimension, num_examples, *sizes)

    @property
    def recipe(self) -> InContextRecipe:
        """How it is trained."""
        return InContextRecipe(
            self.num_steps, self.batch_size, self.num_examples, self.learning_rate
        )

    def activations(self, num_places: int) -> int:
        """Bytes of the activations of a batch or of a block of tests, on two cores."""
        block = num_places * (12 * self.width + 4 * self.num_heads * num_places)
        return 4 * 2 * self.depth * block * max(self.batch_size, TESTED)


def trained(
    key: RandomKey,
    model: Transformer,
    draw: Callable[[RandomKey], Prompts],
    recipe: InContextRecipe,
) -> tuple[Test, Float[Array, " t"]]:
    """Train on what `draw` gives: the trained transformer's error as a function, and losses."""
    learner = learn_prompts(key, model, draw, recipe)

    def square(prompt: Prompts) -> Float[Array, ""]:
        one = jax.tree.map(lambda leaf: leaf[None], prompt)
        return (prompt_predictions(model, learner.params, one)[0] - prompt.target) ** 2

    def test(prompts: Prompts) -> Float[Array, ""]:
        return jax.lax.map(square, prompts, batch_size=TESTED).mean()

    return test, learner.losses


def draw_training(axis: Axes, named: Mapping[str, Float[np.ndarray, "s t"]]) -> None:
    """Losses over steps, as means of about fifty windows."""
    for place, (name, losses) in enumerate(named.items()):
        window = max(losses.shape[1] // 50, 1)
        count = losses.shape[1] // window
        means = losses[:, : count * window].reshape(-1, count, window).mean(axis=2)
        curves(axis, window * np.arange(count), {name: means}, first_colour=place)
    label_axes(axis, "step", "mean square error", "y")
