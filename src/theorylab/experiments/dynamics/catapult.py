"""A learning rate beyond the critical one catapults a wide network to a flatter place.

Take the quadratic model g of a two-layer ReLU network of width m, on one example with target y, and
descend on ½(g − y)² with step size η. With the curvature λ = ‖∇g‖², which begins at λ₀, the ratio
ηλ₀ decides. Below 2 the loss falls and λ hardly moves. Between 2 and 4 the loss first explodes, up
to a height proportional to m, while λ falls; once ηλ < 2 it comes back and converges: a catapult.
Beyond 4 it diverges. The linear model, whose λ cannot fall, diverges already beyond 2.

With δ = ηλ₀ − 2 and c = ‖x‖²/(md) for d inputs, u = cη²(g − y)² peaks near δ²/2, and ηλ ends near
2 − δ. Networks are trained in their weights; the map of the plane, which they obey exactly, is run
for many more widths and learning rates.

Source: zhu · nqm-2d-map · Eqs 3.11–3.14, Thms 3.3.1, 3.3.4, B.3.1, B.7.1; zhu · nqm-relu2 ·
Eqs 3.9–3.10; zhu · linear-dynamics · Eqs 3.7–3.8.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, at_least, at_most, exponent_between, holds, identity
from theorylab.dynamics import linear
from theorylab.dynamics.quadratic import gated, one_example, phases
from theorylab.dynamics.quadratic.gated import Weights
from theorylab.experiments.checks import refuse_below
from theorylab.experiments.drawing import COLOURS, THEORY, panels
from theorylab.models import linearize
from theorylab.numerics import power_law_exponents
from theorylab.progress import report
from theorylab.typing import RandomKey, Scalar

PRECISION = "float64"
FORMULA = (
    r"g' - y = (1 - \eta\lambda + c\eta^2 (g - y) g)\,(g - y), \quad "
    r"\lambda' = \lambda + c\eta^2 (g - y)^2 \lambda - 4 c \eta\,(g - y) g"
)

MAP = Source("zhu", "nqm-2d-map", "Eqs 3.11–3.12")
REDUCED = Source("zhu", "nqm-2d-map", "Eqs 3.13–3.14")
PHASES = Source("zhu", "nqm-2d-map", "Thms 3.3.1, B.3.1, B.7.1")
CATAPULT = Source("zhu", "nqm-2d-map", "Thm 3.3.1")
SHARPER = Source("zhu", "nqm-2d-map", "Thm 3.3.1, in the limit of small δ")
EQUILIBRIA = Source("zhu", "nqm-2d-map", "Thm 3.3.4")
SUBCRITICAL = Source("zhu", "nqm-2d-map", "Thm B.3.1")
AFTER_MAP = Source("zhu", "nqm-2d-map", "after Eq. 3.12")
NETWORK = Source("zhu", "nqm-relu2", "Eqs 3.9–3.10")
LINEAR = Source("zhu", "linear-dynamics", "Eqs 3.7–3.8")

TARGET, FIRST_OUTPUT = 1.0, 0.7  # y; and where the map begins
MAP_STEPS = 5000  # nearest to ηλ₀ = 2 the peak comes after about 1000 steps
DIAGRAM_STEPS = 400  # to draw, the band that needs more is too thin to be seen
MAP_WIDTHS = (1e4, 1e5, 1e6, 1e7, 1e8)
DELTAS = (0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 1.9)  # ηλ₀ − 2
WIDE = 2  # from this width on, 10⁶, all δ are outside the band
SMALL, SMOOTH = 3, 4  # the first δ: small ones; those where a peak between two steps hardly matters
BELOW = (0.5, 1.0, 1.5)  # ηλ₀ below the threshold
PEAK_RATIO, PEAK_STEPS = 3.0, 40  # the peak comes after about log m / (2 log 2) steps
NUM_SAMPLES, LINEAR_WIDTH, LINEAR_STEPS, LINEAR_RATIO = 8, 256, 500, 1.2  # linear models


@dataclass(frozen=True)
class Config:
    """Networks trained at chosen ηλ₀ and growing width; the map at many widths and rates."""

    width: int = 1000  # width of the networks that are compared with the map
    num_inputs: int = 2  # inputs d of all networks
    ratios: tuple[float, ...] = (0.5, 1.5, 2.5, 3.5)  # their ηλ₀: below 4, one or more beyond 2
    num_steps: int = 200  # steps of gradient descent on them
    widths: tuple[int, ...] = (100, 1000, 10000, 100000)  # widths at which peaks are compared
    num_settings: int = 300  # random (width, learning rate) whose phase is predicted
    resolution: int = 1000  # points along each axis of the phase diagram
    num_seeds: int = 20  # random networks
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_below(self, 1, "width", "num_inputs", "num_steps", "num_settings", "num_seeds")
        if not all(0 < ratio < 4 for ratio in self.ratios) or max(self.ratios, default=0) <= 2:
            raise ValueError(f"ratios must be in (0, 4), one beyond 2, got {self.ratios}.")
        if len(set(self.widths)) < 2 or min(self.widths) < 1:
            raise ValueError(f"widths must be two or more different counts, got {self.widths}.")
        phases.check_resolution(self.resolution)


PRESETS = {
    "smoke": Config(width=200, widths=(300, 3000, 30000), resolution=20),
    "paper": Config(width=5000, num_inputs=100, num_settings=3000, resolution=1000, num_seeds=40),
}


class Result(NamedTuple):
    """Axes: r ratios, s seeds, t steps, w widths, k values of δ, q settings, b ratios below 2."""

    ratios: Float[np.ndarray, " r"]
    widths: Int[np.ndarray, " w"]
    loss: Float[np.ndarray, "r s t"]  # of the quadratic model
    map_loss: Float[np.ndarray, "r s t"]  # as the map predicts it
    linear_loss: Float[np.ndarray, "r s t"]  # of the linear model, with the same learning rate
    map_error: Float[np.ndarray, "r s"]  # of (g, λ), relative to the running maximum
    reduced_error: Float[np.ndarray, "r s"]  # of (u, v, w), likewise
    quadratic_peaks: Float[np.ndarray, "s w"]  # highest η²·loss of the quadratic models
    network_peaks: Float[np.ndarray, "s w"]  # and of the ReLU networks themselves
    linear_outputs: Float[np.ndarray, "s t n 1"]  # of linear models with several samples
    linear_predicted: Float[np.ndarray, "s t n 1"]
    linear_threshold: Float[np.ndarray, " s"]  # measured, in units of the predicted one
    predicted_phase: Int[np.ndarray, " q"]  # 0 subcritical, 1 catapult, 2 divergent
    observed_phase: Int[np.ndarray, " q"]
    largest_rise: Float[np.ndarray, " q"]  # largest loss(t + 1)/loss(t)
    last_ratio: Float[np.ndarray, " q"]  # final ηλ
    peak_height: Float[np.ndarray, "k w"]  # highest u, in units of δ²
    peak_rise: Float[np.ndarray, "k w"]  # highest loss over first loss
    mirror: Float[np.ndarray, "k w"]  # final 2 − ηλ, in units of δ
    drift: Float[np.ndarray, "b w"]  # sup |λ − λ₀|
    phase_ratios: Float[np.ndarray, " h"]  # ηλ₀ and m of the phase diagram
    phase_widths: Float[np.ndarray, " h"]
    phase_rise: Float[np.ndarray, "h h"]  # highest loss over first loss; infinite or NaN beyond 4


def memory(config: Config) -> int:
    """Bytes of the widest networks while they train, of the recorded steps, of the diagram."""
    widest = max(config.width, *config.widths)
    weights = widest * (config.num_inputs + 1) * config.num_seeds
    recorded = len(config.ratios) * config.num_seeds * config.num_steps
    return 8 * (12 * weights + 20 * recorded + 20 * config.resolution**2)


def run(config: Config) -> Result:
    """Train the networks, run the map."""
    weights_key, samples_key, settings_key = jax.random.split(jax.random.key(config.seed), 3)
    report("drawing networks", 0.0)
    widest = max(config.width, *config.widths)
    draw = jax.jit(jax.vmap(lambda key: gated.init(key, widest, config.num_inputs)))
    weights = draw(jax.random.split(weights_key, config.num_seeds))
    report("quadratic networks beside the map", 0.1)
    networks = _networks(weights, config.width, config.ratios, config.num_steps)
    peaks = []
    for index, width in enumerate(config.widths):
        report(f"peaks at width {width}", 0.3 + 0.4 * index / len(config.widths))
        peaks.append(_peaks(weights, width))
    quadratic_peaks, network_peaks = np.stack(peaks, axis=2)
    report("linear models", 0.7)
    linear_models = _linear(weights, samples_key)
    report("the map at many widths", 0.9)
    maps = _maps(settings_key, config.num_settings, config.resolution)
    measured = networks._asdict() | linear_models | maps
    return Result(
        ratios=np.asarray(config.ratios),
        widths=np.asarray(config.widths),
        quadratic_peaks=quadratic_peaks,
        network_peaks=network_peaks,
        **{name: np.asarray(array) for name, array in measured.items()},
    )


def _narrow(weights: Weights, width: int) -> Weights:
    """Keep the first neurons of every seed's network, which is again a random network."""
    return Weights(weights.first[:, :width], weights.second[:, :width])


