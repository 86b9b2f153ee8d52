"""A nonlinear output keeps a wide network curved for ever, and does not keep it from learning.

With a function ψ on the output of a network f, the Hessian in the weights is

    ∇²ψ(f) = ψ″(f) ∇f ∇fᵀ + ψ′(f) ∇²f

The second term falls like one over the root of the width, as the network itself becomes linear.
The first does not, because ‖∇f‖² has a limit: the norm goes to |ψ″(f)| ‖∇f‖², wherever ψ″(f) is
not 0. Yet gradient descent fits as before: what it needs is a tangent kernel with positive
eigenvalues all the way, and not linearity.

Source: zhu · output-nonlinearity · 2.3, 2.4.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Claim, Source, exponent_between, holds, median_between
from theorylab.curvature import output_hessian, spectral_norm
from theorylab.data import sphere
from theorylab.dynamics import polyak_ratio
from theorylab.experiments.drawing import THEORY, panels
from theorylab.fields import Count, Increasing, Plural, Seeded
from theorylab.kernels import ntk
from theorylab.models.dag_builders import fully_connected
from theorylab.progress import report
from theorylab.training import dag_ensemble, descend, gradient_descent, logarithmic, squared
from theorylab.typing import Apply, RandomKey

PRECISION = "float32"
FORMULA = r"\|\nabla^2 \psi(f)\| \to |\psi''(f)| \, \|\nabla f\|^2"

CURVED = Source("zhu", "output-nonlinearity", "2.3")
FITS = Source("zhu", "output-nonlinearity", "2.4")

LOSS = squared("half_sum")


@dataclass(frozen=True)
class Config(Seeded):
    """Random fully connected tanh networks, with ψ = tanh on the output and without."""

    widths: Increasing[Count] = (64, 128, 256, 512, 1024)  # width m of every hidden layer
    depth: Plural = 3  # layers with weights L
    dimension: Count = 4  # inputs d
    output: float = 0.66  # where ψ is evaluated; at 0 its second derivative is 0
    num_seeds: Count = 16  # random networks at each width
    num_steps: Count = 16  # products with the Hessian for one norm
    num_samples: Count = 4  # points that are learned
    num_descent: Count = 2000  # steps of gradient descent; after 600 one loss in all is above 0.001
    num_records: Count = 8  # times at which the kernel is looked at, geometric

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.1 <= abs(self.output) <= 2:
            raise ValueError(
                f"output must be 0.1 to 2 in magnitude, where tanh is curved, got {self.output}."
            )


PRESETS = {
    "smoke": Config(widths=(32, 200), num_seeds=24, num_steps=8, num_descent=600),
    "paper": Config(widths=(32, 64, 128, 256, 512, 1024, 2048), depth=4, num_steps=40),
}


class Result(NamedTuple):
    """Axes: s seeds, w widths."""

    linear_norm: Float[np.ndarray, "s w"]  # ‖∇²f‖
    curved_norm: Float[np.ndarray, "s w"]  # ‖∇²ψ(f)‖
    formula: Float[np.ndarray, "s w"]  # |ψ″(f)| ‖∇f‖²
    inflection_norm: Float[np.ndarray, "s w"]  # ‖∇²ψ(f)‖ where f = 0 and ψ″ = 0
    last_loss: Float[np.ndarray, "s 2"]  # of ψ(f) trained, at the smallest and the largest width
    least: Float[np.ndarray, "s 2"]  # eigenvalue of the kernel of ψ(f) on the way
    margins: Float[np.ndarray, "s 2"]  # least of ‖∇𝓛‖²/2𝓛 − λ_min(K) on the way, over λ_max(K₀)


class Fit(NamedTuple):
    """What is measured of one network in training."""

    last_loss: Float[Array, ""]
    least: Float[Array, ""]
    margin: Float[Array, ""]


class Norms(NamedTuple):
    """What is measured of one network before training."""

    linear: Float[Array, ""]
    curved: Float[Array, ""]
    formula: Float[Array, ""]
    inflection: Float[Array, ""]


def memory(config: Config) -> int:
    """Bytes of one network's Lanczos basis on each of two cores, and of the wirings."""
    widest = max(config.widths)
    weights = widest * (widest * (config.depth - 1) + config.dimension)
    wirings = 4 * config.num_seeds * len(config.widths) * weights
    return 8 * (config.num_steps + 8) * weights + wirings


def run(config: Config) -> Result:
    """Measure Hessians with and without ψ, then train with ψ."""
    report("networks with and without a nonlinear output", 0.05)
    x_key, norm_key, train_key = jax.random.split(jax.random.key(config.seed), 3)
    x = sphere(x_key, config.num_samples, config.dimension, radius=config.dimension**0.5)
    shape = (config.num_seeds, len(config.widths))
    hidden = config.depth - 1
    graphs = config.num_seeds * [
        fully_connected(config.dimension, [width] * hidden, activation="tanh")
        for width in config.widths
    ]
    keys = jax.random.split(norm_key, len(graphs))
    norms = dag_ensemble(_measured(x[0], config.output, config.num_steps), graphs, keys)
    report("gradient descent", 0.8)
    ends = (config.widths[0], config.widths[-1])
    both = [graph for graph in graphs if graph.width in ends]
    keys = jax.random.split(train_key, len(both))
    fits: Fit = dag_ensemble(_trained(x, config.num_descent, config.num_records), both, keys)
    last_loss, least, margins = (np.asarray(each).reshape(-1, 2) for each in fits)
    return Result(
        linear_norm=norms.linear.reshape(shape),
        curved_norm=norms.curved.reshape(shape),
        formula=norms.formula.reshape(shape),
        inflection_norm=norms.inflection.reshape(shape),
        last_loss=last_loss,
        least=least,
        margins=margins,
    )


