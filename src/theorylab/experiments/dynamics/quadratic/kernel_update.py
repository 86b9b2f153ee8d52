"""One step of any quadratic model moves its residuals and its kernel by known amounts.

A quadratic model that descends on ½‖r‖², with residuals r and tangent kernel K, moves by
r' = (I − ηK + R_f)r and K' = K − R_K with R_f = ½η²GJᵀ and R_K = η(GJᵀ + JGᵀ) − η²GGᵀ, where J is
the Jacobian and row i of G is the Hessian of output i times Jᵀr. The source prints ¼η(4GJᵀ − ηGGᵀ)
for R_K. A Taylor expansion of first order errs by O(ε²) at distance ε, one of second order by
O(ε³). `quadratic/remainder` shows what R_f and R_K do in a catapult.

Source: zhu · nqm-general-dynamics · Eqs 3.15–3.16; zhu · taylor-models · Eqs 3.1–3.2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from theorylab.claims import Source, at_least, exponent_between, identity
from theorylab.dynamics.quadratic import kernel_steps
from theorylab.experiments.drawing import agreement, label_axes, panels, scaling
from theorylab.fields import Seeded
from theorylab.models import linearize, mlp, network, quadratize
from theorylab.progress import report
from theorylab.training import squared
from theorylab.typing import Measured, RandomKey, Scalar

PRECISION = "float64"
FORMULA = (
    r"r' = (I - \eta K + \tfrac12 \eta^2 G J^T)\, r, \quad"
    r" K' = K - \eta (G J^T + J G^T) + \eta^2 G G^T"
)

UPDATE = Source("zhu", "nqm-general-dynamics", "Eqs 3.15–3.16")
TAYLOR = Source("zhu", "taylor-models", "Eqs 3.1–3.2")

LOSS = squared("half_sum")
SMALL_NETWORK, SMALL_INPUTS, SMALL_SAMPLES = mlp([8, 6], 2, "tanh"), 3, 4
SIZES = np.logspace(-3, -2, 5)  # distances at which Taylor expansions are compared


@dataclass(frozen=True)
class Config(Seeded):
    """Small tanh networks, each with data of its own."""


PRESETS = {"smoke": Config(num_seeds=6), "paper": Config(num_seeds=100)}


class Result(NamedTuple):
    """Axes: s seeds, z distances, q outputs of all samples."""

    first_order: Float[Measured, "*s z"]  # ‖f − f_lin‖ over the distance
    second_order: Float[Measured, "*s z"]  # ‖f − f_quad‖
    bend: Float[Measured, "*s z"]  # ‖f_quad − f_lin‖
    residual: Float[Measured, "*s q"]  # after a step of the quadratic model
    predicted_residual: Float[Measured, "*s q"]
    linear_residual: Float[Measured, "*s q"]  # without R_f
    kernel: Float[Measured, "*s q q"]
    predicted_kernel: Float[Measured, "*s q q"]
    printed_kernel: Float[Measured, "*s q q"]


def run(config: Config) -> Result:
    """Expand every network, and take a step."""
    report("one step of small models", 0.0)
    small_key, _, _ = jax.random.split(jax.random.key(config.seed), 3)
    return _measured(jax.random.split(small_key, config.num_seeds))


@jax.jit
@jax.vmap
def _measured(key: RandomKey) -> Result:
    """Taylor expansions of a small tanh network, and a step of its quadratic model."""
    model = network(SMALL_NETWORK, (SMALL_INPUTS,))
    params_key, direction_key, data_key = jax.random.split(key, 3)
    params, direction = model.init(params_key), model.init(direction_key)
    samples = jax.random.normal(data_key, (SMALL_SAMPLES * (SMALL_INPUTS + 2),))
    samples = samples.reshape(SMALL_SAMPLES, -1)
    x, y = samples[:, :SMALL_INPUTS], samples[:, SMALL_INPUTS:]
    linear, quadratic = (expand(model.apply, params) for expand in (linearize, quadratize))

    def errors(size: Scalar) -> tuple[Array, Array, Array]:
        moved = jax.tree.map(lambda p, d: p + size * d, params, direction)
        f, f_lin, f_quad = (each(moved, x) for each in (model.apply, linear, quadratic))
        return tuple(jnp.linalg.norm(part) for part in (f - f_lin, f - f_quad, f_quad - f_lin))

    first_order, second_order, bend = jax.lax.map(errors, jnp.asarray(SIZES))
    # The first step must not start at w₀, where a quadratic model has yet no curvature in use.
    there = jax.tree.map(lambda p, d: p + d / 2, params, direction)
    here = kernel_steps.derivatives(quadratic, there, x, y)
    rate = 3 / jnp.trace(here.jacobian @ here.jacobian.T)
    gradient = jax.grad(lambda w: LOSS(quadratic(w, x), y))(there)
    after = jax.tree.map(lambda w, g: w - rate * g, there, gradient)
    measured = kernel_steps.derivatives(quadratic, after, x, y)
    predicted = kernel_steps.step(here, rate)
    return Result(
        first_order=first_order,
        second_order=second_order,
        bend=bend,
        residual=measured.residual,
        predicted_residual=predicted.residual,
        linear_residual=here.residual - rate * here.jacobian @ here.jacobian.T @ here.residual,
        kernel=measured.jacobian @ measured.jacobian.T,
        predicted_kernel=predicted.kernel,
        printed_kernel=kernel_steps.printed_kernel(here, rate),
    )


CLAIMS = (
    UPDATE.claim(
        "Residuals of a quadratic model move by r' = (I − ηK + ½η²GJᵀ)r exactly.",
        lambda r, c: identity(r.predicted_residual, r.residual, 1e-8),
    ),
    UPDATE.control(
        "Without ½η²GJᵀ they are wrong by one in a hundred and more.",
        lambda r, c: at_least(
            np.abs(r.linear_residual - r.residual).max() / np.abs(r.residual).max(), 0.01
        ),
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
        quote="The dynamics equations take the following form",
    ),
    TAYLOR.check(
        "The linear model of a tanh network errs by the square of the distance.",
        lambda r, c: exponent_between(SIZES, r.first_order, 1.95, 2.05),
        formula=r"f - f_{\rm lin} = O(\epsilon^2)",
    ),
    TAYLOR.check(
        "Its error at the smallest distance is the quadratic term, to one in a hundred.",
        lambda r, c: identity(r.bend[:, 0] / r.first_order[:, 0], np.ones(len(r.bend)), 0.01),
    ),
    TAYLOR.check(
        "The quadratic model errs by the cube of the distance.",
        lambda r, c: exponent_between(SIZES, r.second_order, 2.9, 3.1),
        formula=r"f - f_{\rm quad} = O(\epsilon^3)",
    ),
)


def plot(result: Result, config: Config) -> Figure:
    """Draw entries of the kernel after a step, and errors of Taylor expansions."""
    figure, (kernel, taylor) = panels("K after a step", "errors of Taylor expansions")
    printed, corrected = result.printed_kernel, result.predicted_kernel
    agreement(
        kernel, {"as printed": (printed, result.kernel), "corrected": (corrected, result.kernel)}
    )
    scaling(taylor, SIZES, {"linear": result.first_order, "quadratic": result.second_order})
    label_axes(taylor, "distance ε")
    return figure
