"""Gradient descent on a linear model: every step is known beforehand.

For the loss ½‖Xw − y‖², with samples in the rows of X, descent from 0 is after t steps at

    w_t = (I − (I − ηXᵀX)ᵗ) X⁺y

and converges if and only if 0 < η < 2/λ_max(XᵀX). It is the one learning dynamics that is solved
completely, and so a test for every other one of this laboratory.

The source has the samples in columns. Its X⁺ = (XXᵀ)⁻¹X then is the pseudo-inverse of Xᵀ, not of X:
where X is square, and both could be meant, descent tells them apart.

Source: golikov · lin-gd · 1.2, Eqs 1.1–1.3.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, identity, median_between
from theorylab.dynamics import linear
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Seeded
from theorylab.progress import report
from theorylab.training import descend, gradient_descent, logarithmic, squared
from theorylab.typing import Measured

PRECISION = "float64"
FORMULA = r"w_t = \left(I - (I - \eta X^\top X)^t\right) X^+ y"

STEPS = Source("golikov", "lin-gd", "Eqs 1.1–1.2")
CLOSED = Source("golikov", "lin-gd", "Eq. 1.3")
NOTATION = Source("golikov", "lin-gd", "1.2, X⁺ = (XXᵀ)⁻¹X")

LOSS = squared("half_sum")
RATIOS = (0.1, 1.0, 1.99, 2.01)  # step sizes in units of 1/λ_max


@dataclass(frozen=True)
class Config(Seeded):
    """Linear regressions with Gaussian inputs and targets that no weights fit."""

    num_samples: Count = 40  # samples n, more than weights
    dimension: Count = 10  # weights d
    num_steps: Count = 3000  # steps of descent
    num_seeds: Count = 20  # random problems

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension > (most := self.num_samples // 2):
            # Nearer to square, the smallest eigenvalue is tiny, and descent takes for ever.
            must = f"dimension must be at most num_samples/2 = {most}"
            raise ValueError(f"{must}, got {self.dimension}.")
        if self.num_steps < 1000:
            raise ValueError(
                f"num_steps must be at least 1000, for 1.01ᵗ to be seen, got {self.num_steps}."
            )


PRESETS = {
    "smoke": Config(num_samples=16, dimension=4, num_steps=2000),
    "paper": Config(num_samples=400, dimension=100, num_steps=10000, num_seeds=100),
}


class Result(NamedTuple):
    """Axes: s seeds, e step sizes, t recorded steps, d weights."""

    iterates: Measured  # (s, e, t, d), of descent from 0
    closed_form: Measured  # (s, e, t, d)
    least_squares: Measured  # (s, d), from a solver
    threshold: Measured  # (s), the largest η λ_max with which the loss shrinks
    square_end: Measured  # (s, d), where descent ends for a square X
    square_inverse: Measured  # (s, d), X⁻¹y, which is X⁺y with samples in rows
    square_misread: Measured  # (s, d), X⁻ᵀy, the usual X⁺y with samples in columns


def memory(config: Config) -> int:
    """The inputs, and the paths of all step sizes; in bytes."""
    each = 4 * config.num_samples * config.dimension + 2 * len(RATIOS) * 50 * config.dimension
    return 8 * config.num_seeds * each


def run(config: Config) -> Result:
    """Descend on every problem with every step size."""
    report("descending", 0.0)
    n, d = config.num_samples, config.dimension
    key = jax.random.key(config.seed)
    numbers = jax.random.normal(key, (config.num_seeds, n + d, d + 1))
    x, y = numbers[:, :n, :d], numbers[:, :n, d]
    found = _descents(x, y, config.num_steps)
    report("where X is square", 0.7)
    # Far from singular: the identity and a tenth of the noise of a random matrix.
    square = jnp.eye(d)[None] + 0.1 / jnp.sqrt(d) * numbers[:, n:, :d]
    target = numbers[:, n:, d]
    transposed = jnp.swapaxes(square, 1, 2)
    return Result(
        **found,
        least_squares=np.array([np.linalg.lstsq(*pair)[0] for pair in zip(x, y, strict=True)]),
        square_end=_square_ends(square, target),
        square_inverse=jnp.linalg.solve(square, target[:, :, None])[:, :, 0],
        square_misread=jnp.linalg.solve(transposed, target[:, :, None])[:, :, 0],
    )


def _recorded(num_steps: int) -> np.ndarray:
    return logarithmic(num_steps, 30)


@partial(jax.jit, static_argnames="num_steps")
def _descents(
    every_x: Float[Array, "s n d"], every_y: Float[Array, "s n"], num_steps: int
) -> dict[str, Array]:
    """Iterates for all step sizes beside the closed form, and the largest step that converges."""
    steps = _recorded(num_steps)

    def each(x: Float[Array, "n d"], y: Float[Array, " n"]) -> dict[str, Array]:
        critical, zero = linear.largest_regression_rate(x), jnp.zeros(x.shape[1])
        objective = lambda w: LOSS(x @ w[:, None], y[:, None])  # noqa: E731

        def at_rate(rate: Float[Array, ""]) -> tuple[Float[Array, "t d"], Float[Array, "t d"]]:
            run = descend(objective, zero, gradient_descent(rate), steps, lambda w: w)
            return run.records, linear.descent_weights(x, y, zero, rate, jnp.asarray(steps))

        iterates, closed = jax.vmap(at_rate)(jnp.array(RATIOS) / 2 * critical)
        model = lambda w: x @ w[:, None]  # noqa: E731
        found = linear.measured_threshold(model, zero, y[:, None], critical, num_steps=1000)
        return {"iterates": iterates, "closed_form": closed, "threshold": 2 * found}

    return jax.vmap(each)(every_x, every_y)


@jax.jit
def _square_ends(every_x: Float[Array, "s d d"], every_y: Float[Array, "s d"]) -> Array:
    """Where descent ends when there are as many samples as weights."""

    def each(x: Float[Array, "d d"], y: Float[Array, " d"]) -> Float[Array, " d"]:
        objective = lambda w: LOSS(x @ w[:, None], y[:, None])  # noqa: E731
        optimizer = gradient_descent(linear.largest_regression_rate(x) / 2)
        return descend(objective, 0 * y, optimizer, [1000], lambda w: w).params

    return jax.vmap(each)(every_x, every_y)


def _distance(result: Result) -> np.ndarray:
    """From the solution of least squares, over its norm: (s, e, t)."""
    rest = np.linalg.norm(result.iterates - result.least_squares[:, None, None], axis=-1)
    return rest / np.linalg.norm(result.least_squares, axis=-1)[:, None, None]


def _misreading(result: Result) -> np.ndarray:
    """The relative distance of X⁻ᵀy from where descent ends: (s)."""
    rest = np.linalg.norm(result.square_misread - result.square_end, axis=-1)
    return rest / np.linalg.norm(result.square_end, axis=-1)


CLAIMS = (
    CLOSED.claim(
        "Iterated descent is the closed form, at every step and for every step size.",
        # Of the numbers beyond 2/λ_max, which grow, each problem's own size is the measure.
        lambda r, c: at_most(_closed_form_error(r).max(), 1e-10),
        formula=r"w_t = \left(I - (I - \eta X^\top X)^t\right) X^+ y",
    ),
    STEPS.claim(
        "With η = 1.99/λ_max descent converges to the solution of least squares.",
        lambda r, c: at_most(_distance(r)[:, 2, -1].max(), 1e-6),
        formula=r"w_\infty = X^+ y = (X^\top X)^{-1} X^\top y",
    ),
    STEPS.control(
        # 1.01²⁰⁰⁰ = 4 · 10⁸, times the share of the top direction in the solution.
        "With η = 2.01/λ_max descent diverges.",
        lambda r, c: at_least(_distance(r)[:, 3, -1].min(), 1e3),
    ),
    STEPS.claim(
        "The largest step with which the loss shrinks is 2/λ_max.",
        lambda r, c: median_between(r.threshold, 1.98, 2.02),
        formula=r"0 < \eta < 2/\lambda_{\max}(X^\top X)",
    ),
    NOTATION.claim(
        "Where X is square, descent ends at the inverse of the matrix whose rows are samples.",
        lambda r, c: identity(r.square_end, r.square_inverse, 1e-10),
        formula=r"X^+ = (XX^\top)^{-1} X = (X^\top)^{-1} \text{ with samples in columns}",
    ),
    NOTATION.control(
        "The usual pseudo-inverse of the matrix whose columns are samples leads elsewhere.",
        lambda r, c: at_least(_misreading(r).min(), 1e-2),
    ),
)


def _closed_form_error(result: Result) -> np.ndarray:
    """The largest error of a path over its largest weight: (s, e)."""
    error = np.abs(result.iterates - result.closed_form).max(axis=(2, 3))
    return error / np.abs(result.closed_form).max(axis=(2, 3))


def plot(result: Result, config: Config) -> Figure:
    """Draw the distance from least squares for all step sizes, and the thresholds."""
    figure, (distance, thresholds) = panels(
        "distance from least squares, one problem", "largest step that converges"
    )
    for number, ratio in enumerate(RATIOS):
        path = np.maximum(_distance(result)[0, number], 1e-16)
        distance.semilogy(_recorded(config.num_steps), path, label=f"ηλ_max = {ratio:g}")
    distance.set(xlabel="step", ylabel="relative distance", xscale="symlog")
    distance.legend(fontsize=7)
    thresholds.plot(result.threshold, "o", markersize=3, label="measured")
    thresholds.axhline(2.0, **THEORY, label="2/λ_max")
    thresholds.set(xlabel="problem", ylabel="η λ_max", ylim=(1.9, 2.1))
    thresholds.legend(fontsize=7)
    return figure
