"""Does training find the loop that is gradient descent?

The looped transformer is gradient descent for the right Q, P and η. Here these are learned instead,
all entries of Q and P and a rate for every loop, by Adam on fresh prompts of unit vectors θ*: the
loss is the mean of ‖output − αθ*‖². The source only constructs the weights; whether training finds
them is asked here. It begins with random numbers around a small multiple of the identity. (From
random numbers alone, `hint` 0, some runs end at a worse loop.)

It is asked twice: for inputs N(0, I), and for inputs N(0, Λ) with different eigenvalues. There the
learned P is near diag(Λ⁻¹, 0): descent that knows Λ, and better than descent that does not.

Source: shi · looped-gd · Theorem 8.14; shi · looped-tf · §8.2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, median_at_least, median_at_most, ordered
from theorylab.experiments.checks import refuse_negative, refuse_nonpositive
from theorylab.experiments.drawing import COLOURS, THEORY, panels
from theorylab.incontext import LoopWeights, descent_weights, loop, loop_prompt
from theorylab.progress import report
from theorylab.training import ensemble
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = r"Z \leftarrow Z - \eta_t (M \circ (ZQZ^\top)) ZP"

DESCENT = Source("shi", "looped-gd", "Theorem 8.14")
MODEL = Source("shi", "looped-tf", "§8.2")
START = 0.1  # standard deviation of the random part of the first Q and P


@dataclass(frozen=True)
class Config:
    """Prompts, loops and the training."""

    dimension: int = 3  # d
    num_examples: int = 12  # n
    num_loops: int = 3  # T
    ratio: float = 3.0  # of neighbouring eigenvalues of Λ, their sum as for the identity
    hint: float = 0.3  # multiple of the identity in the first Q and P
    num_steps: int = 1500  # of training
    batch_size: int = 64  # fresh prompts in a step
    learning_rate: float = 0.02
    num_rates: int = 60  # constant rates that descent may choose from
    num_test: int = 2000  # prompts to test on
    num_seeds: int = 6  # at least 6 to conclude
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_negative(self)
        limits = (
            ("dimension", 1, 32), ("num_examples", 2, 10**4), ("num_loops", 1, 100),
            ("num_steps", 2, 10**7), ("batch_size", 1, 10**5), ("num_rates", 2, 10**4),
            ("num_test", 100, 10**6), ("num_seeds", 1, 10**4),
        )  # fmt: skip
        for name, least, most in limits:
            if not least <= getattr(self, name) <= most:
                raise ValueError(
                    f"{name} must be between {least} and {most}, got {getattr(self, name)}."
                )
        if not self.ratio > 1:
            raise ValueError(f"ratio must be above 1, got {self.ratio}.")
        if not 0 <= self.hint <= 1:
            raise ValueError(f"hint must be between 0 and 1, got {self.hint}.")
        refuse_nonpositive(self, "learning_rate")


PRESETS = {
    "smoke": Config(
        dimension=2, num_examples=8, num_loops=2, ratio=6.0, num_steps=400, batch_size=32,
        num_test=500,
    ),
    "paper": Config(
        dimension=4, num_examples=16, num_loops=10, num_steps=100000, batch_size=256, num_seeds=10
    ),
}  # fmt: skip


class Loop(NamedTuple):
    """What is learned; rates are in units of 1/n, because attention is a sum over n examples."""

    weights: LoopWeights
    rates: Float[Array, " t"]


class Prompts(NamedTuple):
    """Rows Z of every prompt, and the output αθ* that is wanted."""

    rows: Float[Array, "b m e"]
    wanted: Float[Array, "b d"]


class Result(NamedTuple):
    """Axes: law of the inputs (2: N(0, I), N(0, Λ)), s runs, t steps, e = d + 1."""

    losses: Float[np.ndarray, "2 s t"]
    query_key: Float[np.ndarray, "2 s e e"]  # Q
    projection: Float[np.ndarray, "2 s e e"]  # P
    errors: Float[np.ndarray, "2 s"]  # mean ‖output − αθ*‖² over mean ‖αθ*‖²
    untrained: Float[np.ndarray, "2 s"]
    descent: Float[np.ndarray, "2"]  # of the constructed weights at the best constant rate
    spectrum: Float[np.ndarray, " d"]  # of Λ


def memory(config: Config) -> int:
    """Bytes of the rows of all prompts in all loops, on two cores."""
    prompts = max(config.num_test, config.batch_size)
    rows = (config.num_examples + 1) * (config.dimension + config.num_examples + 2)
    return 2 * 4 * 3 * (config.num_loops + 1) * prompts * rows


def run(config: Config) -> Result:
    """Learn loops for both laws in one program, and test them beside descent."""
    train_key, test_key = jax.random.split(jax.random.key(config.seed))
    spectrum = float(config.ratio) ** -np.arange(config.dimension)
    spectrum *= config.dimension / spectrum.sum()
    roots = jnp.stack([jnp.eye(config.dimension), jnp.diag(jnp.sqrt(jnp.array(spectrum)))])

    def learned(given: tuple[RandomKey, Float[Array, "d d"]]) -> tuple[Array, ...]:
        key, root = given
        start, end, losses = _learn(config, key, root)
        tests = _prompts(config, test_key, root, config.num_test)
        return losses, *end.weights, _error(end, tests), _error(start, tests)

    report("training, all steps in one program", 0.0)
    keys = jnp.tile(jax.random.split(train_key, config.num_seeds), 2)
    found = ensemble(learned, (keys, jnp.repeat(roots, config.num_seeds, axis=0)))
    losses, queries, projections, errors, untrained = (
        np.asarray(part).reshape(2, config.num_seeds, *part.shape[1:]) for part in found
    )
    report("descent", 0.9)
    descent = np.asarray(jax.jit(jax.vmap(lambda root: _descent(config, test_key, root)))(roots))
    return Result(losses, queries, projections, errors, untrained, descent, spectrum)


def _prompts(config: Config, key: RandomKey, root: Float[Array, "d d"], number: int) -> Prompts:
    """Examples of a unit vector θ* each, with α ~ N(0, 1) to be reached."""
    n, d = config.num_examples, config.dimension
    input_key, task_key, value_key = jax.random.split(key, 3)
    x = (jax.random.normal(input_key, (number * n, d)) @ root).reshape(number, n, d)
    theta = jax.random.normal(task_key, (number, d))
    theta = theta / jnp.linalg.norm(theta, axis=1, keepdims=True)
    value = jax.random.normal(value_key, (number,))
    rows = jax.vmap(loop_prompt)(x, jnp.einsum("bnd,bd->bn", x, theta), value)
    return Prompts(rows, value[:, None] * theta)


def _error(learned: Loop, prompts: Prompts) -> Float[Array, ""]:
    """Mean ‖output − αθ*‖² over mean ‖αθ*‖²."""

    def output(rows: Float[Array, "m e"]) -> Float[Array, " d"]:
        return loop(learned.weights, rows, learned.rates / (len(rows) - 1)).outputs[-1]

    gaps = jax.vmap(output)(prompts.rows) - prompts.wanted
    return jnp.sum(gaps**2) / jnp.sum(prompts.wanted**2)


def _learn(
    config: Config, key: RandomKey, root: Float[Array, "d d"]
) -> tuple[Loop, Loop, Float[Array, " t"]]:
    """Adam, its rate falling to 0: the loop before and after, and losses."""
    start_key, prompt_key = jax.random.split(key)
    size = config.dimension + 1
    flat = START * jax.random.normal(start_key, (2 * size, size))
    hint = config.hint * jnp.eye(size)
    weights = LoopWeights(hint + flat[:size], hint + flat[size:])
    start = Loop(weights, jnp.ones(config.num_loops))
    schedule = optax.cosine_decay_schedule(config.learning_rate, config.num_steps)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))

    def step(state: tuple, key: RandomKey) -> tuple[tuple, Array]:
        learned, memory = state
        prompts = _prompts(config, key, root, config.batch_size)
        value, slope = jax.value_and_grad(_error)(learned, prompts)
        updates, memory = optimizer.update(slope, memory, learned)
        return (optax.apply_updates(learned, updates), memory), value

    keys = jax.random.split(prompt_key, config.num_steps)
    (end, _), losses = jax.lax.scan(step, (start, optimizer.init(start)), keys)
    return start, end, losses


def _descent(config: Config, key: RandomKey, root: Float[Array, "d d"]) -> Float[Array, ""]:
    """The error of the constructed weights, at the best constant rate up to 2/n."""
    tests = _prompts(config, key, root, config.num_test)
    weights = descent_weights(config.dimension)

    def error(rate: Array) -> Array:
        return _error(Loop(weights, jnp.full(config.num_loops, rate)), tests)

    rates = 2 * jnp.arange(1, config.num_rates + 1) / config.num_rates
    return jax.lax.map(error, rates).min()


def _likeness(matrices: Float[np.ndarray, "s e e"], construction: np.ndarray) -> np.ndarray:
    """|cos| of every matrix with the constructed one; the sign of Q and P is free together."""
    products = np.abs(np.einsum("sij,ij->s", matrices, construction))
    return products / np.linalg.norm(matrices, axis=(1, 2)) / np.linalg.norm(construction)


def _constructed(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """Q = I and P = diag(I_d, 0)."""
    identity = np.eye(len(result.spectrum) + 1)
    return identity, np.diag([*np.ones(len(result.spectrum)), 0.0])


def _whitening(result: Result) -> np.ndarray:
    """P = diag(Λ⁻¹, 0)."""
    return np.diag([*1 / result.spectrum, 0.0])


# Another seed gave likenesses of 0.99 (Q), 0.96 to 0.98 (P) and 0.82 against 0.99 (skewed inputs),
# and errors of 0.7 to 0.9 and of 0.3 of descent's.
CLAIMS = (
    Claim(
        "For isotropic inputs the learned loop errs no more than descent at its best rate.",
        judge=lambda r, c: median_at_most(r.errors[0] / r.descent[0], 1.0),
        source=DESCENT,
    ),
    Claim(
        "The learned Q is a multiple of the constructed one: |cos| is at least 0.95.",
        judge=lambda r, c: median_at_least(_likeness(r.query_key[0], _constructed(r)[0]), 0.95),
        source=DESCENT,
    ),
    Claim(
        "The learned P is a multiple of the constructed one: |cos| is at least 0.9.",
        judge=lambda r, c: median_at_least(_likeness(r.projection[0], _constructed(r)[1]), 0.9),
        source=DESCENT,
    ),
    Claim(
        "For skewed inputs the learned loop has at most three quarters of the error of descent.",
        judge=lambda r, c: median_at_most(r.errors[1] / r.descent[1], 0.75),
        source=MODEL,
    ),
    Claim(
        "For skewed inputs the learned P is more like diag(Λ⁻¹, 0) than like the constructed one.",
        judge=lambda r, c: ordered(
            _likeness(r.projection[1], _constructed(r)[1]),
            _likeness(r.projection[1], _whitening(r)),
        ),
        source=MODEL,
    ),
    Claim(
        "The start does not descend: its error is at least three times the learned loop's.",
        judge=lambda r, c: median_at_least(r.untrained[0] / r.errors[0], 3.0),
        source=DESCENT,
        kind="control",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Losses over steps, and the learned matrices of the first run beside the construction."""
    figure, axes = panels("training", "Q, isotropic inputs", "P, isotropic inputs", "P, skewed")
    window = max(result.losses.shape[2] // 100, 1)
    steps = result.losses.shape[2] // window
    for law, name in enumerate(("isotropic", "skewed")):
        means = result.losses[law, :, : steps * window].reshape(-1, steps, window).mean(axis=2)
        axes[0].plot(window * np.arange(steps), means.T, color=COLOURS[law], alpha=0.4)
        axes[0].plot([], [], color=COLOURS[law], label=name)
        axes[0].axhline(result.descent[law], **THEORY)
    axes[0].set(xlabel="step", ylabel="error", yscale="log")
    axes[0].legend(frameon=False, fontsize=7)
    tables = result.query_key[0, 0], result.projection[0, 0], result.projection[1, 0]
    for axis, table in zip(axes[1:], tables, strict=True):
        size = np.abs(table).max()
        axis.imshow(table, cmap="RdBu", vmin=-size, vmax=size)
        axis.grid(False)
    return figure
