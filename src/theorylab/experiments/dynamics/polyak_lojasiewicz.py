"""Why descent fits a wide network: its loss is small wherever its gradient is.

For the squared loss 𝓛 = ½ Σ (f − y)² with tangent kernel K, the ratio μ = ‖∇𝓛‖²/2𝓛 lies between
the extreme eigenvalues of K. If μ stays away from 0 in a ball around the initial weights, as it
does in wide networks whose kernel hardly moves, gradient descent converges to zero loss at the rate
(1 − ημ)ᵗ without leaving the ball. That needs the kernel's least eigenvalue to be positive; for one
example it is ‖∇f‖², whose mean has a lower bound on any graph.

The source prints this bound for the mean of ‖∇f‖ itself, through an inequality of Jensen's that
points the other way. For fully connected ReLU networks E ‖∇f‖² = L 2^(1−L) exactly.

Source: zhu · pl-star · 2.4, Eq. 2.16, Prop. 2.4.4, A.7.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, holds, identity, mean_between, median_at_most
from theorylab.data import sphere
from theorylab.dynamics import descent_bound, gradient_bound, polyak_ratio, relu_gradient_square
from theorylab.experiments.checks import count_fields, refuse_below
from theorylab.experiments.drawing import THEORY, panels
from theorylab.models import Dag
from theorylab.models.dag_builders import densely_connected, drop_edges, fully_connected
from theorylab.models.dag_network import Wiring, wire
from theorylab.models.families import ABReLU
from theorylab.progress import report
from theorylab.training import dag_ensemble, squared
from theorylab.typing import Apply, RandomKey

PRECISION = "float64"
FORMULA = (
    r"\|\nabla \mathcal L\|^2 \ge 2 \mu \mathcal L,"
    r" \quad \mathcal L(t) \le (1 - \eta\mu)^t \mathcal L(0)"
)

CONDITION = Source("zhu", "pl-star", "Eq. 2.16")
CONVERGENCE = Source("zhu", "pl-star", "2.4, A.7")
MOMENT = Source("zhu", "pl-star", "Prop. 2.4.4")

LOSS = squared("half_sum")
NAMES = ("fully connected", "densely connected", "half of the edges")
FACTORS, POINTS = np.array([[2.0], [-2.0]]), np.linspace(-2.0, 2.0, 9)[None, :]


@dataclass(frozen=True)
class Config:
    """Tanh networks on three kinds of graphs fit a few points; ReLU networks give gradients."""

    width: int = 128  # neurons m of a hidden layer
    num_inputs: int = 8  # inputs d
    num_samples: int = 5  # points that are learned
    num_steps: int = 300  # steps of gradient descent, all of which are recorded
    learning_rate: float = 0.5  # over one over the largest eigenvalue of the first kernel
    num_seeds: int = 8  # random networks of each kind that are trained
    num_draws: int = 4000  # random networks of each kind whose gradients are averaged
    gradient_width: int = 16  # neurons of their hidden layers
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_below(self, 1, "gradient_width")
        refuse_below(self, 2, *count_fields(self))
        if min(self.width, self.gradient_width) < 2:
            raise ValueError(
                f"widths must be at least 2, got {self.width} and {self.gradient_width}."
            )
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate must be in (0, 1), got {self.learning_rate}.")


PRESETS = {
    "smoke": Config(width=48, num_steps=120, num_draws=2000, gradient_width=8),
    "paper": Config(width=2048, num_samples=50, num_steps=3000, num_draws=20000),
}


class Result(NamedTuple):
    """Axes: a kinds of graphs (`NAMES`), s seeds, t steps, q draws."""

    loss: Float[np.ndarray, "a s t"]
    ratio: Float[np.ndarray, "a s t"]  # ‖∇𝓛‖²/2𝓛
    least: Float[np.ndarray, "a s t"]  # least eigenvalue of the kernel
    largest: Float[np.ndarray, "a s t"]
    learning_rate: Float[np.ndarray, "a s"]
    distance: Float[np.ndarray, "a s"]  # that the weights travelled
    gradient_squares: Float[np.ndarray, "a q"]  # ‖∇f‖² of ReLU networks of three layers
    narrow_gradients: Float[np.ndarray, " q"]  # ‖∇f‖ of one neuron with φ = √2 ReLU, one input
    gradient_bound: float  # of E ‖∇f‖², three layers of ReLU
    narrow_bound: float  # two layers of √2 ReLU
    exact: float  # L 2^(1−L) at L = 3
    scaled: Float[np.ndarray, "2 z"]  # φ(az) of ReLU with a = 2 and −2
    multiplied: Float[np.ndarray, "2 z"]  # aφ(z)


class Run(NamedTuple):
    """One network's training, step by step."""

    loss: Float[Array, " t"]
    ratio: Float[Array, " t"]
    least: Float[Array, " t"]
    largest: Float[Array, " t"]
    learning_rate: Float[Array, ""]
    distance: Float[Array, ""]