@partial(jax.jit, static_argnums=(1, 2, 3))
def _networks(
    weights: Weights, width: int, ratios: tuple[float, ...], num_steps: int
) -> one_example.Comparison:
    """Quadratic and linear models beside the map, for every ratio and seed."""

    def one(ratio: Scalar, weights: Weights) -> one_example.Comparison:
        return one_example.compare(weights, x, TARGET, ratio, num_steps)

    x = jnp.ones(weights.first.shape[-1])  # ‖x‖² = d, so that λ₀ ≈ 1
    over_seeds = jax.vmap(one, in_axes=(None, 0))
    over_ratios = jax.vmap(over_seeds, in_axes=(0, None))
    return over_ratios(jnp.asarray(ratios), _narrow(weights, width))


@partial(jax.jit, static_argnums=1)
def _peaks(weights: Weights, width: int) -> Float[Array, "2 s"]:
    """The highest η²·loss of the quadratic model and of the network itself, for every seed."""

    def one(frozen: Bool[Array, ""], weights: Weights) -> Float[Array, ""]:
        return one_example.highest_loss(weights, x, TARGET, PEAK_RATIO, PEAK_STEPS, frozen)

    x = jnp.ones(weights.first.shape[-1])
    over_seeds = jax.vmap(one, in_axes=(None, 0))
    over_models = jax.vmap(over_seeds, in_axes=(0, None))
    return over_models(jnp.array([True, False]), _narrow(weights, width))


