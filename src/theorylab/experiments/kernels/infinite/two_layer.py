"""A two-layer network becomes its kernel as m^(−1/2): in its start, its movement, its predictions.

In f(x) = m^(−1/2) Σᵣ aᵣ σ(wᵣᵀx) with ‖x‖ = 1 and fixed signs aᵣ, only the rows wᵣ learn. The
tangent kernel H begins near its limit H*, moves little in training, and so does every row; all rows
together move by √(yᵀH*⁻¹y), at every large width the same. What the network predicts goes to
what the kernel H* predicts. All of this is compared at widths m over two decades, from outputs
that begin at 0 (the initial ones are subtracted).

The labels sign(x₁) are fitted to the end. Labels that grow as √m, which is the same as an output
scale 1/m, are the negative control: rows then move as much at every width.

The source prints the kernel without the factor xᵀx′, and its proof asks ε/n² of every entry where
ε/n gives ‖H − H*‖ ≤ ε with the width that it states.

Source: arora · ntk-2layer · §9.2, Eqs 9.6, 9.8, Lemmas 9.2.2–9.2.3, Ex. 9.6.1–9.6.2.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    exponent_between,
    holds,
    median_at_least,
    median_at_most,
    median_between,
)
from theorylab.data import sphere
from theorylab.experiments.drawing import THEORY, curves, label_axes, panels, scaling
from theorylab.fields import Count, Increasing, OpenFraction, Seeded
from theorylab.kernels import dual, two_layer
from theorylab.progress import report
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = (
    r"H^*(x, x') = x^\top x'\,\mathbb{E}\,\sigma'(w^\top x)\,\sigma'(w^\top x'), \quad"
    r" \|W(\infty) - W(0)\|_F \to \sqrt{y^\top (H^*)^{-1} y}"
)

KERNEL = Source("arora", "ntk-2layer", "Eq. 9.8, Ex. 9.6.1")
INITIAL = Source("arora", "ntk-2layer", "Lemma 9.2.2")
TRAINING = Source("arora", "ntk-2layer", "Lemma 9.2.3")
PREDICTION = Source("arora", "ntk-2layer", "§9.1.1, Eq. 9.6")
TRAVEL = Source("arora", "ntk-2layer", "Ex. 9.6.2")
NUM_RECORDS = 10


@dataclass(frozen=True)
class Config(Seeded):
    """Two-layer networks of growing width, trained in their first layer to the end."""

    widths: Increasing[Count] = (100, 400, 1600, 6400, 25600)  # neurons m
    num_samples: Count = 50  # points on the sphere n, labelled by the sign of x₁
    dimension: Count = 20  # inputs d
    num_test: Count = 100  # points where network and kernel are compared
    num_steps: Count = 150  # steps of gradient descent, a multiple of 10
    learning_rate: OpenFraction = 0.6  # in units of the critical one, 2/λ_max(H*)
    delta: OpenFraction = 0.1  # probability δ with which the bound on all entries may fail
    num_seeds: Count = 8  # networks at each width that are trained
    num_draws: Count = 8  # random networks of each seed whose squared initial errors are averaged

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_steps % NUM_RECORDS:
            raise ValueError(f"num_steps must be a multiple of 10, got {self.num_steps}.")


PRESETS = {
    "smoke": Config(widths=(100, 600, 3600), num_samples=20, num_steps=60, num_seeds=16),
    "paper": Config(widths=(100, 400, 1600, 6400, 25600, 102400), num_seeds=100),
}


class Start(NamedTuple):
    """H(0) of one network against H*; norms are spectral."""

    error: Float[Array, "..."]  # ‖H(0) − H*‖
    printed_error: Float[Array, "..."]  # the same against the kernel without xᵀx′
    largest_entry: Float[Array, "..."]  # of |H(0) − H*|
    projection: Float[Array, "..."]  # ⟨H(0), H*⟩/⟨H*, H*⟩


class Training(NamedTuple):
    """What training does to the network of every seed; axes: s seeds, w widths, t times."""

    kernel_movement: Float[Array, "..."]  # ‖H(T) − H(0)‖
    row_movement: Float[Array, "..."]  # the largest ‖wᵣ(T) − wᵣ(0)‖
    row_ratio: Float[Array, "..."]  # least of tn/√m over it, along training
    total_movement: Float[Array, "..."]  # ‖W(T) − W(0)‖_F
    prediction_gap: Float[Array, "..."]  # network and kernel, relative root mean square
    rich_movement: Float[Array, "..."]  # of the rows, with labels that grow as √m
    loss: Float[Array, "... t"]  # ½‖u − y‖²


class Result(NamedTuple):
    """Axes: q draws, s seeds, w widths, t recorded times."""

    start: Start  # (q, s, w)
    training: Training  # (s, w)
    entry_bound: Float[np.ndarray, " w"]  # 4√(log(n/δ)/m)
    movement_limit: Float[Array, ""]  # √(yᵀH*⁻¹y)
    smooth_ratio: Float[Array, " s"]  # least of 2tn²/√m over ‖H − H(0)‖, with softplus
    kernel_loss: Float[Array, " t"]  # ½‖u − y‖² of the kernel H*
    times: Float[Array, " t"]  # step size times the number of steps


class Task(NamedTuple):
    """What all networks are trained and compared on."""

    x: Float[Array, "n d"]
    y: Float[Array, " n"]
    tests: Float[Array, "n2 d"]
    limit: Float[Array, "n n"]  # H*
    printed: Float[Array, "n n"]
    prediction: Float[Array, " n2"]  # of the kernel, at the tests
    learning_rate: Float[Array, ""]


def run(config: Config) -> Result:
    """Draw the widest networks; train those of every width, which are their first neurons."""
    report("the kernel's limit", 0.0)
    data_key, network_key = jax.random.split(jax.random.key(config.seed))
    task = _task(data_key, config)
    widest = jax.jit(
        jax.vmap(partial(two_layer.init, width=config.widths[-1], dimension=config.dimension))
    )
    report("random networks", 0.03)
    keys = jax.random.split(network_key, (config.num_draws, config.num_seeds))
    starts = [_start(task, widest(row), config.widths) for row in keys]
    networks = widest(keys[0])
    costs = np.cumsum([0, *config.widths]) / sum(config.widths)
    measured = []
    for width, done in zip(config.widths, costs, strict=False):
        report(f"networks of width {width}", 0.1 + 0.85 * float(done))
        first = jax.tree.map(lambda leaf: leaf[:, :width], networks)  # noqa: B023
        growth = (width / config.widths[0]) ** 0.5
        measured.append(_trained(task, first, jnp.array([1.0, growth]), config.num_steps))
    report("a smooth activation", 0.95)
    narrow = jax.tree.map(lambda leaf: leaf[:, : config.widths[0]], networks)
    steps = jnp.linspace(0.0, config.num_steps, NUM_RECORDS + 1)
    return Result(
        start=jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts),
        training=jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *measured),
        entry_bound=two_layer.entrywise_bound(
            np.asarray(config.widths, float), config.num_samples, config.delta
        ),
        movement_limit=two_layer.movement_limit(task.limit, task.y),
        smooth_ratio=_smooth_ratios(task, narrow, config.num_steps),
        kernel_loss=_kernel_loss(task, steps),
        times=task.learning_rate * steps,
    )


def _task(key: RandomKey, config: Config) -> Task:
    points = sphere(key, config.num_samples + config.num_test, config.dimension)
    x, tests = points[: config.num_samples], points[config.num_samples :]
    y = jnp.sign(x[:, 0])
    limit, one = two_layer.limit_kernel(x), jnp.ones((1, 1))
    prediction = two_layer.limit_kernel(tests, x) @ jnp.linalg.solve(limit, y)
    rate = config.learning_rate * 2 / jnp.linalg.eigvalsh(limit)[-1]
    return Task(x, y, tests, limit, dual("relu", one, one, x @ x.T).derivative, prediction, rate)


def _kernel_loss(task: Task, steps: Float[Array, " t"]) -> Float[Array, " t"]:
    """½ Σᵢ (1 − ηλᵢ)^(2k) (vᵢᵀy)² after k steps: the loss of the kernel H*."""
    eigenvalues, vectors = jnp.linalg.eigh(task.limit)
    factors = jnp.abs(1 - task.learning_rate * eigenvalues)
    return 0.5 * (factors[None, :] ** (2 * steps[:, None])) @ (vectors.T @ task.y) ** 2


@partial(jax.jit, static_argnums=2)
def _start(task: Task, networks: two_layer.Network, widths: tuple[int, ...]) -> Start:
    """H(0) against H* and against the kernel as printed, at all widths of every seed."""

    def at(network: two_layer.Network) -> Start:
        kernel = two_layer.tangent_kernel(network, task.x)
        return Start(
            error=jnp.linalg.norm(kernel - task.limit, 2),
            printed_error=jnp.linalg.norm(kernel - task.printed, 2),
            largest_entry=jnp.abs(kernel - task.limit).max(),
            projection=jnp.vdot(kernel, task.limit) / jnp.vdot(task.limit, task.limit),
        )

    def one(network: two_layer.Network) -> Start:
        weights, signs = network
        every = [at(two_layer.Network(weights[:m], signs[:m])) for m in widths]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *every)

    return jax.lax.map(one, networks)


@partial(jax.jit, static_argnums=3)
def _trained(
    task: Task, networks: two_layer.Network, scales: Float[Array, " 2"], num_steps: int
) -> Training:
    """What training does to every seed's network, by labels y and by larger ones."""

    def one(network: two_layer.Network) -> Training:
        both = jax.lax.map(
            lambda scale: _descended(task, network, scale * task.y, num_steps), scales
        )
        lazy = jax.tree.map(lambda leaf: leaf[0], both)
        before, after = (two_layer.outputs(net, task.tests) for net in (network, lazy.network))
        rows = two_layer.row_movement_bound(lazy.times[1:], len(task.x), len(network.signs))
        gap = jnp.linalg.norm(after - before - task.prediction)
        return Training(
            kernel_movement=lazy.kernel_movement[-1],
            row_movement=lazy.row_movement[-1],
            row_ratio=(rows / lazy.row_movement[1:]).min(),
            total_movement=jnp.linalg.norm(lazy.network.weights - network.weights),
            prediction_gap=gap / jnp.linalg.norm(task.prediction),
            rich_movement=both.row_movement[1, -1],
            loss=0.5 * jnp.sum((lazy.outputs - task.y[None, :]) ** 2, axis=1),
        )

    return jax.lax.map(one, networks)