def memory(config: Config) -> int:
    """Bytes of Jacobians on two cores, of the wirings, and of the networks that are averaged."""
    weights = config.width * (2 * config.width + 2 * config.num_inputs)
    drawn = config.gradient_width * (2 * config.gradient_width + 2 * config.num_inputs)
    return 32 * (config.num_samples + config.num_seeds) * weights + 24 * config.num_draws * drawn


def run(config: Config) -> Result:
    """Train on all three kinds of graphs, then average gradients."""
    report("gradient descent on three kinds of graphs", 0.05)
    x_key, graph_key, run_key, draw_key = jax.random.split(jax.random.key(config.seed), 4)
    d = config.num_inputs
    x = sphere(x_key, config.num_samples, d, radius=math.sqrt(d))
    graphs = [
        graph
        for graph in _kinds(graph_key, d, config.width, "tanh")
        for _ in range(config.num_seeds)
    ]
    trained = _trained(x, config.num_steps, config.learning_rate)
    found: Run = dag_ensemble(trained, graphs, jax.random.split(run_key, len(graphs)))
    shape = (len(NAMES), config.num_seeds)
    report("gradients of random networks", 0.7)
    kinds = _kinds(graph_key, d, config.gradient_width, "relu")
    root = ABReLU(0.0, math.sqrt(2.0))  # √2 ReLU, for which C = 1
    narrow = _gradient_squares([fully_connected(1, [1], activation=root)], draw_key, config)
    return Result(
        *(np.asarray(each).reshape(*shape, *each.shape[1:]) for each in found),
        gradient_squares=_gradient_squares(kinds, draw_key, config),
        narrow_gradients=np.sqrt(narrow[0]),
        gradient_bound=gradient_bound(0.5, depth=3),
        narrow_bound=gradient_bound(1.0, depth=2),
        exact=relu_gradient_square(3),
        scaled=np.maximum(FACTORS * POINTS, 0.0),
        multiplied=FACTORS * np.maximum(POINTS, 0.0),
    )


def _kinds(key: RandomKey, d: int, width: int, activation: str) -> list[Dag]:
    """The graphs, in the order of `NAMES`."""
    dense = densely_connected(d, [width, width], activation=activation)
    plain = fully_connected(d, [width, width], activation=activation)
    return [plain, dense, drop_edges(key, dense, 0.5)]


def _trained(x: Float[Array, "n d"], num_steps: int, learning_rate: float):
    """Gradient descent, with loss, gradient and kernel at every step."""
    y = jnp.where(jnp.arange(x.shape[0]) % 2 == 0, 1.0, -1.0)[:, None]

    def one(apply: Apply, weights: Float[Array, " p"], key: RandomKey) -> Run:
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
        return Run(*records, rate, jnp.linalg.norm(last - weights))

    return one


