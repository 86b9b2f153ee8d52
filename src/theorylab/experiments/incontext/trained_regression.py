"""A small transformer, trained on nothing but prompts, does regression in its context.

Sequences of examples (x₁, y₁), (x₂, y₂), … each have a linear function of their own, with noise.
Nothing is seen twice, so all that can be learned is how to learn: Bayes' rule here is ridge
regression with λ = σ². The trained transformer comes close to it at every number of examples, is
better than least squares where examples are few, and follows labels that are turned round, which it
never met as such. Before training it predicts nothing.

Also shown, and not judged: prompts longer than those of training.

The preset `paper` is eight-dimensional, and takes twelve minutes on two cores.

Source: shi · icl-linreg · §5.4; Garg, Tsipras, Liang and Valiant (2022).
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_least, at_most, holds
from theorylab.experiments.checks import refuse_below, refuse_negative
from theorylab.experiments.drawing import COLOURS, THEORY, panels
from theorylab.incontext import (
    FunctionLaw,
    InContextRecipe,
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
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"\hat y = x^\top (X^\top X + \sigma^2 I)^{-1} X^\top y"

REGRESSION = Source("shi", "icl-linreg", "§5.4")
LONGER = 2  # times the examples of training


@dataclass(frozen=True)
class Config:
    """Linear tasks with noise, and a causal transformer."""

    dimension: int = 3  # d
    num_examples: int = 10  # of a sequence in training
    noise: float = 0.5  # σ of labels
    width: int = 64  # channels of the transformer
    num_layers: int = 4
    num_heads: int = 4
    num_steps: int = 2000
    batch_size: int = 64  # fresh sequences in a step
    learning_rate: float = 0.004
    num_test: int = 4000  # sequences to test on
    slack: float = 0.2  # by which part more than Bayes' rule it may err
    num_seeds: int = 2  # networks
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_negative(self)
        for name, most in (("dimension", 256), ("num_examples", 10**4), ("width", 10**4)):
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"{name} must be between 1 and {most}, got {getattr(self, name)}.")
        refuse_below(self, 1, "num_layers", "num_heads", "num_test", "num_seeds")
        if not self.noise > 0 or not self.slack > 0:
            raise ValueError(
                f"noise and slack must be positive, got {self.noise} and {self.slack}."
            )
        if self.num_examples <= self.dimension:
            raise ValueError(
                f"num_examples must be above the dimension {self.dimension}, "
                f"got {self.num_examples}."
            )
        in_context_model(1, 1, self.width, self.num_layers, self.num_heads)  # refuses other heads
        _ = self.recipe

    @property
    def recipe(self) -> InContextRecipe:
        """How it is trained."""
        return InContextRecipe(
            self.num_steps, self.batch_size, self.num_examples, self.learning_rate
        )


PRESETS = {
    "smoke": Config(
        dimension=1,
        num_examples=6,
        width=16,
        num_layers=2,
        num_heads=2,
        num_steps=400,
        learning_rate=0.01,
        num_test=1000,
        slack=1.0,  # so few steps show that it learns, not how well it can
    ),
    "paper": Config(dimension=8, num_examples=20, num_steps=9000, slack=0.1, num_seeds=1),
}


class Result(NamedTuple):
    """Axes: s networks, n examples seen (from 0), t steps."""

    dimension: int
    num_examples: int  # of training
    slack: float
    losses: Float[np.ndarray, "s t"]
    errors: Float[np.ndarray, "s n"]  # E(ŷ − ⟨w, x⟩)² with so many examples
    turned: Float[np.ndarray, "s n"]  # where all labels are turned round
    untrained: Float[np.ndarray, "s n"]
    bayes: Float[np.ndarray, " n"]  # in closed form
    ridge: Float[np.ndarray, " n"]  # by ridge regression with λ = σ², on the same tests
    deviation: Float[np.ndarray, " n"]  # of that from Bayes, in standard errors
    least_squares: Float[np.ndarray, " n"]


def memory(config: Config) -> int:
    """Bytes of the activations of a batch and of a block of tests, on two cores."""
    places = 2 * config.num_examples
    layer = places * (12 * config.width + 4 * config.num_heads * LONGER**2 * places)
    return 4 * 2 * config.num_layers * layer * max(config.batch_size, 100)


def run(config: Config) -> Result:
    """Train the networks on all cores, and test them on the same new tasks."""
    law = FunctionLaw(dimension=config.dimension, noise=config.noise)
    length = LONGER * config.num_examples
    model = in_context_model(
        config.dimension, length, config.width, config.num_layers, config.num_heads
    )
    train_key, test_key = jax.random.split(jax.random.key(config.seed))
    tests = draw_sequences(test_key, law, config.num_test, length)

    def errors(params: TransformerWeights, sign: float) -> Float[Array, " n"]:
        def squares(part: tuple[Array, Array, Array]) -> Array:
            x, y, clean = (leaf[None] for leaf in part)
            return (in_context_predictions(model, params, x, sign * y) - sign * clean)[0] ** 2

        return jax.lax.map(squares, tuple(tests), batch_size=100).mean(axis=0)

    def network(key: RandomKey) -> tuple[Array, ...]:
        learned = learn_in_context(key, model, law, config.recipe)
        begun = model.init(jax.random.split(key)[0])
        trained = errors(learned.params, 1.0), errors(learned.params, -1.0)
        return learned.losses, *trained, errors(begun, 1.0)

    report("training, all steps in one program", 0.0)
    found = ensemble(network, jax.random.split(train_key, config.num_seeds))
    losses, ours, turned, untrained = map(np.asarray, found)

    report("regressions", 0.9)
    bayes = np.asarray(bayes_errors(tests.x, config.noise))
    clean = np.asarray(tests.clean)
    ridge = (np.asarray(predict_ridge(tests.x, tests.y, config.noise**2)) - clean) ** 2
    least_squares = (np.asarray(predict_least_squares(tests.x, tests.y)) - clean) ** 2
    gaps = ridge - bayes
    return Result(
        config.dimension,
        config.num_examples,
        config.slack,
        losses,
        ours,
        turned,
        untrained,
        bayes.mean(axis=0),
        ridge.mean(axis=0),
        gaps.mean(axis=0) * np.sqrt(len(gaps)) / gaps.std(axis=0),
        least_squares.mean(axis=0),
    )


def _excess(result: Result, errors: np.ndarray) -> float:
    """The error over that of Bayes' rule on the same tests, over all lengths of training."""
    known = slice(result.num_examples)
    return float((errors[:, known].sum(axis=1) / result.ridge[known].sum()).max())


