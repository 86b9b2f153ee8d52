"""A wide network's tangent kernel has a known limit; in the NTK parametrization training keeps it.

The tangent kernel Θ(x, x′) = ⟨∂f(x)/∂w, ∂f(x′)/∂w⟩ of a random network of width m goes to a limit
that has a closed form, with an error proportional to m^(−1/2); here for one to three hidden layers.
What training does to it depends on how initial scales and learning rates grow with the width. In
the NTK parametrization it moves by 1/m: the network becomes a kernel machine. In μP, which is the
mean-field parametrization where there is one hidden layer, the kernel (each parameter counted
with its own learning rate) is the same at first, and moves as much at every width: features are
learned.

For inputs of length √d, L hidden ReLU layers and weights of variance 2/fan-in, the limit has
Θ(x, x) = 2(L + 1).

Source: golikov · ntk-fc · Eqs 2.53–2.61; golikov · ntk-param-scaling · Thm 2.2.1, Eq. 2.33;
golikov · mean-field-2l · Eqs 1.12–1.18; golikov · mup-step · 1.4.3; arora · ntk-deep · §9.4.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import (
    Finding,
    Source,
    Verdict,
    exponent_between,
    identity,
    mean_between,
    median_at_least,
    median_at_most,
)
from theorylab.data import sphere
from theorylab.experiments.drawing import label_axes, panels, scaling
from theorylab.fields import Count, Increasing, OpenFraction, Plural, Seeded, within
from theorylab.kernels import infinite_kernels, ntk, relative_frobenius
from theorylab.models import NTK, Model, MuP, mlp, network
from theorylab.progress import report
from theorylab.training import descend, gradient_descent, squared, with_learning_rates
from theorylab.typing import RandomKey

PRECISION = "float32"
FORMULA = (
    r"\hat\Theta_m(x, x') = \left\langle \frac{\partial f(x)}{\partial w},"
    r" \frac{\partial f(x')}{\partial w} \right\rangle \to \Theta(x, x'), \quad"
    r" \|\hat\Theta_m - \Theta\| \propto m^{-1/2}"
)

LIMIT = Source("golikov", "ntk-fc", "Eqs 2.53–2.61")
DEEP = Source("arora", "ntk-deep", "§9.4")
LAZY = Source("golikov", "ntk-param-scaling", "Thm 2.2.1, Eq. 2.33")
RICH = Source("golikov", "mup-step", "1.4.3, Eqs 1.20–1.27")
MEAN_FIELD = Source("golikov", "mean-field-2l", "1.3.2, Eqs 1.12–1.18")

HE = NTK(weight_scale=math.sqrt(2.0))  # keeps the variance through ReLU layers
LOSS = squared("half_sum")
SHALLOW, DEEPER = 0, 1  # places of the trained networks: one hidden layer, and two


@dataclass(frozen=True)
class Config(Seeded):
    """Random networks of growing width: their tangent kernels before and after training."""

    widths: Increasing[Count] = (64, 160, 400, 1000)  # width m of every hidden layer
    depth: Annotated[int, within(3)] = 4  # layers of the deepest networks, L + 1
    dimension: Count = 8  # inputs d
    num_samples: Plural = 8  # points on the sphere, where kernels are compared and trained
    num_steps: Count = 40  # steps of gradient descent
    learning_rate: OpenFraction = 0.4  # in units of the critical one, 2/λ_max of the limit
    num_seeds: Count = 30  # random networks at each width that are trained
    num_draws: Count = 8  # random networks of each seed whose squared errors are averaged


PRESETS = {
    "smoke": Config(widths=(64, 500), depth=3, num_seeds=40, num_draws=12),
    "paper": Config(widths=(64, 128, 256, 512, 1024, 2048, 4096, 8192), num_seeds=100),
}


class Errors(NamedTuple):
    """Kernels before training against limits: relative errors, in Frobenius norm.

    A projection is ⟨Θ̂, Θ⟩/⟨Θ, Θ⟩ over pairs of different inputs, for the mean over draws.
    """

    relu: Float[Array, "..."]
    erf: Float[Array, "..."]
    wrong: Float[Array, "..."]  # of the erf network's kernel against the limit of ReLU
    relu_projection: Float[Array, "..."]
    erf_projection: Float[Array, "..."]


class Training(NamedTuple):
    """What training does to erf networks: relative movements, and last loss over first loss."""

    start_gap: Float[Array, "..."]  # between the kernels of NTK and μP before training
    ntk_movement: Float[Array, "..."]
    mup_movement: Float[Array, "..."]
    ntk_loss: Float[Array, "..."]
    mup_loss: Float[Array, "..."]


class Result(NamedTuple):
    """Axes: s seeds, w widths; after them L numbers of hidden layers, or the two trained ones."""

    errors: Errors  # (s, w, L)
    training: Training  # (s, w, 2)
    diagonal: Float[Array, "L n"]  # Θ(x, x) of the ReLU limits
    expected_diagonal: Float[Array, "L n"]  # 2(L + 1)


class Task(NamedTuple):
    """What all networks are compared and trained on."""

    x: Float[Array, "n d"]
    y: Float[Array, "n 1"]
    relu_limits: Float[Array, "L n n"]
    erf_limits: Float[Array, "L n n"]
    learning_rates: Float[Array, " L"]


def memory(config: Config) -> int:
    """Bytes of the widest, deepest network's weights, and of Jacobians: a block has 1 GiB."""
    m = config.widths[-1]
    weights = (config.depth - 2) * m**2 + m * (config.dimension + 1)
    jacobians = min(4 * config.num_samples * weights, 2**28)
    kernels = config.num_seeds * config.num_draws * config.num_samples**2 * config.depth
    return 4 * (6 * weights + jacobians + 4 * kernels)


