"""A learning rate beyond the critical one catapults a wide network to a flatter minimum.

Take the quadratic model g of a two-layer ReLU network of width m, on one example with target y, and
descend on ½(g − y)² with step size η. With the curvature λ = ‖∇g‖², which begins at λ₀, the ratio
ηλ₀ decides. Below 2 the loss falls and λ hardly moves. Between 2 and 4 the loss first explodes, up
to a height proportional to m, while λ falls; once ηλ < 2 it comes back and converges: a catapult.
Beyond 4 it diverges. The linear model, whose λ cannot fall, diverges already beyond 2.

Networks are trained in their weights beside the map of the plane (g, λ), which they obey exactly.
`dynamics/quadratic/phase_diagram` runs this map at many more widths and learning rates.

`paper` takes three seeds at a time, 2.4 GB by its estimate (1.7 GB were seen): half a minute to a
minute of one core for each of 14 blocks, ten minutes in all.

Source: zhu · nqm-2d-map · Eqs 3.11–3.14, Thm 3.3.1; zhu · nqm-relu2 · Eqs 3.9–3.10;
zhu · linear-dynamics · Eqs 3.7–3.8.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, at_most, exponent_between, holds, identity
from theorylab.dynamics import linear
from theorylab.dynamics.quadratic import gated, one_example
from theorylab.dynamics.quadratic.gated import GatedWeights
from theorylab.dynamics.quadratic.one_example import MapComparison
from theorylab.experiments.drawing import COLOURS, THEORY, label_axes, panels, scaling
from theorylab.fields import Count, Increasing, Positive, Seeded, Several
from theorylab.models import linearize
from theorylab.progress import report
from theorylab.training import seed_blocks
from theorylab.typing import Measured, RandomKey, Scalar

PRECISION = "float64"
BATCHED = ("ratios", "seed")
FORMULA = (
    r"g' - y = (1 - \eta\lambda + c\eta^2 (g - y) g)\,(g - y), \quad "
    r"\lambda' = \lambda + c\eta^2 (g - y)^2 \lambda - 4 c \eta\,(g - y) g"
)

MAP = Source("zhu", "nqm-2d-map", "Eqs 3.11–3.12")
REDUCED = Source("zhu", "nqm-2d-map", "Eqs 3.13–3.14")
CATAPULT = Source("zhu", "nqm-2d-map", "Thm 3.3.1")
NETWORK = Source("zhu", "nqm-relu2", "Eqs 3.9–3.10")
LINEAR = Source("zhu", "linear-dynamics", "Eqs 3.7–3.8")

TARGET = 1.0  # y
PEAK_RATIO, PEAK_STEPS = 3.0, 40  # the peak comes after about log m / (2 log 2) steps
MOST_WEIGHTS = 2**25  # of the networks of a block of seeds
NUM_SAMPLES, LINEAR_WIDTH, LINEAR_STEPS, LINEAR_RATIO = 8, 256, 500, 1.2  # linear models


@dataclass(frozen=True)
class Config(Seeded):
    """Networks trained at chosen ηλ₀, and at growing width."""

    width: Count = 1000  # width of the networks that are compared with the map
    dimension: Count = 2  # inputs d of all networks
    ratios: Several[Positive] = (0.5, 1.5, 2.5, 3.5)  # their ηλ₀: below 4, one or more beyond 2
    num_steps: Count = 200  # steps of gradient descent on them
    widths: Increasing[Count] = (100, 1000, 10000, 100000)  # widths at which peaks are compared
    num_seeds: Count = 20  # random networks

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 < max(self.ratios) < 4:
            raise ValueError(f"ratios must be below 4, one beyond 2, got {self.ratios}.")


PRESETS = {
    "smoke": Config(width=200, widths=(300, 3000, 30000)),
    "paper": Config(width=5000, dimension=100, num_seeds=40),
}


class Result(NamedTuple):
    """Axes: r ratios, s seeds, t steps, w widths, n samples."""

    loss: Float[Measured, "r s t"]  # of the quadratic model
    map_loss: Float[Measured, "r s t"]  # as the map predicts it
    linear_loss: Float[Measured, "r s t"]  # of the linear model, with the same learning rate
    map_error: Float[Measured, "r s"]  # of (g, λ), relative to the running maximum
    reduced_error: Float[Measured, "r s"]  # of (u, v, w), likewise
    quadratic_peaks: Float[Measured, "s w"]  # highest η²·loss of the quadratic models
    network_peaks: Float[Measured, "s w"]  # and of the ReLU networks themselves
    linear_outputs: Float[Measured, "s t n 1"]  # of linear models with several samples
    linear_predicted: Float[Measured, "s t n 1"]
    linear_threshold: Float[Measured, " s"]  # measured, in units of the predicted one


def run(config: Config) -> Result:
    """Train networks beside the map, at every ratio and every width, a block of seeds at a time."""
    report(f"{config.num_seeds} networks", 0.0)
    weights_key, samples_key, _ = jax.random.split(jax.random.key(config.seed), 3)
    keys = jax.random.split(weights_key, config.num_seeds)
    at_once = max(1, MOST_WEIGHTS // (_widest(config) * config.dimension))
    found = seed_blocks(lambda keys: _measured(config, keys, samples_key), keys, at_once)
    ratios_first = {name: found.pop(name).swapaxes(0, 1) for name in MapComparison._fields}
    return Result(**ratios_first, **found)


def _widest(config: Config) -> int:
    return max(config.width, *config.widths)


def _measured(config: Config, keys: Key[Array, " s"], samples_key: RandomKey) -> dict[str, Array]:
    """What is measured with some seeds; seeds come first."""
    weights = _drawn(keys, _widest(config), config.dimension)
    ratios = jnp.asarray(config.ratios)
    networks = _networks(weights, ratios, config.width, config.num_steps)
    peaks = jnp.stack([_peaks(weights, width) for width in config.widths], axis=2)
    return {
        **{name: values.swapaxes(0, 1) for name, values in networks._asdict().items()},
        **_linear(weights, samples_key),
        **dict(zip(("quadratic_peaks", "network_peaks"), peaks, strict=True)),
    }


@partial(jax.jit, static_argnums=(1, 2))
def _drawn(keys: Key[Array, " s"], width: int, dimension: int) -> GatedWeights:
    """Random networks, one for each seed."""
    return jax.vmap(lambda key: gated.init(key, width, dimension))(keys)


def _narrow(weights: GatedWeights, width: int) -> GatedWeights:
    """Keep the first neurons of every seed's network, which is again a random network."""
    return GatedWeights(weights.first[:, :width], weights.second[:, :width])