@partial(jax.jit, static_argnums=2)
def _smooth_ratios(task: Task, networks: two_layer.Network, num_steps: int) -> Float[Array, " s"]:
    """How far softplus networks, of which σ″ ≤ 1, stay below the bound on their kernel."""

    def one(network: two_layer.Network) -> Float[Array, ""]:
        run = _descended(task, network, task.y, num_steps, "softplus")
        width = len(network.signs)
        bounds = two_layer.kernel_movement_bound(run.times[1:], len(task.x), width)
        return (bounds / run.kernel_movement[1:]).min()

    return jax.lax.map(one, networks)


def _descended(
    task: Task,
    network: two_layer.Network,
    y: Float[Array, " n"],
    num_steps: int,
    activation: str = "relu",
) -> two_layer.FirstLayerTraining:
    steps = (NUM_RECORDS, num_steps // NUM_RECORDS)
    return two_layer.descend(network, task.x, y, task.learning_rate, *steps, activation)


def _rms(errors: Any) -> Float[np.ndarray, "s w"]:
    """The root mean square over draws: the error of a single network varies much."""
    return np.sqrt(np.mean(errors**2, axis=0))


def _entries(result: Any) -> Float[np.ndarray, "q s w"]:
    """The largest entry of |H(0) − H*| over the ε/n = 4√(log(n/δ)/m) of its width."""
    return result.start.largest_entry / result.entry_bound[None, None]


CLAIMS = (
    *KERNEL.erratum(
        printed=(
            "The kernel of random networks goes to its limit without xᵀx′ as m^(−1/2).",
            lambda r, c: exponent_between(c.widths, _rms(r.start.printed_error), -0.6, -0.4),
            r"H^*(x, x') = \frac{\pi - \arccos x^\top x'}{2\pi}",
        ),
        corrected=(
            "The kernel of random networks goes to its limit with xᵀx′ as m^(−1/2).",
            lambda r, c: exponent_between(c.widths, _rms(r.start.error), -0.6, -0.4),
            r"H^*(x, x') = x^\top x'\,\frac{\pi - \arccos x^\top x'}{2\pi}",
        ),
        quote="noting that it is differentiable everywhere except at one point",
    ),
    INITIAL.claim(
        "H(0) converges to H*: its projection is 1, to 1 % at the largest width.",
        lambda r, c: median_between(r.start.projection[..., -1].mean(axis=0), 0.99, 1.01),
        regime="max(widths) >= 3600 and num_draws >= 8",
        demand="lab: 1 %; a mean over 8 networks of width 3600 fluctuates by 0.2 %",
    ),
    *INITIAL.erratum(
        printed=(
            "At the width 16n²log(n/δ)/ε² all entries are within ε/n² of H*.",
            lambda r, c: holds(1 / c.num_samples - _entries(r)),
        ),
        corrected=(
            "At the width 16n²log(n/δ)/ε² all entries are within ε/n of H*, so ‖H(0) − H*‖ ≤ ε.",
            lambda r, c: holds(1 - _entries(r)),
            r"|H(0) - H^*|_{ij} \le 4\sqrt{\log(n/\delta)/m} = \epsilon/n",
        ),
        quote="applying the union bound over all pairs",
    ),
    INITIAL.control(
        "Bounds ten times smaller on entries, and forty times on rows, are exceeded.",
        lambda r, c: median_at_least(
            np.minimum(
                10 * np.median(_entries(r)[..., -1], axis=0), 40 / r.training.row_ratio[:, -1]
            ),
            1.0,
        ),
        demand="lab: a smoke run is below the bound on rows by a factor of 19",
    ),
    TRAINING.claim(
        "In training the kernel moves by O(m^(−1/2)).",
        lambda r, c: exponent_between(c.widths, r.training.kernel_movement, -np.inf, -0.45),
        formula=r"\|H(t) - H(0)\| = O(t n^3/\sqrt{m})",
        demand="lab: the source's −½, and 0.05 for finite widths; other seeds gave −0.62, −0.61",
    ),
    TRAINING.claim(
        "The row that moves most moves as m^(−1/2), and never by more than tn/√m.",
        lambda r, c: exponent_between(
            c.widths,
            np.where(r.training.row_ratio >= 1, r.training.row_movement, np.nan),
            -0.6,
            -0.4,
        ),
        formula=r"\max_r \|w_r(t) - w_r(0)\| = O(t n/\sqrt{m})",
        demand="derived: the proof's O(1) is 1, for |y − u|, |σ′| and ‖x‖ at most 1; ± 0.1 is ours",
    ),
    TRAINING.claim(
        "With a smooth activation the kernel never moves by more than 2tn²/√m.",
        lambda r, c: holds(r.smooth_ratio - 1),
        formula=r"\|H(t) - H(0)\| \le 2 t n^2/\sqrt{m} = O(t n^3/\sqrt{m})",
        demand="derived: |ΔH_ij| ≤ 2 max‖Δw‖ for |σ′|, |σ″| ≤ 1, and ‖ΔH‖ ≤ n max|ΔH_ij|",
    ),
    TRAVEL.found(
        "All rows together move by √(yᵀH*⁻¹y), to 1 % at the largest width.",
        lambda r, c: median_at_most(
            np.abs(r.training.total_movement[:, -1] / r.movement_limit - 1), 0.01
        ),
        formula=r"\|W(\infty) - W(0)\|_F \to \sqrt{y^\top (H^*)^{-1} y}",
        demand="lab: 9.03 against 9.013 in a run of width 25,600",
    ),
    PREDICTION.claim(
        "On new points the network goes to the kernel's predictions, as m^(−1/2).",
        lambda r, c: exponent_between(c.widths, r.training.prediction_gap, -0.6, -0.4),
        formula=r"f^*(x) = (k(x, x_1), \dots, k(x, x_n)) (H^*)^{-1} y",
        demand="lab: −½ ± 0.1",
    ),
    TRAINING.control(
        "With labels that grow as √m, rows move as much at every width.",
        lambda r, c: exponent_between(c.widths, r.training.rich_movement, -0.15, 0.15),
    ),
)


def plot(result: Any, config: Config) -> Figure:
    """Draw the kernel's errors, the movements and the loss."""
    start, training, widths = result.start, result.training, config.widths
    figure, (kernel, movement, total, loss) = panels(
        "kernel", "rows and predictions", "all rows together", "loss at each width"
    )
    errors = {
        "‖H(0) − H*‖": _rms(start.error),
        "the same, without xᵀx′": _rms(start.printed_error),
        "‖H(T) − H(0)‖": training.kernel_movement,
        "largest entry of H(0) − H*": start.largest_entry.max(axis=0),
    }
    scaling(kernel, widths, errors)
    kernel.plot(widths, result.entry_bound, label="4√(log(n/δ)/m)", **THEORY)
    movements = {
        "largest ‖wᵣ(T) − wᵣ(0)‖": training.row_movement,
        "with labels ∝ √m": training.rich_movement,
        "predictions against the kernel's": training.prediction_gap,
    }
    scaling(movement, widths, movements, -0.5)
    curves(total, widths, {"‖W(T) − W(0)‖_F": training.total_movement})
    total.axhline(float(result.movement_limit), label="√(yᵀH*⁻¹y)", **THEORY)
    curves(loss, result.times, {f"m = {m}": training.loss[:, i] for i, m in enumerate(widths)})
    loss.plot(result.times, result.kernel_loss, label="kernel H*", **THEORY)
    loss.set(ylim=(1e-8 * result.kernel_loss[0], 2 * result.kernel_loss[0]))
    for axis, name, logarithmic in (
        (kernel, "width m", "xy"),
        (movement, "width m", "xy"),
        (total, "width m", "x"),
        (loss, "time", "y"),
    ):
        label_axes(axis, name, logarithmic=logarithmic)
        axis.legend(fontsize=6)
    return figure
