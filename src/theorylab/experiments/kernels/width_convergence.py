"""A wide network's tangent kernel is known before training, and in μP it learns all the same.

The tangent kernel Θ(x, x′) = ⟨∂f(x)/∂w, ∂f(x′)/∂w⟩ of a random network of width m goes to a limit
that has a closed form, with an error proportional to m^(−1/2). What training does to it depends on
how initial scales and learning rates grow with the width. In the NTK parametrization it moves by
1/m: the network becomes a kernel machine. In μP, which begins with the same kernel (each
parameter counted with its own learning rate) and fits as well, it moves as much at every width:
features are learned.

For inputs of length √d, L hidden ReLU layers and weights of variance 2/fan-in, the limit has
Θ(x, x) = 2(L + 1). For one hidden layer of which only the first weights are trained, with unit
inputs, it is xᵀx′ (π − arccos xᵀx′)/2π; the source prints it without the factor xᵀx′.

Source: golikov · ntk-fc · Eqs 2.53–2.61; golikov · ntk-param-scaling · Thm 2.2.1, Eq. 2.31;
golikov · mean-field-2l · Eqs 1.12–1.18; golikov · mup-step · 1.4.3; golikov · abc-dichotomy ·
Thm 3.4.6; arora · ntk-deep · §9.4; arora · ntk-2layer · Eq. 9.8.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    exponent_between,
    identity,
    median_at_least,
    median_at_most,
)
from theorylab.data import sphere
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Increasing, OpenFraction, Plural, Seeded
from theorylab.kernels import dual, infinite_kernels, ntk, relative_frobenius
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
LAZY = Source("golikov", "ntk-param-scaling", "Thm 2.2.1, Eq. 2.31")
RICH = Source("golikov", "mup-step", "1.4.3, Eqs 1.20–1.27")
DICHOTOMY = Source("golikov", "abc-dichotomy", "Thm 3.4.6")
CONTRAST = Source("golikov", "mean-field-2l", "1.3.2, Eqs 1.12–1.18")
TWO_LAYER = Source("arora", "ntk-2layer", "Eq. 9.8")

HE = NTK(weight_scale=math.sqrt(2.0))  # keeps the variance through ReLU layers
LOSS = squared("half_sum")


@dataclass(frozen=True)
class Config(Seeded):
    """Random networks of growing width: their tangent kernels before and after training."""

    widths: Increasing[Count] = (64, 160, 400, 1000)  # width m of every hidden layer
    depth: Plural = 3  # layers with weights, L + 1
    dimension: Count = 8  # inputs d
    num_samples: Count = 8  # points on the sphere, where kernels are compared and trained
    num_steps: Count = 40  # steps of gradient descent
    learning_rate: OpenFraction = 0.4  # in units of the critical one, 2/λ_max of the limit
    num_seeds: Count = 24  # random networks at each width that are trained
    num_draws: Count = 8  # random networks of each seed whose squared errors are averaged


PRESETS = {
    "smoke": Config(widths=(64, 180, 500), num_seeds=40, num_draws=12),
    "paper": Config(widths=(64, 128, 256, 512, 1024, 2048, 4096, 8192), depth=4, num_seeds=100),
}


class Result(NamedTuple):
    """Axes: s seeds, w widths, n samples. Errors and movements are relative, in Frobenius norm."""

    relu_error: Float[np.ndarray, "s w"]  # of the ReLU network's kernel against its limit
    erf_error: Float[np.ndarray, "s w"]  # of the erf network's
    wrong_error: Float[np.ndarray, "s w"]  # of the erf network's against the limit of ReLU
    start_gap: Float[np.ndarray, "s w"]  # between the kernels of NTK and μP before training
    ntk_movement: Float[np.ndarray, "s w"]  # during training of the erf network
    mup_movement: Float[np.ndarray, "s w"]
    ntk_loss: Float[np.ndarray, "s w"]  # last loss over first loss
    mup_loss: Float[np.ndarray, "s w"]
    diagonal: Float[np.ndarray, " n"]  # Θ(x, x) of the ReLU limit
    expected_diagonal: Float[np.ndarray, " n"]  # 2(L + 1)
    printed_error: Float[np.ndarray, "s w"]  # first-layer kernel against the formula as printed
    corrected_error: Float[np.ndarray, "s w"]  # and with the factor xᵀx′


class Task(NamedTuple):
    """What all networks are compared and trained on."""

    x: Float[Array, "n d"]
    y: Float[Array, "n 1"]
    relu_limit: Float[Array, "n n"]
    erf_limit: Float[Array, "n n"]
    learning_rate: Float[Array, ""]


def memory(config: Config) -> int:
    """Bytes of the widest networks while they train, and of the first layers' Jacobians."""
    widest = max(config.widths)
    weights = (config.dimension + 1 + (config.depth - 2) * widest) * widest
    jacobians = len(config.widths) * config.num_samples * config.dimension * widest
    return 4 * (12 * weights + 4 * jacobians)