@partial(jax.jit, static_argnums=(2, 3))
def _networks(
    weights: GatedWeights, ratios: Float[Array, " r"], width: int, num_steps: int
) -> MapComparison:
    """Quadratic and linear models beside the map, for every ratio and seed."""

    def one(ratio: Scalar, weights: GatedWeights) -> MapComparison:
        return one_example.compare(weights, x, TARGET, ratio, num_steps)

    x = jnp.ones(weights.first.shape[-1])  # ‖x‖² = d, so that λ₀ ≈ 1
    over_seeds = jax.vmap(one, in_axes=(None, 0))
    over_ratios = jax.vmap(over_seeds, in_axes=(0, None))
    return over_ratios(ratios, _narrow(weights, width))


@partial(jax.jit, static_argnums=1)
def _peaks(weights: GatedWeights, width: int) -> Float[Array, "2 s"]:
    """The highest η²·loss of the quadratic model and of the network itself, for every seed."""

    def one(frozen: Bool[Array, ""], weights: GatedWeights) -> Float[Array, ""]:
        return one_example.highest_loss(weights, x, TARGET, PEAK_RATIO, PEAK_STEPS, frozen)

    x = jnp.ones(weights.first.shape[-1])
    over_seeds = jax.vmap(one, in_axes=(None, 0))
    over_models = jax.vmap(over_seeds, in_axes=(0, None))
    return over_models(jnp.array([True, False]), _narrow(weights, width))


@jax.jit
def _linear(weights: GatedWeights, key: RandomKey) -> dict[str, Array]:
    """Linear models with several random samples, for every seed."""
    samples = jax.random.normal(key, (NUM_SAMPLES, weights.first.shape[-1] + 1))
    x, y = samples[:, 1:], samples[:, :1]

    def one(weights: GatedWeights) -> dict[str, Array]:
        apply = linearize(gated.network, weights)
        kernel = gated.tangent_kernel(weights, gated.gates(weights, x), x)
        critical = linear.largest_stable_rate(kernel)
        model, rate, steps = (lambda w: apply(w, x)), LINEAR_RATIO * critical, np.arange(101)
        outputs = linear.descended(model, weights, y, rate, steps)
        threshold = linear.measured_threshold(model, weights, y, critical, LINEAR_STEPS)
        return {
            "linear_outputs": outputs,
            "linear_predicted": linear.outputs(kernel, outputs[0], y, rate, jnp.asarray(steps)),
            "linear_threshold": threshold,
        }

    return jax.vmap(one)(_narrow(weights, LINEAR_WIDTH))


