"""Every loop of a linear transformer is one step of gradient descent, exactly.

The transformer is executed as it is written, with its masked attention over all rows of the prompt;
beside it runs gradient descent on ½‖y − Xθ‖². From any start, with another learning rate in every
loop, for up to a thousand loops, the two agree to rounding. Without the mask the loops change the
examples themselves, and are not descent.

Source: shi · looped-gd · Lemma 8.13, Theorem 8.14, Lemma 8.11; shi · looped-tf · §8.2.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_most, holds, median_at_least
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Count, Seeded, Several, within
from theorylab.incontext import descent_weights, loop, loop_prompt
from theorylab.incontext.looped import last_row_mask, least_squares_descent, masked_attention
from theorylab.progress import report
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = r"-\alpha^{-1} q_{t+1} = \theta_t - \eta X^\top (X\theta_t - y) = \theta_{t+1}"

LEMMA = Source("shi", "looped-gd", "Lemma 8.13")
THEOREM = Source("shi", "looped-gd", "Theorem 8.14")
SOLUTION = Source("shi", "looped-gd", "Lemma 8.11")
MASK = Source("shi", "looped-tf", "§8.2")


@dataclass(frozen=True)
class Config(Seeded):
    """Random prompts of several sizes, with a start and a learning rate for every loop."""

    dimensions: Several[Count] = (1, 4, 16)  # d of each case
    examples: Several[Annotated[int, within(2, 10**5)]] = (5, 32, 64)  # n of each case
    num_loops: Annotated[int, within(1, 10**6)] = 1000  # T
    num_seeds: Annotated[int, within(1, 10**5)] = 20  # prompts of each case

    def __post_init__(self) -> None:
        super().__post_init__()
        d, n = self.dimensions, self.examples
        if len(d) != len(n):
            raise ValueError(f"dimensions and examples must be as many, got {d} and {n}.")
        if any(most >= least for most, least in zip(d, n, strict=True)):
            raise ValueError(f"examples must be more than dimensions, got {n} for {d}.")


PRESETS = {
    "smoke": Config(dimensions=(4,), examples=(12,), num_seeds=6),
    "paper": Config(dimensions=(4, 4, 4, 4), examples=(16, 32, 64, 128), num_seeds=1000),
}


class Result(NamedTuple):
    """Axes: cases (c), seeds (s), loops (t). Differences are relative."""

    difference: Float[Measured, "c s"]  # loops against descent, the largest of all loops
    lemma: Float[Measured, "c s"]  # attention against its closed form
    elsewhere: Float[Measured, "c s"]  # the largest entry of attention above the last row
    moved: Float[Measured, "c s"]  # how far examples and α moved
    solution: Float[Measured, "c s"]  # distance of the output over α from θ*
    unmasked: Float[Measured, "c s"]  # loops without the mask against descent, after ten
    distance: Float[Measured, "c t"]  # of the first seed from θ*, over the loops


def run(config: Config) -> Result:
    """Loop and descend side by side."""
    cases = []
    for place, (d, n) in enumerate(zip(config.dimensions, config.examples, strict=True)):
        report(f"looping over {n} examples in {d} dimensions", place / len(config.dimensions))
        key = jax.random.fold_in(jax.random.key(config.seed), place)
        keys = jax.random.split(key, config.num_seeds)
        compare = jax.jit(jax.vmap(lambda key, d=d, n=n: _comparison(key, d, n, config.num_loops)))
        compared = compare(keys)
        cases.append(compared._replace(distance=compared.distance[0]))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *cases)


def _comparison(key: RandomKey, d: int, n: int, num_loops: int) -> Result:
    """What is measured on one prompt."""
    x_key, vector_key, rate_key = jax.random.split(key, 3)
    x = jax.random.normal(x_key, (n, d))
    theta, start, (alpha, *_) = jax.random.normal(vector_key, (3, d))
    theta = theta / jnp.linalg.norm(theta)
    y, weights, mask = x @ theta, descent_weights(d), last_row_mask(n + 1)
    top = jnp.linalg.norm(x, ord=2) ** 2
    rates = jax.random.uniform(rate_key, (num_loops,), minval=0.1, maxval=1.5) / top
    prompt = loop_prompt(x, y, alpha, start)
    looped = loop(weights, prompt, rates)
    path = alpha * least_squares_descent(x, y, rates, -start / alpha)
    attention = masked_attention(weights, prompt, mask)
    closed = jnp.append(start @ x.T @ x + alpha * y @ x, 0.0)
    everywhere = loop(weights, prompt, rates[:10], jnp.ones((n + 1, n + 1)))
    scale = jnp.abs(path).max(axis=1)
    return Result(
        difference=(jnp.abs(looped.outputs - path).max(axis=1) / scale).max(),
        lemma=jnp.abs(attention[-1] - closed).max() / jnp.abs(closed).max(),
        elsewhere=jnp.abs(attention[:-1]).max(),
        moved=jnp.abs(looped.rows - prompt)[:-1].max() + jnp.abs(looped.rows[-1, -1] - alpha),
        solution=jnp.linalg.norm(looped.outputs[-1] / alpha - theta),
        unmasked=jnp.abs(everywhere.outputs[-1] - path[min(9, num_loops - 1)]).max(),
        distance=jnp.linalg.norm(looped.outputs / alpha - theta[None, :], axis=1),
    )


DIFFERENCE = 1e-10  # between loops and descent

CLAIMS = (
    THEOREM.claim(
        "Loops are steps of gradient descent to 10⁻¹⁰, for every loop of every prompt.",
        lambda r, c: at_most(r.difference.max(), DIFFERENCE),
        formula=FORMULA,
    ),
    THEOREM.claim(
        "Examples and α are the same after all loops.",
        # The compiler may work y = Xθ* out twice, with another rounding.
        lambda r, c: holds(-r.moved, rounding=1e-14),
    ),
    LEMMA.claim(
        "The last row of the attention is the gradient, (qᵀXᵀX + αyᵀX, 0).",
        lambda r, c: at_most(r.lemma.max(), 1e-12),
    ),
    LEMMA.claim(
        "All other rows of the attention are zero, exactly.",
        lambda r, c: holds(-r.elsewhere),
        quote="the output only has non-zero terms in the position of",
    ),
    SOLUTION.claim(
        "Without noise and with more examples than dimensions the loops converge to θ*.",
        lambda r, c: at_most(r.solution.max(), 1e-8),
        quote="In the realizable setting (no noise term), if",
        regime="num_loops >= 1000",
        demand="derived: the error is e^{−800/κ}, for rates of 0.8/L on average; κ is below 40",
    ),
    MASK.control(
        "Without the mask the loops are not descent: after ten, they differ by 10⁻³ and more.",
        lambda r, c: median_at_least(np.nan_to_num(r.unmasked, posinf=1e9, nan=1e9)[-1], 1e-3),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Distance from θ* over the loops, and differences from descent."""
    figure, axes = panels("distance from θ*, one prompt of each size", "loops against descent")
    for d, n, distance, difference in zip(
        config.dimensions, config.examples, result.distance, result.difference, strict=True
    ):
        axes[0].plot(np.arange(1, len(distance) + 1), np.maximum(distance, 1e-17))
        axes[1].plot(np.sort(np.maximum(difference, 1e-17)), "o", label=f"d = {d}, n = {n}")
    axes[1].axhline(DIFFERENCE, **THEORY)
    axes[1].legend(fontsize=7)
    label_axes(axes[0], "loops", logarithmic="xy")
    label_axes(axes[1], "prompt", "relative difference", "y")
    return figure
