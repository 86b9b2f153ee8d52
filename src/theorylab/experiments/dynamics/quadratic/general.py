"""A quadratic model with a small nonlinearity catapults just as a wide network does.

The general quadratic model g(w) = wᵀφ + ½γ wᵀΣw has no neurons. Its nonlinearity γ plays the role
of 1/√width: with one example, features φ of length 1 and a diagonal Σ of random signs, descent on
½(g − y)² with step size η converges monotonically if ηλ₀ < 2, catapults if 2 < ηλ₀ < 4, diverges
beyond, where λ = ‖∇g‖² begins at λ₀ ≈ 1. The smaller γ, the higher the peak of the loss, ∝ γ⁻²; but
where λ ends does not depend on γ. Two-layer ReLU networks on twenty images do the same with their
width and the top eigenvalue λ of their tangent kernel.

The two-layer linear network is a model of this kind. The source's proposition about it is checked
as printed (with γ for γ², without an η, with Σ² = ‖x‖²I) and as corrected (Σ³ = ‖x‖²Σ).

Source: zhu · gqm · Eq. 3.3, Prop. B.13.1, Fig. B.4.
"""

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.figure import Figure

from theorylab.claims import (
    Claim,
    Source,
    at_most,
    exponent_between,
    identity,
    median_at_least,
    median_at_most,
    trend,
)
from theorylab.data import Dataset, image_set
from theorylab.data.downloads import image_shape
from theorylab.dynamics.quadratic import gated, general, phases
from theorylab.dynamics.quadratic.general import QuadraticModel
from theorylab.experiments.checks import count_fields, refuse_below
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import ImageSet
from theorylab.progress import report
from theorylab.training import descend, ensemble, gradient_descent, squared
from theorylab.typing import RandomKey, Scalar

PRECISION = "float64"
FORMULA = (
    r"g' = g - \eta\lambda r + \tfrac12 \eta^2 \gamma r^2 (q + 2\gamma s g), \quad"
    r" \lambda' = \lambda - 2\eta\gamma r (q + 2\gamma s g) + \eta^2 \gamma^2 s r^2 \lambda"
)

MODEL = Source("zhu", "gqm", "Eq. 3.3")
FIGURE = Source("zhu", "gqm", "Fig. B.4")
PROPOSITION = Source("zhu", "gqm", "Prop. B.13.1")

# ηλ₀ of the three regimes: the nearest are 3 % off 2 and 4, as near as the catalogue demands.
RATIOS = (0.4, 0.8, 1.2, 1.5, 1.94, 2.06, 2.3, 2.6, 2.9, 3.2, 3.5, 3.88, 4.12, 4.6, 5.0)
RISING = slice(5, 9)  # from 2.06 to 2.9; beyond 3, where λ ends is erratic
CALM = slice(0, 5)
LINEAR_WIDTH, LINEAR_INPUT = 20, (1.0, 2.0, 3.0)  # of the two-layer linear network
LOSS = squared("half_sum")


@dataclass(frozen=True)
class Config:
    """Random quadratic models at several γ, and ReLU networks at several widths."""

    num_parameters: int = 100  # parameters of the quadratic model
    nonlinearities: tuple[float, ...] = (1e-4, 1e-3, 1e-2)  # γ, growing
    learning_rate: float = 2.8  # ηλ₀ at which γ is varied; between 2 and 4
    target: float = 0.0  # y of the quadratic model, which the source does not give
    num_steps: int = 300  # of the quadratic model
    images: ImageSet = "digits"  # their classes 3 and 8, for the networks
    num_samples: int = 20  # images
    widths: tuple[int, ...] = (500, 1500, 5000)  # of the networks, growing
    network_ratios: tuple[float, ...] = (0.75, 1.2, 1.4)  # their η/η_crit: the first below 1
    network_steps: int = 60  # of the networks
    num_seeds: int = 10  # random models and networks
    seed: int = 0  # of all randomness

    def __post_init__(self) -> None:
        refuse_below(self, 1, "network_steps", *count_fields(self))
        if not np.isfinite(self.target):
            raise ValueError(f"target must be finite, got {self.target}.")
        for name in ("nonlinearities", "widths", "network_ratios"):
            values = getattr(self, name)
            if len(values) < 2 or min(values) <= 0 or tuple(sorted(set(values))) != values:
                raise ValueError(f"{name} must be positive, two or more, and grow, got {values}.")
        if not 2 < self.learning_rate < 4:
            raise ValueError(f"learning_rate must be in (2, 4), got {self.learning_rate}.")
        if not self.network_ratios[0] < 1 < self.network_ratios[1]:
            raise ValueError(f"only the first ratio must be below 1, got {self.network_ratios}.")