def run(config: Config) -> Result:
    """Measure the kernels of random networks, train them, measure again."""
    report("limits in closed form", 0.0)
    key = jax.random.key(config.seed)
    task_key, network_key, first_layer_key = jax.random.split(key, 3)
    task = _task(task_key, config)
    costs = np.cumsum([0, *config.widths]) / sum(config.widths)
    measured = []
    for width, done in zip(config.widths, costs, strict=False):
        report(f"networks of width {width}", 0.05 + 0.85 * float(done))
        keys = jax.random.split(jax.random.fold_in(network_key, width), config.num_seeds)
        sizes = (config.depth, config.num_steps, config.num_draws)
        found = _networks(task, keys, width, *sizes)
        measured.append({name: np.asarray(values) for name, values in found.items()})
    report("first layers alone", 0.9)
    keys = jax.random.split(first_layer_key, config.num_seeds)
    printed, corrected = _first_layers(task.x, keys, config.widths, config.num_draws)
    return Result(
        diagonal=np.diag(task.relu_limit),
        expected_diagonal=np.full(config.num_samples, 2.0 * config.depth),
        printed_error=np.asarray(printed),
        corrected_error=np.asarray(corrected),
        **{name: np.stack([at[name] for at in measured], axis=1) for name in measured[0]},
    )


def _task(key: RandomKey, config: Config) -> Task:
    """Points of length √d, the sign of their first coordinate, and the two limits there."""
    x = sphere(key, config.num_samples, config.dimension, radius=math.sqrt(config.dimension))
    widths = [1] * (config.depth - 1)  # read as infinite
    relu = infinite_kernels(mlp(widths, activation="relu"), x, parametrization=HE).ntk
    erf = infinite_kernels(mlp(widths, activation="erf"), x, parametrization=NTK()).ntk
    critical = LOSS.critical_learning_rate(jnp.linalg.eigvalsh(erf)[-1], config.num_samples)
    return Task(x, jnp.sign(x[:, :1]), relu, erf, jnp.asarray(config.learning_rate * critical))


@partial(jax.jit, static_argnums=(2, 3, 4, 5))
def _networks(
    task: Task,
    keys: Key[Array, " s"],
    width: int,
    depth: int,
    num_steps: int,
    num_draws: int,
) -> dict[str, Float[Array, " s"]]:
    """Kernel errors and movements of every seed."""

    def model(activation: str, parametrization: NTK | MuP) -> Model:
        architecture = mlp([width] * (depth - 1), activation=activation)
        return network(architecture, task.x.shape[1:], parametrization)

    relu, lazy, rich = model("relu", HE), model("erf", NTK()), model("erf", MuP())

    def errors(key: RandomKey) -> Float[Array, " 3"]:
        params = relu.init(key)  # standard normal, for both activations
        relu_kernel, erf_kernel = (ntk(net.apply, params, task.x) for net in (relu, lazy))
        pairs = (
            (relu_kernel, task.relu_limit),
            (erf_kernel, task.erf_limit),
            (erf_kernel, task.relu_limit),
        )
        return jnp.stack([relative_frobenius(*pair) for pair in pairs])

    def one(key: RandomKey) -> dict[str, Float[Array, ""]]:
        relu_error, erf_error, wrong_error = _root_mean_square(errors, num_draws, key)
        (lazy_start, lazy_end), lazy_loss = _trained(lazy, key, task, num_steps)
        (rich_start, rich_end), rich_loss = _trained(rich, key, task, num_steps)
        return {
            "relu_error": relu_error,
            "erf_error": erf_error,
            "wrong_error": wrong_error,
            "start_gap": relative_frobenius(rich_start, lazy_start),
            "ntk_movement": relative_frobenius(lazy_end, lazy_start),
            "mup_movement": relative_frobenius(rich_end, rich_start),
            "ntk_loss": lazy_loss[1] / lazy_loss[0],
            "mup_loss": rich_loss[1] / rich_loss[0],
        }

    return jax.lax.map(one, keys)


