"""Gradient descent on a linear model has a closed form at every step.

For the loss ½‖Xw − y‖², with samples in the rows of X, descent from 0 is after t steps at

    w_t = (I − (I − ηXᵀX)ᵗ) X⁺y

and converges if 0 < η < 2/λ_max(XᵀX). It is the one learning dynamics that is solved completely,
and so a test for every other one of this laboratory.

The source has the samples in columns. Its X⁺ = (XXᵀ)⁻¹X then is the pseudo-inverse of Xᵀ, not of X,
as it says: where X is square, and both could be meant, descent tells them apart.

Source: golikov · lin-gd · 1.2, Eqs 1.1–1.3.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, identity, median_between
from theorylab.dynamics import linear
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Seeded, within
from theorylab.progress import report
from theorylab.training import descend, gradient_descent, logarithmic, squared
from theorylab.typing import Measured

PRECISION = "float64"
FORMULA = r"w_t = \left(I - (I - \eta X^\top X)^t\right) X^+ y"

LIMIT = Source("golikov", "lin-gd", "after Eq. 1.3")
CLOSED = Source("golikov", "lin-gd", "Eq. 1.3")
NOTATION = Source("golikov", "lin-gd", "after Eq. 1.3")

LOSS = squared("half_sum")
RATIOS = (0.1, 1.0, 1.99, 2.01)  # step sizes in units of 1/λ_max
BELOW, BEYOND = 2, 3  # those next to the largest one that converges


@dataclass(frozen=True)
class Config(Seeded):
    """Linear regressions with Gaussian inputs and targets that no weights fit."""

    num_samples: Count = 40  # samples n, more than weights
    dimension: Count = 10  # weights d
    num_steps: Annotated[int, within(1000)] = 3000  # steps of descent; 1.01ᵗ must be seen
    num_seeds: Count = 20  # random problems

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension > (most := self.num_samples // 2):
            # Nearer to square, the smallest eigenvalue is tiny, and descent takes for ever.
            must = f"dimension must be at most num_samples/2 = {most}"
            raise ValueError(f"{must}, got {self.dimension}.")


PRESETS = {
    "smoke": Config(num_samples=16, dimension=4, num_steps=2000),
    "paper": Config(num_samples=400, dimension=100, num_steps=10000, num_seeds=100),
}


class Result(NamedTuple):
    """Axes: s seeds, e step sizes, t recorded steps, d weights."""

    iterates: Float[Measured, "*s e t d"]  # of descent from 0
    closed_form: Float[Measured, "*s e t d"]
    least_squares: Float[Measured, "*s d"]  # from a solver
    threshold: Float[Measured, "*s"]  # the largest η λ_max with which the loss shrinks
    square_end: Float[Measured, "*s d"]  # where descent ends for a square X
    square_inverse: Float[Measured, "*s d"]  # X⁻¹y, with samples in rows
    square_misread: Float[Measured, "*s d"]  # X⁻ᵀy: the pseudo-inverse of X with columns


def run(config: Config) -> Result:
    """Descend on every problem with every step size."""
    report("descending", 0.0)
    n, d = config.num_samples, config.dimension
    key = jax.random.key(config.seed)
    numbers = jax.random.normal(key, (config.num_seeds, n + d, d + 1))
    return _problems(numbers[:, :n], numbers[:, n:], config.num_steps)


def _recorded(num_steps: int) -> np.ndarray:
    return logarithmic(num_steps, 30)


@partial(jax.jit, static_argnums=2)
@partial(jax.vmap, in_axes=(0, 0, None))
def _problems(tall: Float[Array, "n _"], square: Float[Array, "d _"], num_steps: int) -> Result:
    """Descent beside the closed form and a solver; and where X is square. Targets come last."""
    x, y = tall[:, :-1], tall[:, -1]
    steps, critical, zero = (
        _recorded(num_steps),
        linear.largest_regression_rate(x),
        jnp.zeros(x.shape[1]),
    )

    def descents(rate: Float[Array, ""]) -> tuple[Float[Array, "t d"], Float[Array, "t d"]]:
        run = descend(_objective(x, y), zero, gradient_descent(rate), steps, lambda w: w)
        return run.records, linear.descent_weights(x, y, zero, rate, jnp.asarray(steps))

    iterates, closed_form = jax.vmap(descents)(jnp.array(RATIOS) / 2 * critical)
    found = linear.measured_threshold(
        lambda w: x @ w[:, None], zero, y[:, None], critical, num_steps=1000
    )
    # Far from singular: the identity and a tenth of the noise of a random matrix.
    near = jnp.eye(len(zero)) + 0.1 / jnp.sqrt(len(zero)) * square[:, :-1]
    target = square[:, -1]
    optimizer = gradient_descent(linear.largest_regression_rate(near) / 2)
    return Result(
        iterates=iterates,
        closed_form=closed_form,
        least_squares=jnp.linalg.lstsq(x, y)[0],
        threshold=2 * found,
        square_end=descend(_objective(near, target), zero, optimizer, [1000], lambda w: w).params,
        square_inverse=jnp.linalg.solve(near, target),
        square_misread=jnp.linalg.solve(near.T, target),
    )


def _objective(x: Float[Array, "n d"], y: Float[Array, " n"]):
    return lambda w: LOSS(x @ w[:, None], y[:, None])


def _distance(result: Result) -> Float[np.ndarray, "s e t"]:
    """From the solution of least squares, over its norm."""
    rest = np.linalg.norm(result.iterates - result.least_squares[:, None, None], axis=-1)
    return rest / np.linalg.norm(result.least_squares, axis=-1)[:, None, None]


def _closed_form_error(result: Result) -> Float[np.ndarray, "s e"]:
    """The largest error of a path over its largest weight: beyond 2/λ_max these grow."""
    error = np.abs(result.iterates - result.closed_form).max(axis=(2, 3))
    return error / np.abs(result.closed_form).max(axis=(2, 3))


CLAIMS = (
    CLOSED.claim(
        "Iterated descent is the closed form, at every step and for every step size.",
        lambda r, c: at_most(_closed_form_error(r).max(), 1e-10),
        formula=FORMULA,
    ),
    LIMIT.claim(
        "With η = 1.99/λ_max descent converges to the solution of least squares.",
        lambda r, c: at_most(_distance(r)[:, BELOW, -1].max(), 1e-6),
        formula=r"w_\infty = X^+ y = (X^\top X)^{-1} X^\top y",
        quote="the above iteration converges to",
        regime="num_steps >= 2000",
        demand="derived: 0.99²⁰⁰⁰ = 2 · 10⁻⁹ along the top direction",
    ),
    LIMIT.control(
        "With η = 2.01/λ_max descent diverges.",
        lambda r, c: at_least(_distance(r)[:, BEYOND, -1].min(), 1e3),
        regime="num_steps >= 2000",
        demand="derived: 1.01²⁰⁰⁰ = 4 · 10⁸, times the share of the top direction in the solution",
    ),
    LIMIT.found(
        "The largest step with which the loss shrinks is 2/λ_max.",
        lambda r, c: median_between(r.threshold, 1.98, 2.02),
        formula=r"0 < \eta < 2/\lambda_{\max}(X^\top X)",
        demand="lab: one in a hundred, for a bisection that sees 1000 steps",
    ),
    *NOTATION.erratum(
        printed=(
            "X⁺ is the pseudo-inverse of X, whose columns are samples: descent ends there.",
            lambda r, c: identity(r.square_end, r.square_misread, 1e-10),
        ),
        corrected=(
            "X⁺ is the pseudo-inverse of Xᵀ, whose rows are samples: descent ends there.",
            lambda r, c: identity(r.square_end, r.square_inverse, 1e-10),
        ),
        formula=r"X^+ = (XX^\top)^{-1} X = (X^\top)^{-1} \text{ for square } X",
        quote="is Moore–Penrose pseudoinverse of X",
    ),
)


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