PRESETS = {
    "smoke": Config(widths=(400, 1200), network_steps=50, num_seeds=8),
    "paper": Config(
        nonlinearities=(1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
        images="mnist5k",
        widths=(1000, 3000, 10000, 30000),
        network_steps=200,
        num_seeds=20,
    ),
}


class Result(NamedTuple):
    """Axes: s seeds, g nonlinearities, t steps, e ratios ηλ₀, w widths, f network ratios."""

    nonlinearities: Float[np.ndarray, " g"]
    widths: Int[np.ndarray, " w"]
    network_ratios: Float[np.ndarray, " f"]
    loss: Float[np.ndarray, "s g t"]  # of the quadratic model, in its weights
    curvature: Float[np.ndarray, "s g t"]  # λ
    map_error: Float[np.ndarray, "s g"]  # of (g, λ), relative to the running maximum
    predicted_phase: Int[np.ndarray, "s e"]  # 0 subcritical, 1 catapult, 2 divergent
    observed_phase: Int[np.ndarray, "s e"]  # of the quadratic model with γ = 10⁻³
    highest_loss: Float[np.ndarray, "s e"]
    last_curvature: Float[np.ndarray, "s e"]
    linear_rise: Float[np.ndarray, " s"]  # last over first loss with γ = 0
    after: Float[np.ndarray, "s 2"]  # (g, λ) of the two-layer linear network after a step
    printed_after: Float[np.ndarray, "s 2"]
    corrected_after: Float[np.ndarray, "s 2"]
    squared_matrix: Float[np.ndarray, "p p"]  # Σ² / ‖x‖² of that network
    cubed_matrix: Float[np.ndarray, "p p"]  # Σ³ / ‖x‖²
    matrix: Float[np.ndarray, "p p"]
    network_peaks: Float[np.ndarray, "s w f"]  # highest over first loss of the ReLU networks
    network_ends: Float[np.ndarray, "s w f"]  # last over first top eigenvalue


def memory(config: Config) -> int:
    """Bytes of the widest networks while they train, and of the quadratic models' matrices."""
    weights = max(config.widths) * prod(image_shape(config.images)) * len(config.network_ratios)
    matrices = config.num_parameters**2 * len(config.nonlinearities)
    recorded = len(config.nonlinearities) * config.num_steps
    return 8 * config.num_seeds * (8 * weights + 4 * matrices + 12 * recorded)


def run(config: Config) -> Result:
    """Run the quadratic models and the map, then the networks."""
    model_key, network_key, data_key = jax.random.split(jax.random.key(config.seed), 3)
    report("quadratic models", 0.0)
    keys = jax.random.split(model_key, config.num_seeds)
    models = ensemble(partial(_model, config), keys)
    report("networks", 0.2)
    images = image_set(config.images, "standard", (3, 8), "sign").flat().shuffled(data_key)
    data = images.subset(slice(config.num_samples))
    shape = (config.num_seeds, len(config.widths), len(config.network_ratios))
    seeds, widths, ratios = (part.ravel() for part in np.indices(shape))
    settings = (
        jax.random.split(network_key, config.num_seeds)[seeds],
        jnp.asarray(config.widths, float)[widths],
        jnp.asarray(config.network_ratios)[ratios],
    )
    train = partial(_network, data, max(config.widths), config.network_steps)
    peaks, ends = (np.reshape(np.asarray(values), shape) for values in ensemble(train, settings))
    x = jnp.asarray(LINEAR_INPUT)
    sigma = np.asarray(general.linear_network(x, LINEAR_WIDTH).matrix)
    square = sigma @ sigma / float(x @ x)
    return Result(
        nonlinearities=np.asarray(config.nonlinearities),
        widths=np.asarray(config.widths),
        network_ratios=np.asarray(config.network_ratios),
        network_peaks=peaks,
        network_ends=ends,
        matrix=sigma,
        squared_matrix=square,
        cubed_matrix=square @ sigma,
        **{name: np.asarray(value) for name, value in models.items()},
    )


def _model(config: Config, key: RandomKey) -> dict[str, Array]:
    """All that one example shows, for one seed."""
    model_key, weights_key, linear_key = jax.random.split(key, 3)
    model = general.random_model(model_key, config.num_parameters, 1e-3)
    weights = jax.random.normal(weights_key, (config.num_parameters,))
    target, num_steps = config.target, config.num_steps

    def compared(gamma: Scalar) -> tuple[Float[Array, "2 t"], Float[Array, "2 t"]]:
        bent = model._replace(nonlinearity=gamma)
        start = general.state(bent, weights)
        rate = config.learning_rate / start.curvature
        problem = general.problem(bent, target, rate)
        path = general.descended(bent, weights, target, rate, num_steps)
        predicted = general.trajectory(start, problem, num_steps)
        return jnp.stack([*path]), jnp.stack([*predicted])

    path, predicted = jax.vmap(compared)(jnp.array([*config.nonlinearities, 0.0]))
    losses = (path[:, 0] - target) ** 2 / 2
    errors = jnp.abs(path - predicted) / jax.lax.cummax(jnp.abs(predicted), axis=2)
    return {
        "loss": losses[:-1],
        "curvature": path[:-1, 1],
        "map_error": errors[:-1].max(axis=(1, 2)),
        "linear_rise": losses[-1, -1] / losses[-1, 0],
        **_regimes(model, weights, target, num_steps),
        **_linear_step(linear_key),
    }


def _regimes(
    model: QuadraticModel, weights: Float[Array, " p"], target: Scalar, num_steps: int
) -> dict[str, Array]:
    """Phases over the ratio ηλ₀, by the equivalent map of one example."""
    ratios = jnp.asarray(RATIOS)
    start = general.state(model, weights)

    def one(ratio: Scalar) -> phases.PhaseCourse:
        problem = general.problem(model, target, ratio / start.curvature)
        return phases.course(*general.as_one_example(start, problem), num_steps)

    seen = jax.vmap(one)(ratios)
    return {
        "predicted_phase": phases.predicted_phase(ratios),
        "observed_phase": phases.observed_phase(seen),
        "highest_loss": seen.highest_loss,
        "last_curvature": jnp.asarray(seen.last.curvature),
    }


def _linear_step(key: RandomKey) -> dict[str, Array]:
    """One step of the two-layer linear network with y = 0, and what is printed about it."""
    x = jnp.asarray(LINEAR_INPUT)
    model = general.linear_network(x, LINEAR_WIDTH)
    weights = jax.random.normal(key, model.features.shape)
    start = general.state(model, weights)
    problem = general.problem(model, 0.0, 3 / start.curvature)

    def network(w: Float[Array, " p"]) -> Float[Array, ""]:
        inner, outer = w[:-LINEAR_WIDTH].reshape(LINEAR_WIDTH, -1), w[-LINEAR_WIDTH:]
        return outer @ inner @ x / LINEAR_WIDTH**0.5

    moved = weights - problem.learning_rate * jax.grad(lambda w: network(w) ** 2 / 2)(weights)
    slope = jax.grad(network)(moved)
    return {
        "after": jnp.stack([network(moved), slope @ slope]),
        "printed_after": jnp.stack([*general.printed_step(start, problem)]),
        "corrected_after": jnp.stack([*general.step(start, problem)]),
    }


def _network(
    data: Dataset, widest: int, num_steps: int, setting: tuple[RandomKey, Scalar, Scalar]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Highest over first loss, and last over first top eigenvalue, of a ReLU network.

    All widths m are one program: neurons beyond m are 0 and stay so; inputs are scaled by √(M/m),
    where M is the widest, because the network divides by √M.
    """
    key, width, ratio = setting
    x = data.x * jnp.sqrt(widest / width)
    drawn = gated.init(key, widest, x.shape[1])
    own = (jnp.arange(widest) < width).astype(x.dtype)
    weights = gated.Weights(drawn.first * own[:, None], drawn.second * own)

    def top(weights: gated.Weights) -> Float[Array, ""]:
        kernel = gated.tangent_kernel(weights, gated.gates(weights, x), x)
        return jnp.linalg.eigvalsh(kernel)[-1]

    def objective(weights: gated.Weights) -> Float[Array, ""]:
        return LOSS(gated.network(weights, x), data.y)

    first = top(weights)
    rate = ratio * LOSS.critical_learning_rate(first, data.num_samples)
    steps, optimizer = np.arange(num_steps + 1), gradient_descent(rate)
    path = descend(objective, weights, optimizer, steps, objective)
    return path.records.max() / path.records[0], top(path.params) / first


def _spread(ends: np.ndarray) -> np.ndarray:
    """(largest − smallest) / mean along the last axis."""
    return np.ptp(ends, axis=-1) / ends.mean(axis=-1)


# Exponent, spread and the classified grid are the catalogue's acceptance numbers.
CLAIMS = (
    Claim(
        "Output and curvature obey a map of the plane exactly, if Σ² = I.",
        judge=lambda r, c: at_most(r.map_error.max(), 1e-9),
        source=MODEL,
    ),
    Claim(
        "ηλ₀ decides: of fifteen learning rates none is predicted wrongly, at γ = 10⁻³.",
        judge=lambda r, c: at_most(np.count_nonzero(r.observed_phase != r.predicted_phase), 0),
        source=FIGURE,
        formula=r"\eta\lambda_0 \lessgtr 2,\ 4",
    ),
    Claim(
        "The smaller γ, the higher the peak of the loss: it is proportional to γ⁻².",
        judge=lambda r, c: exponent_between(r.nonlinearities, r.loss.max(axis=-1), -2.1, -1.9),
        source=FIGURE,
        formula=r"\max_t L(t) \propto \gamma^{-2}",
    ),
    Claim(
        "γ has no effect on where the curvature ends: from 10⁻⁴ to 10⁻² it varies by less than a"
        " fifth.",
        judge=lambda r, c: median_at_most(_spread(r.curvature[..., -1]), 0.2),
        source=FIGURE,
    ),
    Claim(
        "The larger η beyond 2/λ₀, the higher the peak.",
        judge=lambda r, c: trend(r.highest_loss[:, RISING].T),
        source=FIGURE,
    ),
    Claim(
        "The larger η, the more the curvature falls.",
        judge=lambda r, c: trend(r.last_curvature[:, RISING].T, increasing=False),
        source=FIGURE,
    ),
    Claim(
        "Networks: the wider, the higher the peak.",
        judge=lambda r, c: trend(r.network_peaks[:, :, -1].T),
        source=FIGURE,
    ),
    Claim(
        "Networks: the larger η, the higher the peak, at every width.",
        judge=lambda r, c: median_at_least(np.diff(np.log(r.network_peaks)).min(axis=(1, 2)), 0.0),
        source=FIGURE,
    ),
    Claim(
        "Networks: the larger η, the more the top eigenvalue falls, at every width.",
        judge=lambda r, c: median_at_most(np.diff(r.network_ends).max(axis=(1, 2)), 0.0),
        source=FIGURE,
    ),
    Claim(
        "Networks: width has no effect on where the top eigenvalue ends; it varies by less than a"
        " fifth.",
        judge=lambda r, c: median_at_most(_spread(r.network_ends[:, :, -1]), 0.2),
        source=FIGURE,
    ),
    Claim(
        "Below 2/λ₀ the curvature stays, to one in a hundred.",
        judge=lambda r, c: at_most(np.abs(r.last_curvature[:, CALM] - 1).max(), 0.01),
        source=FIGURE,
        kind="control",
    ),
    Claim(
        "Networks: below the critical learning rate the loss never exceeds its first value.",
        judge=lambda r, c: at_most(r.network_peaks[:, :, 0].max(), 1.0),
        source=FIGURE,
        kind="control",
    ),
    Claim(
        "Without nonlinearity, γ = 0, nothing stops the loss: it diverges.",
        judge=lambda r, c: median_at_least(np.minimum(r.linear_rise, 1e300), 1e20),
        source=FIGURE,
        kind="control",
    ),
    Claim(
        "The two-layer linear network moves by the map with γ, and without the η.",
        judge=lambda r, c: identity(r.printed_after, r.after, 1e-12),
        source=PROPOSITION,
        kind="printed",
        formula=r"\lambda' = \lambda - \gamma \|x\|^2 g^2 (4 - \eta\lambda)",
    ),
    Claim(
        "It moves by the map with γ², and an η before the bracket.",
        judge=lambda r, c: identity(r.corrected_after, r.after, 1e-12),
        source=PROPOSITION,
        kind="corrected",
        formula=r"\lambda' = \lambda - \eta \gamma^2 \|x\|^2 g^2 (4 - \eta\lambda)",
    ),
    Claim(
        "The matrix of this network has Σ² = ‖x‖²I.",
        judge=lambda r, c: identity(r.squared_matrix, np.eye(len(r.matrix)), 1e-12),
        source=PROPOSITION,
        kind="printed",
    ),
    Claim(
        "It has Σ³ = ‖x‖²Σ, which suffices.",
        judge=lambda r, c: identity(r.cubed_matrix, r.matrix, 1e-12),
        source=PROPOSITION,
        kind="corrected",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw losses and curvature in time at every γ, peaks over γ, and where the networks end."""
    figure, (loss, curvature, peak, end) = panels(
        "loss over steps", "curvature λ over steps", "peak loss over γ", "networks: end of λ / λ₀"
    )
    for index, gamma in enumerate(result.nonlinearities):
        loss.semilogy(result.loss[0, index, :80], label=f"γ = {gamma:g}")
        curvature.plot(result.curvature[0, index, :80])
    loss.legend(fontsize=7)
    peaks = np.median(result.loss.max(axis=-1), axis=0)
    peak.loglog(result.nonlinearities, peaks, "o")
    slope = peaks[0] * (result.nonlinearities / result.nonlinearities[0]) ** -2.0
    peak.loglog(result.nonlinearities, slope, label="γ⁻²", **THEORY)
    peak.set(xlabel="γ")
    peak.legend(fontsize=7)
    for index, ratio in enumerate(result.network_ratios):
        ends = np.median(result.network_ends[:, :, index], axis=0)
        end.semilogx(result.widths, ends, "o-", label=f"η = {ratio:g} η_crit")
    end.set(xlabel="width", ylim=(0, 1.1))
    end.legend(fontsize=7)
    return figure
