"""In a catapult the terms that a linear model lacks are positive, and end it.

A network that descends on ½‖r‖², with residuals r and tangent kernel K, moves by
r' = (I − ηK + R_f)r and K' = K − R_K. For a linear model both remainders are 0, for a quadratic
one they are known (`quadratic/kernel_update`).

With η = 1.5 η_crit, the loss spikes along the top eigenvector p of K. There both remainders grow
with the loss and are positive: R_f pulls the factor 1 − ηλ + pᵀR_f p back towards −1, R_K lowers λ,
until the spike ends. The quadratic model shows it and so does the network: images of two digits, or
the source's photographs with `paper` (`--architecture cnn --width 1024` is its other network).

Source: zhu · nqm-general-dynamics · B.14, Figs B.2–B.3.
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

from theorylab.claims import Source, median_at_least, median_at_most
from theorylab.data import Dataset, image_set
from theorylab.data.downloads import image_shape
from theorylab.dynamics import critical_learning_rate
from theorylab.dynamics.quadratic import kernel_steps
from theorylab.dynamics.quadratic.kernel_steps import KernelCourse, Remainders
from theorylab.experiments.drawing import COLOURS, THEORY, label_axes, panels
from theorylab.fields import Classes, Count, ImageSet, Positive, Seeded
from theorylab.models import Model, cnn, mlp, network, quadratize
from theorylab.numerics import spearman
from theorylab.progress import report
from theorylab.training import ensemble, squared
from theorylab.typing import Apply, RandomKey, Scalar

PRECISION = "float64"
FORMULA = r"r' = (I - \eta K + R_f)\, r, \quad K' = K - R_K, \quad p_1^T R\, p_1 > 0"

QUADRATIC = Source("zhu", "nqm-general-dynamics", "Fig. B.2")
NETWORK = Source("zhu", "nqm-general-dynamics", "Fig. B.3")

LOSS = squared("half_sum")
LARGE = 5.0  # a loss that many times the first one is large
SCALE = "scale with the loss and remain positive when the loss is large"
NOT_KEPT = "lab: chosen for this experiment; the runs it was set on were not kept"


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
    """Train quadratic models and networks, below and beyond the critical rate."""
    _, network_key, data_key = jax.random.split(jax.random.key(config.seed), 3)
    images = image_set(config.images, "standard", config.classes, "sign").shuffled(data_key)
    data = images.subset(slice(config.num_samples))
    if config.architecture == "mlp":
        data = data.flat()
    layers = mlp([config.width]) if config.architecture == "mlp" else cnn([config.width], (3, 3))
    model = network(layers, data.input_shape)
    keys = jax.random.split(network_key, config.num_seeds)
    ratios = jnp.array([0.5, config.ratio])
    report("quadratic models", 0.0)
    quadratic = _remainders(model, data, quadratize, keys, ratios, config.num_steps)
    report("networks", 0.6)
    networks = _remainders(model, data, lambda apply, _: apply, keys, ratios, config.num_steps)
    return Result(quadratic, networks)


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


CLAIMS = (
    QUADRATIC.claim(
        "Quadratic model: when the loss is large, both remainders are positive.",
        lambda r, c: median_at_least(_positive(r.quadratic), 0.95),
        formula=r"p_1^T R_f p_1 > 0, \quad p_1^T R_K p_1 > 0",
        quote=SCALE,
        demand="lab: at 95 % of the steps with five times the first loss",
    ),
    QUADRATIC.claim(
        "Quadratic model: both remainders grow with the loss.",
        lambda r, c: median_at_least(_rank_correlation(r.quadratic), 0.8),
        quote=SCALE,
        demand=NOT_KEPT,
    ),
    QUADRATIC.claim(
        "Quadratic model: at its peak the loss lies along the top eigenvector.",
        lambda r, c: median_at_least(_top_share(r.quadratic), 0.8),
        quote="can almost capture the spike in the training loss",
        demand=NOT_KEPT,
    ),
    NETWORK.claim(
        "Network: when the loss is large, both remainders are positive.",
        lambda r, c: median_at_least(_positive(r.network), 0.95),
        formula=r"p_1^T R_f p_1 > 0, \quad p_1^T R_K p_1 > 0",
        quote=SCALE,
        demand="lab: at 95 % of the steps with five times the first loss",
    ),
    NETWORK.claim(
        "Network: both remainders grow with the loss.",
        lambda r, c: median_at_least(_rank_correlation(r.network), 0.8),
        quote=SCALE,
        demand=NOT_KEPT,
    ),
    NETWORK.claim(
        "Network: at its peak the loss lies along the top eigenvector.",
        lambda r, c: median_at_least(_top_share(r.network), 0.8),
        quote="can almost capture the spike in the training loss",
        demand=NOT_KEPT,
    ),
    NETWORK.control(
        "Below the critical rate the top eigenvalue of the network stays, to one in ten.",
        lambda r, c: median_at_most(_change_below(r.network), 0.1),
        demand=NOT_KEPT,
    ),
    QUADRATIC.control(
        "Below it that of the quadratic model stays as well.",
        lambda r, c: median_at_most(_change_below(r.quadratic), 0.1),
        demand=NOT_KEPT,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw the loss and both remainders in time, of one seed."""
    figure, (loss, output, kernel) = panels(
        "loss, and along p₁ (thin)", "pᵀR_f p", "pᵀR_K p / λ₁(0)"
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
    return figure
