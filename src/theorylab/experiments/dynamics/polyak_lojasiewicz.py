"""Gradient descent fits a wide network because its loss is small wherever its gradient is.

For the squared loss 𝓛 = ½ Σ (f − y)² with tangent kernel K, the ratio ‖∇𝓛‖²/2𝓛 is at least the
least eigenvalue of K. If that stays above some μ > 0 in a ball around the initial weights, as it
does in wide networks whose kernel hardly moves, gradient descent converges to zero loss at the rate
(1 − ημ)ᵗ without leaving the ball. That needs the kernel's least eigenvalue to be positive; for one
example it is ‖∇f‖², whose mean has a lower bound (`dynamics/gradient_bound`).

Source: zhu · pl-star · 2.4, Eq. 2.16.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, holds, median_at_least, median_at_most, median_between
from theorylab.data import sphere
from theorylab.dynamics import descent_bound, polyak_ratio
from theorylab.experiments.drawing import THEORY, label_axes, panels
from theorylab.fields import Plural, Seeded
from theorylab.kernels import ntk
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
CONVERGENCE = Source("zhu", "pl-star", "2.4")
BALL = Source("zhu", "pl-star", "2.4, extending PL* to a ball")

LOSS = squared("half_sum")
PART = 0.5  # learning rate times the largest eigenvalue of the first kernel


@dataclass(frozen=True)
class Config(Seeded):
    """Tanh networks on three kinds of graphs fit a few points."""

    width: Plural = 128  # neurons m of a hidden layer
    dimension: Plural = 8  # inputs d
    num_samples: Plural = 5  # points that are learned
    num_steps: Plural = 300  # steps of gradient descent, all of which are recorded
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
    keys = jax.random.split(run_key, len(graphs))
    found = dag_ensemble(_trained(x, config.num_steps), graphs, keys)
    shape = (len(NAMES), config.num_seeds)
    return jax.tree.map(lambda each: each.reshape(*shape, *each.shape[1:]), found)


def _trained(x: Float[Array, "n d"], num_steps: int):
    """Gradient descent, with loss, gradient and kernel at every step."""
    y = jnp.where(jnp.arange(x.shape[0]) % 2 == 0, 1.0, -1.0)[:, None]

    def one(apply: Apply, weights: Float[Array, " p"], key: RandomKey) -> Result:
        def spectrum(w: Float[Array, " p"]) -> Float[Array, " n"]:
            return jnp.linalg.eigvalsh(ntk(apply, w, x, method="jacobian"))

        rate = PART / spectrum(weights)[-1]

        def step(w: Float[Array, " p"], _: None):
            loss, gradient = jax.value_and_grad(lambda w: LOSS(apply(w, x), y))(w)
            values = spectrum(w)
            ratio = jnp.asarray(polyak_ratio(jnp.vdot(gradient, gradient), loss))
            return w - rate * gradient, (loss, ratio, values[0], values[-1])

        last, records = jax.lax.scan(step, weights, length=num_steps)
        return Result(*records, rate, jnp.linalg.norm(last - weights))

    return one


def _margins(result: Result, ratio: Float[np.ndarray, "a s"]) -> Float[np.ndarray, "a s t"]:
    """How far the loss stays below (1 − ημ)ᵗ 𝓛(0), for one μ of every network."""
    steps, rate = np.arange(result.loss.shape[2]), result.learning_rate[..., None]
    return descent_bound(result.loss[..., :1], rate, ratio[..., None], steps) - result.loss


def _late_rates(result: Result) -> Float[np.ndarray, "a s"]:
    """−slope of log 𝓛 over the second half of the steps, by least squares, over ημ."""
    late = result.loss[:, :, result.loss.shape[2] // 2 :]
    steps = np.arange(late.shape[2]) - (late.shape[2] - 1) / 2
    slopes = -(np.log(late) @ steps) / (steps @ steps)
    return slopes / (result.learning_rate * result.least.min(axis=2))


def _travelled(result: Result) -> Float[np.ndarray, "a s"]:
    """How far the weights went, over √(2𝓛(0)/μ)."""
    return result.distance / np.sqrt(2 * result.loss[:, :, 0] / result.least.min(axis=2))


CLAIMS = (
    CONDITION.claim(
        "At every step the ratio ‖∇𝓛‖²/2𝓛 is at least the kernel's least eigenvalue.",
        lambda r, c: holds(r.ratio - r.least, 1e-9),
        formula=r"\|\nabla \mathcal L\|^2 \ge 2 \lambda_{\min}(K) \mathcal L",
    ),
    CONDITION.control(
        "Twice the least eigenvalue is no bound: the ratio falls below it, on every graph.",
        lambda r, c: median_at_most((r.ratio / r.least).min(axis=2).max(axis=0), 2.0),
        demand="derived: late in training only the slowest mode is left, where the ratio is λ_min",
    ),
    CONVERGENCE.claim(
        "Convergence is exponential: the loss stays below (1 − ημ)ᵗ 𝓛(0), with μ the least"
        " eigenvalue on the way.",
        lambda r, c: holds(_margins(r, r.least.min(axis=2)), 1e-9),
        formula=r"\mathcal L(t) \le (1 - \eta\mu)^t \mathcal L(0)",
        quote="sufficient for exponential convergence of optimization to a global minimum",
        demand="derived: 𝓛(t + 1) ≤ (1 − ημ) 𝓛(t) for η ≤ 1/λ_max, to first order in K's change",
    ),
    CONVERGENCE.control(
        "With the largest eigenvalue as μ it would not stay below.",
        lambda r, c: median_at_most(
            _margins(r, r.largest.min(axis=2))[..., 1:].min(axis=2).max(axis=0), 0.0
        ),
    ),
    CONVERGENCE.found(
        "The exponential rate that fits the second half is 1 to 4 times ημ.",
        lambda r, c: median_between(_late_rates(r).mean(axis=0), 1.0, 4.0),
        demand="derived: the slowest mode alone has 2, for its loss is squared; others die out",
    ),
    BALL.claim(
        "The kernel's least eigenvalue is bounded from 0 on the way: it keeps at least half.",
        lambda r, c: median_at_least((r.least / r.least[:, :, :1]).min(axis=(0, 2)), 0.5),
        formula=r"\inf_B \lambda_{\min}(K) \ge \mu",
        quote="is lower bounded from 0 in the whole ball",
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    BALL.claim(
        "A ball is enough: the weights travel less than √(2𝓛(0)/μ), in every network.",
        lambda r, c: holds(1 - _travelled(r)),
        formula=r"\|w_t - w_0\| \le \sqrt{2 \mathcal L(0) / \mu}",
        quote="guarantees a fast converge of the algorithm to a global minimum in this ball",
        demand="derived: the flow has d√𝓛/dt ≤ −√(μ/2) ‖∇𝓛‖, and so at most this length",
    ),
    BALL.control(
        "A quarter of this radius is not enough.",
        lambda r, c: median_at_least(_travelled(r).max(axis=0), 0.25),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """The loss and its bound, and the ratio between the eigenvalues, of the first seed."""
    figure, (loss, ratio) = panels("loss L, and (1 − ημ)ᵗ L(0)", "‖∇L‖²/2L between the eigenvalues")
    for kind, name in enumerate(NAMES):
        loss.plot(result.loss[kind, 0], label=name)
    loss.plot((_margins(result, result.least.min(axis=2)) + result.loss)[0, 0], **THEORY)
    loss.legend(fontsize=7)
    ratio.plot(result.ratio[0, 0])
    for eigenvalue in (result.least, result.largest):
        ratio.plot(eigenvalue[0, 0], **THEORY)
    for axis in (loss, ratio):
        label_axes(axis, "step", logarithmic="y")
    return figure
