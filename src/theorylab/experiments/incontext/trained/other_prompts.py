"""A trained transformer follows flipped signs and skewed inputs, not longer or stretched prompts.

A small transformer is trained to answer queries after N noisy examples of a linear function, with
x ~ N(0, I). Bayes' rule is ridge regression with λ = σ², whatever the inputs and however many; so
what a change of the prompt costs the transformer, over what it costs Bayes' rule, is what it has
not learned. Labels whose signs are all flipped are another linear function, as likely as the first.
With a part of the labels flipped, ridge regression is not Bayes' rule, but a fair baseline.

The source has the task, and no transformer trained on it: what is found here is ours. Its figures
of flipped labels are of language models; they have a place-holder here, and are not reproduced.

Source: shi · icl-linreg · §5.4; shi · llm-label-flip · Figures 5.1, 5.2; Garg, Tsipras, Liang and
Valiant (2022).
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_most, median_at_least, median_at_most
from theorylab.experiments.drawing import COLOURS, THEORY, panels
from theorylab.fields import Positive, within
from theorylab.incontext import Prompts
from theorylab.incontext.prompts import rooted_prompts
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import Measured, RandomKey

from ._transformers import TrainedOnPrompts, trained

PRECISION = "float32"
FORMULA = r"\frac{E(\hat y - \langle w, x\rangle)^2}{E(\hat y_{ridge} - \langle w, x\rangle)^2}"

REGRESSION = Source("shi", "icl-linreg", "§5.4")
FLIPS = Source("shi", "llm-label-flip", "Figures 5.1, 5.2: a place-holder")
SAME_LENGTH = ("none", "stretched", "shrunk", "skewed", "all flipped", "some flipped")
CHANGES = (*SAME_LENGTH, "shorter", "longer")
STRETCH = 3.0  # by which inputs grow, or shrink
SKEW = 3.0  # of neighbouring eigenvalues, their sum as before
FLIPPED = 0.25  # of the labels, where some are flipped


@dataclass(frozen=True)
class Config(TrainedOnPrompts):
    """Linear tasks with noise, and a transformer that reads all examples at once."""

    num_examples: Annotated[int, within(2, 1000)] = 8  # N of training; N/2 and 4N in tests
    noise: Positive = 0.5  # σ of labels


PRESETS = {
    "smoke": Config(
        dimension=2,
        num_examples=4,
        width=16,
        num_heads=2,
        num_steps=150,
        batch_size=32,
        learning_rate=0.015,
        num_test=400,
    ),
    "paper": Config(
        dimension=20,
        num_examples=40,
        width=256,
        depth=12,
        num_heads=8,
        num_steps=500000,
        learning_rate=1e-4,
    ),
}


class Result(NamedTuple):
    """Axes: s networks, c changes of the prompt, in the order of CHANGES."""

    errors: Float[Measured, "s c"]  # E(ŷ − ⟨w, x⟩)²
    ridge: Float[Measured, " c"]  # on the same prompts, with λ = σ²
    least_squares: Float[Measured, " c"]
    nothing: Float[Measured, " c"]  # of the prediction 0


def memory(config: Config) -> int:
    """Bytes of the activations of a batch and of a block of the longest tests."""
    return config.activations(4 * config.num_examples + 1)


def run(config: Config) -> Result:
    """Train the networks on all cores, and test them on the same changed prompts."""
    train_key, test_key = jax.random.split(jax.random.key(config.seed))
    tests = jax.jit(lambda key: _tests(config, key))(test_key)
    model, root = config.model(4 * config.num_examples), jnp.eye(config.dimension)

    def draw(key: RandomKey) -> Prompts:
        return rooted_prompts(key, config.batch_size, config.num_examples, root, config.noise)

    def network(key: RandomKey) -> Array:
        error, _ = trained(key, model, draw, config.recipe)
        same, *others = tests
        return jnp.stack([*jax.lax.map(error, same), *map(error, others)])

    report("training, all steps in one program", 0.0)
    errors = ensemble(network, jax.random.split(train_key, config.num_seeds))
    report("regressions", 0.9)
    baselines = [_baselines(config, *map(np.asarray, prompts)) for prompts in tests]
    ridge, least_squares, nothing = np.concatenate(baselines).T
    return Result(errors, ridge, least_squares, nothing)


def _tests(config: Config, key: RandomKey) -> tuple[Prompts, Prompts, Prompts]:
    """Prompts as long as in training with every change, stacked; then shorter and longer ones."""
    draw_key, flip_key = jax.random.split(key)
    n, d, identity = config.num_examples, config.dimension, jnp.eye(config.dimension)
    spectrum = SKEW ** -jnp.arange(d)
    skewed = jnp.diag(jnp.sqrt(spectrum * d / spectrum.sum()))

    def drawn(length: int, root: Array) -> Prompts:
        return rooted_prompts(draw_key, config.num_test, length, root, config.noise)

    usual = drawn(n, identity)
    signs = jnp.where(jax.random.uniform(flip_key, usual.y.shape) < FLIPPED, -1.0, 1.0)
    same = (
        usual,
        drawn(n, STRETCH * identity),
        drawn(n, identity / STRETCH),
        drawn(n, skewed),
        usual._replace(y=-usual.y, target=-usual.target),
        usual._replace(y=signs * usual.y),
    )
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *same)
    return stacked, drawn(n // 2, identity), drawn(4 * n, identity)


def _baselines(
    config: Config, x: np.ndarray, y: np.ndarray, query: np.ndarray, target: np.ndarray
) -> Float[np.ndarray, "c 3"]:
    """Errors of ridge regression, of least squares and of predicting 0, in double precision.

    In NumPy: for three lengths JAX would compile three programs.
    """
    x = x.reshape(-1, *target.shape[-1:], *x.shape[-2:]).astype(float)
    read = np.swapaxes(x, -1, -2)
    moment = read @ x + config.noise**2 * np.eye(config.dimension)
    labels = y.reshape(*x.shape[:3], 1)
    weights = np.linalg.solve(moment, read @ labels), np.linalg.pinv(x) @ labels
    queries, targets = query.reshape(*x.shape[:2], -1), target.reshape(x.shape[:2])
    answers = [np.sum(w[..., 0] * queries, axis=-1) for w in weights]
    return np.stack([np.mean((a - targets) ** 2, axis=1) for a in (*answers, 0.0)], axis=1)


def _over(result: Result, baseline: str, change: str) -> np.ndarray:
    """The error over a baseline's on the same prompts, by network."""
    place = CHANGES.index(change)
    return result.errors[:, place] / getattr(result, baseline)[place]


