"""Why descent fits a wide network: its loss is small wherever its gradient is.

For the squared loss 𝓛 = ½ Σ (f − y)² with tangent kernel K, the ratio μ = ‖∇𝓛‖²/2𝓛 lies between
the extreme eigenvalues of K. If μ stays away from 0 in a ball around the initial weights, as it
does in wide networks whose kernel hardly moves, gradient descent converges to zero loss at the rate
(1 − ημ)ᵗ without leaving the ball. That needs the kernel's least eigenvalue to be positive; for one
example it is ‖∇f‖², whose mean has a lower bound (`dynamics/gradient_bound`).

Source: zhu · pl-star · 2.4, Eq. 2.16, A.7.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, holds, median_at_most
from theorylab.data import sphere
from theorylab.dynamics import descent_bound, polyak_ratio
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import OpenFraction, Plural, Seeded
from theorylab.progress import report
from theorylab.training import dag_ensemble, squared
from theorylab.typing import Apply, Measured, RandomKey

from ._dags import NAMES, dag_kinds

PRECISION = "float64"
FORMULA = (
    r"\|\nabla \mathcal L\|^2 \ge 2 \mu \mathcal L,"
    r" \quad \mathcal L(t) \le (1 - \eta\mu)^t \mathcal L(0)"
)

CONDITION = Source("zhu", "pl-star", "Eq. 2.16")
CONVERGENCE = Source("zhu", "pl-star", "2.4, A.7")

LOSS = squared("half_sum")


@dataclass(frozen=True)
class Config(Seeded):
    """Tanh networks on three kinds of graphs fit a few points."""

    width: Plural = 128  # neurons m of a hidden layer
    dimension: Plural = 8  # inputs d
    num_samples: Plural = 5  # points that are learned
    num_steps: Plural = 300  # steps of gradient descent, all of which are recorded
    ratio: OpenFraction = 0.5  # learning rate times the largest eigenvalue of the first kernel
    num_seeds: Plural = 8  # random networks of each kind


PRESETS = {
    "smoke": Config(width=48, num_steps=120),
    "paper": Config(width=2048, num_samples=50, num_steps=3000),
}


class Result(NamedTuple):
    """Axes: a kinds of graphs (`NAMES`), s seeds, t steps."""

    loss: Float[Measured, "*a t"]
    ratio: Float[Measured, "*a t"]  # ‖∇𝓛‖²/2𝓛
    least: Float[Measured, "*a t"]  # least eigenvalue of the kernel
    largest: Float[Measured, "*a t"]
    learning_rate: Float[Measured, "*a"]
    distance: Float[Measured, "*a"]  # that the weights travelled


def memory(config: Config) -> int:
    """Bytes of Jacobians on two cores, and of the wirings."""
    weights = config.width * (2 * config.width + 2 * config.dimension)
    return 32 * (config.num_samples + config.num_seeds) * weights


def run(config: Config) -> Result:
    """Train on all three kinds of graphs."""
    report("gradient descent on three kinds of graphs", 0.0)
    x_key, graph_key, run_key, _ = jax.random.split(jax.random.key(config.seed), 4)
    d = config.dimension
    x = sphere(x_key, config.num_samples, d, radius=math.sqrt(d))
    kinds = dag_kinds(graph_key, d, config.width, "tanh")
    graphs = [graph for graph in kinds for _ in range(config.num_seeds)]
    trained = _trained(x, config.num_steps, config.ratio)
    found = dag_ensemble(trained, graphs, jax.random.split(run_key, len(graphs)))
    shape = (len(NAMES), config.num_seeds)
    return jax.tree.map(lambda each: each.reshape(*shape, *each.shape[1:]), found)


def _trained(x: Float[Array, "n d"], num_steps: int, learning_rate: float):
    """Gradient descent, with loss, gradient and kernel at every step."""
    y = jnp.where(jnp.arange(x.shape[0]) % 2 == 0, 1.0, -1.0)[:, None]

    def one(apply: Apply, weights: Float[Array, " p"], key: RandomKey) -> Result:
        def jacobian(w: Float[Array, " p"]) -> Float[Array, "n p"]:
            return jax.jacrev(lambda w: apply(w, x)[:, 0])(w)

        first = jacobian(weights)
        rate = learning_rate / jnp.linalg.eigvalsh(first @ first.T)[-1]

        def step(w: Float[Array, " p"], _: None):
            residual, rows = (apply(w, x) - y)[:, 0], jacobian(w)
            gradient = residual @ rows
            values = jnp.linalg.eigvalsh(rows @ rows.T)
            loss = jnp.vdot(residual, residual) / 2
            ratio = jnp.asarray(polyak_ratio(jnp.vdot(gradient, gradient), loss))
            return w - rate * gradient, (loss, ratio, values[0], values[-1])

        last, records = jax.lax.scan(step, weights, length=num_steps)
        return Result(*records, rate, jnp.linalg.norm(last - weights))

    return one


def _rate_margins(result: Result) -> Float[np.ndarray, "a s t"]:
    """How far the loss stays below (1 − ημ)ᵗ 𝓛(0), with the least eigenvalue on the way as μ."""
    steps = np.arange(result.loss.shape[2])
    least = result.least.min(axis=2)
    bounds = descent_bound(
        result.loss[:, :, :1], result.learning_rate[:, :, None], least[:, :, None], steps
    )
    return bounds - result.loss


def _late_rates(result: Result) -> Float[np.ndarray, "a s"]:
    """−slope of log 𝓛 over the second half of the steps, by least squares."""
    half = result.loss.shape[2] // 2
    steps = np.arange(result.loss.shape[2] - half) - (result.loss.shape[2] - half - 1) / 2
    return -(np.log(result.loss[:, :, half:]) @ steps) / (steps @ steps)


CLAIMS = (
    CONDITION.claim(
        "At every step the ratio ‖∇𝓛‖²/2𝓛 is at least the kernel's least eigenvalue.",
        lambda r, c: holds(r.ratio - r.least, 1e-9),
        formula=r"\|\nabla \mathcal L\|^2 \ge 2 \lambda_{\min}(K) \mathcal L",
    ),
    CONDITION.claim("And at most its largest.", lambda r, c: holds(r.largest - r.ratio, 1e-9)),
    CONVERGENCE.claim(
        "The loss stays below (1 − ημ)ᵗ 𝓛(0), with μ the least eigenvalue on the way.",
        lambda r, c: holds(_rate_margins(r), 1e-9),
        formula=r"\mathcal L(t) \le (1 - \eta\mu)^t \mathcal L(0)",
    ),
    CONVERGENCE.control(
        "With the largest eigenvalue as μ it would not.",
        lambda r, c: median_at_most((_fast(r) - r.loss[0]).min(axis=1), 0.0),
    ),
    CONVERGENCE.claim(
        "The least eigenvalue falls by less than half while the network learns.",
        lambda r, c: median_at_most((1 - r.least / r.least[:, :, :1]).max(axis=(0, 2)), 0.5),
        formula=r"\inf_B \lambda_{\min}(K) \ge \mu",
    ),
    CONVERGENCE.claim(
        "The weights travel less than √(2𝓛(0)/μ), in every network: a ball is enough.",
        lambda r, c: holds(np.sqrt(2 * r.loss[:, :, 0] / r.least.min(axis=2)) - r.distance),
        formula=r"\|w_t - w_0\| \le \sqrt{2 \mathcal L(0) / \mu}",
    ),
    CONVERGENCE.claim(
        "The exponential rate that fits the second half is at least ημ, in every network.",
        lambda r, c: holds(_late_rates(r) - r.learning_rate * r.least.min(axis=2)),
    ),
    CONVERGENCE.claim(
        "Its median over ημ is at most 4: the bound is no empty one.",
        # The slowest mode alone would have 2: its loss is squared. Others die out before.
        lambda r, c: median_at_most(
            (_late_rates(r) / (r.learning_rate * r.least.min(axis=2)))[0], 4.0
        ),
    ),
)


def _fast(result: Result) -> Float[np.ndarray, "s t"]:
    """What the loss would stay below with the largest eigenvalue as μ, fully connected."""
    steps = np.arange(result.loss.shape[2])
    decay = 1 - result.learning_rate[0] * result.largest[0].min(axis=1)
    return result.loss[0, :, :1] * decay[:, None] ** steps[None, :]


def plot(result: Result, config: Config) -> Figure:
    """The loss and its bound, and the ratio between the eigenvalues, of the first seed."""
    figure, (loss, ratio) = panels("loss L, and (1 − ημ)ᵗ L(0)", "‖∇L‖²/2L between the eigenvalues")
    for kind, name in enumerate(NAMES):
        loss.semilogy(result.loss[kind, 0], label=name)
    loss.semilogy((_rate_margins(result) + result.loss)[0, 0], **THEORY)
    loss.legend(fontsize=7)
    ratio.semilogy(result.ratio[0, 0])
    for eigenvalue in (result.least, result.largest):
        ratio.semilogy(eigenvalue[0, 0], **THEORY)
    for axis in (loss, ratio):
        axis.set_xlabel("step")
    return figure