def _gradient_squares(
    graphs: list[Dag], key: RandomKey, config: Config
) -> Float[np.ndarray, "a q"]:
    """‖∇f‖² at x ~ N(0, I), for many networks on every graph."""
    wired, wirings = wire(graphs)
    d, num_weights = len(graphs[0].inputs), wirings.numbers.shape[1]

    def one(wiring: Wiring, draws: Float[Array, " q"]) -> Float[Array, ""]:
        x, weights = draws[None, :d], draws[d:]
        return jnp.sum(jax.grad(lambda w: wired(wiring, w, x)[0, 0])(weights) ** 2)

    draws = jax.random.normal(key, (config.num_draws, d + num_weights))
    every = jax.vmap(jax.vmap(one, in_axes=(None, 0)), in_axes=(0, None))
    return np.asarray(jax.jit(every)(wirings, draws))


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
    Claim(
        "At every step the ratio ‖∇𝓛‖²/2𝓛 is at least the kernel's least eigenvalue.",
        judge=lambda r, c: holds(r.ratio - r.least, 1e-9),
        source=CONDITION,
        formula=r"\|\nabla \mathcal L\|^2 \ge 2 \lambda_{\min}(K) \mathcal L",
    ),
    Claim(
        "And at most its largest.",
        judge=lambda r, c: holds(r.largest - r.ratio, 1e-9),
        source=CONDITION,
    ),
    Claim(
        "The loss stays below (1 − ημ)ᵗ 𝓛(0), with μ the least eigenvalue on the way.",
        judge=lambda r, c: holds(_rate_margins(r), 1e-9),
        source=CONVERGENCE,
        formula=r"\mathcal L(t) \le (1 - \eta\mu)^t \mathcal L(0)",
    ),
    Claim(
        "With the largest eigenvalue as μ it would not.",
        judge=lambda r, c: median_at_most((_fast(r) - r.loss[0]).min(axis=1), 0.0),
        source=CONVERGENCE,
        kind="control",
    ),
    Claim(
        "The least eigenvalue falls by less than half while the network learns.",
        judge=lambda r, c: median_at_most((1 - r.least / r.least[:, :, :1]).max(axis=(0, 2)), 0.5),
        source=CONVERGENCE,
        formula=r"\inf_B \lambda_{\min}(K) \ge \mu",
    ),
    Claim(
        "The weights travel less than √(2𝓛(0)/μ), in every network: a ball is enough.",
        judge=lambda r, c: holds(np.sqrt(2 * r.loss[:, :, 0] / r.least.min(axis=2)) - r.distance),
        source=CONVERGENCE,
        formula=r"\|w_t - w_0\| \le \sqrt{2 \mathcal L(0) / \mu}",
    ),
    Claim(
        "The exponential rate that fits the second half is at least ημ, in every network.",
        judge=lambda r, c: holds(_late_rates(r) - r.learning_rate * r.least.min(axis=2)),
        source=CONVERGENCE,
    ),
    Claim(
        "Its median over ημ is at most 4: the bound is no empty one.",
        # The slowest mode alone would have 2: its loss is squared. Others die out before.
        judge=lambda r, c: median_at_most(
            (_late_rates(r) / (r.learning_rate * r.least.min(axis=2)))[0], 4.0
        ),
        source=CONVERGENCE,
    ),
    Claim(
        "The mean of ‖∇f‖² is above its bound in fully connected networks.",
        judge=lambda r, c: _above(r.gradient_squares[0], r.gradient_bound),
        source=MOMENT,
        kind="corrected",
        formula=r"\mathbb E \|\nabla f\|^2 \ge \min(1, \min_j C^{1 + r + \dots + r^{j-1}})",
    ),
    Claim(
        "It is so in densely connected ones.",
        judge=lambda r, c: _above(r.gradient_squares[1], r.gradient_bound),
        source=MOMENT,
    ),
    Claim(
        "It is so in ones without half of their edges.",
        judge=lambda r, c: _above(r.gradient_squares[2], r.gradient_bound),
        source=MOMENT,
    ),
    Claim(
        "The mean of ‖∇f‖ is above the root of the bound, at one neuron with φ = √2 ReLU.",
        judge=lambda r, c: _above(r.narrow_gradients, math.sqrt(r.narrow_bound)),
        source=MOMENT,
        kind="printed",
        formula=r"\mathbb E \|\nabla f\| \ge \sqrt{\min(1, \min_j C^{1 + r + \dots + r^{j-1}})}",
    ),
    Claim(
        "A homogeneous φ obeys φ(az) = aʳφ(z) for every a: ReLU with a = −2.",
        judge=lambda r, c: identity(r.scaled[1], r.multiplied[1], 1e-12),
        source=MOMENT,
        kind="printed",
    ),
    Claim(
        "It obeys it for a > 0: ReLU with a = 2.",
        judge=lambda r, c: identity(r.scaled[0], r.multiplied[0], 1e-12),
        source=MOMENT,
        kind="corrected",
        formula=r"\phi(az) = a^r \phi(z), \quad a > 0",
    ),
    Claim(
        "There the mean of ‖∇f‖² is above the bound.",
        judge=lambda r, c: _above(r.narrow_gradients**2, r.narrow_bound),
        source=MOMENT,
        kind="corrected",
    ),
    Claim(
        "In fully connected ReLU networks of three layers the mean of ‖∇f‖² is 3/4.",
        # A tenth tells it from 1 and ½, which two and four layers have.
        judge=lambda r, c: mean_between(r.gradient_squares[0], 0.9 * r.exact, 1.1 * r.exact),
        source=MOMENT,
        formula=r"\mathbb E \|\nabla f\|^2 = L \, 2^{1 - L}",
    ),
)


def _above(samples: Float[np.ndarray, " q"], bound: float):
    return mean_between(samples, bound, math.inf)


def _fast(result: Result) -> Float[np.ndarray, "s t"]:
    """What the loss would stay below with the largest eigenvalue as μ, fully connected."""
    steps = np.arange(result.loss.shape[2])
    decay = 1 - result.learning_rate[0] * result.largest[0].min(axis=1)
    return result.loss[0, :, :1] * decay[:, None] ** steps[None, :]


def plot(result: Result, config: Config) -> Figure:
    """The loss and its bound, the ratio between the eigenvalues, and gradients."""
    figure, (loss, ratio, gradients) = panels(
        "loss L, and (1 − ημ)ᵗ L(0)", "‖∇L‖²/2L between the eigenvalues", "‖∇f‖², mean and bound"
    )
    bounds = _rate_margins(result) + result.loss
    for kind, name in enumerate(NAMES):
        loss.semilogy(result.loss[kind, 0], label=name)
    loss.semilogy(bounds[0, 0], **THEORY)
    loss.legend(fontsize=7)
    ratio.semilogy(result.ratio[0, 0])
    ratio.semilogy(result.least[0, 0], **THEORY)
    ratio.semilogy(result.largest[0, 0], **THEORY)
    for axis in (loss, ratio):
        axis.set_xlabel("step")
    gradients.bar(range(len(NAMES)), result.gradient_squares.mean(axis=1))
    gradients.axhline(result.gradient_bound, **THEORY)
    gradients.set_xticks(range(len(NAMES)), NAMES, fontsize=7)
    return figure