def _measured(x: Float[Array, " d"], output: float, num_steps: int):
    """Norms of ∇²f and ∇²ψ(f), the output moved by a constant to where ψ is to be evaluated."""

    def one(apply: Apply, weights: Float[Array, " p"], key: RandomKey) -> Norms:
        value = apply(weights, x[None])
        slope = jax.grad(lambda w: apply(w, x[None])[0, 0])(weights)

        def norm(strength_and_place: Float[Array, " 2"]) -> Float[Array, ""]:
            strength, place = strength_and_place

            def psi(w: Float[Array, " p"], x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
                moved = apply(w, x) - value + place
                return strength * jnp.tanh(moved) + (1 - strength) * moved

            return spectral_norm(output_hessian(psi, weights, x), weights, key, num_steps).value

        linear, curved, inflection = jax.lax.map(
            norm, jnp.array([[0.0, output], [1.0, output], [1.0, 0.0]])
        )
        second = jax.grad(jax.grad(jnp.tanh))(output)
        return Norms(linear, curved, jnp.abs(second) * jnp.vdot(slope, slope), inflection)

    return one


def _trained(x: Float[Array, "n d"], num_steps: int, num_records: int):
    """Gradient descent on tanh(f) with η = 1/λ_max of the tangent kernel, and PL* on the way."""
    y = 0.5 * jnp.sign(x[:, :1] + 1e-9)
    steps = logarithmic(num_steps, num_records)

    def one(apply: Apply, weights: Float[Array, " p"], key: RandomKey) -> Fit:
        def bent(w: Float[Array, " p"], x: Float[Array, "n d"]) -> Float[Array, "n 1"]:
            return jnp.tanh(apply(w, x))

        def eigenvalues(w: Float[Array, " p"]) -> Float[Array, " n"]:
            return jnp.linalg.eigvalsh(ntk(bent, w, x, method="jacobian"))

        def objective(w: Float[Array, " p"]) -> Float[Array, ""]:
            return LOSS(bent(w, x), y)

        def measure(w: Float[Array, " p"]) -> tuple[Float[Array, ""], ...]:
            loss, slope = jax.value_and_grad(objective)(w)
            least = eigenvalues(w)[0]
            return loss, least, jnp.asarray(polyak_ratio(jnp.vdot(slope, slope), loss)) - least

        top = eigenvalues(weights)[-1]
        losses, least, margins = descend(
            objective, weights, gradient_descent(1 / top), steps, measure
        ).records
        # Below 1e-9 the loss is rounding, and its ratio with it.
        sure = jnp.where(losses > 1e-9, margins, 0.0)
        return Fit(losses[-1], least.min(), sure.min() / top)

    return one


# The intervals that the catalogue states.
CLAIMS = (
    Claim(
        "With a nonlinear output the Hessian is as large at every width.",
        judge=lambda r, c: exponent_between(c.widths, r.curved_norm, -0.1, 0.1),
        source=CURVED,
        formula=r"\|\nabla^2 \psi(f)\| = \Theta(1)",
    ),
    Claim(
        "At the largest width its norm is |ψ″(f)| ‖∇f‖², within a tenth.",
        judge=lambda r, c: median_between(r.curved_norm[:, -1] / r.formula[:, -1], 0.9, 1.1),
        source=CURVED,
        formula=r"\|\nabla^2 \psi(f)\| \to |\psi''(f)| \, \|\nabla f\|^2",
    ),
    Claim(
        "With the identity it falls like one over the root of the width.",
        judge=lambda r, c: exponent_between(c.widths, r.linear_norm, -0.65, -0.35),
        source=CURVED,
        kind="control",
    ),
    Claim(
        "Where the second derivative of ψ is 0, it falls with ψ too.",
        judge=lambda r, c: exponent_between(c.widths, r.inflection_norm, -0.65, -0.35),
        source=CURVED,
        kind="control",
    ),
    Claim(
        "Gradient descent fits all the same, narrow and wide: every loss ends below 0.001.",
        judge=lambda r, c: holds(1e-3 - r.last_loss),
        source=FITS,
    ),
    Claim(
        "On the way ‖∇𝓛‖²/2𝓛 is at least the least eigenvalue of the kernel of ψ(f).",
        # To rounding of single precision, some units of λ_max.
        judge=lambda r, c: holds(r.margins, 1e-5),
        source=FITS,
        formula=r"\|\nabla \mathcal L\|^2 \ge 2 \lambda_{\min}(K) \mathcal L",
    ),
    Claim(
        "And that eigenvalue is positive all the way, in every network.",
        judge=lambda r, c: holds(r.least - 1e-6),
        source=FITS,
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Norms over widths, and the norm over its formula."""
    figure, (norms, ratio) = panels("Hessian norm over width", "norm / |ψ″| ‖∇f‖²")
    for label, each in (
        ("ψ = tanh", result.curved_norm),
        ("identity", result.linear_norm),
        ("ψ = tanh at 0", result.inflection_norm),
    ):
        norms.loglog(config.widths, np.median(each, axis=0), "o-", markersize=3, label=label)
    norms.loglog(config.widths, np.median(result.formula, axis=0), **THEORY, label="|ψ″| ‖∇f‖²")
    norms.legend(fontsize=7)
    ratio.semilogx(config.widths, (result.curved_norm / result.formula).T, "o", markersize=3)
    ratio.axhline(1.0, **THEORY)
    for axis in (norms, ratio):
        axis.set_xlabel("width m")
    return figure
