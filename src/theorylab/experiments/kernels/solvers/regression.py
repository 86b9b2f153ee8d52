"""Kernel regression is the end of gradient descent on features, which need not be written down.

With the Gram matrix Gᵢⱼ = K(xᵢ, xⱼ) and zᵢ = K(x, xᵢ), the prediction h(x) = zᵀG⁻¹y is where
gradient descent on features of K ends, whether they are ten or infinitely many; and of all
functions that fit the data it has the least norm in the kernel's space. No ridge is involved: a
small jitter on the diagonal already leaves a residual.

Source: arora · kernel-regression · §3.2.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import Source, holds, identity, median_at_least, median_at_most
from theorylab.experiments.drawing import agreement, beside_theory, label_axes, panels
from theorylab.fields import Count, Seeded, within
from theorylab.kernels import Descent, predicted_outputs
from theorylab.kernels import dot_product as kernels
from theorylab.progress import report
from theorylab.training import descend, gradient_descent, squared
from theorylab.typing import Measured, RandomKey

PRECISION = "float64"
FORMULA = r"h(x) = \sum_{ij} K(x, x_i) (G^{-1})_{ij} y_j = \arg\min_{h(x_i) = y_i} \|h\|_K"

REGRESSION = Source("arora", "kernel-regression", "§3.2")

LOSS = squared("half_sum")
STEPS = (0, 1, 3, 10, 30, 100, 300, 1000)
NUM_EXTRA = 3  # points at which other functions that fit the data have other values
JITTER = 1e-3


@dataclass(frozen=True)
class Config(Seeded):
    """Kernel regressions on random points of the unit sphere in three dimensions."""

    num_samples: Annotated[int, within(2, 8)] = 5  # training points n
    num_test: Annotated[int, within(3)] = 20  # points where predictions are made
    num_steps: Annotated[int, within(1000)] = 30000  # steps of descent on features, to its end
    num_seeds: Count = 20  # random sets of points and targets


PRESETS = {
    "smoke": Config(num_samples=4, num_test=8, num_seeds=8),
    "paper": Config(num_test=200, num_steps=300000, num_seeds=100),
}


class Result(NamedTuple):
    """Axes: s seeds, t steps, z test points, e eigen-directions."""

    by_features: Float[Measured, "s t z"]  # predictions of descent on the quadratic features
    by_kernel: Float[Measured, "s t z"]  # of descent with the kernel
    end: Float[Measured, "s z"]  # of descent on the features, at its end
    ridgeless: Float[Measured, "s z"]  # zᵀG⁻¹y
    norms: Float[Measured, " s"]  # ‖h‖², of the Laplace kernel
    same_norms: Float[Measured, " s"]  # of the least function that has h's values elsewhere too
    other_norms: Float[Measured, " s"]  # of one that fits the data and has other values elsewhere
    jitter_residual: Float[Measured, " s"]  # what jitter leaves of the targets
    directions: Float[Measured, "s t e"]  # errors of Laplace kernel descent, by eigen-direction
    predicted_directions: Float[Measured, "s t e"]  # (1 − ηλ)ᵗ


class Problem(NamedTuple):
    """Points on the sphere."""

    x: Float[Array, "*s n 3"]
    y: Float[Array, "*s n"]
    test: Float[Array, "*s m 3"]
    values: Float[Array, "*s extra"]  # of other functions, at the first test points


def run(config: Config) -> Result:
    """Regress by features and by kernels."""
    report("descent on features and with kernels", 0.0)
    keys = jax.random.split(jax.random.key(config.seed), config.num_seeds)
    return Result(**_regressions(_problems(keys, config), config.num_steps))


@partial(jax.jit, static_argnames="config")
def _problems(keys: Key[Array, " s"], config: Config) -> Problem:
    """Uniform points on the sphere, Gaussian targets."""
    n, m = config.num_samples, config.num_test

    def each(key: RandomKey) -> Problem:
        numbers = jax.random.normal(key, (n + m, 4))
        units = numbers[:, :3] / jnp.linalg.norm(numbers[:, :3], axis=1, keepdims=True)
        return Problem(units[:n], numbers[:n, 3], units[n:], numbers[n : n + NUM_EXTRA, 3])

    return jax.vmap(each)(keys)


@partial(jax.jit, static_argnames="num_steps")
def _regressions(problems: Problem, num_steps: int) -> dict[str, Array]:
    """Descent with the quadratic kernel in two ways; norms and directions of the Laplace kernel."""

    def each(problem: Problem) -> dict[str, Array]:
        x, y, test, _ = problem
        gram, cross = (kernels.polynomial_kernel(points, x, 2) for points in (x, test))
        rate = 1 / jnp.linalg.eigvalsh(gram)[-1]
        features, test_features = kernels.quadratic_features(x), kernels.quadratic_features(test)
        steps = np.array([*STEPS, num_steps + 1])
        by_features = descend(
            lambda w: LOSS(features @ w[:, None], y[:, None]),
            jnp.zeros(features.shape[1]),
            gradient_descent(rate),
            steps,
            lambda w: test_features @ w,
        ).records
        by_kernel = predicted_outputs(gram, cross, y[:, None], jnp.array(STEPS), Descent(rate))
        return {
            "by_features": by_features[:-1],
            "by_kernel": by_kernel[:, :, 0],
            "end": by_features[-1],
            "ridgeless": cross @ jnp.linalg.solve(gram, y),
        } | _laplace_regression(problem)

    return jax.vmap(each)(problems)


def _laplace_regression(problem: Problem) -> dict[str, Array]:
    """Squared norms of functions that fit, what jitter leaves, and errors by direction."""
    x, y, test, values = problem
    gram = kernels.laplace_kernel(x, x)
    alpha = jnp.linalg.solve(gram, y)
    more = jnp.concatenate([x, test[:NUM_EXTRA]])
    own = kernels.laplace_kernel(test[:NUM_EXTRA], x) @ alpha
    wider = kernels.laplace_kernel(more, more)

    def squared_norm(elsewhere: Float[Array, " extra"]) -> Float[Array, ""]:
        targets = jnp.concatenate([y, elsewhere])
        return targets @ jnp.linalg.solve(wider, targets)

    eigenvalues, vectors = jnp.linalg.eigh(gram)
    rate = 1 / eigenvalues[-1]
    errors = jax.lax.scan(lambda e, _: (e - rate * gram @ e, e), y, length=STEPS[-1] + 1)[1]
    jittered = jnp.linalg.solve(gram + JITTER * jnp.eye(len(y)), y)
    return {
        "norms": y @ alpha,
        "same_norms": squared_norm(own),
        "other_norms": squared_norm(values),
        "jitter_residual": jnp.linalg.norm(y - gram @ jittered) / jnp.linalg.norm(y),
        "directions": errors[jnp.array(STEPS)] @ vectors,
        "predicted_directions": Descent(rate).decay(eigenvalues, STEPS) * (y @ vectors)[None],
    }


CLAIMS = (
    REGRESSION.claim(
        "Descent on the features and descent with the kernel make the same predictions.",
        lambda r, c: identity(r.by_features, r.by_kernel, 1e-10),
        formula=r"f_t(x) = K(x, X)\,G^{-1}(I - (I - \eta G)^t)\,y",
        quote="allows performing gradient descent without explicitly computing",
    ),
    REGRESSION.claim(
        "Descent on the features ends at regression with the kernel, without a ridge.",
        lambda r, c: median_at_most(np.abs(r.end - r.ridgeless).max(axis=1), 1e-6),
        formula=r"h(x) = z^\top G^{-1} y",
        demand="derived: rounding, and what is left after the last step",
    ),
    REGRESSION.claim(
        "Of the functions that fit it has the least norm: elsewhere, other values cost more.",
        lambda r, c: holds(r.other_norms - r.norms),
        formula=r"\|h\|_K^2 = y^\top G^{-1} y",
        quote="corresponds to the minimum RKHS norm solution",
    ),
    REGRESSION.control(
        "Its own values elsewhere cost nothing.",
        lambda r, c: identity(r.same_norms, r.norms, 1e-10),
    ),
    REGRESSION.found(
        "Every error along an eigen-direction of the Gram matrix shrinks by its own factor.",
        lambda r, c: identity(r.directions, r.predicted_directions, 1e-10),
        formula=r"v_i^\top(y - f_t) = (1 - \eta\lambda_i)^t\, v_i^\top y",
    ),
    REGRESSION.control(
        "A jitter of a thousandth on the diagonal is a ridge: the data are no longer fitted.",
        lambda r, c: median_at_least(r.jitter_residual, 1e-4),
        demand="derived: it leaves 0.001/(λ + 0.001) of an error, and λ is at most n ≤ 8",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw predictions at the end of descent, and errors of the Laplace kernel by direction."""
    figure, (predictions, directions) = panels(
        "predictions at test points", "Laplace kernel: errors by eigen-direction"
    )
    agreement(predictions, {"descent on features": (result.ridgeless, result.end)})
    label_axes(predictions, "zᵀG⁻¹y", "at the end of descent")
    measured, predicted = result.directions[0, 1:], result.predicted_directions[0, 1:]
    beside_theory(directions, STEPS[1:], np.abs(measured), np.abs(predicted))
    label_axes(directions, "step", logarithmic="xy")
    directions.set_ylim(1e-17, 10)
    return figure