def run(config: Config) -> Result:
    """Measure the kernels of random networks, train them, measure again."""
    report("limits in closed form", 0.0)
    task_key, network_key = jax.random.split(jax.random.key(config.seed))
    task = _task(task_key, config)
    costs = np.cumsum([0, *config.widths]) / sum(config.widths)
    measured = []
    for width, done in zip(config.widths, costs, strict=False):
        report(f"networks of width {width}", 0.05 + 0.95 * float(done))
        keys = jax.random.split(jax.random.fold_in(network_key, width), config.num_seeds)
        measured.append(_networks(task, keys, width, config.num_steps, config.num_draws))
    errors, training = jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *measured)
    hidden = jnp.arange(1, config.depth)[:, None]
    return Result(
        errors=errors,
        training=training,
        diagonal=jnp.diagonal(task.relu_limits, axis1=1, axis2=2),
        expected_diagonal=2.0 * (hidden + jnp.ones((1, config.num_samples))),
    )


def _task(key: RandomKey, config: Config) -> Task:
    """Points of length √d, the sign of their first coordinate, and the limits there."""
    x = sphere(key, config.num_samples, config.dimension, radius=math.sqrt(config.dimension))

    def limits(activation: str, parametrization: NTK) -> Float[Array, "L n n"]:
        depths = range(1, config.depth)
        infinite = [mlp([1] * depth, activation=activation) for depth in depths]
        found = [infinite_kernels(each, x, parametrization=parametrization) for each in infinite]
        return jnp.stack([kernels.ntk for kernels in found])

    erf = limits("erf", NTK())
    largest = jnp.linalg.eigvalsh(erf)[:, -1]
    critical = jnp.stack([LOSS.critical_learning_rate(top, config.num_samples) for top in largest])
    return Task(x, jnp.sign(x[:, :1]), limits("relu", HE), erf, config.learning_rate * critical)


@partial(jax.jit, static_argnums=(2, 3, 4))
def _networks(
    task: Task, keys: Key[Array, " s"], width: int, num_steps: int, num_draws: int
) -> tuple[Errors, Training]:
    """Kernel errors and movements of every seed, for every number of hidden layers."""

    def one(key: RandomKey) -> tuple[Errors, Training]:
        for_errors, for_training = jax.random.split(key)
        depths = range(len(task.relu_limits))
        errors = [_errors(task, for_errors, width, depth, num_draws) for depth in depths]
        training = [_trained(task, for_training, width, depth, num_steps) for depth in depths[:2]]
        return _stacked(errors), _stacked(training)

    return jax.lax.map(one, keys)


def _stacked(records: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *records)


def _model(task: Task, width: int, depth: int, activation: str, scales: NTK | MuP) -> Model:
    """The network whose limit stands at this place of the task's."""
    return network(mlp([width] * (depth + 1), activation=activation), task.x.shape[1:], scales)


