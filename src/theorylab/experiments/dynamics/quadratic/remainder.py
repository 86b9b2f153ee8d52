"""What a linear step leaves out pushes back: it is positive when the loss is large.

A network that descends on ½‖r‖², with residuals r and tangent kernel K, moves by
r' = (I − ηK + R_f)r and K' = K − R_K. For a linear model both remainders are 0, for a quadratic
one they are known: R_f = ½η²GJᵀ and R_K = η(GJᵀ + JGᵀ) − η²GGᵀ, where J is the Jacobian and row i
of G is the Hessian of output i times Jᵀr. (The source prints ¼η(4GJᵀ − ηGGᵀ) for R_K, and G with
as many rows as neurons; it has one for each output.)

With η = 1.5 η_crit, the loss spikes along the top eigenvector p of K. There both remainders grow
with the loss and are positive: R_f pulls the factor 1 − ηλ + pᵀR_f p back towards −1, R_K lowers λ,
until the spike ends. The quadratic model shows it and so does the network: images of two digits, or
the source's photographs with `paper` (`--architecture cnn --width 1024` is its other network).
A Taylor expansion of first order errs by O(ε²) at distance ε, one of second order by O(ε³).

Source: zhu · nqm-general-dynamics · Eqs 3.15–3.16, Figs B.2–B.3; zhu · taylor-models · Eqs 3.1–3.2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import (
    Source,
    exponent_between,
    identity,
    median_at_least,
    median_at_most,
)
from theorylab.data import Dataset, image_set
from theorylab.data.downloads import image_shape
from theorylab.dynamics import critical_learning_rate
from theorylab.dynamics.quadratic import kernel_steps
from theorylab.dynamics.quadratic.kernel_steps import KernelCourse, Remainders
from theorylab.experiments.drawing import COLOURS, THEORY, label_axes, panels, scaling
from theorylab.fields import Classes, Count, ImageSet, Positive, Seeded
from theorylab.models import Model, cnn, linearize, mlp, network, quadratize
from theorylab.numerics import spearman
from theorylab.progress import report
from theorylab.training import ensemble, squared
from theorylab.typing import Apply, Measured, RandomKey, Scalar

PRECISION = "float64"
FORMULA = (
    r"r' = (I - \eta K + \tfrac12 \eta^2 G J^T)\, r, \quad"
    r" K' = K - \eta (G J^T + J G^T) + \eta^2 G G^T"
)

UPDATE = Source("zhu", "nqm-general-dynamics", "Eqs 3.15–3.16")
QUADRATIC = Source("zhu", "nqm-general-dynamics", "Fig. B.2")
NETWORK = Source("zhu", "nqm-general-dynamics", "Fig. B.3")
TAYLOR = Source("zhu", "taylor-models", "Eqs 3.1–3.2")

LOSS = squared("half_sum")
LARGE = 5.0  # a loss that many times the first one is large
SMALL_NETWORK, SMALL_INPUTS, SMALL_SAMPLES = mlp([8, 6], 2, "tanh"), 3, 4
SIZES = np.logspace(-3, -2, 5)  # distances at which Taylor expansions are compared


@dataclass(frozen=True)
class Config(Seeded):
    """Networks and their quadratic models on images, below and beyond the critical rate."""

    images: ImageSet = "digits"  # which images
    classes: Classes = (3, 8)  # two kinds of them
    num_samples: Count = 64  # images n
    architecture: Literal["mlp", "cnn"] = "mlp"  # two layers, ReLU, windows of 3 × 3
    width: Count = 1024  # neurons or channels
    ratio: Positive = 1.5  # η/η_crit beyond the critical rate
    num_steps: Count = 40  # steps of gradient descent
    num_seeds: Count = 8  # initialisations, at least 6 to conclude

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 < self.ratio < 2:
            raise ValueError(f"ratio must be between 1 and 2, got {self.ratio}.")


PRESETS = {
    "smoke": Config(num_samples=16, ratio=1.35, num_steps=30, num_seeds=6),
    "paper": Config(
        images="cifar10", classes=(0, 2), num_samples=128, width=2048, num_steps=100, num_seeds=10
    ),
}


class Result(NamedTuple):
    """Axes: s seeds, t steps; of remainders 2: below and beyond the critical rate."""

    quadratic: Remainders  # s 2 t, of the quadratic model
    network: Remainders  # s 2 t, of the network itself
    first_order: Float[Measured, "s z"]  # ‖f − f_lin‖ of a small network over the distance
    second_order: Float[Measured, "s z"]  # ‖f − f_quad‖
    residual: Float[Measured, "s q"]  # after a step of a small quadratic model
    predicted_residual: Float[Measured, "s q"]
    kernel: Float[Measured, "s q q"]
    predicted_kernel: Float[Measured, "s q q"]
    printed_kernel: Float[Measured, "s q q"]


def memory(config: Config) -> int:
    """Bytes of the Jacobians that make two runs' kernels, of their activations and records."""
    inputs = math.prod(image_shape(config.images))
    positions = 1 if config.architecture == "mlp" else inputs
    hidden = config.num_samples * config.width * positions
    weights = config.width * (inputs if config.architecture == "mlp" else 9 + positions)
    blocks = min(config.num_samples * weights, 2**24)  # the most that Jacobians hold at once
    records = config.num_seeds * config.num_steps * config.num_samples**2
    return 8 * 2 * (20 * hidden + 6 * weights + 2 * blocks + 2 * records)


