"""Sparse functions, decision trees and small networks, learned in context by one kind of model.

A transformer is trained on prompts of each kind of function, and answers a query after fewer
examples than there are dimensions. Least squares, ridge regression with the best λ of a sweep, the
lasso with the best penalty, and some steps of gradient descent answer the same queries. None of
them is trained, but each is told its best setting, which favours them.

Source: shi · icl-linreg · §5.4; Garg, Tsipras, Liang and Valiant (2022).
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, median_at_least, median_at_most, ordered
from theorylab.experiments.checks import refuse_negative
from theorylab.experiments.drawing import COLOURS, panels
from theorylab.incontext import (
    FunctionLaw,
    InContextRecipe,
    Prompts,
    draw_sequences,
    learn_prompts,
    predict_descent,
    predict_lasso,
    predict_least_squares,
    predict_ridge,
    prompt_model,
    prompt_predictions,
)
from theorylab.models import Transformer
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"\hat w = \arg\min_w \tfrac12\|Xw - y\|^2 + \lambda N\|w\|_1, \qquad N < d"

TASKS = Source("shi", "icl-linreg", "§5.4")
KINDS = ("sparse", "tree", "two_layer")
RIVALS = ("least squares", "ridge", "lasso", "descent")
RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3)


@dataclass(frozen=True)
class Config:
    """Three kinds of functions without noise, and one transformer for each."""

    dimension: int = 8  # d
    num_examples: int = 6  # N, below d
    sparsity: int = 1  # coordinates that matter to a sparse function
    depth: int = 1  # questions from the root of a tree to a leaf
    num_neurons: int = 20  # of a two-layer function
    width: int = 32  # channels of the transformer
    num_layers: int = 2
    num_heads: int = 4
    num_steps: int = 1000
    batch_size: int = 64  # fresh prompts in a step
    learning_rate: float = 0.003
    descent_steps: int = 5  # k of gradient descent, with rate 1/d
    num_test: int = 2000  # prompts of each kind to test on
    slack: float = 0.0  # by which part it may err more than ridge, on two-layer functions
    num_seeds: int = 6  # networks for each kind, at least 6 to conclude
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_negative(self)
        for name, most in (("dimension", 64), ("width", 4096)):
            if not 2 <= getattr(self, name) <= most:
                raise ValueError(f"{name} must be between 2 and {most}, got {getattr(self, name)}.")
        if not 1 <= self.num_examples < self.dimension:
            raise ValueError(
                f"num_examples must be from 1 to below the dimension, got {self.num_examples}."
            )
        if self.num_neurons > 10**4:
            raise ValueError(f"num_neurons must be at most 10000, got {self.num_neurons}.")
        if self.descent_steps < 1 or self.num_test < 100 or self.num_seeds < 1:
            raise ValueError(
                "descent_steps and num_seeds must be at least 1 and num_test 100, got "
                f"{self.descent_steps}, {self.num_seeds} and {self.num_test}."
            )
        if not 0 <= self.slack < 10:
            raise ValueError(f"slack must be between 0 and 10, got {self.slack}.")
        _ = self.laws, self.model, self.recipe  # refuse the rest

    @property
    def laws(self) -> tuple[FunctionLaw, ...]:
        """The laws of the functions, in the order of KINDS."""
        return tuple(
            FunctionLaw(kind, self.dimension, 0.0, self.sparsity, self.depth, self.num_neurons)
            for kind in ("sparse", "tree", "two_layer")
        )

    @property
    def model(self) -> Transformer:
        """The transformer."""
        sizes = self.width, self.num_layers, self.num_heads
        return prompt_model(self.dimension, self.num_examples, *sizes)

    @property
    def recipe(self) -> InContextRecipe:
        """How it is trained."""
        return InContextRecipe(
            self.num_steps, self.batch_size, self.num_examples, self.learning_rate
        )


PRESETS = {
    "smoke": Config(
        dimension=3, num_examples=2, width=16, num_heads=2, num_steps=100, batch_size=64,
        learning_rate=0.01, num_test=500,
        slack=0.2,  # so few steps show that it learns, not how well it can
    ),
    "paper": Config(
        dimension=20, num_examples=19, sparsity=3, depth=4, num_neurons=100, width=256,
        num_layers=12, num_heads=8, num_steps=500000, batch_size=64, learning_rate=1e-4,
    ),
}  # fmt: skip


class Result(NamedTuple):
    """Axes: k kinds of functions, s networks, r rivals, t steps."""

    slack: float
    losses: Float[np.ndarray, "k s t"]
    errors: Float[np.ndarray, "k s"]  # E(ŷ − f(x))²
    strangers: Float[np.ndarray, " s"]  # on two-layer functions, of networks trained on sparse ones
    rivals: Float[np.ndarray, "k r"]  # at their best setting, on the same prompts
    nothing: Float[np.ndarray, " k"]  # of the prediction 0


def memory(config: Config) -> int:
    """Bytes of the activations of a batch and of the tests, on two cores."""
    places = config.num_examples + 1
    layer = places * (12 * config.width + 4 * config.num_heads * places)
    return 4 * 2 * config.num_layers * layer * max(config.batch_size, config.num_test)


def run(config: Config) -> Result:
    """Train a network for every kind and seed in one program, and test each on both."""
    train_key, test_key = jax.random.split(jax.random.key(config.seed))
    tests = jax.jit(lambda key: _tests(config, key))(test_key)

    def network(given: tuple[RandomKey, Int[Array, ""]]) -> tuple[Array, Array]:
        key, kind = given
        learned = learn_prompts(
            key, config.model, lambda key: _draw(config, key, kind), config.recipe
        )

        def error(prompts: Prompts) -> Array:
            said = prompt_predictions(config.model, learned.params, prompts)
            return jnp.mean((said - prompts.target) ** 2)

        return learned.losses, jax.lax.map(error, tests)

    report("training, all steps in one program", 0.0)
    keys = jnp.tile(jax.random.split(train_key, config.num_seeds), len(KINDS))
    kinds = jnp.repeat(jnp.arange(len(KINDS)), config.num_seeds)
    found = ensemble(network, (keys, kinds))
    losses, errors = (np.asarray(part).reshape(len(KINDS), config.num_seeds, -1) for part in found)
    report("regressions", 0.9)
    rivals = _rivals(config, tests)
    own = np.stack([errors[kind, :, kind] for kind in range(len(KINDS))])
    nothing = np.mean(np.asarray(tests.target) ** 2, axis=1)
    return Result(config.slack, losses, own, errors[0, :, 2], rivals, nothing)


def _draw(config: Config, key: RandomKey, kind: Int[Array, ""]) -> Prompts:
    """Prompts of a kind that is known only when the program runs: one program for all."""
    branches = [
        lambda key, law=law: _prompts(config, key, law, config.batch_size) for law in config.laws
    ]
    return jax.lax.switch(kind, branches, key)


def _tests(config: Config, key: RandomKey) -> Prompts:
    """Prompts of all kinds, in the order of KINDS."""
    parts = [_prompts(config, key, law, config.num_test) for law in config.laws]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)


def _prompts(config: Config, key: RandomKey, law: FunctionLaw, num_prompts: int) -> Prompts:
    """Sequences whose last example is the query."""
    x, y, clean = draw_sequences(key, law, num_prompts, config.num_examples + 1)
    return Prompts(x[:, :-1], y[:, :-1], x[:, -1], clean[:, -1])


def _rivals(config: Config, tests: Prompts) -> Float[np.ndarray, "k r"]:
    """Errors of the regressions, in the order of RIVALS, each at its best setting for a kind."""
    # Not inside one compiled loop: there XLA's batched factorisations may wait for ever.
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tests)
    x = jnp.concatenate([flat.x, flat.query[:, None]], axis=1)
    y = jnp.concatenate([flat.y, flat.target[:, None]], axis=1)

    def errors(predicted: Float[Array, "b n"]) -> np.ndarray:
        gaps = np.asarray(predicted[:, -1]) - np.asarray(flat.target)
        return np.mean(gaps.reshape(len(KINDS), -1) ** 2, axis=1)

    lasso = jax.jit(predict_lasso)
    rivals = (
        errors(predict_least_squares(x, y)),
        np.min([errors(predict_ridge(x, y, value)) for value in RIDGES], axis=0),
        np.min([errors(lasso(x, y, value)) for value in PENALTIES], axis=0),
        errors(predict_descent(x, y, 1 / config.dimension, config.descent_steps)),
    )
    return np.stack(rivals, axis=1)


def _against(result: Result, kind: str, rival: str) -> np.ndarray:
    """The transformers' errors over a rival's, on the same prompts."""
    place = KINDS.index(kind)
    return result.errors[place] / result.rivals[place, RIVALS.index(rival)]


def _worst(result: Result) -> np.ndarray:
    """The largest error over that of a rival other than ridge regression, by network."""
    rivals = [name for name in RIVALS if name != "ridge"]
    parts = [_against(result, kind, rival) for kind in KINDS[1:] for rival in rivals]
    return np.max(parts, axis=0)


# Another seed gave 0.5 (tree) and 0.76 (two layers) of ridge regression's error; and for sparse
# functions 2.3 times that of least squares, and 40 times that of the lasso.
CLAIMS = (
    Claim(
        "Trees: at most nine tenths of the error of the best ridge regression.",
        judge=lambda r, c: median_at_most(_against(r, "tree", "ridge"), 0.9),
        source=TASKS,
    ),
    Claim(
        "Two-layer functions: no more error than the best ridge regression, but for the slack.",
        judge=lambda r, c: median_at_most(_against(r, "two_layer", "ridge"), 1 + r.slack),
        source=TASKS,
    ),
    Claim(
        "Trees and two-layer functions: less error than least squares, descent and the lasso.",
        judge=lambda r, c: median_at_most(_worst(r), 1.0),
        source=TASKS,
    ),
    Claim(
        "Sparse functions are learned in part: less error than saying 0.",
        judge=lambda r, c: median_at_most(r.errors[0] / r.nothing[0], 1.0),
        source=TASKS,
    ),
    Claim(
        "After so short a training the lasso is still twice as good on sparse functions.",
        judge=lambda r, c: median_at_least(_against(r, "sparse", "lasso"), 2.0),
        source=TASKS,
    ),
    Claim(
        "On two-layer functions, networks trained on sparse ones are worse than their own.",
        judge=lambda r, c: ordered(r.errors[2], r.strangers),
        source=TASKS,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Losses over steps, and errors of all by kind."""
    figure, axes = panels("training", "error on a query")
    window = max(result.losses.shape[2] // 50, 1)
    steps = result.losses.shape[2] // window
    for place, kind in enumerate(KINDS):
        means = result.losses[place, :, : steps * window].mean(axis=0).reshape(steps, window)
        axes[0].plot(window * np.arange(steps), means.mean(axis=1), label=kind)
    axes[0].set(xlabel="step", ylabel="mean square", yscale="log")
    axes[0].legend(frameon=False, fontsize=7)
    places = np.arange(len(KINDS))
    axes[1].plot(places, result.errors, "o", color=COLOURS[0])
    for rival, name in enumerate(RIVALS):
        axes[1].plot(places, result.rivals[:, rival], "_", markersize=18, label=name)
    axes[1].plot(places, result.nothing, "_", color="0.6", markersize=18, label="0")
    axes[1].set_xticks(places, KINDS)
    axes[1].set_yscale("log")
    axes[1].legend(frameon=False, fontsize=7)
    return figure