def _errors(task: Task, key: RandomKey, width: int, depth: int, num_draws: int) -> Errors:
    """Root mean squares over several random networks: the error of a single one varies much."""
    relu, erf = (
        _model(task, width, depth, name, at) for name, at in (("relu", HE), ("erf", NTK()))
    )
    limits = task.relu_limits[depth], task.erf_limits[depth], task.relu_limits[depth]
    apart = ~jnp.eye(len(task.x), dtype=bool)

    def draw(key: RandomKey) -> tuple[Float[Array, " 3"], Float[Array, "2 n n"]]:
        params = relu.init(key)  # standard normal, for both activations
        relu_kernel, erf_kernel = (ntk(net.apply, params, task.x) for net in (relu, erf))
        pairs = zip((relu_kernel, erf_kernel, erf_kernel), limits, strict=True)
        distances = [relative_frobenius(*pair) for pair in pairs]
        return jnp.stack(distances), jnp.stack([relu_kernel, erf_kernel])

    distances, kernels = jax.lax.map(draw, jax.random.split(key, num_draws))
    means = kernels.mean(axis=0)
    return Errors(
        *jnp.sqrt(jnp.mean(distances**2, axis=0)),
        *(
            jnp.sum(mean * limit, where=apart) / jnp.sum(limit**2, where=apart)
            for mean, limit in zip(means, limits[:2], strict=True)
        ),
    )


def _trained(task: Task, key: RandomKey, width: int, depth: int, num_steps: int) -> Training:
    """Kernels and losses before and after training, in both parametrizations."""

    def both(scales: NTK | MuP) -> tuple[Float[Array, "2 n n"], Float[Array, " 2"]]:
        model = _model(task, width, depth, "erf", scales)
        params = model.init(key)
        rates = model.learning_rates(params)

        def objective(params) -> Float[Array, ""]:
            return LOSS(model.apply(params, task.x), task.y)

        def measure(params) -> tuple[Float[Array, "n n"], Float[Array, ""]]:
            return ntk(model.apply, params, task.x, learning_rates=rates), objective(params)

        optimizer = with_learning_rates(gradient_descent(task.learning_rates[depth]), rates)
        return descend(objective, params, optimizer, [0, num_steps], measure).records

    (lazy, lazy_loss), (rich, rich_loss) = both(NTK()), both(MuP())
    return Training(
        start_gap=relative_frobenius(rich[0], lazy[0]),
        ntk_movement=relative_frobenius(lazy[1], lazy[0]),
        mup_movement=relative_frobenius(rich[1], rich[0]),
        ntk_loss=lazy_loss[1] / lazy_loss[0],
        mup_loss=rich_loss[1] / rich_loss[0],
    )


def _weakest(findings: Iterable[Finding]) -> Finding:
    """What is found of all depths: a refuted one before an inconclusive one, before the others."""
    order = (Verdict.REFUTED, Verdict.INCONCLUSIVE, Verdict.SUPPORTED)
    return min(findings, key=lambda finding: order.index(finding.verdict))


def _exponents(
    config: Config, values: Float[np.ndarray, "s w k"], low: float, high: float
) -> Finding:
    """Judge the exponent in the width at every depth."""
    return _weakest(
        exponent_between(config.widths, each, low, high) for each in np.moveaxis(values, 2, 0)
    )


def _limit_means(projections: Float[np.ndarray, "s w L"]) -> Finding:
    """Judge at every depth that the mean kernel of the widest networks is the limit's."""
    return _weakest(mean_between(each, 0.97, 1.03) for each in projections[:, -1].T)


