"""A small transformer that is trained on prompts comes near to ridge regression in its context.

Sequences of examples (x₁, y₁), (x₂, y₂), … each have a linear function of their own, with noise.
Nothing is seen twice, so all that can be learned is how to learn: Bayes' rule here is ridge
regression with λ = σ². The trained transformer comes close to it at every number of examples, is
better than least squares where examples are few, and follows labels with flipped signs, which it
never met as such. Before training it predicts nothing.

Also shown, and not judged: prompts longer than those of training. The source takes the task from
Garg et al. and trains no transformer: what is found here is ours.

The preset `paper` is eight-dimensional, and takes twelve minutes on two cores; there the
transformer erred 15.3 % more than Bayes' rule.

Source: shi · icl-linreg · §5.4; Garg, Tsipras, Liang and Valiant (2022).
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, holds
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels
from theorylab.fields import Count, Positive, within
from theorylab.incontext import (
    FunctionLaw,
    bayes_errors,
    draw_sequences,
    in_context_model,
    in_context_predictions,
    learn_in_context,
    predict_least_squares,
    predict_ridge,
)
from theorylab.models.transformer import TransformerWeights
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._transformers import TESTED, TrainedOnPrompts, draw_training

PRECISION = "float32"
FORMULA = r"\hat y = x^\top (X^\top X + \sigma^2 I)^{-1} X^\top y"

REGRESSION = Source("shi", "icl-linreg", "§5.4")
LONGER = 2  # times the examples of training


@dataclass(frozen=True)
class Config(TrainedOnPrompts):
    """Linear tasks with noise, and a causal transformer."""

    dimension: Annotated[int, within(1, 256)] = 3  # d
    num_examples: Annotated[int, within(1, 10**4)] = 10  # of a sequence in training
    noise: Positive = 0.5  # σ of labels
    width: Annotated[int, within(1, 10**4)] = 64  # channels of the transformer
    depth: Count = 4  # its blocks
    learning_rate: Positive = 0.004  # the largest one of Adam
    num_test: Count = 4000  # sequences to test on
    num_seeds: Count = 2  # networks

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_examples <= self.dimension:
            above = f"above the dimension {self.dimension}"
            raise ValueError(f"num_examples must be {above}, got {self.num_examples}.")


PRESETS = {
    "smoke": Config(
        dimension=1,
        num_examples=6,
        width=16,
        depth=2,
        num_heads=2,
        num_steps=400,
        learning_rate=0.01,
        num_test=1000,
    ),
    "paper": Config(dimension=8, num_examples=20, num_steps=9000, num_seeds=1),
}


class Result(NamedTuple):
    """Axes: s networks, n examples seen (from 0), t steps."""

    losses: Float[Measured, "s t"]
    errors: Float[Measured, "s n"]  # E(ŷ − ⟨w, x⟩)² with so many examples
    flipped: Float[Measured, "s n"]  # where the signs of all labels are flipped
    untrained: Float[Measured, "s n"]
    bayes: Float[Measured, " n"]  # in closed form
    ridge: Float[Measured, " n"]  # by ridge regression with λ = σ², on the same tests
    deviation: Float[Measured, " n"]  # of that from Bayes, in standard errors
    least_squares: Float[Measured, " n"]


def memory(config: Config) -> int:
    """Bytes of the activations of a batch and of a block of tests."""
    return config.activations(LONGER * 2 * config.num_examples)


def run(config: Config) -> Result:
    """Train the networks on all cores, and test them on the same new tasks."""
    law = FunctionLaw(dimension=config.dimension, noise=config.noise)
    length = LONGER * config.num_examples
    sizes = config.width, config.depth, config.num_heads
    model = in_context_model(config.dimension, length, *sizes)
    train_key, test_key = jax.random.split(jax.random.key(config.seed))
    tests = draw_sequences(test_key, law, config.num_test, length)

    def errors(params: TransformerWeights, sign: float) -> Float[Array, " n"]:
        def squares(part: tuple[Array, Array, Array]) -> Array:
            x, y, clean = (leaf[None] for leaf in part)
            return (in_context_predictions(model, params, x, sign * y) - sign * clean)[0] ** 2

        return jax.lax.map(squares, tuple(tests), batch_size=TESTED).mean(axis=0)

    def network(key: RandomKey) -> dict[str, Array]:
        params, losses = learn_in_context(key, model, law, config.recipe)
        return {
            "losses": losses,
            "errors": errors(params, 1.0),
            "flipped": errors(params, -1.0),
            "untrained": errors(model.init(jax.random.split(key)[0]), 1.0),
        }

    report("training, all steps in one program", 0.0)
    found = ensemble(network, jax.random.split(train_key, config.num_seeds))
    report("regressions", 0.9)
    bayes, clean = np.asarray(bayes_errors(tests.x, config.noise)), np.asarray(tests.clean)
    ridge = (np.asarray(predict_ridge(tests.x, tests.y, config.noise**2)) - clean) ** 2
    least_squares = (np.asarray(predict_least_squares(tests.x, tests.y)) - clean) ** 2
    gaps = ridge - bayes
    return Result(
        **found,
        bayes=bayes.mean(axis=0),
        ridge=ridge.mean(axis=0),
        deviation=gaps.mean(axis=0) * np.sqrt(len(gaps)) / gaps.std(axis=0),
        least_squares=least_squares.mean(axis=0),
    )


def _excess(result: Result, config: Config, errors: np.ndarray) -> float:
    """The error over that of Bayes' rule on the same tests, over all lengths of training."""
    known = slice(config.num_examples)
    return float((errors[:, known].sum(axis=1) / result.ridge[known].sum()).max())