def run(config: Config) -> Result:
    """Small models first, then the spikes."""
    small_key, network_key, data_key = jax.random.split(jax.random.key(config.seed), 3)
    report("one step of small models", 0.0)
    small = _small(jax.random.split(small_key, config.num_seeds))
    images = image_set(config.images, "standard", config.classes, "sign").shuffled(data_key)
    data = images.subset(slice(config.num_samples))
    if config.architecture == "mlp":
        data = data.flat()
    layers = mlp([config.width]) if config.architecture == "mlp" else cnn([config.width], (3, 3))
    model = network(layers, data.input_shape)
    keys = jax.random.split(network_key, config.num_seeds)
    ratios = jnp.array([0.5, config.ratio])
    report("quadratic models", 0.1)
    quadratic = _remainders(model, data, quadratize, keys, ratios, config.num_steps)
    report("networks", 0.6)
    networks = _remainders(model, data, lambda apply, _: apply, keys, ratios, config.num_steps)
    return Result(quadratic, networks, **small)


def _remainders(
    model: Model,
    data: Dataset,
    expand: Callable[..., Apply],
    keys: Key[Array, " s"],
    ratios: Float[Array, " 2"],
    num_steps: int,
) -> Remainders:
    """Train every seed at every ratio, and see the remainders."""

    def one(pair: tuple[RandomKey, Scalar]) -> tuple[KernelCourse, Scalar]:
        key, ratio = pair
        params = model.init(key)
        apply = expand(model.apply, params)
        rate = ratio * critical_learning_rate(model.apply, params, data, LOSS)
        return kernel_steps.course(apply, params, data.x, data.y, rate, num_steps), rate

    pairs = (jnp.repeat(keys, len(ratios)), jnp.tile(ratios, len(keys)))
    courses, rates = ensemble(one, pairs)
    see = jax.jit(lambda runs: jax.lax.map(lambda run: kernel_steps.remainders(*run), runs))
    found = see((courses, rates))
    shape = (len(keys), len(ratios), num_steps)
    return jax.tree.map(lambda values: jnp.reshape(values, shape), found)


@jax.jit
@jax.vmap
def _small(key: RandomKey) -> dict[str, Array]:
    """Taylor expansions of a small tanh network, and a step of its quadratic model."""
    model = network(SMALL_NETWORK, (SMALL_INPUTS,))
    params_key, direction_key, data_key = jax.random.split(key, 3)
    params, direction = model.init(params_key), model.init(direction_key)
    samples = jax.random.normal(data_key, (SMALL_SAMPLES * (SMALL_INPUTS + 2),))
    samples = samples.reshape(SMALL_SAMPLES, -1)
    x, y = samples[:, :SMALL_INPUTS], samples[:, SMALL_INPUTS:]
    linear, quadratic = (expand(model.apply, params) for expand in (linearize, quadratize))

    def errors(size: Scalar) -> tuple[Array, Array]:
        moved = jax.tree.map(lambda p, d: p + size * d, params, direction)
        outputs = model.apply(moved, x)
        return tuple(jnp.linalg.norm(outputs - each(moved, x)) for each in (linear, quadratic))

    first_order, second_order = jax.lax.map(errors, jnp.asarray(SIZES))
    # The first step must not start at w₀, where a quadratic model has yet no curvature in use.
    there = jax.tree.map(lambda p, d: p + d / 2, params, direction)
    here = kernel_steps.derivatives(quadratic, there, x, y)
    rate = 3 / jnp.trace(here.jacobian @ here.jacobian.T)
    gradient = jax.grad(lambda w: LOSS(quadratic(w, x), y))(there)
    after = jax.tree.map(lambda w, g: w - rate * g, there, gradient)
    measured = kernel_steps.derivatives(quadratic, after, x, y)
    predicted = kernel_steps.step(here, rate)
    return {
        "first_order": first_order,
        "second_order": second_order,
        "residual": measured.residual,
        "predicted_residual": predicted.residual,
        "kernel": measured.jacobian @ measured.jacobian.T,
        "predicted_kernel": predicted.kernel,
        "printed_kernel": kernel_steps.printed_kernel(here, rate),
    }


def _spikes(found: Remainders) -> list[np.ndarray]:
    """Every measure beyond the critical rate, with axes seeds, steps."""
    return [values[:, 1] for values in found]


def _positive(found: Remainders) -> np.ndarray:
    """For every seed, the share of steps with a large loss that have both remainders positive."""
    loss, _, output, kernel, _ = _spikes(found)
    large = loss > LARGE * loss[:, :1]
    with np.errstate(invalid="ignore"):  # a seed without a spike has no share
        return ((output > 0) & (kernel > 0) & large).sum(axis=1) / large.sum(axis=1)