def _worse(result: Result, change: str) -> np.ndarray:
    """By which factor a change of the prompt raises the error over ridge regression's."""
    return _over(result, "ridge", change) / _over(result, "ridge", "none")


def _parts(result: Result) -> np.ndarray:
    """Ridge regression's error over that of predicting 0: as in training, longer, stretched."""
    places = [CHANGES.index(change) for change in ("none", "longer", "stretched")]
    return result.ridge[places] / result.nothing[places]


CLAIMS = (
    REGRESSION.found(
        "On prompts as in training it errs at most 2.5 times as much as Bayes' rule (2,000 steps).",
        lambda r, c: median_at_most(_over(r, "ridge", "none"), 2.5),
        regime="num_steps >= 2000",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    FLIPS.found(
        "Labels whose signs are all flipped are followed as well as others, to a fifth.",
        lambda r, c: median_at_most(_worse(r, "all flipped"), 1.2),
        demand="lab: another seed gave 1.0",
    ),
    REGRESSION.found(
        "Skewed inputs of the same total variance cost it at most half as much again.",
        lambda r, c: median_at_most(_worse(r, "skewed"), 1.5),
        demand="lab: another seed gave 1.1",
    ),
    FLIPS.found(
        "With a quarter of the labels flipped it errs less than least squares.",
        lambda r, c: median_at_most(_over(r, "least_squares", "some flipped"), 1.0),
        demand="lab: another seed gave 0.8",
    ),
    REGRESSION.found(
        "Four times as many examples at least double its error relative to Bayes' rule.",
        lambda r, c: median_at_least(_worse(r, "longer"), 2.0),
        demand="lab: another seed gave 8",
    ),
    REGRESSION.found(
        "Stretched inputs at least double its error relative to Bayes' rule.",
        lambda r, c: median_at_least(_worse(r, "stretched"), 2.0),
        demand="lab: another seed gave 27",
    ),
    REGRESSION.control(
        "Both help Bayes' rule: its error over that of predicting 0 falls at least by half.",
        lambda r, c: at_most(_parts(r)[1:].max() / _parts(r)[0], 0.5),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Errors by change of the prompt, and over those of ridge regression."""
    figure, axes = panels("error", "error over ridge regression's")
    places = np.arange(len(CHANGES))
    axes[0].plot(places, result.errors.T, "o", color=COLOURS[0])
    axes[0].plot(places, result.least_squares, "s", color=COLOURS[1], label="least squares")
    axes[0].plot(places, result.nothing, "_", color="0.6", label="prediction 0")
    axes[0].plot(places, result.ridge, **THEORY, label="ridge, λ = σ²")
    axes[0].legend(fontsize=7)
    axes[1].plot(places, (result.errors / result.ridge[None]).T, "o", color=COLOURS[0])
    axes[1].axhline(1.0, **THEORY)
    for axis in axes:
        axis.set_yscale("log")
        axis.set_xticks(places, CHANGES, rotation=40, ha="right", fontsize=7)
    return figure