CHOSEN = "lab: chosen for this experiment; the runs it was set on were not kept"
NEAR = "lab: 2,000 steps came to 12 % with seed 101, and the paper preset to 15.3 %"

CLAIMS = (
    REGRESSION.check(
        "Ridge regression with λ = σ² has the error of Bayes' rule, to four standard errors.",
        lambda r, c: holds(4 - np.abs(r.deviation)),
        demand="derived: 20 Gaussian deviates exceed 4 standard errors with probability 1e-3",
    ),
    REGRESSION.found(
        "Every trained transformer has learned from examples: with them its error is halved.",
        lambda r, c: at_most((r.errors[:, c.num_examples - 1] / r.errors[:, 0]).max(), 0.5),
        demand="lab: half, chosen after one smoke run was seen, which came to a fifth",
    ),
    REGRESSION.found(
        "Every trained transformer errs at most 20 % more than Bayes' rule, from 2,000 steps on.",
        lambda r, c: at_most(_excess(r, c, r.errors), 1.2),
        regime="num_steps >= 2000",
        demand=NEAR,
    ),
    REGRESSION.found(
        # With fewer examples than dimensions least squares is not so bad: it keeps away from noise.
        "With as many examples as dimensions it is better than least squares, which fits noise.",
        lambda r, c: at_least((r.least_squares / r.errors)[:, c.dimension].min(), 1.0),
        regime="num_steps >= 2000",
    ),
    REGRESSION.found(
        "Labels whose signs are all flipped are followed as well: at most 20 % more, too.",
        lambda r, c: at_most(_excess(r, c, r.flipped), 1.2),
        regime="num_steps >= 2000",
        demand=NEAR,
    ),
    REGRESSION.control(
        "Before training its predictions are no better than 0.",
        lambda r, c: at_least(float((r.untrained[:, -1] / r.ridge[0]).min()), 0.9),
        demand=CHOSEN,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Losses over steps, and errors over examples."""
    figure, axes = panels("training", "error after so many examples")
    draw_training(axes[0], {"transformer": result.losses})
    seen = np.arange(len(result.bayes))
    axes[1].plot(seen, result.bayes, **THEORY, label="Bayes")
    axes[1].plot(seen, result.least_squares, color="#7F7F7F", label="least squares")
    axes[1].axvline(config.num_examples - 1, color="0.8")
    curves(axes[1], seen, {"transformer": result.errors, "signs flipped": result.flipped})
    label_axes(axes[1], "examples seen", logarithmic="y")
    return figure