def _root_mean_square(
    errors: Callable[[RandomKey], Float[Array, "..."]], num_draws: int, key: RandomKey
) -> Float[Array, "..."]:
    """Average the squared errors of several random networks: a single one's varies much."""
    found = jax.lax.map(errors, jax.random.split(key, num_draws))
    return jnp.sqrt(jnp.mean(found**2, axis=0))


def _trained(
    model: Model, key: RandomKey, task: Task, num_steps: int
) -> tuple[Float[Array, "2 n n"], Float[Array, " 2"]]:
    """The kernel and the loss before and after training, by learning rates of the model's own."""
    params = model.init(key)
    rates = model.learning_rates(params)

    def objective(params) -> Float[Array, ""]:
        return LOSS(model.apply(params, task.x), task.y)

    def measure(params) -> tuple[Float[Array, "n n"], Float[Array, ""]]:
        return ntk(model.apply, params, task.x, learning_rates=rates), objective(params)

    optimizer = with_learning_rates(gradient_descent(task.learning_rate), rates)
    return descend(objective, params, optimizer, [0, num_steps], measure).records


@partial(jax.jit, static_argnums=(2, 3))
def _first_layers(
    x: Float[Array, "n d"], keys: Key[Array, " s"], widths: tuple[int, ...], num_draws: int
) -> Float[Array, "2 s w"]:
    """Errors of the first layer's kernel, against the formula as printed and as it should read.

    f(x) = m^(−½) Σᵣ aᵣ relu(wᵣᵀx) with fixed signs aᵣ and ‖x‖ = 1; narrow networks are the first
    neurons of wide ones.
    """
    units = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    cosines = units @ units.T
    printed = dual("relu", jnp.ones((1, 1)), jnp.ones((1, 1)), cosines).derivative
    neurons = jnp.arange(max(widths))

    def errors(key: RandomKey, width: Float[Array, ""]) -> Float[Array, " 2"]:
        for_weights, for_signs = jax.random.split(key)
        weights = jax.random.normal(for_weights, (len(neurons), x.shape[1]), x.dtype)
        signs = jax.random.rademacher(for_signs, neurons.shape, x.dtype)
        outer = jnp.where(neurons < width, signs, 0.0) / jnp.sqrt(width)
        kernel = ntk(lambda w, x: jax.nn.relu(x @ w.T) @ outer[:, None], weights, units)
        limits = (printed, cosines * printed)
        return jnp.stack([relative_frobenius(kernel, limit) for limit in limits])

    def at_all_widths(key: RandomKey) -> Float[Array, "2 w"]:
        every = jax.vmap(errors, in_axes=(None, 0), out_axes=1)
        return every(key, jnp.asarray(widths, x.dtype))

    found = jax.lax.map(partial(_root_mean_square, at_all_widths, num_draws), keys)
    return jnp.moveaxis(found, 1, 0)