@jax.jit
def _linear(weights: Weights, key: RandomKey) -> dict[str, Array]:
    """Linear models with several random samples, for every seed."""
    samples = jax.random.normal(key, (NUM_SAMPLES, weights.first.shape[-1] + 1))
    x, y = samples[:, 1:], samples[:, :1]

    def one(weights: Weights) -> dict[str, Array]:
        apply = linearize(gated.network, weights)
        kernel = gated.tangent_kernel(weights, gated.gates(weights, x), x)
        critical = linear.largest_stable_rate(kernel)
        model, rate, steps = (lambda w: apply(w, x)), LINEAR_RATIO * critical, np.arange(101)
        outputs = linear.descended(model, weights, y, rate, steps)
        return {
            "linear_outputs": outputs,
            "linear_predicted": linear.outputs(kernel, outputs[0], y, rate, jnp.asarray(steps)),
            "linear_threshold": linear.measured_threshold(
                model, weights, y, critical, LINEAR_STEPS
            ),
        }

    return jax.vmap(one)(_narrow(weights, LINEAR_WIDTH))


@partial(jax.jit, static_argnums=(1, 2))
def _maps(key: RandomKey, num_settings: int, resolution: int) -> dict[str, Array]:
    """Run the map for all who ask for it, at once: one program, one loop."""
    ratio, width = phases.draw_settings(key, num_settings)
    deltas, widths = jnp.meshgrid(jnp.array(DELTAS), jnp.array(MAP_WIDTHS), indexing="ij")
    below = jnp.meshgrid(jnp.array(BELOW), jnp.array(MAP_WIDTHS), indexing="ij")
    settings = [(ratio, width), (2 + deltas, widths), tuple(below)]
    courses = partial(phases.courses, FIRST_OUTPUT, TARGET)
    random, catapults, calm = courses(settings, MAP_STEPS)
    diagram = phases.diagram(resolution)
    # Row by row, because a row stays in a core's cache.
    phase = jax.lax.map(lambda row: courses(settings=[row], num_steps=DIAGRAM_STEPS)[0], diagram)
    return {
        "predicted_phase": phases.predicted_phase(ratio),
        "observed_phase": phases.observed_phase(random),
        "largest_rise": random.largest_rise,
        "last_ratio": ratio * random.last.curvature,
        "peak_height": 2 * catapults.highest_loss * (2 + deltas) ** 2 / widths / deltas**2,
        "peak_rise": catapults.highest_loss / catapults.first_loss,
        "mirror": (2 - (2 + deltas) * catapults.last.curvature) / deltas,
        "drift": calm.drift,
        "phase_ratios": diagram[0][0],
        "phase_widths": diagram[1][:, 0],
        "phase_rise": (phase.highest_loss / phase.first_loss).astype(jnp.float32),
    }


