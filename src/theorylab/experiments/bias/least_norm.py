"""Gradient descent on a linear system finds the solution of least norm.

With more unknowns than equations Xw = y there are many solutions. Gradients of the squared loss are
combinations of the rows of X, so descent with steps of any size moves within the row space, and
ends at the solution nearest to where it began: at X⁺y, that of least norm, if it began at 0.

Every iterate from 0 is the partial sum Σⱼ (I − ηXᵀX)ʲ ηXᵀy; the source prints the exponent j
outside the sum. It asks for η < 1/λ_max, which is enough; 2/λ_max is the limit. Its footnote sums
the powers of a matrix A whose eigenvalues are below 1; A = I − ηXᵀX has the eigenvalue 1, and only
the product of the sum with Xᵀy converges.

Source: arora · minnorm-regression · §3.1, Eqs 3.1–3.5, Prop. 8.1.1; arora · pseudoinverse · §3.1.1,
Problems 3.1.1–3.1.2.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab import bias
from theorylab.claims import (
    Source,
    at_least,
    at_most,
    identity,
    median_at_least,
    median_between,
)
from theorylab.dynamics import linear
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels
from theorylab.fields import within
from theorylab.progress import report
from theorylab.training import descend, gradient_descent, logarithmic, squared
from theorylab.typing import Measured, RandomKey

from ._equations import Overparametrized

PRECISION = "float64"
FORMULA = r"\lim_{t\to\infty} w_t = w_0 + X^+(y - Xw_0) = \arg\min_{Xw=y} \|w - w_0\|"

SUM = Source("arora", "minnorm-regression", "§3.1, Eq. 3.3")
STEP = Source("arora", "minnorm-regression", "§3.1, condition on η")
LIMIT = Source("arora", "minnorm-regression", "§3.1, Eqs 3.4–3.5")
NEAREST = Source("arora", "minnorm-regression", "Proposition 8.1.1")
INVERSE = Source("arora", "pseudoinverse", "§3.1.1, Problem 3.1.1")
NEUMANN = Source("arora", "pseudoinverse", "§3.1, footnote 2")

LOSS = squared("half_sum")
NUM_TERMS = 30  # of the series, as compared with the iterate after as many steps
NUM_RECORDS = 24  # about how many steps are recorded


@dataclass(frozen=True)
class Config(Overparametrized):
    """Random linear equations with more unknowns than equations."""

    num_steps: Annotated[int, within(NUM_TERMS)] = 4000  # steps of descent


PRESETS = {
    "smoke": Config(num_samples=5, dimension=20, num_steps=2000, num_seeds=8),
    "paper": Config(num_samples=50, dimension=200, num_steps=20000, num_seeds=100),
}


class Result(NamedTuple):
    """Axes: s seeds, t recorded steps, r singular directions. Errors are relative."""

    iterates: Float[Measured, "s t d"]  # of descent from 0
    closed_form: Float[Measured, "s t d"]  # (I − (I − ηXᵀX)ᵗ) X⁺y
    errors: Float[Measured, "s t r"]  # uᵢᵀ(y − Xw) of descent from 0
    predicted_errors: Float[Measured, "s t r"]  # (1 − ησᵢ²)ᵗ uᵢᵀy
    least_norm: Float[Measured, "s d"]  # X⁺y
    random_end: Float[Measured, "s d"]  # of steps of random size, from w₀
    nearest: Float[Measured, "s d"]  # the solution nearest to w₀
    threshold: Float[Measured, " s"]  # the largest η λ_max with which descent converges
    after_terms: Float[Measured, "s d"]  # the iterate after 30 steps
    summed: Float[Measured, "s d"]  # the series to its 30th term
    summed_as_printed: Float[Measured, "s d"]  # the sum to the power of its last index
    penrose: Float[Measured, "s 2"]  # errors of MM⁺M = M and M⁺MM⁺ = M⁺, at deficient rank
    right_inverse: Float[Measured, " s"]  # error of (XᵀX)⁺Xᵀ = Xᵀ(XXᵀ)⁻¹
    neumann: Float[Measured, " s"]  # of Σ Aʲ = (I − A)⁻¹ for ‖A‖ < 1
    neumann_singular: Float[Measured, " s"]  # of Σ Aʲ = (I − A)⁺ for A = I − ηXᵀX


class Problem(NamedTuple):
    """Equations Xw = y, where descent begins, and what else is random."""

    x: Float[Array, "*s n d"]
    y: Float[Array, "*s n"]
    start: Float[Array, "*s d"]
    mixture: Float[Array, "*s n half"]  # makes equations that depend on one another
    ratios: Float[Array, "*s 1000"]  # random steps in units of 1/λ_max


def run(config: Config) -> Result:
    """Descend on every set of equations, and sum the series."""
    report("taking the steps of descent", 0.0)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    problems = _problems(keys, config)
    found = _descents(problems, config.num_steps)
    report("looking for the largest step", 0.5)
    found["threshold"] = _thresholds(problems)
    report("pseudo-inverses and series", 0.7)
    found |= _algebra(problems)
    return Result(**found)


@partial(jax.jit, static_argnames="config")
def _problems(keys: Key[Array, " s"], config: Config) -> Problem:
    """Gaussian equations whose rows have length about 1."""
    n, d = config.num_samples, config.dimension
    shapes = ((n, d), (n,), (d,), (n, n // 2), (1000,))
    sizes = [math.prod(shape) for shape in shapes]

    def each(key: RandomKey) -> Problem:
        # One draw for all: to compile a draw takes longer than to descend.
        numbers = jnp.split(jax.random.normal(key, (sum(sizes),)), np.cumsum(sizes)[:-1])
        x, y, start, mixture, ratios = map(jnp.reshape, numbers, shapes)
        uniform = 0.1 + 1.8 * jax.scipy.stats.norm.cdf(ratios)
        return Problem(x / jnp.sqrt(d), y, start / jnp.sqrt(d), mixture, uniform)

    return jax.vmap(each)(keys)


@partial(jax.jit, static_argnames="num_steps")
def _descents(problems: Problem, num_steps: int) -> dict[str, Array]:
    """Descent from 0 beside its closed form; and in random steps from w₀."""
    steps = logarithmic(num_steps, NUM_RECORDS)

    def each(problem: Problem) -> dict[str, Array]:
        x, y, start, _, ratios = problem
        rate, zero = linear.largest_regression_rate(x) / 2, jnp.zeros_like(start)
        random = optax.sgd(lambda step: rate * ratios[jnp.asarray(step) % len(ratios)])
        objective = lambda w: LOSS(x @ w[:, None], y[:, None])  # noqa: E731
        iterates = descend(objective, zero, gradient_descent(rate), steps, lambda w: w).records
        left, singular, _ = jnp.linalg.svd(x, full_matrices=False)
        factors = (1 - rate * singular**2)[None, :] ** jnp.asarray(steps)[:, None]
        return {
            "iterates": iterates,
            "closed_form": linear.descent_weights(x, y, zero, rate, jnp.asarray(steps)),
            "errors": (y[None] - iterates @ x.T) @ left,
            "predicted_errors": factors * (left.T @ y)[None],
            "least_norm": bias.nearest_interpolant(x, y, zero),
            "random_end": descend(objective, start, random, [num_steps], lambda w: w).params,
            "nearest": bias.nearest_interpolant(x, y, start),
        }

    return jax.vmap(each)(problems)


@jax.jit
def _thresholds(problems: Problem) -> Float[Array, " s"]:
    """The largest η λ_max with which the loss still shrinks."""

    def each(problem: Problem) -> Float[Array, ""]:
        x, y, start = problem[:3]
        critical = linear.largest_regression_rate(x)
        model = lambda w: x @ w[:, None]  # noqa: E731
        return 2 * linear.measured_threshold(model, start, y[:, None], critical, num_steps=1000)

    return jax.vmap(each)(problems)


@jax.jit
def _algebra(problems: Problem) -> dict[str, Array]:
    """Identities of pseudo-inverses, and sums of the series."""

    def each(problem: Problem) -> dict[str, Array]:
        half = problem.mixture.shape[1]
        return _penrose(problem.mixture @ problem.x[:half]) | _series(problem)

    return jax.vmap(each)(problems)


def _penrose(m: Float[Array, "n d"]) -> dict[str, Array]:
    """Errors of MM⁺M = M and M⁺MM⁺ = M⁺."""
    # Half of the rows are combinations of the others: the cut-off is far from both kinds of σ.
    plus = bias.pseudoinverse(m, tolerance=1e-10)
    return {"penrose": jnp.stack([_relative(m @ plus @ m, m), _relative(plus @ m @ plus, plus)])}


def _series(problem: Problem) -> dict[str, Array]:
    """The series of descent, in part and to its end, and the series of a contraction."""
    x, y, zero = problem.x, problem.y, jnp.zeros_like(problem.start)
    gram, rate, eye = x.T @ x, linear.largest_regression_rate(x) / 2, jnp.eye(x.shape[1])
    a, push = eye - rate * gram, rate * x.T @ y
    contraction = 0.9 * a  # the largest eigenvalue of A is 1, on the null space of X
    return {
        "after_terms": linear.descent_weights(x, y, zero, rate, jnp.array([NUM_TERMS]))[0],
        "summed": bias.neumann_sum(a, NUM_TERMS) @ push,
        # Σⱼ₌₀ᵗ (I − ηXᵀX) is (t + 1)A; outside the sum j can only be t.
        "summed_as_printed": jnp.linalg.matrix_power(NUM_TERMS * a, NUM_TERMS - 1) @ push,
        "right_inverse": _relative(
            bias.pseudoinverse(gram, 1e-10) @ x.T, jnp.linalg.solve(x @ x.T, x).T
        ),
        "neumann": _relative(bias.neumann_sum(contraction, 400) @ (eye - contraction), eye),
        "neumann_singular": _relative(
            bias.neumann_sum(a, 3000), bias.pseudoinverse(eye - a, 1e-10)
        ),
    }


def _relative(found: Array, expected: Array) -> Float[Array, ""]:
    return jnp.linalg.norm(found - expected) / jnp.linalg.norm(expected)


def _distance(result: Result) -> np.ndarray:
    """From the solution of least norm, over its norm: (s, t)."""
    rest = np.linalg.norm(result.iterates - result.least_norm[:, None], axis=-1)
    return rest / np.linalg.norm(result.least_norm, axis=-1)[:, None]


CLAIMS = (
    SUM.check(
        "Every iterate of descent is the one of the closed form.",
        lambda r, c: identity(r.iterates, r.closed_form, 1e-12),
        formula=r"w_t = (I - (I - \eta X^\top X)^t) X^+ y",
    ),
    *SUM.erratum(
        printed=(
            "The iterate is the sum of I − ηXᵀX, to the power of its last index, times ηXᵀy.",
            lambda r, c: identity(r.summed_as_printed, r.after_terms, 1e-12),
            r"w_{t+1} = \left(\sum_{j=0}^{t} (I - \eta X^\top X)\right)^j \eta X^\top y",
        ),
        corrected=(
            "The iterate is the sum of the powers of I − ηXᵀX, times ηXᵀy.",
            lambda r, c: identity(r.summed, r.after_terms, 1e-12),
            r"w_{t+1} = \sum_{j=0}^{t} (I - \eta X^\top X)^j\, \eta X^\top y",
        ),
        quote="gradient descent with learning rate … gives the following trajectory",
    ),
    LIMIT.claim(
        "From 0, descent ends at the solution of least norm.",
        lambda r, c: at_most(_distance(r)[:, -1].max(), 1e-8),
        formula=r"w_\infty = (X^\top X)^+ X^\top y",
        quote="This solution is also the minimizing … norm solution that fits the data",
    ),
    LIMIT.claim(
        "Two formulas for that solution agree.",
        lambda r, c: at_most(r.right_inverse.max(), 1e-10),
        formula=r"(X^\top X)^+ X^\top = X^\top (XX^\top)^{-1}",
    ),
    NEAREST.claim(
        "From w₀, and in steps of random size, it ends at the solution nearest to w₀.",
        lambda r, c: identity(r.random_end, r.nearest, 1e-8),
        formula=r"w_\infty = \arg\min_{Xw=y} \|w - w_0\|",
        quote="For any step size schedule that minimizes the loss",
    ),
    NEAREST.control(
        "That is not the solution of least norm.",
        lambda r, c: at_least(np.linalg.norm(r.random_end - r.least_norm, axis=1).min(), 0.1),
    ),
    STEP.claim(
        "Descent converges for every η below 1/λ_max.",
        lambda r, c: median_at_least(r.threshold, 1.0),
        formula=r"\eta < 1/\lambda_{\max}(X^\top X)",
        quote="the infinite series as … in the above equation converges to",
        demand="source",
    ),
    STEP.found(
        "It converges for η up to 2/λ_max, and no further.",
        lambda r, c: median_between(r.threshold, 1.98, 2.02),
        formula=r"\eta < 2/\lambda_{\max}(X^\top X)",
        demand="derived: |1 − ηλ| < 1; 1 % for the search",
    ),
    INVERSE.claim(
        "MM⁺M = M and M⁺MM⁺ = M⁺, for matrices of deficient rank.",
        lambda r, c: at_most(r.penrose.max(), 1e-10),
        formula=r"MM^+M = M,\ M^+MM^+ = M^+",
    ),
    NEUMANN.claim(
        "The powers of a matrix with eigenvalues below 1 sum to the pseudo-inverse of I − A.",
        lambda r, c: at_most(r.neumann.max(), 1e-10),
        formula=r"\sum_j A^j = (I - A)^+",
        quote="when the largest eigenvalue of positive semidefinite matrix A is less than 1",
    ),
    NEUMANN.control(
        "Those of A = I − ηXᵀX, which has the eigenvalue 1, do not.",
        lambda r, c: at_least(r.neumann_singular.min(), 1.0),
        demand="derived: the sum grows by 1 with every term along the null space of X",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the way to the solution of least norm, and the errors along singular directions."""
    figure, (distance, directions) = panels(
        "distance from the solution of least norm", "errors along singular directions, one seed"
    )
    steps = logarithmic(config.num_steps, NUM_RECORDS)[1:]
    curves(distance, steps, {"descent": np.maximum(_distance(result)[:, 1:], 1e-17)})
    label_axes(distance, "step", "relative distance", logarithmic="xy")
    for measured, predicted in zip(result.errors[0].T, result.predicted_errors[0].T, strict=True):
        directions.semilogy(steps, np.abs(measured[1:]), "o", markersize=2.5)
        directions.semilogy(steps, np.abs(predicted[1:]), **THEORY | {"linewidth": 0.7})
    directions.set(xscale="log", xlabel="step", ylim=(1e-17, 10))
    return figure