# The exponents' tolerances are the catalogue's: −½ ± 0.1 for errors, −1 ± 0.2 for the movement in
# the NTK parametrization, 0 ± 0.15 in μP; runs with other seeds gave −0.5, −0.97 and −0.01 with
# intervals of ± 0.05, ± 0.1 and ± 0.05.
CLAIMS = (
    DEEP.claim(
        "The tangent kernel of random ReLU networks goes to its closed form as m^(−1/2).",
        lambda r, c: exponent_between(np.asarray(c.widths), r.relu_error, -0.6, -0.4),
        formula=r"\|\hat\Theta_m - \Theta\|_F / \|\Theta\|_F \propto m^{-1/2}",
    ),
    LIMIT.claim(
        "So does that of erf networks.",
        lambda r, c: exponent_between(np.asarray(c.widths), r.erf_error, -0.6, -0.4),
    ),
    DEEP.claim(
        "On the diagonal the ReLU limit counts the layers.",
        lambda r, c: identity(r.diagonal, r.expected_diagonal, 1e-5),  # single precision
        formula=r"\Theta(x, x) = (L + 1)\,\sigma_w^2\,\|x\|^2 / d",
    ),
    DICHOTOMY.claim(
        "Before training, the NTK parametrization and μP have the same kernel.",
        lambda r, c: identity(r.start_gap, np.zeros_like(r.start_gap), 1e-4),
        formula=r"\sum_w \eta_w \frac{\partial f}{\partial w} \frac{\partial f'}{\partial w}",
    ),
    LAZY.claim(
        "In the NTK parametrization the kernel moves in inverse proportion to the width.",
        lambda r, c: exponent_between(np.asarray(c.widths), r.ntk_movement, -1.2, -0.8),
        formula=r"\|\hat\Theta_T - \hat\Theta_0\|_F / \|\hat\Theta_0\|_F \propto m^{-1}",
    ),
    RICH.claim(
        "In μP the kernel moves as much at every width.",
        lambda r, c: exponent_between(np.asarray(c.widths), r.mup_movement, -0.15, 0.15),
        formula=r"\|\hat\Theta_T - \hat\Theta_0\|_F / \|\hat\Theta_0\|_F \propto m^0",
    ),
    CONTRAST.claim(
        "At the largest width it moves at least five times as much in μP.",
        lambda r, c: median_at_least(r.mup_movement[:, -1] / r.ntk_movement[:, -1], 5.0),
    ),
    DICHOTOMY.claim(
        "Both fit: at every width the loss falls to less than a hundredth.",
        lambda r, c: median_at_most(np.maximum(r.ntk_loss, r.mup_loss).max(axis=1), 0.01),
    ),
    LIMIT.control(
        "Against the limit of another activation the error does not fall.",
        lambda r, c: exponent_between(np.asarray(c.widths), r.wrong_error, -0.1, 0.1),
    ),
    *TWO_LAYER.erratum(
        printed=(
            "The first layer's kernel goes to (π − arccos xᵀx′)/2π as m^(−1/2).",
            lambda r, c: exponent_between(np.asarray(c.widths), r.printed_error, -0.6, -0.4),
            r"H^*(x, x') = \frac{\pi - \arccos x^\top x'}{2\pi}",
        ),
        corrected=(
            "The first layer's kernel goes to xᵀx′ (π − arccos xᵀx′)/2π as m^(−1/2).",
            lambda r, c: exponent_between(np.asarray(c.widths), r.corrected_error, -0.6, -0.4),
            r"H^*(x, x') = x^\top x'\,\frac{\pi - \arccos x^\top x'}{2\pi}",
        ),
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw errors and movements over the width: medians, and the range over seeds as a band."""
    widths = np.asarray(config.widths)
    figure, (error, movement, first_layer) = panels(
        "kernel before training: error",
        "kernel in training: movement",
        "first layer alone: error",
    )
    _curve(error, widths, result.relu_error, "ReLU")
    _curve(error, widths, result.erf_error, "erf")
    _curve(error, widths, result.wrong_error, "erf against the limit of ReLU")
    _power(error, widths, result.erf_error, -0.5, "m^(−1/2)")

    _curve(movement, widths, result.ntk_movement, "NTK parametrization")
    _curve(movement, widths, result.mup_movement, "μP")
    _power(movement, widths, result.ntk_movement, -1.0, "m^(−1)")

    _curve(first_layer, widths, result.printed_error, "formula as printed")
    _curve(first_layer, widths, result.corrected_error, "with the factor xᵀx′")
    _power(first_layer, widths, result.corrected_error, -0.5, "m^(−1/2)")
    for axis in (error, movement, first_layer):
        axis.set(xscale="log", yscale="log", xlabel="width m")
        axis.tick_params(which="minor", labelsize=6)
        axis.legend(fontsize=7)
    return figure


def _curve(axis: Axes, widths: np.ndarray, values: np.ndarray, label: str) -> None:
    (line,) = axis.plot(widths, np.median(values, axis=0), "o-", markersize=3, label=label)
    low, high = values.min(axis=0), values.max(axis=0)
    axis.fill_between(widths, low, high, color=line.get_color(), alpha=0.15, linewidth=0)


def _power(axis: Axes, widths: np.ndarray, values: np.ndarray, power: float, label: str) -> None:
    """Draw the power law through the median at the smallest width."""
    start = np.median(values[:, 0])
    axis.plot(widths, start * (widths / widths[0]) ** power, label=label, **THEORY)