def _exponent_error(values: np.ndarray, exponent: float) -> float:
    """The largest distance of the exponents in the width, one for each row, from this one."""
    return np.abs(power_law_exponents(np.asarray(MAP_WIDTHS), values) - exponent).max()


def _mirror_margins(result: Result) -> np.ndarray:
    """How far (2 − ηλ)/δ is inside [1 − 0.01/δ, 1.3] at the end, for small δ."""
    mirror, delta = result.mirror[:SMALL], np.asarray(DELTAS)[:SMALL, None]
    return np.minimum(mirror - (1 - 0.01 / delta), 1.3 - mirror)


# The tolerances are the catalogue's acceptance numbers; they were set on other runs than these.
CLAIMS = (
    Claim(
        "Output and curvature of the quadratic model obey a map of the plane exactly.",
        judge=lambda r, c: at_most(r.map_error.max(), 1e-12),
        source=MAP,
    ),
    Claim(
        "In reduced coordinates the map is exact as well.",
        judge=lambda r, c: at_most(r.reduced_error.max(), 1e-12),
        source=REDUCED,
        formula=r"u' = (1 - v + u + w)^2 u, \quad v' = v - u (4 - v) - 4 w",
    ),
    Claim(
        "ηλ₀ decides: the loss falls below 2, is catapulted from 2 to 4, diverges beyond 4; of"
        " random runs outside the bands, none is predicted wrongly.",
        judge=lambda r, c: at_most(np.count_nonzero(r.observed_phase != r.predicted_phase), 0),
        source=PHASES,
        formula=r"\eta\lambda_0 \lessgtr 2,\ 4",
    ),
    Claim(
        "Every catapult ends where the equilibrium is stable, with ηλ between 0 and 2.",
        judge=lambda r, c: holds(
            1 - np.abs(r.last_ratio[r.predicted_phase == phases.CATAPULT] - 1)
        ),
        source=EQUILIBRIA,
        formula=r"0 < \eta\lambda_\infty < 2",
    ),
    Claim(
        "The peak loss of the map is proportional to the width, without a visible logarithm.",
        judge=lambda r, c: at_most(_exponent_error(r.peak_rise[:SMOOTH], 1.0), 0.03),
        source=SHARPER,
        formula=r"\max_t L(t) \propto m",
    ),
    Claim(
        "At its peak u is between 0.45 δ² and δ², for δ from 0.05 to 1.9.",
        judge=lambda r, c: holds(0.275 - np.abs(r.peak_height - 0.725)),
        source=SHARPER,
        formula=r"0.45 \le \max_t u(t) / \delta^2 \le 1",
    ),
    Claim(
        "A small catapult mirrors the curvature at the threshold: ηλ goes from 2 + δ to 2 − δ.",
        judge=lambda r, c: holds(_mirror_margins(r)),
        source=SHARPER,
        formula=r"2 - 1.3\,\delta \le \eta\lambda_\infty \le 2 - \delta + 0.01",
    ),
    Claim(
        "The peak loss of quadratic models, trained in their weights, grows as the width.",
        judge=lambda r, c: exponent_between(r.widths, r.quadratic_peaks, 0.9, 1.02),
        source=NETWORK,
        formula=r"\max_t L(t) \propto m",
    ),
    Claim(
        "So does the peak loss of the ReLU networks themselves.",
        judge=lambda r, c: exponent_between(r.widths, r.network_peaks, 0.9, 1.02),
        source=NETWORK,
    ),
    Claim(
        "Below the threshold the curvature drifts by an amount that falls as one over the width.",
        judge=lambda r, c: at_most(_exponent_error(r.drift, -1.0), 0.15),
        source=SUBCRITICAL,
        formula=r"\sup_t |\lambda(t) - \lambda_0| \propto m^{-1}",
    ),
    Claim(
        "Linear models follow the closed form.",
        judge=lambda r, c: identity(r.linear_outputs, r.linear_predicted, 1e-10),
        source=LINEAR,
        formula=r"f(t) - y = (I - \eta K)^t (f(0) - y)",
    ),
    Claim(
        "Linear models converge up to the critical learning rate, found by bisection within 1 %.",
        judge=lambda r, c: at_most(np.abs(r.linear_threshold - 1).max(), 0.01),
        source=LINEAR,
        formula=r"\eta_{\max} = 2 / \lambda_{\max}(K)",
    ),
    Claim(
        "Beyond the critical learning rate the quadratic model catapults, and converges.",
        judge=lambda r, c: at_most((r.loss[..., -1] / r.loss[..., 0])[r.ratios > 2].max(), 1e-6),
        source=CATAPULT,
    ),
    Claim(
        "The linear model diverges there.",
        judge=lambda r, c: at_least(
            (r.linear_loss[..., -1] / r.linear_loss[..., 0])[r.ratios > 2].min(), 1e6
        ),
        source=LINEAR,
    ),
    Claim(
        "The linear model has no catapult; its highest loss is the first or the last.",
        judge=lambda r, c: holds(r.linear_loss[..., [0, -1]].max(-1) - r.linear_loss.max(-1)),
        source=LINEAR,
        kind="control",
    ),
    Claim(
        "Below the threshold there is no catapult; the loss falls at every step.",
        judge=lambda r, c: at_most(
            r.largest_rise[r.predicted_phase == phases.SUBCRITICAL].max(), 1.0
        ),
        source=SUBCRITICAL,
        kind="control",
        formula=r"L(t + 1) \le L(t)",
    ),
    Claim(
        "Slightly above the critical learning rate the loss decreases monotonically.",
        judge=lambda r, c: at_most(r.peak_rise[0, WIDE:].max(), 1.0),
        source=AFTER_MAP,
        kind="printed",
    ),
    Claim(
        "Slightly above the critical learning rate, by 2.5 %, the loss first rises tenfold.",
        judge=lambda r, c: at_least(r.peak_rise[0, WIDE:].min(), 10.0),
        source=AFTER_MAP,
        kind="corrected",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw losses in time, the phase diagram, peaks over width, and where catapults end."""
    figure, (time, phase, peak, end) = panels(
        "loss over steps", "highest loss / first loss", "highest η²·loss", "peak and end"
    )
    for ratio, loss, map_loss, line, colour in zip(
        result.ratios, result.loss, result.map_loss, result.linear_loss, COLOURS, strict=False
    ):
        time.semilogy(loss[0, :60], "o", color=colour, markersize=3, label=f"ηλ₀ = {ratio:g}")
        time.semilogy(map_loss[0, :60], **THEORY)
        time.semilogy(line[0, :60], color=colour, linewidth=0.8, alpha=0.6)
    time.set(xlabel="step (dots: network, dashes: map, thin: linear)", ylim=(1e-12, 1e6))
    time.legend(fontsize=7)

    rise = np.log10(np.where(np.isfinite(result.phase_rise), result.phase_rise, np.nan))
    mesh = phase.pcolormesh(result.phase_ratios, result.phase_widths, rise, rasterized=True)
    figure.colorbar(mesh, ax=phase, label="log₁₀; white: diverges")
    for ratio in (2, 4):
        phase.axvline(ratio, **THEORY)
    phase.set(yscale="log", xlabel="ηλ₀", ylabel="width m")

    peak.loglog(result.widths, np.median(result.quadratic_peaks, 0), "o", label="quadratic model")
    peak.loglog(result.widths, np.median(result.network_peaks, 0), "s", label="ReLU network")
    peak.loglog(result.widths, result.widths * (PEAK_RATIO - 2) ** 2 / 4, label="mδ²/4", **THEORY)
    peak.set(xlabel="width m")
    peak.legend(fontsize=7)

    end.plot(DELTAS, result.mirror[:, WIDE], "o", label="(2 − final ηλ) / δ")
    end.plot(DELTAS, result.peak_height[:, WIDE], "s", label="highest u / δ²")
    for limit in (1.0, 0.5):
        end.axhline(limit, **THEORY)
    end.set(xlabel="δ = ηλ₀ − 2, at m = 10⁶", ylim=(0, 2.2))
    end.legend(fontsize=7)
    return figure