def _rank_correlation(found: Remainders) -> np.ndarray:
    """For every seed, the smaller rank correlation of loss and remainders, in the spike."""
    loss, _, output, kernel, _ = _spikes(found)

    def correlation(seed: int, values: np.ndarray) -> float:
        # Afterwards r is hardly along p, and what is divided by it says nothing.
        inside = loss[seed] > loss[seed, 0]
        if inside.sum() < 3:
            return np.nan
        return spearman(loss[seed, inside], values[seed, inside]).estimate

    each = [[correlation(seed, v) for v in (output, kernel)] for seed in range(len(loss))]
    return np.array(each).min(axis=1)


def _top_share(found: Remainders) -> np.ndarray:
    """For every seed, the share of the loss along the top eigenvector when the loss is highest."""
    loss, top_loss, *_ = _spikes(found)
    peak = loss.argmax(axis=1)[:, None]
    return np.take_along_axis(top_loss / loss, peak, axis=1)[:, 0]


def _change_below(found: Remainders) -> np.ndarray:
    """For every seed, by which share the top eigenvalue changed below the critical rate."""
    top = found.top_eigenvalue[:, 0]
    return np.abs(top[:, -1] / top[:, 0] - 1)


# The thresholds are the catalogue's.
CLAIMS = (
    QUADRATIC.claim(
        "Quadratic model: when the loss is large, both remainders are positive.",
        lambda r, c: median_at_least(_positive(r.quadratic), 0.95),
        formula=r"p_1^T R_f p_1 > 0, \quad p_1^T R_K p_1 > 0",
    ),
    QUADRATIC.claim(
        "Quadratic model: both remainders grow with the loss.",
        lambda r, c: median_at_least(_rank_correlation(r.quadratic), 0.8),
    ),
    QUADRATIC.claim(
        "Quadratic model: at its peak the loss lies along the top eigenvector.",
        lambda r, c: median_at_least(_top_share(r.quadratic), 0.8),
    ),
    NETWORK.claim(
        "Network: when the loss is large, both remainders are positive.",
        lambda r, c: median_at_least(_positive(r.network), 0.95),
    ),
    NETWORK.claim(
        "Network: both remainders grow with the loss.",
        lambda r, c: median_at_least(_rank_correlation(r.network), 0.8),
    ),
    NETWORK.claim(
        "Network: at its peak the loss lies along the top eigenvector.",
        lambda r, c: median_at_least(_top_share(r.network), 0.8),
    ),
    NETWORK.control(
        "Below the critical rate the top eigenvalue of the network stays, to one in ten.",
        lambda r, c: median_at_most(_change_below(r.network), 0.1),
    ),
    QUADRATIC.control(
        "Below it that of the quadratic model stays as well.",
        lambda r, c: median_at_most(_change_below(r.quadratic), 0.1),
    ),
    UPDATE.claim(
        "Residuals of a quadratic model move by r' = (I − ηK + ½η²GJᵀ)r exactly.",
        lambda r, c: identity(r.predicted_residual, r.residual, 1e-8),
    ),
    *UPDATE.erratum(
        printed=(
            "Its kernel moves by −¼η(4GJᵀ − ηGGᵀ).",
            lambda r, c: identity(r.printed_kernel, r.kernel, 1e-8),
        ),
        corrected=(
            "Its kernel moves by −η(GJᵀ + JGᵀ) + η²GGᵀ.",
            lambda r, c: identity(r.predicted_kernel, r.kernel, 1e-8),
        ),
    ),
    TAYLOR.claim(
        "The linear model of a tanh network errs by the square of the distance.",
        lambda r, c: exponent_between(SIZES, r.first_order, 1.95, 2.05),
        formula=r"f - f_{\rm lin} = O(\epsilon^2)",
    ),
    TAYLOR.claim(
        "Its quadratic model errs by the cube of the distance.",
        lambda r, c: exponent_between(SIZES, r.second_order, 2.9, 3.1),
        formula=r"f - f_{\rm quad} = O(\epsilon^3)",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the loss and both remainders in time, of one seed; and errors of Taylor expansions."""
    figure, (loss, output, kernel, taylor) = panels(
        "loss, and along p₁ (thin)", "pᵀR_f p", "pᵀR_K p / λ₁(0)", "errors of Taylor expansions"
    )
    runs = (("quadratic model", result.quadratic), ("network", result.network))
    for (name, found), colour in zip(runs, COLOURS, strict=False):
        loss.semilogy(found.loss[0, 1], color=colour, label=name)
        loss.semilogy(found.top_loss[0, 1] + 1e-30, color=colour, linewidth=0.7)
        output.plot(found.output[0, 1], color=colour)
        kernel.plot(found.kernel[0, 1] / found.top_eigenvalue[0, 1, 0], color=colour)
    loss.set(xlabel="step", ylim=(1e-6, None))
    loss.legend(fontsize=7)
    for axis in (output, kernel):
        axis.axhline(0.0, **THEORY)
        label_axes(axis, "step")
    scaling(taylor, SIZES, {"linear": result.first_order, "quadratic": result.second_order})
    label_axes(taylor, "distance ε")
    return figure