def _beyond(losses: np.ndarray, config: Config) -> np.ndarray:
    """Losses at ratios beyond 2."""
    return losses[np.array(config.ratios) > 2]


def _rises(losses: np.ndarray) -> np.ndarray:
    """The highest loss after the start, over the first."""
    return losses[..., 1:].max(axis=-1) / losses[..., 0]


def _falls(losses: np.ndarray) -> np.ndarray:
    """loss(t) − loss(t + 1), over the first loss."""
    return -np.diff(losses, axis=-1) / losses[..., :1]


CLAIMS = (
    MAP.claim(
        "Output and curvature of the quadratic model obey a map of the plane exactly.",
        lambda r, c: at_most(r.map_error.max(), 1e-12),
    ),
    REDUCED.claim(
        "In reduced coordinates the map is exact as well.",
        lambda r, c: at_most(r.reduced_error.max(), 1e-12),
        formula=r"u' = (1 - v + u + w)^2 u, \quad v' = v - u (4 - v) - 4 w",
    ),
    CATAPULT.claim(
        "Beyond the critical learning rate the loss of the quadratic model increases.",
        lambda r, c: at_least(_rises(_beyond(r.loss, c)).min(), 1.0),
        quote="the catapult happens: with high probability over random initialization",
        demand="source",
    ),
    CATAPULT.claim(
        "Then it decreases to O(1): it ends below its first value.",
        lambda r, c: at_most((_beyond(r.loss, c)[..., -1] / _beyond(r.loss, c)[..., 0]).max(), 1.0),
        regime="num_steps >= 200",
        demand="source",
    ),
    CATAPULT.claim(
        "Its peak is of the order of m/log m at least.",
        lambda r, c: exponent_between(
            c.widths, r.quadratic_peaks * np.log(c.widths) / c.widths, 0.0, np.inf
        ),
        formula=r"\max_t L(t) = \Omega(m (\eta\lambda_0 - 2)^2 / \log m)",
        demand="source",
    ),
    NETWORK.found(
        "The peak loss of quadratic models, trained in their weights, grows as the width.",
        lambda r, c: exponent_between(c.widths, r.quadratic_peaks, 0.9, 1.02),
        formula=r"\max_t L(t) \propto m",
        demand="lab: set on another run at widths 10² to 10⁵, where the slope was 0.95 to 0.97",
    ),
    NETWORK.found(
        "So does the peak loss of the ReLU networks themselves.",
        lambda r, c: exponent_between(c.widths, r.network_peaks, 0.9, 1.02),
        demand="lab: set on another run at widths 10² to 10⁵, where the slope was 0.91 to 0.94",
    ),
    LINEAR.claim(
        "Linear models follow the closed form.",
        lambda r, c: identity(r.linear_outputs, r.linear_predicted, 1e-10),
        formula=r"f(t) - y = (I - \eta K)^t (f(0) - y)",
    ),
    LINEAR.claim(
        "Linear models converge up to the critical learning rate, found by bisection within 1 %.",
        lambda r, c: at_most(np.abs(r.linear_threshold - 1).max(), 0.01),
        formula=r"\eta_{\max} = 2 / \lambda_{\max}(K)",
        quote="the critical and maximum learning rates are equal in this setting",
        demand="lab: for a bisection that sees 500 steps",
    ),
    LINEAR.claim(
        "Below it the loss of the linear model decreases monotonically.",
        lambda r, c: holds(_falls(r.linear_loss[np.array(c.ratios) < 2]), 1e-20),
        quote="decreases monotonically and if",
    ),
    LINEAR.control(
        "The linear model has no catapult: beyond it the loss keeps increasing.",
        lambda r, c: holds(-_falls(_beyond(r.linear_loss, c))),
        quote="the loss L keeps increasing",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw losses in time, of the first seed, and peaks over the width."""
    figure, (time, peak) = panels("loss over steps", "highest η²·loss")
    for index, ratio in enumerate(config.ratios):
        colour = COLOURS[index % len(COLOURS)]
        time.semilogy(result.loss[index, 0, :60], "o", color=colour, label=f"ηλ₀ = {ratio:g}")
        time.semilogy(result.map_loss[index, 0, :60], **THEORY)
        time.semilogy(result.linear_loss[index, 0, :60], color=colour, linewidth=0.8)
    time.set(xlabel="step (dots: network, dashes: map, thin: linear)", ylim=(1e-12, 1e6))
    time.legend(fontsize=7)
    peaks = {"quadratic model": result.quadratic_peaks, "ReLU network": result.network_peaks}
    scaling(peak, config.widths, peaks, exponent=1.0)
    label_axes(peak, "width m")
    return figure