CLAIMS = (
    DEEP.claim(
        "The tangent kernel of random ReLU networks of every depth goes to its closed form.",
        lambda r, c: _limit_means(r.errors.relu_projection),
        formula=r"\langle \hat\Theta_m, \Theta \rangle / \langle \Theta, \Theta \rangle \to 1",
        regime="max(widths) >= 500 and num_seeds * num_draws >= 240 and num_seeds >= 30",
        demand="lab: 3 %; 240 networks of width 500 have a standard error of about 0.5 %",
    ),
    DEEP.found(
        "The error of ReLU networks falls as m^(−1/2), at every depth.",
        lambda r, c: _exponents(c, r.errors.relu, -0.6, -0.4),
        formula=r"\|\hat\Theta_m - \Theta\|_F / \|\Theta\|_F \propto m^{-1/2}",
        demand="derived: the central limit theorem over m neurons; ± 0.1 is the lab's",
    ),
    LIMIT.claim(
        "The tangent kernel of random erf networks of every depth goes to its closed form.",
        lambda r, c: _limit_means(r.errors.erf_projection),
        formula=r"\Theta_{:l} = q_l + \Theta_{:l-1}\,\mathbb{E}\,\phi'(z)\phi'(z')",
        regime="max(widths) >= 500 and num_seeds * num_draws >= 240 and num_seeds >= 30",
        demand="lab: 3 %; 240 networks of width 500 have a standard error of about 0.5 %",
    ),
    LIMIT.found(
        "The error of erf networks falls as m^(−1/2), at every depth.",
        lambda r, c: _exponents(c, r.errors.erf, -0.6, -0.4),
        demand="derived: the central limit theorem over m neurons; ± 0.1 is the lab's",
    ),
    DEEP.found(
        "On the diagonal the ReLU limit counts the layers: 2(L + 1).",
        lambda r, c: identity(r.diagonal, r.expected_diagonal, 1e-5),  # single precision
        formula=r"\Theta(x, x) = (L + 1)\,\sigma_w^2\,\|x\|^2 / d",
    ),
    LAZY.claim(
        "In the NTK parametrization training moves the kernel by O(1/m).",
        lambda r, c: _exponents(c, r.training.ntk_movement, -math.inf, -0.8),
        formula=r"\|\hat\Theta_T - \hat\Theta_0\|_F / \|\hat\Theta_0\|_F = O(m^{-1})",
        demand="lab: the source's −1, and 0.2 for finite widths; other seeds gave −0.97 ± 0.1",
    ),
    MEAN_FIELD.claim(
        "With one hidden layer in the mean-field parametrization it moves as much at every width.",
        lambda r, c: _exponents(c, r.training.mup_movement[..., :DEEPER], -0.15, 0.15),
        quote="NTK Θ_t evolves over time even in the limit of",
        formula=r"\|\hat\Theta_T - \hat\Theta_0\|_F / \|\hat\Theta_0\|_F \propto m^0",
        demand="lab: 0 ± 0.15; other seeds gave −0.01 ± 0.05",
    ),
    RICH.claim(
        "With two hidden layers in μP it moves as much at every width.",
        lambda r, c: _exponents(c, r.training.mup_movement[..., DEEPER:], -0.15, 0.15),
        quote="neither diverge, nor vanish, as n grows to infinity",
        demand="lab: 0 ± 0.15; other seeds gave −0.01 ± 0.05",
    ),
    RICH.found(
        "At the largest width it moves at least five times as much in μP, at both depths.",
        lambda r, c: median_at_least(
            (r.training.mup_movement / r.training.ntk_movement)[:, -1].min(axis=1), 5.0
        ),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    RICH.check(
        "Before training, the NTK parametrization and μP have the same kernel.",
        lambda r, c: identity(r.training.start_gap, np.zeros_like(r.training.start_gap), 1e-4),
        formula=r"\sum_w \eta_w \frac{\partial f}{\partial w} \frac{\partial f'}{\partial w}",
    ),
    RICH.check(
        "Both are trained to the end: the loss falls to less than a hundredth.",
        lambda r, c: median_at_most(
            np.maximum(r.training.ntk_loss, r.training.mup_loss).max(axis=(1, 2)), 0.01
        ),
        demand="lab: chosen for this experiment; the runs it was set on were not kept",
    ),
    LIMIT.control(
        "Against the limit of another activation the error does not fall.",
        lambda r, c: _exponents(c, r.errors.wrong, -0.1, 0.1),
    ),
)


def plot(result: Any, config: Config) -> Figure:
    """Draw errors and movements over the width."""
    figure, (error, movement) = panels("kernel before training: error", "in training: movement")
    errors, training = result.errors, result.training
    depths = range(1, config.depth)
    curves = {f"ReLU, L = {depth}": errors.relu[..., depth - 1] for depth in depths}
    curves |= {f"erf, L = {depth}": errors.erf[..., depth - 1] for depth in depths}
    curves["erf, L = 1, against ReLU"] = errors.wrong[..., SHALLOW]
    scaling(error, config.widths, curves, -0.5)
    movements = {
        f"{name}, L = {place + 1}": values[..., place]
        for name, values in (("NTK", training.ntk_movement), ("μP", training.mup_movement))
        for place in (SHALLOW, DEEPER)
    }
    scaling(movement, config.widths, movements, -1.0)
    for axis in (error, movement):
        label_axes(axis, "width m")
    return figure