def _few(result: Result) -> float:
    """Least squares' error over the transformer's, with as many examples as dimensions."""
    return float((result.least_squares / result.errors)[:, result.dimension].min())


# So few steps of the default come to about 12 % above Bayes (seed 101); the 10 % that one may ask
# for take the longer training of `paper`.
CLAIMS = (
    Claim(
        "Ridge regression with λ = σ² has the error of Bayes' rule, to four standard errors.",
        judge=lambda r, c: holds(4 - np.abs(r.deviation)),
        source=REGRESSION,
    ),
    Claim(
        "The trained transformer errs little more than Bayes' rule: by the slack of the config.",
        judge=lambda r, c: at_most(_excess(r, r.errors), 1 + r.slack),
        source=REGRESSION,
    ),
    Claim(
        # With fewer examples than dimensions least squares is not so bad: it keeps away from noise.
        "With as many examples as dimensions it is better than least squares, which trusts noise.",
        judge=lambda r, c: at_least(_few(r), 1.0),
        source=REGRESSION,
    ),
    Claim(
        "It follows labels that are all turned round as well as others.",
        judge=lambda r, c: at_most(_excess(r, r.turned), 1 + r.slack),
        source=REGRESSION,
    ),
    Claim(
        "Before training its predictions are no better than 0.",
        judge=lambda r, c: at_least(float((r.untrained[:, -1] / r.ridge[0]).min()), 0.9),
        source=REGRESSION,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Losses over steps, and errors over examples."""
    figure, axes = panels("training", "error after so many examples")
    window = max(result.losses.shape[1] // 50, 1)
    for losses in result.losses:
        means = losses[: len(losses) // window * window].reshape(-1, window).mean(axis=1)
        axes[0].plot(window * np.arange(len(means)), means, color=COLOURS[0])
    axes[0].set(xlabel="step", ylabel="mean square", yscale="log")
    places = np.arange(len(result.bayes))
    axes[1].plot(places, result.errors.T, color=COLOURS[0], label="transformer")
    axes[1].plot(places, result.turned.T, ":", color=COLOURS[3], label="labels turned")
    axes[1].plot(places, result.least_squares, color=COLOURS[1], label="least squares")
    axes[1].plot(places, result.bayes, **THEORY, label="Bayes")
    axes[1].axvline(result.num_examples - 1, color="0.8")
    axes[1].set(xlabel="examples seen", yscale="log")
    handles, labels = axes[1].get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    axes[1].legend(named.values(), named.keys())
    return figure
